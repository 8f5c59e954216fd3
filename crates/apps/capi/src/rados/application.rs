//! The applications of a pool.

use std::ffi::{c_char, c_int, c_void};

use loligo_wire::Errno;

use super::Pool;
use crate::border::calls;
use crate::memory::{ended, fill, joined, text};

calls! {
    /// Says which application uses the pool.
    fn rados_application_enable(ioctx: *mut c_void, name: *const c_char, force: c_int) -> c_int {
        let pool = Pool::of(ioctx)?;
        pool.run(pool.owned_io().enable_application(text(name)?, force != 0))?;
        Ok(0)
    }

    /// Lists the applications, each with a NUL.
    fn rados_application_list(ioctx: *mut c_void, to: *mut c_char, len: *mut usize) -> c_int {
        let pool = Pool::of(ioctx)?;
        let names = pool.run(pool.owned_io().applications())?;
        fill(to, len, &joined(&names))?;
        Ok(0)
    }

    /// Copies the value of an application's key.
    fn rados_application_metadata_get(
        ioctx: *mut c_void, name: *const c_char, key: *const c_char, to: *mut c_char, len: *mut usize,
    ) -> c_int {
        let pool = Pool::of(ioctx)?;
        let metadata = pool.run(pool.owned_io().application_metadata(text(name)?))?;
        let value = metadata.get(text(key)?).ok_or(Errno::ENOENT)?;
        fill(to, len, &ended(value.as_bytes()))?;
        Ok(0)
    }

    /// Sets the value of an application's key.
    fn rados_application_metadata_set(
        ioctx: *mut c_void, name: *const c_char, key: *const c_char, value: *const c_char,
    ) -> c_int {
        let pool = Pool::of(ioctx)?;
        let set = pool.owned_io();
        pool.run(set.set_application_metadata(text(name)?, text(key)?, text(value)?))?;
        Ok(0)
    }

    /// Removes a key of an application.
    fn rados_application_metadata_remove(
        ioctx: *mut c_void, name: *const c_char, key: *const c_char,
    ) -> c_int {
        let pool = Pool::of(ioctx)?;
        pool.run(pool.owned_io().remove_application_metadata(text(name)?, text(key)?))?;
        Ok(0)
    }

    /// Lists keys and values of an application, each with a NUL.
    fn rados_application_metadata_list(
        ioctx: *mut c_void, name: *const c_char, keys: *mut c_char, keys_len: *mut usize,
        values: *mut c_char, values_len: *mut usize,
    ) -> c_int {
        let pool = Pool::of(ioctx)?;
        let metadata = pool.run(pool.owned_io().application_metadata(text(name)?))?;
        let filled = fill(keys, keys_len, &joined(metadata.keys()));
        // Both lengths are told, also if only one list is too long.
        fill(values, values_len, &joined(metadata.values()))?;
        filled?;
        Ok(0)
    }
}
