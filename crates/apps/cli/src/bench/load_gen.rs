//! `loligo load-gen`: reads and writes of random length, at random offsets of objects of random size, at
//! a given rate.

use std::time::{Duration, Instant};

use bytes::Bytes;
use fastrand::Rng;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use hdrhistogram::Histogram;
use loligo_rados::{Error, WriteOp};
use serde_json::json;

use super::args::LoadGen;
use super::run::histogram;
use crate::client::{self, Client, Pool};
use crate::failure::{Context, Failure};
use crate::format::Format;

/// Maximum number of objects that are created or removed concurrently.
const AT_ONCE: usize = 64;

pub(crate) fn run(client: Client, options: &LoadGen) -> Result<(), Failure> {
    options.check().map_err(|why| Failure::new("load-gen", why))?;
    client::runtime(1)?.block_on(async {
        let pool = client.pool().await?;
        let mut load = Load::new(&pool, options);
        let what = || format!("load-gen {}", pool.name);
        load.make_objects().await.context(what)?;
        let done = load.run().await.context(what);
        load.remove_objects().await.context(what)?;
        done?;
        load.show();
        pool.rados.shutdown().await;
        Ok(())
    })
}

impl LoadGen {
    fn check(&self) -> Result<(), &'static str> {
        match self {
            Self { num_objects: 0, .. } => Err("there must be an object"),
            Self { max_ops: 0, .. } => Err("there must be an operation at a time"),
            _ if self.min_object_size > self.max_object_size => {
                Err("objects cannot be larger at least than at most")
            }
            _ if self.min_op_len > self.max_op_len => {
                Err("operations cannot be longer at least than at most")
            }
            Self { read_percent: 101.., .. } => Err("percents go up to 100"),
            Self { target_throughput: 0, .. } => Err("nothing would ever be done"),
            _ => Ok(()),
        }
    }
}

/// The finished operations of one direction.
struct Done {
    bytes: u64,
    latency_us: Histogram<u64>,
}

struct Load<'a> {
    pool: &'a Pool,
    options: &'a LoadGen,
    rng: Rng,
    /// The objects' sizes in bytes.
    objects: Vec<u64>,
    reads: Done,
    writes: Done,
    elapsed: Duration,
}

/// A finished operation.
struct Finished {
    is_read: bool,
    len: u64,
    began: Instant,
    result: Result<(), Error>,
}

impl<'a> Load<'a> {
    fn new(pool: &'a Pool, options: &'a LoadGen) -> Self {
        let mut rng = Rng::new();
        let sizes = options.min_object_size..=options.max_object_size;
        let objects = (0..options.num_objects).map(|_| rng.u64(sizes.clone())).collect();
        let done = || Done { bytes: 0, latency_us: histogram() };
        Self { pool, options, rng, objects, reads: done(), writes: done(), elapsed: Duration::ZERO }
    }

    fn name(number: usize) -> String {
        format!("load_gen_{}_{number}", std::process::id())
    }

    /// Creates the objects with their sizes, without data.
    async fn make_objects(&self) -> Result<(), Error> {
        let make = |(number, size): (usize, &u64)| {
            self.pool.ioctx.operate(Self::name(number), WriteOp::new().create(false).truncate(*size))
        };
        let mut making =
            futures_util::stream::iter(self.objects.iter().enumerate().map(make)).buffer_unordered(AT_ONCE);
        while let Some(made) = making.next().await {
            made?;
        }
        Ok(())
    }

    async fn remove_objects(&self) -> Result<(), Error> {
        let remove = |number| self.pool.ioctx.remove(Self::name(number));
        let mut removing =
            futures_util::stream::iter((0..self.objects.len()).map(remove)).buffer_unordered(AT_ONCE);
        while let Some(removed) = removing.next().await {
            removed?;
        }
        Ok(())
    }

    /// Keeps as many operations in flight as the limits and the rate allow.
    async fn run(&mut self) -> Result<(), Error> {
        let began = Instant::now();
        let lasting = Duration::from_secs(self.options.run_length);
        let mut under_way = FuturesUnordered::new();
        let (mut sent_bytes, mut waiting_bytes) = (0u64, 0u64);
        loop {
            let elapsed = began.elapsed();
            if elapsed >= lasting {
                break;
            }
            let due = (elapsed.as_secs_f64() * self.options.target_throughput as f64) as u64;
            let may_send = under_way.len() < self.options.max_ops && waiting_bytes < self.options.max_backlog;
            if may_send && sent_bytes <= due {
                let (len, op) = self.draw();
                sent_bytes += len;
                waiting_bytes += len;
                under_way.push(op);
                continue;
            }
            // Waits until an operation ends or the next one is due.
            let behind = sent_bytes.saturating_sub(due) as f64 / self.options.target_throughput as f64;
            let pause =
                Duration::from_secs_f64(behind).clamp(Duration::from_millis(1), Duration::from_millis(100));
            tokio::select! {
                Some(finished) = under_way.next(), if !under_way.is_empty() => {
                    waiting_bytes -= finished.len;
                    self.note(finished)?;
                }
                () = tokio::time::sleep(pause) => {}
            }
        }
        while let Some(finished) = under_way.next().await {
            self.note(finished)?;
        }
        self.elapsed = began.elapsed();
        Ok(())
    }

    /// Draws a random operation. Returns its length and its future.
    fn draw(&mut self) -> (u64, impl Future<Output = Finished> + use<'a>) {
        let number = self.rng.usize(..self.objects.len());
        let size = self.objects[number];
        let align = self.options.offset_align.max(1);
        let offset = self.rng.u64(..size.max(1)) / align * align;
        let len = self.rng.u64(self.options.min_op_len..=self.options.max_op_len).min(size - offset).max(1);
        let is_read = self.rng.u64(..100) < self.options.read_percent;
        let (ioctx, name, began) = (self.pool.ioctx.clone(), Self::name(number), Instant::now());
        let op = async move {
            let result = match is_read {
                true => ioctx.read(name, offset, len).await.map(drop),
                false => ioctx.write(name, offset, Bytes::from(vec![0x5a; len as usize])).await,
            };
            Finished { is_read, len, began, result }
        };
        (len, op)
    }

    fn note(&mut self, finished: Finished) -> Result<(), Error> {
        finished.result?;
        let done = if finished.is_read { &mut self.reads } else { &mut self.writes };
        done.bytes += finished.len;
        done.latency_us.saturating_record(finished.began.elapsed().as_micros() as u64);
        Ok(())
    }

    fn show(&self) {
        let seconds = self.elapsed.as_secs_f64();
        let rate = |done: &Done| done.bytes as f64 / seconds;
        match self.pool.format {
            Format::Plain => {
                sayln!("Total time run:       {seconds:.4}");
                for (name, done) in [("Reads:", &self.reads), ("Writes:", &self.writes)] {
                    let latency = &done.latency_us;
                    sayln!(
                        "{name:<21} {}, {:.2} MB/s, latency (us): mean {:.0}, p50 {}, p99 {}, max {}",
                        latency.len(),
                        rate(done) / f64::from(1 << 20),
                        latency.mean(),
                        latency.value_at_quantile(0.5),
                        latency.value_at_quantile(0.99),
                        latency.max(),
                    );
                }
            }
            _ => {
                let of = |done: &Done| {
                    let latency = &done.latency_us;
                    json!({"ops": latency.len(), "bytes_per_s": rate(done), "lat_us": {
                        "mean": latency.mean(), "p50": latency.value_at_quantile(0.5),
                        "p99": latency.value_at_quantile(0.99), "max": latency.max()}})
                };
                let all = json!({"seconds": seconds, "reads": of(&self.reads), "writes": of(&self.writes)});
                self.pool.format.print("load_gen", "item", &all);
            }
        }
    }
}
