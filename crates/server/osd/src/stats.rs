//! Statistics of pools and placement groups.

use std::sync::atomic::{AtomicU64, Ordering};

use loligo_store::CollectionStats;
use loligo_wire::{Eversion, PgId};

/// The contents of a pool and the requests it has served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// The contents.
    pub stored: CollectionStats,
    /// Read operations since the server started.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Write operations since the server started.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// The contents of a placement group and the requests it has served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PgStats {
    /// The placement group.
    pub pg: PgId,
    /// The contents and request counters.
    pub stats: PoolStats,
    /// The version of its newest change.
    pub version: Eversion,
    /// The number of requests whose results it remembers.
    pub remembered: u64,
}

/// The counters of one slot. Only the thread that runs the slot adds to them; other threads read them.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
}

impl Counters {
    pub(crate) fn read(&self, bytes: u64) {
        bump(&self.reads, 1);
        bump(&self.read_bytes, bytes);
    }

    pub(crate) fn wrote(&self, bytes: u64) {
        bump(&self.writes, 1);
        bump(&self.written_bytes, bytes);
    }

    pub(crate) fn add_to(&self, stats: &mut PoolStats) {
        stats.reads += self.reads.load(Ordering::Relaxed);
        stats.read_bytes += self.read_bytes.load(Ordering::Relaxed);
        stats.writes += self.writes.load(Ordering::Relaxed);
        stats.written_bytes += self.written_bytes.load(Ordering::Relaxed);
    }
}

/// With a single writer a load and a store suffice and are cheaper than an atomic addition. Relaxed: a
/// statistic orders nothing.
fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}
