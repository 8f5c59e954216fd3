//! Synchronous reads and changes of an image's data.

use std::ffi::{c_char, c_int, c_void};

use az::SaturatingAs as _;
use bytes::Bytes;
use loligo_rbd::{Error, Image};
use loligo_wire::Errno;

use super::image::ImageHandle;
use crate::border::{Fail, calls};
use crate::memory::{copy_to, put, range};

/// The part of a range that lies within the image.
///
/// # Errors
/// EINVAL if it begins behind the end.
pub(super) fn clipped(image: &Image, offset: u64, len: u64) -> Result<u64, Fail> {
    let size = image.size();
    if len > 0 && offset >= size {
        return Err(Errno::EINVAL.into());
    }
    Ok(len.min(size - offset.min(size)))
}

/// Reads a range, clipped.
pub(super) async fn read(image: &Image, offset: u64, len: u64) -> Result<Bytes, Fail> {
    let len = clipped(image, offset, len)?;
    Ok(image.read(offset, len).await?)
}

/// Writes data, clipped; returns how many bytes.
pub(super) async fn write(image: &Image, offset: u64, data: Bytes) -> Result<u64, Fail> {
    let len = clipped(image, offset, data.len() as u64)?;
    image.write(offset, data.slice(..len.saturating_as::<usize>())).await?;
    Ok(len)
}

/// Releases the whole multiples of `granularity` in a range, clipped; returns how many bytes the range has.
pub(super) async fn discard(image: &Image, offset: u64, len: u64, granularity: u64) -> Result<u64, Fail> {
    let len = clipped(image, offset, len)?;
    let end = offset + len;
    // What is behind the image's end counts as released.
    let is_last = end == image.size();
    // A configuration may ask for multiples that are larger than any image.
    let start = offset.checked_next_multiple_of(granularity).unwrap_or(end);
    let stop = end / granularity * granularity;
    let stop = if is_last { end } else { stop };
    if start < stop {
        image.discard(start, stop - start).await?;
    } else if !image.is_lock_owner() {
        // A change all the same: it takes the lock.
        image.acquire_lock().await?;
    }
    Ok(len)
}

/// Zeroes a range, clipped; writes the zeros if space is to be allocated.
pub(super) async fn write_zeroes(image: &Image, offset: u64, len: u64, flags: c_int) -> Result<u64, Fail> {
    const THICK_PROVISION: c_int = 1;
    /// The zeros that one piece of a write shares.
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    if flags & !THICK_PROVISION != 0 {
        return Err(Errno::EINVAL.into());
    }
    let len = clipped(image, offset, len)?;
    if flags & THICK_PROVISION == 0 {
        image.write_zeroes(offset, len).await?;
        return Ok(len);
    }
    let mut at = 0;
    while at < len {
        let piece = (len - at).min(4 << 20);
        let unit = ZEROS.len() as u64;
        if piece % unit == 0 {
            image.write_same(offset + at, piece, Bytes::from_static(&ZEROS)).await?;
        } else {
            image.write(offset + at, Bytes::from(vec![0; piece as usize])).await?;
        }
        at += piece;
    }
    Ok(len)
}

/// Writes a pattern repeatedly, clipped.
pub(super) async fn write_same(image: &Image, offset: u64, len: u64, pattern: Bytes) -> Result<u64, Fail> {
    if pattern.is_empty() || len == 0 || !len.is_multiple_of(pattern.len() as u64) {
        return Err(Errno::EINVAL.into());
    }
    let len = clipped(image, offset, len)?;
    image.write_same(offset, len, pattern).await?;
    Ok(len)
}

/// Writes data if the image has what is expected; tells where it differs.
pub(super) async fn compare_and_write(
    image: &Image,
    offset: u64,
    expected: Bytes,
    data: Bytes,
) -> Result<u64, (Fail, Option<u64>)> {
    let len = data.len() as u64;
    match image.compare_and_write(offset, expected, data).await {
        Ok(()) => Ok(len),
        Err(Error::Mismatch(at)) => Err((Errno::EILSEQ.into(), Some(at))),
        Err(why) => Err((why.into(), None)),
    }
}

/// A count as the C interface returns it.
fn counted(count: u64) -> Result<isize, Fail> {
    isize::try_from(count).map_err(|_| Errno::ERANGE.into())
}

/// Reads into the caller's memory.
///
/// # Safety
/// As `rbd_read`.
unsafe fn read_to(image: *mut c_void, offset: u64, len: usize, to: *mut c_char) -> Result<isize, Fail> {
    // SAFETY: by this function's contract.
    let image = unsafe { ImageHandle::of(image) }?.data()?;
    let data = ImageHandle::run(read(&image, offset, len as u64))?;
    // SAFETY: no more than `len` bytes were read.
    unsafe { copy_to(to, &data) };
    counted(data.len() as u64)
}

/// Writes the caller's data.
///
/// # Safety
/// As `rbd_write`.
unsafe fn write_from(
    image: *mut c_void,
    offset: u64,
    len: usize,
    data: *const c_char,
) -> Result<isize, Fail> {
    // SAFETY: by this function's contract.
    let (image, data) = unsafe { (ImageHandle::of(image)?.image(), range(data, len)) };
    counted(ImageHandle::run(write(&image, offset, Bytes::copy_from_slice(data)))?)
}

calls! {
    /// Reads; returns how many bytes.
    fn rbd_read(image: *mut c_void, offset: u64, len: usize, to: *mut c_char) -> isize {
        read_to(image, offset, len, to)
    }

    /// Reads; the flags are hints.
    fn rbd_read2(image: *mut c_void, offset: u64, len: usize, to: *mut c_char, _flags: c_int) -> isize {
        read_to(image, offset, len, to)
    }

    /// Writes; returns how many bytes.
    fn rbd_write(image: *mut c_void, offset: u64, len: usize, data: *const c_char) -> isize {
        write_from(image, offset, len, data)
    }

    /// Writes; the flags are hints.
    fn rbd_write2(
        image: *mut c_void, offset: u64, len: usize, data: *const c_char, _flags: c_int,
    ) -> isize {
        write_from(image, offset, len, data)
    }

    /// Releases a range; returns how many bytes.
    fn rbd_discard(image: *mut c_void, offset: u64, len: u64) -> c_int {
        let handle = ImageHandle::of(image)?;
        let image = handle.image();
        if len > c_int::MAX as u64 {
            return Err(Errno::EINVAL.into());
        }
        let discarded = ImageHandle::run(discard(&image, offset, len, handle.granularity))?;
        Ok(discarded.saturating_as::<c_int>())
    }

    /// Writes a pattern repeatedly; returns how many bytes.
    fn rbd_writesame(
        image: *mut c_void, offset: u64, len: usize, data: *const c_char, data_len: usize, _flags: c_int,
    ) -> isize {
        let image = ImageHandle::of(image)?.image();
        let pattern = Bytes::copy_from_slice(range(data, data_len));
        counted(ImageHandle::run(write_same(&image, offset, len as u64, pattern))?)
    }

    /// Zeroes a range; returns how many bytes.
    fn rbd_write_zeroes(
        image: *mut c_void, offset: u64, len: usize, zero_flags: c_int, _flags: c_int,
    ) -> isize {
        let image = ImageHandle::of(image)?.image();
        counted(ImageHandle::run(write_zeroes(&image, offset, len as u64, zero_flags))?)
    }

    /// Writes if the image has what is expected; EILSEQ, and where it differs, if not.
    fn rbd_compare_and_write(
        image: *mut c_void, offset: u64, len: usize, expected: *const c_char, data: *const c_char,
        mismatch: *mut u64, _flags: c_int,
    ) -> isize {
        let image = ImageHandle::of(image)?.image();
        let copied = |from| Bytes::copy_from_slice(range(from, len));
        let swapped = compare_and_write(&image, offset, copied(expected), copied(data));
        match crate::runtime::wait(swapped) {
            Ok(count) => counted(count),
            Err((why, at)) => {
                if let Some(at) = at {
                    put(mismatch, at);
                }
                Err(why)
            }
        }
    }

    /// Makes all writes durable.
    fn rbd_flush(image: *mut c_void) -> c_int {
        let image = ImageHandle::of(image)?.image();
        ImageHandle::run(image.flush())?;
        Ok(0)
    }
}
