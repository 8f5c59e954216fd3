//! Measures the cost of a log call for its caller:
//! `cargo run --release -p loligo-logring --example log_cost`
//!
//! N threads log `sent {} frames to {}` with a number and an address. Two variants alternate, in rounds:
//!
//! - `ring`: this crate, to a file;
//! - `mutex queue`: the log design of the published cases. The caller formats its line, locks the single
//!   queue of the process, waits while it is full, adds the line and wakes the writer, which takes the
//!   whole queue and writes it to a file.
//!
//! Each call is timed by itself, less the (median) cost of reading the clock. Between two calls a thread
//! is busy for some microseconds, in proportion to the number of threads, so that a single writer can
//! keep up in both variants: a ring that drops entries would look fast. Figures: a call's p50 and p99 in
//! nanoseconds, median of all rounds, and the number of dropped entries.

use std::collections::VecDeque;
use std::fs::File;
use std::hint::black_box;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Instant, SystemTime};

use loligo_logring::{Config, Logger, Sink, flush, log, set_option};

const ROUNDS: usize = 7;
const CALLS: usize = 20_000;
/// The ticks for which a thread is busy between two calls, to be multiplied by the number of threads.
const BUSY_TICKS: u64 = 3_000;
/// Ceph's `log_max_new`.
const QUEUE_MAX: usize = 1000;

fn main() {
    set_option("debug_msgr", "10/10").expect("an option");
    let own = clock_cost();
    let cores = thread::available_parallelism().map_or(0, |n| n.get());
    println!("{cores} cores; median of {ROUNDS} rounds; a look at the clock: {own} ticks, taken off");
    println!(
        "{:<12} {:>8} {:>9} {:>9} {:>12} {:>9}",
        "log", "threads", "p50 ns", "p99 ns", "max us", "dropped"
    );
    for threads in [1, 4, 16] {
        let mut figures: [Vec<Figures>; 2] = Default::default();
        // As in a program: the address is somewhere in memory, and the number has just been computed.
        let peer = black_box(SocketAddr::from(([10, 0, 0, 1], 6789)));
        for _ in 0..ROUNDS {
            let ring = Ring::start();
            figures[0].push(measure(threads, own, || log!(MSGR, 10, "sent {} frames to {}", frames(), peer)));
            figures[0].last_mut().expect("just added").dropped = ring.stop();
            let queue = MutexQueue::start();
            figures[1].push(measure(threads, own, || {
                queue.log(10, "msgr", format!("sent {} frames to {}", frames(), peer))
            }));
            queue.stop();
        }
        for (name, figures) in ["ring", "mutex queue"].iter().zip(&figures) {
            let (p50, p99) = (median(figures, |f| f.p50_ns), median(figures, |f| f.p99_ns));
            let (max, dropped) = (median(figures, |f| f.max_ns) / 1e3, median(figures, |f| f.dropped as f64));
            println!("{name:<12} {threads:>8} {p50:>9.1} {p99:>9.1} {max:>12.1} {dropped:>9}");
        }
        let p99 = |i: usize| median(&figures[i], |f| f.p99_ns);
        println!("{:<12} {threads:>8} p99 ÷ {:.0}", "", p99(1) / p99(0));
    }
}

fn frames() -> u64 {
    black_box(3)
}

#[derive(Default)]
struct Figures {
    p50_ns: f64,
    p99_ns: f64,
    max_ns: f64,
    dropped: u64,
}

fn median(figures: &[Figures], of: impl Fn(&Figures) -> f64) -> f64 {
    let mut values: Vec<f64> = figures.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn measure(threads: usize, own: u64, call: impl Fn() + Sync) -> Figures {
    let start = Barrier::new(threads);
    let began = (Instant::now(), ticks());
    let mut taken: Vec<u64> = thread::scope(|s| {
        let workers: Vec<_> =
            (0..threads).map(|_| s.spawn(|| work(&start, own, BUSY_TICKS * threads as u64, &call))).collect();
        workers.into_iter().flat_map(|w| w.join().expect("no panic")).collect()
    });
    let ns_per_tick = began.0.elapsed().as_nanos() as f64 / (ticks() - began.1) as f64;
    taken.sort_unstable();
    let at = |share: f64| taken[((taken.len() - 1) as f64 * share) as usize] as f64 * ns_per_tick;
    Figures { p50_ns: at(0.5), p99_ns: at(0.99), max_ns: at(1.0), dropped: 0 }
}

fn work(start: &Barrier, own: u64, busy: u64, call: &impl Fn()) -> Vec<u64> {
    let mut taken = vec![0; CALLS];
    call(); // creates the thread's ring
    start.wait();
    for time in &mut taken {
        let before = ticks();
        call();
        let after = ticks();
        *time = (after - before).saturating_sub(own);
        while ticks() - after < busy {
            std::hint::spin_loop();
        }
    }
    taken
}

fn clock_cost() -> u64 {
    let mut costs: Vec<u64> = (0..100_001)
        .map(|_| {
            let before = ticks();
            ticks() - before
        })
        .collect();
    costs.sort_unstable();
    costs[costs.len() / 2]
}

/// Reads the clock with fences on both sides, so that exactly the call is measured.
#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    use core::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: every x86-64 processor has both instructions.
    unsafe {
        _mm_lfence();
        let ticks = _rdtsc();
        _mm_lfence();
        ticks
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    use std::sync::LazyLock;
    static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
    BEGUN.elapsed().as_nanos() as u64
}

struct Ring(Logger, PathBuf);

impl Ring {
    fn start() -> Self {
        let path = std::env::temp_dir().join(format!("log-cost-ring.{}", std::process::id()));
        let logger = loligo_logring::start(Config::new(Sink::File(path.clone()))).expect("a log");
        assert!(flush(), "the log thread is there");
        Self(logger, path)
    }

    /// Returns the number of dropped entries, as reported in the log.
    fn stop(self) -> u64 {
        flush();
        self.0.stop();
        let text = std::fs::read_to_string(&self.1).expect("the log");
        let _ = std::fs::remove_file(&self.1);
        let reports = text.lines().filter(|line| line.contains(" entries dropped by "));
        reports.filter_map(|line| line.split(' ').nth(4)?.parse::<u64>().ok()).sum()
    }
}

/// One queue, one lock, one writer.
struct MutexQueue {
    shared: Arc<Shared>,
    writer: JoinHandle<()>,
    path: PathBuf,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<(VecDeque<String>, bool)>,
    added: Condvar,
    taken: Condvar,
}

impl MutexQueue {
    fn start() -> Self {
        let path = std::env::temp_dir().join(format!("log-cost-queue.{}", std::process::id()));
        let mut file = File::create(&path).expect("a file");
        let shared = Arc::<Shared>::default();
        let its = Arc::clone(&shared);
        let writer = thread::spawn(move || its.write(&mut file));
        Self { shared, writer, path }
    }

    fn log(&self, level: i8, subsys: &str, text: String) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let line = format!("{}.{:06} {level:2} {subsys}: {text}\n", now.as_secs(), now.subsec_micros());
        let mut guard = self.shared.queue.lock().expect("no panic");
        while guard.0.len() > QUEUE_MAX {
            guard = self.shared.taken.wait(guard).expect("no panic");
        }
        guard.0.push_back(line);
        self.shared.added.notify_one();
    }

    fn stop(self) {
        self.shared.queue.lock().expect("no panic").1 = true;
        self.shared.added.notify_one();
        self.writer.join().expect("no panic");
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Shared {
    fn write(&self, file: &mut File) {
        loop {
            let mut guard = self.queue.lock().expect("no panic");
            while guard.0.is_empty() && !guard.1 {
                guard = self.added.wait(guard).expect("no panic");
            }
            let lines = std::mem::take(&mut guard.0);
            drop(guard);
            self.taken.notify_all();
            if lines.is_empty() {
                return;
            }
            let text: String = lines.into_iter().collect();
            file.write_all(text.as_bytes()).expect("room on the disk");
        }
    }
}
