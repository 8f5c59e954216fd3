//! What all handles of one client share, and the dispatcher that ties it to the messenger.

use std::sync::{Arc, Weak};

use loligo_cephx::client::AuthClient;
use loligo_msgr::{Connection, Dispatcher, Messenger};
use loligo_wire::EntityType;
use loligo_wire::message::mon::MMgrMap;
use loligo_wire::message::osd::MOSDMap;
use loligo_wire::message::{Message as _, Msg};
use tokio::task::AbortHandle;

use crate::mgrc::MgrClient;
use crate::monc::MonClient;
use crate::objecter::{Link, Objecter, Session};
use crate::waits::Waits;

/// The parts of a client.
pub(crate) struct Core {
    pub(crate) auth: Arc<AuthClient>,
    pub(crate) messenger: Arc<Messenger>,
    pub(crate) monc: Arc<MonClient>,
    pub(crate) mgrc: Arc<MgrClient>,
    pub(crate) objecter: Arc<Objecter>,
    pub(crate) waits: Waits,
}

/// What ends with the last handle: the tasks, the sessions and what is in flight.
pub(crate) struct Lifeline {
    pub(crate) core: Arc<Core>,
    pub(crate) tasks: Vec<AbortHandle>,
}

impl Lifeline {
    /// Ends everything, at once.
    pub(crate) fn close(&self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        self.core.monc.close();
        self.core.mgrc.close();
        self.core.objecter.close();
    }
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        self.close();
    }
}

/// Hands what happens on connections to whom it concerns. Weak, because the client owns its messenger.
pub(crate) struct Dispatch(pub(crate) Weak<Core>);

impl Dispatch {
    fn session_of(conn: &Connection) -> Option<Arc<Session>> {
        conn.user_data().get()?.downcast_ref::<Link>()?.0.upgrade()
    }
}

impl Dispatcher for Dispatch {
    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        let Some(core) = self.0.upgrade() else { return };
        if let Some(session) = Self::session_of(conn) {
            return core.objecter.handle(&session, conn, msgs);
        }
        let of_mgr = is_mgr(conn);
        for msg in msgs.drain(..) {
            match msg.header.kind {
                _ if of_mgr => core.mgrc.handle(conn, &msg),
                MMgrMap::KIND => core.mgrc.take_map(&msg),
                MOSDMap::KIND => core.objecter.take_maps(&msg),
                _ => core.monc.handle(msg),
            }
        }
    }

    fn connected(&self, conn: &Arc<Connection>) {
        if let Some(core) = self.0.upgrade()
            && conn.peer().kind == EntityType::MON
        {
            core.monc.connected(conn);
            core.objecter.authenticated();
        }
    }

    fn reset(&self, conn: &Arc<Connection>, _: &loligo_msgr::Error) {
        let Some(core) = self.0.upgrade() else { return };
        match Self::session_of(conn) {
            Some(session) => core.objecter.lost(session, conn),
            None if is_mgr(conn) => core.mgrc.lost(conn),
            None => core.monc.lost(conn),
        }
    }

    fn refused(&self, conn: &Arc<Connection>, why: &loligo_msgr::Error) {
        let Some(core) = self.0.upgrade() else { return };
        match conn.peer().kind {
            EntityType::MON => core.monc.refused(conn, why),
            EntityType::MGR => core.mgrc.refused(conn, why),
            _ => {
                if let (loligo_msgr::Error::MissingFeatures { bits }, Some(session)) =
                    (why, Self::session_of(conn))
                {
                    core.objecter.refused(&session, conn, *bits);
                }
            }
        }
    }
}

fn is_mgr(conn: &Connection) -> bool {
    conn.peer().kind == EntityType::MGR
}
