//! What a lock costs: `cargo run --release -p loligo-lockstat --example cost`
//!
//! First the time of an acquire and release that nobody disturbs, in each mode, beside `std`'s mutex. Then what N
//! threads get done that do little but take one lock: time and processor time per acquisition, and what the locks
//! themselves say of waiting.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use loligo_lockstat::{Class, HeavyMutex, Mode, Mutex, RwLock, SpinLock, report, reset, set_mode};

static CLASS: Class = Class::new("example.cost");

/// Turns of an empty loop between two acquisitions: about 50 ns.
const PAUSE: u32 = 100;

fn main() {
    undisturbed();
    println!(
        "\n{:<14} {:>8} {:>10} {:>10} {:>12} {:>14} {:>12}",
        "lock", "threads", "ns/op", "cpu ns/op", "contentions", "total µs", "longest µs"
    );
    set_mode(Mode::Contended);
    for threads in [1, 2, 4, 64, 1000] {
        let std = std::sync::Mutex::new(0u64);
        contended("std::Mutex", threads, || *std.lock().expect("no panic") += 1);
        let lock = Mutex::new(&CLASS, 0u64);
        contended("Mutex", threads, || *lock.lock() += 1);
        let lock = SpinLock::new(&CLASS, 0u64);
        contended("SpinLock", threads, || *lock.lock() += 1);
        let lock = HeavyMutex::new(&CLASS, 0u64);
        contended("HeavyMutex", threads, || *lock.lock() += 1);
    }
}

fn undisturbed() {
    println!("{:<14} {:>10} {:>10} {:>10}", "ns per pair", "off", "contended", "full");
    let std = std::sync::Mutex::new(0u64);
    row("std::Mutex", || *std.lock().expect("no panic") += 1);
    let lock = Mutex::new(&CLASS, 0u64);
    row("Mutex", || *lock.lock() += 1);
    let lock = SpinLock::new(&CLASS, 0u64);
    row("SpinLock", || *lock.lock() += 1);
    let lock = RwLock::new(&CLASS, 0u64);
    row("RwLock read", || {
        black_box(*lock.read());
    });
    row("RwLock write", || *lock.write() += 1);
}

fn row(name: &str, op: impl Fn()) {
    let ns = [Mode::Off, Mode::Contended, Mode::Full].map(|mode| {
        set_mode(mode);
        median_of_5(&op)
    });
    println!("{name:<14} {:>10.2} {:>10.2} {:>10.2}", ns[0], ns[1], ns[2]);
}

fn median_of_5(op: impl Fn()) -> f64 {
    const ROUNDS: u32 = 2_000_000;
    let mut ns: Vec<f64> = (0..5)
        .map(|_| {
            let began = Instant::now();
            (0..ROUNDS).for_each(|_| op());
            began.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
        })
        .collect();
    ns.sort_by(f64::total_cmp);
    ns[2]
}

fn contended(name: &str, threads: usize, op: impl Fn() + Sync) {
    const TIME: Duration = Duration::from_millis(500);
    reset();
    let (done, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let start = Barrier::new(threads + 1);
    let mut began = (Instant::now(), Duration::ZERO);
    thread::scope(|s| {
        for _ in 0..threads {
            s.spawn(|| {
                start.wait();
                let mut count = 0;
                while !over.load(Ordering::Relaxed) {
                    op();
                    // A sender has other things to do, too.
                    (0..PAUSE).for_each(|i| _ = black_box(i));
                    count += 1;
                }
                done.fetch_add(count, Ordering::Relaxed);
            });
        }
        start.wait();
        began = (Instant::now(), processor_time());
        thread::sleep(TIME);
        over.store(true, Ordering::Relaxed);
    });
    let done = done.into_inner() as f64;
    let (ns, cpu) = (began.0.elapsed().as_nanos() as f64, (processor_time() - began.1).as_nanos() as f64);
    let waits = report()
        .class("example.cost")
        .map(|c| (c.contentions, c.wait.total_ns, c.wait.max_ns))
        .unwrap_or_default();
    println!(
        "{name:<14} {threads:>8} {:>10.1} {:>10.1} {:>12} {:>14} {:>12}",
        ns / done,
        cpu / done,
        waits.0,
        waits.1 / 1000,
        waits.2 / 1000
    );
}

/// Processor time of this process so far.
fn processor_time() -> Duration {
    // SAFETY: the call fills in the structure that it is given.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}
