//! Snapshots of pools, and those that clients manage.

use std::ffi::{c_char, c_int, c_void};

use loligo_rados::{OsdOp, PoolSnapshot, SnapId};
use loligo_wire::Errno;

use super::Pool;
use super::io::write;
use crate::border::{Fail, calls, plain};
use crate::memory::{array, bytes, fill_text, put, seconds};

fn by_id(pool: &Pool, id: u64) -> Result<PoolSnapshot, Fail> {
    let found = pool.io().snapshots()?.into_iter().find(|snapshot| snapshot.id == SnapId(id));
    found.ok_or(Errno::ENOENT.into())
}

calls! {
    /// Creates a snapshot of all objects of the pool.
    fn rados_ioctx_snap_create(ioctx: *mut c_void, name: *const c_char) -> c_int {
        let pool = Pool::of(ioctx)?;
        pool.run(pool.owned_io().create_snapshot(bytes(name)?))?;
        Ok(0)
    }

    /// Removes a snapshot of the pool.
    fn rados_ioctx_snap_remove(ioctx: *mut c_void, name: *const c_char) -> c_int {
        let pool = Pool::of(ioctx)?;
        pool.run(pool.owned_io().remove_snapshot(bytes(name)?))?;
        Ok(0)
    }

    /// Restores an object's state at a snapshot of the pool.
    fn rados_ioctx_snap_rollback(
        ioctx: *mut c_void, oid: *const c_char, name: *const c_char,
    ) -> c_int {
        let pool = Pool::of(ioctx)?;
        let snapshot = pool.io().snapshot(bytes(name)?)?;
        write(pool, bytes(oid)?, OsdOp::rollback(snapshot.id))
    }

    /// Lists the ids of the pool's snapshots; returns their number.
    fn rados_ioctx_snap_list(ioctx: *mut c_void, to: *mut u64, room: c_int) -> c_int {
        let snapshots = Pool::of(ioctx)?.io().snapshots()?;
        if snapshots.len() > usize::try_from(room).unwrap_or(0) {
            return Err(Errno::ERANGE.into());
        }
        for (at, snapshot) in snapshots.iter().enumerate() {
            to.add(at).write(snapshot.id.0);
        }
        c_int::try_from(snapshots.len()).map_err(|_| Errno::ERANGE.into())
    }

    /// Returns a snapshot's id.
    fn rados_ioctx_snap_lookup(ioctx: *mut c_void, name: *const c_char, id: *mut u64) -> c_int {
        put(id, Pool::of(ioctx)?.io().snapshot(bytes(name)?)?.id.0);
        Ok(0)
    }

    /// Copies a snapshot's name.
    fn rados_ioctx_snap_get_name(
        ioctx: *mut c_void, id: u64, to: *mut c_char, room: c_int,
    ) -> c_int {
        let snapshot = by_id(Pool::of(ioctx)?, id)?;
        fill_text(to, usize::try_from(room).unwrap_or(0), &snapshot.name)?;
        Ok(0)
    }

    /// Returns when a snapshot was taken.
    fn rados_ioctx_snap_get_stamp(
        ioctx: *mut c_void, id: u64, time: *mut libc::time_t,
    ) -> c_int {
        put(time, seconds(by_id(Pool::of(ioctx)?, id)?.made));
        Ok(0)
    }

    /// Allocates the id of a snapshot.
    fn rados_ioctx_selfmanaged_snap_create(ioctx: *mut c_void, id: *mut u64) -> c_int {
        let pool = Pool::of(ioctx)?;
        put(id, pool.run(pool.owned_io().create_managed_snapshot())?.0);
        Ok(0)
    }

    /// Removes a snapshot that clients manage.
    fn rados_ioctx_selfmanaged_snap_remove(ioctx: *mut c_void, id: u64) -> c_int {
        let pool = Pool::of(ioctx)?;
        pool.run(pool.owned_io().remove_managed_snapshot(SnapId(id)))?;
        Ok(0)
    }

    /// Sets the snapshots that writes preserve from now on, newest first.
    fn rados_ioctx_selfmanaged_snap_set_write_ctx(
        ioctx: *mut c_void, seq: u64, ids: *mut u64, count: c_int,
    ) -> c_int {
        let ids = array(ids.cast_const(), usize::try_from(count).map_err(|_| Errno::EINVAL)?);
        let ids: Vec<SnapId> = ids.iter().copied().map(SnapId).collect();
        let pool = Pool::of(ioctx)?;
        let changed = pool.io().with_snap_context(SnapId(seq), &ids)?;
        pool.change(|_| changed);
        Ok(0)
    }
}

plain! {
    /// Reads see this snapshot from now on; 0 and `LIBRADOS_SNAP_HEAD` are the current state.
    fn rados_ioctx_snap_set_read(ioctx: *mut c_void, id: u64) -> () {
        let id = if id == 0 { SnapId::HEAD } else { SnapId(id) };
        if let Ok(pool) = Pool::of(ioctx) {
            pool.change(|io| io.at_snapshot(id));
        }
    }
}
