//! Snapshots of an image.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use az::SaturatingAs as _;
use loligo_rados::SnapId;
use loligo_rbd::{Error, Image, Mode, Name, Snapshot, View};
use loligo_wire::Errno;

use super::image::ImageHandle;
use super::open::reopen;
use super::progress::{Callback, Progress};
use super::uses::InUse;
use crate::border::{Fail, calls, plain};
use crate::memory::{allocated_text, bytes, ended, fill, fill_text, free, optional_text, put, timespec};

/// `rbd_snap_info_t`.
#[repr(C)]
pub(super) struct SnapInfo {
    id: u64,
    size: u64,
    name: *const c_char,
}

/// The image and its newest header.
///
/// # Safety
/// `image` is a handle.
unsafe fn refreshed(image: *mut c_void) -> Result<(InUse, Arc<View>), Fail> {
    // SAFETY: by this function's contract.
    let image = unsafe { ImageHandle::of(image) }?.head();
    ImageHandle::run(image.refresh())?;
    let view = image.view();
    Ok((image, view))
}

pub(super) fn by_id(view: &View, id: u64) -> Result<&Snapshot, Fail> {
    let found = view.snapshots.iter().find(|snapshot| snapshot.info.id == SnapId(id));
    found.ok_or(Errno::ENOENT.into())
}

/// Checks flags about watchers that quiesce.
///
/// # Errors
/// EINVAL: their failures cannot be ignored if they are not asked.
pub(super) fn check_quiesce(flags: u32) -> Result<(), Fail> {
    const SKIP: u32 = 1;
    const IGNORE_ERROR: u32 = 2;
    if flags > IGNORE_ERROR || flags == SKIP | IGNORE_ERROR { Err(Errno::EINVAL.into()) } else { Ok(()) }
}

const REMOVE_UNPROTECT: u32 = 1;
const REMOVE_FLATTEN: u32 = 2;

/// Removes a snapshot, with what stands in its way if that is asked for.
fn remove(handle: &ImageHandle, name: &[u8], flags: u32) -> Result<(), Fail> {
    let image = handle.head();
    ImageHandle::run(image.refresh())?;
    let view = image.view();
    if flags & REMOVE_FLATTEN != 0 {
        view.snapshot(name)?;
        ImageHandle::run(flatten_clones(handle, &image, &Name::from(name)))?;
    }
    if flags & REMOVE_UNPROTECT != 0 && view.snapshot(name)?.protected {
        ImageHandle::run(image.unprotect_snapshot(name))?;
    }
    ImageHandle::run(image.remove_snapshot(name))?;
    handle.snapshot_is_gone(name);
    Ok(())
}

/// Detaches the clones of a snapshot from it.
async fn flatten_clones(handle: &ImageHandle, image: &Image, snapshot: &Name) -> Result<(), Error> {
    for child in image.children(Some(snapshot)).await? {
        let io = handle.io.rados().ioctx_by_id(child.pool).with_namespace(child.namespace.as_bytes());
        let clone = Image::open_by_id(&io, &child.id, Mode::ReadWrite).await?;
        let flattened = clone.flatten(|_, _| {}).await;
        clone.close().await.and(flattened)?;
    }
    Ok(())
}

/// Restores the image's state at a snapshot. As in librbd, a lock of another client is not taken away for
/// it: EROFS.
///
/// # Safety
/// The handle and the name are valid.
unsafe fn roll_back(image: *mut c_void, name: *const c_char, progress: Progress) -> Result<c_int, Fail> {
    // SAFETY: by this function's contract.
    let (image, name) = unsafe { (ImageHandle::of(image)?.head(), bytes(name)?.to_vec()) };
    if !ImageHandle::run(image.acquire_free_lock())? {
        return Err(Errno::EROFS.into());
    }
    progress.run(|tell| async move { image.roll_back(name, tell).await })?;
    Ok(0)
}

/// Tells the progress of a change that has one step, and is done.
fn tell_done(callback: Option<Callback>, arg: *mut c_void) -> Result<(), Fail> {
    Progress::new(callback, arg).run(|mut tell| async move {
        tell(1, 1);
        Ok::<(), Fail>(())
    })
}

calls! {
    /// Lists the snapshots; ERANGE, with the room that is needed, if there is not enough. One more entry
    /// with a NULL name ends the list.
    fn rbd_snap_list(image: *mut c_void, to: *mut SnapInfo, room: *mut c_int) -> c_int {
        let (_, view) = refreshed(image)?;
        let count = c_int::try_from(view.snapshots.len()).map_err(|_| Errno::ERANGE)?;
        if room.read() < count + 1 {
            room.write(count + 1);
            return Err(Errno::ERANGE.into());
        }
        for (at, snapshot) in view.snapshots.iter().enumerate() {
            to.add(at).write(SnapInfo {
                id: snapshot.info.id.0,
                size: snapshot.info.size,
                name: allocated_text(snapshot.info.name.as_bytes()),
            });
        }
        to.add(view.snapshots.len()).write(SnapInfo { id: 0, size: 0, name: std::ptr::null() });
        Ok(count)
    }

    /// Whether there is a snapshot.
    fn rbd_snap_exists(image: *mut c_void, name: *const c_char, exists: *mut bool) -> c_int {
        let (_, view) = refreshed(image)?;
        put(exists, view.snapshot(bytes(name)?).is_ok());
        Ok(0)
    }

    /// Takes a snapshot.
    fn rbd_snap_create(image: *mut c_void, name: *const c_char) -> c_int {
        let image = ImageHandle::of(image)?.head();
        ImageHandle::run(image.create_snapshot(bytes(name)?))?;
        Ok(0)
    }

    /// Takes a snapshot; the flags are checked, and about watchers that quiesce, which there are none of
    /// here.
    fn rbd_snap_create2(
        image: *mut c_void, name: *const c_char, flags: u32, callback: Option<Callback>,
        arg: *mut c_void,
    ) -> c_int {
        check_quiesce(flags)?;
        let image = ImageHandle::of(image)?.head();
        ImageHandle::run(image.create_snapshot(bytes(name)?))?;
        tell_done(callback, arg)?;
        Ok(0)
    }

    /// Removes a snapshot.
    fn rbd_snap_remove(image: *mut c_void, name: *const c_char) -> c_int {
        remove(ImageHandle::of(image)?, bytes(name)?, 0)?;
        Ok(0)
    }

    /// Removes a snapshot, also a protected one or one with clones if that is asked for.
    fn rbd_snap_remove2(
        image: *mut c_void, name: *const c_char, flags: u32, callback: Option<Callback>,
        arg: *mut c_void,
    ) -> c_int {
        remove(ImageHandle::of(image)?, bytes(name)?, flags)?;
        tell_done(callback, arg)?;
        Ok(0)
    }

    /// Removes a snapshot by its id.
    fn rbd_snap_remove_by_id(image: *mut c_void, id: u64) -> c_int {
        let handle = ImageHandle::of(image)?;
        let (_, view) = refreshed(image)?;
        remove(handle, by_id(&view, id)?.info.name.as_bytes(), 0)?;
        Ok(0)
    }

    /// Restores the image's state at a snapshot.
    fn rbd_snap_rollback(image: *mut c_void, name: *const c_char) -> c_int {
        roll_back(image, name, Progress::new(None, std::ptr::null_mut()))
    }

    /// Restores the image's state at a snapshot and tells the progress.
    fn rbd_snap_rollback_with_progress(
        image: *mut c_void, name: *const c_char, callback: Option<Callback>, arg: *mut c_void,
    ) -> c_int {
        roll_back(image, name, Progress::new(callback, arg))
    }

    /// Renames a snapshot.
    fn rbd_snap_rename(image: *mut c_void, from: *const c_char, to: *const c_char) -> c_int {
        let image = ImageHandle::of(image)?.head();
        ImageHandle::run(image.rename_snapshot(bytes(from)?, bytes(to)?))?;
        Ok(0)
    }

    /// Protects a snapshot from removal.
    fn rbd_snap_protect(image: *mut c_void, name: *const c_char) -> c_int {
        let image = ImageHandle::of(image)?.head();
        ImageHandle::run(image.protect_snapshot(bytes(name)?))?;
        Ok(0)
    }

    /// Allows a snapshot's removal again.
    fn rbd_snap_unprotect(image: *mut c_void, name: *const c_char) -> c_int {
        let image = ImageHandle::of(image)?.head();
        ImageHandle::run(image.unprotect_snapshot(bytes(name)?))?;
        Ok(0)
    }

    /// Whether a snapshot is protected.
    fn rbd_snap_is_protected(
        image: *mut c_void, name: *const c_char, is_protected: *mut c_int,
    ) -> c_int {
        let (_, view) = refreshed(image)?;
        put(is_protected, view.snapshot(bytes(name)?)?.protected.into());
        Ok(0)
    }

    /// Limits the number of snapshots; the largest number is no limit.
    fn rbd_snap_set_limit(image: *mut c_void, limit: u64) -> c_int {
        let image = ImageHandle::of(image)?.head();
        ImageHandle::run(image.limit_snapshots((limit != u64::MAX).then_some(limit)))?;
        Ok(0)
    }

    /// The limit of the number of snapshots; the largest number is none.
    fn rbd_snap_get_limit(image: *mut c_void, limit: *mut u64) -> c_int {
        let handle = ImageHandle::of(image)?;
        let io = handle.io.clone();
        let out = ImageHandle::run(io.exec(handle.header(), "rbd", "snapshot_get_limit", &[]))?;
        put(limit, loligo_wire::Reader::new(&out).u64()?);
        Ok(0)
    }

    /// Copies the name that a snapshot had before it was put into the trash.
    fn rbd_snap_get_trash_namespace(
        image: *mut c_void, id: u64, to: *mut c_char, room: usize,
    ) -> c_int {
        let (_, view) = refreshed(image)?;
        let loligo_rbd::SnapKind::Trash { name, .. } = &by_id(&view, id)?.info.kind else {
            return Err(Errno::EINVAL.into());
        };
        fill_text(to, room, name.as_bytes())?;
        Ok(0)
    }

    /// When a snapshot was taken.
    fn rbd_snap_get_timestamp(image: *mut c_void, id: u64, time: *mut libc::timespec) -> c_int {
        let (_, view) = refreshed(image)?;
        put(time, timespec(by_id(&view, id)?.info.taken.to_system()));
        Ok(0)
    }

    /// Reads see this snapshot from now on; NULL is the image itself.
    fn rbd_snap_set(image: *mut c_void, name: *const c_char) -> c_int {
        let name = optional_text(name)?.filter(|name| !name.is_empty()).map(Name::from);
        reopen(ImageHandle::of(image)?, name)?;
        Ok(0)
    }

    /// Reads see this snapshot from now on; `LIBRADOS_SNAP_HEAD` is the image itself.
    fn rbd_snap_set_by_id(image: *mut c_void, id: u64) -> c_int {
        let handle = ImageHandle::of(image)?;
        if SnapId(id) == SnapId::HEAD {
            reopen(handle, None)?;
            return Ok(0);
        }
        let (_, view) = refreshed(image)?;
        reopen(handle, Some(by_id(&view, id)?.info.name.clone()))?;
        Ok(0)
    }

    /// Copies a snapshot's name.
    fn rbd_snap_get_name(image: *mut c_void, id: u64, to: *mut c_char, len: *mut usize) -> c_int {
        let (_, view) = refreshed(image)?;
        fill(to, len, &ended(by_id(&view, id)?.info.name.as_bytes()))?;
        Ok(0)
    }

    /// Finds a snapshot's id.
    fn rbd_snap_get_id(image: *mut c_void, name: *const c_char, id: *mut u64) -> c_int {
        let (_, view) = refreshed(image)?;
        put(id, view.snapshot(bytes(name)?)?.info.id.0);
        Ok(0)
    }

    /// What made a snapshot: 0 a user, 1 a group, 2 the trash, 3 mirroring.
    fn rbd_snap_get_namespace_type(image: *mut c_void, id: u64, kind: *mut c_int) -> c_int {
        let (_, view) = refreshed(image)?;
        put(kind, by_id(&view, id)?.info.kind.code().saturating_as::<c_int>());
        Ok(0)
    }
}

plain! {
    /// Frees the names of a list; the array is the program's.
    fn rbd_snap_list_end(list: *mut SnapInfo) -> () {
        if list.is_null() {
            return;
        }
        let mut at = list;
        while !(*at).name.is_null() {
            free((*at).name.cast_mut());
            (*at).name = std::ptr::null();
            at = at.add(1);
        }
    }
}
