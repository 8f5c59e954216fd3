//! The client that times small reads.

use std::fmt;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hdrhistogram::Histogram;
use loligo_rados::IoCtx;

const OBJECTS: u64 = 64;
/// The interval between requests of a slow client with one thread.
const PAUSE: Duration = Duration::from_millis(1);

pub(crate) struct Probe {
    pool: IoCtx,
}

/// Latencies of small reads.
pub(crate) struct Times {
    reads: u64,
    p50_us: f64,
    pub(crate) p99_us: f64,
    most_us: f64,
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reads, p50_us, p99_us, most_us } = self;
        write!(f, "{reads} reads, p50 {p50_us:.0} µs, p99 {p99_us:.0} µs, the slowest {most_us:.0} µs")
    }
}

impl Probe {
    pub(crate) async fn new(pool: &IoCtx) -> Self {
        let pool = pool.with_namespace("probe");
        for n in 0..OBJECTS {
            pool.write_full(name(n), content(n)).await.expect("written");
        }
        Self { pool }
    }

    /// Reads for this duration, one object after the other.
    pub(crate) async fn run(&self, lasting: Duration) -> Times {
        let mut times = Histogram::<u64>::new(3).expect("three digits");
        let began = Instant::now();
        while began.elapsed() < lasting {
            let n = fastrand::u64(..OBJECTS);
            let asked = Instant::now();
            assert_eq!(self.pool.read(name(n), 0, 0).await.expect("read"), content(n));
            times.record(asked.elapsed().as_nanos() as u64).expect("it grows by itself");
            tokio::time::sleep(PAUSE).await;
        }
        let us = |quantile| times.value_at_quantile(quantile) as f64 / 1000.0;
        Times { reads: times.len(), p50_us: us(0.5), p99_us: us(0.99), most_us: us(1.0) }
    }
}

fn name(n: u64) -> String {
    format!("small {n}")
}

fn content(n: u64) -> Bytes {
    Bytes::from(vec![n as u8; 100])
}
