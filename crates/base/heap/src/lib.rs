//! The heap of a program that stores much data soon after its start.
//!
//! Memory that a process has not had before costs its first writer a page fault for each 4 KiB: most of the
//! processor's time of a server whose memory fills. [`Heap`] is mimalloc with four differences:
//!
//! - Its memory comes from one reserved range of addresses (`area`): it is known which part comes into use.
//! - The memory that is used first, at a program's start, has small pages.
//! - A thread (`ahead`) makes pages present ahead of demand, where the next are likely to be used, in a
//!   program that has called [`serve`], once it uses much more than at its start. What it prepares is bounded
//!   by a share of what is in use.
//! - Freed memory is kept for `area::KEPT_MS` before the kernel gets it back, and is used again first.
//!
//! A program that has started and waits calls [`rest()`].
//!
//! A program that does not call [`serve`] has the allocator's own behaviour. Where the range cannot be
//! reserved, for example because the process's address space is limited, all programs have.

mod ahead;
mod area;
mod block;
mod rest;
mod wake;

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicBool, Ordering};

use mimalloc::MiMalloc;

pub use ahead::serve;
pub use rest::rest;

/// The allocator: `#[global_allocator] static HEAP: Heap = Heap;`.
#[derive(Debug)]
pub struct Heap;

/// Whether the first allocation has been made.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// The range must be there before mimalloc reserves one of its own.
#[inline]
fn begin() {
    if !BEGUN.load(Ordering::Relaxed) {
        first();
    }
}

#[cold]
fn first() {
    if !BEGUN.swap(true, Ordering::Relaxed) {
        area::begin();
    }
}

// SAFETY: every call is passed on to an allocator that keeps the contract.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        begin();
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { MiMalloc.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        begin();
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { MiMalloc.dealloc(ptr, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { MiMalloc.realloc(ptr, layout, new_size) }
    }
}

#[cfg(test)]
mod tests;
