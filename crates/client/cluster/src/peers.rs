//! Clients of the cluster's daemons, by kind of daemon.

use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use loligo_lockstat::{Class, Mutex};
use loligo_msgr::Connection;
use loligo_wire::EntityType;
use loligo_wire::message::Msg;

use crate::error::{Errno, Error};

/// A client of one kind of daemon. It receives the events of its connections and the monitors' messages
/// about that daemon.
///
/// The tasks of connections call these methods, so none of them may block.
pub trait Peers: Send + Sync + 'static {
    /// Handles messages from a daemon: all that one read of the socket returned, in order. Messages left
    /// in `msgs` are dropped.
    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>);

    /// Handles a map: a monitor's message of one of the kinds that this client
    /// [registered](crate::Cluster::register) for.
    fn take_map(&self, msg: &Msg) {
        let _ = msg;
    }

    /// A monitor has authenticated the client, possibly with another global id ([`Dialer::global_id`]).
    ///
    /// [`Dialer::global_id`]: crate::Dialer::global_id
    fn authenticated(&self) {}

    /// A connection is open: for the first time, or again if it is lossless. In that case the messages
    /// that the daemon had not acknowledged have been resent.
    fn connected(&self, conn: &Arc<Connection>) {
        let _ = conn;
    }

    /// A connection is dead and will not be reopened.
    fn lost(&self, conn: &Arc<Connection>) {
        let _ = conn;
    }

    /// The daemon has dropped the session of a lossless connection. Unacknowledged messages are lost;
    /// the connection continues with a new session.
    fn forgotten(&self, conn: &Arc<Connection>) {
        let _ = conn;
    }

    /// An attempt to connect has failed. The connection retries by itself until it is marked down.
    fn refused(&self, conn: &Arc<Connection>, why: &loligo_msgr::Error) {
        let _ = (conn, why);
    }
}

/// Held to register a client, which happens once for each kind of daemon.
static REGISTRY: Class = Class::new("cluster.peers");

/// The registered clients: read for each read of a socket, changed a few times in a client's life.
pub(crate) struct Registry {
    all: ArcSwap<Vec<Registered>>,
    changes: Mutex<()>,
}

#[derive(Clone)]
struct Registered {
    kind: EntityType,
    /// The message kinds from monitors that this client receives.
    maps: &'static [u16],
    peers: Weak<dyn Peers>,
}

impl Registry {
    pub(crate) fn new() -> Self {
        Self { all: ArcSwap::default(), changes: Mutex::new(&REGISTRY, ()) }
    }

    /// Registers a client. Entries of dropped clients are removed.
    ///
    /// # Errors
    /// EEXIST if a client is registered for this kind of daemon or for one of these messages.
    pub(crate) fn add(
        &self,
        kind: EntityType,
        maps: &'static [u16],
        peers: Weak<dyn Peers>,
    ) -> Result<(), Error> {
        let _changes = self.changes.lock();
        let mut all: Vec<_> =
            self.all.load().iter().filter(|r| r.peers.strong_count() > 0).cloned().collect();
        let clashes =
            |other: &Registered| other.kind == kind || other.maps.iter().any(|map| maps.contains(map));
        if all.iter().any(clashes) {
            return Err(Errno::EEXIST.into());
        }
        all.push(Registered { kind, maps, peers });
        self.all.store(Arc::new(all));
        Ok(())
    }

    /// Returns the client of a kind of daemon.
    pub(crate) fn of_kind(&self, kind: EntityType) -> Option<Arc<dyn Peers>> {
        self.all.load().iter().find(|registered| registered.kind == kind)?.peers.upgrade()
    }

    /// Returns the client that receives monitors' messages of this kind.
    pub(crate) fn of_map(&self, message: u16) -> Option<Arc<dyn Peers>> {
        self.all.load().iter().find(|registered| registered.maps.contains(&message))?.peers.upgrade()
    }

    /// Returns all registered clients.
    pub(crate) fn all(&self) -> Vec<Arc<dyn Peers>> {
        self.all.load().iter().filter_map(|registered| registered.peers.upgrade()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;

    impl Peers for Nobody {
        fn dispatch(&self, _: &Arc<Connection>, _: &mut Vec<Msg>) {}
    }

    #[test]
    fn a_kind_of_daemons_has_one_client_at_a_time() {
        let registry = Registry::new();
        let first: Arc<dyn Peers> = Arc::new(Nobody);
        let second: Arc<dyn Peers> = Arc::new(Nobody);
        registry.add(EntityType::MDS, &[21], Arc::downgrade(&first)).expect("nobody is there");
        let taken = registry.add(EntityType::MDS, &[], Arc::downgrade(&second)).expect_err("one is there");
        assert_eq!(taken.errno(), Errno::EEXIST);
        let taken =
            registry.add(EntityType::MGR, &[21], Arc::downgrade(&second)).expect_err("its map is taken");
        assert_eq!(taken.errno(), Errno::EEXIST);
        assert!(Arc::ptr_eq(&registry.of_map(21).expect("registered"), &first));
        drop(first);
        assert!(registry.of_kind(EntityType::MDS).is_none());
        registry.add(EntityType::MDS, &[21], Arc::downgrade(&second)).expect("the first one has gone");
        assert!(registry.of_kind(EntityType::MDS).is_some() && registry.of_map(41).is_none());
    }
}
