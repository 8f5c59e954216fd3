//! How a worker waits for requests when they come densely.
//!
//! A client with many requests in flight sends the next one while the last one is carried out. A worker that
//! sleeps until the socket wakes it is then woken by almost every request, which costs either side more than
//! the request itself, and the kernel likes to put it on the processor of the client that woke it, where both
//! take turns. So where requests come densely, a worker that has nothing left to do sleeps for a moment that
//! does not depend on the socket, as network cards hold back their interrupts, and then takes all that has
//! come.
//!
//! | it | as long as |
//! |---|---|
//! | is woken by each request | fewer than [`Pace::DENSE`] requests come a second, or the last trial did not pay |
//! | looks after a pause | as many come, and no fewer than before it began: that is tried again four times a second |
//!
//! A thread whose pauses last much longer than it asked shares its processor with one that runs all the time,
//! mostly the client itself, be another processor idle or not; the kernel takes up to a second to part them.
//! Then the thread asks to be put elsewhere.
//!
//! A pause is as long as eight requests take to come, 10 µs at least and what [`Pace::new`] was given at
//! most, and there is none after a look that found nothing. Measured in docs/measurements.

use std::cell::{Cell, RefCell};
use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Requests that a pause shall bring.
const GATHER: f64 = 8.0;
const PAUSE_MIN: Duration = Duration::from_micros(10);
/// How long is counted before it is judged, woken by each request and with pauses.
const WOKEN_WINDOW: Duration = Duration::from_millis(4);
const PAUSED_WINDOW: Duration = Duration::from_millis(8);
/// Windows with pauses before it is looked what comes without.
const WINDOWS_MAX: u32 = 32;
/// A trial has paid if so much of the former rate is left; what is lost by chance is less.
const KEPT_MIN: f64 = 0.85;
/// How long no trial is made after one that has not paid: doubled each time up to the second one.
const HOLD_MIN: Duration = Duration::from_millis(50);
const HOLD_MAX: Duration = Duration::from_secs(1);

/// What a pause may last longer than it was asked to.
const LATE: Duration = Duration::from_micros(500);
/// Late pauses one after the other before the thread goes elsewhere.
const LATE_MAX: u32 = 2;
/// How long it stays where it went, at least: doubled each time that it was late there, too, as it is where
/// all processors are busy.
const STAY_MIN: Duration = Duration::from_millis(20);
const STAY_MAX: Duration = Duration::from_secs(2);

thread_local! {
    static TAKEN: Cell<u32> = const { Cell::new(0) };
    static PACE: RefCell<Option<Pace>> = const { RefCell::new(None) };
}

/// This thread has taken so many requests.
pub(crate) fn taken(requests: u32) {
    TAKEN.set(TAKEN.get().wrapping_add(requests));
}

/// To be called by a worker that has nothing to do, before it sleeps until it is woken
/// ([`on_thread_park`](tokio::runtime::Builder::on_thread_park)): pauses, if that pays. `pause_max` is that
/// of [`Pace::new`].
pub fn before_sleep(pause_max: Duration) {
    let (taken, now) = (TAKEN.replace(0), Instant::now());
    let pause = PACE.with_borrow_mut(|pace| {
        let pace = pace.get_or_insert_with(|| {
            // Without it the kernel adds up to 50 µs. If it cannot be had pauses are longer, and are given up
            // if they do not pay.
            let _ = rustix::thread::set_current_timer_slack(NonZero::new(1));
            Pace::new(pause_max, now)
        });
        pace.pause(now, taken)
    });
    let Some(pause) = pause else { return };
    thread::sleep(pause);
    let woken = Instant::now();
    let is_displaced =
        PACE.with_borrow_mut(|pace| pace.as_mut().is_some_and(|pace| pace.paused(woken, woken - now, pause)));
    if is_displaced {
        // Where the kernel does not allow it, it stays where it is.
        let _ = go_elsewhere();
    }
}

/// Has the kernel put this thread on another processor than this one, of those that it may use.
fn go_elsewhere() -> rustix::io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let mut others = allowed;
    others.unset(sched_getcpu());
    if others.count() == 0 {
        return Ok(());
    }
    sched_setaffinity(None, &others)?;
    sched_setaffinity(None, &allowed)
}

/// One worker's: when to pause and for how long. It reads no clock.
#[derive(Debug)]
pub struct Pace {
    pause_max: Duration,
    window: Window,
    wait: Wait,
    /// Requests a second in the last window without pauses.
    woken_rate: f64,
    held_until: Instant,
    hold: Duration,
    /// Late pauses one after the other.
    late: u32,
    stays_until: Instant,
    stay: Duration,
}

#[derive(Debug)]
struct Window {
    began: Instant,
    requests: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Wait {
    Woken,
    Paused { pause: Duration, windows: u32 },
}

impl Pace {
    /// Requests a second from which on a worker may pause: with fewer there is little to gather.
    pub const DENSE: f64 = 40_000.0;

    /// Nothing has come yet. With a `pause_max` of 0 there is never a pause.
    pub fn new(pause_max: Duration, now: Instant) -> Self {
        Self {
            pause_max,
            window: Window { began: now, requests: 0 },
            wait: Wait::Woken,
            woken_rate: 0.0,
            held_until: now,
            hold: HOLD_MIN,
            late: 0,
            stays_until: now,
            stay: STAY_MIN,
        }
    }

    /// A pause that was to be so long has lasted so long: whether the thread should go elsewhere.
    pub fn paused(&mut self, now: Instant, lasted: Duration, pause: Duration) -> bool {
        let has_stayed = now >= self.stays_until;
        if lasted < pause + LATE {
            self.late = 0;
            self.stay = if has_stayed { STAY_MIN } else { self.stay };
            return false;
        }
        self.late += 1;
        let goes = self.late >= LATE_MAX && has_stayed;
        if goes {
            self.late = 0;
            // What came meanwhile says nothing of what pauses bring.
            self.window = Window { began: now, requests: 0 };
            self.stays_until = now + self.stay;
            self.stay = (self.stay * 2).min(STAY_MAX);
        }
        goes
    }

    /// What to do now that `taken` requests have been taken since the last call and there are no more: pause
    /// for so long, or sleep until the next one.
    pub fn pause(&mut self, now: Instant, taken: u32) -> Option<Duration> {
        if self.pause_max.is_zero() {
            return None;
        }
        self.window.requests = self.window.requests.saturating_add(taken);
        let elapsed = now.saturating_duration_since(self.window.began);
        let length = if self.wait == Wait::Woken { WOKEN_WINDOW } else { PAUSED_WINDOW };
        if elapsed >= length {
            let rate = f64::from(self.window.requests) / elapsed.as_secs_f64();
            self.wait = self.judge(now, rate);
            self.window = Window { began: now, requests: 0 };
        }
        match self.wait {
            Wait::Paused { pause, .. } if taken > 0 => Some(pause),
            _ => None,
        }
    }

    /// How to wait in the next window after one with so many requests a second.
    fn judge(&mut self, now: Instant, rate: f64) -> Wait {
        let Wait::Paused { pause, windows } = self.wait else {
            self.woken_rate = rate;
            let is_dense = rate >= Self::DENSE && now >= self.held_until;
            return if is_dense {
                Wait::Paused { pause: self.pause_for(rate), windows: 0 }
            } else {
                Wait::Woken
            };
        };
        if windows == 0 {
            let has_paid = rate >= KEPT_MIN * self.woken_rate;
            self.hold = if has_paid { HOLD_MIN } else { (self.hold * 2).min(HOLD_MAX) };
            if !has_paid {
                self.held_until = now + self.hold;
                return Wait::Woken;
            }
        }
        let is_over = rate < KEPT_MIN * Self::DENSE || windows + 1 == WINDOWS_MAX;
        if is_over { Wait::Woken } else { Wait::Paused { pause, windows: windows + 1 } }
    }

    fn pause_for(&self, rate: f64) -> Duration {
        Duration::from_secs_f64(GATHER / rate).max(PAUSE_MIN).min(self.pause_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE_MAX: Duration = Duration::from_micros(50);

    /// A worker's time: each cycle of `cycle` plus the pause brings what `brings` makes of it.
    struct Worker {
        pace: Pace,
        now: Instant,
        pauses: u32,
        cycles: u32,
    }

    impl Worker {
        fn new(pause_max: Duration) -> Self {
            let now = Instant::now();
            Self { pace: Pace::new(pause_max, now), now, pauses: 0, cycles: 0 }
        }

        fn run(&mut self, length: Duration, cycle: Duration, brings: impl Fn(Duration) -> u32) {
            let end = self.now + length;
            let mut pause = Duration::ZERO;
            while self.now < end {
                self.now += cycle + pause;
                pause = self.pace.pause(self.now, brings(cycle + pause)).unwrap_or_default();
                self.pauses += u32::from(!pause.is_zero());
                self.cycles += 1;
            }
        }
    }

    const CYCLE: Duration = Duration::from_micros(8);

    /// A request each 8 µs, whoever sleeps.
    fn steady(elapsed: Duration) -> u32 {
        (elapsed.as_micros() / 8) as u32
    }

    #[test]
    fn dense_requests_are_gathered() {
        let mut worker = Worker::new(PAUSE_MAX);
        worker.run(Duration::from_secs(1), CYCLE, steady);
        // 125,000 requests: with pauses of 50 µs they come by seven.
        assert!(worker.pauses > 15_000 && worker.cycles < 20_000, "{} of {}", worker.pauses, worker.cycles);
    }

    #[test]
    fn few_requests_are_not() {
        let mut worker = Worker::new(PAUSE_MAX);
        worker.run(Duration::from_secs(1), Duration::from_micros(26), |_| 1);
        assert_eq!(worker.pauses, 0);
        let mut never = Worker::new(Duration::ZERO);
        never.run(Duration::from_secs(1), CYCLE, steady);
        assert_eq!(never.pauses, 0);
    }

    #[test]
    fn a_client_that_waits_for_each_answer_is_not_held_up() {
        // One request per look, however long the pause.
        let mut worker = Worker::new(PAUSE_MAX);
        worker.run(Duration::from_secs(10), CYCLE, |_| 1);
        let share = f64::from(worker.pauses) / f64::from(worker.cycles);
        assert!(share < 0.005, "{share}");
    }

    #[test]
    fn pauses_end_with_the_load() {
        let mut worker = Worker::new(PAUSE_MAX);
        worker.run(Duration::from_secs(1), CYCLE, steady);
        // The last look may find something, and is paused after; then it sleeps as long as nothing comes.
        let before = worker.pauses;
        worker.run(Duration::from_secs(1), Duration::from_millis(1), |_| 1);
        assert!(worker.pauses - before <= 8, "{}", worker.pauses - before);
        worker.now += Duration::from_secs(1);
        assert_eq!(worker.pace.pause(worker.now, 0), None);
    }

    #[test]
    fn who_is_late_again_and_again_goes_elsewhere() {
        let mut now = Instant::now();
        let mut pace = Pace::new(PAUSE_MAX, now);
        let mut moves = |pace: &mut Pace, count: u32, lasted: u64| {
            let lasted = Duration::from_micros(lasted);
            let moved = (0..count).filter(|_| {
                now += lasted;
                pace.paused(now, lasted, PAUSE_MAX)
            });
            moved.count()
        };
        assert_eq!(moves(&mut pace, 10_000, 60), 0);
        assert_eq!(moves(&mut pace, 1, 3000) + moves(&mut pace, 1, 60) + moves(&mut pace, 1, 3000), 0);
        assert_eq!(moves(&mut pace, 1, 60) + moves(&mut pace, 2, 3000), 1, "at once");
        // Where it is late everywhere it soon stays: after 20 ms, 40, 80 and so on.
        let in_vain = moves(&mut pace, 1000, 3000);
        assert!((5..9).contains(&in_vain), "{in_vain}");
        assert_eq!(moves(&mut pace, 100_000, 60) + moves(&mut pace, 2, 3000), 1, "at once again");
    }

    #[test]
    fn late_pauses_do_not_speak_against_pauses() {
        let mut worker = Worker::new(PAUSE_MAX);
        worker.run(WOKEN_WINDOW + CYCLE, CYCLE, steady);
        assert!(matches!(worker.pace.wait, Wait::Paused { windows: 0, .. }), "{:?}", worker.pace.wait);
        for _ in 0..LATE_MAX {
            let lasted = Duration::from_millis(3);
            worker.now += lasted;
            worker.pace.paused(worker.now, lasted, PAUSE_MAX);
            worker.pace.pause(worker.now, 64);
        }
        worker.run(2 * PAUSED_WINDOW, CYCLE, steady);
        assert!(matches!(worker.pace.wait, Wait::Paused { windows: 1.., .. }), "{:?}", worker.pace.wait);
    }

    #[test]
    fn a_thread_goes_elsewhere_and_may_come_back() {
        let allowed = sched_getaffinity(None).expect("known");
        go_elsewhere().expect("allowed");
        assert_eq!(sched_getaffinity(None).expect("known"), allowed);
    }

    #[test]
    fn pauses_are_as_long_as_some_requests_take() {
        let now = Instant::now();
        let pause = |rate| Pace::new(PAUSE_MAX, now).pause_for(rate);
        assert_eq!(pause(100_000.0), PAUSE_MAX);
        assert_eq!(pause(400_000.0), Duration::from_micros(20));
        assert_eq!(pause(8e6), PAUSE_MIN);
    }
}
