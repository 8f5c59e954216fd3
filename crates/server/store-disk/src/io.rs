//! The files, the threads that read them, and the caches of their data.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use loligo_lockstat::{Class, Mutex};

use super::backend::{BackendFile, Buffers, Closed, Kv};
use super::data_cache::DataCache;
use super::layout::BLOCK;
use super::pool::Pool;
use super::reader::{Job, Looks, Reader, Reading};

/// Held to clone the reference.
static MAP: Class = Class::new("store.map");

pub(super) struct Io {
    /// The data file, for reads and writes. Threads that sync it have handles of their own.
    pub(super) data: Arc<dyn BackendFile>,
    kv: Mutex<Arc<dyn Kv>>,
    pub(super) pool: Pool,
    /// Present if the kernel supports it; otherwise the pool does its work.
    pub(super) reader: OnceLock<Reader>,
    pub(super) looks: Looks,
    pub(super) data_cache: DataCache,
    /// Bytes of small writes that the data cache received since the last checkpoint began.
    kept_bytes: AtomicUsize,
    /// Buffers for large reads.
    pub(super) buffers: Buffers,
}

impl Io {
    /// `cache_bytes`: the maximum size of the data cache.
    pub(super) fn new(data: Arc<dyn BackendFile>, kv: Arc<dyn Kv>, pool: Pool, cache_bytes: usize) -> Self {
        Self {
            data,
            kv: Mutex::new(&MAP, kv),
            pool,
            reader: OnceLock::new(),
            looks: Looks::default(),
            data_cache: DataCache::new(cache_bytes),
            kept_bytes: AtomicUsize::new(0),
            buffers: Buffers::new(),
        }
    }

    /// Returns the map.
    pub(super) fn kv(&self) -> Arc<dyn Kv> {
        Arc::clone(&self.kv.lock())
    }

    /// Closes the map.
    pub(super) fn close_kv(&self) {
        let old = std::mem::replace(&mut *self.kv.lock(), Arc::new(Closed));
        drop(old);
    }

    /// Queues a read.
    pub(super) fn read(&self, read: Box<dyn Reading>) {
        self.have_done(Job::Read(read), true);
    }

    /// Queues a lookup in the map; `job` must run it through [`Looks::look`].
    pub(super) fn look(&self, job: impl FnOnce() + Send + 'static) {
        self.have_done(Job::Quick(Box::new(job)), self.looks.next_is_quick());
    }

    fn have_done(&self, job: Job, by_reader: bool) {
        let left = match self.reader.get() {
            Some(reader) if by_reader => reader.push(job).err(),
            _ => Some(job),
        };
        if let Some(job) = left {
            let data = Arc::clone(&self.data);
            self.pool.push(move || job.now(&*data));
        }
    }

    /// Whether the data cache may take `blocks` more written blocks. From one checkpoint to the next,
    /// writes may fill only half of it, so that they do not evict everything that is there.
    pub(super) fn may_keep(&self, blocks: usize) -> bool {
        let max = self.data_cache.bytes_max() / 2;
        // Relaxed: the bound is approximate, and the last addition may exceed it. The first check keeps the
        // sum near the bound however often this is called.
        self.kept_bytes.load(Ordering::Relaxed) < max
            && self.kept_bytes.fetch_add(blocks * BLOCK, Ordering::Relaxed) < max
    }

    /// Called when a checkpoint begins: the data cache may take as much again.
    pub(super) fn keep_anew(&self) {
        self.kept_bytes.store(0, Ordering::Relaxed);
    }
}
