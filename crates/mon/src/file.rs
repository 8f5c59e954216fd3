//! The files that keep the state over restarts: two of them with the same in them, as all that a cluster is would be lost with
//! a single one.
//!
//! Each begins with a line that says how often the state was saved and what the checksum of the rest is. Both are written at each
//! save, one after the other, and each is replaced as a whole: after a crash each is old or new, and the newer one counts.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loligo_wire::Uuid;
use loligo_wire::crc::crc32c_of;
use rustix::fs::OFlags;
use rustix::process::geteuid;
use zeroize::Zeroizing;

use crate::state::State;
use crate::state::persist::{FORM_PAIR, StateError};

/// What the first line of a file begins with.
const BEGIN: &str = "{\n  \"saved\": \"";
/// What is added to the name of the second file.
const COPY: &str = ".copy";

/// Two files with a [`State`]. Whoever saves must be the only one: the server locks its directory.
#[derive(Clone, Debug)]
pub struct StateFile {
    path: PathBuf,
    /// How often it was saved.
    saves: Arc<AtomicU64>,
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
    /// Nothing says how often it was saved if it is of a program that had one file.
    Good(Option<u64>, Box<State>),
}

impl StateFile {
    /// The files at `path` and, with `.copy` behind its name, beside it. They need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), saves: Arc::default() }
    }

    /// Where the first one is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where both are.
    pub fn paths(&self) -> [PathBuf; 2] {
        [self.path.clone(), with_suffix(&self.path, COPY)]
    }

    /// What they hold; `None` if neither exists. Refused if one of them is lost or damaged, which a crash does not do.
    pub fn load(&self) -> Result<Option<State>, FileError> {
        let [first, copy] = self.paths();
        let found = [find(&first)?, find(&copy)?];
        let state = match found {
            [Found::Lost, Found::Lost] => None,
            [Found::Good(a, one), Found::Good(b, other)] => {
                if one.fsid() != other.fsid() {
                    let [a, b] = [one.fsid(), other.fsid()];
                    let (first, copy) = (first.display(), copy.display());
                    return Err(self.wrong(&format!(
                        "{first} is of the cluster {a}, {copy} of {b}: one of them was exchanged"
                    )));
                }
                Some(if b > a { (b, other) } else { (a, one) })
            }
            // What the first save leaves if it is cut short.
            [Found::Good(saves @ (None | Some(1)), state), Found::Lost] => Some((saves, state)),
            others => {
                let fault = |(found, path): (&Found, &PathBuf)| match found {
                    Found::Lost => Some(format!("{} is lost", path.display())),
                    Found::Damaged(why) => Some(format!("{} cannot be read ({why})", path.display())),
                    Found::Good(..) => None,
                };
                let paths = [first, copy];
                let faults: Vec<_> = others.iter().zip(&paths).filter_map(fault).collect();
                return Err(self.wrong(&faults.join("; ")));
            }
        };
        Ok(state.map(|(saves, state)| {
            // Relaxed: no other thread has it yet.
            self.saves.store(saves.unwrap_or(0), Ordering::Relaxed);
            *state
        }))
    }

    /// An error that says what to do.
    fn wrong(&self, what: &str) -> FileError {
        let dir = self.path.parent().unwrap_or(Path::new("."));
        FileError::Pair(format!(
            "{what}; `loligo fsck {} --repair` writes it again if the other one is whole",
            dir.display()
        ))
    }

    /// Replaces what they hold: after a crash they hold either the old state or the new one. Waits for the disk.
    pub fn save(&self, content: &[u8]) -> io::Result<()> {
        // Relaxed: whoever saves is the only one.
        let saves = self.saves.load(Ordering::Relaxed) + 1;
        let content = with_check(content, saves)?;
        for path in self.paths() {
            replace(&path, &content)?;
        }
        self.saves.store(saves, Ordering::Relaxed);
        Ok(())
    }

    /// Says what is wrong with the files, and if `mends` writes the one again that is lost, damaged or another cluster's, from the
    /// other one. What it replaces is kept in the directory `kept`. Which of two clusters it should be says `fsid`, if that is
    /// known. Gives what is wrong and what was done; nobody else may use the files.
    pub fn check(
        &self,
        fsid: Option<Uuid>,
        mends: Option<&Path>,
    ) -> Result<(Vec<String>, Vec<String>), FileError> {
        let paths = self.paths();
        let mut wrong = Vec::new();
        let mut good: Option<usize> = None;
        for (i, path) in paths.iter().enumerate() {
            match find(path)? {
                Found::Lost => wrong.push((i, format!("{} is lost", path.display()))),
                Found::Damaged(why) => wrong.push((i, format!("{} cannot be read ({why})", path.display()))),
                Found::Good(_, state) if fsid.is_some_and(|fsid| fsid != state.fsid()) => {
                    wrong.push((i, format!("{} is of the cluster {}", path.display(), state.fsid())));
                }
                Found::Good(None, _) if i == 0 && !paths[1].exists() => return Ok(Default::default()),
                Found::Good(..) => good = good.or(Some(i)),
            }
        }
        if wrong.is_empty()
            && let Err(e) = self.load()
        {
            // Two clusters, and nothing says which is the right one.
            return Ok((vec![e.to_string()], Vec::new()));
        }
        let mut done = Vec::new();
        if let (Some(good), Some(kept)) = (good, mends) {
            for (i, _) in &wrong {
                let (from, to) = (&paths[good], &paths[*i]);
                let io = |source| FileError::Io { path: to.clone(), source };
                mend(from, to, kept).map_err(io)?;
                done.push(format!("{} is written again, from {}", to.display(), from.display()));
            }
        }
        Ok((wrong.into_iter().map(|(_, what)| what).collect(), done))
    }
}

fn mend(from: &Path, to: &Path, kept: &Path) -> io::Result<()> {
    if to.exists() {
        DirBuilder::new().mode(0o700).recursive(true).create(kept)?;
        fs::rename(to, kept.join(to.file_name().unwrap_or_default()))?;
    }
    let content = read(from)?.ok_or(io::ErrorKind::NotFound)?;
    replace(to, &content)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The content of a file that is ours; nothing if there is none. A link is not followed, and what another user has put there not read.
fn read(path: &Path) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let mut file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let (owner, us) = (file.metadata()?.uid(), geteuid().as_raw());
    if owner != us {
        let what = format!("it belongs to user {owner}, and this is user {us}: it is not read");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    let mut content = Zeroizing::new(Vec::new());
    file.read_to_end(&mut content)?;
    Ok(Some(content))
}

/// Replaces a file as a whole.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = with_suffix(path, ".new");
    match fs::remove_file(&temporary) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    // The rename itself lasts only once the directory is on disk.
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

/// Puts the line before it that says how often it was saved, and its checksum.
fn with_check(content: &[u8], saves: u64) -> io::Result<Zeroizing<Vec<u8>>> {
    let rest = content.strip_prefix(b"{\n").ok_or(io::ErrorKind::InvalidInput)?;
    let mut all = Zeroizing::new(Vec::with_capacity(content.len() + 64));
    all.extend_from_slice(format!("{BEGIN}{saves} {:08x}\",\n", check(saves, rest)).as_bytes());
    all.extend_from_slice(rest);
    Ok(all)
}

fn check(saves: u64, rest: &[u8]) -> u32 {
    crc32c_of([&saves.to_le_bytes(), rest])
}

fn find(path: &Path) -> Result<Found, FileError> {
    let content = read(path).map_err(|source| FileError::Io { path: path.to_owned(), source })?;
    let Some(content) = content else { return Ok(Found::Lost) };
    if content.is_empty() {
        return Ok(Found::Damaged("it is empty".to_owned()));
    }
    Ok(match parse(&content) {
        Ok((saves, state)) => Found::Good(saves, Box::new(state)),
        // A newer program's is not damaged.
        Err(StateError::Form(form)) => {
            let source = StateError::Form(form);
            return Err(FileError::Content { path: path.to_owned(), source });
        }
        Err(e) => Found::Damaged(e.to_string()),
    })
}

fn parse(content: &[u8]) -> Result<(Option<u64>, State), StateError> {
    let Some(line) = content.strip_prefix(BEGIN.as_bytes()) else {
        let (form, state) = State::from_json_with_form(content)?;
        // A file that must have the line and has it not was cut or changed.
        return if form >= FORM_PAIR { Err(StateError::Check) } else { Ok((None, state)) };
    };
    let end = line.iter().position(|byte| *byte == b'\n').ok_or(StateError::Check)?;
    let (line, rest) = (&line[..end], &line[end + 1..]);
    let said = std::str::from_utf8(line).ok().and_then(|line| line.strip_suffix("\",")?.split_once(' '));
    let saves = said.and_then(|(saves, crc)| {
        let (saves, crc) = (saves.parse().ok()?, u32::from_str_radix(crc, 16).ok()?);
        (check(saves, rest) == crc).then_some(saves)
    });
    Ok((Some(saves.ok_or(StateError::Check)?), State::from_json(content)?))
}
