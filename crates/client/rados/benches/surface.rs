//! Measures the less frequent operations against a server: connecting, compound operations, watchers,
//! omap, snapshots.
//!
//! ```text
//! cargo bench -p loligo-rados --bench surface -- [-c CONF] [POOL]
//! ```
//! Run it against `loligo serve` and against a stock OSD; objects stay in the pool.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use loligo_rados::{Builder, Error, IoCtx, WatchNews, WriteOp};

/// Number of samples; the median is reported.
const SAMPLES: usize = 2_000;

/// Operations in a compound request.
const SUB_OPS: u64 = 16;

/// Number of connecting clients; the median is reported.
const CONNECTS: usize = 21;

const WATCHERS: usize = 10_000;

const OMAP_KEYS: usize = 1_000_000;

/// A 1 GiB image in objects of 4 MiB.
const IMAGE_OBJECTS: usize = 256;
const OBJECT_BYTES: usize = 4 << 20;
/// Number of its snapshots; the median is reported.
const SNAPSHOTS: usize = 21;

/// Operations in flight while preparing data.
const IN_FLIGHT: usize = 32;

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let result = Builder::new().args(&mut args).map_err(Error::from).and_then(|builder| {
        let pool = args.first().cloned().unwrap_or_else(|| "p".to_owned());
        runtime.expect("a runtime").block_on(measure(builder, pool))
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(builder: Builder, pool: String) -> Result<(), Error> {
    let rados = builder.clone().connect().await?;
    let ioctx = rados.ioctx(&pool).await?;
    first_byte(&builder, &pool, &ioctx).await?;
    compound(&ioctx).await?;
    omap(&ioctx).await?;
    snapshot(&ioctx).await?;
    watchers(&ioctx).await?;
    rados.shutdown().await;
    Ok(())
}

/// Measures the time to an object's first byte: reading the configuration, finding a monitor, and
/// authenticating with the monitor and the OSD.
async fn first_byte(builder: &Builder, pool: &str, ioctx: &IoCtx) -> Result<(), Error> {
    ioctx.write_full("first", Bytes::from_static(b"byte")).await?;
    let mut took_us = Vec::new();
    for _ in 0..CONNECTS {
        let began = Instant::now();
        let rados = builder.clone().connect().await?;
        rados.ioctx(pool).await?.read("first", 0, 1).await?;
        took_us.push(began.elapsed().as_secs_f64() * 1e6);
        rados.shutdown().await;
    }
    println!("connected and read the first byte in {:.2} ms", median(took_us) / 1e3);
    Ok(())
}

/// Compares requests of 16 operations with requests of one, each one at a time.
async fn compound(ioctx: &IoCtx) -> Result<(), Error> {
    let data = Bytes::from_static(&[0xa5; 256]);
    let of = |sub_ops: u64| {
        let data = &data;
        (0..sub_ops).fold(WriteOp::new(), |op, n| op.write(n * 256, data.clone()))
    };
    ioctx.operate("compound", of(SUB_OPS)).await?;
    let single_us = median_us(async |_| ioctx.operate("compound", of(1)).await).await?;
    let compound_us = median_us(async |_| ioctx.operate("compound", of(SUB_OPS)).await).await?;
    println!(
        "{SUB_OPS} writes of 256 B in one request: {compound_us:.1} us, one: {single_us:.1} us, {:.2} times",
        compound_us / single_us
    );
    Ok(())
}

async fn median_us(mut run: impl AsyncFnMut(usize) -> Result<(), Error>) -> Result<f64, Error> {
    let mut took_us = Vec::with_capacity(SAMPLES);
    for n in 0..SAMPLES {
        let began = Instant::now();
        run(n).await?;
        took_us.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(took_us))
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

async fn omap(ioctx: &IoCtx) -> Result<(), Error> {
    let key = |n: usize| format!("key{n:08}");
    let value = Bytes::from_static(b"a value of some 32 bytes, as many");
    let batches = (0..OMAP_KEYS).step_by(1_000).map(|from| {
        let pairs: Vec<_> = (from..from + 1_000).map(|n| (key(n), value.clone())).collect();
        ioctx.set_omap("omap", pairs)
    });
    stream::iter(batches).buffer_unordered(8).try_collect::<()>().await?;
    let began = Instant::now();
    let listed = ioctx.omap("omap", "").try_fold(0, async |keys, _| Ok(keys + 1)).await?;
    let took_s = began.elapsed().as_secs_f64();
    println!("omap of {listed} keys listed in {took_s:.2} s: {:.0} keys/s", listed as f64 / took_s);
    assert_eq!(listed, OMAP_KEYS, "a key was lost");
    Ok(())
}

/// Creates a snapshot of a full image, and writes to each of its objects.
async fn snapshot(ioctx: &IoCtx) -> Result<(), Error> {
    let name = |n: usize| format!("image.{n:08}");
    let full = Bytes::from(vec![0x5a; OBJECT_BYTES]);
    let fill = (0..IMAGE_OBJECTS).map(|n| ioctx.write_full(name(n), full.clone()));
    stream::iter(fill).buffer_unordered(4).try_collect::<()>().await?;
    let block = Bytes::from_static(&[0xc3; 4096]);
    let write_each = async |io: &IoCtx| {
        let mut took_us = Vec::new();
        for n in 0..IMAGE_OBJECTS {
            let began = Instant::now();
            io.write(name(n), 8192, block.clone()).await?;
            took_us.push(began.elapsed().as_secs_f64() * 1e6);
        }
        Ok::<_, Error>(median(took_us))
    };
    let plain_us = write_each(ioctx).await?;
    let mut snaps = Vec::new();
    let mut took_us = Vec::new();
    for _ in 0..SNAPSHOTS {
        let began = Instant::now();
        snaps.insert(0, ioctx.create_managed_snapshot().await?);
        took_us.push(began.elapsed().as_secs_f64() * 1e6);
    }
    let first_us = write_each(&ioctx.with_snap_context(snaps[0], &snaps)?).await?;
    println!(
        "a snapshot of 1 GiB: {:.2} ms; first write of 4 KiB to an object after it: {first_us:.0} us, plain: {plain_us:.0} us, {:.2} times",
        median(took_us) / 1e3,
        first_us / plain_us
    );
    Ok(())
}

/// Sends one notification to very many watchers.
async fn watchers(ioctx: &IoCtx) -> Result<(), Error> {
    ioctx.create("watched", false).await?;
    let watch = |_| ioctx.watch("watched", Duration::from_secs(60));
    let began = Instant::now();
    let watches: Vec<_> =
        stream::iter(0..WATCHERS).map(watch).buffer_unordered(IN_FLIGHT).try_collect().await?;
    let watch_s = began.elapsed().as_secs_f64();
    let answering: Vec<_> = watches
        .into_iter()
        .map(|mut watch| {
            tokio::spawn(async move {
                // The watch is returned, not dropped: otherwise the server would process unregistrations
                // while it still notifies other watchers.
                if let WatchNews::Notified(notification) = watch.next().await? {
                    notification.answer(Bytes::new());
                }
                Ok::<_, Error>(watch)
            })
        })
        .collect();
    let began = Instant::now();
    let answered = ioctx.notify("watched", Bytes::from_static(b"news"), Duration::from_secs(30)).await?;
    let notify_s = began.elapsed().as_secs_f64();
    println!(
        "{} watchers registered in {watch_s:.2} s; all answered a notification in {notify_s:.3} s",
        answered.answers.len()
    );
    let mut watches = Vec::new();
    for task in answering {
        watches.push(task.await.expect("no panic")?);
    }
    let ends = watches.into_iter().map(loligo_rados::Watch::unwatch);
    stream::iter(ends).buffer_unordered(IN_FLIGHT).try_collect::<()>().await?;
    Ok(())
}
