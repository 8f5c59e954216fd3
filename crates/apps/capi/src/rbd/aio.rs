//! Asynchronous reads and changes of an image's data, and their completions (`rbd_completion_t`).

use std::ffi::{c_char, c_int, c_void};

use az::SaturatingAs as _;
use bytes::{Bytes, BytesMut};
use loligo_wire::Errno;
use loligo_wire::crc::crc32c;

use super::image::ImageHandle;
use super::io::{compare_and_write, discard, read, write, write_same, write_zeroes};
use super::uses::InUse;
use crate::border::{Fail, Lent, calls, plain};
use crate::completion::{self, Callback, Completion, Outcome};
use crate::memory::{array, copy_to, put, range};

/// Submits an operation on an image; its result is the value for `get_return_value`.
///
/// # Safety
/// `image` is a handle and `completion` is the program's.
unsafe fn submit<F>(
    image: *mut c_void,
    completion: *mut c_void,
    operation: impl FnOnce(InUse) -> F,
) -> Result<c_int, Fail>
where
    F: Future<Output = Result<i64, Fail>> + Send + 'static,
{
    // SAFETY: by this function's contract.
    let handle = unsafe { ImageHandle::of(image) }?;
    let operation = operation(handle.data()?);
    let operation =
        async move { operation.await.map_or_else(Outcome::failed, |value| Outcome { value, version: 0 }) };
    let (told, held) = (handle.events.teller(), handle.client.begin());
    // SAFETY: by this function's contract.
    unsafe { completion::submit(completion, &handle.strand, told, held, operation) }
}

/// The caller's pieces of memory, as far as they are of use.
///
/// # Errors
/// EINVAL for a negative count, and for lengths whose sum no memory has.
///
/// # Safety
/// There are `count` pieces.
unsafe fn pieces(vector: *const libc::iovec, count: c_int) -> Result<Vec<(Lent<c_char>, usize)>, Fail> {
    let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
    // SAFETY: by this function's contract.
    let vector = unsafe { array(vector, count) };
    let sum = vector.iter().try_fold(0usize, |sum, piece| sum.checked_add(piece.iov_len));
    if sum.is_none_or(|sum| sum > isize::MAX as usize) {
        return Err(Errno::EINVAL.into());
    }
    Ok(vector.iter().map(|piece| (Lent(piece.iov_base.cast()), piece.iov_len)).collect())
}

/// Copies the data of pieces of memory.
///
/// # Safety
/// The pieces can be read.
unsafe fn gathered(pieces: &[(Lent<c_char>, usize)]) -> Bytes {
    let mut data = BytesMut::with_capacity(pieces.iter().map(|(_, len)| len).sum());
    for (from, len) in pieces {
        // SAFETY: by this function's contract.
        data.extend_from_slice(unsafe { range(from.0, *len) });
    }
    data.freeze()
}

/// Reads into pieces of memory.
///
/// # Safety
/// As `rbd_aio_readv`: the pieces can be written until the completion is complete.
unsafe fn read_to(
    image: *mut c_void,
    offset: u64,
    to: Vec<(Lent<c_char>, usize)>,
    completion: *mut c_void,
) -> Result<c_int, Fail> {
    let len = to.iter().map(|(_, len)| *len as u64).sum();
    let operation = move |image: InUse| async move {
        let data = read(&image, offset, len).await?;
        let mut rest = &data[..];
        for (to, len) in to {
            let (piece, behind) = rest.split_at(len.min(rest.len()));
            // SAFETY: by this function's contract.
            unsafe { copy_to(to.0, piece) };
            rest = behind;
        }
        Ok(data.len().saturating_as::<i64>())
    };
    // SAFETY: by this function's contract.
    unsafe { submit(image, completion, operation) }
}

/// Writes copied data.
///
/// # Safety
/// As [`submit`].
unsafe fn write_data(
    image: *mut c_void,
    offset: u64,
    data: Bytes,
    completion: *mut c_void,
) -> Result<c_int, Fail> {
    let operation = move |image: InUse| async move { write(&image, offset, data).await.map(|_| 0) };
    // SAFETY: by this function's contract.
    unsafe { submit(image, completion, operation) }
}

/// Writes data if the image has what is expected.
///
/// # Safety
/// As [`submit`]; `mismatch` can be written until the completion is complete, or is NULL.
unsafe fn swap(
    image: *mut c_void,
    offset: u64,
    (expected, data): (Bytes, Bytes),
    completion: *mut c_void,
    mismatch: *mut u64,
) -> Result<c_int, Fail> {
    let place = Lent(mismatch);
    let operation = move |image: InUse| async move {
        let place = place;
        match compare_and_write(&image, offset, expected, data).await {
            Ok(_) => Ok(0),
            Err((why, at)) => {
                if let Some(at) = at {
                    // SAFETY: by this function's contract.
                    unsafe { put(place.0, at) };
                }
                Err(why)
            }
        }
    };
    // SAFETY: by this function's contract.
    unsafe { submit(image, completion, operation) }
}

calls! {
    /// Creates a completion.
    fn rbd_aio_create_completion(
        arg: *mut c_void, callback: Option<Callback>, to: *mut *mut c_void,
    ) -> c_int {
        put(to, Completion::create(arg, [callback, None]).cast());
        Ok(0)
    }

    /// Whether the operation is complete.
    fn rbd_aio_is_complete(completion: *mut c_void) -> c_int {
        Ok(Completion::of(completion)?.is_complete().into())
    }

    /// Waits until the operation is complete and its callback has returned.
    fn rbd_aio_wait_for_complete(completion: *mut c_void) -> c_int {
        Completion::of(completion)?.wait_told();
        Ok(0)
    }

    /// The operation's result.
    fn rbd_aio_get_return_value(completion: *mut c_void) -> isize {
        Ok(Completion::of(completion)?.value().saturating_as::<isize>())
    }

    /// Reads; the value is how many bytes.
    fn rbd_aio_read(
        image: *mut c_void, offset: u64, len: usize, to: *mut c_char, completion: *mut c_void,
    ) -> c_int {
        read_to(image, offset, vec![(Lent(to), len)], completion)
    }

    /// Reads; the flags are hints.
    fn rbd_aio_read2(
        image: *mut c_void, offset: u64, len: usize, to: *mut c_char, completion: *mut c_void,
        _flags: c_int,
    ) -> c_int {
        read_to(image, offset, vec![(Lent(to), len)], completion)
    }

    /// Reads into several pieces of memory.
    fn rbd_aio_readv(
        image: *mut c_void, vector: *const libc::iovec, count: c_int, offset: u64,
        completion: *mut c_void,
    ) -> c_int {
        read_to(image, offset, pieces(vector, count)?, completion)
    }

    /// Writes.
    fn rbd_aio_write(
        image: *mut c_void, offset: u64, len: usize, data: *const c_char, completion: *mut c_void,
    ) -> c_int {
        write_data(image, offset, Bytes::copy_from_slice(range(data, len)), completion)
    }

    /// Writes; the flags are hints.
    fn rbd_aio_write2(
        image: *mut c_void, offset: u64, len: usize, data: *const c_char, completion: *mut c_void,
        _flags: c_int,
    ) -> c_int {
        write_data(image, offset, Bytes::copy_from_slice(range(data, len)), completion)
    }

    /// Writes data whose checksum is known; EINVAL if it is another one.
    fn rbd_aio_write_with_crc32c(
        image: *mut c_void, offset: u64, len: usize, data: *const c_char, checksum: u32,
        completion: *mut c_void, _flags: c_int,
    ) -> c_int {
        let data = range(data, len);
        if crc32c(u32::MAX, data) != checksum {
            return Err(Errno::EINVAL.into());
        }
        write_data(image, offset, Bytes::copy_from_slice(data), completion)
    }

    /// Writes from several pieces of memory.
    fn rbd_aio_writev(
        image: *mut c_void, vector: *const libc::iovec, count: c_int, offset: u64,
        completion: *mut c_void,
    ) -> c_int {
        write_data(image, offset, gathered(&pieces(vector, count)?), completion)
    }

    /// Releases a range.
    fn rbd_aio_discard(image: *mut c_void, offset: u64, len: u64, completion: *mut c_void) -> c_int {
        let granularity = ImageHandle::of(image)?.granularity;
        submit(image, completion, move |image: InUse| async move {
            discard(&image, offset, len, granularity).await.map(|_| 0)
        })
    }

    /// Writes a pattern repeatedly.
    fn rbd_aio_writesame(
        image: *mut c_void, offset: u64, len: usize, data: *const c_char, data_len: usize,
        completion: *mut c_void, _flags: c_int,
    ) -> c_int {
        if data_len == 0 || !len.is_multiple_of(data_len) {
            return Err(Errno::EINVAL.into());
        }
        let pattern = Bytes::copy_from_slice(range(data, data_len));
        submit(image, completion, move |image: InUse| async move {
            write_same(&image, offset, len as u64, pattern).await.map(|_| 0)
        })
    }

    /// Zeroes a range.
    fn rbd_aio_write_zeroes(
        image: *mut c_void, offset: u64, len: usize, completion: *mut c_void, zero_flags: c_int,
        _flags: c_int,
    ) -> c_int {
        submit(image, completion, move |image: InUse| async move {
            write_zeroes(&image, offset, len as u64, zero_flags).await.map(|_| 0)
        })
    }

    /// Writes if the image has what is expected; EILSEQ, and where it differs, if not.
    fn rbd_aio_compare_and_write(
        image: *mut c_void, offset: u64, len: usize, expected: *const c_char, data: *const c_char,
        completion: *mut c_void, mismatch: *mut u64, _flags: c_int,
    ) -> isize {
        let copied = |from| Bytes::copy_from_slice(range(from, len));
        Ok(swap(image, offset, (copied(expected), copied(data)), completion, mismatch)? as isize)
    }

    /// Writes several pieces of memory if the image has what is expected.
    fn rbd_aio_compare_and_writev(
        image: *mut c_void, offset: u64, expected: *const libc::iovec, expected_count: c_int,
        data: *const libc::iovec, count: c_int, completion: *mut c_void, mismatch: *mut u64,
        _flags: c_int,
    ) -> isize {
        let both = (gathered(&pieces(expected, expected_count)?), gathered(&pieces(data, count)?));
        Ok(swap(image, offset, both, completion, mismatch)? as isize)
    }

    /// Makes all writes durable.
    fn rbd_aio_flush(image: *mut c_void, completion: *mut c_void) -> c_int {
        submit(image, completion, move |image: InUse| async move {
            image.flush().await?;
            Ok(0)
        })
    }
}

plain! {
    /// The program's argument.
    fn rbd_aio_get_arg(completion: *mut c_void) -> *mut c_void {
        Completion::of(completion).map_or(std::ptr::null_mut(), |completion| completion.arg.0)
    }

    /// Gives the completion back; the operation goes on.
    fn rbd_aio_release(completion: *mut c_void) -> () {
        if !completion.is_null() {
            Completion::release(completion.cast());
        }
    }
}
