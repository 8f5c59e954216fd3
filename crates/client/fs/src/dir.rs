//! Reading directories.
//!
//! A directory of which all names are known is listed from memory, as long as servers vouch for the
//! attributes of what is in it. From the first name on for which that is not so, the server lists the next
//! part.

use std::collections::VecDeque;

use az::{SaturatingAs as _, WrappingAs as _};
use loligo_fs_core::dir::{Ask, Chunk, Cursor, FragTree, Mark};
use loligo_rados::Errno;
use loligo_wire::Caps;
use loligo_wire::message::mds::{FilePath, Frag, ReadDirArgs, RequestOp};

use crate::error::Error;
use crate::inode::Inode;
use crate::metadata::Metadata;
use crate::mount::FileSystem;
use crate::node::Node;
use crate::session::{Extra, Listing, Request};

/// Entries of one reply at most (kernel: `readdir_max_entries`).
const ENTRIES_MAX: u32 = 4096;
/// Bytes of one reply at most.
const BYTES_MAX: u32 = 1 << 20;
/// Entries that are taken from memory at a time.
const KNOWN_MAX: usize = 1024;
/// The bits of a position below the hash: the number of the entry among those of its hash. Positions
/// without a hash are the program's own, for `.` and `..`.
const NUMBER_BITS: u32 = 32;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name.
    pub name: Vec<u8>,
    /// What it names, as it was when it was listed.
    pub metadata: Metadata,
    /// The node that it names.
    pub node: Node,
    /// The position after it, for [`Node::read_dir_from`]. At least 2³².
    pub next: u64,
}

/// A directory's entries, in its own order; `.` and `..` are not among them.
///
/// Each name that exists all the time is listed once, also while others come and go.
#[derive(Debug)]
pub struct ReadDir {
    dir: Node,
    /// The user may list the directory.
    is_permitted: bool,
    state: State,
    ready: VecDeque<DirEntry>,
}

/// How far a listing is.
#[derive(Debug)]
enum State {
    /// In the order of the names' hashes. If the server has listed all names from the first one on, they are
    /// known at the end, unless something was forgotten since the mark.
    Names { cursor: Cursor, numbers: Numbers, mark: Option<Mark> },
    /// Snapshots come in one reply; so many of them are skipped.
    Snapshots { skip: u64, is_done: bool },
}

/// Numbers the entries that have a hash in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Numbers {
    /// The hash and the number of the last entry.
    hash: u32,
    number: u32,
    /// Up to here the entries were listed before.
    known: (u32, u32),
}

impl Numbers {
    /// Goes on after a position.
    fn from(position: u64) -> Self {
        let hash = (position >> NUMBER_BITS).saturating_sub(1);
        let number = if position >> NUMBER_BITS == 0 { 0 } else { position & u64::from(u32::MAX) };
        let at = (u32::try_from(hash).unwrap_or(u32::MAX), number.wrapping_as::<u32>());
        Self { hash: at.0, number: 0, known: at }
    }

    /// Counts an entry. Returns the position after it, or `None` if it was listed before.
    fn count(&mut self, hash: u32) -> Option<u64> {
        if self.hash == hash {
            self.number = self.number.saturating_add(1);
        } else {
            (self.hash, self.number) = (hash, 1);
        }
        let at = (self.hash, self.number);
        (at > self.known).then(|| (u64::from(hash) + 1) << NUMBER_BITS | u64::from(self.number))
    }
}

impl FileSystem {
    /// Lists a directory. In `.snap` are the directory's snapshots.
    ///
    /// # Errors
    /// ENOTDIR if it is no directory.
    pub async fn read_dir(&self, path: impl AsRef<[u8]>) -> Result<ReadDir, Error> {
        self.find(path).await?.read_dir()
    }

    /// Asks the server for a directory's statistics as they are now: those that it holds may be seconds
    /// old.
    pub async fn statistics(&self, path: impl AsRef<[u8]>) -> Result<Metadata, Error> {
        let node = self.find_link(path).await?;
        self.ask_attrs(&node.inode, Caps::STAT | Caps::STAT_RECURSIVE).await?;
        Ok(node.known())
    }
}

impl ReadDir {
    pub(crate) fn new(dir: Node, position: u64) -> Self {
        let state = if dir.inode.id.is_snap_dir() {
            let skip = if position >> NUMBER_BITS == 0 { 0 } else { position & u64::from(u32::MAX) };
            State::Snapshots { skip, is_done: false }
        } else {
            let numbers = Numbers::from(position);
            State::Names { cursor: Cursor::at(numbers.known.0), numbers, mark: None }
        };
        Self { dir, is_permitted: false, state, ready: VecDeque::new() }
    }

    /// Returns the next entry, or `None` at the end.
    ///
    /// # Errors
    /// EACCES if the user may not list the directory.
    pub async fn next(&mut self) -> Result<Option<DirEntry>, Error> {
        if !self.is_permitted {
            self.dir.fs.may_list(&self.dir.inode).await?;
            self.is_permitted = true;
        }
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Ok(Some(entry));
            }
            let has_more = match &self.state {
                State::Names { cursor, .. } if cursor.is_done() => false,
                State::Names { .. } => self.list_known().await || self.list_names().await?,
                State::Snapshots { is_done: false, skip } => self.list_snapshots(*skip).await?,
                State::Snapshots { .. } => false,
            };
            if !has_more {
                return Ok(None);
            }
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

    /// Lists the next part of a directory from memory. Returns `false` if a server must be asked.
    async fn list_known(&mut self) -> bool {
        // A task that does nothing else must leave its thread to those that answer the servers.
        tokio::task::coop::consume_budget().await;
        let (core, dir) = (&self.dir.fs.core, &self.dir.inode);
        let State::Names { cursor, numbers, .. } = &mut self.state else { return false };
        let now = core.now_ms();
        let Some(page) = dir.known().page(cursor.position(), KNOWN_MAX, now) else { return false };
        let mut has_any = false;
        for (hash, name, id) in page.names {
            let inode = core.inodes.get(id).filter(|inode| inode.known().is_vouched_for(Caps::STAT, now));
            let Some(inode) = inode else { return has_any };
            has_any = true;
            *cursor = Cursor::after(hash, name.clone());
            if let Some(next) = numbers.count(hash) {
                let node = self.dir.fs.node(inode);
                self.ready.push_back(DirEntry { metadata: node.known(), name, node, next });
            }
        }
        if page.is_last {
            *cursor = Cursor::end();
        }
        page.is_last || has_any
    }

    /// Lets a server list the next part of a directory.
    async fn list_names(&mut self) -> Result<bool, Error> {
        let State::Names { cursor, .. } = &self.state else { return Ok(false) };
        let is_first = cursor.is_at_beginning();
        let Some(ask) = cursor.ask(&tree(&self.dir.inode)?) else { return Ok(false) };
        let Ask { frag, after, offset_hash } = ask;
        // With a name the server goes on after it, and otherwise at the hash.
        let args = ReadDirArgs { frag: Frag(frag.raw()), offset_hash, ..all_that_fits() };
        let listing = self.ask(RequestOp::ReadDir(args), after.unwrap_or_default()).await?;
        let State::Names { cursor, numbers, mark } = &mut self.state else { return Ok(false) };
        let hash = self.dir.inode.known().names.hash();
        let hash_of = |name: &[u8]| hash.of(b"", name) & Frag::HASH_MASK;
        if is_first {
            *mark = listing.mark;
        }
        cursor.advance(&Chunk {
            frag: loligo_fs_core::dir::Frag::from_raw(listing.frag.0).map_err(|_| Errno::EPROTO)?,
            last: listing.entries.last().map(|(name, _)| (hash_of(name), name.clone())),
            is_end: listing.is_end,
            is_by_hash: listing.is_by_hash,
        })?;
        if let Some(mark) = mark.take_if(|_| cursor.is_done()) {
            self.dir.fs.core.event(&self.dir.inode, |known, clock| known.end_listing(mark, clock));
        }
        for (name, inode) in listing.entries {
            if let Some(next) = numbers.count(hash_of(&name)) {
                let node = self.dir.fs.node(inode);
                self.ready.push_back(DirEntry { metadata: node.known(), name, node, next });
            }
        }
        Ok(true)
    }

    /// Lists the snapshots of a directory.
    async fn list_snapshots(&mut self, skip: u64) -> Result<bool, Error> {
        let listing = self.ask(RequestOp::LsSnap(all_that_fits()), Vec::new()).await?;
        self.state = State::Snapshots { skip, is_done: true };
        for ((name, inode), number) in
            listing.entries.into_iter().zip(1..).skip(skip.saturating_as::<usize>())
        {
            let (node, next) = (self.dir.fs.node(inode), (1 << NUMBER_BITS) + number);
            self.ready.push_back(DirEntry { metadata: node.known(), name, node, next });
        }
        Ok(true)
    }

    async fn ask(&self, op: RequestOp, after: Vec<u8>) -> Result<Listing, Error> {
        let request = Request { path2: FilePath::name(after), ..Request::about(&self.dir.inode, op) };
        match self.dir.fs.call(request).await?.extra {
            Extra::Listing(listing) => Ok(listing),
            _ => Err(crate::mds::missing("readdir", 0)),
        }
    }
}

fn all_that_fits() -> ReadDirArgs {
    ReadDirArgs {
        frag: Frag::ROOT,
        max_entries: ENTRIES_MAX,
        max_bytes: BYTES_MAX,
        flags: ReadDirArgs::WANT_FLAGS,
        offset_hash: 0,
    }
}

/// Returns a directory's division, as it is known now.
fn tree(dir: &Inode) -> Result<FragTree, Error> {
    let known = dir.known();
    let splits = known.attrs.frag_tree.splits().map(|(frag, by)| (frag.0, by));
    FragTree::from_splits(splits).map_err(|_| Errno::EPROTO.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_go_on_where_they_were_told() {
        let hashes = [3, 3, 7, 7, 7, 9];
        let mut all = Numbers::from(0);
        let positions: Vec<u64> = hashes.iter().filter_map(|hash| all.count(*hash)).collect();
        assert_eq!(positions.len(), hashes.len());
        assert!(positions.iter().all(|position| *position >= 1 << NUMBER_BITS));
        for (at, position) in positions.iter().enumerate() {
            let mut rest = Numbers::from(*position);
            // The server lists from the hash on, not from the name.
            let from = rest.known.0;
            let again = hashes.iter().filter(|hash| **hash >= from);
            let left: Vec<u64> = again.filter_map(|hash| rest.count(*hash)).collect();
            assert_eq!(left, positions[at + 1..], "after {position:#x}");
        }
    }

    #[test]
    fn absurd_positions_are_the_end() {
        assert_eq!(Numbers::from(u64::MAX).count(Frag::HASH_MASK), None);
        assert!(Cursor::at(Numbers::from(u64::MAX).known.0).is_done());
        assert!(Numbers::from(2).count(0).is_some(), "a position of the program's own is the beginning");
    }
}
