//! What a store shall be like, and why one cannot be opened.

use std::io;

use loligo_wire::{DecodeError, Uuid};

/// What a store shall be like.
#[derive(Clone, Copy, Debug)]
pub struct DiskConfig {
    /// The cluster's id; a store of another one is not opened.
    pub fsid: Uuid,
    /// The store that was there when it was last opened ([`DiskStore::id`](crate::DiskStore::id)). If it is known none is made in
    /// its place, and no other one is opened.
    pub store: Option<Uuid>,
    /// Bytes of objects that a new store takes; by default most of what is free. A store that exists keeps
    /// what it has.
    pub capacity: Option<u64>,
    /// Bytes of a new store's journal. The more, the rarer are checkpoints, and the longer does a restart
    /// take.
    pub journal_bytes: u64,
    /// Bytes of memory that keep data which was written or read of late. They are taken when there is
    /// something to keep.
    pub cache_bytes: usize,
    /// Read by `io_uring` where the kernel offers it; else, and if not, by threads.
    pub io_uring: bool,
    /// The way of small writes.
    pub small_writes: SmallWrites,
}

/// Which way writes of less than 64 KiB go, if they have whole blocks of 4 KiB. All others go through the
/// journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SmallWrites {
    /// To their final place when many are under way, so that each byte is written once; else through the
    /// journal, which takes one write of the disk until they are safe and not two.
    #[default]
    ByLoad,
    /// Always to their final place, where free space is in long pieces.
    ToPlace,
    /// Always through the journal.
    ToJournal,
}

impl DiskConfig {
    /// By default 64 MiB are kept.
    pub const CACHE_BYTES: usize = 64 << 20;

    /// For a cluster of that id, with a journal of 256 MiB and [`CACHE_BYTES`](Self::CACHE_BYTES).
    pub fn new(fsid: Uuid) -> Self {
        Self {
            fsid,
            store: None,
            capacity: None,
            journal_bytes: 256 << 20,
            cache_bytes: Self::CACHE_BYTES,
            io_uring: true,
            small_writes: SmallWrites::ByLoad,
        }
    }
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process, or another store of this one, has it open.
    #[error("it is in use")]
    InUse,
    /// It belongs to another cluster.
    #[error("it belongs to the cluster {found}, not to {expected}")]
    Foreign {
        /// Whose it is.
        found: Uuid,
        /// Whose it should be.
        expected: Uuid,
    },
    /// What is on disk makes no sense.
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// The file system does not do what it should.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<DecodeError> for OpenError {
    fn from(error: DecodeError) -> Self {
        Self::Damaged(error.to_string())
    }
}

/// Why a directory cannot be opened.
pub(super) fn open_error(error: io::Error) -> OpenError {
    match error.kind() {
        io::ErrorKind::WouldBlock => OpenError::InUse,
        _ => OpenError::Io(error),
    }
}
