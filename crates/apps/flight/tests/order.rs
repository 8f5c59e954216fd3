//! Operations on a real runtime: the order in which they are told of, panics, cancellations.
#![cfg(not(loom))]

use std::sync::mpsc;

use loligo_flight::Driver;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

fn runtime(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).build().expect("threads")
}

#[test]
fn operations_end_in_the_order_in_which_they_are_woken() {
    let runtime = runtime(2);
    let driver = Driver::new(runtime.handle().clone());
    let (told, order) = mpsc::channel();
    let wakers: Vec<_> = (0..500)
        .map(|number| {
            let (wake, woken) = oneshot::channel::<()>();
            let (answer, answered) = oneshot::channel::<()>();
            let _ = answer.send(());
            let told = told.clone();
            let operation = async move {
                let _ = woken.await;
                // More than one look at a channel in a step.
                let _ = answered.await;
            };
            driver.start(operation, move |()| told.send(number).unwrap_or_default());
            wake
        })
        .collect();
    for wake in wakers.into_iter().rev() {
        let _ = wake.send(());
    }
    drop(told);
    assert!(order.iter().eq((0..500).rev()));
}

/// Goal: what is answered first is told of first, also while operations are being started. Method: the
/// answers come in order from another thread, as soon as an operation has been sent; some of them come before
/// the first step has ended.
#[test]
fn operations_are_told_of_in_the_order_of_their_answers() {
    const COUNT: usize = 20_000;
    let runtime = runtime(1);
    let driver = Driver::new(runtime.handle().clone());
    let (told, order) = mpsc::channel();
    let (sent, answering) = mpsc::channel::<oneshot::Sender<()>>();
    let answers = std::thread::spawn(move || {
        answering.into_iter().for_each(|one| one.send(()).expect("somebody waits"));
    });
    for number in 0..COUNT {
        let (sent, told) = (sent.clone(), told.clone());
        let operation = async move {
            let (answer, answered) = oneshot::channel();
            sent.send(answer).expect("it answers");
            answered.await.expect("an answer");
        };
        driver.start(operation, move |()| told.send(number).expect("somebody listens"));
    }
    drop((sent, told));
    assert!(order.into_iter().eq(0..COUNT));
    answers.join().expect("it answered all");
}

/// An operation that is answered in its first step is told of after one that was answered before it.
#[test]
fn what_ends_at_once_queues() {
    // Nobody drives the operations before both have been started.
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let driver = Driver::new(runtime.handle().clone());
    let (told, order) = mpsc::channel();
    let (answer, answered) = oneshot::channel::<()>();
    let tell = |number: u32| {
        let told = told.clone();
        move |()| told.send(number).expect("the test listens")
    };
    driver.start(async { drop(answered.await) }, tell(1));
    let _ = answer.send(());
    driver.start(async {}, tell(2));
    assert!(order.try_recv().is_err(), "nothing is told of while an operation starts");
    runtime.block_on(tokio::task::yield_now());
    assert_eq!(order.try_iter().collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_panic_ends_one_operation() {
    /// Tells whether it is dropped by a panic.
    struct Witness(mpsc::Sender<bool>);
    impl Drop for Witness {
        fn drop(&mut self) {
            let _ = self.0.send(std::thread::panicking());
        }
    }
    let runtime = runtime(2);
    let driver = Driver::new(runtime.handle().clone());
    let (wake, woken) = oneshot::channel::<()>();
    let (dropped, drops) = mpsc::channel();
    let witness = Witness(dropped);
    let panics = async {
        let _ = woken.await;
        panic!("on purpose");
    };
    driver.start(panics, move |()| drop(witness));
    let (wake_other, other_woken) = oneshot::channel::<()>();
    let (told, end) = mpsc::channel();
    driver.start(other_woken, move |_| told.send(()).unwrap_or_default());
    let _ = wake.send(());
    let _ = wake_other.send(());
    assert_eq!(drops.recv(), Ok(true));
    assert_eq!(end.recv(), Ok(()));
}

#[test]
fn a_cancelled_operation_is_dropped() {
    let runtime = runtime(2);
    let driver = Driver::new(runtime.handle().clone());
    let (held, dropped) = mpsc::channel::<()>();
    let flight = driver.start(std::future::pending::<()>(), move |()| held.send(()).unwrap_or_default());
    flight.cancel();
    assert!(dropped.recv().is_err(), "it is dropped and not told of");
}
