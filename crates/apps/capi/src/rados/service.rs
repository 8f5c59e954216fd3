//! Registration as a daemon of a service.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};

use loligo_wire::Errno;

use super::Client;
use super::client::Service;
use crate::border::calls;
use crate::memory::text;

/// Reads `key NUL value NUL … NUL`.
///
/// # Safety
/// `texts` is NULL or such a sequence of C strings, ended by an empty one.
unsafe fn dictionary(mut texts: *const c_char) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    if texts.is_null() {
        return found;
    }
    loop {
        let mut next = || {
            // SAFETY: by this function's contract there is a C string, and another one or the end behind it.
            let text = unsafe { CStr::from_ptr(texts) };
            // SAFETY: as above.
            texts = unsafe { texts.add(text.count_bytes() + 1) };
            text.to_string_lossy().into_owned()
        };
        let key = next();
        if key.is_empty() {
            return found;
        }
        let value = next();
        found.insert(key, value);
    }
}

calls! {
    /// Registers this client as a daemon; before the client is connected, it is kept until it is.
    fn rados_service_register(
        cluster: *mut c_void, service: *const c_char, daemon: *const c_char, metadata: *const c_char,
    ) -> c_int {
        let client = Client::of(cluster)?;
        let (name, daemon) = (text(service)?.to_owned(), text(daemon)?.to_owned());
        let metadata = dictionary(metadata);
        let rados = {
            let mut known = client.service.lock();
            if known.is_some() {
                return Err(Errno::EEXIST.into());
            }
            let kept = Service { name: name.clone(), daemon: daemon.clone(), metadata: metadata.clone(), status: None };
            *known = Some(kept);
            client.rados().ok()
        };
        // Without the lock: a request is sent. A client that connects meanwhile found the service.
        let Some(rados) = rados else { return Ok(0) };
        if let Err(why) = rados.register_service(&name, &daemon, metadata) {
            *client.service.lock() = None;
            return Err(why.into());
        }
        Ok(0)
    }

    /// Replaces the daemon's status.
    fn rados_service_update_status(cluster: *mut c_void, status: *const c_char) -> c_int {
        let client = Client::of(cluster)?;
        let status = dictionary(status);
        let rados = {
            let mut known = client.service.lock();
            known.as_mut().ok_or(Errno::ENOTCONN)?.status = Some(status.clone());
            client.rados().ok()
        };
        if let Some(rados) = rados {
            rados.update_service_status(status)?;
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionaries_end_with_an_empty_key() {
        let bytes = b"a\0b\0c\0\0\0";
        // SAFETY: the texts end with an empty one.
        let found = unsafe { dictionary(bytes.as_ptr().cast()) };
        assert_eq!(found, [("a", "b"), ("c", "")].map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    }
}
