//! Transfers: local files into the file system, out of it, and within it.

mod get;
mod note;
mod put;

use std::io::Write as _;
use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use bytes::Bytes;
use futures_util::stream::{self, FuturesOrdered, StreamExt as _};
use loligo_fs::{File, OpenOptions};
use sha2::{Digest as _, Sha256};

use super::{Mount, named};
use crate::carried::{Carried, progress};
use crate::failure::{Context, Failure};
use crate::name::Name;
use crate::say::Stdout;

pub(super) use self::get::get;
pub(super) use self::put::put;

/// A SHA-256.
type Sum = sha2::digest::Output<Sha256>;

/// Bytes of one read or write: each goes to all of its objects at once.
const PIECE_BYTES: u64 = 8 << 20;

fn is_dash(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// The number of pieces under way.
fn pieces(window: u64) -> usize {
    (window / PIECE_BYTES).clamp(1, 256) as usize
}

pub(super) async fn cat(mount: &Mount, paths: &[Name]) -> Result<(), Failure> {
    for path in paths {
        let what = || named("cat", path);
        let file = mount.fs.open(path, OpenOptions::new().read()).await.context(what)?;
        let size = file.stat().await.context(what)?.size;
        let write = |piece: Bytes| Stdout.write_all(&piece).context(|| "write standard output".to_owned());
        each_piece(&file, 0..size, 64 << 20, write).await?;
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
        file.write_owned_at(at, piece).await.map(|()| len)
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

/// Reads a range of a file in order, several pieces at a time. Returns the number of bytes: fewer than were
/// asked for if the file was cut off meanwhile.
async fn each_piece(
    file: &File,
    range: Range<u64>,
    window: u64,
    mut take: impl FnMut(Bytes) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let (mut under_way, mut at, mut read) = (FuturesOrdered::new(), range.start, 0);
    loop {
        while at < range.end && under_way.len() < pieces(window) {
            let len = (range.end - at).min(PIECE_BYTES);
            under_way.push_back(file.read_at(at, len));
            at += len;
        }
        let Some(piece) = under_way.next().await else { return Ok(read) };
        let piece = piece.context(|| "read".to_owned())?;
        read += piece.len() as u64;
        take(piece)?;
    }
}

/// Adds a range of a file to a sum.
async fn add_remote(file: &File, range: Range<u64>, window: u64, sum: &mut Sha256) -> Result<(), Failure> {
    let add = |piece: Bytes| {
        sum.update(&piece);
        Ok(())
    };
    each_piece(file, range, window, add).await.map(drop)
}

/// Returns the SHA-256 of a file's first bytes.
async fn remote_sum(file: &File, end: u64, window: u64) -> Result<Sum, Failure> {
    let mut sum = Sha256::new();
    add_remote(file, 0..end, window, &mut sum).await?;
    Ok(sum.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_at_least_one_piece() {
        assert_eq!((pieces(0), pieces(PIECE_BYTES), pieces(64 << 20)), (1, 1, 8));
    }
}
