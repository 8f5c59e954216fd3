//! Errors and their errno values.

use std::io;
use std::time::Duration;

use loligo_cephx::handshake::AuthError;
use loligo_conf::{ConfError, CredentialsError, KeyringFileError};
use loligo_wire::{DecodeError, features};

pub use loligo_wire::Errno;

/// Why a request to the cluster, or connecting to it, failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cluster replied with an error.
    #[error("{0}")]
    Os(Errno),
    /// A monitor, manager or OSD refused a command and gave a reason.
    #[error("{status} ({errno})")]
    Command {
        /// The errno of the reply.
        errno: Errno,
        /// The reason given.
        status: String,
    },
    /// No pool has this name.
    #[error("no pool '{0}'")]
    NoPool(String),
    /// No reply arrived in time. Whether a change was made is unknown.
    #[error("no answer within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    /// No monitor could be reached in time.
    #[error("no monitor answered within {} s; the last attempt: {last}", after.as_secs_f64())]
    NoMonitor {
        /// How long the client tried.
        after: Duration,
        /// The last failure.
        last: String,
    },
    /// Neither the configuration (`mon host`) nor DNS names the monitors.
    #[error("no monitors: 'mon host' is not configured, and DNS does not know the service {service}: {why}")]
    NotInDns {
        /// `mon_dns_srv_name`.
        service: String,
        /// The error from DNS.
        why: String,
    },
    /// The configuration is invalid.
    #[error(transparent)]
    Conf(#[from] ConfError),
    /// No usable key was found.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// Authentication failed: the monitors refused the client, or the client refused the monitors.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// A message from the cluster could not be decoded.
    #[error("{what} from the cluster: {source}")]
    Decode {
        /// The name of the message or structure.
        what: &'static str,
        /// The decoding error.
        source: DecodeError,
    },
    /// The cluster requires features that this client does not have. Holds the missing feature bits.
    #[error(
        "the cluster requires features that this client does not have: {}; use a newer client, or lower what the cluster requires \
         (CRUSH rules and tunables, 'ceph osd set-require-min-compat-client')",
        features::names(*.0)
    )]
    MissingFeatures(u64),
    /// The monitors gave this client a new global id. OSDs would execute a resent change a second time,
    /// so the client does not resend it. Whether the change was made is unknown.
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
    /// Returns the errno that a stock client reports in the same case.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Os(errno) | Self::Command { errno, .. } => *errno,
            Self::NoPool(_) | Self::NotInDns { .. } => Errno::ENOENT,
            // As for a timeout: whether the request was executed is unknown.
            Self::Timeout(_) | Self::NoMonitor { .. } | Self::NewIdentity => Errno::ETIMEDOUT,
            Self::Conf(ConfError::NoMonitors) | Self::Conf(ConfError::Io { .. }) => Errno::ENOENT,
            Self::Conf(_) => Errno::EINVAL,
            Self::Credentials(CredentialsError::Keyring(KeyringFileError::NotFound(_)))
            | Self::Credentials(CredentialsError::NoKey(_)) => Errno::ENOENT,
            Self::Credentials(_) => Errno::EINVAL,
            Self::Auth(AuthError::Refused { errno, .. }) => *errno,
            Self::Auth(AuthError::NoCredentials(_)) => Errno::ENOENT,
            Self::Auth(_) => Errno::EACCES,
            Self::Decode { .. } => Errno::EPROTO,
            Self::MissingFeatures(_) => Errno::EOPNOTSUPP,
            Self::Shutdown => Errno::ENOTCONN,
        }
    }

    /// Returns `true` if the object, attribute or pool does not exist.
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
