//! Six threads do long work under one lock, or up to six threads short work: CPU time of the waiters.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use loligo_lockstat::{AdaptiveMutex, Class, HeavyMutex};
use rustix::thread::futex;

use crate::measure::{thread_cpu, waited_for};
use crate::{About, Case, Error, Form, Metric, Sample, Setting, Source, Spread, Unit};

/// The lock of the "after".
static HELD_LOCK: Class = Class::new("contend.long_hold");

/// Steps of work under the lock and between two acquisitions with short holds: some tens of nanoseconds
/// each.
const SHORT_HOLD_ROUNDS: u64 = 32;
const SHORT_PAUSE_ROUNDS: u64 = 32;
/// Acquisitions between two reads of the clock.
const SHORT_BATCH: u64 = 256;

/// CPU seconds of the six readers together, as published: user + system time of each.
const PUBLISHED_BEFORE_CPU_S: f64 = 2.558 + 2.655 + 2.601 + 2.555 + 2.573 + 2.664;
const PUBLISHED_AFTER_CPU_S: f64 = 0.459 + 0.468 + 0.469 + 0.466 + 0.468 + 0.471;
/// The longest of the six wall times.
const PUBLISHED_BEFORE_WALL_S: f64 = 2.738;
const PUBLISHED_AFTER_WALL_S: f64 = 2.789;

/// The case.
pub(super) struct LongHold {
    /// Number of threads, with long holds.
    pub(super) threads: usize,
}

impl Default for LongHold {
    fn default() -> Self {
        Self { threads: 6 }
    }
}

impl Case for LongHold {
    fn name(&self) -> &'static str {
        "long-hold"
    }

    fn about(&self) -> About {
        About {
            title: "Waiters burn CPU on a long-held lock",
            before: "A mutex with optimistic spinning: who waits for it spins as long as its owner may be running, and sleeps \
                     only when it loses its processor.",
            after: "loligo-lockstat's HeavyMutex, whose waiters sleep at once, or its AdaptiveMutex, which learns from its own \
                    holds whether to spin.",
            note: "At most one waiter spins on each processor besides the owner's, so with n processors the before burns at \
                   most n times the CPU of the after; the published machine had enough processors for all six. Short holds \
                   are the counter-case: there spinning pays, and the adaptive lock must not lose to it.",
            source: Source {
                author: "Yafang Shao",
                title: "[RFC PATCH v2 1/3] locking/mutex: Add slow path variants for lock/unlock",
                date: "2026-03-11",
                url: "https://lore.kernel.org/linux-trace-kernel/20260311115250.78488-2-laoar.shao@gmail.com/",
            },
        }
    }

    fn settings(&self) -> Vec<Setting> {
        let long = |lock: &str| Setting {
            name: format!("{} threads, long holds, {lock}", self.threads),
            metrics: vec![
                Metric::lower("CPU time", Unit::S).published(PUBLISHED_BEFORE_CPU_S / PUBLISHED_AFTER_CPU_S),
                Metric::lower("CPU time, times that of one thread doing it all", Unit::Times)
                    .published(PUBLISHED_BEFORE_CPU_S / PUBLISHED_AFTER_CPU_S),
                Metric::lower("wall time", Unit::S)
                    .published(PUBLISHED_BEFORE_WALL_S / PUBLISHED_AFTER_WALL_S),
            ],
            spread_of: "",
        };
        let short = Setting {
            name: format!("{} threads, short holds, adaptive", self.short_threads()),
            metrics: vec![
                Metric::higher("acquisitions", Unit::PerS),
                Metric::lower("CPU time of an acquisition and its work", Unit::Ns),
            ],
            spread_of: "",
        };
        vec![long("heavy"), long("adaptive"), short]
    }

    fn measure(&self, setting: usize, form: Form, time: Duration) -> Result<Sample, Error> {
        match (form, Run::of(setting)) {
            (Form::Before, Run::Short) => self.short(&Optimistic::new(), time),
            (Form::Before, _) => self.long(&Optimistic::new(), time),
            (Form::After, Run::LongHeavy) => self.long(&HeavyMutex::new(&HELD_LOCK, ()), time),
            (Form::After, Run::LongAdaptive) => self.long(&AdaptiveMutex::new(&HELD_LOCK, ()), time),
            (Form::After, Run::Short) => self.short(&AdaptiveMutex::new(&HELD_LOCK, ()), time),
        }
    }
}

/// The settings, in the order of their index.
#[derive(Clone, Copy)]
enum Run {
    LongHeavy,
    LongAdaptive,
    Short,
}

impl Run {
    fn of(setting: usize) -> Self {
        [Run::LongHeavy, Run::LongAdaptive, Run::Short][setting]
    }
}

impl LongHold {
    /// Each thread holds the lock once, for time / (2 · threads). The other half of the time is used by
    /// one thread that does all the work alone.
    fn long(&self, lock: &impl Exclusion, time: Duration) -> Result<Sample, Error> {
        let hold = time / (2 * self.threads as u32);
        let rounds = (hold.as_secs_f64() * work_per_s()) as u64;
        if rounds == 0 {
            return Err(Error::NothingMeasured);
        }
        let alone = {
            let before = thread_cpu();
            (0..self.threads).for_each(|_| lock.with(|| work(rounds)));
            thread_cpu() - before
        };
        loligo_lockstat::reset();
        let (wall, cpu) = together(self.threads, |_| lock.with(|| work(rounds)))?;
        let cpu_s: f64 = cpu.iter().map(Duration::as_secs_f64).sum();
        let figures = vec![cpu_s, cpu_s / alone.as_secs_f64(), wall.as_secs_f64()];
        Ok(Sample { figures, spread: Spread::new(), locks: waited_for() })
    }
}

impl LongHold {
    /// One thread per processor, at least two and at most `threads`: a spinning waiter needs its own
    /// processor.
    fn short_threads(&self) -> usize {
        thread::available_parallelism().map_or(2, usize::from).clamp(2, self.threads.max(2))
    }

    /// The threads take the lock repeatedly until the time is over.
    fn short(&self, lock: &impl Exclusion, time: Duration) -> Result<Sample, Error> {
        let count = AtomicU64::new(0);
        loligo_lockstat::reset();
        let began = Instant::now();
        let (wall, cpu) = together(self.short_threads(), |_| {
            let mut own = 0;
            while began.elapsed() < time {
                for _ in 0..SHORT_BATCH {
                    lock.with(|| work(SHORT_HOLD_ROUNDS));
                    work(SHORT_PAUSE_ROUNDS);
                }
                own += SHORT_BATCH;
            }
            // Relaxed: a counter that is read after the threads have been joined.
            count.fetch_add(own, Ordering::Relaxed);
        })?;
        let count = count.into_inner();
        if count == 0 {
            return Err(Error::NothingMeasured);
        }
        let cpu_ns: f64 = cpu.iter().map(|cpu| cpu.as_nanos() as f64).sum();
        let figures = vec![count as f64 / wall.as_secs_f64(), cpu_ns / count as f64];
        Ok(Sample { figures, spread: Spread::new(), locks: waited_for() })
    }
}

/// A lock that can be held during a closure.
trait Exclusion: Sync {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R;
}

impl Exclusion for HeavyMutex<()> {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        let _guard = self.lock();
        f()
    }
}

impl Exclusion for AdaptiveMutex<()> {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        let _guard = self.lock();
        f()
    }
}

/// Runs threads that start together; returns the total wall time and the CPU time of each thread.
fn together(threads: usize, body: impl Fn(usize) + Sync) -> Result<(Duration, Vec<Duration>), Error> {
    let gate = Barrier::new(threads + 1);
    let (gate, body) = (&gate, &body);
    thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .map(|number| {
                scope.spawn(move || {
                    gate.wait();
                    let before = thread_cpu();
                    body(number);
                    thread_cpu() - before
                })
            })
            .collect();
        gate.wait();
        let began = Instant::now();
        let cpu: Result<Vec<Duration>, Error> = started
            .into_iter()
            .map(|t| t.join().map_err(|_| Error::talk("a thread")("it panicked")))
            .collect();
        Ok((began.elapsed(), cpu?))
    })
}

/// A fixed amount of work that touches no memory: `rounds` steps of a random number generator.
fn work(rounds: u64) {
    let mut n = black_box(0x9e37_79b9_7f4a_7c15u64);
    for _ in 0..rounds {
        n ^= n << 13;
        n ^= n >> 7;
        n ^= n << 17;
    }
    black_box(n);
}

/// Rounds of `work` that this machine does per second; measured once.
fn work_per_s() -> f64 {
    static PER_S: OnceLock<f64> = OnceLock::new();
    const ROUNDS: u64 = 10_000_000;
    *PER_S.get_or_init(|| {
        let before = thread_cpu();
        work(ROUNDS);
        ROUNDS as f64 / (thread_cpu() - before).max(Duration::from_nanos(1)).as_secs_f64()
    })
}

/// The "before": a mutex with optimistic spinning, like the kernel's.
///
/// In the kernel a waiter spins while the owner is running and no other task needs the waiter's
/// processor. A thread of a program can observe neither. It only notices afterwards that it was
/// interrupted, and then sleeps. The kernel also queues its spinners, which matters only on machines
/// with dozens of processors.
struct Optimistic {
    state: AtomicU32,
}

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and a waiter may be asleep.
const AWAITED: u32 = 2;

/// Polls of the lock between two reads of the clock: some microseconds.
const LOOKS: u32 = 64;
/// A spinner that loses this much time between two reads of the clock was preempted.
const INTERRUPTED: Duration = Duration::from_micros(200);

impl Optimistic {
    const fn new() -> Self {
        Self { state: AtomicU32::new(FREE) }
    }

    fn lock(&self) {
        // Acquire here and below: the holder sees the effects of earlier holders.
        let taken = self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() && !self.spin(HELD) {
            self.sleep();
        }
    }

    /// Returns `true` if the lock was acquired, with the state `mark`.
    fn spin(&self, mark: u32) -> bool {
        let mut looked = Instant::now();
        loop {
            for _ in 0..LOOKS {
                if self.state.load(Ordering::Relaxed) == FREE
                    && self.state.compare_exchange(FREE, mark, Ordering::Acquire, Ordering::Relaxed).is_ok()
                {
                    return true;
                }
                spin_loop();
            }
            let now = Instant::now();
            if now - looked > INTERRUPTED {
                return false;
            }
            looked = now;
        }
    }

    #[cold]
    fn sleep(&self) {
        while self.state.swap(AWAITED, Ordering::Acquire) != FREE {
            // An error means that the word has changed or a signal arrived: check again.
            let _ = futex::wait(&self.state, futex::Flags::PRIVATE, AWAITED, None);
            // A woken waiter spins again, as in the kernel; others may still sleep.
            if self.spin(AWAITED) {
                return;
            }
        }
    }

    fn unlock(&self) {
        // Release: the next holder sees the effects of this one.
        if self.state.swap(FREE, Ordering::Release) == AWAITED {
            let _ = futex::wake(&self.state, futex::Flags::PRIVATE, 1);
        }
    }
}

impl Exclusion for Optimistic {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        self.lock();
        let result = f();
        self.unlock();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The increment is a load and a store, correct only if the lock excludes other threads.
    #[test]
    fn one_thread_at_a_time_is_in_the_optimistic_mutex() {
        const EACH: u64 = 20_000;
        let (lock, count) = (Optimistic::new(), AtomicU64::new(0));
        together(8, |_| {
            for _ in 0..EACH {
                lock.with(|| count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed));
            }
        })
        .unwrap();
        assert_eq!(count.into_inner(), 8 * EACH);
    }
}
