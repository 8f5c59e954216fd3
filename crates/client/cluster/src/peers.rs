//! Clients of the cluster's daemons, by the kind of daemon.

use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use loligo_lockstat::{Class, Mutex};
use loligo_msgr::Connection;
use loligo_wire::EntityType;
use loligo_wire::message::Msg;

use crate::error::{Errno, Error};

/// A client of one kind of daemons: told what happens on its connections, and what monitors send of it.
///
/// All are called by the tasks of connections, so none may block.
pub trait Peers: Send + Sync + 'static {
    /// Messages of a daemon have arrived: all that one read of the socket brought, in order. What is left in
    /// `msgs` is dropped.
    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>);

    /// A monitor has sent a message of one of the kinds that this client [registered](crate::Cluster::register)
    /// for: a map.
    fn take_map(&self, msg: &Msg) {
        let _ = msg;
    }

    /// A monitor has let the client in, perhaps under another number ([`Dialer::global_id`]).
    ///
    /// [`Dialer::global_id`]: crate::Dialer::global_id
    fn authenticated(&self) {}

    /// A connection is up: for the first time or, lossless, again, when what the daemon has not acknowledged was
    /// sent again.
    fn connected(&self, conn: &Arc<Connection>) {
        let _ = conn;
    }

    /// A connection is dead and will not come back.
    fn lost(&self, conn: &Arc<Connection>) {
        let _ = conn;
    }

    /// The daemon has forgotten the session of a lossless connection. What it had not acknowledged is lost; the
    /// connection goes on afresh.
    fn forgotten(&self, conn: &Arc<Connection>) {
        let _ = conn;
    }

    /// An attempt to connect has failed. The next one follows by itself, until the connection is marked down.
    fn refused(&self, conn: &Arc<Connection>, why: &loligo_msgr::Error) {
        let _ = (conn, why);
    }
}

/// Held to add a client, which happens once for each kind.
static REGISTRY: Class = Class::new("cluster.peers");

/// Who is registered: read for each read of a socket, changed a few times in a client's life.
pub(crate) struct Registry {
    all: ArcSwap<Vec<Registered>>,
    changes: Mutex<()>,
}

#[derive(Clone)]
struct Registered {
    kind: EntityType,
    /// The kinds of the monitors' messages that are for it.
    maps: &'static [u16],
    peers: Weak<dyn Peers>,
}

impl Registry {
    pub(crate) fn new() -> Self {
        Self { all: ArcSwap::default(), changes: Mutex::new(&REGISTRY, ()) }
    }

    /// Adds a client; one that has been dropped gives its place up.
    ///
    /// # Errors
    /// EEXIST if there is a client for this kind of daemons, or for one of these messages.
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

    /// The client of a kind of daemons.
    pub(crate) fn of_kind(&self, kind: EntityType) -> Option<Arc<dyn Peers>> {
        self.all.load().iter().find(|registered| registered.kind == kind)?.peers.upgrade()
    }

    /// The client that monitors' messages of this kind are for.
    pub(crate) fn of_map(&self, message: u16) -> Option<Arc<dyn Peers>> {
        self.all.load().iter().find(|registered| registered.maps.contains(&message))?.peers.upgrade()
    }

    /// All of them.
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
