//! The destinations of lines.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

/// A destination of lines.
pub enum Sink {
    /// Appends to a file. A new file is readable only by its owner.
    File(PathBuf),
    /// Standard error.
    Stderr,
    /// Any other writer; it is given many lines at once.
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

/// An open sink. Lines that cannot be written are lost and counted; a later line reports the loss.
pub(crate) struct Output {
    file: Option<PathBuf>,
    to: Box<dyn Write + Send>,
    /// The number of lines that could not be written, and the error of the last failure.
    lost: Option<(usize, io::Error)>,
    /// Whether the bytes that are written next begin with a line that reports them.
    is_reported: bool,
}

impl Output {
    pub(crate) fn open(sink: Sink) -> io::Result<Self> {
        Ok(match sink {
            Sink::File(path) => {
                Self { to: Box::new(open(&path)?), file: Some(path), lost: None, is_reported: false }
            }
            Sink::Stderr => Self { to: Box::new(io::stderr()), file: None, lost: None, is_reported: false },
            Sink::Writer(to) => Self { to, file: None, lost: None, is_reported: false },
        })
    }

    /// The file's name.
    pub(crate) fn name(&self) -> String {
        self.file.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
    }

    /// Reopens the file: the old one may have been renamed. If this fails, the old one stays in use.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        if let Some(path) = &self.file {
            self.to = Box::new(open(path)?);
        }
        Ok(())
    }

    /// Continues with another destination, which also gets the report of lines lost so far.
    pub(crate) fn replace_by(&mut self, next: Self) {
        let lost = self.lost.take();
        *self = Self { lost, ..next };
    }

    pub(crate) fn write(&mut self, bytes: &[u8], lines: usize) {
        let is_reported = std::mem::take(&mut self.is_reported);
        match self.to.write_all(bytes).and_then(|()| self.to.flush()) {
            Ok(()) if is_reported => self.lost = None,
            Ok(()) => {}
            Err(e) => {
                let lost = self.lost.take().map_or(0, |(lost, _)| lost);
                // The report is no line of a user's.
                self.lost = Some((lost + lines - usize::from(is_reported), e));
            }
        }
    }

    /// The number of lines that could not be written and were not reported yet, and the error. The caller
    /// begins the next write with a line that reports them; if that write fails, they stay unreported.
    pub(crate) fn report_lost(&mut self) -> Option<(usize, &io::Error)> {
        self.is_reported = self.lost.is_some();
        self.lost.as_ref().map(|(lines, why)| (*lines, why))
    }
}

/// Opens a log file, and creates it if necessary. A symbolic link of another user is not followed, and
/// another user's file is not written to. A file that is not a regular one (a pipe, `/dev/stdout`) may
/// belong to any user.
fn open(path: &PathBuf) -> io::Result<File> {
    // SAFETY: it only reads a number, and cannot fail.
    let us = unsafe { libc::geteuid() };
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails so many times, then takes everything.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Ok(bytes.len());
            }
            self.0 -= 1;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_counted_until_a_report_of_them_is_written() {
        let mut output = Output::open(Sink::Writer(Box::new(Full(3)))).expect("a writer opens");
        let lost = |output: &mut Output| output.report_lost().map(|(lines, _)| lines);
        output.write(b"a\nb\n", 2);
        assert_eq!(lost(&mut output), Some(2));
        output.write(b"2 lines lost\nc\n", 2);
        assert_eq!(lost(&mut output), Some(3), "the report itself is not counted");
        output.write(b"3 lines lost\n", 1);
        output.write(b"d\n", 1);
        assert_eq!(lost(&mut output), Some(3), "a write without a report changes nothing");
        let next = Output::open(Sink::Writer(Box::new(Full(0)))).expect("a writer opens");
        output.replace_by(next);
        assert_eq!(lost(&mut output), Some(3), "another destination gets the report");
        output.write(b"3 lines lost\n", 1);
        assert_eq!(lost(&mut output), None);
    }
}
