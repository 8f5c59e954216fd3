//! The number of bytes to keep in flight: as many as the path holds in both directions.
//!
//! A path holds its bandwidth times its delay. With fewer bytes in flight the path idles between an
//! answer and the next request; many more only wait in queues and take memory. Bandwidth and delay are
//! measured on the stream's own requests, as BBR does for TCP (Cardwell et al., "BBR: Congestion-Based
//! Congestion Control", 2016): the delay is the shortest recent answer time, the bandwidth is the
//! largest rate at which bytes were answered during the time of one request. The window is twice their
//! product, so that an increase of the bandwidth is noticed.
//!
//! ```text
//!   Startup ── the rate has not grown by a quarter for three rounds ──▶ Cruise ◀─── one answer ───┐
//!   (doubles each round)                                               │                          │
//!                                                                      └─ no new shortest delay ─▶ Probe
//!                                                                         for ten seconds         (as little as may be)
//! ```
//!
//! A round ends when a request that was sent after the round's start is answered. The time is an
//! argument of all functions, so they are tested on simulated paths.

use std::time::Duration;

/// Rounds over which the largest rate is taken.
const RATE_ROUNDS: usize = 10;
/// Rounds without growth after which startup ends.
const FLAT_ROUNDS_MAX: u32 = 3;
/// If the shortest delay is not measured again for this long, it is measured anew, with little in
/// flight.
const DELAY_AGE_MAX: Duration = Duration::from_secs(10);
/// The factor by which the window exceeds the product of bandwidth and delay.
const GAIN: f64 = 2.0;

/// The bytes in flight, and their limit. Times are relative to any fixed moment.
#[derive(Clone, Debug)]
pub struct Window {
    min: u64,
    max: u64,
    /// The most bytes that may be in flight.
    size: u64,
    under_way: u64,
    /// All bytes ever answered, and the time of the last answer.
    answered: u64,
    answered_at: Duration,
    state: State,
    /// The value of `answered` at which this round ends.
    round_ends: u64,
    /// The largest rate of each of the last rounds, in bytes per second; the first is that of the
    /// current round.
    rates: [f64; RATE_ROUNDS],
    delay: Option<Duration>,
    delay_measured: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Startup {
        best: f64,
        flat_rounds: u32,
    },
    Cruise,
    /// Waits for the answer to a request sent after `since`.
    Probe {
        since: Duration,
    },
}

/// The state of the window when a request was sent, needed when it is answered.
#[derive(Clone, Copy, Debug)]
#[must_use = "Window::answered wants it"]
pub struct Ticket {
    bytes: u64,
    sent: Duration,
    answered: u64,
    answered_at: Duration,
}

impl Window {
    /// A window between `min` and `max` bytes, initially `min`. One request is always allowed.
    pub fn new(min: u64, max: u64) -> Self {
        let max = max.max(min);
        Self {
            min,
            max,
            size: min,
            under_way: 0,
            answered: 0,
            answered_at: Duration::ZERO,
            state: State::Startup { best: 0.0, flat_rounds: 0 },
            round_ends: 0,
            rates: [0.0; RATE_ROUNDS],
            delay: None,
            delay_measured: Duration::ZERO,
        }
    }

    /// The most bytes that may be in flight.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The bytes in flight.
    pub fn under_way(&self) -> u64 {
        self.under_way
    }

    /// Whether `bytes` more bytes may be sent.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.under_way == 0 || self.under_way + bytes <= self.size
    }

    /// Records that `bytes` bytes are sent.
    pub fn sent(&mut self, now: Duration, bytes: u64) -> Ticket {
        if self.under_way == 0 {
            // Time without a request in flight says nothing about the path.
            self.answered_at = now;
        }
        self.under_way += bytes;
        Ticket { bytes, sent: now, answered: self.answered, answered_at: self.answered_at }
    }

    /// Records that the request with this ticket was answered.
    pub fn answered(&mut self, now: Duration, ticket: Ticket) {
        self.under_way -= ticket.bytes;
        self.answered += ticket.bytes;
        self.answered_at = self.answered_at.max(now);
        self.note_delay(now, now.saturating_sub(ticket.sent), ticket.sent);
        let took = now.saturating_sub(ticket.answered_at).as_secs_f64();
        if took > 0.0 {
            let rate = (self.answered - ticket.answered) as f64 / took;
            self.rates[0] = self.rates[0].max(rate);
        }
        if ticket.answered >= self.round_ends {
            self.end_round();
        }
        self.resize();
    }

    /// Records that the request with this ticket will not be answered.
    pub fn lost(&mut self, ticket: Ticket) {
        self.under_way -= ticket.bytes;
    }

    fn note_delay(&mut self, now: Duration, delay: Duration, sent: Duration) {
        let probed = matches!(self.state, State::Probe { since } if sent >= since);
        if probed || self.delay.is_none_or(|shortest| delay <= shortest) {
            self.delay = Some(delay);
            self.delay_measured = now;
            if probed {
                self.state = State::Cruise;
            }
        } else if self.state == State::Cruise && now.saturating_sub(self.delay_measured) > DELAY_AGE_MAX {
            self.state = State::Probe { since: now };
        }
    }

    fn end_round(&mut self) {
        self.round_ends = self.answered + self.under_way;
        if let State::Startup { best, flat_rounds } = &mut self.state {
            if self.rates[0] >= *best * 1.25 {
                (*best, *flat_rounds) = (self.rates[0], 0);
            } else {
                *flat_rounds += 1;
            }
            if *flat_rounds >= FLAT_ROUNDS_MAX {
                self.state = State::Cruise;
            } else {
                self.size = (self.size * 2).min(self.max);
            }
        }
        self.rates.rotate_right(1);
        self.rates[0] = 0.0;
    }

    fn resize(&mut self) {
        match self.state {
            State::Startup { .. } => {}
            State::Probe { .. } => self.size = self.min,
            State::Cruise => {
                let rate = self.rates.iter().copied().fold(0.0, f64::max);
                let held = GAIN * rate * self.delay.unwrap_or_default().as_secs_f64();
                self.size = (held as u64).clamp(self.min, self.max);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const MIB: u64 = 1 << 20;

    /// A path that carries `rate` bytes per second, adds `delay`, and keeps the order.
    struct Path {
        rate: f64,
        delay: Duration,
        busy_until: Duration,
        under_way: VecDeque<(Duration, Ticket)>,
        now: Duration,
    }

    impl Path {
        fn new(rate: f64, delay_ms: u64) -> Self {
            let delay = Duration::from_millis(delay_ms);
            Self { rate, delay, busy_until: Duration::ZERO, under_way: VecDeque::new(), now: Duration::ZERO }
        }

        /// Sends requests of `bytes` whenever there is room, until `until`. Returns the rate over that
        /// time.
        fn run(&mut self, window: &mut Window, bytes: u64, until: Duration) -> f64 {
            let (begun, mut carried) = (self.now, 0);
            while self.now < until {
                while window.has_room(bytes) {
                    let starts = self.now.max(self.busy_until);
                    self.busy_until = starts + Duration::from_secs_f64(bytes as f64 / self.rate);
                    let ticket = window.sent(self.now, bytes);
                    self.under_way.push_back((self.busy_until + self.delay, ticket));
                }
                let (at, ticket) = self.under_way.pop_front().expect("something is always under way");
                self.now = at;
                window.answered(at, ticket);
                carried += bytes;
            }
            carried as f64 / (self.now - begun).as_secs_f64()
        }
    }

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    /// On paths from loopback to the other side of the world, the path is fully used, and the window is
    /// no larger than that requires.
    #[test]
    fn the_path_is_filled_and_not_more() {
        for (rate, delay) in [(100e6, 1), (1e9, 20), (1e9, 1), (50e6, 200), (5e6, 5)] {
            let mut path = Path::new(rate, delay);
            let mut window = Window::new(2 * MIB, 256 * MIB);
            path.run(&mut window, MIB, secs(4));
            let carried = path.run(&mut window, MIB, secs(9));
            assert!(carried > 0.95 * rate, "{rate} {delay}: {carried}");
            let holds = rate * (path.delay.as_secs_f64() + MIB as f64 / rate);
            let size = window.size() as f64;
            assert!(size <= 2.1 * holds.max(MIB as f64), "{rate} {delay}: {size} of {holds}");
        }
    }

    #[test]
    fn a_path_that_gets_faster_is_filled_again() {
        let mut path = Path::new(50e6, 50);
        let mut window = Window::new(2 * MIB, 256 * MIB);
        path.run(&mut window, MIB, secs(3));
        path.rate = 800e6;
        path.run(&mut window, MIB, secs(8));
        let carried = path.run(&mut window, MIB, secs(10));
        assert!(carried > 0.9 * path.rate, "{carried}");
    }

    /// The shortest delay expires, otherwise the window would keep the size that the short path needed.
    #[test]
    fn a_path_that_gets_longer_is_filled_again() {
        let mut path = Path::new(400e6, 5);
        let mut window = Window::new(2 * MIB, 256 * MIB);
        path.run(&mut window, MIB, secs(3));
        path.delay = Duration::from_millis(100);
        let at_first = path.run(&mut window, MIB, secs(6));
        assert!(at_first < 0.5 * path.rate, "{at_first}");
        path.run(&mut window, MIB, secs(40));
        let carried = path.run(&mut window, MIB, secs(48));
        assert!(carried > 0.9 * path.rate, "{carried}");
    }

    #[test]
    fn bounds_are_kept() {
        let mut window = Window::new(2 * MIB, 8 * MIB);
        assert!(window.has_room(100 * MIB), "one request is always allowed");
        let mut path = Path::new(10e9, 100);
        path.run(&mut window, MIB, secs(3));
        assert_eq!(window.size(), 8 * MIB);
        let ticket = window.sent(path.now, MIB);
        let under_way = window.under_way();
        window.lost(ticket);
        assert_eq!(window.under_way(), under_way - MIB);
    }
}
