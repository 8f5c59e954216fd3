//! Snapshots: of a whole pool, or managed by the writers of objects.

use std::sync::Arc;
use std::time::SystemTime;

use loligo_wire::message::mon::PoolOpCode;
use loligo_wire::message::osd::{ObjectSnaps, OpCode, OsdOp};
use loligo_wire::{Decode as _, SnapContext, SnapId};

use super::{IoCtx, WriteOp};
use crate::Error;
use crate::error::Errno;

/// A snapshot of a whole pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSnapshot {
    /// Its id.
    pub id: SnapId,
    /// Its name.
    pub name: Vec<u8>,
    /// When it was created.
    pub made: SystemTime,
}

/// Snapshots as seen by reads and writes of a context.
impl IoCtx {
    /// Returns the same context, reading objects as they were at a snapshot. Writes through it fail with
    /// EROFS.
    pub fn at_snapshot(&self, snap: SnapId) -> Self {
        Self { snapid: snap, ..self.clone() }
    }

    /// Returns `true` if the context reads a snapshot, which makes it read-only.
    pub fn is_at_snapshot(&self) -> bool {
        self.snapid != SnapId::HEAD
    }

    /// Returns the same context with a snapshot context for writes: the newest snapshot's id, and the
    /// ids of all existing snapshots, newest first. The first write to an object after the newest
    /// snapshot preserves its old state.
    ///
    /// # Errors
    /// EINVAL if the ids do not descend, or one is newer than `seq`.
    pub fn with_snap_context(&self, seq: SnapId, snaps: &[SnapId]) -> Result<Self, Error> {
        let snapc = SnapContext { seq, snaps: snaps.to_vec() };
        if !snapc.is_valid() {
            return Err(Errno::EINVAL.into());
        }
        Ok(Self { snapc: Some(Arc::new(snapc)), ..self.clone() })
    }
}

impl IoCtx {
    /// Returns `true` if clients manage the pool's snapshots: at least one [was
    /// created](Self::create_managed_snapshot).
    pub fn has_managed_snapshots(&self) -> bool {
        let view = self.rados.core().objecter.view();
        view.map()
            .pool(self.pool())
            .is_some_and(|pool| pool.flags.contains(loligo_maps::PoolFlags::SELFMANAGED_SNAPS))
    }
}

/// Snapshots of the whole pool, which the monitors name. A pool has either these or [managed
/// ones](IoCtx::create_managed_snapshot).
impl IoCtx {
    /// Creates a snapshot of all objects; EEXIST if the name is in use.
    pub async fn create_snapshot(&self, name: impl AsRef<[u8]>) -> Result<(), Error> {
        // The monitors accept both creating a snapshot that exists and removing one that does not.
        self.rados.wait_for_latest_osdmap().await?;
        if self.snapshot(&name).is_ok() {
            return Err(Errno::EEXIST.into());
        }
        self.rados.pool_op(self.pool(), PoolOpCode::CreateSnap, name, SnapId(0)).await.map(drop)
    }

    /// Removes a snapshot; ENOENT if the name does not exist.
    pub async fn remove_snapshot(&self, name: impl AsRef<[u8]>) -> Result<(), Error> {
        self.rados.wait_for_latest_osdmap().await?;
        self.snapshot(&name)?;
        self.rados.pool_op(self.pool(), PoolOpCode::DeleteSnap, name, SnapId(0)).await.map(drop)
    }

    /// Returns the pool's snapshots, oldest first; ENOENT if the pool does not exist.
    pub fn snapshots(&self) -> Result<Vec<PoolSnapshot>, Error> {
        let view = self.rados.core().objecter.view();
        let pool = view.map().pools.get(&self.pool()).ok_or(Errno::ENOENT)?;
        let snapshot = |snap: &loligo_maps::PoolSnap| PoolSnapshot {
            id: snap.id,
            name: snap.name.as_bytes().to_vec(),
            made: snap.stamp.to_system(),
        };
        Ok(pool.snaps.values().map(snapshot).collect())
    }

    /// Returns the snapshot with this name; ENOENT if there is none.
    pub fn snapshot(&self, name: impl AsRef<[u8]>) -> Result<PoolSnapshot, Error> {
        let named = self.snapshots()?.into_iter().find(|snap| snap.name == name.as_ref());
        named.ok_or(Errno::ENOENT.into())
    }
}

/// Snapshots that writers manage: they allocate an id, and send it with each write
/// ([`IoCtx::with_snap_context`]).
impl IoCtx {
    /// Allocates a snapshot id.
    pub async fn create_managed_snapshot(&self) -> Result<SnapId, Error> {
        let answer = self.rados.pool_op(self.pool(), PoolOpCode::CreateUnmanagedSnap, "", SnapId(0)).await?;
        super::decode("a snapshot's id", &answer, |r| Ok(SnapId(r.u64()?)))
    }

    /// Removes a snapshot. The objects' states at it are lost.
    pub async fn remove_managed_snapshot(&self, snap: SnapId) -> Result<(), Error> {
        self.rados.pool_op(self.pool(), PoolOpCode::DeleteUnmanagedSnap, "", snap).await.map(drop)
    }

    /// Restores an object's state at a snapshot; removes the object if it did not exist then.
    pub async fn rollback(&self, oid: impl Into<Vec<u8>>, snap: SnapId) -> Result<(), Error> {
        self.operate(oid, WriteOp::new().rollback(snap)).await
    }

    /// Returns an object's states at its snapshots.
    pub async fn object_snapshots(&self, oid: impl Into<Vec<u8>>) -> Result<ObjectSnaps, Error> {
        let all = self.at_snapshot(SnapId::DIR);
        let out = all.read_one(oid.into(), OsdOp::new(OpCode::LIST_SNAPS)).await?;
        ObjectSnaps::from_bytes(&out)
            .map_err(|source| Error::Decode { what: "obj_list_snap_response_t", source })
    }
}
