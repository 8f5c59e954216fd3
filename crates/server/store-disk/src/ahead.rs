//! Prepares the journal ahead of its groups, in steps.
//!
//! The journal is *prepared* up to a limit, a position of the ring: no group ends after it. The limit is
//! stored in the files of both superblocks (`notes`) before any group uses it. A restart that has read the
//! last valid group therefore looks for later ones only before the limit (`Journal::has_later`), not in the
//! whole ring. A clean shutdown sets the limit to the end of the last group: then nothing has to be read.
//!
//! In the ring's first round the file also grows up to the limit, filled with zeros. Writing a group there
//! allocates nothing in the file system, so that its sync is one disk write. A new store does not wait
//! until the whole journal is filled.
//!
//! One thread does both while the committer writes to the prepared part; it wakes once for each step.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use super::backend::{ALIGN, BackendFile, Buffer};
use super::core::Core;
use super::notes::{LIMIT, Notes};

/// The maximum number of zeros written at once.
const FILL_MAX: u64 = 1 << 20;

/// Bytes of the journal that are prepared together. A smaller step leaves less to read at a restart; a
/// larger one needs fewer syncs. A journal of 256 MiB has steps of 8 MiB, each with one sync.
pub(super) fn step(journal_len: u64) -> u64 {
    (journal_len / 32).next_multiple_of(ALIGN as u64)
}

pub(super) struct Ahead {
    core: Arc<Core>,
    notes: Notes,
    journal: Arc<dyn BackendFile>,
    /// The length of the journal's file, in bytes.
    file_len: u64,
}

impl Ahead {
    pub(super) fn new(core: Arc<Core>, notes: Notes, journal: Arc<dyn BackendFile>) -> io::Result<Self> {
        // A partial block was never prepared.
        let file_len = journal.len()?.min(core.marks.journal_len) / ALIGN as u64 * ALIGN as u64;
        Ok(Self { core, notes, journal, file_len })
    }

    /// Runs until the store is closed or stops.
    pub(super) fn run(mut self) {
        loop {
            if self.core.signals.why_stopped().is_some() {
                return;
            }
            // Acquire: the committer ended before it set this, and the head no longer changes.
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

    /// Returns the next limit if it must be raised now.
    fn next(&self) -> Option<u64> {
        let step = step(self.core.marks.journal_len);
        // Acquire: sees the committer's writes.
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
                // After the old limit, where no group is.
                zeros.reset(FILL_MAX.min(until - self.file_len) as usize);
                self.journal.write(self.file_len, &zeros)?;
                self.file_len += zeros.len() as u64;
            }
            self.journal.sync()?;
        }
        self.notes.store(LIMIT, limit)?;
        // Release: publishes the writes that make the limit valid.
        self.core.marks.limit.store(limit, Ordering::Release);
        Ok(())
    }
}
