//! Goal: the counts match the events. Method: several threads make a million random acquisitions of
//! locks of all types, while each thread counts its own acquisitions and measures them with its own
//! clock readings. In addition, contentions whose number is known exactly, since the holder waits until
//! the kernel reports that the other thread sleeps.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use loligo_lockstat::{
    AdaptiveMutex, Class, ClassReport, HeavyMutex, Kind, Mode, Mutex, Report, RwLock, SpinLock, report,
    reset, set_mode,
};

static MUTEX: Class = Class::new("t.oracle.mutex");
static SPIN: Class = Class::new("t.oracle.spin");
static HEAVY: Class = Class::new("t.oracle.heavy");
static ADAPTIVE: Class = Class::new("t.oracle.adaptive");
static RW: Class = Class::new("t.oracle.rw");
static KNOWN: Class = Class::new("t.oracle.known");

const THREADS: usize = 4;
const OPS: usize = if cfg!(miri) { 200 } else { 250_000 };
/// The class and kind of each way, in the order of [`Tally`].
const WAYS: [(&Class, Kind); 6] = [
    (&MUTEX, Kind::Exclusive),
    (&SPIN, Kind::Exclusive),
    (&HEAVY, Kind::Exclusive),
    (&ADAPTIVE, Kind::Exclusive),
    (&RW, Kind::Write),
    (&RW, Kind::Read),
];

/// Per way: how often a lock was taken, by `lock` and `try_lock`, and the total time from before the
/// call until after the release.
type Tally = [(u64, Duration); WAYS.len()];

/// A single test, since the mode and the counts are per process.
#[test]
fn counts_are_exact_and_times_are_within_the_clocks_grain() {
    set_mode(Mode::Exact);
    million();
    set_mode(Mode::Contended);
    known_contentions();
}

fn million() {
    reset();
    let before = report();
    let locks = Locks::new();
    let stop_reading = AtomicBool::new(false);
    let tallies: Vec<Tally> = thread::scope(|s| {
        // Reports made meanwhile disturb nothing, and never decrease.
        let reader = s.spawn(|| watch(&stop_reading));
        let workers: Vec<_> = (0..THREADS)
            .map(|i| {
                s.spawn({
                    let locks = &locks;
                    move || work(locks, i as u64)
                })
            })
            .collect();
        let tallies = workers.into_iter().map(|w| w.join().expect("no panic")).collect();
        stop_reading.store(true, Ordering::Relaxed);
        reader.join().expect("no panic");
        tallies
    });
    let report = report().since(&before);
    for (way, (class, kind)) in WAYS.iter().enumerate() {
        let taken: u64 = tallies.iter().map(|t| t[way].0).sum();
        let spent: Duration = tallies.iter().map(|t| t[way].1).sum();
        let seen = find(&report, class.name(), *kind);
        assert_eq!(seen.acquisitions, taken, "{} {kind:?}", class.name());
        assert_eq!(seen.hold.count, taken);
        assert_eq!(seen.holders.iter().map(|s| s.times.count).sum::<u64>(), taken);
        assert_eq!(seen.waiters.iter().map(|s| s.count).sum::<u64>(), seen.contentions);
        assert!(seen.contentions <= taken && seen.con_bounces <= seen.contentions);
        assert!(seen.acq_bounces <= seen.acquisitions);
        // Waits and holds lie within the times that the threads measured around them; the rates of both
        // clocks agree to 1 in 1,000.
        let measured = seen.wait.total_ns + seen.hold.total_ns;
        assert!(measured as f64 <= spent.as_nanos() as f64 * 1.001, "{measured} ns within {spent:?}");
    }
    let taken = tallies.iter().flatten().map(|t| t.0).sum::<u64>();
    assert_eq!(locks.into_sum(), taken, "none of them was given to two at a time");
}

fn watch(stop: &AtomicBool) {
    let mut last = 0;
    while !stop.load(Ordering::Relaxed) {
        let now = report().classes.iter().map(|c| c.acquisitions).sum();
        assert!(now >= last, "{now} after {last}");
        last = now;
        thread::yield_now();
    }
}

struct Locks {
    mutex: Mutex<u64>,
    spin: SpinLock<u64>,
    heavy: HeavyMutex<u64>,
    adaptive: AdaptiveMutex<u64>,
    rw: RwLock<u64>,
    reads: AtomicU64,
}

impl Locks {
    fn new() -> Self {
        Self {
            mutex: Mutex::new(&MUTEX, 0),
            spin: SpinLock::new(&SPIN, 0),
            heavy: HeavyMutex::new(&HEAVY, 0),
            adaptive: AdaptiveMutex::new(&ADAPTIVE, 0),
            rw: RwLock::new(&RW, 0),
            reads: AtomicU64::new(0),
        }
    }

    /// Takes a lock; false if `try_lock` has failed.
    fn take(&self, way: usize, tries: bool) -> bool {
        let add = |value: &mut u64| {
            *value += 1;
            true
        };
        match (way, tries) {
            (0, false) => add(&mut self.mutex.lock()),
            (0, true) => self.mutex.try_lock().is_some_and(|mut v| add(&mut v)),
            (1, false) => add(&mut self.spin.lock()),
            (1, true) => self.spin.try_lock().is_some_and(|mut v| add(&mut v)),
            (2, false) => add(&mut self.heavy.lock()),
            (2, true) => self.heavy.try_lock().is_some_and(|mut v| add(&mut v)),
            (3, false) => add(&mut self.adaptive.lock()),
            (3, true) => self.adaptive.try_lock().is_some_and(|mut v| add(&mut v)),
            (4, false) => add(&mut self.rw.write()),
            (4, true) => self.rw.try_write().is_some_and(|mut v| add(&mut v)),
            (_, false) => self.read(&self.rw.read()),
            (_, true) => self.rw.try_read().is_some_and(|v| self.read(&v)),
        }
    }

    fn read(&self, _value: &u64) -> bool {
        self.reads.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn into_sum(self) -> u64 {
        let locked = [
            self.mutex.into_inner(),
            self.spin.into_inner(),
            self.heavy.into_inner(),
            self.adaptive.into_inner(),
            self.rw.into_inner(),
        ];
        locked.iter().sum::<u64>() + self.reads.into_inner()
    }
}

fn work(locks: &Locks, seed: u64) -> Tally {
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (seed << 32) | 1);
    let mut tally = Tally::default();
    for _ in 0..OPS {
        let (way, tries) = (random.below(WAYS.len() as u64) as usize, random.below(8) == 0);
        let began = Instant::now();
        if locks.take(way, tries) {
            tally[way].0 += 1;
            tally[way].1 += began.elapsed();
        }
        if random.below(64) == 0 {
            thread::yield_now();
        }
    }
    tally
}

/// xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// In each round a thread holds the lock until another sleeps for it: as many contentions as rounds.
fn known_contentions() {
    const ROUNDS: u64 = if cfg!(miri) { 0 } else { 100 };
    reset();
    let lock = HeavyMutex::new(&KNOWN, ());
    let turn = Barrier::new(2);
    let waiter = AtomicI32::new(0);
    let (mut held, mut spent) = (Duration::ZERO, Duration::ZERO);
    thread::scope(|s| {
        s.spawn(|| {
            for _ in 0..ROUNDS {
                turn.wait();
                // SAFETY: takes no argument and accesses no memory of this process.
                waiter.store(unsafe { libc::gettid() }, Ordering::Release);
                let began = Instant::now();
                drop(lock.lock());
                spent += began.elapsed();
                waiter.store(0, Ordering::Release);
                turn.wait();
            }
        });
        for _ in 0..ROUNDS {
            let guard = lock.lock();
            turn.wait();
            while !sleeps(waiter.load(Ordering::Acquire)) {
                thread::yield_now();
            }
            let began = Instant::now();
            thread::yield_now();
            held += began.elapsed();
            drop(guard);
            turn.wait();
        }
    });
    if ROUNDS == 0 {
        return;
    }
    let seen = find(&report(), "t.oracle.known", Kind::Exclusive);
    assert_eq!((seen.contentions, seen.wait.count, seen.acquisitions), (ROUNDS, ROUNDS, 0));
    assert_eq!((seen.waiters.len(), seen.holders.len()), (1, 1), "one place each");
    assert_eq!((seen.waiters[0].count, seen.holders[0].count), (ROUNDS, ROUNDS));
    // A wait includes the time that the holder measured, and lies within the time that the waiter
    // measured.
    let (least, most) = (held.as_nanos() as f64 * 0.999, spent.as_nanos() as f64 * 1.001);
    let waited = seen.wait.total_ns as f64;
    assert!(least <= waited && waited <= most, "{waited} ns, held {held:?}, spent {spent:?}");
}

/// Whether a thread that is about to take the lock is asleep. It sleeps nowhere else on its way.
fn sleeps(thread: i32) -> bool {
    // "tid (name) S …": the state follows the name.
    let stat = match thread {
        0 => return false,
        tid => fs::read_to_string(format!("/proc/self/task/{tid}/stat")).expect("a thread of ours"),
    };
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'))
}

fn find(report: &Report, name: &str, kind: Kind) -> ClassReport {
    let found = report.classes.iter().find(|c| c.name == name && c.kind == kind);
    found.unwrap_or_else(|| panic!("nothing of {name} {kind:?}")).clone()
}
