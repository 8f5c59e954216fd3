//! The committer: one thread that takes all waiting records, makes them safe with one write, and notifies
//! the listeners.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use std::{io, thread};

use bytes::Bytes;
use loligo_wire::Eversion;

use super::ahead::step;
use super::backend::{BackendFile, Buffer};
use super::block::{Moving, Task};
use super::core::Core;
use super::journal::{Journal, group_len};
use super::layout::BLOCK;
use super::placing::{Writing, write_large, write_together};
use super::queue::{Audience, Pending};

/// The maximum bytes of records committed together. The disk writes them in well under a millisecond;
/// larger groups would only make the first record wait for the last.
const GROUP_BYTES_MAX: usize = 512 << 10;
/// The maximum bytes of large writes committed together.
const GROUP_LARGE_MAX: usize = 16 << 20;
/// The maximum bytes of the journal in use, if the journal is longer: all of them are in memory as well, with
/// their index entries. A checkpoint begins at half of it, since as much again may arrive meanwhile.
const UNSTORED_MAX: u64 = 64 << 20;
/// The maximum number of records taken from the lane at once.
const TAKE_MAX: usize = 1024;

pub(super) struct Committer {
    core: Arc<Core>,
    /// The data file, for syncs. A separate handle: the kernel reports a failed write once to each handle.
    data: Arc<dyn BackendFile>,
    journal: Journal,
    /// A buffer for small writes to their places.
    buffer: Buffer,
}

impl Committer {
    pub(super) fn new(core: Arc<Core>, data: Arc<dyn BackendFile>, journal: Journal) -> Self {
        Self { core, data, journal, buffer: Buffer::default() }
    }

    /// Runs until the store is closed and nothing waits any more, or until it stops.
    pub(super) fn run(mut self) {
        let mut awake = Awake::default();
        loop {
            let core = Arc::clone(&self.core);
            let bytes_max = GROUP_BYTES_MAX.min(core.marks.journal_len as usize / 4);
            // Records left in the lane are checked below.
            let _ = core.queue.records.run_batch(TAKE_MAX, |batch| {
                awake.begins(batch.len(), Instant::now());
                while !batch.is_empty() {
                    let group: Vec<Pending> = batch.drain(..group_of(batch, bytes_max)).collect();
                    if let Err(e) = self.commit(&group) {
                        self.core.stop(format!("the journal: {e}"));
                        return ControlFlow::Break(());
                    }
                    core.queue.group_is(group.len());
                    let last = batch.is_empty() && core.queue.records.is_empty();
                    core.batches.together(|| tell(&group, last));
                    keep(&core, &group);
                    core.handled(&group);
                }
                ControlFlow::Continue(())
            });
            // Acquire: sees records that were pushed before.
            if core.signals.why_stopped().is_some()
                || (core.signals.closing.load(Ordering::Acquire) && core.queue.records.is_empty())
            {
                return;
            }
            let is_there = || !core.queue.records.is_empty();
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
        // Release: a checkpoint that reads it sees everything submitted before this write.
        self.core.marks.head.store(head, Ordering::Release);
        if head - self.core.marks.tail.load(Ordering::Acquire) > self.unstored_max() / 2 {
            self.core.signals.want_checkpoint();
        }
        if head + step(self.core.marks.journal_len) > self.core.marks.limit.load(Ordering::Relaxed) {
            self.core.want_journal(0);
        }
        Ok(())
    }

    /// Ensures that all data with a place is written there and safe.
    fn write_placed(&mut self, group: &[Pending]) -> io::Result<()> {
        let placed = || group.iter().flat_map(|pending| &pending.larges);
        // If a checkpoint was faster, or is writing one of them, `write_large` waits for it.
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
            // If another thread was faster, the data is synced here all the same: that thread's sync may
            // not have begun. This sync also fails if the kernel could not write that thread's data.
            write_large(&self.core, large)?;
        }
        self.data.sync()
    }

    fn unstored_max(&self) -> u64 {
        self.core.marks.journal_len.min(UNSTORED_MAX)
    }

    fn wait_for_room(&self, len: u64) -> io::Result<()> {
        loop {
            let end = self.journal.place_of(len) + len;
            let tail = self.core.marks.tail.load(Ordering::Acquire);
            // A record larger than the bound is written alone.
            let is_alone = tail == self.journal.head() && end - tail <= self.core.marks.journal_len;
            let has_room = is_alone || end - tail <= self.unstored_max();
            // Acquire: sees the writes that make the limit valid.
            let is_ready = end <= self.core.marks.limit.load(Ordering::Acquire);
            if has_room && is_ready {
                return Ok(());
            }
            if let Some(why) = self.core.signals.why_stopped() {
                return Err(io::Error::other(why.to_owned()));
            }
            if !has_room {
                self.core.signals.want_checkpoint();
            }
            if !is_ready {
                self.core.want_journal(end);
            }
            thread::park();
        }
    }
}

/// Decides whether to stay awake when nothing waits.
///
/// Waking a sleeping thread takes a considerable part of the time of a disk write. A client that writes
/// sequentially submits again within a fraction of that time. After such a record the committer waits for
/// the next one without sleeping, and yields the CPU to other threads.
#[derive(Debug, Default)]
struct Awake {
    /// When the committer ran out of work.
    idle_since: Option<Instant>,
    /// Whether the last record came alone and soon.
    expects: bool,
}

/// The meaning of soon: longer than a loopback round trip, shorter than a hundred writes take.
const SOON: Duration = Duration::from_micros(150);

impl Awake {
    /// Called when `records` records have arrived.
    fn begins(&mut self, records: usize, now: Instant) {
        let soon = self.idle_since.take().is_some_and(|since| now - since < SOON);
        self.expects = soon && records == 1;
    }

    /// Called when nothing waits. Returns until when to stay awake.
    fn ends(&mut self, now: Instant) -> Option<Instant> {
        let since = *self.idle_since.get_or_insert(now);
        std::mem::take(&mut self.expects).then_some(since + SOON)
    }
}

/// Waits without sleeping; returns whether there is work.
fn wait_awake(until: Instant, is_there: impl Fn() -> bool) -> bool {
    while Instant::now() < until {
        thread::yield_now();
        if is_there() {
            return true;
        }
    }
    false
}

/// Returns how many of the first records form a group.
fn group_of(batch: &VecDeque<Pending>, bytes_max: usize) -> usize {
    let (mut bytes, mut large) = (0, 0);
    let fits = |pending: &&Pending| {
        bytes += pending.record.len();
        large += pending.large_len();
        bytes <= bytes_max && large <= GROUP_LARGE_MAX
    };
    batch.iter().take_while(fits).count().max(1)
}

/// Notifies each collection's listener of its newest version; `last` if nothing else waits.
fn tell(group: &[Pending], last: bool) {
    let mut newest: Vec<(&Arc<Audience>, Eversion)> = Vec::new();
    for Pending { audience, version, .. } in group {
        let Some(version) = *version else { continue };
        match newest.iter_mut().find(|(other, _)| Arc::ptr_eq(other, audience)) {
            Some((_, newest)) => *newest = version,
            None => newest.push((audience, version)),
        }
    }
    for (audience, version) in newest {
        match audience.get() {
            Some(listener) if last && group.len() == 1 => listener.committed_alone(version),
            Some(listener) => listener.committed(version),
            None => {}
        }
    }
}

/// Puts the group's small writes into the data cache; otherwise they do not stay in memory. Their places
/// are not reused before the committer has finished with the group.
fn keep(core: &Core, group: &[Pending]) {
    let small = group.iter().flat_map(|pending| &pending.larges).filter(|moving| moving.large.is_small());
    for Moving { large, data } in small {
        if !core.io.may_keep(large.crcs.len()) {
            return;
        }
        // Copied: the data is a part of a client's message.
        let blocks = data.chunks_exact(BLOCK).map(Bytes::copy_from_slice);
        large.places().zip(blocks).for_each(|(place, block)| core.io.data_cache.put(place, block));
    }
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
