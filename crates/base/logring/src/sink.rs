//! Where lines go.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

/// Where lines go.
pub enum Sink {
    /// Appended to a file, which only its owner may read if it is made.
    File(PathBuf),
    /// Standard error.
    Stderr,
    /// Somewhere else; given many lines at once.
    Writer(Box<dyn Write + Send>),
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Stderr => f.write_str("Stderr"),
            Self::Writer(_) => f.write_str("Writer"),
        }
    }
}

/// An open sink. What cannot be written is lost and counted; the next write that succeeds says so.
pub(crate) struct Output {
    file: Option<PathBuf>,
    to: Box<dyn Write + Send>,
    /// Lines that could not be written, and why the last ones could not.
    lost: Option<(usize, io::Error)>,
}

impl Output {
    pub(crate) fn open(sink: Sink) -> io::Result<Self> {
        Ok(match sink {
            Sink::File(path) => Self { to: Box::new(open(&path)?), file: Some(path), lost: None },
            Sink::Stderr => Self { to: Box::new(io::stderr()), file: None, lost: None },
            Sink::Writer(to) => Self { to, file: None, lost: None },
        })
    }

    /// The file's name.
    pub(crate) fn name(&self) -> String {
        self.file.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
    }

    /// Opens the file again: the old one may have been moved away. If that fails, the old one stays.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        if let Some(path) = &self.file {
            self.to = Box::new(open(path)?);
        }
        Ok(())
    }

    pub(crate) fn write(&mut self, bytes: &[u8], lines: usize) {
        if let Err(e) = self.to.write_all(bytes).and_then(|()| self.to.flush()) {
            let lost = self.lost.take().map_or(0, |(lost, _)| lost);
            self.lost = Some((lost + lines, e));
        }
    }

    /// What was lost since the last question. Asked before the next write: if that fails too, it is asked
    /// again.
    pub(crate) fn take_lost(&mut self) -> Option<(usize, io::Error)> {
        self.lost.take()
    }
}

/// Opens a log, and makes it if need be. A link that another user has put there is not followed, nor is
/// another's file written to; what is no regular file (a pipe, `/dev/stdout`) may be anybody's.
fn open(path: &PathBuf) -> io::Result<File> {
    let us = fs::metadata("/proc/self")?.uid();
    let check = |owner: u32| match owner == 0 || owner == us {
        true => Ok(()),
        false => {
            let what = format!("it belongs to user {owner}: nothing is written there");
            Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
        }
    };
    if let Ok(found) = fs::symlink_metadata(path)
        && found.is_symlink()
    {
        check(found.uid())?;
    }
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    let opened = file.metadata()?;
    if opened.is_file() {
        check(opened.uid())?;
    }
    Ok(file)
}
