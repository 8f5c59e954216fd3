//! Threads that read from the disk, so that no other thread has to wait for it.
//!
//! A job that is pushed by a job goes to the same thread, which runs it next: after an object was looked
//! up, it is read without waking another thread.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle, Thread};

use loligo_lockstat::{Class, Mutex};
use loligo_store::guarded;

/// Held to add or to remove one job.
static POOL: Class = Class::new("store.read_pool");

type Job = Box<dyn FnOnce() + Send>;

/// A thread pool. The callers bound the number of jobs: one for each client request.
#[derive(Clone)]
pub(super) struct Pool(Arc<Mutex<State>>, Arc<OnceLock<OnPanic>>);

/// Is called when a job has panicked.
type OnPanic = Box<dyn Fn(String) + Send + Sync>;

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    idle: Vec<Thread>,
    threads: Vec<JoinHandle<()>>,
    threads_max: usize,
    closed: bool,
}

/// The state of a pool's thread.
struct Worker {
    pool: Pool,
    /// The job to run next.
    next: Option<Job>,
}

thread_local! {
    static WORKER: RefCell<Option<Worker>> = const { RefCell::new(None) };
}

impl Pool {
    /// Starts one thread; others, up to `threads_max`, are started when needed.
    pub(super) fn start(threads_max: usize) -> io::Result<Self> {
        let state = Mutex::new(&POOL, State { threads_max, ..State::default() });
        let pool = Self(Arc::new(state), Arc::default());
        pool.add_thread(0)?;
        Ok(pool)
    }

    /// Registers the callback for jobs that panic; the threads continue with other jobs.
    pub(super) fn on_panic(&self, heard: OnPanic) {
        let _ = self.1.set(heard);
    }

    fn run(&self, job: Job) {
        guarded("loligo-pool", job, |why| self.1.get().into_iter().for_each(|heard| heard(why.clone())));
    }

    fn add_thread(&self, number: usize) -> io::Result<()> {
        let pool = self.clone();
        let thread =
            thread::Builder::new().name(format!("loligo-pool-{number}")).spawn(move || pool.work())?;
        self.0.lock().threads.push(thread);
        Ok(())
    }

    /// Queues a job; after [`close`](Self::close) the job is dropped.
    pub(super) fn push(&self, job: impl FnOnce() + Send + 'static) {
        if let Some(job) = self.keep(Box::new(job)) {
            self.share(job);
        }
    }

    /// In a thread of this pool, keeps the job to be run next and returns the job kept before, for other
    /// threads.
    fn keep(&self, job: Job) -> Option<Job> {
        WORKER.with_borrow_mut(|worker| match worker {
            Some(worker) if Arc::ptr_eq(&worker.pool.0, &self.0) => worker.next.replace(job),
            _ => Some(job),
        })
    }

    fn share(&self, job: Job) {
        let mut state = self.0.lock();
        if state.closed {
            drop(state);
            return;
        }
        state.jobs.push_back(job);
        let idle = state.idle.pop();
        let threads = state.threads.len();
        let more = idle.is_none() && threads < state.threads_max;
        drop(state);
        match idle {
            Some(thread) => thread.unpark(),
            // If no thread can be added, the existing threads run the job.
            None if more => drop(self.add_thread(threads)),
            None => {}
        }
    }

    /// Ends the threads when the queued jobs are done.
    pub(super) fn close(&self) {
        let mut state = self.0.lock();
        state.closed = true;
        let idle = std::mem::take(&mut state.idle);
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        idle.iter().for_each(Thread::unpark);
        let me = thread::current().id();
        threads
            .into_iter()
            .filter(|thread| thread.thread().id() != me)
            .for_each(|thread| drop(thread.join()));
    }

    fn work(&self) {
        WORKER.set(Some(Worker { pool: self.clone(), next: None }));
        let me = thread::current();
        loop {
            let own = WORKER.with_borrow_mut(|worker| worker.as_mut().and_then(|worker| worker.next.take()));
            if let Some(job) = own {
                self.run(job);
                continue;
            }
            let mut state = self.0.lock();
            let job = state.jobs.pop_front();
            let done = job.is_none() && state.closed;
            if job.is_none() && !done && state.idle.iter().all(|thread| thread.id() != me.id()) {
                state.idle.push(me.clone());
            }
            drop(state);
            match job {
                Some(job) => self.run(job),
                None if done => return,
                None => thread::park(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn every_job_is_done() {
        let pool = Pool::start(3).expect("threads");
        let (done, finished) = mpsc::channel();
        for n in 0..1000 {
            let (done, of_job) = (done.clone(), pool.clone());
            pool.push(move || {
                let more = done.clone();
                of_job.push(move || more.send(1000 + n).expect("the test waits"));
                done.send(n).expect("the test waits");
            });
        }
        drop(done);
        let mut numbers: Vec<i32> = finished.iter().take(2000).collect();
        pool.close();
        pool.push(|| panic!("closed"));
        numbers.sort_unstable();
        assert_eq!(numbers, (0..2000).collect::<Vec<_>>());
    }

    #[test]
    fn jobs_that_wait_for_each_other_have_threads_each() {
        let pool = Pool::start(3).expect("threads");
        let gate = Arc::new(std::sync::Barrier::new(3));
        let (done, finished) = mpsc::channel();
        for _ in 0..3 {
            let (gate, done) = (Arc::clone(&gate), done.clone());
            pool.push(move || {
                let is_leader = gate.wait().is_leader();
                done.send(is_leader).expect("the test waits");
            });
        }
        let leaders = finished.iter().take(3).filter(|is_leader| *is_leader).count();
        assert_eq!(leaders, 1, "all three were at the gate together");
        pool.close();
    }
}
