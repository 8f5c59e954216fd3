//! Every interleaving of a few threads in the protocols around the rings: the log thread does not sleep
//! while a request is pending, no thread waits for a log thread that has ended, and the log thread finds
//! each abandoned ring with all its entries.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p loligo-logring --release --test loom`
#![cfg(loom)]

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use loligo_logring::model::{Arrivals, Bell, Ticket};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32};
use loom::thread;

const STEP: Duration = Duration::ZERO;

/// The log thread's state that is visible to other threads.
struct Log {
    bell: Bell,
    flush: Ticket,
    open: AtomicBool,
    stop: AtomicBool,
    logged: AtomicU32,
    written: AtomicU32,
}

impl Log {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            bell: Bell::new(),
            flush: Ticket::new(),
            open: AtomicBool::new(true),
            stop: AtomicBool::new(false),
            logged: AtomicU32::new(0),
            written: AtomicU32::new(0),
        })
    }

    /// The loop of `Worker::run` and the end of `End`.
    fn run(&self) {
        loop {
            let seen = self.bell.look();
            let (stop, flush) = (self.stop.load(Acquire), self.flush.pending());
            self.written.store(self.logged.load(Relaxed), Relaxed);
            if let Some(number) = flush {
                self.flush.finish(number);
            }
            if stop {
                break;
            }
            self.bell.wait(seen, STEP);
        }
        self.open.store(false, Release);
        self.flush.close();
    }

    /// Returns whether the flush was done. If so, everything logged before it is written.
    fn flush(&self) -> bool {
        let number = self.flush.ask();
        self.bell.ring();
        self.flush.wait(number, STEP, || self.open.load(Acquire))
    }

    fn stop(&self) {
        self.stop.store(true, Release);
        self.bell.ring();
    }
}

#[test]
fn a_flush_covers_what_was_logged_before_it() {
    loom::model(|| {
        let log = Log::new();
        let worker = thread::spawn({
            let log = Arc::clone(&log);
            move || log.run()
        });
        log.logged.store(1, Relaxed);
        assert!(log.flush());
        assert_eq!(log.written.load(Relaxed), 1);
        log.stop();
        worker.join().unwrap();
    });
}

#[test]
fn two_flushes_are_both_answered() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let log = Log::new();
        let worker = thread::spawn({
            let log = Arc::clone(&log);
            move || log.run()
        });
        // Does not wait: two spinning threads make the model too large.
        let other = thread::spawn({
            let log = Arc::clone(&log);
            move || {
                let number = log.flush.ask();
                log.bell.ring();
                number
            }
        });
        assert!(log.flush());
        let number = other.join().unwrap();
        log.stop();
        worker.join().unwrap();
        assert!(log.flush.is_done(number));
    });
}

#[test]
fn nobody_waits_for_a_log_thread_that_has_gone() {
    loom::model(|| {
        let log = Log::new();
        let worker = thread::spawn({
            let log = Arc::clone(&log);
            move || log.run()
        });
        log.stop();
        log.flush(); // may be done or not, but returns
        worker.join().unwrap();
        assert!(!log.flush(), "there is no thread to do it");
    });
}

/// A ring as its users see it: `rtrb` has its own models.
struct Ring {
    written: AtomicU32,
    abandoned: AtomicBool,
}

#[test]
fn rings_are_found_with_all_that_is_in_them() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let arrivals = Arc::new(Arrivals::<Arc<Ring>>::new());
        let producers = [1, 2].map(|entries| {
            let arrivals = Arc::clone(&arrivals);
            thread::spawn(move || {
                let ring = Arc::new(Ring { written: AtomicU32::new(0), abandoned: AtomicBool::new(false) });
                arrivals.add(Arc::clone(&ring));
                (1..=entries).for_each(|n| ring.written.store(n, Release));
                ring.abandoned.store(true, Release);
            })
        });
        // As in `Merge::take`: new rings first; then for each ring whether it has ended, then its
        // contents.
        let (mut rings, mut total, mut ended) = (Vec::new(), 0, 0);
        while ended < 2 {
            rings.extend(arrivals.take());
            rings.retain(|ring| {
                let over = ring.abandoned.load(Acquire);
                let written = ring.written.load(Acquire);
                if over {
                    total += written;
                    ended += 1;
                }
                !over
            });
            if ended < 2 {
                thread::yield_now();
            }
        }
        assert_eq!(total, 3);
        for producer in producers {
            producer.join().unwrap();
        }
        assert!(arrivals.take().is_empty());
    });
}
