//! `loligo bench`: measures a pool as `rados bench` does. The objects' names are the same, so that
//! either program removes the other's objects.

mod args;
pub(crate) mod cleanup;
mod contents;
pub(crate) mod load_gen;
mod metadata;
mod result;
mod run;

use std::time::Duration;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};

use loligo_rados::Errno;

use crate::client::{self, Client, Pool};
use crate::failure::{Context, Failure};
use crate::format::Format;

pub(crate) use args::{Bench, Cleanup, LoadGen, Mode};
use metadata::Metadata;
pub(crate) use result::{Measured, cpu_us_of, process_cpu_us};
pub(crate) use run::histogram;
use run::{Driver, Into, Job};

/// Maximum number of concurrent removals.
const REMOVALS: usize = 128;

pub(crate) fn run(client: Client, options: &Bench) -> Result<(), Failure> {
    if options.depth == 0 || options.threads == 0 || options.seconds == 0 || options.block_size == 0 {
        return Err(Failure::new(
            "bench",
            "seconds, block size, operations in flight and threads must be at least 1",
        ));
    }
    if options.object_size == Some(0) {
        return Err(Failure::new("bench", "objects must have at least one byte"));
    }
    if options.mode != Mode::Write && (options.write_object || options.write_omap || options.write_xattr) {
        let why = "--write-object, --write-omap and --write-xattr are for the mode write";
        return Err(Failure::of(Errno::EINVAL, "bench", why));
    }
    client::runtime(options.threads)?.block_on(async {
        if options.output.is_some() && client.format == Format::Plain {
            return Err(Failure::of(Errno::EINVAL, "bench --output", "needs --format json"));
        }
        let pool = client.pool().await?;
        let measured = measure(&pool, options).await?;
        match (pool.format, &options.output) {
            (Format::Plain, _) => say!("{}", measured.to_text()),
            (_, None) => pool.format.print("bench", "item", &measured.to_json()),
            (format, Some(file)) => {
                let mut text = format.text("bench", "item", &measured.to_json());
                text.push(b'\n');
                std::fs::write(file, text).context(|| format!("write {}", file.display()))?;
            }
        }
        pool.rados.shutdown().await;
        Ok(())
    })
}

/// Runs one bench in a pool.
pub(crate) async fn measure(pool: &Pool, options: &Bench) -> Result<Measured, Failure> {
    let job = match options.mode {
        Mode::Write => write_job(options),
        mode => {
            let metadata = Metadata::read(pool, options.run_name.as_deref()).await?;
            if mode == Mode::Seq { Job::Seq { metadata } } else { Job::Rand { metadata } }
        }
    };
    let driver = Driver::new(pool, job, Duration::from_secs(options.seconds));
    let measured = driver.drive(options.depth, options.threads).await?;
    if options.mode == Mode::Write {
        let written = driver.written();
        if options.no_cleanup {
            written.write(pool, options.run_name.as_deref()).await?;
        } else {
            remove_all(pool, &written).await?;
        }
    }
    Ok(measured)
}

fn write_job(options: &Bench) -> Job {
    let object_bytes = options.object_size.unwrap_or(options.block_size);
    let metadata = Metadata::of_this_process(options.block_size, object_bytes);
    let (omap, xattrs) = (options.write_omap, options.write_xattr);
    let into = Into { data: options.write_object || !(omap || xattrs), omap, xattrs };
    let objects_max = if options.max_objects == 0 { u64::MAX } else { options.max_objects };
    let ops_max = objects_max.saturating_mul(metadata.ops_per_object());
    Job::Write { metadata, into, ops_max }
}

async fn remove_all(pool: &Pool, metadata: &Metadata) -> Result<(), Failure> {
    stream::iter((0..metadata.objects()).map(|number| metadata.object(number)))
        .map(|object| async move {
            match pool.ioctx.remove(object.clone()).await {
                // Another client has removed it already.
                Err(e) if !e.is_not_found() => Err(e).context(|| pool.names("cleanup", &object)),
                _ => Ok(()),
            }
        })
        .buffer_unordered(REMOVALS)
        .try_collect::<()>()
        .await
}
