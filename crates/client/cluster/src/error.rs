//! What can go wrong, and which errno it is.

use std::fmt;
use std::io;
use std::time::Duration;

use loligo_cephx::handshake::AuthError;
use loligo_conf::{ConfError, CredentialsError, KeyringFileError};
use loligo_wire::{DecodeError, features};

/// A Linux errno, positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// Not permitted: the capabilities of the key do not allow it.
    pub const EPERM: Self = Self(1);
    /// No such object, pool, attribute.
    pub const ENOENT: Self = Self(2);
    /// Input or output failed.
    pub const EIO: Self = Self(5);
    /// Nobody is there: the OSD is down.
    pub const ENXIO: Self = Self(6);
    /// To be asked again.
    pub const EAGAIN: Self = Self(11);
    /// Permission denied: authentication failed.
    pub const EACCES: Self = Self(13);
    /// It exists already.
    pub const EEXIST: Self = Self(17);
    /// An argument is wrong.
    pub const EINVAL: Self = Self(22);
    /// The cluster, or the pool's quota, is full.
    pub const ENOSPC: Self = Self(28);
    /// Nothing can be written there: it is a snapshot.
    pub const EROFS: Self = Self(30);
    /// The value does not fit.
    pub const ERANGE: Self = Self(34);
    /// No such extended attribute.
    pub const ENODATA: Self = Self(61);
    /// The other side says what it must not.
    pub const EPROTO: Self = Self(71);
    /// More than one request can say, or an answer can hold.
    pub const EMSGSIZE: Self = Self(90);
    /// Not supported.
    pub const EOPNOTSUPP: Self = Self(95);
    /// The client is on the cluster's blocklist.
    pub const EBLOCKLISTED: Self = Self(108);
    /// A condition did not hold (125).
    pub const ECANCELED: Self = Self(125);
    /// It took too long.
    pub const ETIMEDOUT: Self = Self(110);
    /// The client was shut down.
    pub const ENOTCONN: Self = Self(107);

    /// The errno in a negative result; `None` if the result is no error.
    pub fn from_result(result: i32) -> Option<Self> {
        (result < 0).then(|| Self(result.saturating_neg()))
    }
}

/// The system's text, such as "No such file or directory", with the number; of
/// [`EBLOCKLISTED`](Errno::EBLOCKLISTED) what it means in a cluster, as the system's text is about sockets.
impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::EBLOCKLISTED {
            return f.write_str(
                "blocklisted: the cluster keeps this client out, as 'ceph osd blocklist ls' shows; start it anew (os error 108)",
            );
        }
        io::Error::from_raw_os_error(self.0).fmt(f)
    }
}

/// Why a request to the cluster, or connecting to it, failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cluster's answer.
    #[error("{0}")]
    Os(Errno),
    /// A monitor, manager or OSD refused a command, and said why.
    #[error("{status} ({errno})")]
    Command {
        /// The answer.
        errno: Errno,
        /// Its words.
        status: String,
    },
    /// There is no pool of that name.
    #[error("no pool '{0}'")]
    NoPool(String),
    /// There was no answer in time. Whether a change was made is not known.
    #[error("no answer within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    /// No monitor could be reached in time.
    #[error("no monitor answered within {} s; the last attempt: {last}", after.as_secs_f64())]
    NoMonitor {
        /// How long it was tried.
        after: Duration,
        /// What went wrong last.
        last: String,
    },
    /// Nothing says where the monitors are: neither the configuration (`mon host`) nor DNS.
    #[error("no monitors: 'mon host' is not configured, and DNS does not know the service {service}: {why}")]
    NotInDns {
        /// `mon_dns_srv_name`.
        service: String,
        /// What DNS said.
        why: String,
    },
    /// The configuration cannot be used.
    #[error(transparent)]
    Conf(#[from] ConfError),
    /// There is no key.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The monitors refused us, or we them.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// The cluster sent what cannot be read.
    #[error("{what} from the cluster: {source}")]
    Decode {
        /// What it was.
        what: &'static str,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// The cluster requires features that this client does not have.
    #[error(
        "the cluster requires features that this client does not have: {}; use a newer client, or lower what the cluster requires \
         (CRUSH rules and tunables, 'ceph osd set-require-min-compat-client')",
        features::names(*.0)
    )]
    MissingFeatures(u64),
    /// The monitors no longer knew this client and gave it another number. OSDs would take a change that is
    /// sent again for a new one, so it is not: whether it was made is not known.
    #[error(
        "the monitors gave this client a new identity before the answer came: whether the change was made is not known, and it is not \
         repeated; look, and do it again if it was not"
    )]
    NewIdentity,
    /// The client was shut down.
    #[error("the client was shut down")]
    Shutdown,
}

impl Error {
    /// The errno that a stock client reports in the same case.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Os(errno) | Self::Command { errno, .. } => *errno,
            Self::NoPool(_) | Self::NotInDns { .. } => Errno::ENOENT,
            // As of a timeout: nobody knows whether it was executed.
            Self::Timeout(_) | Self::NoMonitor { .. } | Self::NewIdentity => Errno::ETIMEDOUT,
            Self::Conf(ConfError::NoMonitors) | Self::Conf(ConfError::Io { .. }) => Errno::ENOENT,
            Self::Conf(_) => Errno::EINVAL,
            Self::Credentials(CredentialsError::Keyring(KeyringFileError::NotFound(_)))
            | Self::Credentials(CredentialsError::NoKey(_)) => Errno::ENOENT,
            Self::Credentials(_) => Errno::EINVAL,
            Self::Auth(AuthError::Refused { errno, .. }) => Errno(*errno),
            Self::Auth(AuthError::NoCredentials(_)) => Errno::ENOENT,
            Self::Auth(_) => Errno::EACCES,
            Self::Decode { .. } => Errno::EPROTO,
            Self::MissingFeatures(_) => Errno::EOPNOTSUPP,
            Self::Shutdown => Errno::ENOTCONN,
        }
    }

    /// Whether the object, attribute or pool does not exist.
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
