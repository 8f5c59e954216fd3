//! The reader: one thread that looks up objects in the map and reads blocks, many requests at once.
//!
//! Requests wait in a lane; the thread is woken only when it sleeps. It takes all waiting requests,
//! submits the reads to the kernel with one call (`backend/ring.rs`), and checks and delivers the reads
//! that have completed by then. The results are delivered together. The cost of a read besides the disk's
//! own time (a wake-up, a system call, a notification of the disk, a write to a socket) is thus shared by
//! all requests in progress.
//!
//! The thread must not block on anything but its ring. A lookup in the map usually finds its data in
//! memory. If one took so long that it must have waited for the disk, the next lookups are done by threads
//! of the pool ([`Looks`]).

use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use loligo_lane::{Action, Lane, RunEnd};
use loligo_lockstat::{Class, Mutex};
use loligo_store::{Batches, guarded};

use super::backend::{BackendFile, Buffer, Parts, Ring, Wake};

/// Held to take out all requests; adding one takes no lock.
static READER: Class = Class::new("store.reader");
static READER_THREAD: Class = Class::new("store.reader_thread");

/// The maximum number of waiting requests; further ones go to the pool. The callers bound the number of
/// requests.
const WAITING_MAX: usize = 64 << 10;
/// The number of requests taken before reads are submitted to the kernel: a fraction of a millisecond.
const BATCH: usize = 64;

/// A read of the data file.
pub(super) trait Reading: Send {
    /// Returns a buffer for the read.
    fn buffer(&self) -> Buffer;
    /// Returns the parts of the file to read into the buffer.
    fn parts(&self) -> Parts;
    /// Called with the data, or with the number of the part that failed and its error.
    fn done(self: Box<Self>, buffer: Buffer, read: Result<(), (usize, io::Error)>);
}

/// A job of the reader.
pub(super) enum Job {
    /// Hardly ever waits for the disk.
    Quick(Box<dyn FnOnce() + Send>),
    Read(Box<dyn Reading>),
}

impl Job {
    /// Runs the job in this thread, which waits for the disk.
    pub(super) fn now(self, file: &dyn BackendFile) {
        let read = match self {
            Self::Quick(job) => return job(),
            Self::Read(read) => read,
        };
        let mut buffer = read.buffer();
        let result = read.parts().into_iter().enumerate().try_for_each(|(n, part)| {
            file.read(part.offset, &mut buffer[part.range]).map_err(|error| (n, error))
        });
        read.done(buffer, result);
    }
}

/// A handle of the reader thread.
pub(super) struct Reader {
    shared: Arc<Shared>,
    wake: Wake,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    lane: Lane<Job>,
    file: Arc<dyn BackendFile>,
    batches: Arc<Batches>,
    closing: AtomicBool,
}

impl Reader {
    /// Starts the thread. Returns `None` if the kernel does not support what makes the thread better than
    /// the pool. `batches` are notified of results delivered together.
    pub(super) fn start(
        file: Arc<dyn BackendFile>,
        batches: Arc<Batches>,
        panicked: impl FnOnce(String) + Send + 'static,
    ) -> io::Result<Option<Self>> {
        let lane = Lane::new(&READER, WAITING_MAX);
        let shared = Arc::new(Shared { lane, file, batches, closing: AtomicBool::new(false) });
        let of_thread = Arc::clone(&shared);
        let (tell, told) = mpsc::channel();
        // The thread that uses the ring creates it: newer kernels then need no locks for it.
        let work = move || {
            let Ok(Some(ring)) = Ring::new(Arc::clone(&of_thread.file)) else { return };
            let _ = tell.send(ring.waker());
            of_thread.work(ring);
        };
        let name = "loligo-read";
        let of_panic = Arc::clone(&shared);
        let guarded = move || {
            guarded(name, work, |why| {
                panicked(why);
                // The callers waiting for results are notified that these will not come.
                drop(of_panic.lane.close());
            });
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(guarded)?;
        match told.recv() {
            Ok(wake) => {
                let thread = Mutex::new(&READER_THREAD, Some(thread));
                Ok(Some(Self { shared, wake, thread }))
            }
            Err(_) => {
                let _ = thread.join();
                Ok(None)
            }
        }
    }

    /// Queues a job, or returns it if that is not possible.
    pub(super) fn push(&self, job: Job) -> Result<(), Job> {
        match self.shared.lane.push(job) {
            Ok(Action::Submit) => self.wake.wake(),
            Ok(Action::Nothing) => {}
            Err(refused) => return Err(refused.into_inner()),
        }
        Ok(())
    }

    /// Ends the thread when the queued jobs are done; later jobs are returned to the caller.
    pub(super) fn close(&self) {
        // Release: publishes the jobs that were pushed before.
        self.shared.closing.store(true, Ordering::Release);
        self.wake.wake();
        let thread = self.thread.lock().take();
        // The store may be closed by a callback of a job, in this thread.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
            let _ = thread.join();
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn work(&self, mut ring: Ring<Box<dyn Reading>>) {
        loop {
            let end = self.batches.together(|| self.take(&mut ring));
            // Acquire: jobs that were pushed before are in the lane.
            let closing = self.closing.load(Ordering::Acquire);
            if closing && ring.is_idle() && self.lane.is_empty() {
                break;
            }
            let wait = end == RunEnd::Idle && !(closing && ring.is_idle());
            if ring.enter(wait).is_err() {
                // Not known to happen. The pool takes later jobs.
                let left = self.lane.close();
                let reads = ring.give_up().into_iter().map(Job::Read);
                reads.chain(left).for_each(|job| job.now(&*self.file));
                return;
            }
            self.batches.together(|| {
                while let Some((read, buffer, result)) = ring.next_done() {
                    read.done(buffer, result);
                }
            });
        }
        drop(self.lane.close());
    }

    /// Runs the quick jobs and pushes the reads to the ring.
    fn take(&self, ring: &mut Ring<Box<dyn Reading>>) -> RunEnd {
        self.lane.run_batch(BATCH, |batch| {
            for job in batch.drain(..) {
                match job {
                    Job::Quick(job) => job(),
                    Job::Read(read) => {
                        let (buffer, parts) = (read.buffer(), read.parts());
                        ring.push(read, buffer, parts);
                    }
                }
            }
            ControlFlow::Continue(())
        })
    }
}

/// Tracks whether lookups in the map are quick.
#[derive(Debug, Default)]
pub(super) struct Looks {
    /// The number of following lookups that the pool does.
    apart: AtomicU32,
}

/// A lookup that takes longer has waited for the disk, or its thread was descheduled.
const QUICK: Duration = Duration::from_micros(150);
/// The number of lookups that the pool does after one slow lookup: few, as it may have been chance.
const APART_FIRST: u32 = 8;
/// The number after another slow lookup among those: many.
const APART: u32 = 256;

impl Looks {
    /// Whether the reader does the next lookup.
    pub(super) fn next_is_quick(&self) -> bool {
        // Relaxed and not exact: it is an estimate.
        let apart = self.apart.load(Ordering::Relaxed);
        self.apart.store(apart.saturating_sub(1), Ordering::Relaxed);
        apart == 0
    }

    /// Runs a lookup and measures it.
    pub(super) fn look<T>(&self, look: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let found = look();
        self.took(start.elapsed());
        found
    }

    fn took(&self, time: Duration) {
        if time > QUICK {
            let again = self.apart.load(Ordering::Relaxed) > 0;
            self.apart.store(if again { APART } else { APART_FIRST }, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_looks_send_the_next_ones_elsewhere_for_a_while() {
        let looks = Looks::default();
        assert!(looks.next_is_quick());
        looks.took(QUICK * 2);
        assert_eq!((0..1000).filter(|_| !looks.next_is_quick()).count() as u32, APART_FIRST);
        looks.took(QUICK * 2);
        looks.took(QUICK * 2);
        looks.took(QUICK / 2);
        assert_eq!((0..1000).filter(|_| !looks.next_is_quick()).count() as u32, APART);
    }
}
