//! Keys and values of images and of pools.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};

use bytes::Bytes;
use loligo_rbd::{Name, pools};
use loligo_wire::Errno;

use super::image::ImageHandle;
use crate::border::{Fail, calls};
use crate::memory::{bytes, ended, fill, optional_text};
use crate::rados::Pool;
use crate::runtime::wait;

/// Copies keys and values, each with a NUL, from behind `start` on.
///
/// # Safety
/// The lengths can be read and written, and tell the room of the places.
unsafe fn give_list(
    pairs: &BTreeMap<Name, Bytes>,
    (start, max): (&str, u64),
    keys: (*mut c_char, *mut usize),
    values: (*mut c_char, *mut usize),
) -> Result<c_int, Fail> {
    let limit = if max == 0 { usize::MAX } else { usize::try_from(max).unwrap_or(usize::MAX) };
    let behind = pairs.iter().filter(|(key, _)| start.is_empty() || key.as_bytes() > start.as_bytes());
    let (mut all_keys, mut all_values) = (Vec::new(), Vec::new());
    for (key, value) in behind.take(limit) {
        all_keys.extend_from_slice(&ended(key.as_bytes()));
        all_values.extend_from_slice(&ended(value));
    }
    // SAFETY: by this function's contract.
    unsafe {
        // Both lengths are told, also if only one list is too long.
        let filled = fill(keys.0, keys.1, &all_keys);
        fill(values.0, values.1, &all_values)?;
        filled?;
    }
    Ok(0)
}

calls! {
    /// Copies the value of a key.
    fn rbd_metadata_get(
        image: *mut c_void, key: *const c_char, to: *mut c_char, len: *mut usize,
    ) -> c_int {
        let image = ImageHandle::of(image)?.image();
        let pairs = ImageHandle::run(image.metadata())?;
        let value = pairs.get(bytes(key)?).ok_or(Errno::ENOENT)?;
        fill(to, len, &ended(value))?;
        Ok(0)
    }

    /// Sets a key.
    fn rbd_metadata_set(image: *mut c_void, key: *const c_char, value: *const c_char) -> c_int {
        let image = ImageHandle::of(image)?.image();
        let value = Bytes::copy_from_slice(bytes(value)?);
        ImageHandle::run(image.set_metadata(bytes(key)?, value))?;
        Ok(0)
    }

    /// Removes a key.
    fn rbd_metadata_remove(image: *mut c_void, key: *const c_char) -> c_int {
        let image = ImageHandle::of(image)?.image();
        ImageHandle::run(image.remove_metadata(bytes(key)?))?;
        Ok(0)
    }

    /// Lists keys and values.
    fn rbd_metadata_list(
        image: *mut c_void, start: *const c_char, max: u64, keys: *mut c_char, keys_len: *mut usize,
        values: *mut c_char, values_len: *mut usize,
    ) -> c_int {
        let image = ImageHandle::of(image)?.image();
        let pairs = ImageHandle::run(image.metadata())?;
        let start = optional_text(start)?.unwrap_or("");
        give_list(&pairs, (start, max), (keys, keys_len), (values, values_len))
    }

    /// Copies the value of a pool's key.
    fn rbd_pool_metadata_get(
        ioctx: *mut c_void, key: *const c_char, to: *mut c_char, len: *mut usize,
    ) -> c_int {
        let pairs = wait(pools::metadata(&Pool::of(ioctx)?.owned_io()))?;
        fill(to, len, &ended(pairs.get(bytes(key)?).ok_or(Errno::ENOENT)?))?;
        Ok(0)
    }

    /// Sets a pool's key.
    fn rbd_pool_metadata_set(ioctx: *mut c_void, key: *const c_char, value: *const c_char) -> c_int {
        let value = Bytes::copy_from_slice(bytes(value)?);
        wait(pools::set_metadata(&Pool::of(ioctx)?.owned_io(), bytes(key)?, value))?;
        Ok(0)
    }

    /// Removes a pool's key.
    fn rbd_pool_metadata_remove(ioctx: *mut c_void, key: *const c_char) -> c_int {
        wait(pools::remove_metadata(&Pool::of(ioctx)?.owned_io(), bytes(key)?))?;
        Ok(0)
    }

    /// Lists a pool's keys and values.
    fn rbd_pool_metadata_list(
        ioctx: *mut c_void, start: *const c_char, max: u64, keys: *mut c_char, keys_len: *mut usize,
        values: *mut c_char, values_len: *mut usize,
    ) -> c_int {
        let pairs = wait(pools::metadata(&Pool::of(ioctx)?.owned_io()))?;
        let start = optional_text(start)?.unwrap_or("");
        give_list(&pairs, (start, max), (keys, keys_len), (values, values_len))
    }
}
