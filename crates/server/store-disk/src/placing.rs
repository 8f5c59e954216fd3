//! Writes data to places that are already allocated. Threads of the pool write large data, one write each;
//! the committer writes small data, many writes in one.

use std::sync::Arc;
use std::{io, thread};

use smallvec::{SmallVec, smallvec};

use super::backend::{BackendFile, Buffer, is_aligned};
use super::block::{Large, Moving, Task};
use super::core::Core;
use super::layout::{BLOCK, Run};

/// The maximum number of bytes copied and written to the data file at once if the memory is not aligned.
const WRITE_BYTES_MAX: usize = 1 << 20;

/// Ensures that a large write is at its place: writes it, or waits for the thread that does.
pub(super) fn write_large(core: &Core, large: &Large) -> io::Result<()> {
    loop {
        match large.task() {
            Task::Write => return write_and_tell(core, large),
            Task::Nothing => return Ok(()),
            Task::Wait | Task::Failed => {
                if let Some(why) = core.signals.why_stopped() {
                    return Err(io::Error::other(why.to_owned()));
                }
                // The thread that has written it wakes committer and checkpointer. If the write failed,
                // that thread stops the store, with the reason, which wakes them as well.
                thread::park();
            }
        }
    }
}

/// Writes in progress that [`Large::task`] has assigned to this thread. On drop, wakes the
/// threads waiting for them, also if writing failed or panicked: a store that has already stopped wakes no
/// thread again.
pub(super) struct Writing<'a> {
    pub(super) core: &'a Core,
    pub(super) larges: SmallVec<[&'a Large; 1]>,
    pub(super) is_written: bool,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let awaited = self.larges.iter().filter(|large| large.done(self.is_written)).count();
        if awaited > 0 {
            self.core.signals.wake();
        }
    }
}

/// Writes `small`, joining adjacent blocks into one write. If a single write suffices and `may_sync` is
/// set, that write is synced as well; returns whether it was.
pub(super) fn write_together(
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

/// Returns the runs of a write, with the bytes of each.
fn pieces<'l>(large: &'l Large, mut bytes: &'l [u8]) -> impl Iterator<Item = (Run, &'l [u8])> {
    large.runs.iter().map(move |run| {
        let (part, rest) = bytes.split_at(run.len as usize * BLOCK);
        bytes = rest;
        (*run, part)
    })
}

/// Starts large writes that no thread has started yet, each in a thread of the pool: the disk processes
/// many at the same time. The committer writes the small ones.
pub(super) fn write_ahead(core: &Arc<Core>, larges: &[Moving]) {
    for Moving { large, .. } in larges.iter().filter(|moving| !moving.large.is_small()) {
        let (of_job, large) = (Arc::clone(core), Arc::clone(large));
        core.io.pool.push(move || {
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
    // Data that is no longer in memory was written, or its store has stopped.
    let bytes = large.data().ok_or_else(|| io::Error::other("the data of a write are gone"))?;
    for (run, mut part) in pieces(large, &bytes) {
        if is_aligned(part) {
            core.io.data.write(run.offset(), part)?;
            continue;
        }
        let mut offset = run.offset();
        while !part.is_empty() {
            let (now, later) = part.split_at(part.len().min(WRITE_BYTES_MAX));
            let mut buffer = core.io.buffers.take(now.len());
            buffer[..now.len()].copy_from_slice(now);
            let written = core.io.data.write(offset, &buffer);
            core.io.buffers.give_back(buffer);
            written?;
            offset += now.len() as u64;
            part = later;
        }
    }
    Ok(())
}
