//! The differences between two states of an image: from nothing or a snapshot to a later snapshot or the
//! image.
//!
//! Each object's history is queried (`history.rs`). If whole objects are compared and all object maps
//! between the two states are valid, the maps are used instead, without a request for each object. An
//! object that a clone lacks has the parent's data, so the parent's own differences are a part of the
//! clone's. Facts: `librbd/api/DiffIterate.cc`, `librbd/io/ObjectRequest.cc` (release 16).

pub mod file;
pub(crate) mod history;
pub(crate) mod input;
mod maps;
mod merge;

use std::ops::Range;
use std::pin::Pin;

use futures_util::stream::{self, Stream, StreamExt as _, TryStreamExt as _};
use loligo_rados::SnapId;
use loligo_stripe::{ObjectExtent, ObjectNo};
use loligo_wire::Name;

use self::history::History;
pub(crate) use self::maps::Maps;
use self::maps::State;
pub use self::merge::merge;
use crate::Error;
use crate::header::View;
use crate::image::{Image, Inner};

/// Object sets examined in parallel.
const SETS: usize = 32;

/// Objects of one set examined in parallel.
const OBJECTS: usize = 4;

/// A range of an image that differs between two states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The first byte.
    pub offset: u64,
    /// The length in bytes.
    pub len: u64,
    /// Whether there may be data; if not, the whole range is zeros in the later state.
    pub exists: bool,
}

/// The granularity of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// The ranges of bytes that were written.
    Bytes,
    /// A written object counts as a whole (`--whole-object`).
    Objects,
}

/// What is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The granularity.
    pub grain: Grain,
    /// The bytes of the image.
    pub range: Range<u64>,
    /// Whether data of a clone's parent counts as the clone's.
    pub with_parent: bool,
}

impl Image {
    /// Returns the differences between a snapshot (`None`: an image of zeros) and the open image or
    /// snapshot, by offset. Adjacent equal ranges within an object set are merged.
    ///
    /// ```no_run
    /// # async fn example(image: loligo_rbd::Image) -> Result<(), loligo_rbd::Error> {
    /// use futures_util::TryStreamExt as _;
    /// use loligo_rbd::diff::Grain;
    ///
    /// let monday = "monday".into();
    /// let mut changes = image.diff(Some(&monday), Grain::Bytes).await?;
    /// while let Some(change) = changes.try_next().await? {
    ///     println!("{} {}", change.offset, change.len);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSnapshot`]; [`Error::LaterSnapshot`] if the snapshot is newer than the open one.
    pub async fn diff(
        &self,
        from: Option<&Name>,
        grain: Grain,
    ) -> Result<impl Stream<Item = Result<Change, Error>> + Send + Unpin + use<'_>, Error> {
        let id_of = |view: &View| from.map(|name| Ok(view.snapshot(name)?.info.id)).transpose();
        self.differences(id_of, Scope { grain, range: 0..u64::MAX, with_parent: true }).await
    }

    /// Like [`Image::diff`], for a part of the image: only its objects are looked at. A change may begin
    /// before the part, and end behind it. The snapshot may also be one of a group, or in the trash.
    ///
    /// # Errors
    /// As [`Image::diff`].
    pub async fn diff_in(
        &self,
        from: Option<SnapId>,
        scope: Scope,
    ) -> Result<impl Stream<Item = Result<Change, Error>> + Send + Unpin + use<'_>, Error> {
        let id_of = |view: &View| match from.filter(|id| view.snapshot_by_id(*id).is_none()) {
            Some(id) => Err(Error::NoSnapshot(id.0.to_string().into())),
            None => Ok(from),
        };
        self.differences(id_of, scope).await
    }

    /// The differences from the snapshot that is found in the header; `None` is an image of zeros.
    async fn differences(
        &self,
        id_of: impl FnOnce(&View) -> Result<Option<SnapId>, Error>,
        scope: Scope,
    ) -> Result<Pin<Box<dyn Stream<Item = Result<Change, Error>> + Send + '_>>, Error> {
        let Scope { grain, range, with_parent } = scope;
        let inner = &*self.inner;
        inner.write_back().await?;
        inner.refresh().await?;
        let view = inner.view.load_full();
        view.check_readable(inner.moving)?;
        let from = id_of(&view)?;
        let to = inner.snap.unwrap_or(SnapId::HEAD);
        if from.is_some_and(|from| from > to) {
            return Err(Error::LaterSnapshot);
        }
        let span = Span { from, to, grain, with_parent };
        // The maps of an image that is being migrated do not have objects that are still to be copied.
        let maps = match inner.is_migrating() {
            true => Maps::default(),
            false => Maps::load(inner, &view, span).await?,
        };
        let (size, step) = (inner.size(), inner.fixed.layout.set_size());
        let sets = range.start / step..range.end.min(size).div_ceil(step);
        let sets = sets.filter(move |_| from != Some(to));
        let changes = stream::iter(sets)
            .map(move |set| {
                let (maps, offset) = (maps.clone(), set * step);
                async move { inner.changes(offset, step.min(size - offset), span, &maps).await }
            })
            .buffered(SETS);
        let each = |all: Vec<Change>| stream::iter(all.into_iter().map(Ok));
        Ok(Box::pin(changes.map_ok(each).try_flatten()))
    }
}

/// The compared states, and the granularity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// `None`: nothing.
    pub(crate) from: Option<SnapId>,
    pub(crate) to: SnapId,
    pub(crate) grain: Grain,
    /// Whether the parent's data counts.
    pub(crate) with_parent: bool,
}

/// Parts of an object: the range, and whether it has data.
type Parts = Vec<(Range<u64>, bool)>;

impl Inner {
    /// The differences in a range. Boxed, because it is called for the parent too.
    pub(crate) fn changes<'a>(
        &'a self,
        offset: u64,
        len: u64,
        span: Span,
        maps: &'a Maps,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<Change>, Error>> + Send + 'a>> {
        Box::pin(async move {
            let extents = self.fixed.layout.extents(offset, len).collect::<Vec<_>>();
            let looked = extents.into_iter().map(|extent| async move {
                let parts = self.parts_of(extent, span, maps).await?;
                Ok::<_, Error>(self.placed(extent, parts))
            });
            let found: Vec<Vec<Change>> = stream::iter(looked).buffered(OBJECTS).try_collect().await?;
            let mut changes: Vec<Change> = found.into_iter().flatten().collect();
            changes.sort_unstable_by_key(|change| change.offset);
            changes.dedup_by(|next, last| {
                let follows = last.offset + last.len == next.offset && last.exists == next.exists;
                last.len += if follows { next.len } else { 0 };
                follows
            });
            Ok(changes)
        })
    }

    /// Converts parts of an object to ranges of the image, limited to the extent.
    fn placed(&self, extent: ObjectExtent, parts: Parts) -> Vec<Change> {
        let (begin, end) = (extent.offset, extent.offset + extent.len);
        let mut changes = Vec::new();
        for (range, exists) in parts {
            let offset = range.start.max(begin);
            let len = range.end.min(end).saturating_sub(offset);
            if len > 0 {
                let part = ObjectExtent { offset, len, ..extent };
                changes.extend(self.pieces(part).map(|(offset, _, len)| Change { offset, len, exists }));
            }
        }
        changes
    }

    /// The differences of an object.
    async fn parts_of(&self, extent: ObjectExtent, span: Span, maps: &Maps) -> Result<Parts, Error> {
        let Span { from, to, grain, with_parent } = span;
        let number = extent.object.0;
        let view = self.view.load_full();
        let migrates = self.is_migrating();
        if migrates && let Some(parts) = self.source_parts(extent, span).await? {
            return Ok(parts);
        }
        // Data copied from the source hides the parent.
        let is_clone = with_parent && !migrates;
        let covered = |snap: SnapId| if is_clone { self.covered_at(&view, number, snap) } else { 0 };
        let (before, after) = (from.map_or(0, covered), covered(to));
        let whole = 0..self.fixed.layout.object_size();
        if let Some(state) = maps.tell(number).filter(|_| grain == Grain::Objects) {
            return match state {
                State::Same => Ok(Vec::new()),
                State::Missing => self.without_object(extent, span, 0, before, after).await,
                State::Gone => self.without_object(extent, span, whole.end, before, after).await,
                State::Changed => Ok(vec![(whole, true)]),
            };
        }
        let history = match maps.is_missing(number) {
            true => History::default(),
            false => self.history(extent.object).await?,
        };
        let (start, end) = (from.and_then(|from| history.at(from)), history.at(to));
        let Some(end) = end else {
            let was = match grain {
                Grain::Objects if start.is_some() => whole.end,
                _ => history.size(start),
            };
            return self.without_object(extent, span, was, before, after).await;
        };
        let size = history.size(Some(end));
        let changed = match start {
            Some(start) => history.between(start, end),
            None => {
                // Where there was no object, the parent's data was visible.
                let mut changed = self.hidden(extent, size..before).await?;
                changed.push(0..size);
                history::joined(changed)
            }
        };
        if grain == Grain::Objects {
            let changed = changed.iter().any(|range| !range.is_empty());
            return Ok(if changed { vec![(whole, true)] } else { Vec::new() });
        }
        Ok(split(changed, size, from.is_some()))
    }

    /// The differences of an object that does not exist in the later state: zeros where an object of
    /// `size` bytes or the parent's data was before, and the parent's data where it is visible now.
    async fn without_object(
        &self,
        extent: ObjectExtent,
        span: Span,
        size: u64,
        before: u64,
        after: u64,
    ) -> Result<Parts, Error> {
        let mut parts = Vec::new();
        // Only if there was an object or nothing before; otherwise the parent was visible in both
        // states.
        if after > 0 && (size > 0 || span.from.is_none()) {
            let mut at = 0;
            for range in self.parent_parts(extent, after, span.grain).await?.unwrap_or_default() {
                parts.push((at..range.start, false));
                parts.push((range.clone(), true));
                at = range.end;
            }
            parts.push((at..after, false));
        }
        if size > 0 {
            parts.push((after..size.max(before), false));
        } else {
            parts.extend(self.hidden(extent, after..before).await?.into_iter().map(|range| (range, false)));
        }
        parts.retain(|(range, _)| !range.is_empty());
        if span.from.is_none() {
            parts.retain(|(_, exists)| *exists);
        }
        Ok(parts)
    }

    /// The parts of an object's range where the parent had data that is no longer visible.
    async fn hidden(&self, extent: ObjectExtent, range: Range<u64>) -> Result<Vec<Range<u64>>, Error> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let Some(had) = self.parent_parts(extent, range.end, Grain::Bytes).await? else {
            // The parent is not known any more.
            return Ok(vec![range]);
        };
        let parts = had.into_iter().map(|part| part.start.max(range.start)..part.end);
        Ok(parts.filter(|part| !part.is_empty()).collect())
    }

    /// The parts of an object's first `covered` bytes, within the extent, that the parent has data for.
    /// `None` if the parent is not needed any more.
    async fn parent_parts(
        &self,
        extent: ObjectExtent,
        covered: u64,
        grain: Grain,
    ) -> Result<Option<Vec<Range<u64>>>, Error> {
        let Some(parent) = self.open_parent().await? else { return Ok(None) };
        let to = parent.snap.unwrap_or(SnapId::HEAD);
        let span = Span { from: None, to, grain, with_parent: true };
        let mut all = Vec::new();
        let len = covered.min(extent.offset + extent.len).saturating_sub(extent.offset);
        for (at, object_offset, len) in self.pieces(ObjectExtent { len, ..extent }) {
            // The parent may be shorter than the image's snapshot.
            let len = len.min(parent.size().saturating_sub(at));
            for change in parent.changes(at, len, span, &Maps::default()).await? {
                let from = object_offset + (change.offset - at);
                all.push(from..from + change.len);
            }
        }
        Ok(Some(history::joined(all)))
    }

    /// Reads an object's history; it is empty if the object never existed.
    pub(crate) async fn history(&self, object: ObjectNo) -> Result<History, Error> {
        match self.data.object_snapshots(self.fixed.object(object.0)).await {
            Err(e) if e.is_not_found() => Ok(History::default()),
            listed => Ok(History(listed?)),
        }
    }

    /// The first bytes of an object that the parent may have at a snapshot or now.
    fn covered_at(&self, view: &View, number: u64, snap: SnapId) -> u64 {
        let overlap = match view.parent {
            None => None,
            Some(_) if snap == SnapId::HEAD => view.overlap,
            Some(_) => view.snapshot_by_id(snap).and_then(|snap| snap.overlap),
        };
        self.fixed.layout.object_len(ObjectNo(number), overlap.unwrap_or(0))
    }
}

/// Splits changed ranges into data before the object's end, and zeros behind it.
fn split(changed: Vec<Range<u64>>, size: u64, with_zeros: bool) -> Parts {
    let mut parts = Vec::new();
    for range in changed {
        if range.start < size {
            parts.push((range.start..range.end.min(size), true));
        }
        if range.end > size && with_zeros {
            parts.push((range.start.max(size)..range.end, false));
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_behind_the_object_is_zeros() {
        let changed = || vec![0..10, 20..30];
        assert_eq!(split(changed(), 25, true), [(0..10, true), (20..25, true), (25..30, false)]);
        assert_eq!(split(changed(), 25, false), [(0..10, true), (20..25, true)]);
        assert_eq!(split(changed(), 0, true), [(0..10, false), (20..30, false)]);
    }
}
