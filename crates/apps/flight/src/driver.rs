//! The operations of one handle, which take their steps in the order in which they are woken.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use loligo_lockstat::{Class, Mutex};
use tokio::runtime::Handle;
use tokio::task::unconstrained;

use crate::told::Told;
use crate::word::Word;

/// Held to add to the queue or to take from it; the operations take their steps without it.
static DRIVER: Class = Class::new("flight.driver");

/// Steps between two yields to other tasks.
const TURN: usize = 128;

/// Takes operations that were woken their next steps, one after the other.
///
/// Its queue is bounded by the operations that were started: each is in it once at most.
#[derive(Debug)]
pub struct Driver {
    queue: Mutex<Queue>,
    runtime: Handle,
}

#[derive(Debug, Default)]
struct Queue {
    ready: VecDeque<Arc<Flight>>,
    /// Whether a task drains the queue, or will.
    driven: bool,
}

impl Driver {
    /// Its task runs on `runtime`, while there is something to do.
    pub fn new(runtime: Handle) -> Arc<Self> {
        Arc::new(Self { queue: Mutex::new(&DRIVER, Queue::default()), runtime })
    }

    /// Starts an operation: its first step is taken on this thread, in this call, with the waker of all later
    /// ones. Operations on one object are therefore sent, and woken, in the order of the calls. `tell` gets
    /// the result, never in this call: an operation that ends in its first step queues behind those that
    /// were answered before. An operation that panics or is cancelled is dropped, and then `tell`.
    pub fn start<F>(
        self: &Arc<Self>,
        operation: F,
        tell: impl FnOnce(F::Output) + Send + 'static,
    ) -> Arc<Flight>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        // Without a budget: with one, tokio would have an operation that was answered queue once more.
        let operation = unconstrained(Told::new(operation, tell));
        let flight = Flight::new(self);
        let _context = self.runtime.enter();
        flight.step(Box::pin(operation));
        flight
    }

    fn push(self: &Arc<Self>, flight: Arc<Flight>) {
        let mut queue = self.queue.lock();
        queue.ready.push_back(flight);
        let was_driven = std::mem::replace(&mut queue.driven, true);
        drop(queue);
        if !was_driven {
            self.runtime.spawn(Arc::clone(self).drive());
        }
    }

    async fn drive(self: Arc<Self>) {
        let mut steps = 0;
        while let Some(flight) = self.next() {
            flight.go_on();
            steps += 1;
            if steps % TURN == 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    fn next(&self) -> Option<Arc<Flight>> {
        let mut queue = self.queue.lock();
        let next = queue.ready.pop_front();
        queue.driven = next.is_some();
        next
    }
}

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
    fn new(driver: &Arc<Driver>) -> Arc<Self> {
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
    fn go_on(self: &Arc<Self>) {
        self.word.begin();
        let taken = self.operation.lock().take();
        if let Some(operation) = taken
            && !self.cancelled.load(Ordering::Acquire)
        {
            self.step(operation);
        }
    }

    /// Takes a step. A panic ends this operation and no other: the panic hook has told of it.
    fn step(self: &Arc<Self>, mut operation: Operation) {
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
