//! Holes: to make them, and to tell where they are.

use std::collections::BTreeMap;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use loligo_rados::Errno;

use crate::direct::Direct;
use crate::error::Error;
use crate::file::File;
use loligo_layout::{Layout, ObjectExtent, ObjectNo};

/// Requests of one call under way at a time.
const REQUESTS_MAX: usize = 16;
/// Objects that one call of [`File::parts`] asks for, but for those at its ends.
const OBJECTS_MAX: u64 = 256;
/// Bytes that one call of [`File::parts`] tells of at most. With the smallest stripe units that are 16,384
/// parts.
const BYTES_MAX: u64 = 1 << 30;

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Bytes; not 0.
    pub len: u64,
    /// It takes no room and reads as zeros.
    pub is_hole: bool,
}

impl File {
    /// Makes a range read as zeros and gives its room back. The file stays as long as it is. Objects that lie
    /// within as a whole are removed, except for the first, which says what the file is.
    ///
    /// # Errors
    /// The first that comes; some of the range may have become a hole then.
    pub async fn punch(&self, offset: u64, len: u64) -> Result<(), Error> {
        let inner = self.inner();
        inner.check()?;
        let end = inner.end_of(offset, len).await?;
        self.direct().punch(offset, end.saturating_sub(offset)).await
    }

    /// Which parts of a range are holes, as OSDs' stores report them; parts that follow each other differ.
    /// They end where the range or the file does, or earlier if the range is long; there is one at least
    /// unless there is nothing to be told of. What a pool cannot tell counts as no hole.
    ///
    /// # Errors
    /// The first that comes.
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

    /// Which ranges of the file an extent holds: where and how long.
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
        // Less than one set: so many of its objects.
        0 => OBJECTS_MAX * layout.stripe_unit(),
        sets => sets * layout.set_size(),
    };
    bytes.min(BYTES_MAX)
}

/// What lies between ascending ranges is holes.
fn with_holes(offset: u64, len: u64, stored: Vec<(u64, u64)>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut add = |len: u64, is_hole: bool| match parts.last_mut() {
        _ if len == 0 => {}
        Some(last) if last.is_hole == is_hole => last.len += len,
        _ => parts.push(Part { len, is_hole }),
    };
    let (mut at, end) = (offset, offset + len);
    for (begins, len) in stored {
        // An OSD may tell of the same bytes twice.
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
