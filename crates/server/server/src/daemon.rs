//! The interface of a daemon: a listening port of its own that serves one kind of peer.

use std::net::SocketAddr;
use std::sync::Arc;

use loligo_admin::Admin;
use loligo_cephx::handshake::ServerAuth;
use loligo_cephx::server::AuthServer;
use loligo_mon::MonService;
use loligo_mon::command::Failure;
use loligo_mon::state::State;
use loligo_msgr::{AcceptAuth, Compression, Dispatcher, Policies};
use loligo_osd::Osd;
use loligo_wire::{EntityAddr, EntityAddrVec, EntityName, EntityType, UTime};

/// A daemon of the cluster. For each daemon in its list the server opens a listening port, passes
/// incoming messages to the daemon's dispatcher, and stops the daemon with the others. The monitor, the
/// OSDs and the manager implement this trait; [`Builder::daemon`](crate::Builder::daemon) adds another
/// daemon.
pub trait Daemon: Send + Sync {
    /// The daemon's kind and id, such as `osd.0`.
    fn name(&self) -> EntityName;

    /// The daemon's number among those of its kind, which is announced to peers.
    fn number(&self) -> i64 {
        0
    }

    /// The receiver of incoming messages.
    fn dispatcher(&self) -> Arc<dyn Dispatcher>;

    /// Authenticates peers.
    fn auth(&self) -> Arc<dyn AcceptAuth>;

    /// The connection policies, by the kind of the peer.
    fn policies(&self) -> Policies;

    /// The compression offered to peers that ask for it.
    fn compression(&self) -> Option<Compression> {
        None
    }

    /// Where the daemon listens; by default at any free port of the monitor's host.
    fn listens(&self) -> Listens {
        Listens::default()
    }

    /// The commands for the admin socket and `ceph tell`; the server adds its settings to them.
    fn admin(&self) -> Option<Admin> {
        None
    }

    /// Registers the daemon with the monitor once it listens at `addrs`. The server runs the
    /// introductions of all daemons but the monitor's together, in the order of the list, before the
    /// monitor listens. Clients that know the daemon's address may connect earlier.
    fn introduce(&self, addrs: EntityAddrVec) -> Option<Introduction> {
        drop(addrs);
        None
    }
}

/// Registers a daemon in the monitor's state.
pub type Introduction = Box<dyn FnOnce(&mut State, UTime) -> Result<(), Failure> + Send>;

/// Where a daemon listens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listens {
    /// The address; port 0 means any free port.
    pub at: Option<SocketAddr>,
    /// The addresses of the last run, at which running clients look for the daemon. They are used if no
    /// port is given (`at`, or [`Builder::mon_addr_v1`](crate::Builder::mon_addr_v1)), the IP address is the
    /// same, and no other program listens there.
    pub last: LastAddrs,
    /// Peers identify the daemon by its address alone, as they do a monitor: its nonce is 0, so nothing
    /// distinguishes one life of it from another.
    pub by_address: bool,
}

/// The addresses at which a daemon listened in the last run, by the messenger's version.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastAddrs {
    /// For msgr2.
    pub v2: Option<SocketAddr>,
    /// For version 1.
    pub v1: Option<SocketAddr>,
}

impl LastAddrs {
    /// The addresses as a map has them.
    pub fn of(addrs: &EntityAddrVec) -> Self {
        let sock = |addr: Option<&EntityAddr>| addr.and_then(|addr| addr.sock);
        Self { v2: sock(addrs.msgr2()), v1: sock(addrs.legacy()) }
    }
}

/// A daemon of a running server.
#[derive(Clone, Debug)]
pub struct Listening {
    /// The daemon's kind and id.
    pub name: EntityName,
    /// The address at which the daemon listens; if there are several, the one for msgr2.
    pub at: SocketAddr,
    /// The addresses that peers connect to.
    pub addrs: EntityAddrVec,
}

/// The parts of the server that a daemon may use ([`Builder::daemon`](crate::Builder::daemon)).
#[derive(Clone)]
pub struct Surroundings {
    /// The monitor: the maps, the users and their keys.
    pub mon: Arc<MonService>,
    /// All OSDs, which share one store.
    pub osd: Arc<Osd>,
}

impl Surroundings {
    /// Authenticates clients by the tickets that the monitor issues for this service. Without
    /// authentication every client is accepted.
    pub fn tickets_for(&self, service: EntityType) -> Arc<dyn AcceptAuth> {
        Arc::new(Tickets(Arc::clone(self.mon.auth()), service))
    }
}

struct Tickets(Arc<AuthServer>, EntityType);

impl AcceptAuth for Tickets {
    fn acceptor(&self, _: SocketAddr) -> Box<dyn ServerAuth> {
        self.0.service_acceptor(self.1)
    }
}
