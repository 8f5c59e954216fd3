//! Reads striped files into local ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use indicatif::ProgressBar;
use loligo_stripe::{File, StreamOptions};

use super::local::{Sink, Way, is_dash};
use super::note::Readable;
use super::put::compare;
use super::sums::Sums;
use super::{Transfer, closing, striper, tree};
use crate::carried::{Carried, carry_all, progress};
use crate::client::Pool;
use crate::failure::{Context, Failure};
use crate::name::Name;

#[derive(Clone, Copy)]
pub(super) struct Options {
    pub(super) transfer: Transfer,
    pub(super) resume: bool,
    pub(super) sparse: bool,
}

struct Getting<'p> {
    pool: &'p Pool,
    options: Options,
    bar: ProgressBar,
}

pub(super) async fn run(pool: &Pool, name: &Name, file: &Path, options: Options) -> Result<(), Failure> {
    let begun = Instant::now();
    let Transfer { recursive, parallel, verify, .. } = options.transfer;
    let carried = if recursive {
        let found = below(pool, name, file).await?;
        let bar = progress(Some(found.iter().map(|(_, _, bytes)| bytes).sum()));
        let getting = &Getting { pool, options, bar };
        let each = found.iter().map(|(name, path, _)| async move {
            let dir = path.parent().unwrap_or(path);
            fs::create_dir_all(dir).context(|| format!("make {}", dir.display()))?;
            getting.file(name, path).await
        });
        let carried = carry_all(each, parallel, &pool.names("get", name)).await;
        getting.bar.finish_and_clear();
        carried?
    } else {
        let size = striper(pool).stat(name).await.context(|| pool.names("get", name))?.size;
        let getting = Getting { pool, options, bar: progress(Some(size)) };
        let bytes = getting.file(name.as_bytes(), file).await?;
        getting.bar.finish_and_clear();
        Carried { files: 1, bytes }
    };
    if !is_dash(file) {
        carried.show(pool.format, begun, verify);
    }
    Ok(())
}

/// Writes files to standard output.
pub(super) async fn cat(pool: &Pool, names: &[Name], offset: u64, len: Option<u64>) -> Result<(), Failure> {
    let mut sink = Sink::open(Path::new("-"), 0, Way::Cached)?;
    for name in names {
        let what = || pool.names("cat", name);
        let file = striper(pool).open(name).await.context(what)?;
        let (options, bar) = (StreamOptions::default(), ProgressBar::hidden());
        let done = async {
            let readable = Readable::or_refuse(&striper(pool), name.as_bytes(), what).await?;
            readable.tell(what);
            let len = readable.end.saturating_sub(offset).min(len.unwrap_or(u64::MAX));
            carry(&file, (offset, len), options, &mut sink, None, &bar, what).await
        };
        let done = done.await;
        closing(file, done, what).await?;
    }
    sink.finish().await
}

/// Returns the striped files below a name, their local paths, and their sizes.
async fn below(pool: &Pool, name: &Name, dir: &Path) -> Result<Vec<(Vec<u8>, PathBuf, u64)>, Failure> {
    let what = || pool.names("get", name);
    let striper = &striper(pool);
    let (mut list, mut found) = (striper.files(), Vec::new());
    while let Some(file) = list.next().await.context(what)? {
        match tree::below(name, &file) {
            Some(path) => found.push((file, dir.join(path))),
            None if name.is_empty() => {
                let shown = Name::from(&file);
                eprintln!("loligo: left out, no name for a local file: {shown}");
            }
            None => {}
        }
    }
    if found.is_empty() {
        return Err(Failure::new(what(), "no striped file below that name"));
    }
    let sized = found.into_iter().map(|(file, path)| async move {
        let size = striper.stat(&file).await.context(|| pool.names("stat", &Name::from(&file)))?.size;
        Ok::<_, Failure>((file, path, size))
    });
    stream::iter(sized).buffered(16).try_collect().await
}

impl Getting<'_> {
    /// Reads one file. Returns the number of bytes written.
    async fn file(&self, name: &[u8], path: &Path) -> Result<u64, Failure> {
        let shown = Name::from(name);
        let what = || self.pool.names("get", &shown);
        let file = striper(self.pool).open(name).await.context(what)?;
        let done = self.fill(&file, name, path, &what).await;
        closing(file, done, what).await
    }

    async fn fill(
        &self,
        file: &File,
        name: &[u8],
        path: &Path,
        what: &impl Fn() -> String,
    ) -> Result<u64, Failure> {
        let Transfer { verify, window, .. } = self.options.transfer;
        // Asked while the file is open, since its lock protects the whole part. Data that is appended
        // later is not read: its size may be claimed before it is written.
        let readable = Readable::or_refuse(&striper(self.pool), name, what).await?;
        readable.tell(what);
        let end = readable.end;
        let from = self.resumed_at((file, end), path, what).await?;
        self.bar.inc(from);
        // Data that goes into a pipe can only be summed on its way.
        let regular = fs::metadata(path).is_ok_and(|meta| meta.is_file()) || !path.exists();
        let reread = regular && !is_dash(path);
        let mut sums = (verify && !reread).then(|| Sums::new(file.layout()));
        let mut sink = Sink::open(path, from, self.options.transfer.way())?;
        let options =
            StreamOptions { window_max: window, sparse: self.options.sparse, ..StreamOptions::default() };
        let carried =
            carry(file, (from, end - from), options, &mut sink, sums.as_mut(), &self.bar, what).await?;
        sink.finish().await?;
        if verify && reread {
            sums = Some(Sums::of_file(file.layout(), path, u64::MAX, self.options.transfer.way()).await?);
        }
        if let Some(sums) = sums {
            if sums.len() != from + carried {
                return Err(Failure::new(format!("verify {}", path.display()), "its size changed meanwhile"));
            }
            compare(&sums, file).await.context(what)??;
        }
        Ok(carried)
    }

    /// Returns the offset from which the local file must be filled.
    async fn resumed_at(
        &self,
        (file, end): (&File, u64),
        path: &Path,
        what: &impl Fn() -> String,
    ) -> Result<u64, Failure> {
        let meta = fs::metadata(path).ok().filter(|meta| meta.is_file() && !is_dash(path));
        let Some(there) = meta.filter(|_| self.options.resume).map(|meta| meta.len()) else { return Ok(0) };
        if there == 0 || there > end {
            return Ok(0);
        }
        let sums = Sums::of_file(file.layout(), path, there, self.options.transfer.way()).await?;
        let difference = sums.first_difference(file.direct()).await.context(what)?;
        Ok(if difference.is_none() && sums.len() == there { there } else { 0 })
    }
}

/// Reads a range into a sink. Returns the number of bytes.
async fn carry(
    file: &File,
    (offset, len): (u64, u64),
    options: StreamOptions,
    sink: &mut Sink,
    mut sums: Option<&mut Sums>,
    bar: &ProgressBar,
    what: impl Fn() -> String,
) -> Result<u64, Failure> {
    let mut stream = file.read_stream(offset, len, options).await.context(&what)?;
    let mut carried = 0;
    while let Some(segments) = stream.next().await {
        let segments = match segments {
            Ok(segments) => segments,
            Err(e) => {
                // The data before the error is valid and kept, so that a later try can resume there.
                sink.write(e.before.clone()).await?;
                return Err(Failure::new(what(), e));
            }
        };
        let len = segments.len();
        if let Some(sums) = &mut sums {
            sums.add(&segments.clone().into_bytes());
        }
        sink.write(segments).await?;
        carried += len;
        bar.inc(len);
    }
    Ok(carried)
}
