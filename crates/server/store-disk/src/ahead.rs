//! Makes the journal ready ahead of its groups, in steps.
//!
//! The journal is *ready* up to a limit, a position of the ring: no group ends behind it. The limit is on
//! disk, behind each of the superblocks (`notes`), before any group makes use of it. So a restart that came
//! to the last group it can read looks for later ones only before the limit (`Journal::has_later`), not in
//! all of the ring. A clean end sets the limit to where the last group ends: then there is nothing to look
//! at.
//!
//! In the ring's first round the file also grows up to the limit, full of zeros: writing a group there
//! allocates nothing in the file system, so that syncing it is one write of the disk, and a new store does
//! not wait until all of the journal is full.
//!
//! One thread does both while the committer writes into what is ready; it is awake once for each step.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use super::backend::{ALIGN, BackendFile, Buffer};
use super::core::Core;
use super::notes::{LIMIT, Notes};

/// Zeros written at once.
const FILL_MAX: u64 = 1 << 20;

/// Bytes of the journal that are made ready together. The less, the less has to be read at a restart; the
/// more, the rarer are the syncs that this takes: here one for each 8 MiB of a journal of 256.
pub(super) fn step(journal_len: u64) -> u64 {
    (journal_len / 32).next_multiple_of(ALIGN as u64)
}

pub(super) struct Ahead {
    core: Arc<Core>,
    notes: Notes,
    journal: Arc<dyn BackendFile>,
    /// Bytes of the journal's file.
    file_len: u64,
}

impl Ahead {
    pub(super) fn new(core: Arc<Core>, notes: Notes, journal: Arc<dyn BackendFile>) -> io::Result<Self> {
        // What is not a whole block was never ready.
        let file_len = journal.len()?.min(core.marks.journal_len) / ALIGN as u64 * ALIGN as u64;
        Ok(Self { core, notes, journal, file_len })
    }

    /// Until the store is closed, or stops.
    pub(super) fn run(mut self) {
        loop {
            if self.core.signals.why_stopped().is_some() {
                return;
            }
            // Acquire: the committer has ended before this is said, and left the head where it stays.
            if self.core.signals.drained.load(Ordering::Acquire) {
                if let Err(e) = self.notes.store(LIMIT, self.core.marks.head.load(Ordering::Acquire)) {
                    self.core.stop(format!("the journal's limit: {e}"));
                }
                return;
            }
            match self.next() {
                Some(limit) => {
                    if let Err(e) = self.raise(limit) {
                        return self.core.stop(format!("making the journal ready: {e}"));
                    }
                    self.core.signals.wake();
                }
                None => thread::park(),
            }
        }
    }

    /// The next limit, if it is time for one.
    fn next(&self) -> Option<u64> {
        let step = step(self.core.marks.journal_len);
        // Acquire: as the committer left them.
        let head = self.core.marks.head.load(Ordering::Acquire);
        let need = (head + step).max(self.core.marks.wanted.load(Ordering::Acquire));
        let is_low = self.core.marks.limit.load(Ordering::Relaxed) < need;
        is_low.then(|| (need + step).next_multiple_of(step))
    }

    fn raise(&mut self, limit: u64) -> io::Result<()> {
        let until = limit.min(self.core.marks.journal_len);
        if self.file_len < until {
            let mut zeros = Buffer::zeroed(FILL_MAX.min(until - self.file_len) as usize);
            while self.file_len < until {
                // Behind the old limit, where no group is.
                zeros.reset(FILL_MAX.min(until - self.file_len) as usize);
                self.journal.write(self.file_len, &zeros)?;
                self.file_len += zeros.len() as u64;
            }
            self.journal.sync()?;
        }
        self.notes.store(LIMIT, limit)?;
        // Release: with what makes it true.
        self.core.marks.limit.store(limit, Ordering::Release);
        Ok(())
    }
}
