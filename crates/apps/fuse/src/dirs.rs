//! Open directories: listings that go on where the kernel says.

use loligo_fs::{DirEntry, Error, Node, ReadDir};
use loligo_lockstat::{Class, Mutex};

/// Held to take a listing out of its directory's handle, or to put it back.
static LISTING: Class = Class::new("fuse.listing");

/// The position after `.`, and that after `..`.
pub(crate) const AFTER_SELF: u64 = 1;
pub(crate) const AFTER_PARENT: u64 = 2;

/// An open directory.
pub(crate) struct OpenDir {
    pub(crate) node: Node,
    /// The listing that the kernel went through last. The reader that goes on takes it; a second one of the
    /// same handle begins a listing of its own.
    listing: Mutex<Option<Listing>>,
}

/// A listing in progress.
pub(crate) struct Listing {
    entries: ReadDir,
    /// An entry that did not fit into the last answer.
    held: Option<DirEntry>,
    /// Where the listing stands: before what is held, or else before the next entry.
    at: u64,
}

impl OpenDir {
    pub(crate) fn new(node: Node) -> Self {
        Self { node, listing: Mutex::new(&LISTING, None) }
    }

    /// Returns a listing that goes on at a position.
    pub(crate) fn listing(&self, node: &Node, position: u64) -> Result<Listing, Error> {
        let last = self.listing.lock().take();
        if let Some(listing) = last.filter(|listing| listing.at == position && position > AFTER_PARENT) {
            return Ok(listing);
        }
        let from = if position <= AFTER_PARENT { 0 } else { position };
        Ok(Listing { entries: node.read_dir_from(from)?, held: None, at: position })
    }

    /// Keeps a listing for the kernel's next request.
    pub(crate) fn keep(&self, listing: Listing) {
        *self.listing.lock() = Some(listing);
    }
}

impl Listing {
    /// Returns the next entry.
    pub(crate) async fn next(&mut self) -> Result<Option<DirEntry>, Error> {
        match self.held.take() {
            Some(entry) => Ok(Some(entry)),
            None => self.entries.next().await,
        }
    }

    /// Returns where the listing stands.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// The entry was given to the kernel.
    pub(crate) fn gave(&mut self, next: u64) {
        self.at = next;
    }

    /// The entry did not fit.
    pub(crate) fn hold(&mut self, entry: DirEntry) {
        self.held = Some(entry);
    }
}
