//! What is known of each block of the area.
//!
//! The allocator reports the memory that it begins to use. The first use of a block makes the blocks after it
//! wanted; the thread prepares those. A block is prepared by making its pages present, which changes no byte:
//! it does not matter whether the allocator begins to use it meanwhile.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// The bytes of a block: enough for one call of the kernel to be worth it.
pub(crate) const BLOCK: usize = 2 << 20;
/// Blocks after the one in use that are wanted: mimalloc searches memory upwards.
const WINDOW: usize = 8;
/// The most blocks that are wanted or prepared, and not in use.
const AHEAD_MAX: usize = 32;
/// So many blocks in use allow one ahead.
const SHARE: usize = 4;

const FRESH: u8 = 0;
const WANTED: u8 = 1;
const READY: u8 = 2;
const USED: u8 = 3;

/// The states of all blocks. Accesses are relaxed: a state is a hint.
pub(crate) struct Blocks<const N: usize> {
    states: [AtomicU8; N],
    /// Blocks in use, and blocks that are wanted or ready.
    used: AtomicUsize,
    ahead: AtomicUsize,
}

impl<const N: usize> Blocks<N> {
    pub(crate) const fn new() -> Self {
        Self {
            states: [const { AtomicU8::new(FRESH) }; N],
            used: AtomicUsize::new(0),
            ahead: AtomicUsize::new(0),
        }
    }

    /// Blocks in use.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// The allocator begins to use a range of bytes, some of which it may have used before. Returns `true` if
    /// blocks have come to be wanted.
    pub(crate) fn take(&self, bytes: Range<usize>) -> bool {
        let mut is_new = false;
        let last = (bytes.end.saturating_sub(1) / BLOCK).min(N - 1);
        for state in &self.states[(bytes.start / BLOCK).min(last)..=last] {
            if state.load(Ordering::Relaxed) == USED {
                continue;
            }
            match state.swap(USED, Ordering::Relaxed) {
                USED => continue,
                WANTED | READY => drop(self.ahead.fetch_sub(1, Ordering::Relaxed)),
                _ => {}
            }
            self.used.fetch_add(1, Ordering::Relaxed);
            is_new = true;
        }
        is_new && self.want(last)
    }

    /// Makes the blocks after `last` wanted.
    fn want(&self, last: usize) -> bool {
        let most = (self.used() / SHARE).min(AHEAD_MAX);
        let mut any = false;
        for state in &self.states[last + 1..N.min(last + 1 + WINDOW)] {
            if self.ahead.load(Ordering::Relaxed) >= most {
                break;
            }
            if state.compare_exchange(FRESH, WANTED, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                self.ahead.fetch_add(1, Ordering::Relaxed);
                any = true;
            }
        }
        any
    }

    /// The allocator has returned a range of bytes: whole blocks of it are as they were in the beginning.
    pub(crate) fn give_back(&self, bytes: Range<usize>) {
        let whole = bytes.start.div_ceil(BLOCK)..(bytes.end / BLOCK).min(N);
        for state in self.states.get(whole).unwrap_or_default() {
            if state.compare_exchange(USED, FRESH, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                self.used.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Calls `prepare` with each wanted block's number, until it fails.
    pub(crate) fn prepare(&self, mut prepare: impl FnMut(usize) -> bool) -> bool {
        for (number, state) in self.states.iter().enumerate() {
            if state.load(Ordering::Relaxed) == WANTED {
                if !prepare(number) {
                    return false;
                }
                // It may be in use by now.
                let _ = state.compare_exchange(WANTED, READY, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the blocks that are prepared now.
    fn prepared<const N: usize>(blocks: &Blocks<N>) -> Vec<usize> {
        let mut all = Vec::new();
        assert!(blocks.prepare(|number| {
            all.push(number);
            true
        }));
        all
    }

    #[test]
    fn blocks_after_the_ones_in_use_are_prepared_once() {
        let blocks = Blocks::<64>::new();
        assert!(!blocks.take(0..1), "one block in use allows none ahead");
        assert!(blocks.take(0..8 * BLOCK), "eight allow two");
        assert_eq!(prepared(&blocks), [8, 9]);
        assert_eq!(prepared(&blocks), [0; 0]);
        assert!(!blocks.take(5 * BLOCK..6 * BLOCK), "they were in use");
        assert!(blocks.take(8 * BLOCK..8 * BLOCK + 1), "one of them is in use: another is wanted");
        assert_eq!(prepared(&blocks), [10]);
    }

    #[test]
    fn what_is_ahead_is_bounded() {
        let blocks = Blocks::<1024>::new();
        for block in (0..1000).step_by(20) {
            blocks.take(block * BLOCK..(block + 10) * BLOCK);
        }
        assert_eq!(prepared(&blocks).len(), AHEAD_MAX);
    }

    #[test]
    fn a_failure_ends_the_preparation() {
        let blocks = Blocks::<64>::new();
        blocks.take(0..32 * BLOCK);
        let mut calls = 0;
        assert!(!blocks.prepare(|_| {
            calls += 1;
            false
        }));
        assert_eq!(calls, 1);
    }

    #[test]
    fn whole_blocks_that_come_back_are_fresh() {
        let blocks = Blocks::<64>::new();
        blocks.take(0..16 * BLOCK);
        blocks.give_back(BLOCK / 2..4 * BLOCK + 1);
        assert_eq!(blocks.used(), 13, "1 to 3 came back");
        blocks.give_back(0..1);
        blocks.give_back(63 * BLOCK..90 * BLOCK);
        assert_eq!(blocks.used(), 13);
    }

    #[test]
    fn the_end_of_the_area_is_the_end() {
        let blocks = Blocks::<8>::new();
        assert!(!blocks.take(0..8 * BLOCK));
        assert!(!blocks.take(7 * BLOCK..100 * BLOCK));
        assert_eq!(prepared(&blocks), [0; 0]);
    }
}
