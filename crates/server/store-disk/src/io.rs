//! What reads and what is read: the files, the threads that wait for them, and what is kept in memory of them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use loligo_lockstat::{Class, Mutex};

use super::backend::{BackendFile, Buffers, Closed, Kv};
use super::data_cache::DataCache;
use super::layout::BLOCK;
use super::pool::Pool;
use super::reader::{Job, Looks, Reader, Reading};

/// Held to take a reference.
static MAP: Class = Class::new("store.map");

pub(super) struct Io {
    /// The data file, to be read and written. Who syncs it has a handle of its own.
    pub(super) data: Arc<dyn BackendFile>,
    kv: Mutex<Arc<dyn Kv>>,
    pub(super) pool: Pool,
    /// If the kernel offers what it takes; else the pool does its work.
    pub(super) reader: OnceLock<Reader>,
    pub(super) looks: Looks,
    pub(super) data_cache: DataCache,
    /// Bytes of small writes that the data cache got since the last checkpoint began.
    kept_bytes: AtomicUsize,
    /// For large reads.
    pub(super) buffers: Buffers,
}

impl Io {
    /// `cache_bytes`: of the data cache, at most.
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

    /// The map.
    pub(super) fn kv(&self) -> Arc<dyn Kv> {
        Arc::clone(&self.kv.lock())
    }

    /// Lets go of the map.
    pub(super) fn close_kv(&self) {
        let old = std::mem::replace(&mut *self.kv.lock(), Arc::new(Closed));
        drop(old);
    }

    /// Has a read done.
    pub(super) fn read(&self, read: Box<dyn Reading>) {
        self.have_done(Job::Read(read), true);
    }

    /// Has a look at the map done, which takes it through [`Looks::look`].
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

    /// Whether the data cache is to have so many blocks more that were written: from one checkpoint to the
    /// next not so many that all that is there already would have to go.
    pub(super) fn may_keep(&self, blocks: usize) -> bool {
        let max = self.data_cache.bytes_max() / 2;
        // Relaxed: if two add at once, both look at what is there with theirs. It stays near the bound
        // however often it is asked.
        self.kept_bytes.load(Ordering::Relaxed) < max
            && self.kept_bytes.fetch_add(blocks * BLOCK, Ordering::Relaxed) < max
    }

    /// A checkpoint begins: the data cache may have as much again.
    pub(super) fn keep_anew(&self) {
        self.kept_bytes.store(0, Ordering::Relaxed);
    }
}
