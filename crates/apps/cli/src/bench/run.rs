//! The loop that keeps operations in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt};
use hdrhistogram::Histogram;
use loligo_contend::scramble;
use loligo_rados::{Errno, IoCtx, WriteOp};

use super::contents::contents;
use super::metadata::{Metadata, Target};
use super::result::{Measured, PerSecond, process_cpu_us};
use crate::client::Pool;
use crate::failure::{Context as _, Failure};

/// The operations of a bench.
pub(super) enum Job {
    /// Writes the next part of an object, until `ops_max` operations have begun.
    Write { metadata: Metadata, into: Into, ops_max: u64 },
    /// Reads the next part of an object; ends after the last one.
    Seq { metadata: Metadata },
    /// Reads a pseudo-random part of an object.
    Rand { metadata: Metadata },
}

/// The parts of an object that are written.
#[derive(Clone, Copy)]
pub(super) struct Into {
    pub(super) data: bool,
    pub(super) omap: bool,
    pub(super) xattrs: bool,
}

impl Job {
    fn metadata(&self) -> &Metadata {
        let (Self::Write { metadata, .. } | Self::Seq { metadata } | Self::Rand { metadata }) = self;
        metadata
    }

    /// Returns the operation that a sequence number stands for; `None` after the last one.
    fn op(&self, number: u64) -> Option<u64> {
        match self {
            Self::Write { ops_max, .. } => (number < *ops_max).then_some(number),
            Self::Seq { metadata } => (number < metadata.ops).then_some(number),
            Self::Rand { metadata } => Some(scramble(number) % metadata.ops.max(1)),
        }
    }
}

impl Into {
    fn is_only_data(self) -> bool {
        !(self.omap || self.xattrs)
    }

    /// Keys and attributes have the names of `rados bench`.
    fn op(self, offset: u64, data: &Bytes) -> WriteOp {
        let mut op = WriteOp::new();
        if self.data {
            op = op.write(offset, data.clone());
        }
        if self.omap {
            op = op.set_omap([(format!("bench-omap-key-{offset}"), data.clone())]);
        }
        if self.xattrs {
            op = op.set_xattr(format!("bench-xattr-key-{offset}"), data);
        }
        op
    }
}

/// One bench.
pub(super) struct Driver {
    shared: Arc<Shared>,
    duration: Duration,
}

struct Shared {
    ioctx: IoCtx,
    pool: String,
    job: Job,
    /// Number of operations begun. Relaxed: it only assigns sequence numbers.
    begun: AtomicU64,
}

/// The results of the operations of a task, or of all tasks.
struct Done {
    latency_ns: Histogram<u64>,
    per_second: PerSecond,
}

impl Done {
    fn none() -> Self {
        Self { latency_ns: histogram(), per_second: PerSecond::default() }
    }

    fn add(&mut self, other: &Self) {
        self.latency_ns.add(&other.latency_ns).expect("all histograms have the same bounds");
        self.per_second.add(&other.per_second);
    }
}

impl Driver {
    pub(super) fn new(pool: &Pool, job: Job, duration: Duration) -> Self {
        let (ioctx, pool) = (pool.ioctx.clone(), pool.name.clone());
        Self { shared: Arc::new(Shared { ioctx, pool, job, begun: AtomicU64::new(0) }), duration }
    }

    /// Keeps `depth` operations in flight, distributed over `tasks` tasks, until the time is over.
    pub(super) async fn drive(&self, depth: usize, tasks: usize) -> Result<Measured, Failure> {
        let tasks = tasks.min(depth);
        let (locks_before, cpu_before_us) = (loligo_lockstat::report(), process_cpu_us());
        let time = Time { began: Instant::now(), lasts: self.duration };
        let mut running = Vec::new();
        for task in 0..tasks {
            let share = depth / tasks + usize::from(task < depth % tasks);
            running.push(tokio::spawn(Arc::clone(&self.shared).keep_in_flight(share, time)));
        }
        let mut done = Done::none();
        for task in running {
            done.add(&task.await.expect("a bench task neither panics nor is cancelled")?);
        }
        let metadata = self.shared.job.metadata();
        let elapsed = time.began.elapsed();
        Ok(Measured {
            elapsed,
            latency_ns: done.latency_ns,
            ops_per_s: done.per_second.whole(elapsed),
            bytes_per_op: metadata.op_bytes(),
            object_bytes: metadata.object_bytes(),
            is_write: matches!(self.shared.job, Job::Write { .. }),
            cpu_us: process_cpu_us() - cpu_before_us,
            server_cpu_us: None,
            lock_wait: loligo_lockstat::report().since(&locks_before).wait(),
        })
    }

    /// Returns the metadata of the objects that a write run has written.
    pub(super) fn written(&self) -> Metadata {
        let begun = self.shared.begun.load(Ordering::Relaxed);
        let most = if let Job::Write { ops_max, .. } = self.shared.job { ops_max } else { u64::MAX };
        self.shared.job.metadata().with_ops(begun.min(most))
    }
}

/// The start of a bench, and the time during which operations are begun.
#[derive(Clone, Copy)]
struct Time {
    began: Instant,
    lasts: Duration,
}

impl Shared {
    async fn keep_in_flight(self: Arc<Self>, depth: usize, time: Time) -> Result<Done, Failure> {
        let mut all = Done::none();
        let mut in_flight = FuturesUnordered::new();
        for _ in 0..depth {
            in_flight.extend(self.next(None));
        }
        while let Some(done) = in_flight.next().await {
            let ((began, spare), now) = (done?, Instant::now());
            all.latency_ns.saturating_record((now - began).as_nanos() as u64);
            let since = now - time.began;
            all.per_second.count(since);
            if since < time.lasts {
                in_flight.extend(self.next(spare));
            }
        }
        Ok(all)
    }

    /// Begins the next operation, which returns its start time and the buffer that it wrote. Returns
    /// `None` when no operation is left.
    fn next(
        &self,
        spare: Option<Bytes>,
    ) -> Option<impl Future<Output = Result<(Instant, Option<Bytes>), Failure>> + use<'_>> {
        let op = self.job.op(self.begun.fetch_add(1, Ordering::Relaxed))?;
        let Target { object, offset } = self.job.metadata().target(op);
        Some(async move {
            let began = Instant::now();
            let bytes = self.job.metadata().op_bytes();
            match &self.job {
                Job::Write { into, .. } => {
                    let data = contents(spare, usize::try_from(bytes).unwrap_or(usize::MAX), op);
                    let done = match into.is_only_data() {
                        true => self.ioctx.write(object.as_str(), offset, data.clone()).await,
                        false => self.ioctx.operate(object.as_str(), into.op(offset, &data)).await,
                    };
                    done.context(|| format!("bench {}/{object}", self.pool))?;
                    Ok((began, Some(data)))
                }
                Job::Seq { .. } | Job::Rand { .. } => {
                    self.read(&object, offset, bytes).await?;
                    Ok((began, None))
                }
            }
        })
    }

    /// Fails if the object is shorter than a write run left it, or was written without data.
    async fn read(&self, object: &str, offset: u64, bytes: u64) -> Result<(), Failure> {
        let what = || format!("bench {}/{object}", self.pool);
        let read = self.ioctx.read(object, offset, bytes).await.context(what)?.len() as u64;
        if read == bytes {
            return Ok(());
        }
        let why = format!("has {read} bytes at {offset}, of {bytes} that a write run should have left");
        Err(Failure::of(Errno::EIO, what(), why))
    }
}

/// Creates a histogram of latencies up to 100 s in ns, with three significant digits. Its bounds are given,
/// since one that grows does not do so for a value that is recorded as "saturating".
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 100_000_000_000, 3).expect("bounds and digits are valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_latencies_are_recorded() {
        let mut times = histogram();
        [3, 20_000_000_000, u64::MAX].into_iter().for_each(|time| times.saturating_record(time));
        assert!((20_000_000_000..20_100_000_000).contains(&times.value_at_quantile(0.5)), "{times:?}");
        assert!(times.max() >= 100_000_000_000);
    }
}
