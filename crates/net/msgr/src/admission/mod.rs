//! Limits on what a process accepts from its peers, over all its messengers: handshakes, sessions and
//! memory. Each has a total bound and a share per peer, so that a greedy peer leaves room for others.

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

/// The limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// Sockets whose handshake is in progress, in total.
    pub handshakes_max: usize,
    /// Sockets whose handshake is in progress, per host: an IPv4 address, or a /64 of IPv6.
    pub handshakes_per_host_max: usize,
    /// Accepted sessions, in total.
    pub sessions_max: usize,
    /// Accepted sessions per authenticated user.
    pub sessions_per_user_max: usize,
    /// Bytes of incomplete messages, over all connections.
    pub begun_bytes_max: usize,
}

impl AdmissionLimits {
    /// Upper bounds of handshakes and sessions, however many descriptors there are.
    const HANDSHAKES_MAX: usize = 1024;
    const SESSIONS_MAX: usize = 32_768;
    /// Least and greatest number of descriptors reserved for other purposes: the store, the monitor's
    /// state, configuration and the admin socket.
    const RESERVED: (usize, usize) = (64, 512);
    /// Bytes of incomplete messages.
    const BEGUN_BYTES_MAX: usize = 256 << 20;

    /// The limits that suit this process's number of descriptors.
    pub fn of_process() -> Self {
        Self::for_descriptors(descriptors::limit())
    }

    /// The limits for a process that may open this many files.
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

/// The admission state that several messengers of a process share.
pub struct Admission {
    pub(crate) lobby: Arc<Lobby>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) begun: Arc<Budget>,
    pub(crate) spare: Spare,
}

impl Admission {
    /// Creates the state with these limits.
    pub fn new(limits: AdmissionLimits) -> Arc<Self> {
        Arc::new(Self {
            lobby: Lobby::new(limits.handshakes_max, limits.handshakes_per_host_max),
            sessions: Sessions::new(limits.sessions_max, limits.sessions_per_user_max),
            begun: Budget::new(limits.begun_bytes_max),
            spare: Spare::new(),
        })
    }

    /// Creates the state with the limits that suit the number of files that the process may open.
    pub fn of_process() -> Arc<Self> {
        Self::new(AdmissionLimits::of_process())
    }

    /// Sockets whose handshake is in progress.
    pub fn handshakes(&self) -> usize {
        self.lobby.len()
    }

    /// Accepted sessions that have not ended.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Bytes of incomplete messages.
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
