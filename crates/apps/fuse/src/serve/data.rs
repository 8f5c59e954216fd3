//! Open files.

use std::sync::Arc;

use az::SaturatingAs as _;
use loligo_fs::{Errno, Error, File, OpenOptions};
use rustix::fs::OFlags;

use super::Server;
use crate::kernel::{Answer, Head, LockWish, Op};
use crate::locks;
use crate::pages::Pages;

/// How the kernel treats an open file (`FOPEN_*`).
const DIRECT_IO: u32 = 1;
const KEEP_CACHE: u32 = 1 << 1;
const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;

/// Bytes of a page, and a divisor of larger pages' bytes.
const PAGE: u64 = 4096;

/// `SEEK_DATA` and `SEEK_HOLE`.
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;

/// An open file.
pub(super) struct Opened {
    pub(super) file: File,
    /// What the kernel may have of its data.
    pages: Arc<Pages>,
}

impl Server {
    pub(super) async fn data(&self, head: &Head, op: Op) -> Result<Answer, Error> {
        match op {
            Op::Read { fh, offset, size } => self.read(head, fh, (offset, size)).await,
            Op::Write { fh, offset, data, of_pages, is_alone } => {
                let (opened, len) = (self.opened_file(fh)?, data.len().saturating_as::<u32>());
                if of_pages {
                    opened.file.write_back_at(offset, data).await?;
                    return Ok(Answer::written(len));
                }
                let began = opened.pages.write_begins();
                let done = match is_alone {
                    true => opened.file.write_owned_at(offset, data).await,
                    false => opened.file.write_at(offset, data).await,
                };
                if opened.pages.write_ends(began) {
                    self.invalidations.turned_bad(head.node, &opened.pages);
                }
                done.map(|()| Answer::written(len))
            }
            Op::Open { flags } => self.open(head, flags).await,
            Op::Create { name, flags, mode, umask } => self.create(head, &name, (flags, mode, umask)).await,
            Op::Flush { fh, owner } => self.flush(fh, owner).await,
            Op::Release { fh, owner, unlocks } => self.release(fh, owner, unlocks).await,
            Op::FSync { fh } => self.opened_file(fh)?.file.sync().await.map(|()| Answer::Done),
            Op::Fallocate { fh, offset, len, mode } => {
                let opened = self.opened_file(fh)?;
                opened.file.fallocate(mode.cast_signed(), offset, len).await.map(|()| Answer::Done)
            }
            Op::Seek { fh, offset, whence } => {
                let opened = self.opened_file(fh)?;
                Ok(Answer::offset(match whence {
                    SEEK_DATA => opened.file.seek_data(offset).await?,
                    SEEK_HOLE => opened.file.seek_hole(offset).await?,
                    _ => return Err(Errno::EINVAL.into()),
                }))
            }
            Op::Copy { from, from_offset, to, to_offset, len, is_long } => {
                let (from, to) = (self.opened_file(from)?, self.opened_file(to)?);
                // The older form answers with 32 bits.
                let max = if is_long { len } else { len.min(u64::from(u32::MAX) & !0xfff) };
                let done = from.file.copy_range(from_offset, &to.file, to_offset, max).await?;
                let short = || Answer::written(u32::try_from(done).unwrap_or(u32::MAX));
                Ok(if is_long { Answer::written_long(done) } else { short() })
            }
            Op::GetLock(wish) => {
                let lock = locks::wished(&wish).ok_or(Errno::EINVAL)?;
                Ok(Answer::lock(self.opened_file(wish.fh)?.file.find_lock(lock).await?.as_ref()))
            }
            Op::SetLock { wish, waits } => self.set_lock(head, &wish, waits).await,
            _ => Err(Errno::ENOSYS.into()),
        }
    }

    /// Reads. What has the size of pages may fill some.
    async fn read(&self, head: &Head, fh: u64, (offset, size): (u64, u32)) -> Result<Answer, Error> {
        let opened = self.opened_file(fh)?;
        let fills = offset.is_multiple_of(PAGE) && u64::from(size).is_multiple_of(PAGE);
        let filling = fills.then(|| opened.pages.fill(|| opened.file.may_be_kept()));
        if let Some((_, true)) = &filling {
            self.invalidations.turned_bad(head.node, &opened.pages);
        }
        Ok(Answer::Pieces(opened.file.read_pieces_at(offset, size.into()).await?))
    }

    async fn open(&self, head: &Head, flags: i32) -> Result<Answer, Error> {
        let node = self.changed(head).await?;
        let file = node.open(OpenOptions::from_flags(flags)?).await?;
        let (fh, treatment) = self.opened(head.node, file, (flags, node.known().size))?;
        Ok(Answer::opened(fh, treatment))
    }

    async fn create(
        &self,
        head: &Head,
        name: &[u8],
        (flags, mode, umask): (i32, u32, u32),
    ) -> Result<Answer, Error> {
        let dir = self.changed(head).await?;
        let mode = self.mode(&dir, mode, umask).await;
        let options = OpenOptions::from_flags(flags)?.mode(mode);
        let (node, file, _) = dir.create(name, options).await?;
        let meta = node.known();
        let entry = self.tell(&dir, name, &node, &meta).ok_or(Errno::ENFILE)?;
        match self.opened(entry.number, file, (flags, meta.size)) {
            Ok((fh, treatment)) => Ok(Answer::created(entry, self.policy.shown, fh, treatment)),
            Err(e) => {
                self.nodes.forget(entry.number, 1);
                Err(e)
            }
        }
    }

    /// Gives an open file a number. Returns it with how the kernel is to treat the file.
    fn opened(&self, node: u64, file: File, (flags, size): (i32, u64)) -> Result<(u64, u32), Error> {
        let known = self.nodes.pages_of_opened(node);
        let may_be_kept = self.policy.keeps_attrs && known.is_some() && file.may_be_kept();
        let pages = known.unwrap_or_default();
        let treatment = treatment(flags, size, may_be_kept, pages.must_go(may_be_kept));
        let fh = self.files.add(Arc::new(Opened { file, pages })).ok_or(Errno::ENFILE)?;
        Ok((fh, treatment))
    }

    /// A descriptor is closed: the process loses its locks on ranges, and hears of what was lost.
    async fn flush(&self, fh: u64, owner: u64) -> Result<Answer, Error> {
        let opened = self.opened_file(fh)?;
        opened.file.unlock_all(locks::owner(owner)).await?;
        opened.file.check().map(|()| Answer::Done)
    }

    /// The last descriptor is gone.
    async fn release(&self, fh: u64, owner: u64, unlocks: bool) -> Result<Answer, Error> {
        let Some(opened) = self.files.remove(fh) else { return Err(Errno::EBADF.into()) };
        if unlocks {
            let kind = loligo_fs::LockKind::Unlocked;
            // The file's close gives back what is left.
            let _ = opened.file.lock_whole(kind, locks::owner(owner), false).await;
        }
        if let Some(opened) = Arc::into_inner(opened) {
            // Nobody hears of an error here; the next one to look does.
            let _ = opened.file.close().await;
        }
        Ok(Answer::Done)
    }

    async fn set_lock(&self, head: &Head, wish: &LockWish, waits: bool) -> Result<Answer, Error> {
        let opened = self.opened_file(wish.fh)?;
        let lock = locks::wished(wish).ok_or(Errno::EINVAL)?;
        let asked = async {
            match wish.is_whole {
                true => opened.file.lock_whole(lock.kind, lock.owner, waits).await,
                false => opened.file.lock(lock, waits).await,
            }
        };
        match waits {
            true => self.waiting.unless_interrupted(head.unique, asked).await?,
            false => asked.await?,
        }
        Ok(Answer::Done)
    }
}

/// Returns how the kernel is to treat an open file.
///
/// A descriptor that only reads gets pages of the kernel while the client may keep data (Fc), and keeps those
/// that are there (see [`crate::pages`]). Reads and writes of others come here as they are, those of several
/// programs at the same time: the client's own cache has the data, and its coherence.
///
/// Programs that pass caches by (`O_DIRECT`) can have one of two things of the kernel. Without
/// `FOPEN_DIRECT_IO` all parts of one large write come here at once, but one write after the other: a program
/// that only writes, or fills a new file, gets that. Whatever changes a file in place, and therefore opens it
/// for reads, too, has several writes at a time, each in one part after the other.
fn treatment(flags: i32, size: u64, may_be_kept: bool, must_go: bool) -> u32 {
    let flags = OFlags::from_bits_retain(flags.cast_unsigned());
    let keeps = if may_be_kept && !must_go { KEEP_CACHE } else { 0 };
    let access = flags & OFlags::RWMODE;
    let in_place = access == OFlags::RDWR && size > 0;
    let in_parts = flags.contains(OFlags::DIRECT) && !flags.contains(OFlags::APPEND) && !in_place;
    if in_parts || (access == OFlags::RDONLY && may_be_kept) {
        return keeps;
    }
    DIRECT_IO | PARALLEL_DIRECT_WRITES | keeps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(flags: OFlags, may_be_kept: bool, must_go: bool) -> u32 {
        treatment(flags.bits().cast_signed(), 1, may_be_kept, must_go)
    }

    #[test]
    fn large_direct_writes_come_in_parts_at_once() {
        let of = |flags| of(flags, false, false);
        assert_eq!(of(OFlags::RDWR), DIRECT_IO | PARALLEL_DIRECT_WRITES);
        assert_eq!(of(OFlags::WRONLY | OFlags::DIRECT), 0);
        assert_eq!(of(OFlags::RDONLY | OFlags::DIRECT), 0);
        // Only the client knows where the file ends by then.
        assert_eq!(of(OFlags::WRONLY | OFlags::APPEND | OFlags::DIRECT), DIRECT_IO | PARALLEL_DIRECT_WRITES);
    }

    #[test]
    fn several_direct_writes_in_place_come_at_once() {
        let flags = (OFlags::RDWR | OFlags::DIRECT).bits().cast_signed();
        assert_eq!(treatment(flags, 1, false, false), DIRECT_IO | PARALLEL_DIRECT_WRITES);
        assert_eq!(treatment(flags, 0, false, false), 0, "a new file grows by one write after the other");
    }

    #[test]
    fn readers_have_pages_while_data_may_be_kept() {
        assert_eq!(of(OFlags::RDONLY, true, false), KEEP_CACHE);
        assert_eq!(of(OFlags::RDONLY, true, true), 0, "older pages go");
        assert_eq!(of(OFlags::RDONLY, false, false), DIRECT_IO | PARALLEL_DIRECT_WRITES);
        assert_eq!(of(OFlags::RDWR, true, false), DIRECT_IO | PARALLEL_DIRECT_WRITES | KEEP_CACHE);
    }
}
