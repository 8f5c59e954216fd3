//! The file that keeps the state over restarts.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::state::State;
use crate::state::persist::StateError;

/// A file with a [`State`]. Whoever saves must be the only one: the server locks its directory.
#[derive(Clone, Debug)]
pub struct StateFile {
    path: PathBuf,
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
}

impl StateFile {
    /// The file at `path`, which need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it holds; `None` if it does not exist.
    pub fn load(&self) -> Result<Option<State>, FileError> {
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => Zeroizing::new(bytes),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(FileError::Io { path: self.path.clone(), source }),
        };
        let content = |source| FileError::Content { path: self.path.clone(), source };
        State::from_json(&bytes).map(Some).map_err(content)
    }

    /// Replaces what it holds: after a crash it holds either the old state or the new one. Waits for the
    /// disk.
    pub fn save(&self, content: &[u8]) -> io::Result<()> {
        let mut temporary = self.path.clone().into_os_string();
        temporary.push(".new");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, &self.path)?;
        // The rename itself lasts only once the directory is on disk.
        File::open(self.path.parent().unwrap_or(Path::new(".")))?.sync_all()
    }
}
