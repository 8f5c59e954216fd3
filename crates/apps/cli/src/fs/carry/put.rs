//! Local files into the file system.

use std::fs::{self, File as Local};
use std::io::{self, Read, Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Instant;

use futures_util::stream::{FuturesOrdered, StreamExt as _};
use indicatif::ProgressBar;
use loligo_fs::{File, FileType, LockKind, OpenOptions, XattrMode};
use loligo_rados::Errno;
use sha2::{Digest as _, Sha256};

use super::super::args::Transfer;
use super::super::tree::{self, join};
use super::super::{Mount, named};
use super::note::{NOTE_PAUSE, are_samples_equal};
use super::{PIECE_BYTES, Sum, is_dash, pieces, remote_sum};
use crate::carried::{Carried, carry_all, progress};
use crate::failure::{Context, Failure};
use crate::name::Name;
use crate::note::Note;

/// The attribute of a file that holds the note on how far it is written.
const ATTRIBUTE: &str = "user.loligo.put";

pub(in super::super) async fn put(
    mount: &Mount,
    file: &Path,
    path: &Name,
    transfer: Transfer,
) -> Result<(), Failure> {
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

/// Writes one file. Returns the number of bytes that were carried.
async fn put_one(
    mount: &Mount,
    local: &Path,
    path: &[u8],
    transfer: Transfer,
    bar: &ProgressBar,
) -> Result<u64, Failure> {
    let shown = Name::from(path);
    let putting = Putting { local, what: named("put", &shown), transfer, bar };
    let meta = match is_dash(local) {
        true => None,
        false => Some(fs::metadata(local).context(|| format!("open {}", local.display()))?),
    };
    let note = meta.as_ref().filter(|meta| meta.is_file()).map(Note::of_local);
    let resumed = note.filter(|_| transfer.resume);
    let options = OpenOptions::new().read().write().create();
    let options = if resumed.is_some() { options } else { options.truncate() };
    let file = mount.fs.open(path, options).await.context(|| putting.what.clone())?;
    let done = putting.carry(&file, resumed).await;
    let ended = file.close().await.context(|| putting.what.clone());
    let carried = done?;
    ended.map(|()| carried)
}

/// The transfer of one file.
struct Putting<'p> {
    local: &'p Path,
    what: String,
    transfer: Transfer,
    bar: &'p ProgressBar,
}

impl Putting<'_> {
    /// Fills the file, from where an earlier put has come to if that may be resumed. Returns the number of
    /// bytes that were carried.
    async fn carry(&self, file: &File, resumed: Option<Note>) -> Result<u64, Failure> {
        let what = || self.what.clone();
        if resumed.is_some() {
            // Two that write the same file would each note what the other has overwritten.
            let locked = file.lock_whole(LockKind::Exclusive, std::process::id().into(), true).await;
            locked.context(what)?;
        }
        let from = match &resumed {
            Some(note) => self.resumed_at(file, note).await?,
            None => 0,
        };
        if from == 0 {
            self.forget_note(file).await.context(what)?;
        }
        if resumed.is_some() && from == 0 {
            file.truncate(0).await.context(what)?;
        }
        self.bar.inc(from);
        let (end, sum) = self.fill(file, from, resumed).await?;
        if from > 0 && file.stat().await.context(what)?.size > end {
            file.truncate(end).await.context(what)?;
        }
        file.sync().await.context(what)?;
        if let Some(sum) = sum {
            let read = remote_sum(file, end, self.transfer.window).await?;
            if read != sum {
                return Err(Failure::new(what(), "what was written reads differently: the SHA-256 differs"));
            }
        }
        if let Some(note) = resumed.map(|note| note.up_to(end)) {
            if !note.is_whole() {
                return Err(Failure::new(
                    format!("read {}", self.local.display()),
                    "it was cut off meanwhile",
                ));
            }
            // A later put of the same file carries nothing.
            self.make_note(file, &note).await.context(what)?;
        }
        Ok(end - from)
    }

    /// Writes the source's bytes from an offset. Returns where it ends, and the SHA-256 of all of it if it is
    /// needed.
    async fn fill(
        &self,
        file: &File,
        from: u64,
        resumed: Option<Note>,
    ) -> Result<(u64, Option<Sum>), Failure> {
        let what = || self.what.clone();
        let reading = || format!("read {}", self.local.display());
        let mut sum = self.transfer.verify.then(Sha256::new);
        let mut source: Box<dyn Read> = match is_dash(self.local) {
            true => Box::new(io::stdin()),
            false => Box::new(self.open_at(from, sum.as_mut())?),
        };
        // In order, so that all before the last one that ended is written.
        let (mut under_way, mut at, mut written) = (FuturesOrdered::new(), from, from);
        let mut noted_at = Instant::now();
        loop {
            // One that grows would be copied at each step.
            let mut piece = Vec::with_capacity(PIECE_BYTES as usize);
            (&mut *source).take(PIECE_BYTES).read_to_end(&mut piece).context(reading)?;
            if piece.is_empty() {
                break;
            }
            if let Some(sum) = &mut sum {
                sum.update(&piece);
            }
            let (begins, len) = (at, piece.len() as u64);
            at += len;
            under_way.push_back(async move { file.write_owned_at(begins, piece).await.map(|()| len) });
            while under_way.len() >= pieces(self.transfer.window) {
                let len = under_way.next().await.unwrap_or(Ok(0)).context(what)?;
                self.bar.inc(len);
                written += len;
            }
            if let Some(note) = resumed.filter(|_| written > from && noted_at.elapsed() >= NOTE_PAUSE) {
                // First the data and the size, then the note that tells of them.
                file.sync().await.context(what)?;
                self.make_note(file, &note.up_to(written)).await.context(what)?;
                noted_at = Instant::now();
            }
        }
        while let Some(done) = under_way.next().await {
            self.bar.inc(done.context(what)?);
        }
        Ok((at, sum.map(Sha256::finalize)))
    }

    /// Opens the source at an offset. The sum gets what is before.
    fn open_at(&self, from: u64, sum: Option<&mut Sha256>) -> Result<Local, Failure> {
        let reading = || format!("read {}", self.local.display());
        let mut source = Local::open(self.local).context(|| format!("open {}", self.local.display()))?;
        match sum {
            Some(sum) => {
                let mut piece = vec![0; 1 << 20];
                let mut left = from;
                while left > 0 {
                    let len = left.min(piece.len() as u64) as usize;
                    source.read_exact(&mut piece[..len]).context(reading)?;
                    sum.update(&piece[..len]);
                    left -= len as u64;
                }
            }
            None => {
                source.seek(SeekFrom::Start(from)).context(reading)?;
            }
        }
        Ok(source)
    }

    /// Returns the offset from which the file must be written.
    async fn resumed_at(&self, file: &File, source: &Note) -> Result<u64, Failure> {
        let what = || self.what.clone();
        let noted = match file.node().xattr(ATTRIBUTE).await {
            Err(e) if e.errno() == Errno::ENODATA => None,
            value => Note::parse(&value.context(what)?),
        };
        let Some(noted) = noted.filter(|noted| noted.has_source_of(source)) else { return Ok(0) };
        let there = file.stat().await.context(what)?.size;
        let fits = if noted.is_whole() { there == noted.written } else { there >= noted.written };
        let local = Local::open(self.local).context(|| format!("open {}", self.local.display()))?;
        let is_beginning = fits && are_samples_equal(file, &local, noted.written).await?;
        Ok(if is_beginning { noted.written } else { 0 })
    }

    async fn make_note(&self, file: &File, note: &Note) -> Result<(), loligo_fs::Error> {
        file.node().set_xattr(ATTRIBUTE, note.text(), XattrMode::Any).await
    }

    /// Removes the note of an earlier put: it would speak of data that is not there any more.
    async fn forget_note(&self, file: &File) -> Result<(), loligo_fs::Error> {
        let node = file.node();
        if !node.list_xattrs().await?.iter().any(|name| name == ATTRIBUTE.as_bytes()) {
            return Ok(());
        }
        match node.remove_xattr(ATTRIBUTE).await {
            Err(e) if e.errno() == Errno::ENODATA => Ok(()),
            done => done,
        }
    }
}
