//! `loligo fs bench`: measures a file system through this client, without a mount.
//!
//! What is measured is prepared by one mount, and done by the next one: it begins with an empty memory.

mod args;
mod work;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use loligo_fs::{Error, FileSystem, MountOptions};
use loligo_rados::Rados;

use crate::args::Format;
use crate::bench::{Measured, cpu_us_of, histogram, process_cpu_us};
use crate::failure::{Context as _, Failure};

pub(crate) use args::{BenchArgs, BenchMode};
use work::{Place, Work};

pub(super) async fn run(
    rados: &Rados,
    options: MountOptions,
    args: &BenchArgs,
    format: Format,
) -> Result<(), Failure> {
    check(args)?;
    servers_cpu_us(&args.server_pid)?;
    let place = Place::of(args);
    // From here on an interruption ends the measurement, and what was made is removed.
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let watching = tokio::spawn(watch(Arc::clone(&is_interrupted)));
    let fs = mounted(rados, &options).await?;
    let prepared = tokio::select! {
        done = place.prepare(&fs) => done.context(|| place.named()),
        _ = tokio::signal::ctrl_c() => Err(Failure::new(place.named(), "interrupted")),
    };
    if let Err(e) = prepared {
        // What else fails now is less than what is told.
        let _ = place.remove(&fs).await;
        let _ = fs.unmount().await;
        return Err(e);
    }
    fs.unmount().await.context(|| "unmount".to_owned())?;
    let fs = mounted(rados, &options).await?;
    let what = place.named();
    let ops_max = place.ops_max(args.warm);
    let mut work = Work::new(fs, place);
    let opened = work.open().await;
    let work = Arc::new(work);
    let measured = match opened {
        Ok(()) => measure(&work, args, ops_max, is_interrupted).await,
        Err(e) => Err(e),
    };
    let measured = measured.context(|| what.clone());
    let work = Arc::into_inner(work).ok_or_else(|| Failure::new(what, "an operation did not end"))?;
    let (fs, place) = work.end().await;
    let removed = place.remove(&fs).await;
    let ended = fs.unmount().await.context(|| "unmount".to_owned());
    watching.abort();
    show(&measured?, args.mode, format);
    removed.and(ended)
}

async fn watch(is_interrupted: Arc<AtomicBool>) {
    if tokio::signal::ctrl_c().await.is_ok() {
        is_interrupted.store(true, Ordering::Relaxed);
    }
}

fn check(args: &BenchArgs) -> Result<(), Failure> {
    if args.depth == 0 || args.threads == 0 || args.seconds == 0 || args.block_size == 0 {
        let why = "seconds, block size, operations in flight and threads must be at least 1";
        return Err(Failure::new("bench", why));
    }
    if args.warm && !args.mode.can_be_warm() {
        return Err(Failure::new(
            "bench --warm",
            "is for reads, stat and readdir: the others find nothing held",
        ));
    }
    Ok(())
}

/// The CPU time of all named processes.
fn servers_cpu_us(pids: &[u32]) -> Result<f64, Failure> {
    let of = |pid: &u32| {
        let used = cpu_us_of(&pid.to_string());
        used.ok_or_else(|| Failure::new("bench --server-pid", format!("there is no process {pid}")))
    };
    pids.iter().map(of).sum()
}

async fn mounted(rados: &Rados, options: &MountOptions) -> Result<FileSystem, Failure> {
    FileSystem::mount(rados, options.clone()).await.context(|| "mount".to_owned())
}

/// What tasks share.
struct Shared {
    work: Arc<Work>,
    /// The number of tasks. Task `t` makes the operations `t`, `t + tasks`, `t + 2 * tasks` and so on.
    tasks: u64,
    ops_max: u64,
    until: Instant,
    /// Relaxed: it ends the loops some operations later.
    is_interrupted: Arc<AtomicBool>,
}

impl Shared {
    /// One operation after the other, until the time is over.
    ///
    /// Tasks do not share a counter of operations: it would limit how many they make.
    async fn operate(self: Arc<Self>, task: u64) -> Result<Histogram<u64>, Error> {
        let (mut latency_ns, mut buf) = (histogram(), Vec::new());
        let mut now = Instant::now();
        let mut number = task;
        while now < self.until && number < self.ops_max && !self.is_interrupted.load(Ordering::Relaxed) {
            self.work.operate(number, &mut buf).await?;
            let ended = Instant::now();
            latency_ns.saturating_record((ended - now).as_nanos() as u64);
            now = ended;
            number += self.tasks;
        }
        Ok(latency_ns)
    }
}

async fn measure(
    work: &Arc<Work>,
    args: &BenchArgs,
    ops_max: u64,
    is_interrupted: Arc<AtomicBool>,
) -> Result<Measured, Error> {
    if args.warm {
        work.warm_up().await?;
    }
    let servers_us = || servers_cpu_us(&args.server_pid).unwrap_or_default();
    let servers_before_us = servers_us();
    let (locks_before, cpu_before_us) = (loligo_lockstat::report(), process_cpu_us());
    let began = Instant::now();
    let shared = Arc::new(Shared {
        work: Arc::clone(work),
        tasks: args.depth as u64,
        ops_max,
        until: began + Duration::from_secs(args.seconds),
        is_interrupted,
    });
    let tasks: Vec<_> =
        (0..shared.tasks).map(|task| tokio::spawn(Arc::clone(&shared).operate(task))).collect();
    drop(shared);
    let mut latency_ns = histogram();
    let mut failed = None;
    for task in tasks {
        match task.await.expect("a bench task neither panics nor is cancelled") {
            Ok(of_task) => latency_ns.add(&of_task).expect("all histograms have the same bounds"),
            Err(e) => drop(failed.get_or_insert(e)),
        }
    }
    failed.map_or(Ok(()), Err)?;
    work.settle().await?;
    Ok(Measured {
        elapsed: began.elapsed(),
        latency_ns,
        ops_per_s: Vec::new(),
        bytes_per_op: work.bytes(),
        object_bytes: 0,
        is_write: args.mode.writes(),
        cpu_us: process_cpu_us() - cpu_before_us,
        server_cpu_us: (!args.server_pid.is_empty()).then(|| servers_us() - servers_before_us),
        lock_wait: loligo_lockstat::report().since(&locks_before).wait(),
    })
}

fn show(measured: &Measured, mode: BenchMode, format: Format) {
    if format != Format::Plain {
        return format.print("bench", "item", &measured.to_json());
    }
    let mut lines = vec![("Operations/s:", format!("{:.0}", measured.ops_per_s()))];
    if mode.is_of_data() {
        lines.push(("MiB/s:", format!("{:.1}", measured.bytes_per_s() / f64::from(1 << 20))));
    }
    lines.extend([
        ("Latency (us):", measured.quantiles()),
        ("Client CPU (us/op):", format!("{:.2}", measured.cpu_us_per_op())),
    ]);
    if let Some(us) = measured.server_cpu_us_per_op() {
        lines.push(("Server CPU (us/op):", format!("{us:.2}")));
    }
    lines.extend([("Lock waits (us/s):", format!("{:.0}", measured.lock_wait_us_per_s()))]);
    for (name, value) in lines {
        sayln!("{name:<24}{value}");
    }
}
