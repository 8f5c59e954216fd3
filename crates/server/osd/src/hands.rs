//! Threads for long work, so that the threads that read sockets do not do it.
//!
//! A thread that serves connections executes requests where they arrive, which is fastest as long as
//! each takes microseconds. Longer work runs on the threads of this pool, and so does work caused by a
//! thread of a socket or of the store that has other duties. There are at most half as many threads as
//! processors, each started when first needed.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};

use loligo_lockstat::{Class, Mutex};
use tokio::runtime::Handle;

/// Held to add or to take out one job.
static HANDS: Class = Class::new("osd.hands");

/// The threads' name.
const NAME: &str = "loligo-hands";
/// Maximum number of threads.
const THREADS_MAX: usize = 8;

/// The handler called when a thread of the OSD has panicked, so that its work may not be done any more.
pub(crate) type OnPanic = Arc<dyn Fn(String) + Send + Sync>;

type Job = Box<dyn FnOnce() + Send>;

/// A pool of threads. The callers bound the number of jobs: one for each placement group or request.
pub(crate) struct Hands {
    state: Arc<Mutex<State>>,
    /// The runtime on which light work continues.
    runtime: OnceLock<Handle>,
    on_panic: Arc<OnceLock<OnPanic>>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    idle: Vec<Thread>,
    threads: usize,
    closed: bool,
}

impl Default for Hands {
    fn default() -> Self {
        let state = Arc::new(Mutex::new(&HANDS, State::default()));
        Self { state, runtime: OnceLock::new(), on_panic: Arc::default() }
    }
}

impl Hands {
    /// The runtime whose threads do light work, once it is known.
    pub(crate) fn runtime(&self) -> Option<Handle> {
        self.runtime.get().cloned()
    }

    /// Stores the runtime; only the first call has an effect.
    pub(crate) fn learn(&self, runtime: &Handle) {
        let _ = self.runtime.get_or_init(|| runtime.clone());
    }

    /// Sets the handler called when a job has panicked; the thread then continues with other jobs.
    pub(crate) fn on_panic(&self, heard: OnPanic) {
        let _ = self.on_panic.set(heard);
    }

    /// Submits a job. Never blocks, unless no thread can be started.
    pub(crate) fn give(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.state.lock();
        state.jobs.push_back(Box::new(job));
        let idle = state.idle.pop();
        let is_more = idle.is_none() && state.threads < threads_max();
        state.threads += usize::from(is_more);
        drop(state);
        match idle {
            Some(thread) => thread.unpark(),
            None if is_more => self.add_thread(),
            None => {}
        }
    }

    fn add_thread(&self) {
        let (shared, on_panic) = (Arc::clone(&self.state), Arc::clone(&self.on_panic));
        let work = move || work(&shared, &on_panic);
        let spawned = thread::Builder::new().name(NAME.to_owned()).spawn(work);
        if spawned.is_ok() {
            return;
        }
        let mut state = self.state.lock();
        state.threads -= 1;
        // If there is no thread at all, the caller runs the jobs.
        let jobs = if state.threads == 0 { std::mem::take(&mut state.jobs) } else { VecDeque::new() };
        drop(state);
        jobs.into_iter().for_each(|job| job());
    }
}

impl Drop for Hands {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        state.closed = true;
        let (idle, jobs) = (std::mem::take(&mut state.idle), std::mem::take(&mut state.jobs));
        drop(state);
        idle.iter().for_each(Thread::unpark);
        drop(jobs);
    }
}

fn threads_max() -> usize {
    let processors = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (processors / 2).clamp(1, THREADS_MAX)
}

fn work(shared: &Mutex<State>, on_panic: &OnceLock<OnPanic>) {
    let panicked = |why: String| on_panic.get().into_iter().for_each(|heard| heard(why.clone()));
    let me = thread::current();
    loop {
        let mut state = shared.lock();
        let job = state.jobs.pop_front();
        let is_over = job.is_none() && state.closed;
        if job.is_none() && !is_over && state.idle.iter().all(|thread| thread.id() != me.id()) {
            state.idle.push(me.clone());
        }
        drop(state);
        match job {
            Some(job) => loligo_store::guarded(NAME, job, panicked),
            None if is_over => return,
            None => thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_panic_of_a_job_is_heard_of_and_the_next_one_is_done() {
        let hands = Hands::default();
        let (tell, told) = channel();
        let of_panic = tell.clone();
        hands.on_panic(Arc::new(move |why| of_panic.send(why).expect("the test waits")));
        // More jobs than threads.
        for _ in 0..=THREADS_MAX {
            hands.give(|| panic!("no job"));
        }
        hands.give(move || tell.send("done".to_owned()).expect("the test waits"));
        let heard: Vec<String> = told.iter().take(THREADS_MAX + 2).collect();
        let of_panics = heard.iter().filter(|why| why.contains("loligo-hands") && why.contains("no job"));
        assert_eq!(of_panics.count(), THREADS_MAX + 1, "{heard:?}");
        assert!(heard.contains(&"done".to_owned()), "{heard:?}");
    }

    #[test]
    fn jobs_are_done_by_few_threads_and_those_end() {
        let hands = Hands::default();
        let (tell, told) = channel();
        for number in 0..100 {
            let tell = tell.clone();
            hands.give(move || tell.send((number, thread::current().id())).expect("the test waits"));
        }
        drop(tell);
        let mut done: Vec<_> = told.iter().collect();
        done.sort_by_key(|(number, _)| *number);
        assert!(done.iter().map(|(number, _)| *number).eq(0..100));
        let mut threads: Vec<_> = done.iter().map(|(_, thread)| *thread).collect();
        threads.dedup();
        assert!(threads.iter().all(|thread| *thread != thread::current().id()));
        let state = Arc::downgrade(&hands.state);
        drop(hands);
        while state.strong_count() > 0 {
            thread::yield_now();
        }
    }
}
