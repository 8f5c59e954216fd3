//! A position in a listing.
//!
//! Entries come in the order of their hash, then of their name. The position is a pair of both, and not a
//! number within a fragment: fragments may be split and merged between two requests.

use super::frag::{Frag, FragTree, HASH_END};

/// The next request of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The fragment to list.
    pub frag: Frag,
    /// The last entry that the client has, if it is in this fragment; the server goes on after it.
    pub after: Option<Vec<u8>>,
    /// The hash value from which on entries are wanted.
    pub offset_hash: u32,
}

/// What the cursor must know of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The fragment that was listed. It need not be the one asked for.
    pub frag: Frag,
    /// The hash and the name of the last entry; none in a chunk without entries.
    pub last: Option<(u32, Vec<u8>)>,
    /// Whether the fragment ends here.
    pub is_end: bool,
    /// Whether entries are ordered by hash. All servers since release 12 do that.
    pub is_by_hash: bool,
}

/// Why a reply cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CursorError {
    /// The server is too old.
    #[error("the metadata server lists the directory in an order of its own, as releases before 12 do")]
    NotByHash,
    /// The fragment is not where the listing stands.
    #[error("the metadata server listed fragment {frag}, which does not have hash {hash:#x}")]
    OtherFrag {
        /// The fragment in the reply.
        frag: Frag,
        /// Where the listing stands.
        hash: u32,
    },
    /// No entry, and not the end; or entries that the client has already.
    #[error("the metadata server's listing does not advance beyond hash {hash:#x}")]
    Stands {
        /// Where the listing stands.
        hash: u32,
    },
}

/// A listing in progress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    hash: u32,
    after: Option<Vec<u8>>,
}

impl Cursor {
    /// The beginning of a directory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Goes on with the entries that have this hash, and those after them: for positions that a program
    /// remembers. No hash, but a larger number, is the end.
    pub fn at(hash: u32) -> Self {
        Self { hash: hash.min(HASH_END), after: None }
    }

    /// Goes on after an entry.
    pub fn after(hash: u32, name: Vec<u8>) -> Self {
        Self { hash, after: Some(name) }
    }

    /// The end of every directory.
    pub fn end() -> Self {
        Self::at(HASH_END)
    }

    /// The hash of the next entry at least, and the last entry of this hash that was listed.
    pub fn position(&self) -> (u32, Option<&[u8]>) {
        (self.hash, self.after.as_deref())
    }

    /// Whether the listing is at its beginning.
    pub fn is_at_beginning(&self) -> bool {
        *self == Self::new()
    }

    /// Whether the listing is at its end.
    pub fn is_done(&self) -> bool {
        self.hash >= HASH_END
    }

    /// The next request; none at the end.
    pub fn ask(&self, tree: &FragTree) -> Option<Ask> {
        if self.is_done() {
            return None;
        }
        Some(Ask { frag: tree.leaf(self.hash), after: self.after.clone(), offset_hash: self.hash })
    }

    /// A reply has come.
    ///
    /// # Errors
    ///
    /// The reply is of no use, and the position stays.
    pub fn advance(&mut self, chunk: &Chunk) -> Result<(), CursorError> {
        if !chunk.is_by_hash {
            return Err(CursorError::NotByHash);
        }
        if !chunk.frag.contains(self.hash) {
            return Err(CursorError::OtherFrag { frag: chunk.frag, hash: self.hash });
        }
        let stands = CursorError::Stands { hash: self.hash };
        if chunk.is_end {
            *self = Self { hash: chunk.frag.end(), after: None };
            return Ok(());
        }
        let (hash, name) = chunk.last.clone().ok_or(stands)?;
        if (hash, Some(&name)) <= (self.hash, self.after.as_ref()) || !chunk.frag.contains(hash) {
            return Err(stands);
        }
        *self = Self { hash, after: Some(name) };
        Ok(())
    }
}
