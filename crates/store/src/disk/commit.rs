//! The committer: one thread that takes all records there are, makes them safe with one write, and says so.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::{io, thread};

use loligo_wire::Eversion;

use super::backend::{BackendFile, Buffer};
use super::block::Large;
use super::collection::DiskCollection;
use super::core::{Core, Pending};
use super::journal::{Journal, group_len};

/// Bytes of records that are made safe together: the disk takes so much in well under a millisecond, and more at once would
/// only make the first wait for the last.
const GROUP_BYTES_MAX: usize = 512 << 10;
/// And of large writes.
const GROUP_LARGE_MAX: usize = 16 << 20;
/// Records taken from the lane at once.
const TAKE_MAX: usize = 1024;
/// Written at once to the data file.
const WRITE_BYTES_MAX: usize = 1 << 20;

pub(super) struct Committer {
    core: Arc<Core>,
    journal: Journal,
    buffer: Buffer,
}

impl Committer {
    pub(super) fn new(core: Arc<Core>, journal: Journal) -> Self {
        Self { core, journal, buffer: Buffer::default() }
    }

    /// Until the store is closed and nothing waits any more, or stops.
    pub(super) fn run(mut self) {
        loop {
            let core = Arc::clone(&self.core);
            let bytes_max = GROUP_BYTES_MAX.min(core.journal_len as usize / 4);
            // What it leaves is seen below.
            let _ = core.commits.run_batch(TAKE_MAX, |batch| {
                while !batch.is_empty() {
                    let group: Vec<Pending> = batch.drain(..group_of(batch, bytes_max)).collect();
                    if let Err(e) = self.commit(&group) {
                        self.core.stop(format!("the journal: {e}"));
                        return ControlFlow::Break(());
                    }
                    core.handled(group.len());
                    said(&group);
                }
                ControlFlow::Continue(())
            });
            // Acquire: what was pushed before is seen.
            if core.why_stopped().is_some()
                || (core.closing.load(Ordering::Acquire) && core.commits.is_empty())
            {
                return;
            }
            if core.commits.is_empty() {
                thread::park();
            }
        }
    }

    fn commit(&mut self, group: &[Pending]) -> io::Result<()> {
        let mut wrote = false;
        for large in group.iter().flat_map(|pending| &pending.larges) {
            // If a checkpoint was faster, it is synced here all the same: that one's sync may not have begun.
            write_large(&*self.core.data, large, &mut self.buffer)?;
            wrote = true;
        }
        if wrote {
            self.core.sync_data()?;
        }
        let bytes = group.iter().map(|pending| pending.record.len()).sum();
        self.wait_for_room(group_len(group.len(), bytes))?;
        self.journal.write(group.iter().map(|pending| &pending.record[..]))?;
        let head = self.journal.head();
        // Release: a checkpoint that reads it sees all that was submitted before it was written.
        self.core.journal_head.store(head, Ordering::Release);
        if head - self.core.journal_tail.load(Ordering::Acquire) > self.core.journal_len / 2 {
            self.core.want_checkpoint();
        }
        Ok(())
    }

    fn wait_for_room(&self, len: u64) -> io::Result<()> {
        loop {
            let end = self.journal.place_of(len) + len;
            if end - self.core.journal_tail.load(Ordering::Acquire) <= self.core.journal_len {
                return Ok(());
            }
            if let Some(why) = self.core.why_stopped() {
                return Err(io::Error::other(why.to_owned()));
            }
            self.core.want_checkpoint();
            thread::park();
        }
    }
}

/// How many of the first records make a group.
fn group_of(batch: &VecDeque<Pending>, bytes_max: usize) -> usize {
    let (mut bytes, mut large) = (0, 0);
    let fits = |pending: &&Pending| {
        bytes += pending.record.len();
        large += pending.larges.iter().map(|l| l.data.as_ref().map_or(0, |data| data.len())).sum::<usize>();
        bytes <= bytes_max && large <= GROUP_LARGE_MAX
    };
    batch.iter().take_while(fits).count().max(1)
}

/// Tells each collection of its newest version.
fn said(group: &[Pending]) {
    let mut newest: Vec<(&Arc<DiskCollection>, Eversion)> = Vec::new();
    for Pending { collection, version, .. } in group {
        let Some(version) = *version else { continue };
        match newest.iter_mut().find(|(c, _)| Arc::ptr_eq(c, collection)) {
            Some((_, newest)) => *newest = version,
            None => newest.push((collection, version)),
        }
    }
    for (collection, version) in newest {
        if let Some(listener) = collection.listener() {
            listener.committed(version);
        }
    }
}

/// Writes a large write to its place.
pub(super) fn write_large(data: &dyn BackendFile, large: &Large, buffer: &mut Buffer) -> io::Result<()> {
    let Some(mut bytes) = large.data.as_deref().filter(|_| !large.is_written()) else { return Ok(()) };
    for run in &large.runs {
        let (mut part, rest) = bytes.split_at(run.len as usize * super::layout::BLOCK);
        bytes = rest;
        let mut offset = run.offset();
        while !part.is_empty() {
            let (now, later) = part.split_at(part.len().min(WRITE_BYTES_MAX));
            buffer.reset(now.len());
            buffer.copy_from_slice(now);
            data.write(offset, buffer)?;
            offset += now.len() as u64;
            part = later;
        }
    }
    large.set_written();
    Ok(())
}
