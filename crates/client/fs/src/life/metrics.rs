//! What a mount has done, as it tells the servers (`ceph fs perf stats`, `session ls`): every number counts
//! what really happened.
//!
//! Counting takes no lock, and threads do not share the counters that they change.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use az::SaturatingAs as _;
use loligo_wire::UTime;
use loligo_wire::message::mds::{ClientMetric, Latency, LatencySpread, OfInodes};

/// The kinds that this client collects, by their numbers.
pub(crate) const KINDS: [u32; 10] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];

/// Copies of the counters. A power of two.
const STRIPES: usize = 16;

/// A counter's place.
#[derive(Clone, Copy)]
enum At {
    ReadOps,
    ReadMicros,
    ReadSquares,
    ReadBytes,
    WriteOps,
    WriteMicros,
    WriteSquares,
    WriteBytes,
    CallOps,
    CallMicros,
    CallSquares,
    CapHits,
    CapMisses,
    LeaseHits,
    LeaseMisses,
    /// Files opened, and files closed.
    Opened,
    Closed,
}

const COUNTERS: usize = At::Closed as usize + 1;

/// The counters that some threads change.
#[derive(Default)]
#[repr(align(128))]
struct Stripe([AtomicU64; COUNTERS]);

/// The counters of a mount.
#[derive(Default)]
pub(crate) struct Metrics([Stripe; STRIPES]);

/// What is counted where it is kept.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    pub(crate) inodes: u64,
    /// Inodes with a capability.
    pub(crate) caps: u64,
    /// Inodes with a capability that something uses.
    pub(crate) pinned: u64,
    /// Inodes that are open.
    pub(crate) open: u64,
    /// Names.
    pub(crate) names: u64,
}

/// Returns the number of the calling thread among those of the process.
pub(crate) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    MINE.with(|mine| *mine)
}

impl Metrics {
    fn add(&self, numbers: &[(At, u64)]) {
        let Stripe(counters) = &self.0[thread_number() % STRIPES];
        for (at, number) in numbers {
            counters[*at as usize].fetch_add(*number, Ordering::Relaxed);
        }
    }

    fn sum(&self, at: At) -> u64 {
        let of = |Stripe(counters): &Stripe| counters[at as usize].load(Ordering::Relaxed);
        self.0.iter().map(of).fold(0, u64::wrapping_add)
    }

    /// Counts a read of a file's data.
    pub(crate) fn read(&self, bytes: u64, took: Duration) {
        let (micros, square) = micros(took);
        let of =
            [(At::ReadOps, 1), (At::ReadMicros, micros), (At::ReadSquares, square), (At::ReadBytes, bytes)];
        self.add(&of);
    }

    /// Counts a write of a file's data.
    pub(crate) fn wrote(&self, bytes: u64, took: Duration) {
        let (micros, square) = micros(took);
        self.add(&[
            (At::WriteOps, 1),
            (At::WriteMicros, micros),
            (At::WriteSquares, square),
            (At::WriteBytes, bytes),
        ]);
    }

    /// Counts a request that a server has answered.
    pub(crate) fn called(&self, took: Duration) {
        let (micros, square) = micros(took);
        self.add(&[(At::CallOps, 1), (At::CallMicros, micros), (At::CallSquares, square)]);
    }

    /// Counts a look at attributes: whether a capability made a request unnecessary.
    pub(crate) fn looked(&self, was_held: bool) {
        self.add(&[(if was_held { At::CapHits } else { At::CapMisses }, 1)]);
    }

    /// Counts a lookup of a name: whether a promise of the server made a request unnecessary.
    pub(crate) fn looked_up(&self, was_known: bool) {
        self.add(&[(if was_known { At::LeaseHits } else { At::LeaseMisses }, 1)]);
    }

    /// Counts a file opened.
    pub(crate) fn opened(&self) {
        self.add(&[(At::Opened, 1)]);
    }

    /// Counts a file closed.
    pub(crate) fn closed(&self) {
        self.add(&[(At::Closed, 1)]);
    }

    /// Returns the metrics as they are now.
    pub(crate) fn report(&self, held: Held) -> [ClientMetric; KINDS.len()] {
        let latency = |ops, micros, squares| latency(self.sum(ops), self.sum(micros), self.sum(squares));
        let open_files = self.sum(At::Opened).saturating_sub(self.sum(At::Closed));
        let of = |part| OfInodes { part, total: held.inodes };
        [
            ClientMetric::CapInfo {
                hits: self.sum(At::CapHits),
                misses: self.sum(At::CapMisses),
                caps: held.caps,
            },
            ClientMetric::ReadLatency(latency(At::ReadOps, At::ReadMicros, At::ReadSquares)),
            ClientMetric::WriteLatency(latency(At::WriteOps, At::WriteMicros, At::WriteSquares)),
            ClientMetric::MetadataLatency(latency(At::CallOps, At::CallMicros, At::CallSquares)),
            ClientMetric::DentryLease {
                hits: self.sum(At::LeaseHits),
                misses: self.sum(At::LeaseMisses),
                dentries: held.names,
            },
            ClientMetric::OpenedFiles(of(open_files)),
            ClientMetric::PinnedIcaps(of(held.pinned)),
            ClientMetric::OpenedInodes(of(held.open)),
            ClientMetric::ReadIoSizes { ops: self.sum(At::ReadOps), bytes: self.sum(At::ReadBytes) },
            ClientMetric::WriteIoSizes { ops: self.sum(At::WriteOps), bytes: self.sum(At::WriteBytes) },
        ]
    }
}

/// Returns a time in microseconds, and its square.
fn micros(took: Duration) -> (u64, u64) {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    (micros, micros.saturating_mul(micros))
}

/// Returns what the servers show of so many times with this sum, and this sum of squares, in microseconds.
/// They count in nanoseconds.
fn latency(count: u64, micros: u64, squares: u64) -> Latency {
    let mean = micros.checked_div(count).unwrap_or(0);
    // The sum of squared deviations: Σx² − (Σx)²/n.
    let of_mean = u128::from(micros) * u128::from(micros) / u128::from(count.max(1));
    let deviations = u128::from(squares).saturating_sub(of_mean).saturating_mul(1_000_000);
    let spread =
        LatencySpread { mean: time(mean), square_sum: u64::try_from(deviations).unwrap_or(u64::MAX), count };
    Latency { last: time(micros), spread: Some(spread) }
}

fn time(micros: u64) -> UTime {
    let sec = u32::try_from(micros / 1_000_000).unwrap_or(u32::MAX);
    UTime { sec, nsec: (micros % 1_000_000).saturating_as::<u32>() * 1000 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_are_those_that_are_reported() {
        let report = Metrics::default().report(Held::default());
        assert_eq!(report.map(|metric| metric.kind()), KINDS);
    }

    #[test]
    fn latencies_have_a_sum_a_mean_and_a_spread() {
        let metrics = Metrics::default();
        for millis in [1, 3] {
            metrics.read(100, Duration::from_millis(millis));
        }
        let report = metrics.report(Held::default());
        let ClientMetric::ReadLatency(Latency { last, spread: Some(spread) }) = report[1] else {
            panic!("{report:?}")
        };
        assert_eq!((last.nsec, spread.mean.nsec, spread.count), (4_000_000, 2_000_000, 2));
        // Twice the square of one millisecond, in nanoseconds.
        assert_eq!(spread.square_sum, 2_000_000_000_000);
        assert_eq!(report[8], ClientMetric::ReadIoSizes { ops: 2, bytes: 200 });
    }

    #[test]
    fn threads_count_together() {
        let metrics = Metrics::default();
        std::thread::scope(|scope| {
            for _ in 0..40 {
                scope.spawn(|| {
                    metrics.opened();
                    metrics.looked(true);
                });
            }
        });
        metrics.closed();
        metrics.looked(false);
        let report = metrics.report(Held { inodes: 50, caps: 7, ..Held::default() });
        assert_eq!(report[0], ClientMetric::CapInfo { hits: 40, misses: 1, caps: 7 });
        assert_eq!(report[5], ClientMetric::OpenedFiles(OfInodes { part: 39, total: 50 }));
    }
}
