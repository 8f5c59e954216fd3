//! The differences between two states of an image.

use std::ffi::{c_char, c_int, c_void};

use az::SaturatingAs as _;
use futures_util::StreamExt as _;
use loligo_rados::SnapId;
use loligo_rbd::diff::{Grain, Scope};
use loligo_rbd::{Image, Name};
use loligo_wire::Errno;

use super::image::ImageHandle;
use crate::border::{Fail, calls};
use crate::memory::optional_text;
use crate::runtime::wait;

/// Called for each range, in order.
type Callback = unsafe extern "C" fn(offset: u64, len: usize, exists: c_int, arg: *mut c_void) -> c_int;
/// Called for each range that is read; NULL is zeros.
type ReadCallback =
    unsafe extern "C" fn(offset: u64, len: usize, data: *const c_char, arg: *mut c_void) -> c_int;

/// Calls back for each difference within a range.
///
/// # Safety
/// The handle is valid, and the callback fits its argument.
unsafe fn iterate(
    image: *mut c_void,
    from: Option<SnapId>,
    scope: Scope,
    callback: Option<Callback>,
    arg: *mut c_void,
) -> Result<c_int, Fail> {
    let callback = callback.ok_or(Errno::EINVAL)?;
    // SAFETY: by this function's contract.
    let image = unsafe { ImageHandle::of(image) }?.image();
    let (offset, end) = (scope.range.start, scope.range.end);
    let mut changes = wait(image.diff_in(from, scope))?;
    while let Some(change) = wait(changes.next()) {
        let change = change?;
        let (start, stop) = (change.offset.max(offset), (change.offset + change.len).min(end));
        if start >= end {
            break;
        }
        if start >= stop {
            continue;
        }
        // SAFETY: by this function's contract.
        let said =
            unsafe { callback(start, (stop - start).saturating_as::<usize>(), change.exists.into(), arg) };
        if said < 0 {
            return Err(Fail(said));
        }
    }
    Ok(0)
}

/// The id of a snapshot that is named; NULL is none.
///
/// # Safety
/// The handle and the name are valid.
unsafe fn snapshot_of(image: *mut c_void, name: *const c_char) -> Result<Option<SnapId>, Fail> {
    // SAFETY: by this function's contract.
    let Some(name) = (unsafe { optional_text(name)? }) else { return Ok(None) };
    // SAFETY: by this function's contract.
    let image: &Image = &unsafe { ImageHandle::of(image) }?.image();
    ImageHandle::run(image.refresh())?;
    Ok(Some(image.view().snapshot(Name::from(name))?.info.id))
}

/// What is compared.
fn scope(offset: u64, len: u64, is_whole: bool, with_parent: bool) -> Scope {
    let grain = if is_whole { Grain::Objects } else { Grain::Bytes };
    Scope { grain, range: offset..offset.saturating_add(len), with_parent }
}

/// Reads a range piece by piece; returns how many bytes.
///
/// # Safety
/// As [`iterate`].
unsafe fn read_iterate(
    image: *mut c_void,
    offset: u64,
    len: u64,
    callback: Option<ReadCallback>,
    arg: *mut c_void,
) -> Result<u64, Fail> {
    let callback = callback.ok_or(Errno::EINVAL)?;
    // SAFETY: by this function's contract.
    let image = unsafe { ImageHandle::of(image) }?.image();
    let len = super::io::clipped(&image, offset, len)?;
    let object = 1u64 << image.order();
    let mut at = offset;
    while at < offset + len {
        let piece = (object - at % object).min(offset + len - at);
        let data = ImageHandle::run(image.read(at, piece))?;
        let is_hole = data.iter().all(|byte| *byte == 0);
        let start = if is_hole { std::ptr::null() } else { data.as_ptr().cast() };
        // SAFETY: by this function's contract; the data lives until the callback returns.
        let said = unsafe { callback(at, data.len(), start, arg) };
        if said < 0 {
            return Err(Fail(said));
        }
        at += piece;
    }
    Ok(len)
}

calls! {
    /// Calls back for each difference between a snapshot, or nothing, and what is open.
    fn rbd_diff_iterate(
        image: *mut c_void, from: *const c_char, offset: u64, len: u64, callback: Option<Callback>,
        arg: *mut c_void,
    ) -> c_int {
        let from = snapshot_of(image, from)?;
        iterate(image, from, scope(offset, len, false, true), callback, arg)
    }

    /// As `rbd_diff_iterate`; whole objects count if `whole` is set, and the parent's data if
    /// `include_parent` is.
    fn rbd_diff_iterate2(
        image: *mut c_void, from: *const c_char, offset: u64, len: u64, include_parent: u8, whole: u8,
        callback: Option<Callback>, arg: *mut c_void,
    ) -> c_int {
        let from = snapshot_of(image, from)?;
        iterate(image, from, scope(offset, len, whole != 0, include_parent != 0), callback, arg)
    }

    /// As `rbd_diff_iterate2`, with the snapshot's id, 0 for nothing, and flags.
    fn rbd_diff_iterate3(
        image: *mut c_void, from: u64, offset: u64, len: u64, flags: u32, callback: Option<Callback>,
        arg: *mut c_void,
    ) -> c_int {
        const INCLUDE_PARENT: u32 = 1;
        const WHOLE_OBJECT: u32 = 2;
        let from = (from != 0).then_some(SnapId(from));
        let scope = scope(offset, len, flags & WHOLE_OBJECT != 0, flags & INCLUDE_PARENT != 0);
        iterate(image, from, scope, callback, arg)
    }

    /// Reads a range piece by piece; returns how many bytes.
    fn rbd_read_iterate(
        image: *mut c_void, offset: u64, len: usize, callback: Option<ReadCallback>, arg: *mut c_void,
    ) -> i64 {
        Ok(read_iterate(image, offset, len as u64, callback, arg)?.saturating_as::<i64>())
    }

    /// Reads a range piece by piece.
    fn rbd_read_iterate2(
        image: *mut c_void, offset: u64, len: u64, callback: Option<ReadCallback>, arg: *mut c_void,
    ) -> c_int {
        read_iterate(image, offset, len, callback, arg)?;
        Ok(0)
    }
}
