//! Counts the bytes that the process has allocated. Included in the fuzz targets and tests that bound
//! them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
static COUNT: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

// SAFETY: all calls are forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller upholds the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

fn took(bytes: usize) {
    let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST.fetch_max(now, Ordering::Relaxed);
    COUNT.fetch_add(1, Ordering::Relaxed);
}

/// Measures the peak of allocated bytes, relative to the amount at its creation.
#[derive(Clone, Copy)]
pub(crate) struct Peak(usize);

impl Peak {
    /// Starts a measurement.
    pub(crate) fn from_now() -> Self {
        let now = NOW.load(Ordering::Relaxed);
        MOST.store(now, Ordering::Relaxed);
        Self(now)
    }

    /// Returns the peak so far, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        MOST.load(Ordering::Relaxed).saturating_sub(self.0)
    }
}

/// The number of allocations so far.
#[allow(dead_code, reason = "few tests count how often")]
pub(crate) fn allocations() -> usize {
    COUNT.load(Ordering::Relaxed)
}
