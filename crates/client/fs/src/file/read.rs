//! Reads: from the cache without a lock, or from all objects of the range at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};
use loligo_cache::Target;
use loligo_fs_core::caps::Access;
use loligo_rados::Errno;
use loligo_wire::Caps;
use tokio::task::coop::consume_budget;
use tokio::time::Instant;

use super::File;
use crate::core::Core;
use crate::error::Error;
use crate::inode::Inode;
use crate::life::thread_number;
use crate::mds::Use;

/// Reads of cached data of so many bytes are copied at once: making pieces first would cost more.
const SMALL_BYTES: u64 = 32 << 10;

impl File {
    /// Reads up to `len` bytes at an offset: fewer only at the file's end.
    ///
    /// What is in the client's cache is read without waiting for anybody.
    ///
    /// # Errors
    /// EBADF if the file is not open to read; EIO if locks were lost that the file was opened with.
    pub async fn read_at(&self, offset: u64, len: u64) -> Result<Bytes, Error> {
        // What comes from the store is in memory of its own.
        if len <= SMALL_BYTES && self.cached.is_some() && !self.is_direct() {
            let mut data = BytesMut::zeroed(usize::try_from(len).map_err(|_| Errno::EINVAL)?);
            let len = self.read_into(offset, &mut data).await?;
            data.truncate(len);
            return Ok(data.freeze());
        }
        let mut pieces = self.read_pieces_at(offset, len).await?;
        if let [only] = &mut pieces[..] {
            return Ok(std::mem::take(only));
        }
        let mut data = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
        pieces.iter().for_each(|piece| data.extend_from_slice(piece));
        Ok(data.freeze())
    }

    /// Reads into a buffer. Returns the number of bytes: fewer than it has only at the file's end.
    ///
    /// # Errors
    /// As [`File::read_at`].
    pub async fn read_into(&self, offset: u64, buf: &mut [u8]) -> Result<usize, Error> {
        self.read_to((offset, buf.len() as u64), Target::Buffer(buf)).await
    }

    /// Reads as [`File::read_at`], but returns the bytes in pieces, none of them empty. What is in the
    /// client's cache is not copied: a piece of it stays as it was when it was read, and its memory is not
    /// counted against the cache's size. A caller that keeps pieces for long should copy them.
    ///
    /// # Errors
    /// As [`File::read_at`].
    pub async fn read_pieces_at(&self, offset: u64, len: u64) -> Result<Vec<Bytes>, Error> {
        let mut pieces = Vec::new();
        self.read_to((offset, len), Target::Pieces(&mut pieces)).await?;
        Ok(pieces)
    }

    /// Reads a range, given by offset and length. Returns the number of bytes.
    async fn read_to(&self, (offset, len): (u64, u64), mut to: Target<'_>) -> Result<usize, Error> {
        if !self.options.read || self.is_closed.load(Ordering::Acquire) {
            return Err(Errno::EBADF.into());
        }
        self.locks_hold()?;
        let end = offset.checked_add(len).ok_or(Errno::EINVAL)?;
        if !self.inode.id.is_head() {
            return Ok(put(self.read_of_snapshot(offset, len).await?, to));
        }
        // What is cached is read without waiting: a task that does nothing else must leave its thread to
        // those that answer the servers.
        consume_budget().await;
        let began = Instant::now();
        let len = match self.try_cached((offset, end), &mut to, began) {
            Some(len) => len,
            None => self.read_waiting(offset, end, to).await?,
        };
        self.fs.core.metrics.read(len as u64, began.elapsed());
        Ok(len)
    }

    /// Returns `true` if a cache above this client may keep what is read now (Fc): it hears when it may no
    /// longer ([`crate::FileSystem::watch_invalidations`]).
    pub fn may_be_kept(&self) -> bool {
        let is_cached = || {
            let reading = self.fs.core.try_acquire(&self.inode, Access::Read, None);
            reading.is_some_and(|reading| reading.is_cached())
        };
        // The state says it also while the data path is being changed.
        (self.inode.id.is_head() && is_cached()) || self.node().trust().data
    }

    /// Reads what is not in the cache, or may not be read without asking.
    async fn read_waiting(&self, offset: u64, end: u64, to: Target<'_>) -> Result<usize, Error> {
        let core = &self.fs.core;
        // The size is asked for first: while the data is being read, the server could not change it.
        core.know_size(&self.inode, end).await?;
        let reading = core.acquire(&self.inode, Access::Read, None).await?;
        self.read_now(&reading, (offset, end), to).await
    }

    /// Reads what is in the cache, without a lock of this client's. Returns `None` if something is missing.
    fn try_cached(&self, (offset, end): (u64, u64), to: &mut Target<'_>, now: Instant) -> Option<usize> {
        let cached = self.cached.as_ref().filter(|_| !self.is_direct())?;
        let (core, data) = (&self.fs.core, &self.inode.data);
        if core.barrier.is_up() {
            return None;
        }
        let (read, looks) = data.read_cached(core.ms_at(now), thread_number(), |view| {
            let size = data.size();
            if view.is_inline || (end > size && !view.knows_size) {
                return None;
            }
            let end = end.min(size);
            if end <= offset {
                return Some(0);
            }
            let layout = view.objects.as_ref()?.layout();
            let len = usize::try_from(end - offset).ok()?;
            cached.try_read(layout, (offset, len), &mut to.part(0..len), size).then_some(len)
        });
        if looks {
            core.look(&self.inode);
        }
        read
    }

    async fn read_now(
        &self,
        reading: &Use<'_>,
        (offset, end): (u64, u64),
        mut to: Target<'_>,
    ) -> Result<usize, Error> {
        let size = self.inode.data.size();
        let len = end.min(size).saturating_sub(offset);
        if len == 0 {
            return Ok(0);
        }
        if reading.view.is_inline {
            return Ok(put(self.inline(offset, len)?, to));
        }
        let objects = reading.view.objects()?;
        match self.cached.as_ref().filter(|_| reading.is_cached()) {
            Some(cached) if !self.is_direct() => {
                let len = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
                cached.read(objects.layout(), (offset, len), to.part(0..len), size).await?;
                Ok(len)
            }
            Some(cached) => {
                cached.write_back().await?;
                Ok(put(objects.read(offset, len).await?, to))
            }
            None => Ok(put(objects.read(offset, len).await?, to)),
        }
    }

    /// Returns a part of the data that the metadata server keeps itself.
    fn inline(&self, offset: u64, len: u64) -> Result<Bytes, Error> {
        let inline = self.inode.known().attrs.inline.clone().unwrap_or_default();
        let begin = usize::try_from(offset).unwrap_or(usize::MAX).min(inline.len());
        let mut data = inline[begin..].to_vec();
        data.resize(usize::try_from(len).map_err(|_| Errno::EINVAL)?, 0);
        Ok(data.into())
    }

    /// Reads a file in a snapshot: nobody changes it.
    async fn read_of_snapshot(&self, offset: u64, len: u64) -> Result<Bytes, Error> {
        let (size, is_inline) = {
            let known = self.inode.known();
            (known.attrs.size, known.attrs.inline.is_some())
        };
        let len = len.min(size.saturating_sub(offset));
        match (len, is_inline) {
            (0, _) => Ok(Bytes::new()),
            (_, true) => self.inline(offset, len),
            _ => self.objects()?.read(offset, len).await,
        }
    }
}

/// Puts what was read where it belongs. Returns the number of bytes.
fn put(data: Bytes, to: Target<'_>) -> usize {
    let len = data.len();
    match to {
        Target::Buffer(buf) => buf[..len].copy_from_slice(&data),
        Target::Pieces(pieces) => pieces.extend((len > 0).then_some(data)),
    }
    len
}

impl Core {
    /// Makes sure that a file's size is known, if `end` is beyond what is known of it: another client may
    /// have extended it.
    pub(crate) async fn know_size(&self, inode: &Arc<Inode>, end: u64) -> Result<(), Error> {
        let is_known = {
            let known = inode.known();
            let vouched = known.issued(self.now_ms()).intersects(Caps::FILE_SHARED | Caps::FILE_EXCL);
            vouched || end <= known.attrs.size
        };
        if is_known { Ok(()) } else { self.ask_attrs(inode, Caps::FILE_SHARED).await }
    }
}
