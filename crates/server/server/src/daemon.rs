//! What a daemon of the cluster is: a door of its own, at which a kind of peer is served.

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
use loligo_wire::{EntityAddrVec, EntityName, EntityType, UTime};

/// A daemon of the cluster. The server has a list of them, and opens a door for each: it listens, hands what
/// comes to the daemon's dispatcher, and ends with the others. The monitor, the OSDs and the manager are such
/// daemons; [`Builder::daemon`](crate::Builder::daemon) adds one.
pub trait Daemon: Send + Sync {
    /// Its kind and its id, as `osd.0`.
    fn name(&self) -> EntityName;

    /// Its number among its kind, which peers are told.
    fn number(&self) -> i64 {
        0
    }

    /// Takes what arrives.
    fn dispatcher(&self) -> Arc<dyn Dispatcher>;

    /// Lets peers in.
    fn auth(&self) -> Arc<dyn AcceptAuth>;

    /// How connections behave, by the kinds of the peers.
    fn policies(&self) -> Policies;

    /// What is compressed for peers that want it.
    fn compression(&self) -> Option<Compression> {
        None
    }

    /// Where it listens; by default at any free port of the monitor's host.
    fn listens(&self) -> Listens {
        Listens::default()
    }

    /// What can be asked and told at the admin socket and by `ceph tell`; the settings of the server are
    /// added to it.
    fn admin(&self) -> Option<Admin> {
        None
    }

    /// What the monitor is to know before clients come, now that the daemon listens at `addrs`: done together
    /// for all daemons of the list, in its order.
    fn introduce(&self, addrs: EntityAddrVec) -> Option<Introduction> {
        drop(addrs);
        None
    }
}

/// Tells the monitor of a daemon.
pub type Introduction = Box<dyn FnOnce(&mut State, UTime) -> Result<(), Failure> + Send>;

/// Where a daemon listens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listens {
    /// Here; port 0 is any free one.
    pub at: Option<SocketAddr>,
    /// Where its last run listened, for clients that run on: taken if the port is open and nobody else has
    /// it.
    pub last: Option<SocketAddr>,
    /// Peers know it by its address alone, as a monitor: nothing tells its lives apart.
    pub by_address: bool,
}

/// A daemon of a running server.
#[derive(Clone, Debug)]
pub struct Listening {
    /// Its kind and id.
    pub name: EntityName,
    /// Where it listens.
    pub at: SocketAddr,
    /// Its addresses as peers know them: what is dialled.
    pub addrs: EntityAddrVec,
}

/// What a daemon may use of the others ([`Builder::daemon`](crate::Builder::daemon)).
#[derive(Clone)]
pub struct Surroundings {
    /// The monitor: the maps, the users, and who logs in with which key.
    pub mon: Arc<MonService>,
    /// All OSDs, which have one store.
    pub osd: Arc<Osd>,
}

impl Surroundings {
    /// Lets clients in that come with tickets which the monitor made for this service; everybody, if nobody
    /// has to prove who they are.
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
