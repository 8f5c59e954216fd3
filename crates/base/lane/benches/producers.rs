//! Measures the cost of a push: `cargo run --release -p loligo-lane --example producers`
//!
//! N threads push to one queue and do other work; a thread that is told to run the queue does so at
//! once, with all queued items. Compared side by side, in rounds:
//!
//! - `lane`;
//! - `queue lock`: a queue and its bit under a mutex that is held for nothing else;
//! - `one lock`: a mutex for the queue that is also held while it is run.
//!
//! Figures: pushes per second, CPU time per push (all work included), and how long threads waited for
//! the lock, as the lock counts it. With the argument `idle` there is no other work and runs are free:
//! the bare cost of a push with its share of a run.

use std::collections::VecDeque;
use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use loligo_lane::{Action, Lane, PushError, RunEnd};
use loligo_lockstat::{Class, Mutex, report, reset};

static LANE: Class = Class::new("example.lane");
static QUEUE: Class = Class::new("example.queue");
static ONE: Class = Class::new("example.one");

/// About the size of a message with its payload behind pointers.
type Item = [u64; 16];

const ITEMS_MAX: usize = 65_536;
const ROUND: Duration = Duration::from_millis(500);
const ROUNDS: usize = 5;
const RUN_BUDGET: usize = 256;

/// Durations of the work outside the queue.
#[derive(Clone, Copy)]
struct Work {
    /// A producer's work between two pushes.
    between_ns: u64,
    /// A run, and each item of it: models a system call that sends many messages.
    run_ns: u64,
    item_ns: u64,
}

const BUSY: Work = Work { between_ns: 3000, run_ns: 4000, item_ns: 500 };
const IDLE: Work = Work { between_ns: 0, run_ns: 0, item_ns: 0 };

/// A queue that its producers run.
trait Queue: Sync {
    /// Pushes, and runs the queue if no other thread does. False if there was no room.
    fn push(&self, item: Item, work: Work) -> bool;
}

fn main() {
    let work = if std::env::args().any(|arg| arg == "idle") { IDLE } else { BUSY };
    println!("median of {ROUNDS} rounds of {ROUND:?}");
    println!(
        "{:<12} {:>8} {:>12} {:>12} {:>14} {:>14}",
        "queue", "threads", "pushes/s", "cpu ns/push", "waited ms/s", "longest ms"
    );
    for threads in [1, 4, 64, 1000] {
        let mut figures: [Vec<Figures>; 3] = Default::default();
        for _ in 0..ROUNDS {
            figures[0].push(measure(threads, work, &Lane::new(&LANE, ITEMS_MAX)));
            figures[1].push(measure(threads, work, &QueueLock(Mutex::new(&QUEUE, Default::default()))));
            figures[2].push(measure(threads, work, &OneLock(Mutex::new(&ONE, ()))));
        }
        for (name, figures) in ["lane", "queue lock", "one lock"].iter().zip(figures) {
            println!(
                "{name:<12} {threads:>8} {:>12.0} {:>12.1} {:>14.1} {:>14.1}",
                median(&figures, |f| f.pushes_per_s),
                median(&figures, |f| f.cpu_ns),
                median(&figures, |f| f.waited_ms_per_s),
                median(&figures, |f| f.longest_ms)
            );
        }
    }
}

struct Figures {
    pushes_per_s: f64,
    cpu_ns: f64,
    waited_ms_per_s: f64,
    longest_ms: f64,
}

fn median(figures: &[Figures], of: impl Fn(&Figures) -> f64) -> f64 {
    let mut values: Vec<f64> = figures.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn measure(threads: usize, work: Work, queue: &impl Queue) -> Figures {
    reset();
    let (pushed, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let start = Barrier::new(threads + 1);
    let mut began = (Instant::now(), Duration::ZERO);
    thread::scope(|s| {
        for _ in 0..threads {
            s.spawn(|| {
                start.wait();
                let mut count = 0;
                while !over.load(Ordering::Relaxed) {
                    if queue.push([count; 16], work) {
                        count += 1;
                    } else {
                        thread::yield_now();
                    }
                    spend(work.between_ns);
                }
                pushed.fetch_add(count, Ordering::Relaxed);
            });
        }
        start.wait();
        began = (Instant::now(), processor_time());
        thread::sleep(ROUND);
        over.store(true, Ordering::Relaxed);
    });
    let seconds = began.0.elapsed().as_secs_f64();
    let cpu = processor_time() - began.1;
    let pushed = pushed.into_inner() as f64;
    let report = report();
    let waited = report.classes.first().map(|class| class.wait).unwrap_or_default();
    Figures {
        pushes_per_s: pushed / seconds,
        cpu_ns: cpu.as_nanos() as f64 / pushed,
        waited_ms_per_s: waited.total_ns as f64 / 1e6 / seconds,
        longest_ms: waited.max_ns as f64 / 1e6,
    }
}

/// The CPU time of this process so far, in Linux's ticks of 10 ms.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("procfs");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("a name").split_whitespace().collect();
    let ticks: u64 = [11, 12].iter().map(|&i| fields[i].parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 10)
}

fn run(items: &mut VecDeque<Item>, work: Work) {
    spend(work.run_ns + work.item_ns * items.len() as u64);
    items.drain(..).for_each(|item| _ = black_box(item));
}

fn spend(ns: u64) {
    if ns > 0 {
        let began = Instant::now();
        while (began.elapsed().as_nanos() as u64) < ns {}
    }
}

impl Queue for Lane<Item> {
    fn push(&self, item: Item, work: Work) -> bool {
        match Lane::push(self, item) {
            Ok(Action::Submit) => {
                let all = |batch: &mut VecDeque<Item>| {
                    run(batch, work);
                    ControlFlow::Continue(())
                };
                while self.run_batch(RUN_BUDGET, all) == RunEnd::Again {}
                true
            }
            Ok(Action::Nothing) => true,
            Err(PushError::Full(_)) => false,
            Err(PushError::Closed(_)) => unreachable!("nobody closes it"),
        }
    }
}

struct QueueLock(Mutex<(VecDeque<Item>, bool)>);

impl Queue for QueueLock {
    fn push(&self, item: Item, work: Work) -> bool {
        let mut queue = self.0.lock();
        if queue.0.len() >= ITEMS_MAX {
            return false;
        }
        queue.0.push_back(item);
        if std::mem::replace(&mut queue.1, true) {
            return true;
        }
        let mut batch = VecDeque::new();
        loop {
            std::mem::swap(&mut batch, &mut queue.0);
            drop(queue);
            run(&mut batch, work);
            queue = self.0.lock();
            if queue.0.is_empty() {
                queue.1 = false;
                return true;
            }
        }
    }
}

struct OneLock(Mutex<()>);

impl Queue for OneLock {
    fn push(&self, item: Item, work: Work) -> bool {
        let _held = self.0.lock();
        run(&mut VecDeque::from([item]), work);
        true
    }
}
