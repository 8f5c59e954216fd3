//! Decides when to read ahead, and how much, as Linux does for files.
//!
//! Only cache misses, and hits that reach data that was read ahead, are reported to this type; all other
//! reads cost nothing. A read that begins where another one of the same stream ended doubles the window.

use std::ops::Range;

/// The number of streams distinguished in one file.
const STREAMS: usize = 8;
/// The first window, in bytes.
const WINDOW_MIN: u64 = 128 << 10;

/// The sequential streams of a file, and how far each was read ahead.
#[derive(Clone, Debug)]
pub struct ReadAhead {
    streams: [Stream; STREAMS],
    max: u64,
    /// The number of the last report.
    now: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// The lowest offset at which the stream is expected to continue.
    from: u64,
    /// The end of the data that was read ahead.
    until: u64,
    window: u64,
    /// The number of the stream's last report; 0: never used.
    used: u64,
}

impl ReadAhead {
    /// With windows of at most `max` bytes; 0 disables reading ahead.
    pub fn new(max: u64) -> Self {
        Self { streams: [Stream::default(); STREAMS], max, now: 0 }
    }

    /// Reports a cache miss. Returns the range to read ahead.
    pub fn missed(&mut self, offset: u64, len: u64) -> Option<Range<u64>> {
        let end = offset.saturating_add(len);
        self.now += 1;
        let goes_on =
            |stream: &&mut Stream| stream.used > 0 && (stream.from..=stream.until).contains(&offset);
        if let Some(stream) = self.streams.iter_mut().find(goes_on) {
            return stream.go_on(end, end, self.max, self.now);
        }
        let oldest = self.streams.iter_mut().min_by_key(|stream| stream.used)?;
        *oldest = Stream { from: end, until: end, window: 0, used: self.now };
        // A file that is read from its beginning is expected to be read on.
        if offset == 0 { oldest.go_on(end, end, self.max, self.now) } else { None }
    }

    /// Reports a read that has reached data that was read ahead. Returns the next range to read ahead.
    pub fn reached(&mut self, offset: u64, len: u64) -> Option<Range<u64>> {
        let end = offset.saturating_add(len);
        self.now += 1;
        let is_here = |stream: &&mut Stream| stream.used > 0 && (stream.from..stream.until).contains(&offset);
        let stream = self.streams.iter_mut().find(is_here)?;
        let from = stream.until.max(end);
        stream.go_on(end, from, self.max, self.now)
    }
}

impl Stream {
    fn go_on(&mut self, expected: u64, from: u64, max: u64, now: u64) -> Option<Range<u64>> {
        self.window = (self.window * 2).max(WINDOW_MIN).min(max);
        *self = Self { from: expected, until: from.saturating_add(self.window), used: now, ..*self };
        Some(from..self.until).filter(|range| !range.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 1 << 20;

    #[test]
    fn a_stream_is_read_ahead_in_growing_windows() {
        let mut ahead = ReadAhead::new(MAX);
        assert_eq!(ahead.missed(0, 4096), Some(4096..4096 + WINDOW_MIN));
        let mut until = 4096 + WINDOW_MIN;
        for window in [2 * WINDOW_MIN, 4 * WINDOW_MIN, 8 * WINDOW_MIN, MAX, MAX] {
            let next = ahead.reached(until - WINDOW_MIN, 4096).expect("it goes on");
            assert_eq!(next, until..until + window);
            until = next.end;
        }
    }

    #[test]
    fn random_reads_are_not() {
        let mut ahead = ReadAhead::new(MAX);
        for n in 1..100u64 {
            assert_eq!(ahead.missed(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20, 4096), None);
        }
        assert_eq!(ReadAhead::new(0).missed(0, 10), None);
        assert_eq!(ahead.reached(u64::MAX, 10), None);
    }

    #[test]
    fn several_streams_are_told_apart() {
        let mut ahead = ReadAhead::new(MAX);
        let begins = |n: u64| n * (1 << 30) + 5;
        (0..STREAMS as u64).for_each(|n| assert_eq!(ahead.missed(begins(n), 1000), None));
        for n in 0..STREAMS as u64 {
            let at = begins(n) + 1000;
            assert_eq!(ahead.missed(at, 1000), Some(at + 1000..at + 1000 + WINDOW_MIN));
        }
    }
}
