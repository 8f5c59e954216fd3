//! The source of an image that is being migrated (`rbd migration`).
//!
//! After `prepare` the destination is used in place of the source, which is not written any more. Where
//! the destination has no object, data is read from the source: from its head, or, at a snapshot that
//! was taken over, from that snapshot of the source. Before an object is changed, and by `execute` in
//! any case, it is copied with its states at all snapshots (`origin/copy.rs`).
//!
//! An object may be copied one state at a time, and the copy may be interrupted; the destination then
//! has an older state in place of a newer one. Therefore an object is used only once it is *settled*: it
//! was written with a snapshot context that has all snapshots taken over. Until then the source, which
//! does not change, is read. librbd uses an object as soon as it exists; objects that librbd copies are
//! also settled as soon as they are written. Without snapshots there is only one state, and an existing
//! object is settled.
//!
//! Facts: `librbd/image/RefreshRequest.cc`, `librbd/io/ObjectRequest.cc`,
//! `librbd/deep_copy/ObjectCopyRequest.cc`.

mod copy;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use loligo_lockstat::{Class, Mutex};
use loligo_rados::{Errno, IoCtx, SnapId};
use loligo_stripe::{ObjectExtent, ObjectNo};
use loligo_wire::rbd::Migration;

use crate::Error;
use crate::clone::parent::ANCESTORS_MAX;
use crate::diff::{Maps, Span};
use crate::header::migration::{place_of, spec_of};
use crate::header::{Moving, View};
use crate::image::{At, Inner, Mode, Origin, Which};

/// Held to find or insert an open snapshot of the source; a leaf.
static SOURCES: Class = Class::new("rbd.origin.sources");
/// Held to find or insert a settled object; a leaf.
static SETTLED: Class = Class::new("rbd.origin.settled");

/// Whether both name the same source, in any state.
fn is_same(a: &Migration, b: &Migration) -> bool {
    (a.pool, &a.nspace, &a.image, &a.name) == (b.pool, &b.nspace, &b.image, &b.name)
        && a.snap_seqs == b.snap_seqs
}

/// Whether an image with this migration may lack data of its source.
fn needs_source(spec: &Migration) -> bool {
    spec.header == Migration::DESTINATION && [Migration::PREPARED, Migration::EXECUTING].contains(&spec.state)
}

impl View {
    /// The migration if the image may lack data of its source.
    pub(crate) fn origin(&self) -> Option<&Arc<Migration>> {
        self.migration.as_ref().filter(|spec| needs_source(spec))
    }

    /// The first bytes of the image, or of any of its snapshots, that the source may have.
    fn reach(&self, spec: &Migration) -> u64 {
        let mapped = |id: SnapId| spec.snap_seqs.values().any(|to| *to == id.0);
        let are_there = spec.snap_seqs.values().all(|to| self.snapshot_by_id(SnapId(*to)).is_some());
        // The size of a removed snapshot is unknown, and parts of it may have been copied.
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

    /// The destination's id of the newest snapshot taken over; 0 if there is none.
    fn newest(&self) -> u64 {
        self.spec.snap_seqs.values().copied().max().unwrap_or(0)
    }

    /// The source's snapshot of one of the destination's; its head for newer ones.
    fn source_id(&self, snap: SnapId) -> SnapId {
        let found = self.spec.snap_seqs.iter().find(|(_, to)| **to == snap.0);
        found.map_or(SnapId::HEAD, |(from, _)| SnapId(*from))
    }

    /// The source at one of its own snapshots, or its head.
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

    /// Whether the destination's object has all states taken over.
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
    /// Whether reads of the open image may need a source.
    pub(crate) fn is_migrating(&self) -> bool {
        self.moving == Moving::Followed && self.view.load().origin().is_some()
    }

    /// Returns an error if the image may lack data of its source.
    pub(crate) fn check_whole(&self, what: &'static str) -> Result<(), Error> {
        if self.is_migrating() { Err(Error::Migrating(what)) } else { Ok(()) }
    }

    /// The first bytes of an object that the source may have, in any state; `None` if there is no
    /// source.
    pub(crate) fn reached(&self, number: u64) -> Option<u64> {
        if self.moving == Moving::Ignored {
            return None;
        }
        let view = self.view.load();
        let spec = view.origin()?;
        Some(self.fixed.layout.object_len(ObjectNo(number), view.reach(spec)))
    }

    /// Returns the source and opens it if needed; `None` if none of its data is needed.
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

    /// The number of objects that the source may have data for.
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

    /// Reads a range of an object of an image that is being migrated.
    pub(crate) async fn read_migrating(&self, io: &IoCtx, extent: ObjectExtent) -> Result<Bytes, Error> {
        loop {
            let origin = match self.origin().await {
                // All data was copied, and the source removed.
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
            // The source may be gone meanwhile; then its missing data must not be read as zeros.
            if self.still_migrates().await? {
                return found;
            }
        }
    }

    /// Whether the source is still needed. A client that watches the image is notified of a change;
    /// others read the header.
    async fn still_migrates(&self) -> Result<bool, Error> {
        self.refresh_if_stale().await?;
        if !self.is_read_only() {
            return Ok(self.is_migrating());
        }
        match spec_of(&self.io, &self.header).await? {
            Some(spec) if needs_source(&spec) => Ok(true),
            _ => {
                self.refresh().await?;
                Ok(self.is_migrating())
            }
        }
    }

    /// Reads a range of an object from the source's state of the open image or snapshot.
    async fn read_source(&self, origin: &Origin, extent: ObjectExtent) -> Result<Bytes, Error> {
        let id = self.snap.map_or(SnapId::HEAD, |snap| origin.source_id(snap));
        let source = origin.at(id)?;
        let limit = match id {
            SnapId::HEAD => self.size().min(origin.spec.overlap),
            _ => source.size(),
        };
        self.read_from(&source, extent, limit).await
    }

    /// The ranges of an extent that differ between two states of the source, with `true` if they have
    /// data. Returns `None` if the object is settled.
    pub(crate) async fn source_parts(
        &self,
        extent: ObjectExtent,
        span: Span,
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
            let span = Span { from, to, ..span };
            for change in source.changes(at, len, span, &Maps::default()).await? {
                let start = object_offset + (change.offset - at);
                parts.push((start..start + change.len, change.exists));
            }
        }
        Ok(Some(parts))
    }
}
