//! Results that may come later.

use std::sync::Arc;

use loligo_lockstat::{Class, Mutex};

use crate::StoreError;

static LATER: Class = Class::new("store.later");

/// The result of a read: available now, or being fetched.
#[must_use]
#[derive(Debug)]
pub enum Fetch<T> {
    /// The result.
    Now(T),
    /// The result comes later.
    Later(Later<T>),
}

impl<T> Fetch<T> {
    /// Returns the result if it is available.
    pub fn now(self) -> Option<T> {
        match self {
            Self::Now(value) => Some(value),
            Self::Later(_) => None,
        }
    }
}

/// A result that is being fetched.
#[must_use]
pub struct Later<T>(Arc<Cell<T>>);

/// The other end of a [`Later`]. If it is dropped without [`complete`](Self::complete), the result is
/// [`StoreError::Stopped`].
pub struct Completer<T>(Option<Arc<Cell<T>>>);

type Callback<T> = Box<dyn FnOnce(Result<T, StoreError>) + Send>;
type Cell<T> = Mutex<State<T>>;

enum State<T> {
    /// Neither the result nor a callback is there yet.
    Empty,
    Answered(Result<T, StoreError>),
    Awaited(Callback<T>),
    Done,
}

impl<T: Send + 'static> Later<T> {
    /// Creates a pending result and the end that completes it.
    pub fn new() -> (Self, Completer<T>) {
        let cell = Arc::new(Mutex::new(&LATER, State::Empty));
        (Self(cell.clone()), Completer(Some(cell)))
    }

    /// Calls `callback` with the result, once: immediately if the result is there already, otherwise in
    /// the thread that completes it.
    pub fn then(self, callback: impl FnOnce(Result<T, StoreError>) + Send + 'static) {
        let mut state = self.0.lock();
        match std::mem::replace(&mut *state, State::Done) {
            State::Answered(answer) => {
                drop(state);
                callback(answer);
            }
            _ => *state = State::Awaited(Box::new(callback)),
        }
    }
}

impl<T> Completer<T> {
    /// Delivers the result. Calls the callback in this thread if one is registered already.
    pub fn complete(mut self, answer: Result<T, StoreError>) {
        if let Some(cell) = self.0.take() {
            answer_cell(&cell, answer);
        }
    }
}

impl<T> Drop for Completer<T> {
    fn drop(&mut self) {
        if let Some(cell) = self.0.take() {
            answer_cell(&cell, Err(StoreError::Stopped));
        }
    }
}

fn answer_cell<T>(cell: &Cell<T>, answer: Result<T, StoreError>) {
    let mut state = cell.lock();
    match std::mem::replace(&mut *state, State::Done) {
        State::Awaited(callback) => {
            drop(state);
            callback(answer);
        }
        _ => *state = State::Answered(answer),
    }
}

impl<T> std::fmt::Debug for Later<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Later")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn an_answer_arrives_whoever_is_first() {
        let (tx, rx) = mpsc::channel();
        let (later, completer) = Later::new();
        completer.complete(Ok(1));
        let early = tx.clone();
        later.then(move |v| early.send(v).expect("receiver lives"));
        let (later, completer) = Later::new();
        later.then(move |v| tx.send(v).expect("receiver lives"));
        completer.complete(Ok(2));
        assert_eq!(rx.iter().collect::<Vec<_>>(), [Ok(1), Ok(2)]);
    }

    #[test]
    fn a_dropped_completer_says_stopped() {
        let (tx, rx) = mpsc::channel();
        let (later, completer) = Later::<()>::new();
        later.then(move |v| tx.send(v).expect("receiver lives"));
        drop(completer);
        assert_eq!(rx.recv(), Ok(Err(StoreError::Stopped)));
    }
}
