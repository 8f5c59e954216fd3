//! One operation and its steps.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use loligo_lockstat::{Class, Mutex};

use crate::driver::Driver;
use crate::word::Word;

/// Held to take or put back an operation; never while it takes a step.
static OPERATION: Class = Class::new("flight.operation");

/// An operation, and what tells of it.
type Operation = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An operation that was started.
pub struct Flight {
    /// `None` while it takes a step, and once it has ended.
    operation: Mutex<Option<Operation>>,
    word: Word,
    cancelled: AtomicBool,
    driver: Weak<Driver>,
}

impl std::fmt::Debug for Flight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flight").field("word", &self.word).finish_non_exhaustive()
    }
}

impl Flight {
    /// An operation about to take its first step.
    pub(crate) fn new(driver: &Arc<Driver>) -> Arc<Self> {
        Arc::new(Self {
            operation: Mutex::new(&OPERATION, None),
            word: Word::stepping(),
            cancelled: AtomicBool::new(false),
            driver: Arc::downgrade(driver),
        })
    }

    /// Ends the operation where it is: it is dropped soon, and what would tell of it too.
    pub fn cancel(self: &Arc<Self>) {
        self.cancelled.store(true, Ordering::Release);
        self.wake_by_ref();
    }

    /// Takes the next step of an operation from the queue.
    pub(crate) fn go_on(self: &Arc<Self>) {
        self.word.begin();
        let taken = self.operation.lock().take();
        if let Some(operation) = taken
            && !self.cancelled.load(Ordering::Acquire)
        {
            self.step(operation);
        }
    }

    /// Takes a step. A panic ends this operation and no other: the panic hook has told of it.
    pub(crate) fn step(self: &Arc<Self>, mut operation: Operation) {
        let waker = Waker::from(Arc::clone(self));
        // The operation is dropped while the panic unwinds, so that what it owns can tell a panic from a
        // cancellation.
        let step = move || match operation.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(()) => None,
            Poll::Pending => Some(operation),
        };
        let Ok(Some(operation)) = catch_unwind(AssertUnwindSafe(step)) else { return };
        *self.operation.lock() = Some(operation);
        if self.word.end() {
            self.queue();
        }
    }

    fn queue(self: &Arc<Self>) {
        if let Some(driver) = self.driver.upgrade() {
            driver.push(Arc::clone(self));
        }
    }
}

impl Wake for Flight {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.word.wake() {
            self.queue();
        }
    }
}

/// An operation, and then what tells of its result: never in the operation's first step, in which whoever
/// starts it has not returned, and in which operations that were answered before may still be in the queue.
pub(crate) struct Told<F: Future, T> {
    operation: Pin<Box<F>>,
    result: Option<F::Output>,
    is_first: bool,
    tell: Option<T>,
}

impl<F: Future, T> Told<F, T> {
    pub(crate) fn new(operation: F, tell: T) -> Self {
        Self { operation: Box::pin(operation), result: None, is_first: true, tell: Some(tell) }
    }
}

// Nothing in it but the operation is ever pinned, and that has its own allocation.
impl<F: Future, T> Unpin for Told<F, T> {}

impl<F: Future, T: FnOnce(F::Output)> Future for Told<F, T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let is_first = std::mem::replace(&mut this.is_first, false);
        let result = match this.result.take() {
            Some(result) => result,
            None => match this.operation.as_mut().poll(context) {
                Poll::Ready(result) => result,
                Poll::Pending => return Poll::Pending,
            },
        };
        if is_first {
            this.result = Some(result);
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(tell) = this.tell.take() {
            tell(result);
        }
        Poll::Ready(())
    }
}
