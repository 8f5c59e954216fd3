//! The parent of a clone: the snapshot that is read where the clone has no object.

use std::pin::Pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use loligo_rados::{IoCtx, PoolId, SnapId};
use loligo_stripe::{ObjectExtent, ObjectNo};
use loligo_wire::Name;
use loligo_wire::rbd::ParentSpec;

use crate::image::{At, Image, Inner, Link, Mode, Which};
use crate::pool::directory::name_of;
use crate::{Error, header, names};

/// The most ancestors of an image. krbd opens 16; a header that names its own image would never end.
pub(crate) const ANCESTORS_MAX: u32 = 64;

/// Parts of one object that are read from the parent in parallel.
const READS: usize = 32;

/// The names of an image's parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The pool.
    pub pool: PoolId,
    /// The namespace.
    pub namespace: Name,
    /// The image's name.
    pub image: Name,
    /// Its id.
    pub id: String,
    /// The snapshot's name.
    pub snapshot: Name,
    /// Whether the image is in the trash.
    pub in_trash: bool,
    /// The first bytes of the clone that the parent may have.
    pub overlap: u64,
}

impl Image {
    /// Returns the parent of the open image or snapshot, if it has one.
    ///
    /// # Errors
    /// The parent's header or name cannot be read.
    pub async fn parent(&self) -> Result<Option<Parent>, Error> {
        let overlap = self.inner.overlap_in(&self.inner.view.load());
        self.named_parent(overlap).await
    }

    /// Returns the parent if the image or any of its snapshots needs it, with the largest overlap of
    /// them.
    ///
    /// # Errors
    /// As [`Image::parent`].
    pub async fn parent_of_any(&self) -> Result<Option<Parent>, Error> {
        let view = self.inner.view.load_full();
        let overlaps = view.snapshots.iter().map(|snap| snap.overlap).chain([view.overlap]);
        self.named_parent(overlaps.max().flatten()).await
    }

    async fn named_parent(&self, overlap: Option<u64>) -> Result<Option<Parent>, Error> {
        let inner = &self.inner;
        let view = inner.view.load_full();
        let (Some(spec), Some(overlap)) = (&view.parent, overlap) else { return Ok(None) };
        let io = place_of(&inner.io, spec);
        let (_, parent) = header::load(&io, &names::header(&spec.image), header::Format::Second).await?;
        let (image, in_trash) = name_of(&io, &spec.image).await?;
        let snapshot = parent.snapshot_by_id(spec.snap).map(|snap| snap.info.name.clone());
        Ok(Some(Parent {
            pool: io.pool(),
            namespace: spec.nspace.clone(),
            image,
            id: spec.image.clone(),
            snapshot: snapshot.ok_or_else(|| missing_snapshot(spec))?,
            in_trash,
            overlap,
        }))
    }
}

/// The pool and namespace of a parent.
pub(crate) fn place_of(io: &IoCtx, spec: &ParentSpec) -> IoCtx {
    io.rados().ioctx_by_id(PoolId(spec.pool)).with_namespace(spec.nspace.clone())
}

fn missing_snapshot(spec: &ParentSpec) -> Error {
    Error::NoSnapshot(format!("{}@{}", spec.image, spec.snap.0).into())
}

impl Inner {
    /// The first bytes of the open image or snapshot that its parent may have.
    pub(crate) fn overlap(&self) -> u64 {
        self.overlap_in(&self.view.load()).unwrap_or(0)
    }

    /// Whether the open image or snapshot has a parent, even with an overlap of 0.
    pub(crate) fn has_parent(&self) -> bool {
        self.overlap_in(&self.view.load()).is_some()
    }

    fn overlap_in(&self, view: &header::View) -> Option<u64> {
        view.parent.as_ref()?;
        match self.snap {
            None => view.overlap,
            Some(snap) => view.snapshot_by_id(snap)?.overlap,
        }
    }

    /// The first bytes of an object that the parent, or the migration's source, may have.
    pub(crate) fn covered(&self, object: u64) -> u64 {
        let own = || self.fixed.layout.object_len(ObjectNo(object), self.overlap());
        self.reached(object).unwrap_or_else(own)
    }

    /// Opens the parent, its parent, and so on.
    pub(crate) async fn open_ancestors(&self) -> Result<(), Error> {
        let mut next = self.open_next().await?;
        while let Some(ancestor) = next {
            next = ancestor.open_next().await?;
        }
        Ok(())
    }

    /// Opens the image that this one reads missing data from.
    async fn open_next(&self) -> Result<Option<Arc<Self>>, Error> {
        if self.is_migrating() { Box::pin(self.open_origin()).await } else { self.open_parent().await }
    }

    /// Returns the parent and opens it if needed; `None` if none of its data is needed.
    pub(crate) async fn open_parent(&self) -> Result<Option<Arc<Self>>, Error> {
        let view = self.view.load_full();
        let Some(spec) = view.parent.as_ref().filter(|_| self.overlap() > 0) else { return Ok(None) };
        if let Some(link) = &*self.parent.load()
            && link.spec == *spec
        {
            return Ok(Some(Arc::clone(&link.inner)));
        }
        let generation = self.generation + 1;
        if generation > ANCESTORS_MAX {
            return Err(Error::Ancestors(ANCESTORS_MAX));
        }
        let which = Which::Known { name: spec.image.as_bytes(), id: &spec.image };
        let parent =
            Self::load(&place_of(&self.io, spec), which, At::Id(spec.snap), Mode::ReadOnly, generation)
                .await?;
        let inner = Arc::new(parent);
        self.parent.store(Some(Arc::new(Link { spec: spec.clone(), inner: Arc::clone(&inner) })));
        Ok(Some(inner))
    }

    /// Reads a range of an object from the parent; missing bytes at the end are zeros.
    pub(crate) fn read_parent(
        &self,
        extent: ObjectExtent,
    ) -> Pin<Box<dyn Future<Output = Result<Bytes, Error>> + Send + '_>> {
        // Boxed, because a parent reads from its own parent.
        Box::pin(async move {
            let Some(parent) = &self.open_parent().await? else { return Ok(Bytes::new()) };
            self.read_from(parent, extent, self.overlap()).await
        })
    }

    /// Reads a range of an object from another image, within the first `limit` bytes of this image;
    /// missing bytes at the end are zeros.
    pub(crate) fn read_from<'a>(
        &'a self,
        other: &'a Self,
        extent: ObjectExtent,
        limit: u64,
    ) -> Pin<Box<dyn Future<Output = Result<Bytes, Error>> + Send + 'a>> {
        Box::pin(async move {
            let pieces: Vec<(u64, usize, u64)> = self
                .pieces(extent)
                .map(|(at, offset, len)| (at, offset - extent.offset, len.min(limit.saturating_sub(at))))
                .filter(|(.., len)| *len > 0)
                .map(|(at, offset, len)| (at, offset as usize, len))
                .collect();
            if let [(at, 0, len)] = pieces[..] {
                return other.read(at, len).await;
            }
            let len = pieces.iter().map(|(_, offset, len)| offset + *len as usize).max().unwrap_or(0);
            let mut all = BytesMut::zeroed(len);
            let reads = pieces
                .into_iter()
                .map(|(at, offset, len)| async move { Ok::<_, Error>((offset, other.read(at, len).await?)) });
            let mut reads = stream::iter(reads).buffer_unordered(READS);
            while let Some((offset, data)) = reads.try_next().await? {
                all[offset..offset + data.len()].copy_from_slice(&data);
            }
            Ok(all.freeze())
        })
    }

    /// Whether there are snapshots that writes must preserve.
    pub(crate) fn has_snapshots(&self) -> bool {
        !self.view.load().snapshots.is_empty()
    }

    /// The snapshots, with their flags, whose states of an object may need the parent's data, oldest first.
    pub(crate) fn snapshots_over(&self, object: u64) -> Vec<(SnapId, u64)> {
        let covers = |overlap: Option<u64>| {
            overlap.is_some_and(|overlap| self.fixed.layout.object_len(ObjectNo(object), overlap) > 0)
        };
        let view = self.view.load();
        let snaps = view.snapshots.iter().filter(|snap| covers(snap.overlap));
        snaps.map(|snap| (snap.info.id, snap.flags)).collect()
    }
}
