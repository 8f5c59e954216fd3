//! The files that keep the state over restarts. There are two with the same content: if there were one,
//! its loss would be the loss of the whole cluster.
//!
//! Each file holds a complete state, followed by a log of the changes since ([`content`]). A save
//! appends a line to the log of each file in turn, and syncs each. When the log is full, or the server
//! has started, both files are replaced, one after the other. After a crash the second file therefore
//! lacks at most the last change, and the first file is authoritative.

mod content;
mod disk;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loligo_wire::Uuid;

use self::content::{Parsed, Whole};
use self::disk::{overwrite, read, replace, with_suffix};
use crate::state::State;
use crate::state::error::StateError;

/// The suffix of the second file's name.
const COPY: &str = ".copy";

/// Two files with a [`State`]. There must be a single writer: the server locks its directory.
#[derive(Clone, Debug)]
pub struct StateFile {
    path: PathBuf,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// The number of saves.
    saves: AtomicU64,
    /// The offset of the next change, and the end of the log. The offset is 0 if the next save must
    /// write a new file.
    log_at: AtomicU64,
    log_end: AtomicU64,
    written: AtomicU64,
}

/// Why a state file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Reading failed.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is damaged, or another program wrote it.
    #[error("{path}: {source}")]
    Content {
        /// The file.
        path: PathBuf,
        /// The fault.
        source: StateError,
    },
    /// One or both files are lost, damaged or inconsistent. The text says how to repair them.
    #[error("{0}")]
    Pair(String),
}

/// The condition in which one of the files was found.
enum Found {
    Lost,
    /// The reason why the file is damaged.
    Damaged(String),
    Good(Box<Parsed>),
}

/// The result of comparing the two files.
enum Verdict {
    /// Neither file exists.
    Nothing,
    /// The first file has the newest state, and the second one is consistent with it.
    Right,
    /// The faulty files, by index, each with its fault.
    Wrong(Vec<(usize, String)>),
    /// The files belong to different clusters.
    Exchanged(String),
}

impl StateFile {
    /// The files at `path` and at `path` with the suffix `.copy`. They need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), counts: Arc::default() }
    }

    /// The path of the first file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The paths of both files.
    pub fn paths(&self) -> [PathBuf; 2] {
        [self.path.clone(), with_suffix(&self.path, COPY)]
    }

    /// The number of bytes written so far.
    pub fn bytes_written(&self) -> u64 {
        self.counts.written.load(Ordering::Relaxed)
    }

    /// Loads the state; `None` if neither file exists. Fails if one of them is lost or damaged, because
    /// a crash does not cause that.
    pub fn load(&self) -> Result<Option<State>, FileError> {
        let paths = self.paths();
        let found = [find(&paths[0])?, find(&paths[1])?];
        match judge(&found, &paths) {
            Verdict::Nothing => return Ok(None),
            Verdict::Right => {}
            Verdict::Exchanged(what) => return Err(self.wrong(&what)),
            Verdict::Wrong(faults) => {
                let faults: Vec<_> = faults.into_iter().map(|(_, what)| what).collect();
                return Err(self.wrong(&faults.join("; ")));
            }
        }
        // The next save is numbered from the older file: if that save reaches only the first file, the
        // first file is again exactly one ahead.
        let saves = |found: &Found| match found {
            Found::Good(parsed) => parsed.saves.unwrap_or(0),
            Found::Lost | Found::Damaged(_) => 0,
        };
        // Relaxed: no other thread has access yet.
        self.counts.saves.store(saves(&found[0]).min(saves(&found[1])), Ordering::Relaxed);
        let [first, _] = found;
        match first {
            Found::Good(parsed) => Ok(Some(parsed.state)),
            Found::Lost | Found::Damaged(_) => unreachable!("it has the newest state"),
        }
    }

    /// An error that says how to repair the files.
    fn wrong(&self, what: &str) -> FileError {
        let dir = self.path.parent().unwrap_or(Path::new("."));
        FileError::Pair(format!(
            "{what}; `loligo fsck {} --repair` writes it again if the other one is whole",
            dir.display()
        ))
    }

    /// Replaces both files. After a crash they hold either the old or the new state. Blocks on disk I/O.
    pub fn save(&self, content: &[u8]) -> io::Result<()> {
        let counts = &*self.counts;
        // Relaxed, here and below: there is a single writer.
        let saves = counts.saves.load(Ordering::Relaxed) + 1;
        let Whole { bytes, log_at } = content::whole(content, saves)?;
        counts.log_at.store(0, Ordering::Relaxed);
        for path in self.paths() {
            replace(&path, &bytes)?;
            counts.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        counts.saves.store(saves, Ordering::Relaxed);
        counts.log_at.store(log_at, Ordering::Relaxed);
        counts.log_end.store(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Whether the log has room to [`append`](Self::append) this change. If not, the caller must
    /// [`save`](Self::save) the whole state.
    pub fn has_room(&self, change: &[u8]) -> bool {
        let at = self.counts.log_at.load(Ordering::Relaxed);
        at > 0 && at + content::line_max(change) <= self.counts.log_end.load(Ordering::Relaxed)
    }

    /// Appends a change relative to the last save. After a crash the change is either present or absent.
    /// Blocks on disk I/O. After an error the whole state must be saved.
    pub fn append(&self, change: &[u8]) -> io::Result<()> {
        if !self.has_room(change) {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the log of changes is full"));
        }
        let counts = &*self.counts;
        let saves = counts.saves.load(Ordering::Relaxed) + 1;
        let line = content::line(change, saves)?;
        let at = counts.log_at.swap(0, Ordering::Relaxed);
        for path in self.paths() {
            overwrite(&path, at, &line)?;
            counts.written.fetch_add(line.len() as u64, Ordering::Relaxed);
        }
        counts.saves.store(saves, Ordering::Relaxed);
        counts.log_at.store(at + line.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Checks both files. If `mends` is given, rewrites a file that is lost, damaged, too old or of
    /// another cluster from the other file; the replaced file is moved to the directory `mends`. `fsid`,
    /// if known, decides between files of two clusters. Returns the faults and the repairs. Nothing else
    /// may use the files meanwhile.
    pub fn check(
        &self,
        fsid: Option<Uuid>,
        mends: Option<&Path>,
    ) -> Result<(Vec<String>, Vec<String>), FileError> {
        let paths = self.paths();
        let found = [find(&paths[0])?, find(&paths[1])?];
        let is_foreign = |found: &Found| match found {
            Found::Good(parsed) => fsid.is_some_and(|fsid| fsid != parsed.state.fsid()),
            _ => false,
        };
        let wrong = if found.iter().any(is_foreign) {
            (0..2).filter_map(|i| Some((i, fault(&found[i], &paths[i], fsid)?))).collect()
        } else {
            match judge(&found, &paths) {
                Verdict::Nothing | Verdict::Right => return Ok(Default::default()),
                // It is unknown which of the two files is the right one.
                Verdict::Exchanged(what) => return Ok((vec![self.wrong(&what).to_string()], Vec::new())),
                Verdict::Wrong(wrong) => wrong,
            }
        };
        let mut done = Vec::new();
        if let ([(bad, _)], Some(kept)) = (&wrong[..], mends)
            && let Found::Good(whole) = &found[1 - bad]
        {
            let (from, to) = (&paths[1 - bad], &paths[*bad]);
            mend(from, whole.log_at, to, kept)
                .map_err(|source| FileError::Io { path: to.clone(), source })?;
            done.push(format!("{} is written again, from {}", to.display(), from.display()));
        }
        Ok((wrong.into_iter().map(|(_, what)| what).collect(), done))
    }
}

/// The fault of a file by itself, without regard to the other file.
fn fault(found: &Found, path: &Path, fsid: Option<Uuid>) -> Option<String> {
    match found {
        Found::Lost => Some(format!("{} is lost", path.display())),
        Found::Damaged(why) => Some(format!("{} cannot be read ({why})", path.display())),
        Found::Good(parsed) if fsid.is_some_and(|fsid| fsid != parsed.state.fsid()) => {
            Some(format!("{} is of the cluster {}", path.display(), parsed.state.fsid()))
        }
        Found::Good(_) => None,
    }
}

fn judge(found: &[Found; 2], paths: &[PathBuf; 2]) -> Verdict {
    match found {
        [Found::Lost, Found::Lost] => Verdict::Nothing,
        // An interrupted first save leaves this, as does a release that kept a single file.
        [Found::Good(first), Found::Lost] if first.saves.unwrap_or(1) == 1 => Verdict::Right,
        [Found::Good(first), Found::Good(copy)] => compare(first, copy, paths),
        others => {
            let faults = (0..2).filter_map(|i| Some((i, fault(&others[i], &paths[i], None)?)));
            Verdict::Wrong(faults.collect())
        }
    }
}

/// Accepts any combination that a crash can leave. The first file is written and synced before the
/// second one, so it is at most one change ahead, and at most one of the two files has an interrupted
/// change.
fn compare(first: &Parsed, copy: &Parsed, paths: &[PathBuf; 2]) -> Verdict {
    let [one, other] = paths.each_ref().map(|path| path.display());
    let (a, b) = (first.state.fsid(), copy.state.fsid());
    if a != b {
        return Verdict::Exchanged(format!(
            "{one} is of the cluster {a}, {other} of {b}: one of them was exchanged"
        ));
    }
    let (a, b) = (first.saves.unwrap_or(0), copy.saves.unwrap_or(0));
    match (a.cmp(&b), first.is_torn, copy.is_torn) {
        (std::cmp::Ordering::Equal, true, true) => {
            let torn = |path| format!("{path}: its last change is damaged");
            Verdict::Wrong(vec![(0, torn(one)), (1, torn(other))])
        }
        (std::cmp::Ordering::Equal, ..) => Verdict::Right,
        (std::cmp::Ordering::Greater, false, _) if a == b + 1 => Verdict::Right,
        (std::cmp::Ordering::Greater, ..) => Verdict::Wrong(vec![(1, older(other, a - b, one))]),
        (std::cmp::Ordering::Less, ..) => Verdict::Wrong(vec![(0, older(one, b - a, other))]),
    }
}

fn older(path: impl std::fmt::Display, changes: u64, other: impl std::fmt::Display) -> String {
    format!("{path} lacks {changes} changes that {other} has: it is damaged, or an older one")
}

/// Rewrites a file from another one that is valid up to `log_at`.
fn mend(from: &Path, log_at: usize, to: &Path, kept: &Path) -> io::Result<()> {
    if to.exists() {
        DirBuilder::new().mode(0o700).recursive(true).create(kept)?;
        fs::rename(to, kept.join(to.file_name().unwrap_or_default()))?;
    }
    let mut content = read(from)?.ok_or(io::ErrorKind::NotFound)?;
    content::clear(&mut content, log_at);
    replace(to, &content)
}

fn find(path: &Path) -> Result<Found, FileError> {
    let content = read(path).map_err(|source| FileError::Io { path: path.to_owned(), source })?;
    let Some(content) = content else { return Ok(Found::Lost) };
    if content.is_empty() {
        return Ok(Found::Damaged("it is empty".to_owned()));
    }
    Ok(match content::parse(&content) {
        Ok(parsed) => Found::Good(Box::new(parsed)),
        // A file of a newer release is not damaged.
        Err(StateError::Form(form)) => {
            let source = StateError::Form(form);
            return Err(FileError::Content { path: path.to_owned(), source });
        }
        Err(e) => Found::Damaged(e.to_string()),
    })
}
