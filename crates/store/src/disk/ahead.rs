//! Makes the journal ready ahead of its groups, in steps.
//!
//! The journal is *ready* up to a limit, a position of the ring: no group ends behind it. The limit is on disk, in the second
//! block of the file `super`, before any group makes use of it. So a restart that came to the last group it can read looks for
//! later ones only before the limit (`Journal::has_later`), not in all of the ring. A clean end sets the limit to where the
//! last group ends: then there is nothing to look at.
//!
//! In the ring's first round the file also grows up to the limit, full of zeros: writing a group there allocates nothing in the
//! file system, so that syncing it is one write of the disk, and a new store does not wait until all of the journal is full.
//!
//! One thread does both while the committer writes into what is ready; it is awake once for each step.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use loligo_wire::crc::crc32c_of;
use loligo_wire::{Reader, Uuid, Writer};

use super::backend::{ALIGN, BackendFile, Buffer};
use super::core::Core;

const MAGIC: u32 = 0x4147_4f4c; // "LOGA"
/// Magic, limit, the store's salt; the checksum follows.
const SUMMED: usize = 28;
/// Where the limit is in the file `super`: behind the superblock, in a sector of its own.
const OFFSET: u64 = ALIGN as u64;
/// Zeros written at once.
const FILL_MAX: u64 = 1 << 20;

/// Bytes of the journal that are made ready together. The less, the less has to be read at a restart; the more, the rarer
/// are the syncs that this takes: here one for each 8 MiB of a journal of 256.
pub(super) fn step(journal_len: u64) -> u64 {
    (journal_len / 32).next_multiple_of(ALIGN as u64)
}

/// The limit that is on disk; nothing if it cannot be read, or was never written.
pub(super) fn load(superblock: &dyn BackendFile, salt: Uuid) -> io::Result<Option<u64>> {
    if superblock.len()? < OFFSET + ALIGN as u64 {
        return Ok(None);
    }
    let mut buffer = Buffer::zeroed(ALIGN);
    superblock.read(OFFSET, &mut buffer)?;
    Ok(parse(&buffer, salt))
}

fn parse(bytes: &[u8], salt: Uuid) -> Option<u64> {
    let mut r = Reader::new(bytes);
    let (magic, limit, found, crc) = (r.u32().ok()?, r.u64().ok()?, r.array().ok()?, r.u32().ok()?);
    let ours = magic == MAGIC && Uuid(found) == salt && crc == crc32c_of([&bytes[..SUMMED]]);
    ours.then_some(limit)
}

pub(super) struct Ahead {
    core: Arc<Core>,
    superblock: Arc<dyn BackendFile>,
    journal: Arc<dyn BackendFile>,
    salt: Uuid,
    /// Bytes of the journal's file.
    file_len: u64,
}

impl Ahead {
    pub(super) fn new(
        core: Arc<Core>,
        superblock: Arc<dyn BackendFile>,
        journal: Arc<dyn BackendFile>,
        salt: Uuid,
    ) -> io::Result<Self> {
        // What is not a whole block was never ready.
        let file_len = journal.len()?.min(core.journal_len) / ALIGN as u64 * ALIGN as u64;
        Ok(Self { core, superblock, journal, salt, file_len })
    }

    /// Until the store is closed, or stops.
    pub(super) fn run(mut self) {
        loop {
            if self.core.why_stopped().is_some() {
                return;
            }
            // Acquire: the committer has ended before this is said, and left the head where it stays.
            if self.core.drained.load(Ordering::Acquire) {
                if let Err(e) = self.store(self.core.journal_head.load(Ordering::Acquire)) {
                    self.core.stop(format!("the journal's limit: {e}"));
                }
                return;
            }
            match self.next() {
                Some(limit) => {
                    if let Err(e) = self.raise(limit) {
                        return self.core.stop(format!("making the journal ready: {e}"));
                    }
                    self.core.wake();
                }
                None => thread::park(),
            }
        }
    }

    /// The next limit, if it is time for one.
    fn next(&self) -> Option<u64> {
        let step = step(self.core.journal_len);
        // Acquire: as the committer left them.
        let head = self.core.journal_head.load(Ordering::Acquire);
        let need = (head + step).max(self.core.journal_wanted.load(Ordering::Acquire));
        let is_low = self.core.journal_limit.load(Ordering::Relaxed) < need;
        is_low.then(|| (need + step).next_multiple_of(step))
    }

    fn raise(&mut self, limit: u64) -> io::Result<()> {
        let until = limit.min(self.core.journal_len);
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
        self.store(limit)?;
        // Release: with what makes it true.
        self.core.journal_limit.store(limit, Ordering::Release);
        Ok(())
    }

    fn store(&self, limit: u64) -> io::Result<()> {
        let mut w = Writer::with_capacity(SUMMED + 4);
        w.u32(MAGIC);
        w.u64(limit);
        w.raw(&self.salt.0);
        let crc = crc32c_of([w.as_slice()]);
        w.u32(crc);
        let mut buffer = Buffer::zeroed(ALIGN);
        buffer[..SUMMED + 4].copy_from_slice(w.as_slice());
        self.superblock.write(OFFSET, &buffer)?;
        self.superblock.sync()
    }
}
