//! Six threads do long work under one lock, or a thread for each processor short work: what do those that wait cost?

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use loligo_lockstat::{Class, HeavyMutex};
use rustix::thread::futex;

use crate::measure::{thread_cpu, waited_for};
use crate::{About, Case, Error, Form, Metric, Sample, Setting, Source, Spread, Unit};

static LONG_HOLD: Class = Class::new("contend.long_hold");

/// CPU seconds of the six readers together, as published: (user + system) of each.
const PUBLISHED_BEFORE_CPU_S: f64 = 2.558 + 2.655 + 2.601 + 2.555 + 2.573 + 2.664;
const PUBLISHED_AFTER_CPU_S: f64 = 0.459 + 0.468 + 0.469 + 0.466 + 0.468 + 0.471;
/// The longest of the six wall times.
const PUBLISHED_BEFORE_WALL_S: f64 = 2.738;
const PUBLISHED_AFTER_WALL_S: f64 = 2.789;

/// The case.
pub(super) struct LongHold {
    /// That hold long.
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
            after: "loligo-lockstat's HeavyMutex, whose waiters sleep at once.",
            note: "At most one waiter spins on each processor besides the owner's, so with n processors the before burns at \
                   most n times the CPU of the after; the published machine had enough processors for all six.",
            source: Source {
                author: "Yafang Shao",
                title: "[RFC PATCH v2 1/3] locking/mutex: Add slow path variants for lock/unlock",
                date: "2026-03-11",
                url: "https://lore.kernel.org/linux-trace-kernel/20260311115250.78488-2-laoar.shao@gmail.com/",
            },
        }
    }

    fn settings(&self) -> Vec<Setting> {
        vec![Setting {
            name: format!("{} threads, long holds", self.threads),
            metrics: vec![
                Metric::lower("CPU time", Unit::S).published(PUBLISHED_BEFORE_CPU_S / PUBLISHED_AFTER_CPU_S),
                Metric::lower("CPU time, times that of one thread doing it all", Unit::Times)
                    .published(PUBLISHED_BEFORE_CPU_S / PUBLISHED_AFTER_CPU_S),
                Metric::lower("wall time", Unit::S)
                    .published(PUBLISHED_BEFORE_WALL_S / PUBLISHED_AFTER_WALL_S),
            ],
            spread_of: "",
        }]
    }

    fn measure(&self, _: usize, form: Form, time: Duration) -> Result<Sample, Error> {
        match form {
            Form::Before => self.long(&Optimistic::new(), time),
            Form::After => self.long(&HeavyMutex::new(&LONG_HOLD, ()), time),
        }
    }
}

impl LongHold {
    /// Each thread holds the lock once, for a twelfth of the time: half of it is one thread's that does the same alone.
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

/// A lock that can be held while something is done.
trait Exclusion: Sync {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R;
}

impl Exclusion for HeavyMutex<()> {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        let _guard = self.lock();
        f()
    }
}

/// Runs threads that start together; returns the wall time of all and the CPU time of each.
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

/// A fixed amount of work that touches no memory: `rounds` steps of a generator of random numbers.
fn work(rounds: u64) {
    let mut n = black_box(0x9e37_79b9_7f4a_7c15u64);
    for _ in 0..rounds {
        n ^= n << 13;
        n ^= n >> 7;
        n ^= n << 17;
    }
    black_box(n);
}

/// How many of its rounds this machine does in a second; found out once.
fn work_per_s() -> f64 {
    static PER_S: OnceLock<f64> = OnceLock::new();
    const ROUNDS: u64 = 10_000_000;
    *PER_S.get_or_init(|| {
        let before = thread_cpu();
        work(ROUNDS);
        ROUNDS as f64 / (thread_cpu() - before).max(Duration::from_nanos(1)).as_secs_f64()
    })
}

/// The "before": a mutex with optimistic spinning, as the kernel's.
///
/// In the kernel a waiter spins while the owner is on a processor and nobody else wants its own. A thread of a program sees
/// neither; it notices afterwards that it was interrupted, and then sleeps. The kernel queues its spinners, which matters on
/// machines with dozens of processors only.
struct Optimistic {
    state: AtomicU32,
}

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and somebody may be asleep.
const AWAITED: u32 = 2;

/// Looks at the lock between two looks at the clock: some microseconds.
const LOOKS: u32 = 64;
/// A spinner to whom so much time is lost between two looks at the clock has lost its processor.
const INTERRUPTED: Duration = Duration::from_micros(200);

impl Optimistic {
    const fn new() -> Self {
        Self { state: AtomicU32::new(FREE) }
    }

    fn lock(&self) {
        // Acquire here and below: the holder sees what earlier holders did.
        let taken = self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() && !self.spin(HELD) {
            self.sleep();
        }
    }

    /// True if the lock was got, with `mark` in it.
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
            // An error says that the word has changed or a signal came: look again.
            let _ = futex::wait(&self.state, futex::Flags::PRIVATE, AWAITED, None);
            // Who is woken spins again, as in the kernel; others may still sleep.
            if self.spin(AWAITED) {
                return;
            }
        }
    }

    fn unlock(&self) {
        // Release: the next holder sees what this one did.
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
    use std::sync::atomic::AtomicU64;

    use super::*;

    /// Two steps that are only right together if one thread at a time takes them.
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
