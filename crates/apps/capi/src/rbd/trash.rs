//! The trash of a pool: images that were removed for a while.

use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

use loligo_rbd::trash::{self, Trashed};
use loligo_wire::{Errno, UTime};

use super::list::{fill_array, free_text};
use super::progress::{Callback, Progress};
use crate::border::{Fail, calls, plain};
use crate::memory::{allocated_text, bytes, put, seconds, text, time_of};
use crate::rados::Pool;
use crate::runtime::wait;

/// `rbd_trash_image_info_t`.
#[repr(C)]
pub(super) struct Info {
    id: *mut c_char,
    name: *mut c_char,
    source: c_int,
    deletion_time: libc::time_t,
    deferment_end_time: libc::time_t,
}

impl Info {
    fn of(image: &Trashed) -> Self {
        Self {
            id: allocated_text(image.id.as_bytes()),
            name: allocated_text(image.name.as_bytes()),
            source: image.source.into(),
            deletion_time: seconds(image.deleted.to_system()),
            deferment_end_time: seconds(image.keep_until.to_system()),
        }
    }
}

/// Removes the images whose time is over.
///
/// # Safety
/// The handle is valid.
unsafe fn purge(
    ioctx: *mut c_void,
    until: libc::time_t,
    threshold: f32,
    progress: Progress,
) -> Result<c_int, Fail> {
    if threshold >= 0.0 {
        // The space that images use is not known to this client.
        return Err(Errno::EOPNOTSUPP.into());
    }
    // SAFETY: by this function's contract.
    let io = unsafe { Pool::of(ioctx) }?.owned_io();
    // The whole second counts.
    let until = UTime::from_system(time_of(until, 999_999_999));
    progress.run(|tell| async move { trash::purge(&io, until, tell).await })?;
    Ok(0)
}

/// Removes an image for good.
///
/// # Safety
/// The handle and the id are valid.
unsafe fn remove(
    ioctx: *mut c_void,
    id: *const c_char,
    force: bool,
    progress: Progress,
) -> Result<c_int, Fail> {
    // SAFETY: by this function's contract.
    let (io, id) = unsafe { (Pool::of(ioctx)?.owned_io(), text(id)?) };
    progress.run(|tell| async move { trash::remove(&io, id, force, tell).await })?;
    Ok(0)
}

calls! {
    /// Puts an image into the trash for so many seconds.
    fn rbd_trash_move(ioctx: *mut c_void, name: *const c_char, delay: u64) -> c_int {
        let io = Pool::of(ioctx)?.owned_io();
        wait(trash::put(&io, bytes(name)?, Duration::from_secs(delay)))?;
        Ok(0)
    }

    /// Tells about an image in the trash.
    fn rbd_trash_get(ioctx: *mut c_void, id: *const c_char, info: *mut Info) -> c_int {
        let all = wait(trash::list(&Pool::of(ioctx)?.owned_io()))?;
        let id = text(id)?;
        put(info, Info::of(all.iter().find(|image| image.id == id).ok_or(Errno::ENOENT)?));
        Ok(0)
    }

    /// Lists the trash; returns the number of images.
    fn rbd_trash_list(ioctx: *mut c_void, to: *mut Info, count: *mut usize) -> c_int {
        let all = wait(trash::list(&Pool::of(ioctx)?.owned_io()))?;
        fill_array(to, count, all.iter().map(Info::of))?;
        c_int::try_from(all.len()).map_err(|_| Errno::ERANGE.into())
    }

    /// Removes an image from the trash for good.
    fn rbd_trash_remove(ioctx: *mut c_void, id: *const c_char, force: bool) -> c_int {
        remove(ioctx, id, force, Progress::new(None, std::ptr::null_mut()))
    }

    /// Removes an image from the trash for good and tells the progress.
    fn rbd_trash_remove_with_progress(
        ioctx: *mut c_void, id: *const c_char, force: bool, callback: Option<Callback>,
        arg: *mut c_void,
    ) -> c_int {
        remove(ioctx, id, force, Progress::new(callback, arg))
    }

    /// Removes the images whose time is over.
    fn rbd_trash_purge(ioctx: *mut c_void, until: libc::time_t, threshold: f32) -> c_int {
        purge(ioctx, until, threshold, Progress::new(None, std::ptr::null_mut()))
    }

    /// Removes the images whose time is over and tells the progress.
    fn rbd_trash_purge_with_progress(
        ioctx: *mut c_void, until: libc::time_t, threshold: f32, callback: Option<Callback>,
        arg: *mut c_void,
    ) -> c_int {
        purge(ioctx, until, threshold, Progress::new(callback, arg))
    }

    /// Takes an image out of the trash; NULL is its old name.
    fn rbd_trash_restore(ioctx: *mut c_void, id: *const c_char, name: *const c_char) -> c_int {
        let io = Pool::of(ioctx)?.owned_io();
        let name = if name.is_null() { &[] } else { bytes(name)? };
        let name = (!name.is_empty()).then(|| loligo_rbd::Name::from(name));
        wait(trash::restore(&io, text(id)?, name.as_ref()))?;
        Ok(0)
    }
}

plain! {
    /// Frees the texts about an image in the trash.
    fn rbd_trash_get_cleanup(info: *mut Info) -> () {
        if let Some(info) = info.as_mut() {
            free_text(&mut info.id);
            free_text(&mut info.name);
        }
    }

    /// Frees the texts of a list; the array is the program's.
    fn rbd_trash_list_cleanup(list: *mut Info, count: usize) -> () {
        for at in 0..count {
            let info = &mut *list.add(at);
            free_text(&mut info.id);
            free_text(&mut info.name);
        }
    }
}
