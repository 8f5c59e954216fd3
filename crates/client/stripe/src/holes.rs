//! Punching and finding holes.

use std::collections::BTreeMap;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use loligo_rados::Errno;

use crate::direct::Direct;
use crate::error::Error;
use crate::file::File;
use loligo_layout::{Layout, ObjectExtent, ObjectNo};

/// The most requests of one call in flight.
const REQUESTS_MAX: usize = 16;
/// The most objects that one call of [`File::parts`] queries, except for those at its ends.
const OBJECTS_MAX: u64 = 256;
/// The most bytes that one call of [`File::parts`] reports on. With the smallest stripe units that is
/// 16,384 parts.
const BYTES_MAX: u64 = 1 << 30;

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Length in bytes; not 0.
    pub len: u64,
    /// The part takes no space and reads as zeros.
    pub is_hole: bool,
}

impl File {
    /// Makes a range read as zeros and frees its space. The file's size does not change. Objects that
    /// lie wholly within the range are removed, except for the first object, which holds the file's
    /// attributes.
    ///
    /// # Errors
    /// The first that occurs; some of the range may have become a hole then.
    pub async fn punch(&self, offset: u64, len: u64) -> Result<(), Error> {
        let inner = self.inner();
        inner.check()?;
        let end = inner.end_of(offset, len).await?;
        self.direct().punch(offset, end.saturating_sub(offset)).await
    }

    /// Reports which parts of a range are holes, according to the OSDs' stores; adjacent parts differ.
    /// The parts end at the end of the range or of the file, or earlier if the range is long. There is
    /// at least one part unless the range has no bytes within the file. If a pool cannot report holes,
    /// there are none.
    ///
    /// # Errors
    /// The first that occurs.
    pub async fn parts(&self, offset: u64, len: u64) -> Result<Vec<Part>, Error> {
        let inner = self.inner();
        inner.check()?;
        let len = len.min(told_at_once(inner.layout()));
        let end = inner.end_of(offset, len).await?;
        self.direct().parts(offset, end.saturating_sub(offset)).await
    }
}

impl Direct {
    async fn punch(&self, offset: u64, len: u64) -> Result<(), Error> {
        let each = stream::iter(self.layout().extents(offset, len)).map(|extent| self.punch_object(extent));
        each.buffer_unordered(REQUESTS_MAX).try_collect::<()>().await
    }

    async fn punch_object(&self, extent: ObjectExtent) -> Result<(), Error> {
        let (name, io) = (self.name(extent.object), self.ioctx());
        let is_whole = extent.offset == 0 && extent.len == self.layout().object_size();
        let done = if is_whole && extent.object != ObjectNo(0) {
            io.remove(name).await
        } else {
            io.zero(name, extent.offset, extent.len).await
        };
        match done {
            Err(e) if !e.is_not_found() => Err(e.into()),
            _ => Ok(()),
        }
    }

    async fn parts(&self, offset: u64, len: u64) -> Result<Vec<Part>, Error> {
        let each = stream::iter(self.layout().extents(offset, len)).map(|extent| self.stored(extent));
        let stored: Vec<Vec<(u64, u64)>> = each.buffer_unordered(REQUESTS_MAX).try_collect().await?;
        let mut stored = stored.concat();
        stored.sort_unstable();
        Ok(with_holes(offset, len, stored))
    }

    /// The ranges of the file for which an extent has stored data, as offsets and lengths.
    async fn stored(&self, extent: ObjectExtent) -> Result<Vec<(u64, u64)>, Error> {
        let asked = self.ioctx().extents(self.name(extent.object), extent.offset, extent.len).await;
        let ranges = match asked {
            Ok(ranges) => ranges,
            Err(e) if e.is_not_found() => BTreeMap::new(),
            Err(e) if e.errno() == Errno::EOPNOTSUPP => BTreeMap::from([(extent.offset, extent.len)]),
            Err(e) => return Err(e.into()),
        };
        let end = extent.offset + extent.len;
        let within = ranges.into_iter().filter_map(|(at, len)| {
            let (from, to) = (at.max(extent.offset), at.saturating_add(len).min(end));
            (from < to).then(|| ObjectExtent { object: extent.object, offset: from, len: to - from })
        });
        let pieces = within.flat_map(|extent| self.layout().pieces(extent));
        Ok(pieces.map(|piece| (piece.file_offset, piece.len)).collect())
    }
}

fn told_at_once(layout: Layout) -> u64 {
    let bytes = match OBJECTS_MAX / layout.stripe_count() {
        // Less than one set: as many of its objects as are allowed.
        0 => OBJECTS_MAX * layout.stripe_unit(),
        sets => sets * layout.set_size(),
    };
    bytes.min(BYTES_MAX)
}

/// Fills the gaps between ascending stored ranges with holes.
fn with_holes(offset: u64, len: u64, stored: Vec<(u64, u64)>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut add = |len: u64, is_hole: bool| match parts.last_mut() {
        _ if len == 0 => {}
        Some(last) if last.is_hole == is_hole => last.len += len,
        _ => parts.push(Part { len, is_hole }),
    };
    let (mut at, end) = (offset, offset + len);
    for (begins, len) in stored {
        // An OSD may report the same bytes twice.
        let begins = begins.clamp(at, end);
        let ends = begins.saturating_add(len).clamp(begins, end);
        add(begins - at, true);
        add(ends - begins, false);
        at = ends;
    }
    add(end - at, true);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(len: u64, is_hole: bool) -> Part {
        Part { len, is_hole }
    }

    #[test]
    fn what_is_not_stored_is_a_hole() {
        assert_eq!(with_holes(10, 0, vec![]), []);
        assert_eq!(with_holes(10, 5, vec![]), [part(5, true)]);
        assert_eq!(with_holes(10, 5, vec![(10, 2), (12, 3)]), [part(5, false)]);
        let parts = [part(1, true), part(2, false), part(1, true), part(1, false)];
        assert_eq!(with_holes(10, 5, vec![(11, 2), (14, 1)]), parts);
    }

    #[test]
    fn a_call_tells_of_a_bounded_range() {
        let of = |unit, count, size| told_at_once(Layout::new(unit, count, size).expect("valid"));
        assert_eq!(of(4 << 20, 1, 4 << 20), 1 << 30);
        assert_eq!(of(64 << 10, 4, 128 << 10), 32 << 20);
        assert_eq!(of(64 << 10, 1000, 4 << 20), 16 << 20);
    }
}
