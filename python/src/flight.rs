//! Operations in the background. They take their steps in the order in which they are woken: of two writes
//! that are answered one after the other, the first is told of first.

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use loligo_lockstat::{Class, Mutex};
use tokio::sync::mpsc;
use tokio::task::unconstrained;

/// Held to take or put back an operation; never while it takes a step.
static FLIGHT: Class = Class::new("python.flight");

/// It waits to be woken.
const RESTS: u8 = 0;
/// It takes a step.
const STEPS: u8 = 1;
/// It takes a step, and was woken meanwhile.
const WOKEN: u8 = 2;
/// It is in the queue of those that were woken.
const QUEUED: u8 = 3;

type Operation<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// An operation in the background, with the result `T`.
pub(crate) struct Flight<T> {
    /// `None` while it takes a step, and once it has ended.
    rest: Mutex<Option<Operation<T>>>,
    /// Who changes it to [`STEPS`] has the operation. AcqRel throughout: the next one to have the operation
    /// sees what the last one did.
    state: AtomicU8,
    woken: mpsc::UnboundedSender<Arc<Self>>,
}

impl<T: Send + 'static> Flight<T> {
    /// Starts an operation: it takes its first step here, with the waker of all later ones. Operations on one
    /// object are therefore sent, and woken, in the order of the calls. One that ends with its first step
    /// queues like the others, behind those that were answered before.
    pub(crate) fn start(
        operation: impl Future<Output = T> + Send + 'static,
        woken: &mpsc::UnboundedSender<Arc<Self>>,
    ) {
        let (rest, state) = (Mutex::new(&FLIGHT, None), AtomicU8::new(STEPS));
        let flight = Arc::new(Self { rest, state, woken: woken.clone() });
        // Without a budget: with one, tokio would have an operation that was answered queue once more.
        if let Some(result) = flight.step(Box::pin(unconstrained(operation))) {
            *flight.rest.lock() = Some(Box::pin(ready(result)));
            flight.queue();
        }
    }

    /// Takes a step. Returns the result of an operation that has ended.
    fn step(self: &Arc<Self>, mut operation: Operation<T>) -> Option<T> {
        let waker = Waker::from(Arc::clone(self));
        if let Poll::Ready(result) = operation.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(result);
        }
        *self.rest.lock() = Some(operation);
        let rests = self.state.compare_exchange(STEPS, RESTS, Ordering::AcqRel, Ordering::Acquire);
        if rests.is_err() {
            self.queue();
        }
        None
    }

    fn queue(self: &Arc<Self>) {
        self.state.store(QUEUED, Ordering::Release);
        // Only a process that ends takes no more steps.
        let _ = self.woken.send(Arc::clone(self));
    }

    fn go_on(self: &Arc<Self>) -> Option<T> {
        self.state.store(STEPS, Ordering::Release);
        let rest = self.rest.lock().take();
        rest.and_then(|operation| self.step(operation))
    }
}

impl<T: Send + 'static> Wake for Flight<T> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let next = |state| match state {
            RESTS => Some(QUEUED),
            STEPS => Some(WOKEN),
            _ => None,
        };
        if self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) == Ok(RESTS) {
            let _ = self.woken.send(Arc::clone(self));
        }
    }
}

/// Has the operations that were woken take their next steps, and tells of those that have ended.
pub(crate) async fn drive<T: Send + 'static>(
    mut woken: mpsc::UnboundedReceiver<Arc<Flight<T>>>,
    tell: impl Fn(T),
) {
    while let Some(flight) = woken.recv().await {
        if let Some(result) = flight.go_on() {
            tell(result);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    /// Goal: what is answered first is told of first, also while operations are being started. Method: the
    /// answers come in order from another thread, as soon as an operation has been sent.
    #[test]
    fn operations_are_told_of_in_the_order_of_their_answers() {
        const COUNT: usize = 20_000;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("threads");
        let (woken, waiting) = mpsc::unbounded_channel();
        let (tell, told) = std::sync::mpsc::channel();
        runtime.spawn(drive(waiting, move |number: usize| tell.send(number).expect("somebody listens")));
        let (sent, answering) = std::sync::mpsc::channel::<oneshot::Sender<()>>();
        let answers = std::thread::spawn(move || {
            answering.into_iter().for_each(|one| one.send(()).expect("somebody waits"));
        });
        for number in 0..COUNT {
            let sent = sent.clone();
            let operation = async move {
                let (answer, answered) = oneshot::channel();
                sent.send(answer).expect("it answers");
                answered.await.expect("an answer");
                number
            };
            Flight::start(operation, &woken);
        }
        drop(sent);
        assert!(told.into_iter().take(COUNT).eq(0..COUNT));
        answers.join().expect("it answered all");
    }
}
