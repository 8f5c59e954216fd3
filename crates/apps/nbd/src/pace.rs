//! How a worker waits for requests when they arrive densely.
//!
//! A client with many requests in flight sends the next request while the last one is carried out. A
//! worker that sleeps until the socket wakes it is then woken by almost every request. Each wakeup costs
//! both sides more than the request itself, and the kernel tends to place the worker on the processor of
//! the client that woke it, where the two then alternate. Therefore, when requests arrive densely, an
//! idle worker sleeps for a short time that does not depend on the socket, as network cards moderate
//! their interrupts, and then handles everything that has arrived.
//!
//! | the worker | as long as |
//! |---|---|
//! | is woken by each request | fewer than [`Pace::DENSE`] requests arrive per second, or pauses do not pay |
//! | polls after a pause | as many arrive, and pauses have paid: no fewer arrive than without |
//!
//! Four times a second the rate without pauses is measured again.
//!
//! If a thread's pauses last much longer than requested, the thread shares its processor with one that
//! runs all the time, mostly the client itself, even if another processor is idle. The kernel takes up
//! to a second to separate them. In that case the thread asks the kernel to move it to another
//! processor.
//!
//! A pause lasts as long as eight requests take to arrive, at least 10 µs and at most the `pause_max` of
//! [`Pace::new`]. A poll that found no request is not followed by a pause. Figures are in
//! docs/measurements.

use std::cell::{Cell, RefCell};
use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Requests that a pause should gather.
const GATHER: f64 = 8.0;
const PAUSE_MIN: Duration = Duration::from_micros(10);
/// Lengths of the measured windows, without pauses (woken by each request) and with them.
const WOKEN_WINDOW: Duration = Duration::from_millis(4);
const PAUSED_WINDOW: Duration = Duration::from_millis(8);
/// Number of windows with pauses before the rate without pauses is measured again.
const WINDOWS_MAX: u32 = 32;
/// A trial has paid if at least this share of the rate without pauses is left; random fluctuation is
/// smaller.
const KEPT_MIN: f64 = 0.85;
/// Time without trials after one that has not paid: doubled each time, up to `HOLD_MAX`.
const HOLD_MIN: Duration = Duration::from_millis(50);
const HOLD_MAX: Duration = Duration::from_secs(1);

/// A pause is late if it lasts this much longer than requested.
const LATE: Duration = Duration::from_micros(500);
/// Consecutive late pauses before the thread moves to another processor.
const LATE_MAX: u32 = 2;
/// Minimum time between two moves of the thread: doubled each time pauses are late after a move too, as
/// they are when all processors are busy.
const STAY_MIN: Duration = Duration::from_millis(20);
const STAY_MAX: Duration = Duration::from_secs(2);

thread_local! {
    static TAKEN: Cell<u32> = const { Cell::new(0) };
    static PACE: RefCell<Option<Pace>> = const { RefCell::new(None) };
}

/// Counts requests that this thread has taken.
pub(crate) fn taken(requests: u32) {
    TAKEN.set(TAKEN.get().wrapping_add(requests));
}

/// Pauses, if that pays. A worker calls it when it has nothing to do, before it sleeps until it is woken
/// ([`on_thread_park`](tokio::runtime::Builder::on_thread_park)). `pause_max` is that of [`Pace::new`].
pub fn before_sleep(pause_max: Duration) {
    let (taken, now) = (TAKEN.replace(0), Instant::now());
    let pause = PACE.with_borrow_mut(|pace| {
        let pace = pace.get_or_insert_with(|| {
            // The default timer slack adds up to 50 µs. If it cannot be lowered, pauses are longer, and are
            // given up if they do not pay.
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
        // If the kernel refuses, the thread stays on its processor.
        let _ = go_elsewhere();
    }
}

/// Makes the kernel move this thread to another of the processors that it may use.
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

/// Decides when one worker pauses and for how long. It does not read the clock.
#[derive(Debug)]
pub struct Pace {
    pause_max: Duration,
    window: Window,
    wait: Wait,
    /// Requests per second in the last window without pauses.
    woken_rate: f64,
    held_until: Instant,
    hold: Duration,
    /// Consecutive late pauses.
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
    /// Requests per second from which on a worker may pause: at lower rates a pause gathers too little.
    pub const DENSE: f64 = 40_000.0;

    /// Creates the state of a worker that has taken no request. With a `pause_max` of 0 it never pauses.
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

    /// Records that a pause requested as `pause` has taken `lasted`. Returns whether the thread should
    /// move to another processor.
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
            // The requests of this window do not show the effect of pauses.
            self.window = Window { began: now, requests: 0 };
            self.stays_until = now + self.stay;
            self.stay = (self.stay * 2).min(STAY_MAX);
        }
        goes
    }

    /// Called when the worker has taken `taken` requests since the last call and no more are there.
    /// Returns the length of the pause to make, or `None` if the worker should sleep until the next
    /// request.
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

    /// Returns how to wait in the next window, after one with `rate` requests per second.
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

    /// Simulates a worker: a cycle takes `cycle` plus the pause, and yields as many requests as `brings`
    /// returns.
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

    /// One request per 8 µs, independent of the worker.
    fn steady(elapsed: Duration) -> u32 {
        (elapsed.as_micros() / 8) as u32
    }

    #[test]
    fn dense_requests_are_gathered() {
        let mut worker = Worker::new(PAUSE_MAX);
        worker.run(Duration::from_secs(1), CYCLE, steady);
        // 125,000 requests: with pauses of 50 µs about seven arrive per cycle.
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
        // One request per poll, however long the pause.
        let mut worker = Worker::new(PAUSE_MAX);
        worker.run(Duration::from_secs(10), CYCLE, |_| 1);
        let share = f64::from(worker.pauses) / f64::from(worker.cycles);
        assert!(share < 0.005, "{share}");
    }

    #[test]
    fn pauses_end_with_the_load() {
        let mut worker = Worker::new(PAUSE_MAX);
        worker.run(Duration::from_secs(1), CYCLE, steady);
        // The last polls may find requests and be followed by pauses; then the worker sleeps until
        // requests arrive.
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
        // If pauses are late everywhere, moves soon become rare: after 20 ms, 40 ms, 80 ms and so on.
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
