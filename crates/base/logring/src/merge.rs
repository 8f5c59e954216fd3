//! Merges the entries of all rings by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::Ordering::Relaxed;

use crate::entry::{ENTRY_WORDS_MAX, Entry};
use crate::thread::{ARRIVALS, About, DROPPED_WITHOUT_RING, Source};

/// An item found in the rings.
pub(crate) enum Found<'a> {
    Entry(Entry<'a>),
    /// The number of entries for which a thread's ring had no room, since the last report. Without a
    /// thread: entries of threads without a ring.
    Dropped(u64, Option<&'a About>),
}

/// The log thread's side of all rings. It outlives the log thread and is passed to the next one.
#[derive(Default)]
pub(crate) struct Merge {
    rings: Vec<Ring>,
    /// The time of the oldest entry of each ring that has one, during a merge.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    dropped_without_ring: u64,
}

struct Ring {
    source: Source,
    /// Words that were available when the merge began.
    available: usize,
    /// The thread had ended before the merge began.
    ended: bool,
    dropped_reported: u64,
}

impl Merge {
    /// Takes all entries up to a time, in order.
    ///
    /// `upto` must have been read from the clock before the call. Then this call sees every entry that
    /// was complete at that time, including those of new rings, and all remaining entries are younger
    /// than those taken.
    pub(crate) fn take(&mut self, upto: u64, mut each: impl FnMut(Found<'_>)) {
        self.look();
        let mut buffer = [0; ENTRY_WORDS_MAX];
        while let Some(Reverse((ticks, index))) = self.heads.pop() {
            if ticks > upto {
                self.heads.clear();
                break;
            }
            let ring = &mut self.rings[index];
            let thread = ring.source.about.thread;
            if let Some(words) = ring.pop(&mut buffer) {
                // SAFETY: rings contain whole entries only, and this is the next one.
                each(Found::Entry(unsafe { Entry::new(thread, words) }));
            }
            if let Some(ticks) = ring.head() {
                self.heads.push(Reverse((ticks, index)));
            }
        }
        self.report_dropped(&mut each);
        self.rings.retain(|ring| !(ring.ended && ring.available == 0));
    }

    fn look(&mut self) {
        let arrived = ARRIVALS.take().into_iter();
        let new = arrived.map(|source| Ring { source, available: 0, ended: false, dropped_reported: 0 });
        self.rings.extend(new);
        for (index, ring) in self.rings.iter_mut().enumerate() {
            // In this order: once the thread has ended, everything it wrote is visible.
            ring.ended = ring.source.consumer.is_abandoned();
            ring.available = ring.source.consumer.slots();
            if let Some(ticks) = ring.head() {
                self.heads.push(Reverse((ticks, index)));
            }
        }
    }

    fn report_dropped(&mut self, each: &mut impl FnMut(Found<'_>)) {
        for ring in &mut self.rings {
            let dropped = ring.source.about.dropped.load(Relaxed);
            if dropped != ring.dropped_reported {
                each(Found::Dropped(dropped - ring.dropped_reported, Some(&ring.source.about)));
                ring.dropped_reported = dropped;
            }
        }
        let dropped = DROPPED_WITHOUT_RING.load(Relaxed);
        if dropped != self.dropped_without_ring {
            each(Found::Dropped(dropped - self.dropped_without_ring, None));
            self.dropped_without_ring = dropped;
        }
    }
}

impl Ring {
    /// The time of the oldest entry that was available when the merge began.
    fn head(&self) -> Option<u64> {
        if self.available == 0 { None } else { self.source.consumer.peek().ok().copied() }
    }

    /// Takes the oldest entry.
    fn pop<'a>(&mut self, buffer: &'a mut [u64; ENTRY_WORDS_MAX]) -> Option<&'a [u64]> {
        let consumer = &mut self.source.consumer;
        let header = consumer.read_chunk(3).ok()?;
        let (first, second) = header.as_slices();
        let kind = *first.get(2).or_else(|| second.get(2 - first.len()))?;
        let entry = &mut buffer[..(kind & 0xffff) as usize];
        // Room is released entry by entry, since a thread whose ring is full may need it at once.
        consumer.pop_entire_slice(entry).ok()?;
        self.available = self.available.saturating_sub(entry.len());
        Some(entry)
    }
}
