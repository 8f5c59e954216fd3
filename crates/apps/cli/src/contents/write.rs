//! Writes files as objects and images to a server that has just been started.

use std::fs::File;
use std::io::{self, Read as _};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use indicatif::ProgressBar;
use loligo_rados::{Errno, Error, IoCtx, Rados, WhenFull, WriteOp};
use loligo_rbd::{Image, Mode};

use super::NewImage;
use super::folder::{Files, ObjectFile, PoolFolder};
use crate::failure::{Context, Failure};
use crate::name::Name;
use crate::rbd;

/// Files that are read at a time.
const FILES_AT_ONCE: usize = 8;

/// Bytes that one operation writes.
const PIECE_BYTES: usize = 4 << 20;

/// Blocks of an image's file that are left out if they are zeros.
const SPARSE_BYTES: usize = 4096;

/// The attribute of an object that is not complete yet: it takes several operations, and the server may end
/// between them.
const LOADING: &str = "loligo.loading";

/// How long a client may be silent that has an image open.
const WATCH_MAX: Duration = Duration::from_secs(30);

/// What the name of an image begins with that is not complete yet.
const LOADING_IMAGE: &str = ".loligo.loading.";

/// Writes the files of pools' folders as objects.
pub(super) async fn write_objects(
    rados: &Rados,
    folders: &[PoolFolder],
    bar: &ProgressBar,
) -> Result<(), Failure> {
    let mut pools = Vec::with_capacity(folders.len());
    for folder in folders {
        pools.push((open(rados, &folder.pool).await?, folder));
    }
    let files = pools.iter().flat_map(|(io, folder)| Files::of(folder).map(move |file| (io, *folder, file)));
    let writing = stream::iter(files).map(|(io, folder, file)| async move {
        let file = file?;
        let what = || format!("--load {} as {}/{}", file.path.display(), folder.pool, file.name);
        write_object(io, &file, bar, &what).await
    });
    writing.buffer_unordered(FILES_AT_ONCE).try_collect().await
}

/// Opens a pool. Where there is no room, writes fail: nobody could make room before the server is ready.
async fn open(rados: &Rados, pool: &str) -> Result<IoCtx, Failure> {
    let io = rados.ioctx(pool).await.context(|| format!("open pool {pool}"))?;
    Ok(io.with_when_full(WhenFull::Try))
}

/// Writes an object, unless it is there. One that was left incomplete is written anew.
async fn write_object(
    io: &IoCtx,
    file: &ObjectFile,
    bar: &ProgressBar,
    what: &impl Fn() -> String,
) -> Result<(), Failure> {
    let name = &file.name;
    let mut source = File::open(&file.path).context(what)?;
    let first = next_piece(&mut source).context(what)?;
    let mut at = first.len() as u64;
    let mut is_last = first.len() < PIECE_BYTES;
    let begin = WriteOp::new().create(true).write(0, first);
    let begin = if is_last { begin } else { begin.set_xattr(LOADING, b"") };
    match io.operate(name, begin.clone()).await {
        Err(why) if why.errno() == Errno::EEXIST => {
            if is_last || !is_incomplete(io, name).await.context(what)? {
                bar.inc(file.bytes);
                return Ok(());
            }
            io.remove(name).await.context(what)?;
            io.operate(name, begin).await.context(what)?;
        }
        begun => begun.context(what)?,
    }
    bar.inc(at);
    while !is_last {
        let piece = next_piece(&mut source).context(what)?;
        let len = piece.len() as u64;
        is_last = piece.len() < PIECE_BYTES;
        // At the largest size of an object not even nothing may be written.
        let op = if len == 0 { WriteOp::new() } else { WriteOp::new().write(at, piece) };
        io.operate(name, if is_last { op.remove_xattr(LOADING) } else { op }).await.context(what)?;
        bar.inc(len);
        at += len;
    }
    Ok(())
}

/// Whether an earlier start of the server ended while it wrote this object.
async fn is_incomplete(io: &IoCtx, name: &Name) -> Result<bool, Error> {
    match io.xattr(name, LOADING).await {
        Ok(_) => Ok(true),
        Err(why) if why.errno() == Errno::ENODATA => Ok(false),
        Err(why) => Err(why),
    }
}

/// Reads the next piece of a file; shorter than the others, or empty, at its end.
fn next_piece(file: &mut File) -> io::Result<Bytes> {
    let mut piece = Vec::new();
    tokio::task::block_in_place(|| file.take(PIECE_BYTES as u64).read_to_end(&mut piece))?;
    Ok(piece.into())
}

/// Creates an image with a file's contents, unless it is there. It gets its name when it is complete.
pub(super) async fn write_image(
    rados: &Rados,
    image: &NewImage<'_>,
    bar: &ProgressBar,
) -> Result<(), Failure> {
    let NewImage { pool, name, file, bytes } = image;
    let what = || format!("--image {pool}/{name}={}", file.display());
    let io = open(rados, pool).await?;
    if is_there(&io, name).await.context(what)? {
        bar.inc(*bytes);
        return Ok(());
    }
    let incomplete = Name::from([LOADING_IMAGE.as_bytes(), name.as_bytes()].concat());
    remove_incomplete(&io, &incomplete).await.context(what)?;
    let mut source = File::open(file).context(what)?;
    loligo_rbd::create(&io, &incomplete, loligo_rbd::NewImage::of_size(*bytes)).await.context(what)?;
    let opened = Image::open(&io, &incomplete, Mode::ReadWrite).await.context(what)?;
    let before = bar.position();
    let told = |done: u64, _: u64| bar.set_position(before + done);
    let filled = rbd::import(&opened, &mut source, SPARSE_BYTES, told, &what()).await;
    let closed = opened.close().await;
    filled?;
    closed.context(what)?;
    loligo_rbd::rename(&io, &incomplete, *name).await.context(what)
}

/// Removes what an earlier start of the server left of an image. The server takes a client of its last run
/// for alive until it has been silent for half a minute.
async fn remove_incomplete(io: &IoCtx, name: &Name) -> Result<(), loligo_rbd::Error> {
    let until = Instant::now() + 2 * WATCH_MAX;
    let mut is_told = false;
    loop {
        match loligo_rbd::remove(io, name, |_, _| {}).await {
            Err(loligo_rbd::Error::NoImage(_)) => return Ok(()),
            Err(loligo_rbd::Error::InUse) if Instant::now() < until => {
                if !std::mem::replace(&mut is_told, true) {
                    let most_s = (2 * WATCH_MAX).as_secs();
                    eprintln!(
                        "loligo: image '{name}' of an earlier start is in use: waiting up to {most_s} s"
                    );
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            done => return done,
        }
    }
}

async fn is_there(io: &IoCtx, name: &Name) -> Result<bool, loligo_rbd::Error> {
    match Image::open(io, name, Mode::ReadOnly).await {
        Ok(image) => image.close().await.map(|()| true),
        Err(loligo_rbd::Error::NoImage(_)) => Ok(false),
        Err(why) => Err(why),
    }
}
