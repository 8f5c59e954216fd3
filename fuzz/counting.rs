//! Bytes that a process has allocated: part of the fuzz targets and tests that bound them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
static COUNT: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(at, layout) }
    }
}

fn took(bytes: usize) {
    let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST.fetch_max(now, Ordering::Relaxed);
    COUNT.fetch_add(1, Ordering::Relaxed);
}

/// The most that is allocated at once from now on, beyond what is now.
#[derive(Clone, Copy)]
pub(crate) struct Peak(usize);

impl Peak {
    /// From now on.
    pub(crate) fn from_now() -> Self {
        let now = NOW.load(Ordering::Relaxed);
        MOST.store(now, Ordering::Relaxed);
        Self(now)
    }

    /// In bytes.
    pub(crate) fn bytes(&self) -> usize {
        MOST.load(Ordering::Relaxed).saturating_sub(self.0)
    }
}

/// How often something was allocated so far.
#[allow(dead_code, reason = "few tests count how often")]
pub(crate) fn allocations() -> usize {
    COUNT.load(Ordering::Relaxed)
}
