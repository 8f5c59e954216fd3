//! Threads log lines: the cost of a call.
//!
//! Each thread logs `sent {} frames to {}` with a number and an address. Each call is timed separately,
//! and the cost of reading the clock is subtracted. In both forms threads log in bursts, with pauses in
//! which the writer can catch up: otherwise a log that drops entries would look fast, and one whose
//! callers wait for the disk slow.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, Write};
use std::mem;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use loligo_logring::{Config, Sink, flush, log, set_option};

use crate::measure::waited_for;
use crate::{About, Case, Error, Form, Metric, Sample, Setting, Source, Spread, Unit};

/// Calls in a burst: half of the capacity of the before's queue, far below that of a ring.
const BURST: usize = 500;
/// Pause between two bursts of a thread; the writer needs about 10 ms for the lines of 16 threads.
const PAUSE: Duration = Duration::from_millis(15);

/// Capacity of the before's queue; callers wait while it is full. (Ceph: `log_max_new`.)
const QUEUE_MAX: usize = 1000;

/// The case.
pub(super) struct Log {
    /// One setting for each number of logging threads.
    pub(super) threads: &'static [usize],
}

impl Default for Log {
    fn default() -> Self {
        Self { threads: &[1, 4, 16] }
    }
}

impl Case for Log {
    fn name(&self) -> &'static str {
        "log"
    }

    fn about(&self) -> About {
        About {
            title: "Everybody waits for the log",
            before: "One queue with one lock for the process: the caller formats its text, locks the queue, waits while it is \
                     full, adds its entry and wakes the thread that writes.",
            after: "loligo-logring: the caller writes a header and its raw arguments into its own thread's ring; another \
                    thread formats and writes.",
            note: "The published ratio is of the mean under high concurrency. A full ring drops entries and says so instead of \
                   making its caller wait; dropped entries are counted below.",
            source: Source {
                author: "Didi Cloud Storage",
                title: "Optimizing locks in Didi's Ceph (in Chinese), 4.2: the log's lock",
                date: "2020-09-08",
                url: "https://www.infoq.cn/article/Jv3GygMyVBgedrN84rAT",
            },
        }
    }

    fn settings(&self) -> Vec<Setting> {
        let setting = |threads: &usize| {
            // Published: nearly 90 % less, under high concurrency.
            let mean = Metric::lower("a call, mean", Unit::Ns);
            Setting {
                name: format!("{threads} thread{}", if *threads == 1 { "" } else { "s" }),
                metrics: vec![
                    Metric::lower("a call, p99", Unit::Ns),
                    Metric::lower("a call, p50", Unit::Ns),
                    if *threads > 4 { mean.published(10.0) } else { mean },
                    Metric::lower("a call, longest", Unit::Us),
                    Metric::lower("dropped entries, in a million", Unit::Count),
                ],
                spread_of: "time of a call",
            }
        };
        self.threads.iter().map(setting).collect()
    }

    fn measure(&self, setting: usize, form: Form, time: Duration) -> Result<Sample, Error> {
        let threads = self.threads[setting];
        let file = LogFile::new(form);
        loligo_lockstat::reset();
        match form {
            Form::Before => {
                let log = MutexQueue::start(&file)?;
                let calls = storm(threads, time, || {
                    log.submit(10, "msgr", format!("sent {} frames to {}", frames(), peer()));
                })?;
                log.stop()?;
                Ok(calls.sample(0))
            }
            Form::After => {
                set_option("debug_msgr", "10/10").map_err(Error::talk("set the log's level"))?;
                let started = loligo_logring::start(Config::new(Sink::File(file.0.clone())));
                let log = started.map_err(Error::talk("start the log"))?;
                let calls =
                    storm(threads, time, || log!(MSGR, 10, "sent {} frames to {}", frames(), peer()))?;
                flush();
                log.stop();
                let dropped = dropped(&fs::read_to_string(&file.0).map_err(Error::io("read the log"))?);
                Ok(calls.sample(dropped))
            }
        }
    }
}

fn frames() -> u64 {
    black_box(3)
}

fn peer() -> SocketAddr {
    black_box(SocketAddr::from(([10, 0, 0, 1], 6789)))
}

/// Sums up the dropped entries that the ring's log reports.
fn dropped(text: &str) -> u64 {
    let reports = text.lines().filter_map(|line| line.split_once(" entries dropped by "));
    reports.filter_map(|(before, _)| before.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// A file that is removed on drop.
struct LogFile(PathBuf);

impl LogFile {
    fn new(form: Form) -> Self {
        // Several runs may overlap in tests of one process.
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("loligo-contend-{}-{number}.{}.log", std::process::id(), form.name());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        // A temporary file: if this fails, the system removes it later.
        let _ = fs::remove_file(&self.0);
    }
}

/// The times of the calls.
struct Calls {
    spread: Spread,
    total: Duration,
}

impl Calls {
    fn sample(self, dropped: u64) -> Sample {
        let count = self.spread.count().max(1) as f64;
        let figures = vec![
            self.spread.quantile_ns(0.99) as f64,
            self.spread.quantile_ns(0.5) as f64,
            self.total.as_nanos() as f64 / count,
            self.spread.max_ns() as f64 / 1e3,
            dropped as f64 * 1e6 / count,
        ];
        Sample { figures, spread: self.spread, locks: waited_for() }
    }
}

/// Lets threads call in bursts for `time`.
fn storm(threads: usize, time: Duration, call: impl Fn() + Sync) -> Result<Calls, Error> {
    let clock = clock_cost();
    let gate = Barrier::new(threads);
    let (gate, call) = (&gate, &call);
    let body = move || {
        let mut calls = Calls { spread: Spread::new(), total: Duration::ZERO };
        call(); // initializes per-thread state
        gate.wait();
        let end = Instant::now() + time;
        while Instant::now() < end {
            for _ in 0..BURST {
                let began = Instant::now();
                call();
                let took = began.elapsed().saturating_sub(clock).max(Duration::from_nanos(1));
                calls.spread.add(took);
                calls.total += took;
            }
            thread::sleep(PAUSE);
        }
        calls
    };
    thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(body)).collect();
        let mut sum = Calls { spread: Spread::new(), total: Duration::ZERO };
        for thread in started {
            let calls = thread.join().map_err(|_| Error::talk("a logging thread")("it panicked"))?;
            sum.spread.merge(&calls.spread);
            sum.total += calls.total;
        }
        Ok(sum)
    })
}

/// The median time between two reads of the clock.
fn clock_cost() -> Duration {
    let mut costs: Vec<Duration> = (0..10_001).map(|_| Instant::now().elapsed()).collect();
    costs.sort_unstable();
    costs[costs.len() / 2]
}

/// The "before": one queue, one lock, one writer.
struct MutexQueue {
    shared: Arc<Shared>,
    writer: JoinHandle<io::Result<()>>,
}

/// The queue between callers and the writer. Both sleep on condition variables, so it needs a plain
/// mutex.
#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    added: Condvar,
    taken: Condvar,
}

#[derive(Default)]
struct Queue {
    entries: VecDeque<Entry>,
    /// The log has ended or failed: callers must not wait for it.
    closed: bool,
}

struct Entry {
    at: SystemTime,
    level: i8,
    subsys: &'static str,
    text: String,
}

impl MutexQueue {
    fn start(file: &LogFile) -> Result<Self, Error> {
        let mut file = File::create(&file.0).map_err(Error::io("make a log file"))?;
        let shared = Arc::<Shared>::default();
        let its = Arc::clone(&shared);
        let body = move || {
            let written = its.write(&mut file);
            its.close();
            written
        };
        let writer = thread::Builder::new().name("before.log".to_owned()).spawn(body);
        Ok(Self { shared, writer: writer.map_err(Error::io("start the log's thread"))? })
    }

    fn submit(&self, level: i8, subsys: &'static str, text: String) {
        let entry = Entry { at: SystemTime::now(), level, subsys, text };
        let mut queue = self.shared.queue();
        while queue.entries.len() >= QUEUE_MAX && !queue.closed {
            queue = self.shared.taken.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.entries.push_back(entry);
        drop(queue);
        self.shared.added.notify_one();
    }

    fn stop(self) -> Result<(), Error> {
        self.shared.close();
        let written = self.writer.join().map_err(|_| Error::talk("write the log")("its thread panicked"))?;
        written.map_err(Error::io("write the log"))
    }
}

impl Shared {
    fn write(&self, file: &mut File) -> io::Result<()> {
        let mut lines = String::new();
        loop {
            let mut queue = self.queue();
            while queue.entries.is_empty() {
                if queue.closed {
                    return Ok(());
                }
                queue = self.added.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            let entries = mem::take(&mut queue.entries);
            drop(queue);
            self.taken.notify_all();
            lines.clear();
            for Entry { at, level, subsys, text } in entries {
                let at = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                let (s, us) = (at.as_secs(), at.subsec_micros());
                // Writing to a string cannot fail.
                let _ = writeln!(lines, "{s}.{us:06} {level:2} {subsys}: {text}");
            }
            file.write_all(lines.as_bytes())?;
        }
    }

    fn close(&self) {
        self.queue().closed = true;
        self.added.notify_all();
        self.taken.notify_all();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_of_the_mutex_queue_is_written() {
        let file = LogFile::new(Form::Before);
        let log = MutexQueue::start(&file).unwrap();
        let many = 3 * QUEUE_MAX;
        (0..many).for_each(|n| log.submit(1, "test", format!("line {n}")));
        log.stop().unwrap();
        let text = fs::read_to_string(&file.0).unwrap();
        assert_eq!(text.lines().count(), many);
        assert!(text.lines().last().unwrap().ends_with(&format!(" 1 test: line {}", many - 1)));
    }

    #[test]
    fn dropped_entries_are_summed_up() {
        let text = "1.5 -1 log: 12 entries dropped by thread 7\n1.6  1 msgr: sent 3\n1.7 -1 log: 30 entries dropped by thread 8\n";
        assert_eq!(dropped(text), 42);
    }
}
