//! `loligo rbd diff`, `export-diff` and `import-diff`.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use loligo_rbd::diff::file::{Reader, Record, Writer};
use loligo_rbd::diff::{self, Change, Grain};
use loligo_rbd::{Error, Image, Mode, Shrink, nonzero_runs};
use serde_json::{Value, json};

use super::args::{Compared, Quiet};
use super::show::table;
use super::{Bar, Place};
use crate::args::Format;
use crate::failure::{Context, Failure};
use crate::name::Name;

/// Number of reads and writes in flight; the next constant is the maximum length of a read.
const AT_ONCE: usize = 10;
const CHUNK: u64 = 4 << 20;

/// Bytes of an image that are zeroed in one call.
const ZEROS: u64 = 1 << 30;

impl Compared {
    fn grain(&self) -> Grain {
        if self.whole_object { Grain::Objects } else { Grain::Bytes }
    }
}

pub(super) async fn list(place: &Place, text: &Name, compared: &Compared) -> Result<(), Failure> {
    let what = || format!("diff {text}");
    let (image, _) = place.open_to_read(text).await?;
    let changes = image.diff(compared.from_snap.as_ref(), compared.grain()).await.context(what)?;
    let changes: Vec<Change> = changes.try_collect().await.context(what)?;
    if place.format != Format::Plain {
        // `exists` is a text, as in `rbd`.
        let one = |change: &Change| json!({"offset": change.offset, "length": change.len, "exists": change.exists.to_string()});
        place.format.print("extents", "extent", &Value::from(changes.iter().map(one).collect::<Vec<_>>()));
        return Ok(());
    }
    if changes.is_empty() {
        return Ok(());
    }
    let titles = ["Offset", "Length", "Type"].map(str::to_owned);
    let row = |change: &Change| {
        let kind = if change.exists { "data" } else { "zero" };
        [change.offset.to_string(), change.len.to_string(), kind.to_owned()]
    };
    table([false; 3], std::iter::once(titles).chain(changes.iter().map(row)).collect());
    Ok(())
}

pub(super) async fn export(
    place: &Place,
    text: &Name,
    file: &Path,
    compared: &Compared,
    quiet: &Quiet,
) -> Result<(), Failure> {
    let what = format!("export-diff {text}");
    let (image, snap) = place.open_to_read(text).await?;
    let bar = Bar::new("Exporting image", quiet);
    let told = |at: u64| bar.at(at, image.size());
    let step = Step { from: compared.from_snap.as_ref(), to: snap.as_ref(), is_protected: false };
    let grain = compared.grain();
    if file == Path::new("-") {
        let writer = Writer::new(crate::say::Stdout).context(|| what.clone())?;
        return write(&image, &step, grain, writer, &told, &what).await.map(drop);
    }
    let out = File::create_new(file).context(|| format!("{what}: {}", file.display()))?;
    let done = async {
        let writer = Writer::new(BufWriter::new(out)).context(|| what.clone())?;
        let out = write(&image, &step, grain, writer, &told, &what).await?;
        out.get_ref().sync_all().context(|| what.clone())
    };
    let done = done.await;
    if done.is_err() {
        discard(file);
    }
    done
}

/// Removes an incomplete file. An error is ignored, since the first failure is the one to report.
pub(super) fn discard(file: &Path) {
    let _ = std::fs::remove_file(file);
}

/// The endpoints of a file of differences.
pub(super) struct Step<'a> {
    pub(super) from: Option<&'a Name>,
    pub(super) to: Option<&'a Name>,
    /// Set if the end snapshot is protected; only the second format records it.
    pub(super) is_protected: bool,
}

/// Writes the differences between a snapshot, or an empty image, and the open image. Calls `told` with
/// the offset in the image.
pub(super) async fn write<W: Write>(
    image: &Image,
    step: &Step<'_>,
    grain: Grain,
    mut writer: Writer<W>,
    told: &impl Fn(u64),
    what: &str,
) -> Result<W, Failure> {
    let what = || what.to_owned();
    let changes = image.diff(step.from, grain).await.context(what)?;
    if let Some(from) = step.from {
        writer.from_snap(from).context(what)?;
    }
    if let Some(to) = step.to {
        writer.to_snap(to).context(what)?;
        writer.protection(step.is_protected).context(what)?;
    }
    writer.size(image.size()).context(what)?;
    // A change longer than `max` is split; a shorter one stays whole, as in `rbd`.
    let max = CHUNK.max(image.layout().object_size());
    let pieces = changes.map_ok(|change| pieces(change, max)).try_flatten();
    let read = pieces.map_ok(|change| async move {
        let data = if change.exists { Some(image.read(change.offset, change.len).await?) } else { None };
        Ok::<_, Error>((change, data))
    });
    let mut read = std::pin::pin!(read.try_buffered(AT_ONCE));
    while let Some((change, data)) = read.try_next().await.context(what)? {
        let data = data.filter(|data| data.iter().any(|byte| *byte != 0));
        let written = tokio::task::block_in_place(|| match data {
            Some(data) => writer.data(change.offset, &data),
            None => writer.zeros(change.offset, change.len),
        });
        written.context(what)?;
        told(change.offset + change.len);
    }
    told(image.size());
    writer.end().context(what)
}

fn pieces(change: Change, max: u64) -> impl stream::Stream<Item = Result<Change, Error>> + Unpin {
    let end = change.offset + change.len;
    let starts = (change.offset..end).step_by(usize::try_from(max).unwrap_or(usize::MAX));
    stream::iter(starts.map(move |offset| Ok(Change { offset, len: max.min(end - offset), ..change })))
}

pub(super) async fn import(
    place: &Place,
    file: &Path,
    text: &Name,
    sparse_bytes: u64,
    quiet: &Quiet,
) -> Result<(), Failure> {
    let what = format!("import-diff {}", file.display());
    place.image(text).await?;
    let (from, size): (Box<dyn Read + Send>, u64) = match file == Path::new("-") {
        true => (Box::new(std::io::stdin()), 0),
        false => {
            let opened = File::open(file).context(|| what.clone())?;
            let size = opened.metadata().context(|| what.clone())?.len();
            (Box::new(std::io::BufReader::new(opened)), size)
        }
    };
    let mut reader = Reader::new(from).context(|| what.clone())?;
    let image = place.open(text, Mode::ReadWrite).await?;
    let bar = Bar::new("Importing image diff", quiet);
    let sparse_bytes = usize::try_from(sparse_bytes).unwrap_or(usize::MAX);
    let told = |at: u64| bar.at(at, size.max(at));
    let done = apply(&image, &mut reader, sparse_bytes, &told, &what).await;
    let closed = image.close().await;
    done?;
    closed.context(|| what)
}

/// Applies a file of differences to an image. Calls `told` with the number of bytes read. The snapshot
/// is created last: if it exists, so does all data before it.
pub(super) async fn apply(
    image: &Image,
    reader: &mut Reader<impl Read>,
    sparse_bytes: usize,
    told: &impl Fn(u64),
    what: &str,
) -> Result<(), Failure> {
    let fail = |why: String| Failure::new(what, why);
    let context = || what.to_owned();
    let (mut to_snap, mut is_protected) = (None, false);
    let mut record = next(reader).context(context)?;
    loop {
        match record {
            Record::FromSnap(name) if image.view().snapshot(&name).is_err() => {
                return Err(fail(format!("the image has no snapshot '{name}', which it would begin with")));
            }
            Record::FromSnap(_) => {}
            Record::ToSnap(name) if image.view().snapshot(&name).is_ok() => {
                return Err(fail(format!("the image has a snapshot '{name}' already")));
            }
            Record::ToSnap(name) => to_snap = Some(name),
            Record::Protection(protected) => is_protected = protected,
            Record::Unknown { tag } => unknown(tag, what),
            Record::Size(size) if size == image.size() => {}
            Record::Size(size) => image.resize(size, Shrink::Allowed).await.context(context)?,
            Record::Data { .. } | Record::Zeros { .. } | Record::End => break,
        }
        record = next(reader).context(context)?;
    }
    let changes = std::iter::successors(Some(Ok(record)), |last| {
        // Nothing follows the end or an unreadable record.
        let goes_on = matches!(last, Ok(Record::Data { .. } | Record::Zeros { .. } | Record::Unknown { .. }));
        goes_on.then(|| {
            let record = next(reader);
            told(reader.position());
            record
        })
    });
    let changed = stream::iter(changes).map(|record| async move {
        match record.context(context)? {
            Record::Data { offset, data } => put(image, offset, &data, sparse_bytes).await.context(context),
            Record::Zeros { offset, len } => clear(image, offset, len).await.context(context),
            Record::End => Ok(()),
            Record::Unknown { tag } => {
                unknown(tag, what);
                Ok(())
            }
            _ => Err(fail("names and size must come before what differs".to_owned())),
        }
    });
    changed.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    let Some(name) = to_snap else { return Ok(()) };
    image.create_snapshot(&name).await.context(context)?;
    if is_protected { image.protect_snapshot(&name).await.context(context) } else { Ok(()) }
}

/// Reports a skipped record; `rbd` prints a similar message.
fn unknown(tag: u8, what: &str) {
    eprintln!("loligo: {what}: left out, of a newer release: {tag:#04x}");
}

/// Merges two files of differences into one.
pub(super) fn merge(first: &Path, second: &Path, file: &Path, quiet: &Quiet) -> Result<(), Failure> {
    let what = || format!("merge-diff {} {}", first.display(), second.display());
    let open = |path: &Path| -> Result<(Box<dyn Read>, u64), Failure> {
        let opened = File::open(path).context(|| path.display().to_string())?;
        let size = opened.metadata().context(|| path.display().to_string())?.len();
        Ok((Box::new(std::io::BufReader::new(opened)), size))
    };
    let (one, one_size) = match first == Path::new("-") {
        true => (Box::new(std::io::stdin()) as Box<dyn Read>, 0),
        false => open(first)?,
    };
    let (other, other_size) = open(second)?;
    let bar = Bar::new("Merging image diff", quiet);
    let told = |at: u64| bar.at(at, at.max(one_size + other_size));
    if file == Path::new("-") {
        let out = crate::say::Stdout;
        return diff::merge(one, other, out, told).context(what).map(drop);
    }
    let out = File::create_new(file).context(|| format!("{}: {}", what(), file.display()))?;
    let done = diff::merge(one, other, BufWriter::new(out), told);
    let synced = done.and_then(|out| out.get_ref().sync_all());
    if synced.is_err() {
        discard(file);
    }
    synced.context(what)
}

fn next(reader: &mut Reader<impl Read>) -> std::io::Result<Record> {
    tokio::task::block_in_place(|| reader.next_record())
}

/// Zeroes a range of any length.
async fn clear(image: &Image, offset: u64, len: u64) -> Result<(), Error> {
    let end = offset + len;
    for at in (offset..end).step_by(ZEROS as usize) {
        image.write_zeroes(at, ZEROS.min(end - at)).await?;
    }
    Ok(())
}

/// Writes data; blocks of zeros use no space.
async fn put(image: &Image, offset: u64, data: &Bytes, sparse_bytes: usize) -> Result<(), Error> {
    let mut at = 0;
    for run in nonzero_runs(data, sparse_bytes) {
        if run.start > at {
            image.write_zeroes(offset + at as u64, (run.start - at) as u64).await?;
        }
        at = run.end;
        image.write(offset + run.start as u64, data.slice(run)).await?;
    }
    match data.len() - at {
        0 => Ok(()),
        rest => image.write_zeroes(offset + at as u64, rest as u64).await,
    }
}
