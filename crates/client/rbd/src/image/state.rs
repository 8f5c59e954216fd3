//! The state of an open image.
//!
//! An image reads what it does not have from other open images: a clone from its parent ([`Link`]), the
//! destination of a migration from its source ([`Origin`]), a cache from the image itself
//! ([`CachedObjects`]).

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64};
use std::sync::{Arc, Weak};

use arc_swap::{ArcSwap, ArcSwapOption};
use loligo_lockstat::Mutex;
use loligo_rados::{IoCtx, PoolId, SnapId};
use loligo_wire::Name;
use loligo_wire::rbd::{Migration, ParentSpec};
use tokio::sync::{Notify, Semaphore, watch};

use super::Mode;
use crate::header::{Fixed, Format, Moving, View};
use crate::io::caching::Caching;
use crate::io::room::Room;
use crate::io::turns::Copies;
use crate::lock::requests::Requests;
use crate::lock::tenure::Tenure;
use crate::object_map::Keeper;
use crate::{Error, names};

/// The most changes of an image's data in flight; more wait. A task that takes all permits has exclusive
/// access.
pub(crate) const GATE_PLACES: u32 = 4096;

/// The state of an open image, shared by all that is in progress on it.
pub(crate) struct Inner {
    /// The pool and namespace of the header.
    pub(crate) io: IoCtx,
    /// The pool and namespace of the data.
    pub(crate) data: IoCtx,
    pub(crate) name: Name,
    pub(crate) id: String,
    pub(crate) header: Name,
    pub(crate) fixed: Fixed,
    pub(crate) view: ArcSwap<View>,
    /// The header has changed since it was read.
    pub(crate) stale: AtomicBool,
    /// The snapshot that reads use; `None`: the image's current data.
    pub(crate) snap: Option<SnapId>,
    pub(crate) mode: Mode,
    /// Each change of data holds one permit; the holder of all permits has exclusive access. The
    /// semaphore is fair, so that a waiter is not overtaken by later ones.
    pub(crate) gate: Semaphore,
    /// Whether this client owns the exclusive lock. Changed only by the holder of all permits, and when
    /// the lock is lost.
    pub(crate) owned: AtomicBool,
    /// Whether the user keeps the lock: requests for it are refused.
    pub(crate) kept: AtomicBool,
    /// Notified when a client announces that it acquired or released the lock, and when notifications
    /// were missed.
    pub(crate) freed: Notify,
    /// The cookie of the watch.
    pub(crate) cookie: AtomicU64,
    /// The state of the lock while this client owns it.
    pub(crate) tenure: Tenure,
    /// Counts the changes of the header that were heard of.
    pub(crate) updates: watch::Sender<u64>,
    /// Why changes are refused from now on: an errno, or 0.
    pub(crate) ended: AtomicI32,
    /// Bounds the requests in flight of I/Os over many objects.
    pub(crate) room: Room,
    pub(crate) map: Keeper,
    pub(crate) copies: Copies,
    pub(crate) caching: Caching<CachedObjects, Inner>,
    pub(crate) requests: Requests,
    /// The parent, once it was needed.
    pub(crate) parent: ArcSwapOption<Link>,
    /// The migration's source as far as this image still needs it, once it was needed.
    pub(crate) origin: ArcSwapOption<Origin>,
    /// Whether a migration is taken into account.
    pub(crate) moving: Moving,
    /// The number of clones between this ancestor and the image that the caller opened.
    pub(crate) generation: u32,
}

/// The open parent of an image.
pub(crate) struct Link {
    pub(crate) spec: ParentSpec,
    pub(crate) inner: Arc<Inner>,
}

/// The source of an image that is being migrated; see `migration/origin/`.
pub(crate) struct Origin {
    pub(crate) spec: Arc<Migration>,
    pub(crate) head: Arc<Inner>,
    /// The source's open snapshots.
    pub(crate) snapshots: Mutex<HashMap<SnapId, Arc<Inner>>>,
    /// The objects that have all states taken over.
    pub(crate) settled: Mutex<HashSet<u64>>,
}

/// The objects of an open image, as the backend of a cache.
pub struct CachedObjects(pub(crate) Weak<Inner>);

/// The parts of an open image.
pub(super) struct Opening {
    pub(super) io: IoCtx,
    pub(super) name: Name,
    pub(super) id: String,
    pub(super) fixed: Fixed,
    pub(super) view: Arc<View>,
    pub(super) snap: Option<SnapId>,
    pub(super) mode: Mode,
    pub(super) generation: u32,
    pub(super) moving: Moving,
}

impl Inner {
    /// A snapshot of this image, from the header already read.
    pub(crate) fn at_snapshot(&self, snap: SnapId) -> Self {
        Self::new(Opening {
            io: self.io.clone(),
            name: self.name.clone(),
            id: self.id.clone(),
            fixed: self.fixed.clone(),
            view: self.view.load_full(),
            snap: Some(snap),
            mode: Mode::ReadOnly,
            generation: self.generation,
            moving: self.moving,
        })
    }

    pub(super) fn new(opening: Opening) -> Self {
        let Opening { io, name, id, fixed, view, snap, mode, generation, moving } = opening;
        let header = match fixed.format {
            Format::First => names::old_header(&name),
            Format::Second => names::header(&id),
        };
        let data = match fixed.data_pool {
            Some(pool) => io.rados().ioctx_by_id(PoolId(pool)).with_namespace(io.namespace().to_vec()),
            None => io.clone(),
        };
        Self {
            data,
            name,
            header,
            room: Room::default(),
            map: Keeper::new(io.clone(), &id),
            io,
            id,
            fixed,
            view: ArcSwap::new(view),
            stale: AtomicBool::new(false),
            snap,
            mode,
            gate: Semaphore::new(GATE_PLACES as usize),
            owned: AtomicBool::new(false),
            kept: AtomicBool::new(false),
            freed: Notify::new(),
            updates: watch::Sender::new(0),
            cookie: AtomicU64::new(0),
            tenure: Tenure::default(),
            ended: AtomicI32::new(0),
            copies: Copies::default(),
            caching: Caching::default(),
            requests: Requests::default(),
            parent: ArcSwapOption::empty(),
            origin: ArcSwapOption::empty(),
            moving,
            generation,
        }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.mode != Mode::ReadWrite
    }

    pub(crate) fn size(&self) -> u64 {
        let view = self.view.load();
        match self.snap {
            Some(snap) => view.snapshot_by_id(snap).map_or(0, |snap| snap.info.size),
            None => view.size,
        }
    }

    /// The data pool with the snapshot context that writes need.
    pub(crate) fn writer(&self) -> Result<IoCtx, Error> {
        let view = self.view.load();
        if let Some(io) = view.writer.get() {
            return Ok(io.clone());
        }
        let mut ids: Vec<SnapId> = view.snapshots.iter().map(|snap| snap.info.id).collect();
        ids.reverse();
        let io = self.data.with_snap_context(view.snap_seq, &ids)?;
        // A concurrent caller may have created the same one first.
        Ok(view.writer.get_or_init(|| io).clone())
    }
}
