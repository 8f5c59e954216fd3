//! Asynchronous operations of one handle, which go on in the order in which they are woken.
//!
//! Tasks of a runtime with several workers overtake each other: of two writes that are answered one after
//! the other, the second could be told of first. So a handle's operations share a [`Driver`]: a wake-up
//! queues the operation, and one task at a time takes the queued operations their next step.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Wake, Waker};

use loligo_lockstat::{Class, Mutex};

use crate::border;
use crate::runtime::runtime;

static DRIVER: Class = Class::new("capi.driver");
static FLIGHT: Class = Class::new("capi.flight");

/// Steps between two yields to other tasks.
const TURN: usize = 128;

type Operation = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Nobody is about to take its next step.
const IDLE: u8 = 0;
/// It is in the driver's queue.
const QUEUED: u8 = 1;
/// Somebody takes a step.
const RUNNING: u8 = 2;
/// Somebody takes a step, and it was woken meanwhile.
const WOKEN: u8 = 3;

/// One operation.
pub(crate) struct Flight {
    /// Taken out during a step; none when the operation has ended.
    operation: Mutex<Option<Operation>>,
    state: AtomicU8,
    cancelled: AtomicBool,
    driver: Weak<Driver>,
}

/// The operations of a handle that can take a step.
pub(crate) struct Driver {
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    ready: VecDeque<Arc<Flight>>,
    /// Whether a task drains the queue, or will.
    driven: bool,
}

impl Driver {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { queue: Mutex::new(&DRIVER, Queue::default()) })
    }

    /// Starts an operation: its first step is taken on this thread, in this call.
    pub(crate) fn start(
        self: &Arc<Self>,
        operation: impl Future<Output = ()> + Send + 'static,
    ) -> Arc<Flight> {
        // Without a budget: with one, tokio would have an operation that was answered queue once more.
        let operation = tokio::task::unconstrained(operation);
        let flight = Arc::new(Flight {
            operation: Mutex::new(&FLIGHT, Some(Box::pin(operation))),
            state: AtomicU8::new(QUEUED),
            cancelled: AtomicBool::new(false),
            driver: Arc::downgrade(self),
        });
        let _context = runtime().enter();
        flight.step(self);
        flight
    }

    fn push(self: &Arc<Self>, flight: Arc<Flight>) {
        let mut queue = self.queue.lock();
        queue.ready.push_back(flight);
        let was_driven = std::mem::replace(&mut queue.driven, true);
        drop(queue);
        if !was_driven {
            runtime().spawn(Arc::clone(self).drive());
        }
    }

    async fn drive(self: Arc<Self>) {
        let mut steps = 0;
        while let Some(flight) = self.next() {
            flight.step(&self);
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

impl Flight {
    /// Ends the operation where it is; it is dropped soon.
    pub(crate) fn cancel(self: &Arc<Self>) {
        self.cancelled.store(true, Ordering::Release);
        self.wake_by_ref();
    }

    /// Takes the next step. The caller is the only one: the state was QUEUED. A panic ends the operation
    /// and no other: the driver goes on.
    fn step(self: &Arc<Self>, driver: &Arc<Driver>) {
        border::guard("an asynchronous operation", || self.poll(driver));
    }

    fn poll(self: &Arc<Self>, driver: &Arc<Driver>) {
        self.state.store(RUNNING, Ordering::Release);
        let taken = self.operation.lock().take();
        let Some(mut operation) = taken else { return };
        if self.cancelled.load(Ordering::Acquire) {
            return;
        }
        let waker = Waker::from(Arc::clone(self));
        if operation.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            return;
        }
        *self.operation.lock() = Some(operation);
        let slept = self.state.compare_exchange(RUNNING, IDLE, Ordering::AcqRel, Ordering::Acquire);
        if slept.is_err() {
            self.state.store(QUEUED, Ordering::Release);
            driver.push(Arc::clone(self));
        }
    }
}

impl Wake for Flight {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let woken = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| match state {
            IDLE => Some(QUEUED),
            RUNNING => Some(WOKEN),
            _ => None,
        });
        if woken == Ok(IDLE)
            && let Some(driver) = self.driver.upgrade()
        {
            driver.push(Arc::clone(self));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn operations_end_in_the_order_in_which_they_are_woken() {
        let driver = Driver::new();
        let (ended, order) = mpsc::channel();
        let wakers: Vec<_> = (0..500)
            .map(|number| {
                let (wake, woken) = oneshot::channel::<()>();
                let (answer, answered) = oneshot::channel::<()>();
                let _ = answer.send(());
                let ended = ended.clone();
                driver.start(async move {
                    let _ = woken.await;
                    // More than one look at a channel in a step.
                    let _ = answered.await;
                    let _ = ended.send(number);
                });
                wake
            })
            .collect();
        for wake in wakers.into_iter().rev() {
            let _ = wake.send(());
        }
        drop(ended);
        assert!(order.iter().eq((0..500).rev()));
    }

    #[test]
    fn a_panic_ends_one_operation() {
        let driver = Driver::new();
        let (wake, woken) = oneshot::channel::<()>();
        driver.start(async move {
            let _ = woken.await;
            panic!("on purpose");
        });
        let (wake_other, other_woken) = oneshot::channel::<()>();
        let (ended, end) = mpsc::channel();
        driver.start(async move {
            let _ = other_woken.await;
            let _ = ended.send(());
        });
        let _ = wake.send(());
        let _ = wake_other.send(());
        assert_eq!(end.recv(), Ok(()));
    }

    #[test]
    fn a_cancelled_operation_is_dropped() {
        let driver = Driver::new();
        let (held, dropped) = mpsc::channel::<()>();
        let flight = driver.start(async move {
            std::future::pending::<()>().await;
            drop(held);
        });
        flight.cancel();
        assert!(dropped.recv().is_err());
    }
}
