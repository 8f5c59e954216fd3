//! Advisory locks on objects.

use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

use loligo_rados::{EntityNum, EntityType, LockHolder, LockMode, LockOptions, OsdOp};
use loligo_wire::{Errno, Name, Writer};

use super::Pool;
use super::io::write;
use super::ioctx::text_or_empty;
use crate::border::{Fail, calls};
use crate::memory::{bytes, copy_to, ended, joined, put, text};

const MAY_RENEW: u8 = 1;
const MUST_RENEW: u8 = 2;

/// What `rados_lock_*` are given.
struct Terms<'a> {
    name: &'a [u8],
    cookie: &'a [u8],
    tag: &'a str,
    description: &'a str,
    duration: *const libc::timeval,
    flags: u8,
}

/// Locks an object.
///
/// # Safety
/// The pointers are valid, as for `rados_lock_exclusive`.
unsafe fn lock(
    ioctx: *mut c_void,
    oid: *const c_char,
    mode: LockMode,
    terms: &Terms<'_>,
) -> Result<c_int, Fail> {
    // SAFETY: by this function's contract.
    let (pool, oid, duration) = unsafe { (Pool::of(ioctx)?, bytes(oid)?, terms.duration.as_ref()) };
    let duration = duration.map(|duration| {
        let seconds = u64::try_from(duration.tv_sec).unwrap_or(0);
        Duration::from_secs(seconds) + Duration::from_micros(duration.tv_usec.try_into().unwrap_or(0))
    });
    let options = LockOptions {
        cookie: Name::from(terms.cookie),
        tag: Name::from(terms.tag),
        description: Name::from(terms.description),
        duration: duration.filter(|duration| !duration.is_zero()),
        renew: terms.flags & MAY_RENEW != 0,
    };
    let io = pool.owned_io();
    if terms.flags & MUST_RENEW != 0 {
        pool.run(io.renew_lock(oid, terms.name, mode, &options))?;
    } else {
        pool.run(io.lock(oid, terms.name, mode, &options))?;
    }
    Ok(0)
}

/// The operation that gives a lock back.
pub(super) fn unlock_op(name: &[u8], cookie: &[u8]) -> OsdOp {
    let mut input = Writer::new();
    input.versioned(1, 1, |w| {
        w.blob(name);
        w.blob(cookie);
    });
    OsdOp::call("lock", "unlock", &input.into_bytes())
}

/// A client's name as `list_lockers` gives it, such as `client.4123`.
pub(crate) fn client_of(name: &str) -> Result<EntityNum, Fail> {
    let num = name.strip_prefix("client.").and_then(|num| num.parse().ok()).ok_or(Errno::EINVAL)?;
    Ok(EntityNum { kind: EntityType::CLIENT, num })
}

/// A list for the caller: the place, and its length in and out.
pub(crate) type Place = (*mut c_char, *mut usize);

/// Copies the holders of a lock: ERANGE, with the lengths that are needed, if one list does not fit.
///
/// # Safety
/// The lengths can be read and written, and tell the room of the places.
pub(crate) unsafe fn give_holders(
    holders: &[LockHolder],
    tag: &str,
    tag_place: Place,
    lists: [Place; 3],
) -> Result<isize, Fail> {
    let contents = [
        ended(tag.as_bytes()),
        joined(holders.iter().map(|holder| holder.client.to_string())),
        joined(holders.iter().map(|holder| holder.cookie.to_string())),
        joined(holders.iter().map(|holder| holder.addr.to_string())),
    ];
    let places = [tag_place, lists[0], lists[1], lists[2]];
    // SAFETY: by this function's contract.
    unsafe {
        let is_short = places.iter().zip(&contents).any(|((_, len), content)| len.read() < content.len());
        for ((place, len), content) in places.into_iter().zip(&contents) {
            len.write(content.len());
            if !is_short {
                copy_to(place, content);
            }
        }
        if is_short {
            return Err(Errno::ERANGE.into());
        }
    }
    isize::try_from(holders.len()).map_err(|_| Errno::ERANGE.into())
}

calls! {
    /// Locks an object for this client alone.
    fn rados_lock_exclusive(
        ioctx: *mut c_void, oid: *const c_char, name: *const c_char, cookie: *const c_char,
        description: *const c_char, duration: *mut libc::timeval, flags: u8,
    ) -> c_int {
        let (name, cookie) = (bytes(name)?, bytes(cookie)?);
        let description = text_or_empty(description)?;
        let terms = Terms { name, cookie, tag: "", description, duration, flags };
        lock(ioctx, oid, LockMode::Exclusive, &terms)
    }

    /// Locks an object together with others that give the same tag.
    fn rados_lock_shared(
        ioctx: *mut c_void, oid: *const c_char, name: *const c_char, cookie: *const c_char,
        tag: *const c_char, description: *const c_char, duration: *mut libc::timeval, flags: u8,
    ) -> c_int {
        let (name, cookie) = (bytes(name)?, bytes(cookie)?);
        let (tag, description) = (text_or_empty(tag)?, text_or_empty(description)?);
        lock(ioctx, oid, LockMode::Shared, &Terms { name, cookie, tag, description, duration, flags })
    }

    /// Gives a lock back.
    fn rados_unlock(
        ioctx: *mut c_void, oid: *const c_char, name: *const c_char, cookie: *const c_char,
    ) -> c_int {
        write(Pool::of(ioctx)?, bytes(oid)?, unlock_op(bytes(name)?, bytes(cookie)?))
    }

    /// Takes a lock away from another client.
    fn rados_break_lock(
        ioctx: *mut c_void, oid: *const c_char, name: *const c_char, client: *const c_char,
        cookie: *const c_char,
    ) -> c_int {
        let pool = Pool::of(ioctx)?;
        let client = client_of(text(client)?)?;
        pool.run(pool.owned_io().break_lock(bytes(oid)?, bytes(name)?, client, bytes(cookie)?))?;
        Ok(0)
    }

    /// Lists the holders of a lock; returns their number.
    fn rados_list_lockers(
        ioctx: *mut c_void, oid: *const c_char, name: *const c_char, exclusive: *mut c_int,
        tag: *mut c_char, tag_len: *mut usize, clients: *mut c_char, clients_len: *mut usize,
        cookies: *mut c_char, cookies_len: *mut usize, addrs: *mut c_char, addrs_len: *mut usize,
    ) -> isize {
        let pool = Pool::of(ioctx)?;
        let info = pool.run(pool.owned_io().lock_info(bytes(oid)?, bytes(name)?))?;
        let lists = [(clients, clients_len), (cookies, cookies_len), (addrs, addrs_len)];
        let count = give_holders(&info.holders, &info.tag.to_string(), (tag, tag_len), lists)?;
        put(exclusive, (info.mode == Some(LockMode::Exclusive)).into());
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_have_numbers() {
        assert_eq!(client_of("client.4123").map(|client| client.num), Ok(4123));
        for wrong in ["client.x", "osd.1", "4123", ""] {
            assert_eq!(client_of(wrong), Err(Errno::EINVAL.into()), "{wrong}");
        }
    }
}
