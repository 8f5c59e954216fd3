//! The committer: one thread that takes all records there are, makes them safe with one write, and says so.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use std::{io, thread};

use bytes::Bytes;
use loligo_store::together;
use loligo_wire::Eversion;
use smallvec::{SmallVec, smallvec};

use super::ahead::step;
use super::backend::{BackendFile, Buffer, is_aligned};
use super::block::{Large, Moving, Task};
use super::collection::DiskCollection;
use super::core::{Core, Pending};
use super::journal::{Journal, group_len};
use super::layout::{BLOCK, Run};

/// Bytes of records that are made safe together: the disk takes so much in well under a millisecond, and more
/// at once would only make the first wait for the last.
const GROUP_BYTES_MAX: usize = 512 << 10;
/// And of large writes.
const GROUP_LARGE_MAX: usize = 16 << 20;
/// Bytes of the journal that are in use at most, if it is longer: all of that is in memory as well, with what
/// it takes to find it. At half of it a checkpoint begins, since as much again comes while it is under way.
const UNSTORED_MAX: u64 = 64 << 20;
/// Records taken from the lane at once.
const TAKE_MAX: usize = 1024;
/// Copied and written at once to the data file, if memory is not aligned.
const WRITE_BYTES_MAX: usize = 1 << 20;

pub(super) struct Committer {
    core: Arc<Core>,
    /// The data file, to be synced. Its own handle: the kernel tells each one once of what it could not
    /// write.
    data: Arc<dyn BackendFile>,
    journal: Journal,
    /// Small writes on their way to their places.
    buffer: Buffer,
}

impl Committer {
    pub(super) fn new(core: Arc<Core>, data: Arc<dyn BackendFile>, journal: Journal) -> Self {
        Self { core, data, journal, buffer: Buffer::default() }
    }

    /// Until the store is closed and nothing waits any more, or stops.
    pub(super) fn run(mut self) {
        let mut awake = Awake::default();
        loop {
            let core = Arc::clone(&self.core);
            let bytes_max = GROUP_BYTES_MAX.min(core.journal_len as usize / 4);
            // What it leaves is seen below.
            let _ = core.commits.run_batch(TAKE_MAX, |batch| {
                awake.begins(batch.len(), Instant::now());
                while !batch.is_empty() {
                    let group: Vec<Pending> = batch.drain(..group_of(batch, bytes_max)).collect();
                    if let Err(e) = self.commit(&group) {
                        self.core.stop(format!("the journal: {e}"));
                        return ControlFlow::Break(());
                    }
                    // Relaxed: a guess.
                    core.group_records.store(group.len(), Ordering::Relaxed);
                    let last = batch.is_empty() && core.commits.is_empty();
                    together(|| said(&group, last));
                    keep(&core, &group);
                    core.handled(&group);
                }
                ControlFlow::Continue(())
            });
            // Acquire: what was pushed before is seen.
            if core.why_stopped().is_some()
                || (core.closing.load(Ordering::Acquire) && core.commits.is_empty())
            {
                return;
            }
            let is_there = || !core.commits.is_empty();
            if !is_there() && !awake.ends(Instant::now()).is_some_and(|until| wait_awake(until, is_there)) {
                thread::park();
            }
        }
    }

    fn commit(&mut self, group: &[Pending]) -> io::Result<()> {
        self.write_placed(group)?;
        let bytes = group.iter().map(|pending| pending.record.len()).sum();
        self.wait_for_room(group_len(group.len(), bytes))?;
        self.journal.write(group.iter().map(|pending| &pending.record[..]))?;
        let head = self.journal.head();
        // Release: a checkpoint that reads it sees all that was submitted before it was written.
        self.core.journal_head.store(head, Ordering::Release);
        if head - self.core.journal_tail.load(Ordering::Acquire) > self.unstored_max() / 2 {
            self.core.want_checkpoint();
        }
        if head + step(self.core.journal_len) > self.core.journal_limit.load(Ordering::Relaxed) {
            self.core.want_journal(0);
        }
        Ok(())
    }

    /// Sees to it that all data that have a place are there, and safe.
    fn write_placed(&mut self, group: &[Pending]) -> io::Result<()> {
        let placed = || group.iter().flat_map(|pending| &pending.larges);
        // If a checkpoint was faster, or is about to write one, `write_large` waits for it.
        let small: Vec<&Moving> =
            placed().filter(|moving| moving.large.is_small() && moving.large.task() == Task::Write).collect();
        let count = placed().count();
        let larges = small.iter().map(|moving| &*moving.large).collect();
        let mut writing = Writing { core: &self.core, larges, is_written: false };
        let written = write_together(&*self.data, &mut self.buffer, &small, small.len() == count);
        writing.is_written = written.is_ok();
        drop(writing);
        if count == 0 || written? {
            return Ok(());
        }
        for Moving { large, .. } in placed() {
            // If another was faster, it is synced here all the same: that one's sync may not have begun. It
            // fails here too if the kernel could not write what was written there.
            write_large(&self.core, large)?;
        }
        self.data.sync()
    }

    fn unstored_max(&self) -> u64 {
        self.core.journal_len.min(UNSTORED_MAX)
    }

    fn wait_for_room(&self, len: u64) -> io::Result<()> {
        loop {
            let end = self.journal.place_of(len) + len;
            let tail = self.core.journal_tail.load(Ordering::Acquire);
            // A record that is larger than the bound goes alone.
            let is_alone = tail == self.journal.head() && end - tail <= self.core.journal_len;
            let has_room = is_alone || end - tail <= self.unstored_max();
            // Acquire: with what makes it true.
            let is_ready = end <= self.core.journal_limit.load(Ordering::Acquire);
            if has_room && is_ready {
                return Ok(());
            }
            if let Some(why) = self.core.why_stopped() {
                return Err(io::Error::other(why.to_owned()));
            }
            if !has_room {
                self.core.want_checkpoint();
            }
            if !is_ready {
                self.core.want_journal(end);
            }
            thread::park();
        }
    }
}

/// Whether to stay awake when nothing waits.
///
/// To wake a thread that sleeps takes a good part of what a disk takes to write. A client that writes one
/// thing after the other comes again a fraction of that later; if it has, the committer waits for the next
/// one without sleeping, and lets others have the processor.
#[derive(Debug, Default)]
struct Awake {
    /// When there was nothing to do any more.
    idle_since: Option<Instant>,
    /// The last record came alone and soon.
    expects: bool,
}

/// So soon is soon: longer than a loopback's round trip, shorter than a hundred writes would take.
const SOON: Duration = Duration::from_micros(150);

impl Awake {
    /// There are so many records.
    fn begins(&mut self, records: usize, now: Instant) {
        let soon = self.idle_since.take().is_some_and(|since| now - since < SOON);
        self.expects = soon && records == 1;
    }

    /// There is nothing. Gives until when to stay awake.
    fn ends(&mut self, now: Instant) -> Option<Instant> {
        let since = *self.idle_since.get_or_insert(now);
        std::mem::take(&mut self.expects).then_some(since + SOON)
    }
}

/// Waits without sleeping; whether there is something then.
fn wait_awake(until: Instant, is_there: impl Fn() -> bool) -> bool {
    while Instant::now() < until {
        thread::yield_now();
        if is_there() {
            return true;
        }
    }
    false
}

/// How many of the first records make a group.
fn group_of(batch: &VecDeque<Pending>, bytes_max: usize) -> usize {
    let (mut bytes, mut large) = (0, 0);
    let fits = |pending: &&Pending| {
        bytes += pending.record.len();
        large += pending.large_len();
        bytes <= bytes_max && large <= GROUP_LARGE_MAX
    };
    batch.iter().take_while(fits).count().max(1)
}

/// Tells each collection of its newest version; `last` if nothing else waits.
fn said(group: &[Pending], last: bool) {
    let mut newest: Vec<(&Arc<DiskCollection>, Eversion)> = Vec::new();
    for Pending { collection, version, .. } in group {
        let Some(version) = *version else { continue };
        match newest.iter_mut().find(|(c, _)| Arc::ptr_eq(c, collection)) {
            Some((_, newest)) => *newest = version,
            None => newest.push((collection, version)),
        }
    }
    for (collection, version) in newest {
        match collection.listener() {
            Some(listener) if last && group.len() == 1 => listener.committed_alone(version),
            Some(listener) => listener.committed(version),
            None => {}
        }
    }
}

/// Small writes that are in their places stay in memory only as far as the data cache keeps them. Before the
/// committer has done with them nobody else gets the places.
fn keep(core: &Core, group: &[Pending]) {
    let small = group.iter().flat_map(|pending| &pending.larges).filter(|moving| moving.large.is_small());
    for Moving { large, data } in small {
        if !core.may_keep(large.crcs.len()) {
            return;
        }
        // Copied: they are a part of what a client has sent.
        let blocks = data.chunks_exact(BLOCK).map(Bytes::copy_from_slice);
        large.places().zip(blocks).for_each(|(place, block)| core.data_cache.put(place, block));
    }
}

/// Sees to it that a large write is in its place: writes it, or waits for who does.
pub(super) fn write_large(core: &Core, large: &Large) -> io::Result<()> {
    loop {
        match large.task() {
            Task::Write => return write_and_tell(core, large),
            Task::Nothing => return Ok(()),
            Task::Wait | Task::Failed => {
                if let Some(why) = core.why_stopped() {
                    return Err(io::Error::other(why.to_owned()));
                }
                // Whoever has written it wakes committer and checkpointer. Whoever has failed to stops the
                // store, with the reason, and that wakes them as well.
                thread::park();
            }
        }
    }
}

/// Writes that are on their way to their places, each of which [`Large::task`] has given to this thread.
/// Dropped, it tells those who wait for them, also if writing failed or panicked: a store that has stopped
/// already wakes nobody again.
struct Writing<'a> {
    core: &'a Core,
    larges: SmallVec<[&'a Large; 1]>,
    is_written: bool,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let awaited = self.larges.iter().filter(|large| large.done(self.is_written)).count();
        if awaited > 0 {
            self.core.wake();
        }
    }
}

/// Writes what is to be written, the less often the more of it lies side by side. If it lies so well that one
/// write does, and `may_sync`, that is safe as well; whether it is.
fn write_together(
    data: &dyn BackendFile,
    buffer: &mut Buffer,
    small: &[&Moving],
    may_sync: bool,
) -> io::Result<bool> {
    let mut pieces: Vec<(Run, &[u8])> =
        small.iter().flat_map(|moving| pieces(&moving.large, &moving.data)).collect();
    pieces.sort_unstable_by_key(|(run, _)| run.start);
    let mut rest = &pieces[..];
    while let Some(((first, _), more)) = rest.split_first() {
        let (mut end, mut count) = (first.end(), 1);
        for (run, _) in more {
            if run.start != end || (run.end() - first.start) as usize * BLOCK > WRITE_BYTES_MAX {
                break;
            }
            (end, count) = (run.end(), count + 1);
        }
        buffer.reset((end - first.start) as usize * BLOCK);
        let mut at = 0;
        for (_, bytes) in &rest[..count] {
            buffer[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        }
        if may_sync && count == pieces.len() {
            data.write_and_sync(first.offset(), buffer)?;
            return Ok(true);
        }
        data.write(first.offset(), buffer)?;
        rest = &rest[count..];
    }
    Ok(false)
}

/// The places of a write, and what is to be there.
fn pieces<'l>(large: &'l Large, mut bytes: &'l [u8]) -> impl Iterator<Item = (Run, &'l [u8])> {
    large.runs.iter().map(move |run| {
        let (part, rest) = bytes.split_at(run.len as usize * BLOCK);
        bytes = rest;
        (*run, part)
    })
}

/// Writes large writes that nobody has begun to write yet, each in a thread of the pool: the disk does many
/// at the same time. The committer writes the small ones.
pub(super) fn write_ahead(core: &Arc<Core>, larges: &[Moving]) {
    for Moving { large, .. } in larges.iter().filter(|moving| !moving.large.is_small()) {
        let (of_job, large) = (Arc::clone(core), Arc::clone(large));
        core.pool.push(move || {
            if large.task() != Task::Write {
                return;
            }
            if let Err(e) = write_and_tell(&of_job, &large) {
                of_job.stop(format!("a large write: {e}"));
            }
        });
    }
}

fn write_and_tell(core: &Core, large: &Large) -> io::Result<()> {
    let mut writing = Writing { core, larges: smallvec![large], is_written: false };
    let written = write_runs(core, large);
    writing.is_written = written.is_ok();
    written
}

fn write_runs(core: &Core, large: &Large) -> io::Result<()> {
    // What is not in memory any more was written, or its store has stopped.
    let bytes = large.data().ok_or_else(|| io::Error::other("the data of a write are gone"))?;
    for (run, mut part) in pieces(large, &bytes) {
        if is_aligned(part) {
            core.data.write(run.offset(), part)?;
            continue;
        }
        let mut offset = run.offset();
        while !part.is_empty() {
            let (now, later) = part.split_at(part.len().min(WRITE_BYTES_MAX));
            let mut buffer = core.buffers.take(now.len());
            buffer[..now.len()].copy_from_slice(now);
            let written = core.data.write(offset, &buffer);
            core.buffers.give_back(buffer);
            written?;
            offset += now.len() as u64;
            part = later;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committer_stays_awake_only_for_who_comes_alone_and_soon() {
        let mut awake = Awake::default();
        let start = Instant::now();
        let at = |us| start + Duration::from_micros(us);
        awake.begins(1, at(0));
        assert_eq!(awake.ends(at(100)), None, "nothing is known yet");
        awake.begins(1, at(180));
        assert_eq!(awake.ends(at(280)), Some(at(280) + SOON));
        assert_eq!(awake.ends(at(500)), None, "nobody came");
        awake.begins(1, at(5_000));
        assert_eq!(awake.ends(at(5_100)), None, "it came late");
        awake.begins(8, at(5_110));
        assert_eq!(awake.ends(at(5_200)), None, "it came with others");
    }
}
