//! Transfers: local files into the file system, out of it, and within it.

use std::fs::{self, File as Local};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::time::Instant;

use bytes::Bytes;
use futures_util::stream::{self, FuturesOrdered, FuturesUnordered, StreamExt as _};
use indicatif::ProgressBar;
use loligo_fs::{File, FileType, OpenOptions};
use sha2::{Digest as _, Sha256};

use super::args::Transfer;
use super::tree::{self, join};
use super::{Carried, Mount, named, progress};
use crate::failure::{Context, Failure};
use crate::name::Name;
use crate::say::Stdout;

/// Bytes of one read or write: each goes to all of its objects at once.
const PIECE_BYTES: u64 = 8 << 20;

fn is_dash(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// The number of pieces under way.
fn pieces(window: u64) -> usize {
    (window / PIECE_BYTES).clamp(1, 256) as usize
}

pub(super) async fn put(mount: &Mount, file: &Path, path: &Name, transfer: Transfer) -> Result<(), Failure> {
    let begun = Instant::now();
    let carried = if transfer.recursive {
        put_all(mount, file, path, transfer).await?
    } else {
        let len = fs::metadata(file).ok().filter(|meta| meta.is_file()).map(|meta| meta.len());
        let bar = progress(if is_dash(file) { None } else { len });
        let bytes = put_one(mount, file, path.as_bytes(), transfer, &bar).await?;
        bar.finish_and_clear();
        Carried { files: 1, bytes }
    };
    carried.show(mount.format, begun, transfer.verify);
    Ok(())
}

async fn put_all(mount: &Mount, dir: &Path, path: &Name, transfer: Transfer) -> Result<Carried, Failure> {
    let found = tree::local(dir)?;
    mount.fs.create_dir_all(path, 0o755).await.context(|| named("mkdir", path))?;
    let bar = progress(Some(found.iter().map(|local| local.bytes).sum()));
    for local in found.iter().filter(|local| local.kind != FileType::Regular) {
        let to = join(path, &local.below);
        let shown = Name::from(&to);
        if local.kind == FileType::Directory {
            mount.fs.create_dir_all(&to, 0o755).await.context(|| named("mkdir", &shown))?;
        } else {
            let target = fs::read_link(&local.path).context(|| format!("read {}", local.path.display()))?;
            let _ = mount.fs.remove_file(&to).await;
            let made = mount.fs.symlink(target.as_os_str().as_bytes(), &to).await;
            made.context(|| named("ln", &shown))?;
        }
    }
    let files = found.iter().filter(|local| local.kind == FileType::Regular);
    let each = files.map(|local| {
        let (to, bar) = (join(path, &local.below), &bar);
        async move { put_one(mount, &local.path, &to, transfer, bar).await }
    });
    let carried = carry_all(each, transfer.parallel, &named("put", path)).await;
    bar.finish_and_clear();
    carried
}

/// Writes one file. Returns the number of bytes.
async fn put_one(
    mount: &Mount,
    local: &Path,
    path: &[u8],
    transfer: Transfer,
    bar: &ProgressBar,
) -> Result<u64, Failure> {
    let shown = Name::from(path);
    let what = || named("put", &shown);
    let reading = || format!("read {}", local.display());
    let mut source: Box<dyn Read> = match is_dash(local) {
        true => Box::new(io::stdin()),
        false => Box::new(Local::open(local).context(|| format!("open {}", local.display()))?),
    };
    let options = OpenOptions::new().read().write().create().truncate();
    let file = &mount.fs.open(path, options).await.context(what)?;
    let (mut under_way, mut at, mut sum) = (FuturesUnordered::new(), 0, Sha256::new());
    loop {
        let mut piece = Vec::new();
        (&mut *source).take(PIECE_BYTES).read_to_end(&mut piece).context(reading)?;
        if piece.is_empty() {
            break;
        }
        if transfer.verify {
            sum.update(&piece);
        }
        let (begins, len) = (at, piece.len() as u64);
        at += len;
        under_way.push(async move { file.write_at(begins, piece).await.map(|()| len) });
        while under_way.len() >= pieces(transfer.window) {
            bar.inc(under_way.next().await.unwrap_or(Ok(0)).context(what)?);
        }
    }
    while let Some(done) = under_way.next().await {
        bar.inc(done.context(what)?);
    }
    drop(under_way);
    file.sync().await.context(what)?;
    if transfer.verify {
        let mut read = Sha256::new();
        each_piece(file, at, transfer.window, |piece| {
            read.update(&piece);
            Ok(())
        })
        .await?;
        if read.finalize() != sum.finalize() {
            return Err(Failure::new(what(), "what was written reads differently: the SHA-256 differs"));
        }
    }
    Ok(at)
}

pub(super) async fn get(mount: &Mount, path: &Name, file: &Path, transfer: Transfer) -> Result<(), Failure> {
    let begun = Instant::now();
    let carried = if transfer.recursive {
        get_all(mount, path, file, transfer).await?
    } else {
        let size = mount.fs.stat(path).await.context(|| named("get", path))?.size;
        let bar = progress(Some(size));
        let bytes = get_one(mount, path.as_bytes(), file, transfer, &bar).await?;
        bar.finish_and_clear();
        Carried { files: 1, bytes }
    };
    if !is_dash(file) {
        carried.show(mount.format, begun, transfer.verify);
    }
    Ok(())
}

async fn get_all(mount: &Mount, path: &Name, dir: &Path, transfer: Transfer) -> Result<Carried, Failure> {
    let found = tree::below(mount, path).await?;
    let make = |dir: &Path| fs::create_dir_all(dir).context(|| format!("make {}", dir.display()));
    make(dir)?;
    let mut files = Vec::new();
    let mut total = 0;
    for found in &found {
        let Some(below) = inside(&found.below) else {
            eprintln!("loligo: left out, no name for a local file: {}", Name::from(&found.path));
            continue;
        };
        let to = dir.join(below);
        match found.metadata.file_type() {
            FileType::Directory => make(&to)?,
            FileType::Regular => {
                total += found.metadata.size;
                files.push((&found.path, to));
            }
            FileType::Symlink => {
                let what = || named("get", &Name::from(&found.path));
                let target = mount.fs.read_link(&found.path).await.context(what)?;
                let _ = fs::remove_file(&to);
                symlink(std::ffi::OsStr::from_bytes(&target), &to)
                    .context(|| format!("make {}", to.display()))?;
            }
            _ => eprintln!("loligo: left out, no file: {}", Name::from(&found.path)),
        }
    }
    let bar = progress(Some(total));
    let each = files.iter().map(|(path, to)| get_one(mount, path, to, transfer, &bar));
    let carried = carry_all(each, transfer.parallel, &named("get", path)).await;
    bar.finish_and_clear();
    carried
}

/// Returns a path below a local directory, unless it would lead out of it.
fn inside(below: &[u8]) -> Option<PathBuf> {
    let path = Path::new(std::ffi::OsStr::from_bytes(below));
    path.components().all(|part| matches!(part, Component::Normal(_))).then(|| path.to_owned())
}

/// Reads one file into a local one. Returns the number of bytes.
async fn get_one(
    mount: &Mount,
    path: &[u8],
    local: &Path,
    transfer: Transfer,
    bar: &ProgressBar,
) -> Result<u64, Failure> {
    let shown = Name::from(path);
    let what = || named("get", &shown);
    let file = mount.fs.open(path, OpenOptions::new().read()).await.context(what)?;
    let size = file.stat().await.context(what)?.size;
    let writing = || format!("write {}", local.display());
    let mut sink: Box<dyn Write> = match is_dash(local) {
        true => Box::new(Stdout),
        false => Box::new(Local::create(local).context(writing)?),
    };
    let mut sum = Sha256::new();
    let read = each_piece(&file, size, transfer.window, |piece| {
        if transfer.verify {
            sum.update(&piece);
        }
        bar.inc(piece.len() as u64);
        sink.write_all(&piece).context(writing)
    })
    .await?;
    sink.flush().context(writing)?;
    if transfer.verify && !is_dash(local) && sum_of(local)? != sum.finalize() {
        return Err(Failure::new(format!("verify {}", local.display()), "the SHA-256 differs"));
    }
    Ok(read)
}

/// Returns the SHA-256 of a local file.
fn sum_of(local: &Path) -> Result<sha2::digest::Output<Sha256>, Failure> {
    let reading = || format!("read {}", local.display());
    let (mut source, mut sum) = (Local::open(local).context(reading)?, Sha256::new());
    let mut piece = vec![0; 1 << 20];
    loop {
        match source.read(&mut piece).context(reading)? {
            0 => return Ok(sum.finalize()),
            len => sum.update(&piece[..len]),
        }
    }
}

pub(super) async fn cat(mount: &Mount, paths: &[Name]) -> Result<(), Failure> {
    for path in paths {
        let what = || named("cat", path);
        let file = mount.fs.open(path, OpenOptions::new().read()).await.context(what)?;
        let size = file.stat().await.context(what)?.size;
        let write = |piece: Bytes| Stdout.write_all(&piece).context(|| "write standard output".to_owned());
        each_piece(&file, size, 64 << 20, write).await?;
        Stdout.flush().context(|| "write standard output".to_owned())?;
    }
    Ok(())
}

pub(super) async fn copy(mount: &Mount, source: &Name, to: &Name, window: u64) -> Result<(), Failure> {
    let begun = Instant::now();
    let what = || format!("cp {source} {to}");
    let from = &mount.fs.open(source, OpenOptions::new().read()).await.context(what)?;
    let metadata = from.stat().await.context(what)?;
    let options = OpenOptions::new().write().create().truncate().mode(metadata.permissions());
    let file = &mount.fs.open(to, options).await.context(what)?;
    if file.stat().await.context(what)?.ino == metadata.ino {
        return Err(Failure::new(what(), "they are the same file, which is empty now"));
    }
    let bar = progress(Some(metadata.size));
    let starts = (0..metadata.size).step_by(PIECE_BYTES as usize);
    let each = starts.map(|at| async move {
        let piece = from.read_at(at, PIECE_BYTES).await?;
        let len = piece.len() as u64;
        file.write_at(at, piece).await.map(|()| len)
    });
    let mut under_way = std::pin::pin!(stream::iter(each).buffer_unordered(pieces(window)));
    let mut bytes = 0;
    while let Some(done) = under_way.next().await {
        let len = done.context(what)?;
        bytes += len;
        bar.inc(len);
    }
    bar.finish_and_clear();
    file.sync().await.context(what)?;
    Carried { files: 1, bytes }.show(mount.format, begun, false);
    Ok(())
}

/// Reads a file in order, several pieces at a time. Returns the number of bytes: fewer than `size` if the
/// file was cut off meanwhile.
async fn each_piece(
    file: &File,
    size: u64,
    window: u64,
    mut take: impl FnMut(Bytes) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let (mut under_way, mut at, mut read) = (FuturesOrdered::new(), 0, 0);
    loop {
        while at < size && under_way.len() < pieces(window) {
            let len = (size - at).min(PIECE_BYTES);
            under_way.push_back(file.read_at(at, len));
            at += len;
        }
        let Some(piece) = under_way.next().await else { return Ok(read) };
        let piece = piece.context(|| "read".to_owned())?;
        read += piece.len() as u64;
        take(piece)?;
    }
}

/// Transfers many files, `parallel` at a time. A failed file does not stop the others. Each failure is
/// printed, and the error at the end tells their number.
async fn carry_all<F>(files: impl Iterator<Item = F>, parallel: u16, what: &str) -> Result<Carried, Failure>
where
    F: Future<Output = Result<u64, Failure>>,
{
    let (mut carried, mut failed) = (Carried::default(), 0);
    let mut ended = std::pin::pin!(stream::iter(files).buffer_unordered(parallel.into()));
    while let Some(one) = ended.next().await {
        match one {
            Ok(bytes) => {
                carried.files += 1;
                carried.bytes += bytes;
            }
            Err(failure) => {
                failed += 1;
                eprintln!("loligo: {failure}");
            }
        }
    }
    if failed > 0 {
        return Err(Failure::new(what, format!("{failed} of {} files failed", failed + carried.files)));
    }
    Ok(carried)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_out_of_a_directory_are_left_out() {
        assert_eq!(inside(b"a/b"), Some(PathBuf::from("a/b")));
        assert_eq!(inside(b"../a"), None);
        assert_eq!(inside(b"a/../../b"), None);
        assert_eq!(inside(b"/etc"), None);
    }

    #[test]
    fn the_window_is_at_least_one_piece() {
        assert_eq!((pieces(0), pieces(PIECE_BYTES), pieces(64 << 20)), (1, 1, 8));
    }
}
