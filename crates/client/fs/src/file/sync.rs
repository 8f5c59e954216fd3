//! Making data and attributes durable, and closing.

use std::sync::atomic::Ordering;

use super::File;
use crate::error::Error;

impl File {
    /// Waits until the data and the attributes are durable.
    ///
    /// # Errors
    /// Something written earlier was lost; told once for each open file.
    pub async fn sync(&self) -> Result<(), Error> {
        let core = &self.fs.core;
        if let Some(cached) = &self.cached {
            cached.flush().await?;
        }
        core.settle(&self.inode).await?;
        self.check()
    }

    /// Closes the file. Its data begins to go to the store; [`File::sync`] waits for that.
    ///
    /// # Errors
    /// As [`File::sync`], for what is known by now: closing waits for nothing but the locks that it gives
    /// back.
    pub async fn close(self) -> Result<(), Error> {
        self.give_locks_back().await;
        self.give_up();
        self.check()
    }

    /// Reports what was lost of what was written earlier, as the close of a descriptor does; told once.
    ///
    /// # Errors
    /// Something was lost.
    pub fn check(&self) -> Result<(), Error> {
        let told = {
            let mut known = self.inode.known();
            let told = known.failures.tell(self.seen.load(Ordering::Acquire));
            self.seen.store(known.failures.count(), Ordering::Release);
            told
        };
        told.map_or(Ok(()), |errno| Err(errno.into()))
    }

    pub(super) fn give_up(&self) {
        if self.is_closed.swap(true, Ordering::AcqRel) {
            return;
        }
        self.fs.core.metrics.closed();
        self.drop_locks();
        self.inode.known().locks.closed();
        if self.inode.id.is_head() {
            self.fs.core.closed(&self.inode, self.options.open_mode());
        }
    }
}
