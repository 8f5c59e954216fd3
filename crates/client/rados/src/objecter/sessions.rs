//! The table of sessions: read-mostly, locked only to add or remove a session.

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
    /// Indexed by the OSD's id.
    by_osd: ArcSwap<Vec<Option<Arc<Session>>>>,
    /// Holds operations whose placement group no OSD serves now.
    homeless: Arc<Session>,
    changes: Mutex<Changes>,
}

struct Changes {
    /// The initial state of new sessions.
    epoch: Epoch,
    gated: bool,
    closed: bool,
}

/// Why there is no session with an OSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoSession {
    /// The caller's map is not the newest.
    Stale,
    /// The client is being shut down.
    Closed,
}

/// A connection's reference to its session. Weak, because the session owns the connection.
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

    /// Calls `f` with the session of an OSD. Opens one if there is none.
    ///
    /// An existing session may belong to the address that the OSD had before `view`. Its gate is then
    /// closed, and its operations are placed again when the steward ends it.
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
            // A session to the OSD's old address would last until the next map, and keep operations from
            // the new address.
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

    /// Opens a new connection for a session. Returns `None` if the client is being dropped, otherwise
    /// the connection that is no longer used, if any.
    pub(super) fn connect(&self, session: &Arc<Session>) -> Option<Option<Arc<Connection>>> {
        let mut unused = None;
        // Attached before the connection opens: no session would handle the loss of a connection that
        // none knows.
        self.dialer.connect(EntityType::OSD, session.addr, Policy::lossy_client(), |conn| {
            let link = Link(Arc::downgrade(session));
            conn.user_data().set(Arc::new(link)).expect("the connection is new");
            unused = session.attach(Arc::clone(conn));
        })?;
        Some(unused)
    }

    /// Returns the client's global id, as new connections send it.
    pub(super) fn global_id(&self) -> GlobalId {
        self.dialer.global_id()
    }

    /// Returns all sessions, the homeless one first. Its gate closes before all others and opens before
    /// all others; see [`Sessions::detain`].
    pub(super) fn all(&self) -> Vec<Arc<Session>> {
        let homeless = std::iter::once(&self.homeless);
        homeless.chain(self.by_osd.load().iter().flatten()).cloned().collect()
    }

    /// Holds an operation that was placed by an outdated map until the steward places it by the next
    /// map. Returns `false` if the next map is already adopted.
    ///
    /// Merely retrying later would break the order: operations that the sender submits afterwards would
    /// be sent first. The gate of the homeless session opens first, so later operations placed by the
    /// next map queue behind this operation or follow it.
    pub(super) fn detain(&self, op: &Arc<Op>, place: &Placement) -> bool {
        self.homeless.hold(op, place)
    }

    /// Closes all gates, including those of future sessions, for a map of `epoch`.
    pub(super) fn gate_all(&self, epoch: Epoch) -> Vec<Arc<Session>> {
        let mut changes = self.changes.lock();
        changes.epoch = epoch;
        changes.gated = true;
        let all = self.all();
        all.iter().for_each(|session| session.gate_for(epoch));
        all
    }

    /// Lets new sessions start with an open gate. Returns all sessions, whose gates may still be closed.
    pub(super) fn ungate_new(&self) -> Vec<Arc<Session>> {
        self.changes.lock().gated = false;
        self.all()
    }

    /// Removes an ended session.
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

    /// Returns `true` if no session can be opened any more.
    pub(super) fn is_closed(&self) -> bool {
        self.changes.lock().closed
    }

    /// Prevents new sessions. Returns all existing ones.
    pub(super) fn close(&self) -> Vec<Arc<Session>> {
        self.changes.lock().closed = true;
        self.all()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use loligo_conf::{Conf, Environment};
    use loligo_maps::OsdMap;
    use loligo_wire::{EntityAddrVec, EntityName, UTime, Uuid};

    use super::*;

    /// A session opened by an old map would stay at the OSD's old address, and would not be ended before
    /// the next map.
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
        // The newest map would open the session if the client still existed.
        assert_eq!(sessions.with(osd, &new, |_| ()), Err(NoSession::Closed));
    }
}
