//! Signals between the threads of a store: work is waiting, the store is being closed, the store has
//! stopped.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

use loligo_lockstat::{Class, Mutex};
use loligo_store::{StoreError, guarded};

static ON_STOP: Class = Class::new("store.on_stop");

type OnStop = Box<dyn FnOnce(&StoreError) + Send>;

pub(super) struct Signals {
    pub(super) committer: OnceLock<Thread>,
    pub(super) checkpointer: OnceLock<Thread>,
    pub(super) ahead: OnceLock<Thread>,
    /// Whether a checkpoint is wanted now.
    pub(super) checkpoint_wanted: AtomicBool,
    /// Whether the store is being closed: nothing is submitted any more.
    pub(super) closing: AtomicBool,
    /// Whether the store is being closed and the committer has ended.
    pub(super) drained: AtomicBool,
    stopped: OnceLock<String>,
    on_stop: Mutex<Vec<OnStop>>,
}

impl Signals {
    pub(super) fn new() -> Self {
        Self {
            committer: OnceLock::new(),
            checkpointer: OnceLock::new(),
            ahead: OnceLock::new(),
            checkpoint_wanted: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            drained: AtomicBool::new(false),
            stopped: OnceLock::new(),
            on_stop: Mutex::new(&ON_STOP, Vec::new()),
        }
    }

    /// Returns an error if the store has stopped.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        if self.stopped.get().is_some() { Err(StoreError::Stopped) } else { Ok(()) }
    }

    /// Returns why the store has stopped, if it has.
    pub(super) fn why_stopped(&self) -> Option<&str> {
        self.stopped.get().map(String::as_str)
    }

    /// Marks the store as stopped; returns whether this call was the first to do so.
    pub(super) fn set_stopped(&self, why: String) -> bool {
        self.stopped.set(why).is_ok()
    }

    /// Registers `hook` to be called when the store stops; calls it now if the store has stopped.
    pub(super) fn on_stop(&self, hook: OnStop) {
        let mut hooks = self.on_stop.lock();
        if self.stopped.get().is_none() {
            hooks.push(hook);
            return;
        }
        drop(hooks);
        hook(&StoreError::Stopped);
    }

    /// Calls all registered hooks.
    pub(super) fn call_on_stop(&self) {
        let hooks = std::mem::take(&mut *self.on_stop.lock());
        for hook in hooks {
            // A hook that panics must not keep the others from being called.
            guarded("that stops a store", || hook(&StoreError::Stopped), |_| ());
        }
    }

    /// Requests a checkpoint.
    pub(super) fn want_checkpoint(&self) {
        // Release: the checkpointer sees the state that made it necessary.
        if !self.checkpoint_wanted.swap(true, Ordering::Release)
            && let Some(thread) = self.checkpointer.get()
        {
            thread.unpark();
        }
    }

    /// Wakes all threads that may wait for another thread's work.
    pub(super) fn wake(&self) {
        [&self.committer, &self.checkpointer, &self.ahead]
            .into_iter()
            .filter_map(OnceLock::get)
            .for_each(Thread::unpark);
    }
}
