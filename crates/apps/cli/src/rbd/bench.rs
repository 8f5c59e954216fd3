//! `loligo rbd bench`: measures an image as `rbd bench` does.

use std::time::Instant;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use loligo_rados::Errno;
use loligo_rbd::{CacheMode, CacheOptions, Error, Image, ImageCache, Mode};
use serde_json::json;

use super::args::{Bench, IoType, Pattern};
use super::{Place, show};
use crate::args::Format;
use crate::bench::histogram;
use crate::failure::{Context, Failure};

/// An I/O: `true` if it reads, and its offset.
type Io = (bool, u64);

/// Opens the image, with a cache if one is requested. A cache needs the lock, also for reading.
pub(super) async fn open(place: &Place, options: &Bench) -> Result<Image, Failure> {
    let what = || format!("bench {}", options.image);
    // A bench that only reads may be of a snapshot.
    let image = match (options.io_type, options.cache) {
        (IoType::Read, None) => place.open_to_read(&options.image).await?.0,
        _ => place.open(&options.image, Mode::ReadWrite).await?,
    };
    let Some(bytes) = options.cache else { return Ok(image) };
    let mode = if options.cache_writethrough { CacheMode::WriteThrough } else { CacheMode::WriteBack };
    let cache = ImageCache::new(CacheOptions { mode, ..CacheOptions::of_size(bytes) });
    let image = image.cached(&cache).context(what)?;
    image.acquire_lock().await.context(what)?;
    Ok(image)
}

pub(super) async fn run(image: &Image, options: &Bench, format: Format) -> Result<(), Failure> {
    let what = || format!("bench {}", image.name());
    let size = image.size();
    if options.io_size == 0 || options.io_threads == 0 || options.io_size > size || options.io_size > 1 << 30
    {
        return Err(Failure::of(
            Errno::EINVAL,
            what(),
            "the size of an I/O and I/Os in flight must be at least 1, and an I/O within the image",
        ));
    }
    let count = options.io_total.div_ceil(options.io_size);
    if format == Format::Plain {
        let pattern = match options.io_pattern {
            Pattern::Rand => "random",
            Pattern::Seq => "sequential",
            Pattern::FullSeq => "full sequential",
        };
        let kind = match options.io_type {
            IoType::Read => "read",
            IoType::Write => "write",
            IoType::Readwrite => "readwrite",
        };
        sayln!(
            "bench  type {kind} io_size {} io_threads {} bytes {} pattern {pattern}",
            options.io_size,
            options.io_threads,
            options.io_total
        );
    }
    let mut times = histogram();
    let begun = Instant::now();
    let data: Bytes = (0..options.io_size).map(|at| at as u8 ^ 0x5a).collect();
    let ios = stream::iter(ios(options, size, count)).map(|io| one(image, io, &data));
    let mut ios = ios.buffer_unordered(options.io_threads);
    while let Some(us) = ios.try_next().await.context(what)? {
        times.saturating_record(us);
    }
    if options.cache.is_some() {
        image.flush().await.context(what)?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let (ops, bytes) = (count as f64 / seconds, (count * options.io_size) as f64 / seconds);
    match format {
        Format::Plain => sayln!(
            "elapsed: {}   ops: {count}   ops/sec: {ops:.3}   bytes/sec: {}/s",
            seconds.round(),
            show::bytes(bytes as u64)
        ),
        _ => {
            let at = |quantile| times.value_at_quantile(quantile);
            let latency = json!({
                "mean": times.mean(), "p50": at(0.5), "p99": at(0.99), "p999": at(0.999), "max": times.max(),
            });
            format.print(
                "bench",
                "item",
                &json!({"ops": count, "iops": ops, "bytes_per_s": bytes, "lat_us": latency}),
            );
        }
    }
    Ok(())
}

/// Returns the I/Os in the order of `rbd bench`.
fn ios(options: &Bench, size: u64, count: u64) -> impl Iterator<Item = Io> {
    let (io_size, lanes) = (options.io_size, options.io_threads as u64);
    let (pattern, kind, mix) = (options.io_pattern, options.io_type, options.rw_mix_read);
    let places = size / io_size;
    let part = (places / lanes).max(1);
    let mut random = fastrand::Rng::new();
    (0..count).map(move |n| {
        let place = match pattern {
            Pattern::Rand => random.u64(0..places),
            Pattern::FullSeq => n % places,
            Pattern::Seq => (n % lanes * part + n / lanes % part) % places,
        };
        let reads = match kind {
            IoType::Read => true,
            IoType::Write => false,
            IoType::Readwrite => random.u32(0..100) < mix,
        };
        (reads, place * io_size)
    })
}

/// Runs one I/O. Returns its latency in microseconds.
async fn one(image: &Image, (reads, at): Io, data: &Bytes) -> Result<u64, Error> {
    let begun = Instant::now();
    match reads {
        true => drop(image.read(at, data.len() as u64).await?),
        false => image.write(at, data.clone()).await?,
    }
    Ok(begun.elapsed().as_micros() as u64)
}
