//! Settings of a messenger, and policies of its connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use loligo_msgr_proto::Compression;
use loligo_wire::{EntityType, features};

use crate::admission::Admission;
use crate::log::{Log, process_log};
use crate::{ConnectAuth, Network, Throttle};

/// Maps a peer's address to the address to dial instead.
pub type Reroute = Arc<dyn Fn(EntityType, SocketAddr) -> SocketAddr + Send + Sync>;

/// The configuration of a [`Messenger`](crate::Messenger).
#[derive(Clone)]
pub struct Config {
    /// This program's entity type.
    pub kind: EntityType,
    /// This entity's number: a daemon's id; a client's global id once it has one
    /// ([`Messenger::set_num`](crate::Messenger::set_num)), and −1 before.
    pub num: i64,
    /// Distinguishes this messenger from others at the same address, now or earlier; part of its
    /// addresses. The default is random. A monitor's is 0.
    pub nonce: u32,
    /// Feature bits that this side offers.
    pub features: u64,
    /// The policies of accepted connections, by the peer's entity type.
    pub policies: Policies,
    /// Authenticates this side when it connects back to a peer that had connected to it, to resume the
    /// session. If `None`, this side waits for the peer. Used only with policies that are neither lossy
    /// nor a server's.
    pub connect_back: Option<Arc<dyn ConnectAuth>>,
    /// Compression to negotiate on connections with OSDs; used if the peer wants it too. The negotiation
    /// costs one more exchange when a session is opened with a peer that supports compression, so the
    /// default is `None`.
    pub compression: Option<Compression>,
    /// Bounds and times.
    pub limits: Limits,
    /// Admission limits for peers that connect; messengers that share one share its bounds.
    pub admission: Arc<Admission>,
    /// The sink of log lines. The default is [`process_log`].
    pub log: Log,
    /// Redirects connections: tests put a proxy in between. The peer is still addressed by its own
    /// address in the handshake.
    pub reroute: Option<Reroute>,
    /// The source of sockets and random numbers; tests simulate them.
    pub network: Network,
}

impl Config {
    /// The defaults for an entity type.
    pub fn new(kind: EntityType) -> Self {
        let network = Network::default();
        Self {
            kind,
            num: -1,
            nonce: network.random_u32(),
            features: features::SUPPORTED,
            policies: Policies::new(Policy::stateless_server()),
            connect_back: None,
            compression: None,
            limits: Limits::default(),
            admission: Admission::of_process(),
            log: process_log(),
            reroute: None,
            network,
        }
    }
}

/// Size and time limits of a messenger's connections.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Messages that may wait in one connection's out-queue; beyond it `send` returns
    /// [`SendError::Full`](crate::SendError::Full).
    pub queue_messages_max: usize,
    /// Bytes that may wait in the out-queue. One message may exceed it if the queue is empty.
    ///
    /// An accepted lossy connection stops reading while an eighth of either bound waits for the peer,
    /// and is closed at the bound rather than lose a single reply.
    pub queue_bytes_max: usize,
    /// How long a peer may read nothing while its accepted lossy connection has stopped reading because
    /// of its out-queue. Then the connection is closed.
    pub unread_timeout: Duration,
    /// The longest duration of a handshake, on either side. (Ceph: `ms_connection_ready_timeout`.)
    pub handshake_timeout: Duration,
    /// The first pause before reconnecting. (Ceph: `ms_initial_backoff`.)
    pub backoff_min: Duration,
    /// The longest pause before reconnecting; each pause is twice the previous one, less a random part.
    /// (Ceph: `ms_max_backoff`.)
    pub backoff_max: Duration,
    /// The interval at which a connection sends keepalives if this side opened it, and between daemons in any
    /// case; zero: never.
    pub keepalive_interval: Duration,
    /// How long a peer may leave keepalives unanswered before its connection counts as lost.
    pub keepalive_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queue_messages_max: 65_536,
            queue_bytes_max: 512 << 20,
            unread_timeout: Duration::from_secs(10),
            handshake_timeout: Duration::from_secs(10),
            backoff_min: Duration::from_millis(200),
            backoff_max: Duration::from_secs(15),
            keepalive_interval: Duration::from_secs(10),
            keepalive_timeout: Duration::from_secs(30),
        }
    }
}

/// Determines what happens to a connection when its socket is lost, and how much it may read ahead.
///
/// The variants are those of `src/msg/Policy.h`.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The connection is closed when its socket is lost; messages in flight are lost.
    pub lossy: bool,
    /// This side accepts and never connects by itself.
    pub server: bool,
    /// If the socket is lost while no message waits, wait in standby instead of reconnecting.
    pub standby: bool,
    /// Detect that the peer has forgotten the session.
    pub resetcheck: bool,
    /// A peer may have several sessions at a time: a new one does not replace the previous one.
    pub anonymous: bool,
    /// Feature bits that a peer must have.
    pub features_required: u64,
    /// Bounds the messages that were read and not yet processed, over all connections that share it.
    pub throttle: Option<Arc<Throttle>>,
}

impl Policy {
    /// The client of a server that keeps no state: clients use it towards monitors and OSDs.
    pub fn lossy_client() -> Self {
        Self::of(true, false, false, false)
    }

    /// The client of a server that keeps its session: used towards metadata servers.
    pub fn lossless_client() -> Self {
        Self::of(false, false, false, true)
    }

    /// Between daemons.
    pub fn lossless_peer() -> Self {
        Self::of(false, false, true, false)
    }

    /// A server that keeps no state: OSDs use it towards clients.
    pub fn stateless_server() -> Self {
        Self::of(true, true, false, false)
    }

    /// A stateless server that allows a peer several sessions: monitors use it towards clients, which
    /// open a separate connection to query a named monitor.
    pub fn anonymous_server() -> Self {
        Self { anonymous: true, ..Self::stateless_server() }
    }

    /// A server that keeps its clients' sessions.
    pub fn stateful_server() -> Self {
        Self::of(false, true, true, true)
    }

    /// Either side may have something to send while the other one rests, and either may connect.
    pub(crate) fn is_between_equals(&self) -> bool {
        !self.lossy && !self.server && self.standby
    }

    /// Returns this policy with `throttle`: connections stop reading while it is full.
    pub fn with_throttle(self, throttle: Arc<Throttle>) -> Self {
        Self { throttle: Some(throttle), ..self }
    }

    fn of(lossy: bool, server: bool, standby: bool, resetcheck: bool) -> Self {
        Self { lossy, server, standby, resetcheck, anonymous: false, features_required: 0, throttle: None }
    }
}

/// The policies of accepted connections.
#[derive(Clone, Debug)]
pub struct Policies {
    default: Policy,
    by_kind: Vec<(EntityType, Policy)>,
}

impl Policies {
    /// Uses `default` for every type of peer.
    pub fn new(default: Policy) -> Self {
        Self { default, by_kind: Vec::new() }
    }

    /// Sets the policy for one type of peer.
    pub fn with(mut self, kind: EntityType, policy: Policy) -> Self {
        self.by_kind.retain(|(k, _)| *k != kind);
        self.by_kind.push((kind, policy));
        self
    }

    /// Returns the policy for a type of peer.
    pub fn of(&self, kind: EntityType) -> &Policy {
        self.by_kind.iter().find(|(k, _)| *k == kind).map_or(&self.default, |(_, p)| p)
    }
}
