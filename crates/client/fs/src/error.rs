//! The errors of a file system, and their errnos.

use std::io;
use std::time::Duration;

use loligo_rados::Errno;
use loligo_wire::DecodeError;

/// Why an operation on a file system failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operation failed as such: the metadata server or this client refuses it.
    #[error("{0}")]
    Os(Errno),
    /// An object request, a monitor or the configuration failed.
    #[error(transparent)]
    Rados(#[from] loligo_rados::Error),
    /// No file system has this name.
    #[error(
        "no file system '{name}'; there {}", match known.as_slice() {
            [] => "is none: 'ceph fs new' makes one".to_owned(),
            [one] => format!("is '{one}'"),
            all => format!("are '{}'", all.join("', '")),
        }
    )]
    NoFileSystem {
        /// The name, or the number, that was asked for.
        name: String,
        /// The names of those that exist.
        known: Vec<String>,
    },
    /// The monitors did not send the file system's map. They send none to a client whose key does not
    /// allow it, and none if there is no file system that is used by default.
    #[error(
        "the monitors sent no map of {fs} within {} s: does it exist ('ceph fs ls'), and may this client use it \
         ('ceph auth get')?",
        after.as_secs_f64()
    )]
    NoMap {
        /// The file system, in words.
        fs: String,
        /// How long the client waited.
        after: Duration,
    },
    /// No metadata server serves the file system.
    #[error("no metadata server serves '{fs}' ({state}) after {} s; see 'ceph fs status'", after.as_secs_f64())]
    NoServer {
        /// The file system's name.
        fs: String,
        /// What the map says of its servers.
        state: String,
        /// How long the client waited.
        after: Duration,
    },
    /// The metadata server refused to open a session.
    #[error("mds.{rank} refused a session: {why}")]
    Rejected {
        /// The server's rank.
        rank: i32,
        /// Its reason.
        why: String,
    },
    /// The cluster has shut this client out: it was evicted, by an administrator or because it had not
    /// answered, and is on the blocklist.
    #[error(
        "the cluster has evicted this client and blocklisted it: nothing that it does is accepted any more, \
         and changes that were not synced may be lost; mount again (see 'ceph osd blocklist ls')"
    )]
    Blocklisted,
    /// The metadata server has ended the session: this client was evicted, or the server restarted and
    /// did not wait for this client. What it had not confirmed may be lost.
    #[error(
        "mds.{0} has ended this client's session: changes that it had not confirmed may be lost; mount again"
    )]
    SessionLost(i32),
    /// A message from a metadata server could not be decoded.
    #[error("{what} from mds.{rank}: {source}")]
    Decode {
        /// The name of the message or structure.
        what: &'static str,
        /// The server's rank.
        rank: i32,
        /// The decoding error.
        source: DecodeError,
    },
    /// A listing of a directory makes no sense.
    #[error(transparent)]
    Listing(#[from] loligo_fs_core::dir::CursorError),
    /// The metadata servers forwarded the request in a circle.
    #[error("the metadata servers passed the request on {0} times without answering it")]
    Forwards(u32),
    /// The file system was unmounted.
    #[error("unmounted")]
    Unmounted,
}

impl Error {
    /// Returns the errno that a stock client reports in the same case.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Os(errno) => *errno,
            Self::Rados(e) => e.errno(),
            Self::NoFileSystem { .. } => Errno::ENOENT,
            Self::NoMap { .. } => Errno::ETIMEDOUT,
            Self::NoServer { .. } => Errno::EHOSTUNREACH,
            Self::Rejected { .. } => Errno::EPERM,
            Self::Blocklisted => Errno::EBLOCKLISTED,
            Self::SessionLost(_) => Errno::EIO,
            Self::Decode { .. } | Self::Listing(_) => Errno::EPROTO,
            Self::Forwards(_) => Errno::EMULTIHOP,
            Self::Unmounted => Errno::ENOTCONN,
        }
    }

    /// Returns `true` if there is no such file or directory.
    pub fn is_not_found(&self) -> bool {
        self.errno() == Errno::ENOENT
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Self::Os(errno)
    }
}

impl From<Error> for io::Error {
    fn from(e: Error) -> Self {
        let kind = io::Error::from_raw_os_error(e.errno().0).kind();
        Self::new(kind, e)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_exists() {
        let of = |known: &[&str]| {
            let known = known.iter().map(|name| (*name).to_owned()).collect();
            Error::NoFileSystem { name: "x".to_owned(), known }.to_string()
        };
        assert_eq!(of(&[]), "no file system 'x'; there is none: 'ceph fs new' makes one");
        assert_eq!(of(&["a"]), "no file system 'x'; there is 'a'");
        assert_eq!(of(&["a", "b"]), "no file system 'x'; there are 'a', 'b'");
    }
}
