//! Imports files into images, and exports images to files.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt as _, TryStreamExt as _};
use loligo_rbd::{Error, Image, Shrink, nonzero_runs};

use super::Bar;
use crate::failure::{Context, Failure};

/// Bytes of an I/O; the next constant is the number of I/Os in flight.
const CHUNK: u64 = 4 << 20;
const AT_ONCE: usize = 10;

/// Size of the blocks that are left out of a file if they are all zeros.
const SPARSE: usize = 4096;

/// Writes a file's content into an image of its size. Blocks of zeros are left out. `told` is called with
/// the bytes that are done, and the size.
pub(crate) async fn import(
    image: &Image,
    file: &mut impl Read,
    sparse_bytes: usize,
    told: impl Fn(u64, u64),
    what: &str,
) -> Result<(), Failure> {
    let chunks = (0..image.size()).step_by(CHUNK as usize).map(|at| {
        let mut data = vec![0; CHUNK.min(image.size() - at) as usize];
        tokio::task::block_in_place(|| file.read_exact(&mut data)).map(|()| (at, Bytes::from(data)))
    });
    let written = stream::iter(chunks).map(|chunk| async move {
        let (at, data) = chunk.context(|| what.to_owned())?;
        for Range { start: from, end: to } in nonzero_runs(&data, sparse_bytes) {
            let written = image.write(at + from as u64, data.slice(from..to)).await;
            written.context(|| what.to_owned())?;
        }
        Ok(data.len() as u64)
    });
    let mut written = written.buffer_unordered(AT_ONCE);
    let mut done = 0;
    while let Some(len) = written.try_next().await? {
        done += len;
        told(done, image.size());
    }
    Ok(())
}

/// Writes a stream into an image, which grows with it and has the stream's length at the end. Blocks of
/// zeros are left out.
pub(super) async fn import_stream(
    image: &Image,
    source: &mut impl Read,
    sparse_bytes: usize,
    what: &str,
) -> Result<(), Failure> {
    let mut at = 0;
    loop {
        let mut data = Vec::new();
        tokio::task::block_in_place(|| source.by_ref().take(CHUNK).read_to_end(&mut data))
            .context(|| what.to_owned())?;
        if data.is_empty() {
            return image.resize(at, Shrink::Allowed).await.context(|| what.to_owned());
        }
        let (end, data) = (at + data.len() as u64, Bytes::from(data));
        if end > image.size() {
            // The size is doubled each time, since the stream's length is unknown.
            let size = end.max(image.size().saturating_mul(2));
            image.resize(size, Shrink::Refused).await.context(|| what.to_owned())?;
        }
        for Range { start: from, end: to } in nonzero_runs(&data, sparse_bytes) {
            let written = image.write(at + from as u64, data.slice(from..to)).await;
            written.context(|| what.to_owned())?;
        }
        at = end;
    }
}

/// Writes an image to an output that cannot have holes.
pub(super) async fn export_stream(image: &Image, mut out: impl Write, what: &str) -> Result<(), Failure> {
    let mut chunks = chunks(image);
    while let Some(data) = next(&mut chunks, what).await? {
        out.write_all(&data).context(|| what.to_owned())?;
    }
    out.flush().context(|| what.to_owned())
}

/// Writes an image to a file; zeros become holes.
pub(super) async fn export(image: &Image, out: &mut File, bar: &Bar, what: &str) -> Result<(), Failure> {
    let (size, mut chunks, mut at) = (image.size(), chunks(image), 0);
    while let Some(data) = next(&mut chunks, what).await? {
        tokio::task::block_in_place(|| put(out, at, &data)).context(|| what.to_owned())?;
        at += data.len() as u64;
        bar.at(at, size);
    }
    out.set_len(size).and_then(|()| out.sync_all()).context(|| what.to_owned())
}

fn chunks(image: &Image) -> impl Stream<Item = Result<Bytes, Error>> + Unpin {
    let starts = (0..image.size()).step_by(CHUNK as usize);
    Box::pin(stream::iter(starts).map(|at| image.read(at, CHUNK)).buffered(AT_ONCE))
}

async fn next(
    chunks: &mut (impl Stream<Item = Result<Bytes, Error>> + Unpin),
    what: &str,
) -> Result<Option<Bytes>, Failure> {
    chunks.try_next().await.context(|| what.to_owned())
}

fn put(out: &mut File, at: u64, data: &[u8]) -> std::io::Result<()> {
    for Range { start: from, end: to } in nonzero_runs(data, SPARSE) {
        out.seek(SeekFrom::Start(at + from as u64))?;
        out.write_all(&data[from..to])?;
    }
    Ok(())
}
