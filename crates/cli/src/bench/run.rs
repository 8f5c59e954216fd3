//! The loop that keeps operations in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt};
use hdrhistogram::Histogram;
use loligo_rados::{Error, IoCtx};

use super::contents::contents;
use super::metadata::Metadata;
use super::result::{Measured, process_cpu_us};
use crate::client::Pool;

/// What each operation does.
pub(super) enum Job {
    /// Writes the next object.
    Write { metadata: Metadata },
    /// Reads the next object; ends with the last one.
    Seq { metadata: Metadata },
    /// Reads any object.
    Rand { metadata: Metadata },
}

impl Job {
    fn metadata(&self) -> &Metadata {
        let (Self::Write { metadata } | Self::Seq { metadata } | Self::Rand { metadata }) = self;
        metadata
    }
}

/// One bench.
pub(super) struct Driver {
    shared: Arc<Shared>,
    duration: Duration,
}

struct Shared {
    ioctx: IoCtx,
    job: Job,
    /// Operations begun. Relaxed: it only hands out numbers.
    begun: AtomicU64,
}

impl Driver {
    pub(super) fn new(pool: &Pool, job: Job, duration: Duration) -> Self {
        Self {
            shared: Arc::new(Shared { ioctx: pool.ioctx.clone(), job, begun: AtomicU64::new(0) }),
            duration,
        }
    }

    /// Keeps `depth` operations in flight, shared out among `tasks` tasks, until the time is over.
    pub(super) async fn drive(&self, depth: usize, tasks: usize) -> Result<Measured, Error> {
        let tasks = tasks.min(depth);
        let (locks_before, cpu_before_us) = (loligo_lockstat::report(), process_cpu_us());
        let began = Instant::now();
        let deadline = began + self.duration;
        let mut running = Vec::new();
        for task in 0..tasks {
            let share = depth / tasks + usize::from(task < depth % tasks);
            running.push(tokio::spawn(Arc::clone(&self.shared).keep_in_flight(share, deadline)));
        }
        let mut latency_ns = histogram();
        for task in running {
            let of_task = task.await.expect("a bench task neither panics nor is cancelled")?;
            latency_ns.add(of_task).expect("all histograms have the same bounds");
        }
        let bytes_per_op = self.shared.job.metadata().op_bytes();
        let cpu_us = process_cpu_us() - cpu_before_us;
        let lock_wait = loligo_lockstat::report().since(&locks_before).wait();
        Ok(Measured { elapsed: began.elapsed(), latency_ns, bytes_per_op, cpu_us, lock_wait })
    }

    /// Describes what a write run has written.
    pub(super) fn written(&self) -> Metadata {
        self.shared.job.metadata().with_objects(self.shared.begun.load(Ordering::Relaxed))
    }
}

impl Shared {
    async fn keep_in_flight(
        self: Arc<Self>,
        depth: usize,
        deadline: Instant,
    ) -> Result<Histogram<u64>, Error> {
        let mut latency_ns = histogram();
        let mut in_flight = FuturesUnordered::new();
        for _ in 0..depth {
            in_flight.extend(self.next(None));
        }
        while let Some(done) = in_flight.next().await {
            let ((began, spare), now) = (done?, Instant::now());
            latency_ns.saturating_record((now - began).as_nanos() as u64);
            if now < deadline {
                in_flight.extend(self.next(spare));
            }
        }
        Ok(latency_ns)
    }

    /// The next operation; its result is when it began, and the buffer that it wrote. `None` when there is nothing left to do.
    fn next(
        &self,
        spare: Option<Bytes>,
    ) -> Option<impl Future<Output = Result<(Instant, Option<Bytes>), Error>> + use<'_>> {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let object = match &self.job {
            Job::Write { metadata } => metadata.object(number),
            Job::Seq { metadata } if number >= metadata.objects => return None,
            Job::Seq { metadata } => metadata.object(number),
            Job::Rand { metadata } => metadata.object(scramble(number) % metadata.objects.max(1)),
        };
        Some(async move {
            let began = Instant::now();
            match &self.job {
                Job::Write { metadata } => {
                    let data = contents(spare, metadata.op_bytes() as usize, number);
                    self.ioctx.write(object, 0, data.clone()).await?;
                    Ok((began, Some(data)))
                }
                Job::Seq { metadata } | Job::Rand { metadata } => {
                    drop(self.ioctx.read(object, 0, metadata.op_bytes()).await?);
                    Ok((began, None))
                }
            }
        })
    }
}

/// Latencies up to 100 s, to three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 100_000_000_000, 3).expect("bounds and digits are valid")
}

/// A number that looks random (the finalizer of SplitMix64): the same run reads the same objects.
fn scramble(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}
