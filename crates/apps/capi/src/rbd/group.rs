//! Groups of images.

use std::ffi::{c_char, c_int, c_void};

use loligo_rbd::group;
use loligo_wire::Errno;

use super::image::ImageHandle;
use super::list::{fill_array, free_text};
use super::progress::{Callback, Progress};
use super::snap::check_quiesce;
use crate::border::{Fail, calls};
use crate::memory::{allocated_text, bytes, fill, joined, put, text};
use crate::rados::Pool;
use crate::runtime::wait;

/// `rbd_group_image_info_t`.
#[repr(C)]
pub(super) struct MemberInfo {
    name: *mut c_char,
    pool: i64,
    state: c_int,
}

/// `rbd_group_info_t`.
#[repr(C)]
pub(super) struct GroupInfo {
    name: *mut c_char,
    pool: i64,
}

/// `rbd_group_snap_info_t`.
#[repr(C)]
pub(super) struct SnapInfo {
    name: *mut c_char,
    state: c_int,
}

/// `rbd_snap_group_namespace_t`.
#[repr(C)]
pub(super) struct SnapNamespace {
    pool: i64,
    group: *mut c_char,
    snapshot: *mut c_char,
}

/// Checks that the caller's structure is the one that is known here.
///
/// # Errors
/// ERANGE if its size is another one.
fn expect_size<T>(size: usize) -> Result<(), Fail> {
    if size == size_of::<T>() { Ok(()) } else { Err(Errno::ERANGE.into()) }
}

/// Returns a number as the functions do.
fn returned(count: usize) -> Result<c_int, Fail> {
    c_int::try_from(count).map_err(|_| Errno::ERANGE.into())
}

/// Restores the images of a group.
///
/// # Safety
/// The handle and the names are valid.
unsafe fn roll_back(
    ioctx: *mut c_void,
    name: *const c_char,
    snapshot: *const c_char,
    progress: Progress,
) -> Result<c_int, Fail> {
    // SAFETY: by this function's contract.
    let (io, name, snapshot) =
        unsafe { (Pool::of(ioctx)?.owned_io(), bytes(name)?.to_vec(), bytes(snapshot)?.to_vec()) };
    progress.run(|tell| async move { group::roll_back(&io, name, snapshot, tell).await })?;
    Ok(0)
}

calls! {
    /// Creates a group.
    fn rbd_group_create(ioctx: *mut c_void, name: *const c_char) -> c_int {
        wait(group::create(&Pool::of(ioctx)?.owned_io(), bytes(name)?))?;
        Ok(0)
    }

    /// Removes a group.
    fn rbd_group_remove(ioctx: *mut c_void, name: *const c_char) -> c_int {
        wait(group::remove(&Pool::of(ioctx)?.owned_io(), bytes(name)?))?;
        Ok(0)
    }

    /// Renames a group.
    fn rbd_group_rename(ioctx: *mut c_void, from: *const c_char, to: *const c_char) -> c_int {
        wait(group::rename(&Pool::of(ioctx)?.owned_io(), bytes(from)?, bytes(to)?))?;
        Ok(0)
    }

    /// Lists the groups, each with a NUL; returns their bytes.
    fn rbd_group_list(ioctx: *mut c_void, to: *mut c_char, len: *mut usize) -> c_int {
        let names = joined(&wait(group::list(&Pool::of(ioctx)?.owned_io()))?);
        fill(to, len, &names)?;
        returned(names.len())
    }

    /// Adds an image.
    fn rbd_group_image_add(
        ioctx: *mut c_void, name: *const c_char, image_ioctx: *mut c_void, image: *const c_char,
    ) -> c_int {
        let (io, image_io) = (Pool::of(ioctx)?.owned_io(), Pool::of(image_ioctx)?.owned_io());
        wait(group::add_image(&io, bytes(name)?, &image_io, bytes(image)?))?;
        Ok(0)
    }

    /// Takes an image out.
    fn rbd_group_image_remove(
        ioctx: *mut c_void, name: *const c_char, image_ioctx: *mut c_void, image: *const c_char,
    ) -> c_int {
        let (io, image_io) = (Pool::of(ioctx)?.owned_io(), Pool::of(image_ioctx)?.owned_io());
        wait(group::remove_image(&io, bytes(name)?, &image_io, bytes(image)?))?;
        Ok(0)
    }

    /// Takes an image out, by its id.
    fn rbd_group_image_remove_by_id(
        ioctx: *mut c_void, name: *const c_char, image_ioctx: *mut c_void, id: *const c_char,
    ) -> c_int {
        let (io, image_io) = (Pool::of(ioctx)?.owned_io(), Pool::of(image_ioctx)?.owned_io());
        wait(group::remove_image_by_id(&io, bytes(name)?, &image_io, text(id)?))?;
        Ok(0)
    }

    /// Lists the images of a group; returns their number.
    fn rbd_group_image_list(
        ioctx: *mut c_void, name: *const c_char, to: *mut MemberInfo, size: usize, count: *mut usize,
    ) -> c_int {
        expect_size::<MemberInfo>(size)?;
        let members = wait(group::members(&Pool::of(ioctx)?.owned_io(), bytes(name)?))?;
        fill_array(to, count, members.iter().map(|member| MemberInfo {
            name: allocated_text(member.name.as_bytes()),
            pool: member.pool.0,
            state: (!member.attached).into(),
        }))?;
        returned(members.len())
    }

    /// Frees the names of images; the array is the program's.
    fn rbd_group_image_list_cleanup(list: *mut MemberInfo, size: usize, count: usize) -> c_int {
        expect_size::<MemberInfo>(size)?;
        for at in 0..count {
            free_text(&mut (*list.add(at)).name);
        }
        Ok(0)
    }

    /// Tells which group an image belongs to; an empty name and the pool −1 are none.
    fn rbd_get_group(image: *mut c_void, info: *mut GroupInfo, size: usize) -> c_int {
        expect_size::<GroupInfo>(size)?;
        let image = ImageHandle::of(image)?.image();
        let group = ImageHandle::run(image.group())?;
        put(info, match &group {
            Some(group) => {
                GroupInfo { name: allocated_text(group.name.as_bytes()), pool: group.pool.0 }
            }
            None => GroupInfo { name: allocated_text(b""), pool: -1 },
        });
        Ok(0)
    }

    /// Frees a group's name.
    fn rbd_group_info_cleanup(info: *mut GroupInfo, size: usize) -> c_int {
        expect_size::<GroupInfo>(size)?;
        if let Some(info) = info.as_mut() {
            free_text(&mut info.name);
        }
        Ok(0)
    }

    /// Takes a snapshot of all images at one time.
    fn rbd_group_snap_create(
        ioctx: *mut c_void, name: *const c_char, snapshot: *const c_char,
    ) -> c_int {
        wait(group::create_snapshot(&Pool::of(ioctx)?.owned_io(), bytes(name)?, bytes(snapshot)?))?;
        Ok(0)
    }

    /// Takes a snapshot; the flags are checked, and about watchers that quiesce, which there are none of
    /// here.
    fn rbd_group_snap_create2(
        ioctx: *mut c_void, name: *const c_char, snapshot: *const c_char, flags: u32,
    ) -> c_int {
        check_quiesce(flags)?;
        wait(group::create_snapshot(&Pool::of(ioctx)?.owned_io(), bytes(name)?, bytes(snapshot)?))?;
        Ok(0)
    }

    /// Removes a snapshot.
    fn rbd_group_snap_remove(
        ioctx: *mut c_void, name: *const c_char, snapshot: *const c_char,
    ) -> c_int {
        wait(group::remove_snapshot(&Pool::of(ioctx)?.owned_io(), bytes(name)?, bytes(snapshot)?))?;
        Ok(0)
    }

    /// Renames a snapshot.
    fn rbd_group_snap_rename(
        ioctx: *mut c_void, name: *const c_char, from: *const c_char, to: *const c_char,
    ) -> c_int {
        let io = Pool::of(ioctx)?.owned_io();
        wait(group::rename_snapshot(&io, bytes(name)?, bytes(from)?, bytes(to)?))?;
        Ok(0)
    }

    /// Lists the snapshots of a group; returns their number.
    fn rbd_group_snap_list(
        ioctx: *mut c_void, name: *const c_char, to: *mut SnapInfo, size: usize, count: *mut usize,
    ) -> c_int {
        expect_size::<SnapInfo>(size)?;
        let snapshots = wait(group::snapshots(&Pool::of(ioctx)?.owned_io(), bytes(name)?))?;
        fill_array(to, count, snapshots.iter().map(|snapshot| SnapInfo {
            name: allocated_text(snapshot.name.as_bytes()),
            state: snapshot.complete.into(),
        }))?;
        returned(snapshots.len())
    }

    /// Frees the names of snapshots; the array is the program's.
    fn rbd_group_snap_list_cleanup(list: *mut SnapInfo, size: usize, count: usize) -> c_int {
        expect_size::<SnapInfo>(size)?;
        for at in 0..count {
            free_text(&mut (*list.add(at)).name);
        }
        Ok(0)
    }

    /// Restores the images' states at a snapshot.
    fn rbd_group_snap_rollback(
        ioctx: *mut c_void, name: *const c_char, snapshot: *const c_char,
    ) -> c_int {
        roll_back(ioctx, name, snapshot, Progress::new(None, std::ptr::null_mut()))
    }

    /// Restores the images' states at a snapshot and tells the progress.
    fn rbd_group_snap_rollback_with_progress(
        ioctx: *mut c_void, name: *const c_char, snapshot: *const c_char, callback: Option<Callback>,
        arg: *mut c_void,
    ) -> c_int {
        roll_back(ioctx, name, snapshot, Progress::new(callback, arg))
    }

    /// Tells which group's snapshot an image's snapshot belongs to.
    fn rbd_snap_get_group_namespace(
        image: *mut c_void, id: u64, info: *mut SnapNamespace, size: usize,
    ) -> c_int {
        expect_size::<SnapNamespace>(size)?;
        let image = ImageHandle::of(image)?.image();
        ImageHandle::run(image.refresh())?;
        let view = image.view();
        let snapshot = super::snap::by_id(&view, id)?;
        let found = ImageHandle::run(image.group_snapshot(&snapshot.info.kind))?.ok_or(Errno::EINVAL)?;
        put(info, SnapNamespace {
            pool: found.pool.0,
            group: allocated_text(found.group.as_bytes()),
            snapshot: allocated_text(found.snapshot.as_bytes()),
        });
        Ok(0)
    }

    /// Frees the names of a group and its snapshot.
    fn rbd_snap_group_namespace_cleanup(info: *mut SnapNamespace, size: usize) -> c_int {
        expect_size::<SnapNamespace>(size)?;
        if let Some(info) = info.as_mut() {
            free_text(&mut info.group);
            free_text(&mut info.snapshot);
        }
        Ok(0)
    }
}
