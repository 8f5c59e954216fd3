//! The operations of one handle, which take their steps in the order in which they are woken.

use std::collections::VecDeque;
use std::sync::Arc;

use loligo_lockstat::{Class, Mutex};
use tokio::runtime::Handle;
use tokio::task::unconstrained;

use crate::flight::{Flight, Told};

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

    pub(crate) fn push(self: &Arc<Self>, flight: Arc<Flight>) {
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
