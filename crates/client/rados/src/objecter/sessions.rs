//! The table of sessions: read-mostly, and locked only to add or remove one.

use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use loligo_cluster::Dialer;
use loligo_lockstat::{Class, Mutex};
use loligo_msgr::{Connection, Policy};
use loligo_wire::{EntityAddr, EntityType, Epoch, GlobalId, OsdId};

use super::op::Op;
use super::session::Session;
use super::target::{MapView, Placement};

static TABLE: Class = Class::new("rados.sessions");

/// All sessions.
pub(super) struct Sessions {
    dialer: Arc<Dialer>,
    /// By the OSD's number.
    by_osd: ArcSwap<Vec<Option<Arc<Session>>>>,
    /// For operations that no OSD serves for now.
    homeless: Arc<Session>,
    changes: Mutex<Changes>,
}

struct Changes {
    /// What new sessions begin with.
    epoch: Epoch,
    gated: bool,
    closed: bool,
}

/// Why there is no session with an OSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoSession {
    /// The map by which it was asked for is not the newest.
    Stale,
    /// The client is being shut down.
    Closed,
}

/// What a connection to an OSD knows of its session. Weak: the session owns the connection.
pub(crate) struct Link(pub(crate) Weak<Session>);

impl Sessions {
    pub(super) fn new(dialer: Arc<Dialer>) -> Self {
        Self {
            dialer,
            by_osd: ArcSwap::default(),
            homeless: Session::new(OsdId(-1), EntityAddr::default(), Epoch(0), false),
            changes: Mutex::new(&TABLE, Changes { epoch: Epoch(0), gated: false, closed: false }),
        }
    }

    /// Hands `f` the session with an OSD, which is opened if there is none.
    ///
    /// One that is there may be where the OSD was before `view`: then its gate is closed, and what comes is
    /// placed again when the steward ends it.
    #[inline]
    pub(super) fn with<R>(
        &self,
        osd: Option<OsdId>,
        view: &MapView,
        f: impl FnOnce(&Arc<Session>) -> R,
    ) -> Result<R, NoSession> {
        let Some(osd) = osd else { return Ok(f(&self.homeless)) };
        let table = self.by_osd.load();
        match table.get(osd.0 as usize) {
            Some(Some(session)) => Ok(f(session)),
            _ => {
                drop(table);
                self.open(osd, view).map(|session| f(&session))
            }
        }
    }

    #[cold]
    fn open(&self, osd: OsdId, view: &MapView) -> Result<Arc<Session>, NoSession> {
        let at = osd.0 as usize;
        let changes = self.changes.lock();
        let table = self.by_osd.load();
        match table.get(at) {
            _ if changes.closed => return Err(NoSession::Closed),
            // A session where the OSD was would stay until the next map, and keep all from where the OSD is.
            _ if view.epoch() < changes.epoch => return Err(NoSession::Stale),
            Some(Some(session)) => return Ok(Arc::clone(session)),
            _ => {}
        }
        let addr = view.addr_of(osd).ok_or(NoSession::Stale)?;
        let session = Session::new(osd, addr, changes.epoch, changes.gated);
        self.connect(&session).ok_or(NoSession::Closed)?;
        let mut table = Vec::clone(&table);
        if table.len() <= at {
            table.resize(at + 1, None);
        }
        table[at] = Some(Arc::clone(&session));
        self.by_osd.store(Arc::new(table));
        Ok(session)
    }

    /// Gives a session a new connection. `None` if the client is being dropped; else the one that is not used
    /// any more, if there is one.
    pub(super) fn connect(&self, session: &Arc<Session>) -> Option<Option<Arc<Connection>>> {
        let mut unused = None;
        // Before it is up: the loss of a connection that no session knows would be nobody's news.
        self.dialer.connect(EntityType::OSD, session.addr, Policy::lossy_client(), |conn| {
            let link = Link(Arc::downgrade(session));
            conn.user_data().set(Arc::new(link)).expect("the connection is new");
            unused = session.attach(Arc::clone(conn));
        })?;
        Some(unused)
    }

    /// The client's number, as connections that are made now say.
    pub(super) fn global_id(&self) -> GlobalId {
        self.dialer.global_id()
    }

    /// All sessions, first that of the homeless: its gate closes before all others and opens before all
    /// others, see [`Sessions::detain`].
    pub(super) fn all(&self) -> Vec<Arc<Session>> {
        let homeless = std::iter::once(&self.homeless);
        homeless.chain(self.by_osd.load().iter().flatten()).cloned().collect()
    }

    /// Keeps an operation that was placed by a map on its way out, until the steward places it by the next
    /// one. `false`: the next one is there already.
    ///
    /// Such an operation must not simply come back later: those that its sender submits after it would be
    /// sent before it. Here it waits at the gate that opens first, so that they, who find the next map, wait
    /// behind it or come after it.
    pub(super) fn detain(&self, op: &Arc<Op>, place: &Placement) -> bool {
        self.homeless.hold(op, place)
    }

    /// Closes all gates, also of sessions to come, for a map of `epoch`.
    pub(super) fn gate_all(&self, epoch: Epoch) -> Vec<Arc<Session>> {
        let mut changes = self.changes.lock();
        changes.epoch = epoch;
        changes.gated = true;
        let all = self.all();
        all.iter().for_each(|session| session.gate_for(epoch));
        all
    }

    /// New sessions have their gates open again. Returns all that may still have theirs closed.
    pub(super) fn ungate_new(&self) -> Vec<Arc<Session>> {
        self.changes.lock().gated = false;
        self.all()
    }

    /// Removes a session that has ended.
    pub(super) fn remove(&self, session: &Arc<Session>) {
        let _changes = self.changes.lock();
        let mut table = Vec::clone(&self.by_osd.load());
        for place in &mut table {
            if place.as_ref().is_some_and(|there| Arc::ptr_eq(there, session)) {
                *place = None;
            }
        }
        self.by_osd.store(Arc::new(table));
    }

    /// Whether no session is opened any more.
    pub(super) fn is_closed(&self) -> bool {
        self.changes.lock().closed
    }

    /// No session is opened any more. Returns all there are.
    pub(super) fn close(&self) -> Vec<Arc<Session>> {
        self.changes.lock().closed = true;
        self.all()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use loligo_cephx::conf::{Conf, Environment};
    use loligo_maps::OsdMap;
    use loligo_wire::{EntityAddrVec, EntityName, UTime, Uuid};

    use super::*;

    /// Opened by an old map, a session would stay where its OSD was, and nobody would end it before the next
    /// map.
    #[tokio::test]
    async fn who_has_an_old_map_opens_no_session() {
        let text = "[global]\nmon host = v2:127.0.0.1:1\nauth client required = none\n";
        let conf = Conf::parse(text, EntityName::client("a"), Environment::default()).expect("a conf");
        let gone = loligo_cluster::Builder::new().conf(conf).prepare().await.expect("no key is needed");
        let dialer = Arc::clone(gone.cluster().dialer());
        drop(gone);
        let sessions = Sessions::new(dialer);
        sessions.gate_all(Epoch(6));
        let mut map = OsdMap::build(Uuid([7; 16])).osds(1).finish().expect("a first map");
        let mut view = |epoch: u32| {
            while map.epoch < Epoch(epoch) {
                let mut inc = map.next_incremental(UTime::default());
                let addrs = EntityAddrVec::from(EntityAddr::msgr2(SocketAddr::from(([127, 0, 0, 1], 2))));
                inc.osd_up(OsdId(0), addrs.clone(), addrs);
                map = map.advance(inc).expect("a map").map;
            }
            MapView::new(map.clone(), Arc::default())
        };
        let (osd, old, new) = (Some(OsdId(0)), view(5), view(6));
        assert_eq!(sessions.with(osd, &old, |_| ()), Err(NoSession::Stale));
        // It would be opened by the newest map, if there were still a client.
        assert_eq!(sessions.with(osd, &new, |_| ()), Err(NoSession::Closed));
    }
}
