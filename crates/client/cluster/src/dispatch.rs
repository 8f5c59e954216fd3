//! Routes connection events and messages to the client of the daemon concerned.

use std::sync::{Arc, Weak};

use loligo_msgr::{Connection, Dispatcher};
use loligo_wire::EntityType;
use loligo_wire::message::Msg;

use crate::monc::MonClient;
use crate::peers::{Peers, Registry};

/// The monitor client and the registered clients of other daemons.
pub(crate) struct Switch {
    pub(crate) monc: Arc<MonClient>,
    pub(crate) registry: Registry,
}

/// The messenger's dispatcher. It holds a weak reference, because the client owns its messenger.
pub(crate) struct Dispatch(pub(crate) Weak<Switch>);

impl Dispatch {
    fn peers_of(&self, conn: &Connection) -> Option<Arc<dyn Peers>> {
        self.0.upgrade()?.registry.of_kind(conn.peer().kind)
    }
}

impl Dispatcher for Dispatch {
    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        let Some(switch) = self.0.upgrade() else { return };
        if let Some(peers) = switch.registry.of_kind(conn.peer().kind) {
            return peers.dispatch(conn, msgs);
        }
        if !is_mon(conn) {
            return;
        }
        for msg in msgs.drain(..) {
            match switch.registry.of_map(msg.header.kind) {
                Some(peers) => peers.take_map(&msg),
                None => switch.monc.handle(msg),
            }
        }
    }

    fn connected(&self, conn: &Arc<Connection>) {
        let Some(switch) = self.0.upgrade() else { return };
        if is_mon(conn) {
            switch.monc.connected(conn);
            switch.registry.all().iter().for_each(|peers| peers.authenticated());
        } else if let Some(peers) = self.peers_of(conn) {
            peers.connected(conn);
        }
    }

    fn reset(&self, conn: &Arc<Connection>, _: &loligo_msgr::Error) {
        let Some(switch) = self.0.upgrade() else { return };
        if is_mon(conn) {
            switch.monc.lost(conn);
        } else if let Some(peers) = self.peers_of(conn) {
            peers.lost(conn);
        }
    }

    fn remote_reset(&self, conn: &Arc<Connection>) {
        if let Some(peers) = self.peers_of(conn) {
            peers.forgotten(conn);
        }
    }

    fn refused(&self, conn: &Arc<Connection>, why: &loligo_msgr::Error) {
        let Some(switch) = self.0.upgrade() else { return };
        if is_mon(conn) {
            switch.monc.refused(conn, why);
        } else if let Some(peers) = self.peers_of(conn) {
            peers.refused(conn, why);
        }
    }
}

fn is_mon(conn: &Connection) -> bool {
    conn.peer().kind == EntityType::MON
}
