//! Copies of an image with its snapshots and its parent.
//!
//! States are copied oldest first: the copy gets the size and the data of the source's snapshot, then a
//! snapshot of its own. Facts: `librbd/DeepCopyRequest.cc`.

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use loligo_rados::{IoCtx, SnapId};
use loligo_stripe::{ObjectExtent, ObjectNo};
use loligo_wire::Name;
use loligo_wire::rbd::{SnapInfo, SnapKind, op_feature};

use crate::clone::parent::place_of;
use crate::clone::{CloneFormat, NewClone, clone};
use crate::copy::{AT_ONCE, CHUNK, NewCopy, chunks};
use crate::diff::{Change, Grain};
use crate::image::resize::REMOVALS;
use crate::image::{Image, Mode, Which, metadata};
use crate::pool::create::create;
use crate::pool::remove_with_snapshots;
use crate::progress::report;
use crate::space::nonzero_runs;
use crate::{Error, Shrink};

/// Whether a copy of a clone is a clone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ancestry {
    /// A clone of the same parent.
    Kept,
    /// Not a clone: the parent's data is copied.
    Flattened,
}

/// A state of the source: a snapshot, or its head.
struct State {
    /// `None`: the open image, which is not a snapshot.
    snapshot: Option<Name>,
    size: u64,
    /// The first bytes that the parent may have; `None`: it needs no parent.
    overlap: Option<u64>,
    protected: bool,
}

impl Image {
    /// Creates a copy with the data of the open image or snapshot, all users' snapshots up to it, the
    /// metadata and the parent. `progress` gets the number of bytes done, and of all bytes. A failure
    /// removes the incomplete copy.
    ///
    /// ```no_run
    /// # async fn example(image: loligo_rbd::Image, pool: loligo_rados::IoCtx) -> Result<(), loligo_rbd::Error> {
    /// use loligo_rbd::{Ancestry, NewCopy};
    ///
    /// image.deep_copy(&pool, "copy", NewCopy::default(), Ancestry::Kept, |_, _| {}).await
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`create`](crate::create()) and [`clone`](crate::clone()); [`Error::NoSnapshot`] also if the
    /// parent's snapshot was removed and is kept only for its existing clones: the copy must then be
    /// [flattened](Ancestry::Flattened). Errors of reads and writes.
    pub async fn deep_copy(
        &self,
        io: &IoCtx,
        name: impl Into<Name>,
        new: NewCopy,
        ancestry: Ancestry,
        progress: impl FnMut(u64, u64),
    ) -> Result<(), Error> {
        let name = &name.into();
        let inner = &self.inner;
        inner.write_back().await?;
        inner.refresh().await?;
        if ancestry == Ancestry::Kept && inner.view.load().parent.is_some() {
            inner.check_whole("copy it flattened, or when the migration is executed")?;
        }
        let states = self.states();
        let is_clone = ancestry == Ancestry::Kept && states.iter().any(|state| state.overlap.is_some());
        if is_clone {
            self.sibling(io, name, &new).await?;
        } else {
            create(io, name, self.like(&new)).await?;
        }
        let copied = async {
            let copy = Self::open(io, name, Mode::ReadWrite).await?;
            let filled = self.fill_deeply(&copy, &states, is_clone, new.sparse_bytes, progress).await;
            let closed = copy.close().await;
            filled.and(closed)
        };
        let copied = copied.await;
        if copied.is_err() {
            // Best effort; the first failure is returned.
            let _ = remove_with_snapshots(io, name).await;
        }
        copied
    }

    fn states(&self) -> Vec<State> {
        let view = self.view();
        let last = self.inner.snap.unwrap_or(SnapId::HEAD);
        let snaps =
            view.snapshots.iter().filter(|snap| snap.info.id <= last && snap.info.kind == SnapKind::User);
        let mut states: Vec<State> = snaps
            .map(|snap| State {
                snapshot: Some(snap.info.name.clone()),
                size: snap.info.size,
                overlap: snap.overlap.filter(|_| view.parent.is_some()),
                protected: snap.protected,
            })
            .collect();
        let is_user_s = |snap| view.snapshot_by_id(snap).is_some_and(|snap| snap.info.kind == SnapKind::User);
        if !self.inner.snap.is_some_and(is_user_s) {
            let overlap = self.inner.has_parent().then(|| self.inner.overlap());
            states.push(State { snapshot: None, size: self.size(), overlap, protected: false });
        }
        states
    }

    /// Creates a clone of the same parent.
    async fn sibling(&self, io: &IoCtx, name: &Name, new: &NewCopy) -> Result<(), Error> {
        let view = self.view();
        let spec = view.parent.as_ref().ok_or(Error::NoParent)?;
        let parent_io = place_of(&self.inner.io, spec);
        let which = Which::Known { name: spec.image.as_bytes(), id: &spec.image };
        let parent = Self::open_at(&parent_io, which, None, Mode::ReadOnly).await?;
        let (parent_name, _) = crate::pool::directory::name_of(&parent_io, &spec.image).await?;
        let snapshot = match parent.view().snapshot_by_id(spec.snap).map(|snap| snap.info.clone()) {
            Some(SnapInfo { kind: SnapKind::Trash { name, .. }, .. }) => {
                // The snapshot is kept for its existing clones, and cannot get new ones.
                return Err(Error::NoSnapshot(format!("{parent_name}@{name}").into()));
            }
            Some(SnapInfo { name, .. }) => name,
            None => return Err(Error::NoSnapshot(parent_name)),
        };
        let shape = self.like(new);
        let is_second = new.is_second(view.op_features & op_feature::CLONE_CHILD != 0);
        let new = NewClone {
            order: Some(shape.order),
            features: Some(shape.features),
            striping: shape.striping.or(Some((1 << shape.order, 1))),
            data_pool: shape.data_pool,
            pool_unchecked: shape.pool_unchecked,
            format: if is_second { CloneFormat::Second } else { CloneFormat::First },
        };
        clone(&parent_io, &parent_name, &snapshot, io, name, new).await
    }

    async fn fill_deeply(
        &self,
        copy: &Self,
        states: &[State],
        is_clone: bool,
        sparse_bytes: usize,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<(), Error> {
        // Removes metadata that the clone got from its parent.
        for key in metadata::load(&copy.inner.io, &copy.inner.header).await?.keys() {
            copy.remove_metadata(key).await?;
        }
        for (key, value) in metadata::load_for_copy(&self.inner.io, &self.inner.header).await? {
            copy.set_metadata(&key, value).await?;
        }
        let all = states.iter().map(|state| state.size).sum::<u64>();
        let (mut before, mut from) = (0, None);
        for state in states {
            copy.become_like(state, is_clone).await?;
            let is_first = from.is_none();
            let told = |at: u64, _| progress(before + at.min(state.size), all);
            let how = Fill { from, sparse_bytes, is_first, is_clone };
            match &state.snapshot {
                Some(snapshot) => {
                    let which = Which::Known { name: self.name(), id: self.id() };
                    let at = Self::open_at(&self.inner.io, which, Some(snapshot), Mode::ReadOnly).await?;
                    at.copy_changes(copy, how, told).await?;
                    copy.create_snapshot(snapshot).await?;
                    if state.protected {
                        copy.protect_snapshot(snapshot).await?;
                    }
                }
                None => self.copy_changes(copy, how, told).await?,
            }
            before += state.size;
            from = state.snapshot.as_ref();
        }
        report(&mut progress, all, all).await;
        Ok(())
    }

    /// Resizes a copy to a state's size, and reduces its overlap to the state's.
    async fn become_like(&self, state: &State, is_clone: bool) -> Result<(), Error> {
        if is_clone && self.view().overlap.is_some() {
            match state.overlap {
                Some(overlap) if overlap < self.inner.overlap() => {
                    self.resize(overlap, Shrink::Allowed).await?;
                }
                Some(_) => {}
                None => self.flatten(|_, _| {}).await?,
            }
        }
        if self.size() == state.size { Ok(()) } else { self.resize(state.size, Shrink::Allowed).await }
    }

    /// Copies the differences from the previous state.
    async fn copy_changes(
        &self,
        copy: &Self,
        how: Fill<'_>,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<(), Error> {
        let changes = match how.is_first && how.is_clone {
            true => self.own_parts().left_stream(),
            false => self.diff(how.from, Grain::Bytes).await?.right_stream(),
        };
        let chunks = changes.map_ok(|change| chunks(change, CHUNK)).try_flatten();
        let copied = chunks.map_ok(|Change { offset, len, exists }| async move {
            if !exists {
                copy.discard(offset, len).await?;
                return Ok::<_, Error>(offset + len);
            }
            let data = self.read(offset, len).await?;
            copy.put(offset, &data, how).await?;
            Ok(offset + len)
        });
        let mut copied = std::pin::pin!(copied.try_buffer_unordered(AT_ONCE));
        let mut done = 0;
        while let Some(end) = copied.try_next().await? {
            done = end.max(done);
            report(&mut progress, done, self.size()).await;
        }
        Ok(())
    }

    /// Writes data, and discards blocks of zeros unless the copy is still empty there.
    async fn put(&self, offset: u64, data: &Bytes, how: Fill<'_>) -> Result<(), Error> {
        let is_fresh = how.is_first && !how.is_clone;
        let mut at = 0;
        let end = data.len()..data.len();
        for run in nonzero_runs(data, how.sparse_bytes).into_iter().chain([end]) {
            if run.start > at && !is_fresh {
                self.discard(offset + at as u64, (run.start - at) as u64).await?;
            }
            at = run.end;
            if !run.is_empty() {
                self.write(offset + run.start as u64, data.slice(run)).await?;
            }
        }
        Ok(())
    }

    /// The parts of a clone for which it has objects of its own.
    fn own_parts(&self) -> impl stream::Stream<Item = Result<Change, Error>> + Send + Unpin + '_ {
        let inner = &*self.inner;
        let (layout, size) = (inner.fixed.layout, inner.size());
        let state = inner.snap.unwrap_or(SnapId::HEAD);
        let parts = stream::iter(0..layout.object_count(size)).map(move |number| async move {
            let object = ObjectNo(number);
            let exists = inner.history(object).await?.at(state).is_some();
            let len = if exists { layout.object_len(object, size) } else { 0 };
            let pieces = inner.pieces(ObjectExtent { object, offset: 0, len });
            let pieces = pieces.map(|(offset, _, len)| Ok(Change { offset, len, exists: true }));
            Ok::<_, Error>(stream::iter(pieces.collect::<Vec<_>>()))
        });
        Box::pin(parts.buffered(REMOVALS).try_flatten())
    }
}

/// How to copy a state.
#[derive(Clone, Copy)]
struct Fill<'a> {
    /// The previous snapshot.
    from: Option<&'a Name>,
    sparse_bytes: usize,
    is_first: bool,
    is_clone: bool,
}
