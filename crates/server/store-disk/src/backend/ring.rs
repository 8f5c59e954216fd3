//! Reads of one file with `io_uring`: one call submits many reads to the kernel, which passes them to the
//! disk at once, and the next call finds those that have completed.
//!
//! The kernel writes to memory asynchronously. A ring therefore owns the buffers of its reads from
//! submission until the kernel reports completion, and waits for that when it is dropped.
#![expect(unsafe_code, reason = "the kernel is given addresses of memory")]

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::ops::Range;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;

use io_uring::types::Fd;
use io_uring::{IoUring, opcode};
use loligo_lockstat::blocking_point;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use smallvec::SmallVec;

use super::{BackendFile, Buffer};

/// Entries of the ring: the parts of reads in the kernel at the same time, and one for the wake-up. That
/// is more than a disk processes at once. Further parts wait in the ring.
const ENTRIES: u32 = 128;
/// Makes the kernel process completions even if the call does not wait (`IORING_ENTER_GETEVENTS`,
/// io_uring_enter(2)).
const GETEVENTS: u32 = 1;
/// The user data of the wake-up's entry, in place of a read's number.
const WAKE: u64 = u64::MAX;

/// A part of a read: the offset in the file, and the range of the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) offset: u64,
    pub(crate) range: Range<usize>,
}

/// The parts of a read, which do not overlap in the buffer.
pub(crate) type Parts = SmallVec<[Part; 1]>;

/// Wakes the thread that waits at a ring, or will wait there next.
#[derive(Clone, Debug)]
pub(crate) struct Wake(Arc<OwnedFd>);

impl Wake {
    pub(crate) fn wake(&self) {
        // Adds one. The write would fail or block only after a huge number of unread wake-ups.
        let _ = rustix::io::write(&self.0, &1u64.to_le_bytes());
    }
}

/// A ring for reads of one file, each with a value that belongs to it.
pub(crate) struct Ring<T> {
    ring: IoUring,
    /// Open as long as the ring may use it.
    file: Arc<dyn BackendFile>,
    wake: Wake,
    /// The kernel writes here when the ring is woken. Not accessed while `armed`.
    wake_buffer: Box<[u8; 8]>,
    armed: bool,
    /// By number. The buffers of reads with parts in the kernel are not accessed.
    reads: Vec<Option<Read<T>>>,
    free: Vec<u32>,
    /// Parts not submitted yet: the read's number and the part's number.
    waiting: VecDeque<(u32, u32)>,
    /// The number of parts in the kernel.
    in_kernel: usize,
    done: VecDeque<u32>,
}

struct Read<T> {
    what: T,
    buffer: Buffer,
    /// The rest of each part.
    parts: Parts,
    /// The number of parts that are not complete.
    left: usize,
    failed: Option<(usize, io::Error)>,
}

/// A completed read, with the part that failed, if any.
pub(crate) type Done<T> = (T, Buffer, Result<(), (usize, io::Error)>);

impl<T> Ring<T> {
    /// Creates a ring for this thread only. Returns `None` if the file is not a file of the kernel.
    ///
    /// # Errors
    /// The kernel has no `io_uring`, or does not permit its use.
    pub(crate) fn new(file: Arc<dyn BackendFile>) -> io::Result<Option<Self>> {
        if file.fd().is_none() {
            return Ok(None);
        }
        // With these flags newer kernels do not interrupt the thread for completions, but process them
        // when it asks.
        let newest = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(ENTRIES);
        let ring = newest.or_else(|_| IoUring::new(ENTRIES))?;
        let wake = Wake(Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?));
        let mut ring = Self {
            ring,
            file,
            wake,
            wake_buffer: Box::default(),
            armed: false,
            reads: Vec::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
            in_kernel: 0,
            done: VecDeque::new(),
        };
        // The first read shows whether the kernel supports this kind of request, which is newer than
        // `io_uring`.
        ring.wake.wake();
        ring.arm();
        while ring.armed {
            ring.call(true)?;
            if ring.reap() == Woken::Refused {
                return Err(io::ErrorKind::Unsupported.into());
            }
        }
        Ok(Some(ring))
    }

    pub(crate) fn waker(&self) -> Wake {
        self.wake.clone()
    }

    /// Adds a read; the next [`enter`](Self::enter) starts it.
    pub(crate) fn push(&mut self, what: T, buffer: Buffer, parts: Parts) {
        assert!(parts.iter().all(|part| part.range.end <= buffer.len()), "a read goes into its buffer");
        let number = self.free.pop().unwrap_or_else(|| {
            self.reads.push(None);
            self.reads.len() as u32 - 1
        });
        if parts.is_empty() {
            self.done.push_back(number);
        }
        self.waiting.extend((0..parts.len() as u32).map(|part| (number, part)));
        self.reads[number as usize] = Some(Read { what, buffer, left: parts.len(), parts, failed: None });
    }

    /// Submits waiting parts and collects completions. With `wait`, blocks until there is one or the ring
    /// is woken.
    ///
    /// # Errors
    /// An unexpected error; the ring is unusable afterwards.
    pub(crate) fn enter(&mut self, wait: bool) -> io::Result<()> {
        self.arm();
        while self.in_kernel + 1 < ENTRIES as usize
            && let Some((number, part)) = self.waiting.pop_front()
        {
            self.begin(number, part);
        }
        self.call(wait && self.done.is_empty())?;
        self.reap();
        Ok(())
    }

    /// Returns a completed read.
    pub(crate) fn next_done(&mut self) -> Option<Done<T>> {
        let number = self.done.pop_front()?;
        let read = self.reads.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some((read.what, read.buffer, read.failed.map_or(Ok(()), Err)))
    }

    /// Whether the ring has no reads.
    pub(crate) fn is_idle(&self) -> bool {
        self.reads.len() == self.free.len()
    }

    /// Returns the values of the reads that are not complete and never will be: the ring is unusable.
    pub(crate) fn give_up(mut self) -> Vec<T> {
        self.settle();
        self.reads.iter_mut().filter_map(Option::take).map(|read| read.what).collect()
    }

    /// Submits the read that completes when the ring is woken.
    fn arm(&mut self) {
        if self.armed {
            return;
        }
        self.armed = true;
        let entry = opcode::Read::new(Fd(self.wake.0.as_raw_fd()), self.wake_buffer.as_mut_ptr(), 8);
        let entry = entry.build().user_data(WAKE);
        // SAFETY: the ring owns the buffer, which has 8 bytes. It is not accessed until the kernel has
        // finished with it (`armed`), and is not freed before that (`settle`). The descriptor is open as
        // long as `wake` exists.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("there are entries for one more than all parts that the kernel gets");
    }

    fn begin(&mut self, number: u32, part: u32) {
        let (Some(fd), Some(Some(read))) = (self.file.fd(), self.reads.get_mut(number as usize)) else {
            unreachable!("who waits is there, and the file was one of the kernel's before")
        };
        let left = &read.parts[part as usize];
        let memory = &mut read.buffer[left.range.clone()];
        let entry = opcode::Read::new(Fd(fd.as_raw_fd()), memory.as_mut_ptr(), memory.len() as u32);
        let entry =
            entry.offset(left.offset).build().user_data(u64::from(number) << u32::BITS | u64::from(part));
        // SAFETY: the memory is on the heap, in a buffer that the ring owns. The buffer is not accessed
        // before the kernel has finished with all parts of it (`next_done` returns only such reads), and
        // is not freed before (`settle`). The descriptor is open as long as `file` exists.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("there are entries for all parts that the kernel gets");
        self.in_kernel += 1;
    }

    /// Submits the prepared entries to the kernel and makes it process completions.
    fn call(&mut self, wait: bool) -> io::Result<()> {
        if wait {
            blocking_point("reading by io_uring");
        }
        let begun = self.ring.submission().len() as u32;
        // SAFETY: no argument is passed by address.
        let entered = unsafe { self.ring.submitter().enter::<()>(begun, u32::from(wait), GETEVENTS, None) };
        match entered {
            Ok(_) => Ok(()),
            Err(e) => match Errno::from_io_error(&e) {
                // A signal; or the kernel is short of memory, or wants completions to be collected first.
                // Entries that were not submitted are submitted next time.
                Some(Errno::INTR | Errno::AGAIN | Errno::BUSY) => Ok(()),
                _ => Err(e),
            },
        }
    }

    /// Collects the kernel's completions.
    fn reap(&mut self) -> Woken {
        let mut woken = Woken::No;
        loop {
            let Some(entry) = self.ring.completion().next() else { break };
            let (data, result) = (entry.user_data(), entry.result());
            if data == WAKE {
                self.armed = false;
                woken = if result == 8 { Woken::Yes } else { Woken::Refused };
                continue;
            }
            self.in_kernel -= 1;
            self.part_done((data >> u32::BITS) as u32, data as u32, result);
        }
        woken
    }

    fn part_done(&mut self, number: u32, part: u32, result: i32) {
        let Some(Some(read)) = self.reads.get_mut(number as usize) else { return };
        let left = &mut read.parts[part as usize];
        let error = match usize::try_from(result) {
            Ok(0) => Some(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => {
                left.range.start += bytes;
                left.offset += bytes as u64;
                None
            }
            Err(_) => {
                let error = io::Error::from_raw_os_error(-result);
                let again = matches!(Errno::from_io_error(&error), Some(Errno::INTR | Errno::AGAIN));
                (!again).then_some(error)
            }
        };
        if error.is_none() && left.range.start < left.range.end {
            return self.waiting.push_back((number, part));
        }
        if let Some(error) = error {
            read.failed.get_or_insert((part as usize, error));
        }
        read.left -= 1;
        if read.left == 0 {
            self.done.push_back(number);
        }
    }

    /// Waits until the kernel has finished with all memory passed to it. If that fails, the memory is leaked.
    fn settle(&mut self) {
        self.waiting.clear();
        self.wake.wake();
        while self.in_kernel > 0 || self.armed {
            if self.call(true).is_err() {
                for read in self.reads.iter_mut().flatten() {
                    mem::forget(mem::take(&mut read.buffer));
                }
                mem::forget(mem::take(&mut self.wake_buffer));
                return;
            }
            self.reap();
            self.waiting.clear();
        }
    }
}

/// The result of the wake-up's read.
#[derive(PartialEq, Eq)]
enum Woken {
    No,
    Yes,
    Refused,
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::Backend;
    use super::super::files::Files;
    use super::*;

    #[test]
    fn reads_in_parts_come_back_whole_and_what_is_not_there_fails_alone() {
        const BLOCK: usize = 4096;
        const BLOCKS: usize = 300;
        let dir = std::env::temp_dir().join(format!("loligo-store-ring-{}", std::process::id()));
        let files = Files::open(&dir).expect("a new directory");
        let file = files.open("data").expect("a new file");
        let mut all = Buffer::zeroed(BLOCKS * BLOCK);
        all.chunks_exact_mut(BLOCK).enumerate().for_each(|(n, block)| block.fill(n as u8));
        file.write(0, &all).expect("room");
        let Ok(ring) = Ring::new(Arc::clone(&file)) else {
            return eprintln!("this kernel lets us have no io_uring");
        };
        let mut ring = ring.expect("a file of the kernel's");
        let part = |block: usize, at: usize, blocks: usize| Part {
            offset: (block * BLOCK) as u64,
            range: at * BLOCK..(at + blocks) * BLOCK,
        };
        // More than the kernel gets at once; the last part is after the end of the file.
        for n in 0..BLOCKS {
            let parts = [part(n, 1, 1), part(BLOCKS - 1 - n, 0, 1)].into_iter().collect();
            ring.push(n, Buffer::zeroed(2 * BLOCK), parts);
        }
        ring.push(
            BLOCKS,
            Buffer::zeroed(2 * BLOCK),
            [part(0, 0, 1), part(BLOCKS, 1, 1)].into_iter().collect(),
        );
        ring.push(BLOCKS + 1, Buffer::zeroed(BLOCK), Parts::new());
        let mut seen = vec![false; BLOCKS + 2];
        while !ring.is_idle() {
            ring.enter(true).expect("works");
            while let Some((n, buffer, read)) = ring.next_done() {
                assert!(!std::mem::replace(&mut seen[n], true), "once");
                match read {
                    Ok(()) if n < BLOCKS => {
                        assert!(buffer[..BLOCK].iter().all(|b| *b == (BLOCKS - 1 - n) as u8));
                        assert!(buffer[BLOCK..].iter().all(|b| *b == n as u8));
                    }
                    Ok(()) => assert_eq!(n, BLOCKS + 1, "nothing to read"),
                    Err((part, e)) => {
                        assert_eq!((n, part, e.kind()), (BLOCKS, 1, io::ErrorKind::UnexpectedEof));
                    }
                }
            }
        }
        assert!(seen.iter().all(|seen| *seen));
        // A wake-up ends a wait, also one that begins later.
        ring.waker().wake();
        ring.enter(true).expect("works");
        // Abandoned reads go to memory that stays allocated until the kernel has finished with it.
        (0..200).for_each(|n| ring.push(n, Buffer::zeroed(BLOCK), [part(n, 0, 1)].into_iter().collect()));
        ring.enter(false).expect("works");
        let given_up = ring.give_up();
        assert!(given_up.len() <= 200);
        drop((file, files));
        fs::remove_dir_all(&dir).expect("ours");
    }
}
