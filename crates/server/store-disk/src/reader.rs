//! The reader: one thread that looks for objects in the map and reads blocks, all that are asked for at once.
//!
//! What is asked for waits in a lane; the thread is woken only when it sleeps. It takes all there is, gives
//! the reads to the kernel with one call (`backend/ring.rs`), and whatever is done by then is checked and
//! answered; the answers leave together. So what a read costs beside the disk's own time, a wake-up, a call
//! of the kernel, a kick of the disk, a write to a socket, is shared by as many as are under way.
//!
//! The thread must not wait for anything but its ring. A look at the map is mostly one into memory; if one
//! has taken so long that it must have waited for the disk, the next ones are done by threads of the pool
//! ([`Looks`]).

use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use loligo_lane::{Action, Lane, RunEnd};
use loligo_lockstat::{Class, Mutex};
use loligo_store::{BatchListeners, guarded};

use super::backend::{BackendFile, Buffer, Parts, Ring, Wake};

/// Held to take out all that is asked for; asking takes no lock.
static READER: Class = Class::new("store.reader");
static READER_THREAD: Class = Class::new("store.reader_thread");

/// What waits, at most; the pool does what finds no place. Requests are bounded by whoever asks.
const WAITING_MAX: usize = 64 << 10;
/// Taken before reads are given to the kernel: a fraction of a millisecond.
const BATCH: usize = 64;

/// A read of the data file.
pub(super) trait Reading: Send {
    /// A buffer for it.
    fn buffer(&self) -> Buffer;
    /// What is to be read into the buffer.
    fn parts(&self) -> Parts;
    /// Goes on with what was read, or with the part that could not be.
    fn done(self: Box<Self>, buffer: Buffer, read: Result<(), (usize, io::Error)>);
}

/// What the reader does.
pub(super) enum Job {
    /// Hardly ever waits for the disk.
    Quick(Box<dyn FnOnce() + Send>),
    Read(Box<dyn Reading>),
}

impl Job {
    /// Does it in this thread, which waits for the disk.
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

/// The reader, from outside.
pub(super) struct Reader {
    shared: Arc<Shared>,
    wake: Wake,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    lane: Lane<Job>,
    file: Arc<dyn BackendFile>,
    batches: Arc<BatchListeners>,
    closing: AtomicBool,
}

impl Reader {
    /// Starts the thread; none if the kernel offers nothing that would make it better than the pool. `batches` are told of answers that it gives
    /// together.
    pub(super) fn start(
        file: Arc<dyn BackendFile>,
        batches: Arc<BatchListeners>,
        panicked: impl FnOnce(String) + Send + 'static,
    ) -> io::Result<Option<Self>> {
        let lane = Lane::new(&READER, WAITING_MAX);
        let shared = Arc::new(Shared { lane, file, batches, closing: AtomicBool::new(false) });
        let of_thread = Arc::clone(&shared);
        let (tell, told) = mpsc::channel();
        // The ring is made by the thread that uses it: newer kernels then need no locks for it.
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
                // Who waits for what was asked for hears that it will not come.
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

    /// Has a job done, or gives it back.
    pub(super) fn push(&self, job: Job) -> Result<(), Job> {
        match self.shared.lane.push(job) {
            Ok(Action::Submit) => self.wake.wake(),
            Ok(Action::Nothing) => {}
            Err(refused) => return Err(refused.into_inner()),
        }
        Ok(())
    }

    /// Ends the thread when the jobs that there are are done; later ones are given back.
    pub(super) fn close(&self) {
        // Release: with the jobs that were pushed before.
        self.shared.closing.store(true, Ordering::Release);
        self.wake.wake();
        let thread = self.thread.lock().take();
        // Whoever closes the store may be a callback of a job.
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
            // Acquire: what was pushed before is in the lane.
            let closing = self.closing.load(Ordering::Acquire);
            if closing && ring.is_idle() && self.lane.is_empty() {
                break;
            }
            let wait = end == RunEnd::Idle && !(closing && ring.is_idle());
            if ring.enter(wait).is_err() {
                // Not known to happen. The pool does what comes later.
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

    /// Does what is there and is quick; reads are left to the ring.
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

/// Whether looks at the map are quick.
#[derive(Debug, Default)]
pub(super) struct Looks {
    /// So many more are done by the pool.
    apart: AtomicU32,
}

/// A look that takes longer has waited for the disk, or its thread lost the processor.
const QUICK: Duration = Duration::from_micros(150);
/// Looks that are done by the pool after one that was not quick: few, as it may have been chance;
const APART_FIRST: u32 = 8;
/// after another one among these, many.
const APART: u32 = 256;

impl Looks {
    /// Whether the next one is to be done by the reader.
    pub(super) fn next_is_quick(&self) -> bool {
        // Relaxed, and not exact: it is a guess.
        let apart = self.apart.load(Ordering::Relaxed);
        self.apart.store(apart.saturating_sub(1), Ordering::Relaxed);
        apart == 0
    }

    /// Has a look.
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
