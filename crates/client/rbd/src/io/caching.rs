//! What an open image keeps of its cache (`cache.rs`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{OnceLock, Weak};

use arc_swap::ArcSwapOption;
use loligo_cache::{Backend, Cache, CachedFile, ReadAhead};
use loligo_lockstat::{Class, Mutex};

use crate::Error;

/// Held to detect sequential reads; a cache hit takes it only when it reaches read-ahead data.
static READ_AHEAD: Class = Class::new("rbd.read_ahead");
/// Held to store or to take a failure not yet reported; a leaf.
static UNTOLD: Class = Class::new("rbd.cache.untold");

/// An image's cache, if it has one; `B` is the image as the cache's back end, `I` its state.
pub(crate) struct Caching<B: Backend, I> {
    /// The cache and the image itself.
    pub(super) cache: OnceLock<(Cache<B>, Weak<I>)>,
    /// The current cache file. Set by a holder of a permit of the gate, removed by the holder of all
    /// permits.
    pub(super) file: ArcSwapOption<CacheFile<B>>,
    /// A failure of an earlier cache file that was not reported yet.
    pub(super) untold: Mutex<Option<Error>>,
    /// A change past the cache may be in progress although its caller was dropped. The holder of all
    /// permits of the gate knows that it has ended.
    left: AtomicBool,
}

/// The cached data of one tenure of the lock.
pub(super) struct CacheFile<B: Backend> {
    pub(super) cached: CachedFile<B>,
    pub(super) ahead: Mutex<ReadAhead>,
}

impl<B: Backend, I> Default for Caching<B, I> {
    fn default() -> Self {
        Self {
            cache: OnceLock::new(),
            file: ArcSwapOption::empty(),
            untold: Mutex::new(&UNTOLD, None),
            left: AtomicBool::new(false),
        }
    }
}

impl<B: Backend, I> Caching<B, I> {
    /// Whether a change may be in progress whose caller was dropped.
    pub(crate) fn is_left(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }

    /// Marks a change as having no caller any more.
    pub(super) fn leave(&self) {
        self.left.store(true, Ordering::Release);
    }

    /// The caller must hold all permits of the gate.
    pub(crate) fn none_is_left(&self) {
        self.left.store(false, Ordering::Release);
    }
}

impl<B: Backend> CacheFile<B> {
    pub(super) fn new(cache: &Cache<B>, objects: B) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // A unique id: a write-back depends on the lock of this opening.
        let id = NEXT.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        let ahead = Mutex::new(&READ_AHEAD, ReadAhead::new(cache.options().read_ahead_max));
        Self { cached: cache.open(id, objects), ahead }
    }
}
