//! The reads a request has waited for.
//!
//! A store may answer a read later. The execution then ends without any effect and is repeated from the
//! start when the answer is there. Reads are identified by their order: all reads of a request use one
//! view of its object, or the slot keeps other requests from the object meanwhile (`slot.rs`), so each
//! repetition makes the same reads.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

use loligo_store::{Fetch, ObjectView, StoreError};
use loligo_wire::Errno;

use crate::errno;

/// An answer of any type.
type Answer = Box<dyn Any + Send>;
/// Called with the answer.
type Callback = Box<dyn FnOnce(Answer) + Send>;
/// Registers a callback for the answer that is being fetched.
type Await = Box<dyn FnOnce(Callback) + Send>;

/// An object, and the number of the first read after those that found it.
type Found = (Arc<dyn ObjectView>, u32);

/// The answers that arrived later, and the read the request waits for.
#[derive(Default)]
pub(crate) struct Fetches {
    /// By read number. Few, mostly none.
    answers: RefCell<Vec<(u32, Answer)>>,
    /// The number of the next read.
    next: Cell<u32>,
    waits: RefCell<Option<(u32, Await)>>,
    /// The object as first found by a read request. The request continues with this view, whatever is
    /// written meanwhile.
    view: RefCell<Option<Found>>,
}

impl Fetches {
    /// Resets the read numbers; called before each execution.
    pub(crate) fn start(&self) {
        self.next.set(0);
    }

    /// Returns the answer to a read if it is available. Otherwise the request waits, and the error has
    /// no meaning.
    pub(crate) fn now<T: Clone + Send + 'static>(&self, ask: impl FnOnce() -> Fetch<T>) -> Result<T, Errno> {
        let number = self.next.replace(self.next.get() + 1);
        if let Some((_, answer)) = self.answers.borrow().iter().find(|(n, _)| *n == number) {
            let answer = answer.downcast_ref::<Result<T, StoreError>>();
            return answer.cloned().unwrap_or(Err(StoreError::Stopped)).map_err(errno::of_store);
        }
        if self.waiting() {
            return Err(Errno::EIO); // one read at a time; the caller has not checked `waiting` yet
        }
        match ask() {
            Fetch::Now(value) => Ok(value),
            Fetch::Later(later) => {
                let wait = |callback: Callback| later.then(move |answer| callback(Box::new(answer)));
                *self.waits.borrow_mut() = Some((number, Box::new(wait)));
                Err(Errno::EIO)
            }
        }
    }

    /// As `now`, for objects that are not kept from other requests: the answer is remembered
    /// even if it is available at once.
    pub(crate) fn once<T: Clone + Send + 'static>(&self, ask: impl FnOnce() -> Fetch<T>) -> Result<T, Errno> {
        let number = self.next.get();
        let value = self.now(ask)?;
        if !self.answers.borrow().iter().any(|(n, _)| *n == number) {
            self.answered(number, Box::new(Ok::<_, StoreError>(value.clone())));
        }
        Ok(value)
    }

    /// [`Fetches::once`] if `remembered`, else [`Fetches::now`].
    pub(crate) fn once_if<T: Clone + Send + 'static>(
        &self,
        remembered: bool,
        ask: impl FnOnce() -> Fetch<T>,
    ) -> Result<T, Errno> {
        if remembered { self.once(ask) } else { self.now(ask) }
    }

    /// Whether the execution has ended because the request waits for a read.
    pub(crate) fn waiting(&self) -> bool {
        self.waits.borrow().is_some()
    }

    /// Ends the execution; it is to be repeated at once.
    pub(crate) fn pause(&self) {
        let mut waits = self.waits.borrow_mut();
        // No read has this number.
        waits.get_or_insert_with(|| (u32::MAX, Box::new(|callback: Callback| callback(Box::new(())))));
    }

    /// Takes the pending wait: the read's number and the function that registers a callback.
    pub(crate) fn take_wait(&self) -> Option<(u32, impl FnOnce(Callback) + Send + use<>)> {
        self.waits.borrow_mut().take()
    }

    /// Stores an answer that was waited for.
    pub(crate) fn answered(&self, number: u32, answer: Answer) {
        self.answers.borrow_mut().push((number, answer));
    }

    /// Drops an answer, so that the read is made again.
    pub(crate) fn forget(&self, number: u32) {
        self.answers.borrow_mut().retain(|(n, _)| *n != number);
    }

    /// Whether the request has a view it continues with.
    pub(crate) fn has_view(&self) -> bool {
        self.view.borrow().is_some()
    }

    /// Returns the view a read request continues with, if an earlier execution found it.
    pub(crate) fn resume(&self) -> Option<Arc<dyn ObjectView>> {
        let (view, next) = self.view.borrow().clone()?;
        self.next.set(next);
        Some(view)
    }

    /// The number of the next read.
    pub(crate) fn mark(&self) -> u32 {
        self.next.get()
    }

    /// Keeps this view for the next execution of the request; `mark` was the next read's number when the
    /// view was found.
    pub(crate) fn keep_view(&self, view: &Arc<dyn ObjectView>, mark: u32) {
        *self.view.borrow_mut() = Some((Arc::clone(view), mark));
    }
}
