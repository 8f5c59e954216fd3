//! Settings of a messenger, and policies of its connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use loligo_msgr_proto::Compression;
use loligo_wire::{EntityType, features};

use crate::admission::Admission;
use crate::log::{Log, process_log};
use crate::{ConnectAuth, Network, Throttle};

/// Says where to dial instead of a peer's address.
pub type Reroute = Arc<dyn Fn(EntityType, SocketAddr) -> SocketAddr + Send + Sync>;

/// What a [`Messenger`](crate::Messenger) is made from.
#[derive(Clone)]
pub struct Config {
    /// What kind of program we are.
    pub kind: EntityType,
    /// Our number among our kind: a daemon's id; a client's global id, once it has one
    /// ([`Messenger::set_num`](crate::Messenger::set_num)), and −1 before.
    pub num: i64,
    /// Tells this messenger apart from others at the same address, now or earlier; part of our addresses. The
    /// default is random. A monitor's is 0.
    pub nonce: u32,
    /// Feature bits that we offer.
    pub features: u64,
    /// How accepted connections behave, by the peer's kind.
    pub policies: Policies,
    /// How we authenticate ourselves when we connect to a peer that had connected to us, to resume its
    /// session. Without it we wait for the peer. Only for policies that are neither lossy nor a server's.
    pub connect_back: Option<Arc<dyn ConnectAuth>>,
    /// What is compressed on connections with OSDs, if the other side wants that too. Whoever says so takes
    /// one exchange more to open a session with a peer that knows of compression, so by default nobody does.
    pub compression: Option<Compression>,
    /// Bounds and times.
    pub limits: Limits,
    /// What is taken in from peers that connect to us; shared by messengers that are to have one bound
    /// together.
    pub admission: Arc<Admission>,
    /// Where log lines go. The default is [`process_log`].
    pub log: Log,
    /// Where to dial instead of a peer's address: tests put something in between. The peer itself is told its
    /// own.
    pub reroute: Option<Reroute>,
    /// Where sockets and random numbers come from: tests simulate them.
    pub network: Network,
}

impl Config {
    /// The defaults for a program of a kind.
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

/// The bounds and times of a messenger's connections.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Messages that may wait in one connection's out-queue; beyond it `send` says
    /// [`SendError::Full`](crate::SendError::Full).
    pub queue_messages_max: usize,
    /// Bytes that may wait there. One message may exceed it if the queue is empty.
    ///
    /// A lossy connection that a peer has opened reads no further while an eighth of either bound waits for
    /// that peer, and ends at the bound: answers are never left out.
    pub queue_bytes_max: usize,
    /// How long a peer that has opened a lossy connection may take nothing while more is not read from it
    /// because of what waits for it.
    pub unread_timeout: Duration,
    /// Longest handshake, either side. (Ceph: `ms_connection_ready_timeout`.)
    pub handshake_timeout: Duration,
    /// First pause before connecting again. (Ceph: `ms_initial_backoff`.)
    pub backoff_min: Duration,
    /// Longest pause before connecting again; each pause is twice the one before, less a random part. (Ceph:
    /// `ms_max_backoff`.)
    pub backoff_max: Duration,
    /// How often a connection that we opened sends a keepalive; zero: never.
    pub keepalive_interval: Duration,
    /// How long a peer may leave keepalives unanswered before the connection counts as lost.
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

/// What happens to a connection when its socket is lost, and how much it may read ahead.
///
/// The kinds are those of `src/msg/Policy.h`.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The connection ends with its socket, and messages on the way are lost.
    pub lossy: bool,
    /// We accept; we never connect by ourselves.
    pub server: bool,
    /// When the socket is lost and nothing waits to be sent, wait instead of connecting again.
    pub standby: bool,
    /// Find out whether the peer has forgotten the session.
    pub resetcheck: bool,
    /// A peer may have several sessions at a time: a new one does not take the place of the one before.
    pub anonymous: bool,
    /// Feature bits that a peer must have.
    pub features_required: u64,
    /// Bounds what is read and not yet worked off, over all connections that share it.
    pub throttle: Option<Arc<Throttle>>,
}

impl Policy {
    /// A client of a server that keeps no state: what clients use towards monitors and OSDs.
    pub fn lossy_client() -> Self {
        Self::of(true, false, false, false)
    }

    /// A client whose server keeps its session: towards metadata servers.
    pub fn lossless_client() -> Self {
        Self::of(false, false, false, true)
    }

    /// Daemons among each other.
    pub fn lossless_peer() -> Self {
        Self::of(false, false, true, false)
    }

    /// A server that keeps no state: what OSDs use towards clients.
    pub fn stateless_server() -> Self {
        Self::of(true, true, false, false)
    }

    /// The same, and a peer may have several sessions: what monitors use towards clients, which ask a named
    /// monitor on a connection of its own.
    pub fn anonymous_server() -> Self {
        Self { anonymous: true, ..Self::stateless_server() }
    }

    /// A server that keeps its clients' sessions.
    pub fn stateful_server() -> Self {
        Self::of(false, true, true, true)
    }

    /// The same policy, reading no further while `throttle` is full.
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
    /// The same for every kind of peer.
    pub fn new(default: Policy) -> Self {
        Self { default, by_kind: Vec::new() }
    }

    /// Another one for peers of a kind.
    pub fn with(mut self, kind: EntityType, policy: Policy) -> Self {
        self.by_kind.retain(|(k, _)| *k != kind);
        self.by_kind.push((kind, policy));
        self
    }

    /// The one for peers of a kind.
    pub fn of(&self, kind: EntityType) -> &Policy {
        self.by_kind.iter().find(|(k, _)| *k == kind).map_or(&self.default, |(_, p)| p)
    }
}
