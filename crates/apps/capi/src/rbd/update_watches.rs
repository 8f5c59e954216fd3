//! The watches of an image's header, by their handles.

use std::collections::HashMap;

use loligo_lockstat::{Class, Mutex};
use tokio::task::JoinHandle;

static UPDATES: Class = Class::new("capi.updates");

/// The callbacks of an image, by handle.
pub(super) struct UpdateWatches {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    tasks: HashMap<u64, JoinHandle<()>>,
}

impl UpdateWatches {
    pub(super) fn new() -> Self {
        Self { state: Mutex::new(&UPDATES, State::default()) }
    }

    pub(super) fn add(&self, task: JoinHandle<()>) -> u64 {
        let mut state = self.state.lock();
        state.next += 1;
        let handle = state.next;
        state.tasks.insert(handle, task);
        handle
    }

    pub(super) fn remove(&self, handle: u64) -> Option<JoinHandle<()>> {
        self.state.lock().tasks.remove(&handle)
    }

    /// Ends all of them.
    pub(super) fn end(&self) {
        let tasks = std::mem::take(&mut self.state.lock().tasks);
        tasks.into_values().for_each(|task| task.abort());
    }
}
