//! Threads for callbacks, and the strands that run on them.
//!
//! Each handle has a [`Strand`], so its callbacks never run at the same time and come in the order in which
//! the operations completed. Callbacks may call the library and may block: they run on no thread of the
//! runtime.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;

use loligo_flight::Driver;
use loligo_lockstat::{Class, Mutex};

use crate::border;
use crate::runtime::{block_signals, runtime, wait};

static STRAND: Class = Class::new("capi.strand");
static POOL: Class = Class::new("capi.pool");

/// Threads for callbacks that a process has; more are started only while all of these are held up in
/// callbacks that block.
const CALLBACK_THREADS: usize = 2;
/// A bound for them, so that callbacks that never return cannot exhaust the machine.
const CALLBACK_THREADS_MAX: usize = 256;
/// How long a strand waits for a thread before another one is started.
const HELD_UP: Duration = Duration::from_millis(20);
/// Callbacks of one strand that run before other strands have their turn.
const TURN: usize = 256;
/// As C programs' threads have it: callbacks run their code.
const STACK_BYTES: usize = 8 << 20;

/// Something to run on a strand, usually a callback of the program.
type Job = Box<dyn FnOnce() + Send>;

/// Jobs that run one after another, in order, on the threads for callbacks.
pub(crate) struct Strand {
    queue: Mutex<Queue>,
    /// The operations whose callbacks run here.
    pub(crate) driver: Arc<Driver>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Whether a thread runs the jobs, or will.
    taken: bool,
}

impl Strand {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            queue: Mutex::new(&STRAND, Queue::default()),
            driver: Driver::new(runtime().handle().clone()),
        })
    }

    /// Adds a job.
    pub(crate) fn push(self: &Arc<Self>, job: impl FnOnce() + Send + 'static) {
        let mut queue = self.queue.lock();
        queue.jobs.push_back(Box::new(job));
        let was_taken = std::mem::replace(&mut queue.taken, true);
        drop(queue);
        if !was_taken {
            pool().submit(Arc::clone(self));
        }
    }

    /// Adds a job; what this returns waits until the job has run.
    pub(crate) fn push_and_wait<J: FnOnce() + Send + 'static>(
        self: &Arc<Self>,
        job: J,
    ) -> impl Future<Output = ()> + Send + use<J> {
        let (done, reached) = tokio::sync::oneshot::channel::<()>();
        self.push(move || {
            job();
            drop(done);
        });
        async move {
            let _ = reached.await;
        }
    }

    /// Waits until all jobs that were added before have run. Returns at once on one of the strand's own
    /// jobs, which cannot wait for itself.
    pub(crate) fn flush(self: &Arc<Self>) {
        if CURRENT.with(|current| current.get() == Arc::as_ptr(self)) {
            return;
        }
        wait(self.push_and_wait(|| {}));
    }

    /// Runs jobs for one turn; returns whether some remain.
    fn run(self: &Arc<Self>) -> bool {
        CURRENT.with(|current| current.set(Arc::as_ptr(self)));
        let mut left = TURN;
        let remain = loop {
            let mut queue = self.queue.lock();
            if left == 0 {
                break true;
            }
            let Some(job) = queue.jobs.pop_front() else {
                queue.taken = false;
                break false;
            };
            drop(queue);
            left -= 1;
            border::guard("a callback", job);
        };
        CURRENT.with(|current| current.set(std::ptr::null()));
        remain
    }
}

thread_local! {
    /// The strand whose job runs on this thread.
    static CURRENT: std::cell::Cell<*const Strand> = const { std::cell::Cell::new(std::ptr::null()) };
}

/// The threads that run strands.
struct Pool {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Strands that wait for a thread.
    ready: VecDeque<Arc<Strand>>,
    /// Threads that wait for a strand.
    idle: Vec<Thread>,
    threads: usize,
    /// How many strands were given a thread: tells whether anything moves.
    served: u64,
    watched: bool,
}

fn pool() -> &'static Pool {
    static POOL_OF_ALL: OnceLock<Pool> = OnceLock::new();
    POOL_OF_ALL.get_or_init(|| Pool { state: Mutex::new(&POOL, State::default()) })
}

impl Pool {
    fn submit(&'static self, strand: Arc<Strand>) {
        let mut state = self.state.lock();
        state.ready.push_back(strand);
        if let Some(thread) = state.idle.pop() {
            drop(state);
            thread.unpark();
        } else if state.threads < CALLBACK_THREADS {
            state.threads += 1;
            drop(state);
            self.start_thread();
        } else if !std::mem::replace(&mut state.watched, true) {
            drop(state);
            runtime().spawn(self.watch());
        }
    }

    fn start_thread(&'static self) {
        let thread = thread::Builder::new().name("loligo-callback".into()).stack_size(STACK_BYTES);
        if thread.spawn(move || self.serve()).is_err() {
            // The watch tries again; the other threads serve meanwhile.
            let mut state = self.state.lock();
            state.threads -= 1;
            let is_watched = std::mem::replace(&mut state.watched, true);
            drop(state);
            if !is_watched {
                runtime().spawn(self.watch());
            }
        }
    }

    /// Starts another thread whenever no strand was served for a while although some wait.
    async fn watch(&'static self) {
        let mut seen = None;
        loop {
            tokio::time::sleep(HELD_UP).await;
            let mut state = self.state.lock();
            if state.ready.is_empty() {
                state.watched = false;
                return;
            }
            let is_held_up = seen.replace(state.served) == Some(state.served);
            if is_held_up && state.threads < CALLBACK_THREADS_MAX {
                state.threads += 1;
                drop(state);
                self.start_thread();
            }
        }
    }

    /// Sleeps until this thread was taken off the list of idle ones; it may also wake up without a cause.
    fn sleep(&self) {
        let me = thread::current().id();
        while self.state.lock().idle.iter().any(|thread| thread.id() == me) {
            thread::park();
        }
    }

    fn serve(&'static self) {
        block_signals();
        loop {
            let mut state = self.state.lock();
            let Some(strand) = state.ready.pop_front() else {
                if state.threads > CALLBACK_THREADS {
                    state.threads -= 1;
                    return;
                }
                state.idle.push(thread::current());
                drop(state);
                self.sleep();
                continue;
            };
            state.served += 1;
            drop(state);
            if strand.run() {
                self.state.lock().ready.push_back(strand);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn jobs_of_a_strand_run_one_at_a_time_and_in_order() {
        let strand = Strand::new();
        let (seen, all) = mpsc::channel();
        let running = Arc::new(AtomicUsize::new(0));
        for number in 0..2000 {
            let (seen, running) = (seen.clone(), Arc::clone(&running));
            strand.push(move || {
                assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0);
                seen.send(number).expect("the test listens");
                running.fetch_sub(1, Ordering::SeqCst);
            });
        }
        strand.flush();
        assert!((0..2000).eq(all.try_iter()));
    }

    #[test]
    fn a_wait_for_a_job_needs_nothing_but_the_job() {
        let (ran, seen) = mpsc::channel();
        // It neither borrows the strand nor ends with it.
        let waiting = {
            let strand = Strand::new();
            let text = String::from("run");
            strand.push_and_wait(move || ran.send(text).unwrap_or_default())
        };
        wait(waiting);
        assert_eq!(seen.try_recv().as_deref(), Ok("run"), "the job has run when the wait ends");
    }

    #[test]
    fn strands_whose_jobs_block_do_not_stop_others() {
        let blocked: Vec<_> = (0..8)
            .map(|_| {
                let (release, held) = mpsc::channel::<()>();
                Strand::new().push(move || held.recv().unwrap_or_default());
                release
            })
            .collect();
        Strand::new().flush();
        drop(blocked);
    }
}
