//! File descriptors: how many there may be, and what to do when there are none.

use std::fs::File;
use std::io;

use loligo_lockstat::{Class, Mutex};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

static SPARE: Class = Class::new("msgr.spare_descriptor");

/// What is assumed where no limit is set.
const UNLIMITED: usize = 1 << 20;

/// How many files the process may open.
pub(super) fn limit() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.map_or(UNLIMITED, |limit| usize::try_from(limit).unwrap_or(UNLIMITED))
}

/// Lets the process open as many files as the system allows it to, and returns how many that are. A limit
/// that cannot be raised stays as it is.
pub fn raise_limit() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // What is refused here is found in the limit that is left.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    limit()
}

/// Whether an operation failed for want of descriptors or memory: it may succeed when others have given some
/// back.
pub fn is_shortage(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let of = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS, Errno::AGAIN, Errno::INTR];
    error.raw_os_error().is_some_and(|code| of.iter().any(|errno| errno.raw_os_error() == code))
}

/// A descriptor that stands for none: given up for a moment, it lets a process without descriptors accept a
/// socket and close it, so that its peer learns that it is refused.
pub(crate) struct Spare(Mutex<Option<File>>);

impl Spare {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(&SPARE, File::open("/dev/null").ok()))
    }

    /// Gives the descriptor up; `false` if it is given up already.
    pub(crate) fn give_up(&self) -> bool {
        let spare = self.0.lock().take();
        spare.is_some()
    }

    /// Takes a descriptor again, if there is one.
    pub(crate) fn restore(&self) {
        let Ok(file) = File::open("/dev/null") else { return };
        let former = self.0.lock().replace(file);
        drop(former);
    }
}
