//! Measures small operations per second, and this process's CPU time per operation.
//!
//! ```text
//! cargo bench -p loligo-rados --bench bench4k -- [-c CONF] [POOL] [write|read] [SECONDS] [DEPTH] [BYTES]
//! ```
//! Compare with `rados bench SECONDS write -b BYTES -t DEPTH`.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use loligo_rados::{Builder, Error, IoCtx};

/// Objects written in turn.
const OBJECTS: u64 = 1024;

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let workers = std::env::var("WORKERS").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build();
    let result = Builder::new().args(&mut args).map_err(Error::from).and_then(|builder| {
        runtime
            .expect("a runtime")
            .block_on(async { tokio::spawn(bench(builder, args)).await.expect("no panic") })
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

async fn bench(builder: Builder, args: Vec<String>) -> Result<(), Error> {
    let arg = |at: usize, default: &str| args.get(at).cloned().unwrap_or_else(|| default.to_owned());
    let number = |at: usize, default: u64| args.get(at).and_then(|n| n.parse().ok()).unwrap_or(default);
    let (pool, mode) = (arg(0, "p"), arg(1, "write"));
    let (seconds, depth, bytes) = (number(2, 5), number(3, 64), number(4, 4096));

    let rados = builder.connect().await?;
    let ioctx = rados.ioctx(&pool).await?;
    let data = Bytes::from(vec![0xa5; bytes as usize]);
    if mode == "read" {
        for i in 0..OBJECTS {
            ioctx.write_full(name(i), data.clone()).await?;
        }
    }
    let done = Arc::new(AtomicU64::new(0));
    let (begun, cpu_begun) = (Instant::now(), cpu_us());
    let until = begun + Duration::from_secs(seconds);
    let tasks: Vec<_> = (0..depth)
        .map(|task| {
            tokio::spawn(work(ioctx.clone(), mode == "read", data.clone(), task, until, Arc::clone(&done)))
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic")?;
    }
    let ops = done.load(Ordering::Relaxed);
    let elapsed = begun.elapsed().as_secs_f64();
    println!(
        "{mode} {bytes} B depth {depth}: {ops} ops, {:.0} iops, mean {:.1} us, {:.2} cpu_us_per_op",
        ops as f64 / elapsed,
        elapsed * 1e6 * depth as f64 / ops as f64,
        (cpu_us() - cpu_begun) as f64 / ops as f64,
    );
    Ok(())
}

async fn work(
    ioctx: IoCtx,
    read: bool,
    data: Bytes,
    task: u64,
    until: Instant,
    done: Arc<AtomicU64>,
) -> Result<(), Error> {
    let mut next = task;
    while Instant::now() < until {
        let oid = name(next % OBJECTS);
        next += 64;
        if read {
            ioctx.read(oid, 0, data.len() as u64).await?;
        } else {
            ioctx.write(oid, 0, data.clone()).await?;
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn name(i: u64) -> String {
    format!("bench4k.{i}")
}

/// Returns this process's CPU time so far, in microseconds.
fn cpu_us() -> u64 {
    // Fields 14 and 15 of /proc/self/stat, counted after the parenthesised name, in hundredths of a second.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 =
        behind_name.split_whitespace().skip(11).take(2).filter_map(|t| t.parse::<u64>().ok()).sum();
    ticks * 10_000
}
