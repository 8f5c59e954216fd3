//! The table of sessions: read-mostly, and locked only to add or remove one.

use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use loligo_lockstat::{Class, Mutex};
use loligo_msgr::Connection;
use loligo_wire::{EntityAddr, EntityType, Epoch, OsdId};

use super::op::Op;
use super::session::Session;
use super::target::Placement;
use crate::dial::Dialer;

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

    /// Hands `f` the session with an OSD, which is opened if there is none; `addr` is where the OSD listens. `None`: there
    /// is no session with that address, and there cannot be one (any more).
    #[inline]
    pub(super) fn with<R>(
        &self,
        osd: Option<(OsdId, EntityAddr)>,
        f: impl FnOnce(&Arc<Session>) -> R,
    ) -> Option<R> {
        let Some((osd, addr)) = osd else { return Some(f(&self.homeless)) };
        let table = self.by_osd.load();
        match table.get(usize::try_from(osd.0).ok()?) {
            Some(Some(session)) if session.addr == addr => Some(f(session)),
            _ => {
                drop(table);
                self.open(osd, addr).map(|session| f(&session))
            }
        }
    }

    #[cold]
    fn open(&self, osd: OsdId, addr: EntityAddr) -> Option<Arc<Session>> {
        let at = usize::try_from(osd.0).ok()?;
        let changes = self.changes.lock();
        let table = self.by_osd.load();
        match table.get(at) {
            Some(Some(session)) if session.addr == addr => return Some(Arc::clone(session)),
            // Only the steward ends a session whose OSD has moved; whoever finds it has an old or a new map and looks again.
            Some(Some(_)) => return None,
            _ if changes.closed => return None,
            _ => {}
        }
        let session = Session::new(osd, addr, changes.epoch, changes.gated);
        session.attach(self.connect(&session)?);
        let mut table = Vec::clone(&table);
        if table.len() <= at {
            table.resize(at + 1, None);
        }
        table[at] = Some(Arc::clone(&session));
        self.by_osd.store(Arc::new(table));
        Some(session)
    }

    /// A new connection for a session; `None` if the client is being dropped.
    pub(super) fn connect(&self, session: &Arc<Session>) -> Option<Arc<Connection>> {
        let conn = self.dialer.connect(EntityType::OSD, session.addr)?;
        let link = Link(Arc::downgrade(session));
        conn.user_data().set(Arc::new(link)).expect("the connection is new");
        Some(conn)
    }

    /// All sessions, first that of the homeless: its gate closes before all others and opens before all others, see
    /// [`Sessions::detain`].
    pub(super) fn all(&self) -> Vec<Arc<Session>> {
        let homeless = std::iter::once(&self.homeless);
        homeless.chain(self.by_osd.load().iter().flatten()).cloned().collect()
    }

    /// Keeps an operation that was placed by a map on its way out, until the steward places it by the next one. `false`:
    /// the next one is there already.
    ///
    /// Such an operation must not simply come back later: those that its sender submits after it would be sent before it.
    /// Here it waits at the gate that opens first, so that they, who find the next map, wait behind it or come after it.
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
