//! Local files into striped ones.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use loligo_rados::Errno;
use loligo_stripe::{File, Layout, ObjectNo, StreamOptions, Striper};
use serde::{Deserialize, Serialize};

use super::local::{Source, Way, is_dash};
use super::sums::Sums;
use super::{Carried, LayoutOptions, Transfer, carry_all, closing, progress, striper, tree};
use crate::client::Pool;
use crate::failure::{Context, Failure};

/// The attribute of the first object that says how far a file is written.
pub(super) const NOTE: &str = "loligo.put";
/// A note is made when so much more is written, or after so long.
const NOTE_BYTES: u64 = 256 << 20;
const NOTE_PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Options {
    pub(super) layout: LayoutOptions,
    pub(super) transfer: Transfer,
    pub(super) resume: bool,
}

/// One local file or a directory of them, and what all have in common.
struct Putting<'p> {
    pool: &'p Pool,
    layout: Option<Layout>,
    options: &'p Options,
    bar: ProgressBar,
}

/// How far a striped file is written, and from which local file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    size: u64,
    mtime: i64,
    mtime_nsec: i64,
    written: u64,
}

pub(super) async fn run(pool: &Pool, name: &str, file: &Path, options: &Options) -> Result<(), Failure> {
    let begun = Instant::now();
    let Transfer { recursive, parallel, verify, .. } = options.transfer;
    let layout = options.layout.layout().context(|| pool.names("put", name))?;
    let carried = if recursive {
        let found = tree::walk(file, name)?;
        let bar = progress(Some(found.iter().map(|file| file.bytes).sum()));
        let putting = &Putting { pool, layout, options, bar };
        let each = found.iter().map(|found| putting.file(&found.name, &found.path));
        let carried = carry_all(each, parallel, &format!("put {}", file.display())).await;
        putting.bar.finish_and_clear();
        carried?
    } else {
        let len = match is_dash(file) {
            true => None,
            false => {
                let meta = std::fs::metadata(file).context(|| format!("open {}", file.display()))?;
                if meta.is_dir() {
                    return Err(Failure::new(
                        format!("put {}", file.display()),
                        "a directory; --recursive puts all that is in it",
                    ));
                }
                meta.is_file().then_some(meta.len())
            }
        };
        let putting = Putting { pool, layout, options, bar: progress(len) };
        let bytes = putting.file(name.as_bytes(), file).await?;
        putting.bar.finish_and_clear();
        Carried { files: 1, bytes }
    };
    carried.show(pool, begun, verify);
    Ok(())
}

/// Writes a file at the end of a striped one. One piece after the other: each lands where the one before it ended.
pub(super) async fn append(
    pool: &Pool,
    name: &str,
    file: &Path,
    layout: LayoutOptions,
) -> Result<(), Failure> {
    let what = || pool.names("append", name);
    let layout = layout.layout().context(what)?.unwrap_or_default();
    let mut source = Source::open(file, 0, Way::Cached)?;
    let len =
        std::fs::metadata(file).ok().filter(|meta| meta.is_file() && !is_dash(file)).map(|meta| meta.len());
    let bar = progress(len);
    let striper = striper(pool).with_layout(layout).context(what)?;
    let mut target = striper.open_or_create(name).await.context(what)?;
    let done = async {
        while let Some(piece) = source.next().await? {
            let len = piece.len() as u64;
            target.append(piece).await.context(what)?;
            bar.inc(len);
        }
        Ok(())
    };
    let done = done.await;
    bar.finish_and_clear();
    closing(target, done, what).await
}

impl Putting<'_> {
    /// One file. Returns the bytes that were read from it.
    async fn file(&self, name: &[u8], file: &Path) -> Result<u64, Failure> {
        let shown = String::from_utf8_lossy(name).into_owned();
        let what = || self.pool.names("put", &shown);
        let meta = match is_dash(file) {
            true => None,
            false => Some(std::fs::metadata(file).context(|| format!("open {}", file.display()))?),
        };
        let meta = meta.filter(Metadata::is_file);
        Source::check(file, self.options.transfer.way())?;
        let note = meta.as_ref().filter(|_| self.options.resume).map(Note::of);
        let (target, from) = self.target(name, note.as_ref()).await.context(what)?;
        let done = self.fill(&target, name, file, meta.as_ref(), note, from).await;
        closing(target, done, what).await
    }

    /// The striped file, open, and from where on it is to be written: from its beginning, and then empty, unless a note says other.
    async fn target(&self, name: &[u8], note: Option<&Note>) -> Result<(File, u64), loligo_stripe::Error> {
        let striper = striper(self.pool).with_layout(self.layout.unwrap_or_default())?;
        match striper.create(name).await {
            Err(e) if e.errno() == Errno::EEXIST => {}
            made => return Ok((made?, 0)),
        }
        let there = match striper.stat(name).await {
            Err(e) if e.is_not_found() => return Ok((striper.open_or_create(name).await?, 0)),
            there => there?,
        };
        let same_layout = self.layout.is_none_or(|layout| layout == there.layout);
        if let Some(note) = note.filter(|_| same_layout) {
            let target = striper.open(name).await?;
            match self.noted(&target).await? {
                Some(noted)
                    if noted == (Note { written: noted.written, ..*note }) && noted.written <= there.size =>
                {
                    return Ok((target, noted.written));
                }
                _ => target.close().await?,
            }
        }
        self.empty(&striper, name, same_layout).await?;
        Ok((striper.open_or_create(name).await?, 0))
    }

    /// Makes room for a file: a layout is for life.
    async fn empty(
        &self,
        striper: &Striper,
        name: &[u8],
        same_layout: bool,
    ) -> Result<(), loligo_stripe::Error> {
        let done = match same_layout {
            true => striper.truncate(name, 0).await,
            false => striper.remove(name).await,
        };
        match done {
            // Somebody else has removed it.
            Err(e) if e.is_not_found() => return Ok(()),
            done => done?,
        }
        if same_layout {
            let first = loligo_stripe::ObjectNames::Striper(name.to_vec()).name(ObjectNo(0));
            absent_is_fine(striper.ioctx().remove_xattr(first, NOTE).await)?;
        }
        Ok(())
    }

    async fn fill(
        &self,
        target: &File,
        name: &[u8],
        file: &Path,
        meta: Option<&Metadata>,
        mut note: Option<Note>,
        from: u64,
    ) -> Result<u64, Failure> {
        let shown = String::from_utf8_lossy(name).into_owned();
        let what = || self.pool.names("put", &shown);
        let Transfer { verify, window, .. } = self.options.transfer;
        let mut sums = match verify {
            true if from > 0 => {
                Some(Sums::of_file(target.layout(), file, from, self.options.transfer.way()).await?)
            }
            true => Some(Sums::new(target.layout())),
            false => None,
        };
        let mut source = Source::open(file, from, self.options.transfer.way())?;
        self.bar.inc(from);
        let options = StreamOptions {
            window_max: window,
            ends_at: meta.map(Metadata::len),
            ..StreamOptions::default()
        };
        let mut stream = target.write_stream(from, options);
        let mut noted_at = Instant::now();
        if let Some(note) = &mut note {
            note.written = from;
            self.make_note(target, note).await.context(what)?;
        }
        let (mut taken, mut shown_bytes) = (from, from);
        while let Some(piece) = source.next().await? {
            if let Some(sums) = &mut sums {
                sums.add(&piece);
            }
            taken += piece.len() as u64;
            stream.write(piece).await.context(what)?;
            self.bar.inc(stream.written() - shown_bytes);
            shown_bytes = stream.written();
            if let Some(note) = &mut note
                && (shown_bytes - note.written >= NOTE_BYTES || noted_at.elapsed() >= NOTE_PAUSE)
            {
                note.written = shown_bytes;
                self.make_note(target, note).await.context(what)?;
                noted_at = Instant::now();
            }
        }
        let end = stream.finish().await.context(what)?;
        self.bar.inc(end - shown_bytes);
        // One that grew is written as far as it was read.
        if meta.is_some_and(|meta| meta.len() > taken) {
            return Err(Failure::new(format!("read {}", file.display()), "it was cut off meanwhile"));
        }
        if let Some(note) = &mut note {
            note.written = end;
            self.make_note(target, note).await.context(what)?;
        }
        if let Some(sums) = sums {
            compare(&sums, target).await.context(what)??;
        }
        Ok(taken - from)
    }

    async fn noted(&self, target: &File) -> Result<Option<Note>, loligo_rados::Error> {
        let first = target.direct().name(ObjectNo(0));
        match self.pool.ioctx.xattr(first, NOTE).await {
            // A note that cannot be read is none.
            Ok(note) => Ok(serde_json::from_slice(&note).ok()),
            Err(e) if e.errno() == Errno::ENODATA => Ok(None),
            Err(e) => Err(e),
        }
    }

    async fn make_note(&self, target: &File, note: &Note) -> Result<(), loligo_rados::Error> {
        let text = serde_json::to_vec(note).expect("numbers are JSON");
        self.pool.ioctx.set_xattr(target.direct().name(ObjectNo(0)), NOTE, text).await
    }
}

/// Says where the local file and the striped one are not the same.
pub(super) async fn compare(sums: &Sums, target: &File) -> Result<Result<(), Failure>, loligo_rados::Error> {
    Ok(match sums.first_difference(target.direct()).await? {
        None => Ok(()),
        Some(at) => {
            Err(Failure::new("verify", format!("checksums differ in the object with the file's byte {at}")))
        }
    })
}

fn absent_is_fine(done: Result<(), loligo_rados::Error>) -> Result<(), loligo_rados::Error> {
    match done {
        Err(e) if e.errno() == Errno::ENODATA || e.is_not_found() => Ok(()),
        done => done,
    }
}

impl Note {
    fn of(meta: &Metadata) -> Self {
        Self { size: meta.len(), mtime: meta.mtime(), mtime_nsec: meta.mtime_nsec(), written: 0 }
    }
}
