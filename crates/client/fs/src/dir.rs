//! Reading directories.

use std::collections::VecDeque;
use std::sync::Arc;

use loligo_rados::Errno;
use loligo_wire::Caps;
use loligo_wire::message::mds::{FilePath, Frag, ReadDirArgs, RequestOp};

use crate::error::Error;
use crate::inode::Inode;
use crate::metadata::Metadata;
use crate::mount::FileSystem;
use crate::session::{Extra, Listing, Request};
use crate::walk::Last;

/// Entries of one reply at most (kernel: `readdir_max_entries`).
const ENTRIES_MAX: u32 = 4096;
/// Bytes of one reply at most.
const BYTES_MAX: u32 = 1 << 20;
/// Replies without an entry that a server may send in a row, before it is not believed any more.
const EMPTY_MAX: u32 = 1 << 12;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name.
    pub name: Vec<u8>,
    /// What it names, as it was when the server listed it.
    pub metadata: Metadata,
}

/// A directory's entries, in its own order; `.` and `..` are not among them.
///
/// Each name that exists all the time is listed once, also while others come and go.
#[derive(Debug)]
pub struct ReadDir {
    fs: FileSystem,
    dir: Arc<Inode>,
    /// The fragment to list next; none at the end.
    frag: Option<Frag>,
    /// The last name listed of the fragment.
    after: Vec<u8>,
    empty: u32,
    ready: VecDeque<DirEntry>,
}

impl FileSystem {
    /// Lists a directory. In `.snap` are the directory's snapshots.
    ///
    /// # Errors
    /// ENOTDIR if it is no directory.
    pub async fn read_dir(&self, path: impl AsRef<[u8]>) -> Result<ReadDir, Error> {
        let dir = self.core.walk(path.as_ref(), Last::Follow).await?;
        if !dir.is_dir() {
            return Err(Errno::ENOTDIR.into());
        }
        let first = dir.known().attrs.frag_tree.leaf(0);
        Ok(ReadDir {
            fs: self.clone(),
            dir,
            frag: Some(first),
            after: Vec::new(),
            empty: 0,
            ready: VecDeque::new(),
        })
    }
}

impl ReadDir {
    /// Returns the next entry, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<DirEntry>, Error> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Ok(Some(entry));
            }
            let Some(frag) = self.frag else { return Ok(None) };
            self.list(frag).await?;
        }
    }

    /// Returns all entries that are left.
    pub async fn all(mut self) -> Result<Vec<DirEntry>, Error> {
        let mut all = Vec::new();
        while let Some(entry) = self.next().await? {
            all.push(entry);
        }
        Ok(all)
    }

    /// Lists the next part.
    async fn list(&mut self, frag: Frag) -> Result<(), Error> {
        let args = ReadDirArgs {
            frag,
            max_entries: ENTRIES_MAX,
            max_bytes: BYTES_MAX,
            flags: ReadDirArgs::WANT_FLAGS,
            offset_hash: if self.after.is_empty() { frag.first() } else { 0 },
        };
        let op = if self.dir.id.is_snap_dir() { RequestOp::LsSnap(args) } else { RequestOp::ReadDir(args) };
        let path2 = FilePath::name(self.after.clone());
        let done = self.fs.core.call(Request { path2, ..Request::about(&self.dir, op) }).await?;
        let Extra::Listing(Listing { frag, is_end, entries }) = done.extra else {
            return Err(crate::mds::missing("readdir", 0));
        };
        self.empty = if entries.is_empty() { self.empty + 1 } else { 0 };
        if let Some((name, _)) = entries.last() {
            self.after.clone_from(name);
        }
        for (name, inode) in entries {
            let metadata = Metadata::of(inode.id, &inode.known().attrs);
            self.ready.push_back(DirEntry { name, metadata });
        }
        if is_end || self.dir.id.is_snap_dir() || self.empty > EMPTY_MAX {
            self.frag = self.after_frag(frag);
            self.after.clear();
        } else {
            self.frag = Some(frag);
        }
        Ok(())
    }

    /// Returns the fragment that follows one, by the directory's division as it is now.
    fn after_frag(&self, frag: Frag) -> Option<Frag> {
        if self.dir.id.is_snap_dir() || frag.last() >= Frag::HASH_MASK {
            return None;
        }
        Some(self.dir.known().attrs.frag_tree.leaf(frag.last() + 1))
    }
}

impl FileSystem {
    /// Asks the server for a directory's statistics as they are now: those that it holds may be seconds
    /// old.
    pub async fn statistics(&self, path: impl AsRef<[u8]>) -> Result<Metadata, Error> {
        let inode = self.core.walk(path.as_ref(), Last::Keep).await?;
        self.core.ask_attrs(&inode, Caps::STAT | Caps::STAT_RECURSIVE).await?;
        let known = inode.known();
        Ok(Metadata::of(inode.id, &known.attrs))
    }
}
