//! The write of a file over several objects, on a CephFS: one object after the other, as the kernel's client
//! writes it, or all at once.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use loligo_fs::{File, FileSystem, MountOptions, OpenOptions};
use loligo_rados::{Builder, Rados, Trace};

use super::clients::runtime;
use crate::measure::{median, waited_for};
use crate::{Error, Form, Metric, Sample, Setting, Spread, Unit};

/// Bytes of an object, by the default layout.
const OBJECT_BYTES: u64 = 4 << 20;
/// Objects of the write that is drawn: those of `dd bs=64M`.
const DRAWN: u64 = 16;
/// Number of writes of a single object. The figures are compared with their median.
const ALONE: usize = 5;

pub(super) fn setting(objects: u64) -> Setting {
    Setting {
        name: format!("CephFS, {objects} objects of {} MiB", OBJECT_BYTES >> 20),
        metrics: vec![
            Metric::lower("time of a write, mean", Unit::Ms).published(978.0 / 141.0),
            Metric::lower("time of a write, longest", Unit::Ms),
            Metric::lower("time of a write, times that of one object alone", Unit::Times),
        ],
        spread_of: "time of a write",
    }
}

/// Measures one form on the default file system of a cluster. The file is removed in the end.
pub(super) fn measure(conf: &Path, objects: u64, form: Form, time: Duration) -> Result<Sample, Error> {
    let runtime = runtime(std::thread::available_parallelism().map_or(1, usize::from))?;
    let done: Result<(Spread, f64), loligo_fs::Error> = runtime.block_on(async {
        let (rados, fs) = mounted(Builder::new().conf_file(&conf.to_string_lossy())).await?;
        let path = format!("loligo-contend-{}", std::process::id());
        let done = written(&fs, &path, objects, form, time).await;
        let removed = fs.remove_file(&path).await;
        let ended = fs.unmount().await;
        rados.shutdown().await;
        let done = done?;
        removed.and(ended).map(|()| done)
    });
    let (spread, alone_ms) = done.map_err(Error::talk("write a file of CephFS"))?;
    let (mean, longest) = (spread.mean_ns() / 1e6, spread.max_ns() as f64 / 1e6);
    Ok(Sample { figures: vec![mean, longest, mean / alone_ms], spread, locks: waited_for() })
}

/// Writes 64 MiB of a file on a cluster's default file system directly, as `dd bs=64M oflag=direct` does:
/// first in the form before, then in the form after. The trace gets the operations of both, in this order.
/// The file is removed in the end.
///
/// # Errors
/// Errors of the cluster.
pub fn trace_direct_writes(conf: &Path, trace: &Trace) -> Result<(), Error> {
    let runtime = runtime(std::thread::available_parallelism().map_or(1, usize::from))?;
    let conf = conf.to_string_lossy();
    let path = format!("loligo-contend-{}", std::process::id());
    let data = Bytes::from(vec![0x6c; (DRAWN * OBJECT_BYTES) as usize]);
    let done: Result<(), loligo_fs::Error> = runtime.block_on(async {
        // The objects are made before, and not recorded.
        let (rados, fs) = mounted(Builder::new().conf_file(&conf)).await?;
        let file = fs.open(&path, OpenOptions::new().write().create_new().direct()).await?;
        let made = file.write_at(0, data.clone()).await;
        let made = made.and(file.close().await);
        if made.is_ok() {
            let (rados, fs) = mounted(Builder::new().conf_file(&conf).trace(trace)).await?;
            let file = fs.open(&path, OpenOptions::new().write().direct()).await?;
            let before = one_after_the_other(&file, &data).await;
            let after = file.write_at(0, data.clone()).await;
            let ended = file.close().await.and(fs.unmount().await);
            rados.shutdown().await;
            before.and(after).and(ended)?;
        }
        let removed = fs.remove_file(&path).await;
        let ended = fs.unmount().await;
        rados.shutdown().await;
        made.and(removed).and(ended)
    });
    done.map_err(Error::talk("write a file of CephFS"))
}

async fn mounted(builder: Builder) -> Result<(Rados, FileSystem), loligo_fs::Error> {
    let rados = builder.connect().await?;
    let fs = FileSystem::mount(&rados, MountOptions::new()).await?;
    Ok((rados, fs))
}

/// Writes the same range repeatedly for `time`, at least once. The first write, which creates the objects, is
/// not counted. Also returns the time of one object's write, in milliseconds.
async fn written(
    fs: &FileSystem,
    path: &str,
    objects: u64,
    form: Form,
    time: Duration,
) -> Result<(Spread, f64), loligo_fs::Error> {
    let file = fs.open(path, OpenOptions::new().write().create_new().direct()).await?;
    let data = Bytes::from(vec![0x6c; (objects * OBJECT_BYTES) as usize]);
    file.write_at(0, data.clone()).await?;
    loligo_lockstat::reset();
    let (mut spread, began) = (Spread::new(), Instant::now());
    while spread.is_empty() || began.elapsed() < time {
        let sent = Instant::now();
        match form {
            Form::After => file.write_at(0, data.clone()).await?,
            Form::Before => one_after_the_other(&file, &data).await?,
        }
        spread.add(sent.elapsed());
    }
    let mut alone_ms = Vec::with_capacity(ALONE);
    for _ in 0..ALONE {
        let sent = Instant::now();
        file.write_at(0, data.slice(..OBJECT_BYTES as usize)).await?;
        alone_ms.push(sent.elapsed().as_secs_f64() * 1e3);
    }
    file.close().await?;
    Ok((spread, median(alone_ms.into_iter())))
}

async fn one_after_the_other(file: &File, data: &Bytes) -> Result<(), loligo_fs::Error> {
    for at in (0..data.len()).step_by(OBJECT_BYTES as usize) {
        file.write_at(at as u64, data.slice(at..at + OBJECT_BYTES as usize)).await?;
    }
    Ok(())
}
