//! Copying within the file system, as `copy_file_range(2)` does: whole objects by the OSDs, without the
//! data passing through this client, where layouts and offsets let it; the rest as reads and writes.

use std::sync::atomic::{AtomicBool, Ordering};

use az::SaturatingAs as _;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use loligo_fs_core::caps::Access;
use loligo_layout::Layout;
use loligo_rados::Errno;

use super::File;
use crate::data::filled;
use crate::error::Error;
use crate::mds::Use;

/// Bytes of one read and write.
const PIECE_BYTES: u64 = 8 << 20;
/// Reads and writes, or objects, under way at a time.
const AT_ONCE: usize = 8;
/// Times that both files are asked for before the data is read and written instead.
const TRIES_MAX: u32 = 16;

/// A part of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Read here and written again.
    Data { from: u64, to: u64, len: u64 },
    /// Copied by the OSDs: whole sets of objects.
    Sets { from: u64, to: u64, count: u64 },
}

impl File {
    /// Copies a range to a place in another file, or of the same one. Returns the number of bytes: fewer
    /// only where the source ends.
    ///
    /// # Errors
    /// EBADF if the source is not open to read, or the destination not to write, or only to append; EINVAL
    /// if the ranges are of one file and have bytes in common.
    pub async fn copy_range(&self, offset: u64, to: &Self, to_offset: u64, len: u64) -> Result<u64, Error> {
        if !self.options.read || !to.options.write || to.options.append {
            return Err(Errno::EBADF.into());
        }
        let len = len.min(self.size_now().await?.saturating_sub(offset));
        if len == 0 {
            return Ok(0);
        }
        let (end, to_end) = (offset + len, to_offset.checked_add(len).ok_or(Errno::EFBIG)?);
        if self.inode.id == to.inode.id && offset < to_end && to_offset < end {
            return Err(Errno::EINVAL.into());
        }
        let whole = match self.same_objects(to).await? {
            Some(layout) => parts(layout.set_size(), offset, to_offset, len),
            None => vec![Part::Data { from: offset, to: to_offset, len }],
        };
        for part in whole {
            match part {
                Part::Data { from, to: at, len } => self.copy_data(from, to, at, len).await?,
                Part::Sets { from, to: at, count } => self.copy_sets(from, to, at, count).await?,
            }
        }
        Ok(len)
    }

    /// Returns the layout of both files, if objects of one can become objects of the other.
    async fn same_objects(&self, to: &Self) -> Result<Option<Layout>, Error> {
        let attrs = |file: &Self| {
            let known = file.inode.known();
            let attrs = &known.attrs;
            let raw = attrs.layout;
            let layout = Layout::new(raw.stripe_unit.into(), raw.stripe_count.into(), raw.object_size.into());
            (layout, raw.pool, attrs.truncate_seq, attrs.inline.is_some())
        };
        let ((Ok(layout), pool, truncate_seq, has_inline), (Ok(other), other_pool, _, other_inline)) =
            (attrs(self), attrs(to))
        else {
            return Ok(None);
        };
        // An object of a file that was cut off may still hold what lay behind the cut: reads are told so,
        // copies are not.
        let is_whole = truncate_seq <= 1;
        let same = layout == other && pool == other_pool && is_whole && !has_inline && !other_inline;
        Ok(same.then_some(layout))
    }

    async fn copy_data(&self, from: u64, to: &Self, at: u64, len: u64) -> Result<(), Error> {
        let pieces = (0..len).step_by(PIECE_BYTES.saturating_as::<usize>()).map(|begin| async move {
            let len = PIECE_BYTES.min(len - begin);
            // Where the source was cut off meanwhile, it reads as zeros.
            let piece = filled(self.read_at(from + begin, len).await?, len);
            to.write_at(at + begin, piece).await
        });
        stream::iter(pieces).buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Begins to write a file, and to read this one. Neither is waited for while the other is held: the
    /// server may want it back before it gives anything. `None` if another client wants the same again and
    /// again.
    async fn begin_copy<'c>(
        &'c self,
        to: &'c Self,
        end: u64,
    ) -> Result<Option<(Use<'c>, Option<Use<'c>>)>, Error> {
        for _ in 0..TRIES_MAX {
            let writing = to.fs.core.acquire(&to.inode, Access::Write, Some(end)).await?;
            if !self.inode.id.is_head() {
                return Ok(Some((writing, None)));
            }
            if let Some(reading) = self.fs.core.try_acquire(&self.inode, Access::Read, None) {
                return Ok(Some((writing, Some(reading))));
            }
            drop(writing);
            drop(self.fs.core.acquire(&self.inode, Access::Read, None).await?);
        }
        Ok(None)
    }

    /// Copies sets of objects. Those that the OSDs cannot copy are read and written.
    async fn copy_sets(&self, from: u64, to: &Self, at: u64, count: u64) -> Result<(), Error> {
        let objects = self.objects()?;
        let layout = objects.layout();
        let (size, per_set) = (layout.set_size(), layout.stripe_count());
        let end = at + count * size;
        let is_near_limit = to.before_write(end).await?;
        let refused = {
            let Some(_uses) = self.begin_copy(to, end).await? else {
                return self.copy_data(from, to, at, count * size).await;
            };
            // The OSDs copy what they have.
            for cached in self.cached.iter().chain(&to.cached) {
                cached.write_back().await?;
            }
            let target = to.objects()?;
            let (first, first_to) = (from / size * per_set, at / size * per_set);
            let has_failed = AtomicBool::new(false);
            let each = (0..count * per_set).map(|number| {
                let (objects, target, has_failed) = (&objects, &target, &has_failed);
                async move {
                    if has_failed.load(Ordering::Relaxed) {
                        return Ok(());
                    }
                    let done = target.copy_object(first_to + number, objects, first + number).await;
                    has_failed.fetch_or(done.is_err(), Ordering::Relaxed);
                    done
                }
            });
            // After a failure no further object begins. Those under way are waited for, while the right to
            // write is held.
            let done: Result<(), Error> = stream::iter(each)
                .buffer_unordered(AT_ONCE)
                .fold(Ok(()), |all, done| async move { all.and(done) })
                .await;
            let dropped = match &to.cached {
                Some(cached) => cached.discard(layout, at, count * size).await,
                None => Ok(()),
            };
            if done.is_ok() {
                to.wrote(end, false);
                // What fails from here on is no reason to copy again.
                dropped?;
            }
            done.err()
        };
        match refused {
            None => to.after_write(is_near_limit).await,
            // Servers that have no such operation, or keys that may not read by it.
            Some(e) if [Errno::EOPNOTSUPP, Errno::EPERM, Errno::EINVAL].contains(&e.errno()) => {
                self.copy_data(from, to, at, count * size).await
            }
            Some(e) => Err(e),
        }
    }
}

/// Divides a copy into sets of whole objects, which both files have at the same distance, and what lies
/// before and after them.
fn parts(set_size: u64, from: u64, to: u64, len: u64) -> Vec<Part> {
    let data = |from, to, len| Part::Data { from, to, len };
    // The server says how large files and sets are.
    let head = from.checked_next_multiple_of(set_size).map_or(len, |begin| begin - from);
    if from % set_size != to % set_size || len.saturating_sub(head) < set_size {
        return vec![data(from, to, len)];
    }
    let count = (len - head) / set_size;
    let tail = len - head - count * set_size;
    let at = head + count * set_size;
    let all = [
        (head > 0).then(|| data(from, to, head)),
        Some(Part::Sets { from: from + head, to: to + head, count }),
        (tail > 0).then(|| data(from + at, to + at, tail)),
    ];
    all.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_sets_of_objects_are_found() {
        let data = |from, to, len| Part::Data { from, to, len };
        assert_eq!(parts(10, 0, 0, 25), [Part::Sets { from: 0, to: 0, count: 2 }, data(20, 20, 5)]);
        assert_eq!(
            parts(10, 7, 27, 24),
            [data(7, 27, 3), Part::Sets { from: 10, to: 30, count: 2 }, data(30, 50, 1)]
        );
        assert_eq!(parts(10, 7, 8, 100), [data(7, 8, 100)], "at different distances");
        assert_eq!(parts(10, 5, 5, 14), [data(5, 5, 14)], "no set is whole");
        assert_eq!(parts(10, 10, 0, 10), [Part::Sets { from: 10, to: 0, count: 1 }]);
        assert_eq!(parts(10, 3, 3, 0), [data(3, 3, 0)]);
        assert_eq!(parts(10, u64::MAX - 3, 2, 3), [data(u64::MAX - 3, 2, 3)], "no set begins behind it");
    }
}
