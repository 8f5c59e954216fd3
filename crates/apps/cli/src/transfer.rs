//! Writes files to objects and reads them back. Several pieces are in flight at once, in the file's
//! order.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use bytes::Bytes;
use futures_util::stream::{FuturesOrdered, StreamExt};
use indicatif::{ProgressBar, ProgressStyle};

use crate::client::Pool;
use crate::failure::{Context, Failure};
use crate::name::Name;
use crate::say::Stdout;

/// Bytes of one operation, as `rados put` sends; rounded up to whole stripes where the pool requires
/// them.
const PIECE_BYTES: usize = 4 << 20;
/// Maximum number of operations in flight.
const PIECES_MAX: usize = 8;

/// Writes a file as an object, or into a part of one.
pub(crate) async fn put(pool: &Pool, object: &Name, file: &Path, offset: Option<u64>) -> Result<(), Failure> {
    let what = || pool.names("put", object);
    let (mut source, len) = open(file)?;
    let (bar, piece_bytes) = (progress(len), piece_bytes(pool));
    let mut under_way = FuturesOrdered::new();
    let (mut at, mut sent) = (offset.unwrap_or(0), 0);
    let mut first = true;
    loop {
        let piece = read_piece(&mut *source, file, piece_bytes, len.map(|len| len.saturating_sub(sent)))?;
        if piece.is_empty() && !first {
            break;
        }
        let (start, piece_len) = (at, piece.len() as u64);
        // Writing the first piece truncates the object, unless only a part is written.
        let whole = first && offset.is_none();
        under_way.push_back(async move {
            let io = &pool.ioctx;
            match whole {
                true => io.write_full(object.as_bytes(), piece).await,
                false => io.write(object.as_bytes(), start, piece).await,
            }
            .map(|()| piece_len)
        });
        at += piece_len;
        sent += piece_len;
        first = false;
        while under_way.len() >= PIECES_MAX {
            bar.inc(finish_one(&mut under_way).await.context(what)?);
        }
    }
    while !under_way.is_empty() {
        bar.inc(finish_one(&mut under_way).await.context(what)?);
    }
    bar.finish_and_clear();
    Ok(())
}

/// Appends a file to an object. The pieces are written one after the other, so that each follows the one
/// before.
pub(crate) async fn append(pool: &Pool, object: &Name, file: &Path) -> Result<(), Failure> {
    let (mut source, len) = open(file)?;
    let (bar, piece_bytes) = (progress(len), piece_bytes(pool));
    let what = || pool.names("append", object);
    let mut appended = 0;
    loop {
        let left = len.map(|len| len.saturating_sub(appended));
        let piece = read_piece(&mut *source, file, piece_bytes, left)?;
        if piece.is_empty() {
            break;
        }
        let piece_len = piece.len() as u64;
        pool.ioctx.append(object.as_bytes(), piece).await.context(what)?;
        appended += piece_len;
        bar.inc(piece_len);
    }
    if appended == 0 {
        // `rados append` also creates an object that does not exist.
        pool.ioctx.append(object.as_bytes(), Bytes::new()).await.context(what)?;
    }
    bar.finish_and_clear();
    Ok(())
}

/// Reads an object into a file.
pub(crate) async fn get(pool: &Pool, object: &Name, file: &Path, offset: u64) -> Result<(), Failure> {
    let what = || pool.names("get", object);
    let size = pool.ioctx.stat(object.as_bytes()).await.context(what)?.size;
    let to_file = |e| Failure::new(format!("write {}", file.display()), e);
    let mut sink: Box<dyn Write> = match is_dash(file) {
        true => Box::new(Stdout),
        false => Box::new(File::create(file).map_err(to_file)?),
    };
    let bar = progress(Some(size.saturating_sub(offset)));
    let mut under_way = FuturesOrdered::new();
    let mut at = offset;
    loop {
        while at < size && under_way.len() < PIECES_MAX {
            let len = (size - at).min(PIECE_BYTES as u64);
            under_way.push_back(pool.ioctx.read(object.as_bytes(), at, len));
            at += len;
        }
        let Some(piece) = under_way.next().await else { break };
        let piece = piece.context(what)?;
        sink.write_all(&piece).map_err(to_file)?;
        bar.inc(piece.len() as u64);
    }
    sink.flush().map_err(to_file)?;
    bar.finish_and_clear();
    Ok(())
}

async fn finish_one<F, T, E>(under_way: &mut FuturesOrdered<F>) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    under_way.next().await.expect("the caller has seen that something is under way")
}

fn is_dash(file: &Path) -> bool {
    file.as_os_str() == "-"
}

fn open(file: &Path) -> Result<(Box<dyn Read>, Option<u64>), Failure> {
    if is_dash(file) {
        return Ok((Box::new(std::io::stdin()), None));
    }
    let opened = File::open(file).context(|| format!("open {}", file.display()))?;
    let len = opened.metadata().ok().filter(|m| m.is_file()).map(|m| m.len());
    Ok((Box::new(opened), len))
}

/// Returns the bytes of a piece: whole stripes, if the pool requires writes to begin at a stripe.
fn piece_bytes(pool: &Pool) -> u64 {
    // A piece is held in memory; no pool has stripes longer than this.
    let stripe_bytes = pool.ioctx.required_alignment().filter(|bytes| *bytes <= 64 << 20).unwrap_or(1);
    (PIECE_BYTES as u64).next_multiple_of(stripe_bytes)
}

/// Reads the next piece. It is shorter only at the end of the file, and empty after it. `left` is how many
/// bytes the file should still have, if that is known: a buffer that grows while it is filled is copied at
/// each step.
fn read_piece(
    source: &mut dyn Read,
    file: &Path,
    piece_bytes: u64,
    left: Option<u64>,
) -> Result<Bytes, Failure> {
    let expected = left.unwrap_or(0).min(piece_bytes);
    // With room for one byte more, the end of the file is found without a larger buffer.
    let mut piece = Vec::with_capacity(usize::try_from(expected).map_or(0, |len| len + 1));
    let read = source.take(piece_bytes).read_to_end(&mut piece);
    read.context(|| format!("read {}", file.display()))?;
    Ok(piece.into())
}

/// Creates a progress bar, which is drawn on a terminal only. It is hidden for files that take no time.
fn progress(len: Option<u64>) -> ProgressBar {
    match len {
        Some(len) if len <= 4 * PIECE_BYTES as u64 => ProgressBar::hidden(),
        Some(len) => {
            let style = "{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
            let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(len).with_style(style)
        }
        None => ProgressBar::new_spinner(),
    }
}
