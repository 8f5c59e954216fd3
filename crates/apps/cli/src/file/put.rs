//! Writes local files to striped ones.

use std::fs::Metadata;
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use loligo_rados::Errno;
use loligo_stripe::{File, Layout, ObjectNo, StreamOptions, Striper};

use super::appends::Appending;
use super::local::{Source, Way, is_dash};
use super::note::{Look, NOTE, Readable};
use super::sums::Sums;
use super::{LayoutOptions, Transfer, closing, striper, tree};
use crate::carried::{Carried, carry_all, progress};
use crate::client::Pool;
use crate::failure::{Context, Failure};
use crate::name::Name;
use crate::note::Note;

/// A note is written after this amount of data, or after this pause.
const NOTE_BYTES: u64 = 256 << 20;
const NOTE_PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Options {
    pub(super) layout: LayoutOptions,
    pub(super) transfer: Transfer,
    pub(super) resume: bool,
}

/// The settings for one local file, or for all files of a directory.
struct Putting<'p> {
    pool: &'p Pool,
    layout: Option<Layout>,
    options: &'p Options,
    bar: ProgressBar,
}

pub(super) async fn run(pool: &Pool, name: &Name, file: &Path, options: &Options) -> Result<(), Failure> {
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
    carried.show(pool.format, begun, verify);
    Ok(())
}

/// Appends a file to a striped one. The pieces are written one after the other, so that each follows the
/// one before, or data that other programs append meanwhile.
pub(super) async fn append(
    pool: &Pool,
    name: &Name,
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
        Readable::or_refuse(&striper, name.as_bytes(), what).await?;
        let mut appending = Appending::to(&target);
        while let Some(piece) = source.next().await? {
            let len = piece.len() as u64;
            appending.append(&mut target, piece).await.context(what)?;
            bar.inc(len);
        }
        // After a failure the note stays, since the data that could not be written is a hole.
        appending.finish(&striper, name.as_bytes()).await.context(what)
    };
    let done = done.await;
    bar.finish_and_clear();
    closing(target, done, what).await
}

impl Putting<'_> {
    /// Writes one file. Returns the number of bytes read from it.
    async fn file(&self, name: &[u8], file: &Path) -> Result<u64, Failure> {
        let shown = Name::from(name);
        let what = || self.pool.names("put", &shown);
        let meta = match is_dash(file) {
            true => None,
            false => Some(std::fs::metadata(file).context(|| format!("open {}", file.display()))?),
        };
        let meta = meta.filter(Metadata::is_file);
        Source::check(file, self.options.transfer.way())?;
        let note = meta.as_ref().map_or_else(|| Note::without_source(0), Note::of_local);
        let (target, from) = self.target(name, &note).await.context(what)?;
        let done = self.fill(&target, name, file, meta.as_ref(), note, from).await;
        closing(target, done, what).await
    }

    /// Opens the striped file, with a note that it is not whole. Returns it with the offset at which
    /// writing starts: the beginning of an emptied file, unless its note allows to resume.
    async fn target(&self, name: &[u8], note: &Note) -> Result<(File, u64), loligo_stripe::Error> {
        // The note of an empty local file would say that the striped file is whole.
        let mark = if note.is_whole() { Note::without_source(0) } else { *note };
        let striper =
            striper(self.pool).with_layout(self.layout.unwrap_or_default())?.with_mark(NOTE, mark.text());
        loop {
            match striper.create(name).await {
                Err(e) if e.errno() == Errno::EEXIST => {}
                made => return Ok((made?, 0)),
            }
            match self.over(&striper, name, note).await {
                Ok(None) => {}
                // Another client has removed it.
                Err(e) if e.is_not_found() => {}
                Ok(Some(there)) => return Ok(there),
                Err(e) => return Err(e),
            }
        }
    }

    /// Opens an existing file. Returns `None` if the file was removed because its layout differs: a
    /// layout cannot be changed.
    async fn over(
        &self,
        striper: &Striper,
        name: &[u8],
        note: &Note,
    ) -> Result<Option<(File, u64)>, loligo_stripe::Error> {
        let look = Look::at(striper, name).await?;
        let there = look.stat;
        if self.layout.is_some_and(|layout| layout != there.layout) {
            striper.remove(name).await?;
            return Ok(None);
        }
        if self.options.resume {
            let target = striper.open(name).await?;
            // Repeated, since the open file's lock prevents truncation from now on.
            let look = Look::at(striper, name).await?;
            match look.note.filter(|noted| noted.has_source_of(note) && look.is_as(noted)) {
                Some(noted) => return Ok(Some((target, noted.written))),
                None => target.close().await?,
            }
        }
        striper.truncate(name, 0).await?;
        look.take_off_appends(striper, name).await?;
        Ok(Some((striper.open(name).await?, 0)))
    }

    async fn fill(
        &self,
        target: &File,
        name: &[u8],
        file: &Path,
        meta: Option<&Metadata>,
        mut note: Note,
        from: u64,
    ) -> Result<u64, Failure> {
        let shown = Name::from(name);
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
        note = note.up_to(from);
        if !note.is_whole() {
            note.make(target).await.context(what)?;
        } else if from == 0 {
            // An empty file may grow while it is read.
            Note::without_source(0).make(target).await.context(what)?;
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
            let due = shown_bytes - note.written >= NOTE_BYTES || noted_at.elapsed() >= NOTE_PAUSE;
            let noted = note.up_to(shown_bytes);
            // The note that the file is whole is written last.
            if due && !noted.is_whole() {
                note = noted;
                note.make(target).await.context(what)?;
                noted_at = Instant::now();
            }
        }
        let end = stream.finish().await.context(what)?;
        self.bar.inc(end - shown_bytes);
        // A file that grew is written as far as it was read.
        if meta.is_some_and(|meta| meta.len() > taken) {
            return Err(Failure::new(format!("read {}", file.display()), "it was cut off meanwhile"));
        }
        if let Some(sums) = sums {
            compare(&sums, target).await.context(what)??;
        }
        let note = note.up_to(end);
        self.finished(target, note).await.context(what)?;
        Ok(taken - from)
    }

    /// Marks the file as whole: the note says so if a later put may resume, and is removed otherwise.
    async fn finished(&self, target: &File, note: Note) -> Result<(), loligo_rados::Error> {
        if self.options.resume && note.is_whole() {
            return note.make(target).await;
        }
        let direct = target.direct();
        match direct.ioctx().remove_xattr(direct.name(ObjectNo(0)), NOTE).await {
            Err(e) if e.errno() == Errno::ENODATA => Ok(()),
            done => done,
        }
    }
}

/// Returns an error if the local and the striped file differ.
pub(super) async fn compare(sums: &Sums, target: &File) -> Result<Result<(), Failure>, loligo_rados::Error> {
    Ok(match sums.first_difference(target.direct()).await? {
        None => Ok(()),
        Some(at) => {
            Err(Failure::new("verify", format!("checksums differ in the object with the file's byte {at}")))
        }
    })
}
