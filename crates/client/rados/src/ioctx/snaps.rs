//! Snapshots: of a whole pool, or of objects whose writers say so.

use std::sync::Arc;
use std::time::SystemTime;

use loligo_wire::message::mon::PoolOpCode;
use loligo_wire::message::osd::{ObjectSnaps, OpCode, OsdOp};
use loligo_wire::{Decode as _, SnapId};

use super::{IoCtx, WriteOp};
use crate::Error;
use crate::error::Errno;

/// What writers tell of an object's snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SnapContext {
    pub(super) seq: SnapId,
    pub(super) snaps: Vec<SnapId>,
}

/// A snapshot of a whole pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSnapshot {
    /// Its id.
    pub id: SnapId,
    /// Its name.
    pub name: Vec<u8>,
    /// When it was made.
    pub made: SystemTime,
}

/// What a context reads and writes.
impl IoCtx {
    /// The same context, reading objects as they were at a snapshot. Writing through it fails with EROFS.
    pub fn at_snapshot(&self, snap: SnapId) -> Self {
        Self { snapid: snap, ..self.clone() }
    }

    /// Whether objects are read as they were at a snapshot, so that nothing can be written.
    pub fn is_at_snapshot(&self) -> bool {
        self.snapid != SnapId::HEAD
    }

    /// The same context with a snapshot context for writing: the newest snapshot's id, and the ids of all
    /// that exist, newest first. An object that was not written since the newest one is kept as it was.
    ///
    /// # Errors
    /// EINVAL if the ids do not descend, or one is newer than `seq`.
    pub fn with_snap_context(&self, seq: SnapId, snaps: &[SnapId]) -> Result<Self, Error> {
        let descends = snaps.windows(2).all(|pair| pair[0] > pair[1]);
        if !descends || snaps.first().is_some_and(|newest| *newest > seq) {
            return Err(Errno::EINVAL.into());
        }
        let snapc = Some(Arc::new(SnapContext { seq, snaps: snaps.to_vec() }));
        Ok(Self { snapc, ..self.clone() })
    }
}

impl IoCtx {
    /// Whether the pool is one in which clients manage snapshots themselves: at least one [was
    /// made](Self::create_managed_snapshot).
    pub fn has_managed_snapshots(&self) -> bool {
        let view = self.rados.core().objecter.view();
        view.map()
            .pool(self.pool())
            .is_some_and(|pool| pool.flags.has(loligo_maps::PoolFlags::SELFMANAGED_SNAPS))
    }
}

/// Snapshots of the whole pool, which the monitors name. A pool has these or [managed
/// ones](IoCtx::create_managed_snapshot).
impl IoCtx {
    /// Makes a snapshot of all objects; EEXIST if there is one of that name.
    pub async fn create_snapshot(&self, name: &str) -> Result<(), Error> {
        // The monitors have nothing against making what is there, nor against removing what is not.
        self.rados.wait_for_latest_osdmap().await?;
        if self.snapshot(name).is_ok() {
            return Err(Errno::EEXIST.into());
        }
        self.rados.pool_op(self.pool(), PoolOpCode::CreateSnap, name, SnapId(0)).await.map(drop)
    }

    /// Removes a snapshot; ENOENT if there is none of that name.
    pub async fn remove_snapshot(&self, name: &str) -> Result<(), Error> {
        self.rados.wait_for_latest_osdmap().await?;
        self.snapshot(name)?;
        self.rados.pool_op(self.pool(), PoolOpCode::DeleteSnap, name, SnapId(0)).await.map(drop)
    }

    /// The pool's snapshots, oldest first; ENOENT if there is no such pool.
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

    /// The snapshot of that name; ENOENT if there is none.
    pub fn snapshot(&self, name: impl AsRef<[u8]>) -> Result<PoolSnapshot, Error> {
        let named = self.snapshots()?.into_iter().find(|snap| snap.name == name.as_ref());
        named.ok_or(Errno::ENOENT.into())
    }
}

/// Snapshots that writers manage: they ask for an id, and tell it with each write
/// ([`IoCtx::with_snap_context`]).
impl IoCtx {
    /// A new id.
    pub async fn create_managed_snapshot(&self) -> Result<SnapId, Error> {
        let answer = self.rados.pool_op(self.pool(), PoolOpCode::CreateUnmanagedSnap, "", SnapId(0)).await?;
        super::decode("a snapshot's id", &answer, |r| Ok(SnapId(r.u64()?)))
    }

    /// Removes a snapshot: what objects were then is given up.
    pub async fn remove_managed_snapshot(&self, snap: SnapId) -> Result<(), Error> {
        self.rados.pool_op(self.pool(), PoolOpCode::DeleteUnmanagedSnap, "", snap).await.map(drop)
    }

    /// Makes an object what it was at a snapshot; removes it if it was not there then.
    pub async fn rollback(&self, oid: impl Into<Vec<u8>>, snap: SnapId) -> Result<(), Error> {
        self.operate(oid, WriteOp::new().rollback(snap)).await
    }

    /// What an object was at its snapshots.
    pub async fn object_snapshots(&self, oid: impl Into<Vec<u8>>) -> Result<ObjectSnaps, Error> {
        let all = self.at_snapshot(SnapId::DIR);
        let out = all.read_one(oid.into(), OsdOp::new(OpCode::LIST_SNAPS)).await?;
        ObjectSnaps::from_bytes(&out)
            .map_err(|source| Error::Decode { what: "obj_list_snap_response_t", source })
    }
}
