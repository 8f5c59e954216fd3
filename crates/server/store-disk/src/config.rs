//! The configuration of a store, and the errors of opening one.

use std::io;

use loligo_wire::{DecodeError, Uuid};

/// The configuration of a store.
#[derive(Clone, Copy, Debug)]
pub struct DiskConfig {
    /// The cluster's id; a store of another cluster is not opened.
    pub fsid: Uuid,
    /// The id of the store when it was last opened ([`DiskStore::id`](crate::DiskStore::id)). If it is
    /// set, no new store is created in its place, and no other store is opened.
    pub store: Option<Uuid>,
    /// The capacity of a new store for objects, in bytes; by default most of the free space. An existing
    /// store keeps its capacity.
    pub capacity: Option<u64>,
    /// The size of a new store's journal, in bytes. A larger journal makes checkpoints rarer and a restart
    /// longer.
    pub journal_bytes: u64,
    /// The maximum size of the data cache, which keeps recently written or read data, in bytes. The memory
    /// is allocated on use.
    pub cache_bytes: usize,
    /// Whether to read with `io_uring` where the kernel supports it; otherwise threads read.
    pub io_uring: bool,
    /// The path of small writes.
    pub small_writes: SmallWrites,
}

/// The path of writes of less than 64 KiB that contain whole blocks of 4 KiB. All other small writes go
/// through the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SmallWrites {
    /// To their final place if many are in progress, so that each byte is written once. Otherwise through
    /// the journal, which takes one disk write until they are safe instead of two.
    #[default]
    ByLoad,
    /// Always to their final place, if the free space has long runs.
    ToPlace,
    /// Always through the journal.
    ToJournal,
}

impl DiskConfig {
    /// The default size of the data cache: 64 MiB.
    pub const CACHE_BYTES: usize = 64 << 20;

    /// The default configuration for a cluster, with a journal of 256 MiB and
    /// [`CACHE_BYTES`](Self::CACHE_BYTES).
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
    /// Another process, or another store in this process, has it open.
    #[error("it is in use")]
    InUse,
    /// It belongs to another cluster.
    #[error("it belongs to the cluster {found}, not to {expected}")]
    Foreign {
        /// The cluster that it belongs to.
        found: Uuid,
        /// The expected cluster.
        expected: Uuid,
    },
    /// The data on disk is inconsistent.
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// The file system reported an error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<DecodeError> for OpenError {
    fn from(error: DecodeError) -> Self {
        Self::Damaged(error.to_string())
    }
}

/// Converts the error of opening a directory.
pub(super) fn open_error(error: io::Error) -> OpenError {
    match error.kind() {
        io::ErrorKind::WouldBlock => OpenError::InUse,
        _ => OpenError::Io(error),
    }
}
