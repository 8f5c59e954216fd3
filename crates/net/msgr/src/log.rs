//! The sink of log lines, and the bound on their rate.

use std::fmt;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use az::SaturatingAs as _;
use loligo_logring::Subsys;

/// The severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A fault of a peer or of this process.
    Error,
    /// An ordinary event worth knowing: a connection was lost, a peer was refused.
    Info,
    /// For debugging.
    Debug,
}

/// A sink of log lines.
pub type Log = Arc<dyn Fn(Level, fmt::Arguments<'_>) + Send + Sync>;

/// Writes to the process's log (`loligo_logring`, subsystem `msgr`) or, if that does not record them,
/// writes errors to standard error; [bounded](bounded_log).
pub fn process_log() -> Log {
    let bounded = bounded_log(Arc::new(|level, line| {
        if Subsys::MSGR.records(level.number()) {
            loligo_logring::line(Subsys::MSGR, level.number(), line);
        } else {
            // A failure to write to standard error cannot be reported anywhere.
            let _ = writeln!(io::stderr(), "{line}");
        }
    }));
    Arc::new(move |level, line| {
        if level == Level::Error || Subsys::MSGR.records(level.number()) {
            bounded(level, line);
        }
    })
}

impl Level {
    /// Ceph's number of the level.
    fn number(self) -> i8 {
        match self {
            Self::Error => -1,
            Self::Info => 1,
            Self::Debug => 10,
        }
    }
}

/// Passes at most 20 lines of a level at once and 10 more per second, so that peers that send garbage
/// endlessly neither fill a disk nor keep the process busy with logging. The next line that passes is
/// preceded by one that says how many were suppressed.
pub fn bounded_log(to: Log) -> Log {
    let began = Instant::now();
    let buckets: [Bucket; 3] = Default::default();
    Arc::new(move |level, line| {
        // Overflows after 584 years.
        let now_ns = began.elapsed().as_nanos().saturating_as::<u64>();
        match buckets[level as usize].admit(now_ns) {
            None => {}
            Some(0) => to(level, line),
            Some(left_out) => {
                to(level, format_args!("{left_out} lines like the next were left out"));
                to(level, line);
            }
        }
    })
}

/// Lines that may pass at once.
const LINES_AT_ONCE: u64 = 20;
/// The interval at which one more line may pass.
const LINE_INTERVAL_NS: u64 = 100_000_000;

#[derive(Default)]
struct Bucket {
    /// When the bucket will be full again: each line moves it on by one interval.
    full_at_ns: AtomicU64,
    left_out: AtomicU64,
}

impl Bucket {
    /// Whether a line may pass; if so, returns how many were suppressed since the last one.
    fn admit(&self, now_ns: u64) -> Option<u64> {
        let pass = |full_at_ns: u64| {
            let next = full_at_ns.max(now_ns) + LINE_INTERVAL_NS;
            (next <= now_ns + LINES_AT_ONCE * LINE_INTERVAL_NS).then_some(next)
        };
        // Relaxed: the two counters guard no other data; a line that is counted late is reported with
        // the next one.
        match self.full_at_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, pass) {
            Ok(_) => Some(self.left_out.swap(0, Ordering::Relaxed)),
            Err(_) => {
                self.left_out.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_bound_are_counted_not_passed() {
        let bucket = Bucket::default();
        let at = |interval: u64| bucket.admit(interval * LINE_INTERVAL_NS);
        assert!((0..LINES_AT_ONCE).all(|_| at(5) == Some(0)));
        assert_eq!((at(5), at(5)), (None, None));
        assert_eq!((at(6), at(6)), (Some(2), None), "one more after an interval");
        assert_eq!(at(1000), Some(1));
        assert!((1..LINES_AT_ONCE).all(|_| at(1000) == Some(0)), "a rest fills the bucket, not more");
        assert_eq!(at(1000), None);
    }

    #[test]
    fn levels_have_bounds_of_their_own() {
        let lines = Arc::new(std::sync::Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let log = bounded_log(Arc::new(move |level, line| {
            kept.lock().expect("not poisoned").push((level, line.to_string()));
        }));
        (0..1000).for_each(|i| log(Level::Info, format_args!("info {i}")));
        log(Level::Error, format_args!("bad"));
        let lines = lines.lock().expect("not poisoned");
        assert_eq!(lines.last(), Some(&(Level::Error, "bad".to_owned())));
        assert!(lines.len() < 100, "{} lines", lines.len());
    }
}
