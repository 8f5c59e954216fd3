//! Compares the cost of the locks with `parking_lot`'s and `std`'s:
//! `cargo run --release -p loligo-lockstat --example floors`
//!
//! Prints three tables. Each figure is the median of several rounds in which all candidates take turns,
//! so that other activity of the machine affects them alike:
//! - an uncontended acquisition and release, in each mode;
//! - the throughput of 2 and of 64 threads that do little but take one lock for a short section;
//! - [`AdaptiveMutex`] compared with a lock that always spins, on short sections, and with one that
//!   never does, on long ones.

use std::cell::UnsafeCell;
use std::hint::{black_box, spin_loop};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use loligo_lockstat::{AdaptiveMutex, Class, HeavyMutex, Mode, Mutex, RwLock, SpinLock, set_mode};

static CLASS: Class = Class::new("example.floors");

/// The number of rounds for each median.
const ROUNDS: usize = 9;
/// Iterations of an empty loop between two acquisitions: about 50 ns.
const PAUSE: u32 = 100;
/// Iterations of an empty loop in a short section.
const SHORT: u32 = 40;
/// The duration of a long section: many times the cost of a sleep and a wake-up.
const LONG: Duration = Duration::from_micros(200);

fn main() {
    println!("{} processors", thread::available_parallelism().map_or(0, usize::from));
    uncontended();
    for threads in [2, 64] {
        contended(threads);
    }
    adaptive();
}

/// A candidate: its name and one operation.
type Candidate<'a> = (&'a str, Box<dyn Fn() + Sync + 'a>);

/// A candidate with a loop of operations. Each loop is compiled with its lock inlined: a call through a
/// pointer per operation would cost as much as the lock.
type Loop<'a> = (&'a str, Box<dyn Fn() + 'a>);

fn uncontended() {
    const OPS: u32 = 1_000_000;
    println!("\nacquire and release undisturbed, ns (and beside parking_lot)");
    let clock = medians(1, |_| {
        let began = Instant::now();
        (0..OPS).for_each(|_| _ = black_box(clock_reading()));
        began.elapsed().as_nanos() as f64 / f64::from(OPS)
    });
    println!("  one reading of the clock takes {:.2}; mode full takes two", clock[0]);
    let reference = parking_lot::Mutex::new(0u64);
    let std = std::sync::Mutex::new(0u64);
    let (mutex, spin, heavy) =
        (Mutex::new(&CLASS, 0u64), SpinLock::new(&CLASS, 0u64), HeavyMutex::new(&CLASS, 0u64));
    let (adaptive, rw) = (AdaptiveMutex::new(&CLASS, 0u64), RwLock::new(&CLASS, 0u64));
    let loops: [Loop; 7] = [
        ("parking_lot::Mutex", repeat(OPS, || *reference.lock() += 1)),
        ("std::sync::Mutex", repeat(OPS, || *std.lock().expect("no panic") += 1)),
        ("Mutex", repeat(OPS, || *mutex.lock() += 1)),
        ("SpinLock", repeat(OPS, || *spin.lock() += 1)),
        ("HeavyMutex", repeat(OPS, || *heavy.lock() += 1)),
        ("AdaptiveMutex", repeat(OPS, || *adaptive.lock() += 1)),
        ("RwLock, to write", repeat(OPS, || *rw.write() += 1)),
    ];
    for mode in Mode::ALL {
        set_mode(mode);
        let medians = medians(loops.len(), |i| {
            let began = Instant::now();
            loops[i].1();
            began.elapsed().as_nanos() as f64 / f64::from(OPS)
        });
        for ((name, _), ns) in loops.iter().zip(&medians) {
            let (ratio, more) = (ns / medians[0], ns - medians[0]);
            println!("  {:<10} {name:<20} {ns:>7.2}  {ratio:>5.2} x  {more:>+7.2}", mode.name());
        }
    }
    set_mode(Mode::default());
}

/// Reads the clock that the locks read.
fn clock_reading() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    return Instant::now().elapsed().as_nanos() as u64;
}

fn repeat<'a>(times: u32, op: impl Fn() + 'a) -> Box<dyn Fn() + 'a> {
    Box::new(move || (0..times).for_each(|_| op()))
}

fn contended(threads: usize) {
    println!(
        "\n{threads} threads, short sections, million acquisitions per second (and beside the better of the first two)"
    );
    let reference = parking_lot::Mutex::new(0u64);
    let std = std::sync::Mutex::new(0u64);
    let (mutex, spin, heavy, adaptive) = (
        Mutex::new(&CLASS, 0u64),
        SpinLock::new(&CLASS, 0u64),
        HeavyMutex::new(&CLASS, 0u64),
        AdaptiveMutex::new(&CLASS, 0u64),
    );
    let candidates: [Candidate; 6] = [
        ("parking_lot::Mutex", Box::new(|| short(&mut reference.lock()))),
        ("std::sync::Mutex", Box::new(|| short(&mut std.lock().expect("no panic")))),
        ("Mutex", Box::new(|| short(&mut mutex.lock()))),
        ("SpinLock", Box::new(|| short(&mut spin.lock()))),
        ("HeavyMutex", Box::new(|| short(&mut heavy.lock()))),
        ("AdaptiveMutex", Box::new(|| short(&mut adaptive.lock()))),
    ];
    let medians = medians(candidates.len(), |i| per_second(threads, &candidates[i].1) / 1e6);
    let best = medians[0].max(medians[1]);
    for ((name, _), rate) in candidates.iter().zip(&medians) {
        println!("  {name:<20} {rate:>8.3}  {:>5.2} x", rate / best);
    }
}

fn adaptive() {
    let processors = thread::available_parallelism().map_or(2, usize::from);
    for (what, threads, is_long) in
        [("short sections", processors, false), ("long sections", processors.max(6), true)]
    {
        println!("\n{threads} threads, {what}, thousand acquisitions per second (and beside the first)");
        let always = AlwaysSpin::default();
        let never = HeavyMutex::new(&CLASS, 0u64);
        let adaptive = AdaptiveMutex::new(&CLASS, 0u64);
        let section = |value: &mut u64| if is_long { long(value) } else { short(value) };
        let reference: Candidate = match is_long {
            false => ("always spins", Box::new(|| always.with(section))),
            true => ("never spins", Box::new(|| section(&mut never.lock()))),
        };
        let candidates = [reference, ("AdaptiveMutex", Box::new(|| section(&mut adaptive.lock())))];
        let medians = medians(candidates.len(), |i| per_second(threads, &candidates[i].1) / 1e3);
        for ((name, _), rate) in candidates.iter().zip(&medians) {
            println!("  {name:<20} {rate:>9.2}  {:>5.2} x", rate / medians[0]);
        }
    }
}

#[inline]
fn short(value: &mut u64) {
    (0..SHORT).for_each(|i| _ = black_box(i));
    *value += 1;
}

fn long(value: &mut u64) {
    let began = Instant::now();
    while began.elapsed() < LONG {
        spin_loop();
    }
    *value += 1;
}

/// A lock whose waiters only spin.
#[derive(Default)]
struct AlwaysSpin {
    held: AtomicBool,
    value: UnsafeCell<u64>,
}

// SAFETY: `with` lets one thread at a time access the value.
unsafe impl Sync for AlwaysSpin {}

impl AlwaysSpin {
    fn with(&self, section: impl Fn(&mut u64)) {
        while self.held.swap(true, Ordering::Acquire) {
            while self.held.load(Ordering::Relaxed) {
                spin_loop();
            }
        }
        // SAFETY: the swap above gave the value to this thread exclusively, until the store below.
        section(unsafe { &mut *self.value.get() });
        self.held.store(false, Ordering::Release);
    }
}

/// Returns the operations per second of some threads that do other work in between.
fn per_second(threads: usize, op: &(dyn Fn() + Sync)) -> f64 {
    const TIME: Duration = Duration::from_millis(150);
    let (done, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let start = Barrier::new(threads + 1);
    let mut began = Instant::now();
    thread::scope(|s| {
        for _ in 0..threads {
            s.spawn(|| {
                start.wait();
                let mut count = 0;
                while !over.load(Ordering::Relaxed) {
                    op();
                    (0..PAUSE).for_each(|i| _ = black_box(i));
                    count += 1;
                }
                done.fetch_add(count, Ordering::Relaxed);
            });
        }
        start.wait();
        began = Instant::now();
        thread::sleep(TIME);
        over.store(true, Ordering::Relaxed);
    });
    done.into_inner() as f64 / began.elapsed().as_secs_f64()
}

/// Returns each candidate's median, over rounds in which every candidate is measured once.
fn medians(candidates: usize, measure: impl Fn(usize) -> f64) -> Vec<f64> {
    let mut figures = vec![Vec::with_capacity(ROUNDS); candidates];
    for _ in 0..ROUNDS {
        for (index, figures) in figures.iter_mut().enumerate() {
            figures.push(measure(index));
        }
    }
    let median = |mut figures: Vec<f64>| {
        figures.sort_by(f64::total_cmp);
        figures[ROUNDS / 2]
    };
    figures.into_iter().map(median).collect()
}
