//! Open files: their data, read and written without a lock, all objects of one I/O at once.

mod copy;
mod fallocate;
mod guard;
mod lazy;
mod open;
mod read;
mod seek;
mod sync;
mod vectored;
mod write;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use loligo_wire::Caps;

pub use self::open::OpenOptions;
use crate::cached::{Backing, Cached};
use crate::data::Objects;
use crate::error::Error;
use crate::inode::Inode;
use crate::locks::Owners;
use crate::metadata::Metadata;
use crate::mount::FileSystem;
use crate::node::Node;

/// An open file. Reads and writes of several tasks go on at the same time: no lock is held during an I/O.
///
/// Closed by [`File::close`], or when it is dropped.
pub struct File {
    pub(crate) fs: FileSystem,
    pub(crate) inode: Arc<Inode>,
    options: OpenOptions,
    is_closed: AtomicBool,
    /// The data in the client's cache, if it has one.
    cached: Option<Cached>,
    /// The number of the inode's failures that this file was told of.
    seen: AtomicU64,
    /// Held for the time of an append: the next one begins where it ends.
    appends: tokio::sync::Mutex<()>,
    /// The owners of locks that were taken through this file.
    pub(crate) owners: Owners,
}

impl File {
    /// A file whose inode was opened: counted as open with the options' mode.
    pub(crate) fn new(fs: FileSystem, inode: Arc<Inode>, options: OpenOptions) -> Self {
        let cached = fs.core.cache.as_ref().filter(|_| inode.id.is_head()).map(|cache| {
            let open = || {
                let id = inode.id.ino.0.to_le_bytes();
                cache.open(id, Backing(Arc::clone(&inode.data.view)))
            };
            inode.cached.get_or_init(open);
            Cached::new(open(), cache.options().read_ahead_max)
        });
        fs.core.metrics.opened();
        let (are_lost, seen) = {
            let mut known = inode.known();
            (known.locks.opened(), AtomicU64::new(known.failures.first_look()))
        };
        Self {
            fs,
            inode,
            options,
            is_closed: AtomicBool::new(false),
            cached,
            seen,
            appends: tokio::sync::Mutex::new(()),
            owners: Owners::new(are_lost),
        }
    }

    /// Returns the file's node.
    pub fn node(&self) -> Node {
        self.fs.node(Arc::clone(&self.inode))
    }

    /// Returns the file's objects, as its attributes and snapshots are now.
    pub(crate) fn objects(&self) -> Result<Objects, Error> {
        let known = self.inode.known();
        let objects = self.fs.core.objects(&self.inode, &known, &known.context)?;
        let id = self.inode.id;
        Ok(if id.is_head() { objects } else { objects.at_snapshot(id.snap) })
    }

    /// Returns `true` if this file's reads and writes pass the cache by.
    fn is_direct(&self) -> bool {
        self.options.is_direct() || self.options.is_sync()
    }

    /// Describes the file.
    pub async fn stat(&self) -> Result<Metadata, Error> {
        self.fs.refresh(&self.inode, Caps::STAT).await?;
        let known = self.inode.known();
        Ok(Metadata::of(self.inode.id, &known.attrs))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("inode", &self.inode)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
