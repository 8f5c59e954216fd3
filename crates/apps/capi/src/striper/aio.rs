//! Asynchronous operations on striped files. Their completions are those of librados.

use std::ffi::{c_char, c_int, c_void};
use std::time::SystemTime;

use loligo_stripe::{Error, Striper};

use super::handle::Files;
use super::io::{append, data_of, read, readable, write, write_full};
use crate::border::{Fail, Lent, calls};
use crate::completion::Outcome;
use crate::memory::{bytes, put, seconds, timespec};
use crate::rados::{give_output, submit, submit_write};

/// Submits a change of a file.
///
/// # Safety
/// The handle and the name are valid, and `completion` is the program's.
unsafe fn change<F>(
    striper: *mut c_void,
    file: *const c_char,
    completion: *mut c_void,
    operation: impl FnOnce(Striper, Vec<u8>) -> F,
) -> Result<c_int, Fail>
where
    F: Future<Output = Result<(), Error>> + Send + 'static,
{
    // SAFETY: by this function's contract.
    let (files, file) = unsafe { (Files::of(striper)?, bytes(file)?.to_vec()) };
    let changing = operation(files.striper()?, file);
    let operation = async move { changing.await.map_or_else(Outcome::failed, |()| Outcome::default()) };
    // SAFETY: by this function's contract.
    unsafe { submit_write(&files.pool, completion, operation) }
}

/// Reads size and time, and stores the time in the form that the program knows.
///
/// # Safety
/// As [`change`]; the places can be written until the operation is complete, or are NULL.
unsafe fn stat<T: 'static>(
    striper: *mut c_void,
    file: *const c_char,
    completion: *mut c_void,
    (size, time): (*mut u64, *mut T),
    form: fn(SystemTime) -> T,
) -> Result<c_int, Fail> {
    // SAFETY: by this function's contract.
    let (files, file) = unsafe { (Files::of(striper)?, bytes(file)?.to_vec()) };
    let (striper, places) = (files.striper()?, (Lent(size), Lent(time)));
    let operation = async move {
        let places = places;
        match striper.stat(file).await {
            Ok(found) => {
                // SAFETY: by this function's contract.
                unsafe {
                    put(places.0.0, found.size);
                    put(places.1.0, form(found.mtime));
                }
                Outcome::default()
            }
            Err(why) => Outcome::failed(why),
        }
    };
    // SAFETY: by this function's contract.
    unsafe { submit(&files.pool.client, completion, operation) }
}

calls! {
    /// Writes.
    fn rados_striper_aio_write(
        striper: *mut c_void, file: *const c_char, completion: *mut c_void, data: *const c_char, len: usize,
        offset: u64,
    ) -> c_int {
        let data = data_of(data, len);
        change(striper, file, completion, move |striper, file| write(striper, file, offset, data))
    }

    /// Writes at a file's end.
    fn rados_striper_aio_append(
        striper: *mut c_void, file: *const c_char, completion: *mut c_void, data: *const c_char, len: usize,
    ) -> c_int {
        let data = data_of(data, len);
        change(striper, file, completion, move |striper, file| append(striper, file, data))
    }

    /// Replaces a file's data.
    fn rados_striper_aio_write_full(
        striper: *mut c_void, file: *const c_char, completion: *mut c_void, data: *const c_char, len: usize,
    ) -> c_int {
        let data = data_of(data, len);
        change(striper, file, completion, move |striper, file| write_full(striper, file, data))
    }

    /// Removes a file.
    fn rados_striper_aio_remove(
        striper: *mut c_void, file: *const c_char, completion: *mut c_void,
    ) -> c_int {
        change(striper, file, completion, |striper, file| async move { striper.remove(file).await })
    }

    /// Reads; the value is how many bytes.
    fn rados_striper_aio_read(
        striper: *mut c_void, file: *const c_char, completion: *mut c_void, to: *mut c_char, len: usize,
        offset: u64,
    ) -> c_int {
        let files = Files::of(striper)?;
        let reading = read(files.striper()?, bytes(file)?.to_vec(), offset, readable(len)?);
        let to = Lent(to);
        submit(&files.pool.client, completion, async move {
            let to = to;
            let given = match reading.await {
                // SAFETY: the program keeps the memory until the operation is complete.
                Ok(data) => unsafe { give_output(to.0, len, &data) },
                Err(why) => Err(why.into()),
            };
            given.map_or_else(Outcome::failed, |count| Outcome { value: count.into(), version: 0 })
        })
    }

    /// Reads size and time, in seconds.
    fn rados_striper_aio_stat(
        striper: *mut c_void, file: *const c_char, completion: *mut c_void, size: *mut u64,
        time: *mut libc::time_t,
    ) -> c_int {
        stat(striper, file, completion, (size, time), seconds)
    }

    /// Reads size and time.
    fn rados_striper_aio_stat2(
        striper: *mut c_void, file: *const c_char, completion: *mut c_void, size: *mut u64,
        time: *mut libc::timespec,
    ) -> c_int {
        stat(striper, file, completion, (size, time), timespec)
    }
}
