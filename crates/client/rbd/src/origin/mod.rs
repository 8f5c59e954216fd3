//! The image that this one is being migrated from (`rbd migration`).
//!
//! From `prepare` on the destination is used in place of the source, which nobody writes to any more. What
//! the destination has no object for is read from the source: from what the source is, or, at a snapshot that
//! was taken over, from that snapshot of the source. Before an object is changed, and by `execute` in any
//! case, it is copied with all that it was at snapshots (`copy.rs`).
//!
//! An object may be copied state by state, and whoever does it may be killed in between; then the destination
//! has an older state where it should have a newer one. So an object is believed only once it is *settled*:
//! somebody who knew of all snapshots that were taken over has written to it. Until then the source, which
//! does not change, is asked. librbd believes an object as soon as there is one; what it copies is settled,
//! too, as soon as it is written to. Without snapshots there is one state, and an object is settled if there
//! is one.
//!
//! Facts: `librbd/image/RefreshRequest.cc`, `librbd/io/ObjectRequest.cc`,
//! `librbd/deep_copy/ObjectCopyRequest.cc`.

mod copy;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use loligo_lockstat::{Class, Mutex};
use loligo_rados::{Errno, IoCtx, PoolId, SnapId};
use loligo_stripe::{ObjectExtent, ObjectNo};
use loligo_wire::rbd::Migration;

use crate::Error;
use crate::header::View;
use crate::image::{At, Inner, Mode, Moving, Which};
use crate::parent::ANCESTORS_MAX;

/// Held to find or enter a snapshot of the source that is open; a leaf.
static SOURCES: Class = Class::new("rbd.origin.sources");
/// Held to find or enter an object that is settled; a leaf.
static SETTLED: Class = Class::new("rbd.origin.settled");

/// The source of an image that is being migrated.
pub(crate) struct Origin {
    spec: Arc<Migration>,
    head: Arc<Inner>,
    snapshots: Mutex<HashMap<SnapId, Arc<Inner>>>,
    settled: Mutex<HashSet<u64>>,
}

/// Where the other place of a migration is.
pub(crate) fn place_of(io: &IoCtx, spec: &Migration) -> IoCtx {
    io.rados().ioctx_by_id(PoolId(spec.pool)).with_namespace(spec.nspace.clone())
}

/// Whether both name the same source, in whatever state.
fn is_same(a: &Migration, b: &Migration) -> bool {
    (a.pool, &a.nspace, &a.image, &a.name) == (b.pool, &b.nspace, &b.image, &b.name)
        && a.snap_seqs == b.snap_seqs
}

/// Whether an image whose header says this lacks what its source has.
fn needs_source(spec: &Migration) -> bool {
    spec.header == Migration::DESTINATION && [Migration::PREPARED, Migration::EXECUTING].contains(&spec.state)
}

impl View {
    /// The migration by which the image lacks what its source has.
    pub(crate) fn origin(&self) -> Option<&Arc<Migration>> {
        self.migration.as_ref().filter(|spec| needs_source(spec))
    }

    /// Bytes of the image, or of any of its snapshots, that the source may have.
    fn reach(&self, spec: &Migration) -> u64 {
        let mapped = |id: SnapId| spec.snap_seqs.values().any(|to| *to == id.0);
        let are_there = spec.snap_seqs.values().all(|to| self.snapshot_by_id(SnapId(*to)).is_some());
        // How large a snapshot was that is gone nobody knows; some of it may have been copied.
        let of_image = if are_there { self.size.min(spec.overlap) } else { self.size };
        let of_snapshots = self.snapshots.iter().map(|snap| match mapped(snap.info.id) {
            true => snap.info.size,
            false => snap.info.size.min(spec.overlap),
        });
        of_snapshots.fold(of_image, u64::max)
    }
}

impl Origin {
    fn is_of(&self, spec: &Migration) -> bool {
        is_same(&self.spec, spec)
    }

    /// The newest snapshot that was taken over, as the destination has it; 0: there is none.
    fn newest(&self) -> u64 {
        self.spec.snap_seqs.values().copied().max().unwrap_or(0)
    }

    /// The source's snapshot that is one of the destination's; its head for those that are newer.
    fn source_id(&self, snap: SnapId) -> SnapId {
        let found = self.spec.snap_seqs.iter().find(|(_, to)| **to == snap.0);
        found.map_or(SnapId::HEAD, |(from, _)| SnapId(*from))
    }

    /// The source as it was at a snapshot of its own, or is.
    fn at(&self, id: SnapId) -> Result<Arc<Inner>, Error> {
        if id == SnapId::HEAD {
            return Ok(Arc::clone(&self.head));
        }
        if self.head.view.load().snapshot_by_id(id).is_none() {
            return Err(Error::NoSnapshot(format!("{}@{}", self.head.name, id.0).into()));
        }
        let mut snapshots = self.snapshots.lock();
        let at = snapshots.entry(id).or_insert_with(|| Arc::new(self.head.at_snapshot(id)));
        Ok(Arc::clone(at))
    }

    /// Whether the destination's object is right in all states that were taken over.
    async fn is_settled(&self, image: &Inner, number: u64) -> Result<bool, Error> {
        if self.settled.lock().contains(&number) {
            return Ok(true);
        }
        let history = match image.data.object_snapshots(image.fixed.object(number)).await {
            Err(e) if e.errno() == Errno::ENOENT => return Ok(false),
            history => history?,
        };
        let is_settled = history.seq.0 >= self.newest();
        if is_settled {
            self.settled.lock().insert(number);
        }
        Ok(is_settled)
    }
}

impl Inner {
    /// Whether some of what is open may have to be read from a source.
    pub(crate) fn is_migrating(&self) -> bool {
        self.moving == Moving::Followed && self.view.load().origin().is_some()
    }

    /// Refuses what needs all of the image.
    pub(crate) fn check_whole(&self, what: &'static str) -> Result<(), Error> {
        if self.is_migrating() { Err(Error::Migrating(what)) } else { Ok(()) }
    }

    /// Bytes of an object, from its beginning, that the source may have, in any state; `None`: there is no
    /// source.
    pub(crate) fn reached(&self, number: u64) -> Option<u64> {
        if self.moving == Moving::Ignored {
            return None;
        }
        let view = self.view.load();
        let spec = view.origin()?;
        Some(self.fixed.layout.object_len(ObjectNo(number), view.reach(spec)))
    }

    /// The source, which is opened if it is not; `None` if nothing of it is needed.
    pub(crate) async fn origin(&self) -> Result<Option<Arc<Origin>>, Error> {
        let view = self.view.load_full();
        let Some(spec) = view.origin().filter(|_| self.moving == Moving::Followed) else { return Ok(None) };
        if let Some(origin) = &*self.origin.load()
            && origin.is_of(spec)
        {
            return Ok(Some(Arc::clone(origin)));
        }
        let generation = self.generation + 1;
        if generation > ANCESTORS_MAX {
            return Err(Error::Ancestors(ANCESTORS_MAX));
        }
        let which = Which::Known { name: &spec.name, id: &spec.image };
        let (io, at) = (place_of(&self.io, spec), At::Head);
        let head = Self::load_as(&io, which, at, Mode::ReadOnly, generation, Moving::Ignored).await?;
        let origin = Arc::new(Origin {
            spec: Arc::clone(spec),
            head: Arc::new(head),
            snapshots: Mutex::new(&SOURCES, HashMap::new()),
            settled: Mutex::new(&SETTLED, HashSet::new()),
        });
        self.origin.store(Some(Arc::clone(&origin)));
        Ok(Some(origin))
    }

    /// Objects of which the source may have something.
    pub(crate) async fn source_objects(&self) -> Result<u64, Error> {
        let Some(origin) = self.origin().await? else { return Ok(0) };
        let source = origin.head.view.load();
        let sizes = source.snapshots.iter().map(|snap| snap.info.size);
        Ok(self.fixed.layout.object_count(sizes.fold(source.size, u64::max)))
    }

    /// The source's head.
    pub(crate) async fn open_origin(&self) -> Result<Option<Arc<Self>>, Error> {
        Ok(self.origin().await?.map(|origin| Arc::clone(&origin.head)))
    }

    /// What an object of an image that is being migrated holds of a range.
    pub(crate) async fn read_migrating(&self, io: &IoCtx, extent: ObjectExtent) -> Result<Bytes, Error> {
        loop {
            let origin = match self.origin().await {
                // All of it was copied, and the source removed.
                Err(e) if e.is_not_found() && !self.still_migrates().await? => continue,
                origin => origin?,
            };
            let Some(origin) = origin else { return self.read_own(io, extent).await };
            let one_state = origin.newest() == 0;
            if one_state || origin.is_settled(self, extent.object.0).await? {
                match io.read(self.object(extent), extent.offset, extent.len).await {
                    Err(e) if e.errno() == Errno::ENOENT => {}
                    Ok(data) if data.len() as u64 > extent.len => return Err(Errno::EPROTO.into()),
                    done => return Ok(done?),
                }
                if !one_state {
                    return Ok(Bytes::new());
                }
            }
            let found = self.read_source(&origin, extent).await;
            // Of a source that is gone nothing can be read, and there are no zeros in its place.
            if self.still_migrates().await? {
                return found;
            }
        }
    }

    /// Whether the source is still to be asked. Whoever watches the image was told if it is not.
    async fn still_migrates(&self) -> Result<bool, Error> {
        self.refresh_if_stale().await?;
        if !self.is_read_only() {
            return Ok(self.is_migrating());
        }
        match crate::migration::spec_of(&self.io, &self.header).await? {
            Some(spec) if needs_source(&spec) => Ok(true),
            _ => {
                self.refresh().await?;
                Ok(self.is_migrating())
            }
        }
    }

    /// What the source has of a range of an object, as it was at what is open.
    async fn read_source(&self, origin: &Origin, extent: ObjectExtent) -> Result<Bytes, Error> {
        let id = self.snap.map_or(SnapId::HEAD, |snap| origin.source_id(snap));
        let source = origin.at(id)?;
        let limit = match id {
            SnapId::HEAD => self.size().min(origin.spec.overlap),
            _ => source.size(),
        };
        self.read_from(&source, extent, limit).await
    }

    /// Ranges of an object, within the extent, that differ between two states of the source, and whether
    /// there are data; `None` if the object is the destination's own.
    pub(crate) async fn source_parts(
        &self,
        extent: ObjectExtent,
        span: crate::diff::Span,
    ) -> Result<Option<Vec<(std::ops::Range<u64>, bool)>>, Error> {
        let Some(origin) = self.origin().await? else { return Ok(None) };
        if origin.is_settled(self, extent.object.0).await? {
            return Ok(None);
        }
        let (from, to) = (span.from.map(|from| origin.source_id(from)), origin.source_id(span.to));
        let mut parts = Vec::new();
        if from == Some(to) {
            return Ok(Some(parts));
        }
        let source = origin.at(to)?;
        for (at, object_offset, len) in self.pieces(extent) {
            let len = len.min(source.size().saturating_sub(at));
            let span = crate::diff::Span { from, to, grain: span.grain };
            for change in source.changes(at, len, span, &crate::diff::Maps::default()).await? {
                let start = object_offset + (change.offset - at);
                parts.push((start..start + change.len, change.exists));
            }
        }
        Ok(Some(parts))
    }
}
