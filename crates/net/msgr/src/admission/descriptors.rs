//! File descriptors: how many there may be, and what to do when there are none left.

use std::fs::File;
use std::io;

use loligo_lockstat::{Class, Mutex};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

static SPARE: Class = Class::new("msgr.spare_descriptor");

/// Assumed where no limit is set.
const UNLIMITED: usize = 1 << 20;

/// The number of files that the process may open.
pub(super) fn limit() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.map_or(UNLIMITED, |limit| usize::try_from(limit).unwrap_or(UNLIMITED))
}

/// Raises the process's limit of open files as far as the system allows, and returns the limit. A limit
/// that cannot be raised stays as it is.
pub fn raise_limit() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // A failure shows in the limit that is returned.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    limit()
}

/// Whether an operation failed for lack of descriptors or memory, so that it may succeed once others
/// were released. Interruptions (`EAGAIN`, `EINTR`) count too.
pub fn is_shortage(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let of = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS, Errno::AGAIN, Errno::INTR];
    error.raw_os_error().is_some_and(|code| of.iter().any(|errno| errno.raw_os_error() == code))
}

/// A reserve descriptor: closing it for a moment lets a process without free descriptors accept a socket
/// and close it, so that the peer learns that it is refused.
pub(crate) struct Spare(Mutex<Option<File>>);

impl Spare {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(&SPARE, File::open("/dev/null").ok()))
    }

    /// Releases the descriptor. Returns `false` if it is released already.
    pub(crate) fn give_up(&self) -> bool {
        let spare = self.0.lock().take();
        spare.is_some()
    }

    /// Opens the reserve descriptor again, if one is free.
    pub(crate) fn restore(&self) {
        let Ok(file) = File::open("/dev/null") else { return };
        let former = self.0.lock().replace(file);
        drop(former);
    }
}
