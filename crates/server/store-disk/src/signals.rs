//! What the threads of a store tell each other: that there is work, that the store is being closed, that it has
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
    /// Somebody wants a checkpoint now.
    pub(super) checkpoint_wanted: AtomicBool,
    /// The store is being closed: nothing is submitted any more.
    pub(super) closing: AtomicBool,
    /// And the committer has ended.
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

    /// An error if the store has stopped.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        if self.stopped.get().is_some() { Err(StoreError::Stopped) } else { Ok(()) }
    }

    /// Why the store has stopped, if it has.
    pub(super) fn why_stopped(&self) -> Option<&str> {
        self.stopped.get().map(String::as_str)
    }

    /// Says that the store has stopped; whether this call was the first to say so.
    pub(super) fn set_stopped(&self, why: String) -> bool {
        self.stopped.set(why).is_ok()
    }

    /// Has `hook` called when the store stops; now, if it has.
    pub(super) fn on_stop(&self, hook: OnStop) {
        let mut hooks = self.on_stop.lock();
        if self.stopped.get().is_none() {
            hooks.push(hook);
            return;
        }
        drop(hooks);
        hook(&StoreError::Stopped);
    }

    /// Calls all that wait for the store's stop.
    pub(super) fn call_on_stop(&self) {
        let hooks = std::mem::take(&mut *self.on_stop.lock());
        for hook in hooks {
            // One that panics keeps neither the others from hearing of it nor those who wait.
            guarded("that stops a store", || hook(&StoreError::Stopped), |_| ());
        }
    }

    /// Asks for a checkpoint.
    pub(super) fn want_checkpoint(&self) {
        // Release: the checkpointer sees what made it necessary.
        if !self.checkpoint_wanted.swap(true, Ordering::Release)
            && let Some(thread) = self.checkpointer.get()
        {
            thread.unpark();
        }
    }

    /// Wakes all threads that may wait for another one's work.
    pub(super) fn wake(&self) {
        [&self.committer, &self.checkpointer, &self.ahead]
            .into_iter()
            .filter_map(OnceLock::get)
            .for_each(Thread::unpark);
    }
}
