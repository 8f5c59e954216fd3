//! Explores the interleavings of an operation's steps with those that wake it, where threads are
//! interrupted three times at most: no wake-up is lost, nobody takes a step beside somebody else, and a step
//! sees what was done before the wake-up.
//!
//! `word.rs` is the crate's own. The queue and the operation are short models of theirs.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p loligo-flight --release --test loom`
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU8, Ordering};
}
#[path = "../src/word.rs"]
mod word;

use sync::{AtomicU8, Ordering};
use word::Word;

/// An operation that waits for some answers.
struct Flight {
    word: Word,
    /// The number of steps. Only the thread that takes a step touches it.
    steps: UnsafeCell<usize>,
    /// The answers that have come. Relaxed: the word alone orders them with the steps.
    answers: [AtomicU8; 2],
    /// How often it is in the queue.
    queued: Mutex<usize>,
}

// SAFETY: loom reports two threads at `steps` at once.
unsafe impl Sync for Flight {}

impl Flight {
    fn answer(&self, number: usize) {
        self.answers[number].store(1, Ordering::Relaxed);
        if self.word.wake() {
            *self.queued.lock().expect("no panic") += 1;
        }
    }

    /// Takes a step; returns whether all answers have come.
    fn step(&self) -> bool {
        // SAFETY: as above.
        self.steps.with_mut(|steps| unsafe { *steps += 1 });
        if self.answers.iter().all(|answer| answer.load(Ordering::Relaxed) == 1) {
            return true;
        }
        if self.word.end() {
            *self.queued.lock().expect("no panic") += 1;
        }
        false
    }

    /// Takes steps as long as it is in the queue; returns whether it has ended.
    fn drain(&self) -> bool {
        while self.take() {
            self.word.begin();
            if self.step() {
                return true;
            }
        }
        false
    }

    fn take(&self) -> bool {
        let mut queued = self.queued.lock().expect("no panic");
        assert!(*queued <= 1, "it is queued once");
        let is_there = *queued == 1;
        *queued = 0;
        is_there
    }
}

#[test]
fn every_wake_up_is_answered_by_a_step() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let flight = Arc::new(Flight {
            word: Word::stepping(),
            steps: UnsafeCell::new(0),
            answers: [AtomicU8::new(0), AtomicU8::new(0)],
            queued: Mutex::new(0),
        });
        let wakers: Vec<_> = (0..2)
            .map(|number| {
                let flight = Arc::clone(&flight);
                thread::spawn(move || flight.answer(number))
            })
            .collect();
        let has_ended = flight.step() || flight.drain();
        wakers.into_iter().for_each(|waker| waker.join().expect("no panic"));
        // A wake-up after the driver's last look leaves the operation in the queue.
        assert!(has_ended || flight.drain());
    });
}
