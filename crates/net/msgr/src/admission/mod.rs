//! What a process takes in from its peers, over all its messengers: handshakes, sessions and memory. Each has
//! a bound in all and a share for one peer, so that a peer that takes all it can get leaves room for others.

mod budget;
mod descriptors;
mod lobby;
mod sessions;

use std::fmt;
use std::sync::Arc;

pub use self::budget::{Budget, Grant};
pub(crate) use self::descriptors::Spare;
pub use self::descriptors::{is_shortage, raise_limit};
pub use self::lobby::{Lobby, Seat};
pub(crate) use self::sessions::{Place, Sessions};

/// How much is taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// Sockets whose handshake has not ended, of all peers.
    pub handshakes_max: usize,
    /// The same of one host: an IPv4 address, or a /64 of IPv6.
    pub handshakes_per_host_max: usize,
    /// Accepted sessions of all users.
    pub sessions_max: usize,
    /// The same of one user, as authentication has named it.
    pub sessions_per_user_max: usize,
    /// Bytes of messages that have begun and are not whole, of all connections.
    pub begun_bytes_max: usize,
}

impl AdmissionLimits {
    /// Most handshakes and sessions, however many descriptors there are.
    const HANDSHAKES_MAX: usize = 1024;
    const SESSIONS_MAX: usize = 32_768;
    /// Descriptors that neither handshakes nor sessions take: for the store, the monitor's state,
    /// configuration and the admin socket.
    const RESERVED: (usize, usize) = (64, 512);
    /// Bytes of messages that have begun.
    const BEGUN_BYTES_MAX: usize = 256 << 20;

    /// What this process can take in.
    pub fn of_process() -> Self {
        Self::for_descriptors(descriptors::limit())
    }

    /// What a process that may open so many files can take in.
    pub fn for_descriptors(descriptors: usize) -> Self {
        let reserved = (descriptors / 4).clamp(Self::RESERVED.0, Self::RESERVED.1);
        let handshakes_max = (descriptors / 8).clamp(8, Self::HANDSHAKES_MAX);
        let left = descriptors.saturating_sub(reserved + handshakes_max);
        let sessions_max = left.clamp(8, Self::SESSIONS_MAX);
        Self {
            handshakes_max,
            handshakes_per_host_max: handshakes_max - handshakes_max / 4,
            sessions_max,
            sessions_per_user_max: sessions_max / 2,
            begun_bytes_max: Self::BEGUN_BYTES_MAX,
        }
    }
}

/// What several messengers of a process share.
pub struct Admission {
    pub(crate) lobby: Arc<Lobby>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) begun: Arc<Budget>,
    pub(crate) spare: Spare,
}

impl Admission {
    /// With these bounds.
    pub fn new(limits: AdmissionLimits) -> Arc<Self> {
        Arc::new(Self {
            lobby: Lobby::new(limits.handshakes_max, limits.handshakes_per_host_max),
            sessions: Sessions::new(limits.sessions_max, limits.sessions_per_user_max),
            begun: Budget::new(limits.begun_bytes_max),
            spare: Spare::new(),
        })
    }

    /// With the bounds that fit the number of files that the process may open.
    pub fn of_process() -> Arc<Self> {
        Self::new(AdmissionLimits::of_process())
    }

    /// Sockets whose handshake has not ended.
    pub fn handshakes(&self) -> usize {
        self.lobby.len()
    }

    /// Accepted sessions that have not ended.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Bytes of messages that have begun and are not whole.
    pub fn begun_bytes(&self) -> usize {
        self.begun.used()
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission")
            .field("handshakes", &self.handshakes())
            .field("sessions", &self.sessions())
            .field("begun_bytes", &self.begun_bytes())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_suffice_for_all_that_is_taken_in() {
        for descriptors in [256, 1024, 4096, 65_536, 1 << 20] {
            let limits = AdmissionLimits::for_descriptors(descriptors);
            let taken = limits.handshakes_max + limits.sessions_max;
            assert!(taken + 64 <= descriptors, "{descriptors}: {limits:?}");
            assert!(limits.handshakes_per_host_max < limits.handshakes_max, "{limits:?}");
            assert!(limits.sessions_per_user_max < limits.sessions_max, "{limits:?}");
        }
    }
}
