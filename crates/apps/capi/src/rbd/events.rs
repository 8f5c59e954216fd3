//! Completions that a program collects itself, told of through a file descriptor.

use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use loligo_lockstat::{Class, Mutex};

use crate::border::Lent;
use crate::completion::{Completion, Told};

static EVENTS: Class = Class::new("capi.events");

/// What the descriptor is: each event is a byte or a count of one.
pub(super) const PIPE: c_int = 1;
pub(super) const EVENTFD: c_int = 2;

/// The completions of an image that were not collected yet.
pub(super) struct Events {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    descriptor: Option<(c_int, c_int)>,
    /// The program's references: collecting an event does not release it.
    waiting: VecDeque<Lent<c_void>>,
}

impl Events {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(&EVENTS, State::default()) })
    }

    /// Has a descriptor of a kind told from now on.
    pub(super) fn tell_by(&self, descriptor: c_int, kind: c_int) {
        self.state.lock().descriptor = Some((descriptor, kind));
    }

    /// Takes up to `room` completions.
    pub(super) fn take(&self, room: usize) -> Vec<Lent<c_void>> {
        let mut state = self.state.lock();
        let count = state.waiting.len().min(room);
        state.waiting.drain(..count).collect()
    }

    /// Returns what tells of the completion when its callback has returned, if the program wants it.
    pub(super) fn teller(self: &Arc<Self>) -> Option<Told> {
        self.state.lock().descriptor?;
        let events = Arc::clone(self);
        Some(Box::new(move |completion: Arc<Completion>| events.tell(&completion)))
    }

    fn tell(&self, completion: &Arc<Completion>) {
        let descriptor = {
            let mut state = self.state.lock();
            state.waiting.push_back(Lent(Arc::as_ptr(completion).cast_mut().cast()));
            state.descriptor
        };
        let (one, byte) = (1u64, b'i');
        let (to, event, len): (_, *const c_void, _) = match descriptor {
            Some((to, EVENTFD)) => (to, (&raw const one).cast(), size_of::<u64>()),
            Some((to, _)) => (to, (&raw const byte).cast(), 1),
            None => return,
        };
        // A full pipe has woken the reader already.
        // SAFETY: the event is as long as is said; the descriptor is the program's.
        unsafe { libc::write(to, event, len) };
    }
}
