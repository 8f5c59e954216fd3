//! Threads that read from the disk, so that nobody else has to wait for it.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle, Thread};

use loligo_lockstat::{Class, Mutex};

/// Held to add or to take out one job.
static POOL: Class = Class::new("store.read_pool");

type Job = Box<dyn FnOnce() + Send>;

/// A pool. Jobs are bounded by whoever asks: one for each of a client's requests.
#[derive(Clone)]
pub(super) struct Pool(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    idle: Vec<Thread>,
    closed: bool,
}

impl Pool {
    /// Starts the threads.
    pub(super) fn start(threads: usize) -> io::Result<(Self, Vec<JoinHandle<()>>)> {
        let pool = Self(Arc::new(Mutex::new(&POOL, State::default())));
        let start = |n| {
            let pool = pool.clone();
            thread::Builder::new().name(format!("loligo-read-{n}")).spawn(move || pool.work())
        };
        let threads = (0..threads).map(start).collect::<Result<_, _>>()?;
        Ok((pool, threads))
    }

    /// Has a job done; after [`close`](Self::close) it is dropped.
    pub(super) fn push(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.0.lock();
        if state.closed {
            return;
        }
        state.jobs.push_back(Box::new(job));
        let idle = state.idle.pop();
        drop(state);
        if let Some(thread) = idle {
            thread.unpark();
        }
    }

    /// Ends the threads when the jobs that there are are done.
    pub(super) fn close(&self) {
        let mut state = self.0.lock();
        state.closed = true;
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        idle.iter().for_each(Thread::unpark);
    }

    fn work(&self) {
        let me = thread::current();
        loop {
            let mut state = self.0.lock();
            let job = state.jobs.pop_front();
            let done = job.is_none() && state.closed;
            if job.is_none() && !done && state.idle.iter().all(|thread| thread.id() != me.id()) {
                state.idle.push(me.clone());
            }
            drop(state);
            match job {
                Some(job) => job(),
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
        let (pool, threads) = Pool::start(3).expect("threads");
        let (done, finished) = mpsc::channel();
        for n in 0..1000 {
            let done = done.clone();
            pool.push(move || done.send(n).expect("the test waits"));
        }
        pool.close();
        pool.push(|| panic!("closed"));
        threads.into_iter().for_each(|thread| thread.join().expect("no job panics"));
        drop(done);
        let mut numbers: Vec<i32> = finished.iter().collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
    }
}
