//! The files that keep the state over restarts: two of them with the same in them, as all that a cluster is
//! would be lost with a single one.
//!
//! Each has the state as it was once, and behind it a log of what has changed since ([`content`]): a save
//! adds a line to both, one file after the other, and syncs each. When the log is full, or the server has
//! started, both are replaced as a whole, one after the other. So after a crash the second one lacks the last
//! change at most, and the first one counts.

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

/// What is added to the name of the second file.
const COPY: &str = ".copy";

/// Two files with a [`State`]. Whoever saves must be the only one: the server locks its directory.
#[derive(Clone, Debug)]
pub struct StateFile {
    path: PathBuf,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// How often it was saved.
    saves: AtomicU64,
    /// Where the next change goes, and where the log ends; zeros if there has to be a new file first.
    log_at: AtomicU64,
    log_end: AtomicU64,
    written: AtomicU64,
}

/// Why a state file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It could not be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// It is damaged, or not ours.
    #[error("{path}: {source}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: StateError,
    },
    /// One of the two is not as it should be, or both; what to do is said.
    #[error("{0}")]
    Pair(String),
}

/// One of the files, as it was found.
enum Found {
    Lost,
    /// And what is wrong with it.
    Damaged(String),
    Good(Box<Parsed>),
}

/// What two files say together.
enum Verdict {
    /// There is no state.
    Nothing,
    /// The first one has the newest state, and the other one is as it should be.
    Right,
    /// What is wrong, with which of them.
    Wrong(Vec<(usize, String)>),
    /// They are of different clusters.
    Exchanged(String),
}

impl StateFile {
    /// The files at `path` and, with `.copy` behind its name, beside it. They need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), counts: Arc::default() }
    }

    /// Where the first one is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where both are.
    pub fn paths(&self) -> [PathBuf; 2] {
        [self.path.clone(), with_suffix(&self.path, COPY)]
    }

    /// Bytes that were written so far.
    pub fn bytes_written(&self) -> u64 {
        self.counts.written.load(Ordering::Relaxed)
    }

    /// What they hold; `None` if neither exists. Refused if one of them is lost or damaged, which a crash
    /// does not do.
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
        // The next save is one more than the older one has: if it reaches the first file only, that is again
        // one ahead.
        let saves = |found: &Found| match found {
            Found::Good(parsed) => parsed.saves.unwrap_or(0),
            Found::Lost | Found::Damaged(_) => 0,
        };
        // Relaxed: no other thread has it yet.
        self.counts.saves.store(saves(&found[0]).min(saves(&found[1])), Ordering::Relaxed);
        let [first, _] = found;
        match first {
            Found::Good(parsed) => Ok(Some(parsed.state)),
            Found::Lost | Found::Damaged(_) => unreachable!("it has the newest state"),
        }
    }

    /// An error that says what to do.
    fn wrong(&self, what: &str) -> FileError {
        let dir = self.path.parent().unwrap_or(Path::new("."));
        FileError::Pair(format!(
            "{what}; `loligo fsck {} --repair` writes it again if the other one is whole",
            dir.display()
        ))
    }

    /// Replaces what they hold: after a crash they hold either the old state or the new one. Waits for the
    /// disk.
    pub fn save(&self, content: &[u8]) -> io::Result<()> {
        let counts = &*self.counts;
        // Relaxed, here and below: whoever saves is the only one.
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

    /// Whether [`append`](Self::append) can take this change; if not, it is time to [`save`](Self::save)
    /// everything.
    pub fn has_room(&self, change: &[u8]) -> bool {
        let at = self.counts.log_at.load(Ordering::Relaxed);
        at > 0 && at + content::line_max(change) <= self.counts.log_end.load(Ordering::Relaxed)
    }

    /// Adds a change to what they hold, as the last save has left it. After a crash it is there or not. Waits
    /// for the disk. After an error everything must be saved.
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

    /// Says what is wrong with the files, and if `mends` writes the one again that is lost, damaged, too old
    /// or another cluster's, from the other one. What it replaces is kept in the directory `kept`. Which of
    /// two clusters it should be says `fsid`, if that is known. Gives what is wrong and what was done; nobody
    /// else may use the files.
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
                // Nothing says which is the right one.
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

/// What is wrong with a file, whatever the other one says.
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
        // What the first save leaves if it is cut short, and what a program left that had one file.
        [Found::Good(first), Found::Lost] if first.saves.unwrap_or(1) == 1 => Verdict::Right,
        [Found::Good(first), Found::Good(copy)] => compare(first, copy, paths),
        others => {
            let faults = (0..2).filter_map(|i| Some((i, fault(&others[i], &paths[i], None)?)));
            Verdict::Wrong(faults.collect())
        }
    }
}

/// What a crash leaves is right: the first file is written and synced before the second one, so that it has
/// one change more at most, and only one of the two has a change that was being written.
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

/// Writes a file again from one that is whole as far as its log goes up to `log_at`.
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
        // A newer program's is not damaged.
        Err(StateError::Form(form)) => {
            let source = StateError::Form(form);
            return Err(FileError::Content { path: path.to_owned(), source });
        }
        Err(e) => Found::Damaged(e.to_string()),
    })
}
