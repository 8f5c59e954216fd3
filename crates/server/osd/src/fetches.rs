//! What a request has had to wait for.
//!
//! A store may answer a read later. Then the execution ends without having done anything, and is repeated
//! from the start when the answer is there. Reads are told apart by their order: all that a request reads is
//! of one view of its object, or the object is kept from others meanwhile (`slot.rs`), so each repetition
//! asks the same.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

use loligo_store::{Fetch, ObjectView, StoreError};

use crate::errno::Errno;

/// An answer of whatever type.
type Answer = Box<dyn Any + Send>;
/// Told the answer.
type Callback = Box<dyn FnOnce(Answer) + Send>;
/// Has a callback told the answer that is being fetched.
type Await = Box<dyn FnOnce(Callback) + Send>;

/// An object, and the number of the first read behind those that found it.
type Found = (Arc<dyn ObjectView>, u32);

/// The answers that a request got late, and the one it waits for.
#[derive(Default)]
pub(crate) struct Fetches {
    /// By the reads' numbers. Few, mostly none.
    answers: RefCell<Vec<(u32, Answer)>>,
    /// The number of the next read.
    next: Cell<u32>,
    waits: RefCell<Option<(u32, Await)>>,
    /// The object as a read of it has found it: it goes on with that one, whatever is written meanwhile.
    view: RefCell<Option<Found>>,
}

impl Fetches {
    /// Before each execution.
    pub(crate) fn start(&self) {
        self.next.set(0);
    }

    /// The answer to a read, if it is there. Else the request waits, and the error means nothing.
    pub(crate) fn now<T: Clone + Send + 'static>(&self, ask: impl FnOnce() -> Fetch<T>) -> Result<T, Errno> {
        let number = self.next.replace(self.next.get() + 1);
        if let Some((_, answer)) = self.answers.borrow().iter().find(|(n, _)| *n == number) {
            let answer = answer.downcast_ref::<Result<T, StoreError>>();
            return answer.cloned().unwrap_or(Err(StoreError::Stopped)).map_err(Errno::from);
        }
        if self.waiting() {
            return Err(Errno::EIO); // one thing at a time; whoever asks has not noticed yet
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

    /// The same for what is not kept from others: the answer is remembered also if it is there at once.
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

    /// Whether the execution has ended because something has to be waited for.
    pub(crate) fn waiting(&self) -> bool {
        self.waits.borrow().is_some()
    }

    /// Ends the execution, to be repeated at once.
    pub(crate) fn pause(&self) {
        let mut waits = self.waits.borrow_mut();
        // The number is no read's.
        waits.get_or_insert_with(|| (u32::MAX, Box::new(|callback: Callback| callback(Box::new(())))));
    }

    /// What has to be waited for.
    pub(crate) fn take_wait(&self) -> Option<(u32, impl FnOnce(Callback) + Send + use<>)> {
        self.waits.borrow_mut().take()
    }

    /// Takes an answer that was waited for.
    pub(crate) fn answered(&self, number: u32, answer: Answer) {
        self.answers.borrow_mut().push((number, answer));
    }

    /// Forgets an answer, which is asked for again.
    pub(crate) fn forget(&self, number: u32) {
        self.answers.borrow_mut().retain(|(n, _)| *n != number);
    }

    /// Whether a read has the view that it goes on with.
    pub(crate) fn has_view(&self) -> bool {
        self.view.borrow().is_some()
    }

    /// The object that a read goes on with, if it has found it before.
    pub(crate) fn resume(&self) -> Option<Arc<dyn ObjectView>> {
        let (view, next) = self.view.borrow().clone()?;
        self.next.set(next);
        Some(view)
    }

    /// The number of the next read.
    pub(crate) fn mark(&self) -> u32 {
        self.next.get()
    }

    /// Has a read go on with this object when it is executed again; `mark` was the next read's number when it
    /// was found.
    pub(crate) fn keep_view(&self, view: &Arc<dyn ObjectView>, mark: u32) {
        *self.view.borrow_mut() = Some((Arc::clone(view), mark));
    }
}
