//! Files of the file system into local ones.

use std::ffi::OsString;
use std::fs::{self, File as Local};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use indicatif::ProgressBar;
use loligo_fs::{File, FileType, Metadata, OpenOptions};
use sha2::{Digest as _, Sha256};

use super::super::args::Transfer;
use super::super::tree;
use super::super::{Mount, named};
use super::note::{NOTE_PAUSE, are_samples_equal};
use super::{Sum, add_remote, each_piece, is_dash};
use crate::carried::{Carried, carry_all, progress};
use crate::failure::{Context, Failure};
use crate::name::Name;
use crate::note::Note;
use crate::say::Stdout;

pub(in super::super) async fn get(
    mount: &Mount,
    path: &Name,
    file: &Path,
    transfer: Transfer,
) -> Result<(), Failure> {
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

/// Reads one file into a local one. Returns the number of bytes that were carried.
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
    let source = file.stat().await.context(what)?;
    let (size, note) = (source.size, Note::of_remote(&source));
    let is_regular = !is_dash(local) && fs::metadata(local).map_or(true, |meta| meta.is_file());
    let resumed = (transfer.resume && is_regular).then_some(note);
    let from = match &resumed {
        Some(note) => resumed_at(&file, local, note).await?,
        None => 0,
    };
    bar.inc(from);
    let writing = || format!("write {}", local.display());
    let mut sink = Sink::open(local, from, resumed).context(writing)?;
    let mut sum = Sha256::new();
    if transfer.verify && from > 0 {
        add_remote(&file, 0..from, transfer.window, &mut sum).await?;
    }
    let read = each_piece(&file, from..size, transfer.window, |piece| {
        if transfer.verify {
            sum.update(&piece);
        }
        bar.inc(piece.len() as u64);
        sink.write(&piece).context(writing)
    })
    .await?;
    sink.end(&source).context(writing)?;
    if transfer.verify && !is_dash(local) && sum_of(local)? != sum.finalize() {
        return Err(Failure::new(format!("verify {}", local.display()), "the SHA-256 differs"));
    }
    Ok(read)
}

/// Returns the offset from which the local file must be filled: all of it is there if an earlier get has
/// given it the source's size and time.
async fn resumed_at(file: &File, local: &Path, source: &Note) -> Result<u64, Failure> {
    let reading = || format!("read {}", local.display());
    let Ok(there) = fs::metadata(local) else { return Ok(0) };
    if source.has_source_of(&Note::of_local(&there)) {
        return Ok(there.len());
    }
    let noted = fs::read(note_file(local)).ok().and_then(|text| Note::parse(&text));
    let fits = |noted: &Note| noted.has_source_of(source) && noted.written <= there.len();
    let Some(noted) = noted.filter(fits) else { return Ok(0) };
    let local = Local::open(local).context(reading)?;
    let is_beginning = are_samples_equal(file, &local, noted.written).await?;
    Ok(if is_beginning { noted.written } else { 0 })
}

/// The file beside a local one that holds the note on how far it is filled.
fn note_file(local: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(local.file_name().unwrap_or_default());
    name.push(".loligo-get");
    local.with_file_name(name)
}

/// Where the data goes.
struct Sink<'p> {
    to: Box<dyn Write>,
    /// The local file, to note how far it is filled.
    noting: Option<(Local, &'p Path, Note)>,
    noted_at: Instant,
}

impl<'p> Sink<'p> {
    /// `note`: that of the source, if a later get is to go on from what this one leaves.
    fn open(local: &'p Path, from: u64, note: Option<Note>) -> io::Result<Self> {
        let noted_at = Instant::now();
        if is_dash(local) {
            return Ok(Self { to: Box::new(Stdout), noting: None, noted_at });
        }
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(from == 0).open(local)?;
        file.seek(SeekFrom::Start(from))?;
        let noting = match note {
            Some(note) => Some((file.try_clone()?, local, note.up_to(from))),
            None => {
                gone(fs::remove_file(note_file(local)))?;
                None
            }
        };
        Ok(Self { to: Box::new(file), noting, noted_at })
    }

    fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        self.to.write_all(piece)?;
        if let Some((file, local, note)) = &mut self.noting {
            *note = note.up_to(note.written + piece.len() as u64);
            if self.noted_at.elapsed() >= NOTE_PAUSE {
                // First the data, then the note that tells of it.
                file.sync_data()?;
                let (to, new) = (note_file(local), note_file(&note_file(local)));
                fs::write(&new, note.text())?;
                fs::rename(&new, &to)?;
                self.noted_at = Instant::now();
            }
        }
        Ok(())
    }

    /// A file that is whole gets the source's time of modification: a later get with the same intention
    /// carries nothing.
    fn end(mut self, source: &Metadata) -> io::Result<()> {
        self.to.flush()?;
        let Some((file, local, note)) = self.noting else { return Ok(()) };
        file.set_len(note.written)?;
        if note.is_whole() {
            let at = Duration::new(source.mtime.sec.into(), source.mtime.nsec);
            file.set_modified(SystemTime::UNIX_EPOCH + at)?;
            gone(fs::remove_file(note_file(local)))?;
        }
        Ok(())
    }
}

fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Returns the SHA-256 of a local file.
fn sum_of(local: &Path) -> Result<Sum, Failure> {
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
    fn the_note_is_beside_the_file() {
        assert_eq!(note_file(Path::new("/a/b.c")), Path::new("/a/.b.c.loligo-get"));
        assert_eq!(note_file(Path::new("b")), Path::new(".b.loligo-get"));
    }
}
