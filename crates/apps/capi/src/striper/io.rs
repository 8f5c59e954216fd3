//! Synchronous operations on striped files, and what the asynchronous ones do.

use std::ffi::{c_char, c_int, c_void};

use bytes::Bytes;
use loligo_stripe::{Error, FileStat, Striper};
use loligo_wire::Errno;

use super::handle::Files;
use crate::border::{Fail, calls};
use crate::memory::{bytes, put, range, seconds, timespec};
use crate::rados::give_output;
use crate::runtime::wait;

/// Writes at an offset; a file that does not exist is created.
pub(super) async fn write(striper: Striper, file: Vec<u8>, offset: u64, data: Bytes) -> Result<(), Error> {
    let file = striper.open_or_create(file).await?;
    let written = file.write(offset, data).await.map_err(|why| why.source);
    file.close().await.and(written)
}

/// Writes at the end; a file that does not exist is created.
pub(super) async fn append(striper: Striper, file: Vec<u8>, data: Bytes) -> Result<(), Error> {
    let mut file = striper.open_or_create(file).await?;
    let written = file.append(data).await.map(drop).map_err(|why| why.source);
    file.close().await.and(written)
}

/// Replaces the data; a file that does not exist is created.
pub(super) async fn write_full(striper: Striper, file: Vec<u8>, data: Bytes) -> Result<(), Error> {
    match striper.truncate(&file, 0).await {
        Err(why) if !why.is_not_found() => return Err(why),
        _ => {}
    }
    write(striper, file, 0, data).await
}

/// Reads as much of a range as the file has.
pub(super) async fn read(striper: Striper, file: Vec<u8>, offset: u64, len: u64) -> Result<Bytes, Error> {
    let file = striper.open(file).await?;
    let data = file.read(offset, len).await.map_err(|why| why.source);
    let closed = file.close().await;
    let data = data?.into_bytes();
    closed.map(|()| data)
}

/// The data of a write, copied.
///
/// # Safety
/// `len` bytes can be read at `from`, or it is NULL.
pub(super) unsafe fn data_of(from: *const c_char, len: usize) -> Bytes {
    // SAFETY: by this function's contract.
    Bytes::copy_from_slice(unsafe { range(from, len) })
}

/// Checks the length of a read, which is returned as a number.
pub(super) fn readable(len: usize) -> Result<u64, Fail> {
    if len > c_int::MAX as usize { Err(Errno::EDOM.into()) } else { Ok(len as u64) }
}

/// # Safety
/// The handle and the name are valid.
unsafe fn stat(striper: *mut c_void, file: *const c_char) -> Result<FileStat, Fail> {
    // SAFETY: by this function's contract.
    let (files, file) = unsafe { (Files::of(striper)?, bytes(file)?) };
    Ok(wait(files.striper()?.stat(file))?)
}

calls! {
    /// Writes.
    fn rados_striper_write(
        striper: *mut c_void, file: *const c_char, data: *const c_char, len: usize, offset: u64,
    ) -> c_int {
        let files = Files::of(striper)?;
        wait(write(files.striper()?, bytes(file)?.to_vec(), offset, data_of(data, len)))?;
        Ok(0)
    }

    /// Replaces a file's data.
    fn rados_striper_write_full(
        striper: *mut c_void, file: *const c_char, data: *const c_char, len: usize,
    ) -> c_int {
        let files = Files::of(striper)?;
        wait(write_full(files.striper()?, bytes(file)?.to_vec(), data_of(data, len)))?;
        Ok(0)
    }

    /// Writes at a file's end.
    fn rados_striper_append(
        striper: *mut c_void, file: *const c_char, data: *const c_char, len: usize,
    ) -> c_int {
        let files = Files::of(striper)?;
        wait(append(files.striper()?, bytes(file)?.to_vec(), data_of(data, len)))?;
        Ok(0)
    }

    /// Reads; returns how many bytes.
    fn rados_striper_read(
        striper: *mut c_void, file: *const c_char, to: *mut c_char, len: usize, offset: u64,
    ) -> c_int {
        let files = Files::of(striper)?;
        let data = wait(read(files.striper()?, bytes(file)?.to_vec(), offset, readable(len)?))?;
        give_output(to, len, &data)
    }

    /// Removes a file; EBUSY while another client has it open.
    fn rados_striper_remove(striper: *mut c_void, file: *const c_char) -> c_int {
        wait(Files::of(striper)?.striper()?.remove(bytes(file)?))?;
        Ok(0)
    }

    /// Sets a file's size; EBUSY while another client has it open.
    fn rados_striper_trunc(striper: *mut c_void, file: *const c_char, size: u64) -> c_int {
        wait(Files::of(striper)?.striper()?.truncate(bytes(file)?, size))?;
        Ok(0)
    }

    /// Size and time of the last change of a file, in seconds.
    fn rados_striper_stat(
        striper: *mut c_void, file: *const c_char, size: *mut u64, time: *mut libc::time_t,
    ) -> c_int {
        let found = stat(striper, file)?;
        put(size, found.size);
        put(time, seconds(found.mtime));
        Ok(0)
    }

    /// Size and time of the last change of a file.
    fn rados_striper_stat2(
        striper: *mut c_void, file: *const c_char, size: *mut u64, time: *mut libc::timespec,
    ) -> c_int {
        let found = stat(striper, file)?;
        put(size, found.size);
        put(time, timespec(found.mtime));
        Ok(0)
    }
}
