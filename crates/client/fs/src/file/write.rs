//! Writes, and what changes a file's data and size otherwise.

use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use loligo_fs_core::caps::Access;
use loligo_rados::Errno;
use tokio::task::coop::consume_budget;

use super::File;
use crate::attributes::Changes;
use crate::cached::Keep;
use crate::error::Error;
use crate::mds::Use;

impl File {
    /// Writes at an offset: into the cache, from where the data goes to the store later, or to all objects at
    /// once. A write beyond the file's end extends it.
    ///
    /// # Errors
    /// EBADF if the file is not open to write; EFBIG beyond the largest size; ENOSPC if the pool is full.
    /// What lies before the first byte that failed is written. EDQUOT if a quota has no room; EIO if locks
    /// were lost that the file was opened with.
    ///
    /// A file that was opened to append is written at its end instead, as Linux does it.
    pub async fn write_at(&self, offset: u64, data: impl Into<Bytes>) -> Result<(), Error> {
        if self.options.append {
            return self.append(data).await.map(drop);
        }
        self.write_here(offset, data.into(), Keep::Copy).await
    }

    /// As [`File::write_at`]; but the cache may keep all of `data` as long as it has a part of it, instead of
    /// a copy of that part: for a long buffer that nobody else needs, and not for a small part of a larger
    /// one.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub async fn write_owned_at(&self, offset: u64, data: impl Into<Bytes>) -> Result<(), Error> {
        if self.options.append {
            return self.append(data).await.map(drop);
        }
        self.write_here(offset, data.into(), Keep::Data).await
    }

    /// Writes at an offset, also if the file was opened to append: a cache above this client writes back what
    /// a program has put into its pages.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub async fn write_back_at(&self, offset: u64, data: impl Into<Bytes>) -> Result<(), Error> {
        self.write_here(offset, data.into(), Keep::Copy).await
    }

    async fn write_here(&self, offset: u64, data: Bytes, keep: Keep) -> Result<(), Error> {
        self.may_write()?;
        if data.is_empty() {
            return Ok(());
        }
        // As for reads: a task that fills the cache must leave its thread to others.
        consume_budget().await;
        let core = &self.fs.core;
        let end = offset.checked_add(data.len() as u64).ok_or(Errno::EFBIG)?;
        let is_near_limit = self.before_write(end).await?;
        let (began, len) = (Instant::now(), data.len() as u64);
        let writing = core.acquire(&self.inode, Access::Write, Some(end)).await?;
        if writing.view.is_inline {
            // Only file systems with the option `inline_data` have such files.
            return Err(Errno::EOPNOTSUPP.into());
        }
        let cached = self.cached.as_ref().filter(|_| writing.is_cached());
        match cached.filter(|_| !self.is_direct()) {
            Some(cached) => {
                let layout = writing.view.objects()?.layout();
                cached.write(layout, (offset, &data, keep), |end| self.wrote(end, true)).await?;
            }
            None => self.write_through(&writing, offset, data).await?,
        }
        drop(writing);
        core.metrics.wrote(len, began.elapsed());
        self.after_write(is_near_limit).await
    }

    fn may_write(&self) -> Result<(), Error> {
        match self.options.write && !self.is_closed.load(Ordering::Acquire) {
            true => Ok(()),
            false => Err(Errno::EBADF.into()),
        }
    }

    /// Writes to the objects, and drops what the cache has of the range.
    async fn write_through(&self, writing: &Use<'_>, offset: u64, data: Bytes) -> Result<(), Error> {
        let (objects, len) = (writing.view.objects()?, data.len() as u64);
        let cached = self.cached.as_ref().filter(|_| writing.is_cached());
        if let Some(cached) = cached {
            // What was written before must not come after this.
            cached.write_back().await?;
        }
        let done = objects.write(offset, data).await;
        // What the objects have is noted, also if the cache cannot be told.
        let dropped = match cached {
            Some(cached) => cached.discard(objects.layout(), offset, len).await,
            None => Ok(()),
        };
        let (written, failed) = match done {
            Ok(()) => (offset + len, None),
            Err(failed) => (failed.at.max(offset), Some(failed.why)),
        };
        if written > offset {
            self.wrote(written, false);
        }
        failed.map_or(dropped, Err)
    }

    /// Writes at the file's end. Returns where the data begins. Appends through one `File` follow one
    /// another; another client's may come in between, before or after, as in a stock client.
    pub async fn append(&self, data: impl Into<Bytes>) -> Result<u64, Error> {
        let _turn = self.appends.lock().await;
        self.fs.core.know_size(&self.inode, u64::MAX).await?;
        let at = self.inode.data.size();
        self.write_here(at, data.into(), Keep::Copy).await?;
        Ok(at)
    }

    /// Makes a range read as zeros, and gives back the room of whole objects' parts. The size stays.
    pub async fn punch_hole(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.may_write()?;
        let core = &self.fs.core;
        self.before_write(0).await?;
        core.know_size(&self.inode, u64::MAX).await?;
        let writing = core.acquire(&self.inode, Access::Write, None).await?;
        let len = len.min(self.inode.data.size().saturating_sub(offset));
        if len > 0 {
            let objects = writing.view.objects()?;
            let cached = self.cached.as_ref().filter(|_| writing.is_cached());
            if let Some(cached) = cached {
                cached.write_back().await?;
            }
            objects.zero(offset, len).await?;
            let dropped = match cached {
                Some(cached) => cached.discard(objects.layout(), offset, len).await,
                None => Ok(()),
            };
            self.wrote(0, false);
            dropped?;
        }
        drop(writing);
        self.after_write(false).await
    }

    /// Sets the file's size.
    pub async fn truncate(&self, size: u64) -> Result<(), Error> {
        self.may_write()?;
        // A user that could open the file to write may cut it off, whatever its permissions are now.
        self.node().set_unchecked(Changes { size: Some(size), ..Changes::default() }).await
    }

    /// Notes that data was written up to `end`, while the right to write is held.
    pub(super) fn wrote(&self, end: u64, is_buffered: bool) {
        let (core, data) = (&self.fs.core, &self.inode.data);
        if data.wrote(end, is_buffered) {
            core.note(&self.inode, |known, clock| known.with_caps(clock, |caps, view| caps.check(view)));
        }
        // Before the room is used up, the server is asked for more.
        if data.should_ask(end) {
            core.note(&self.inode, |known, clock| {
                let more = known.attrs.max_size.saturating_add(1);
                known.with_caps(clock, |caps, view| caps.want_max_size(more, view));
            });
        }
    }
}
