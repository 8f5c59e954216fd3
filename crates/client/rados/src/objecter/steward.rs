//! The task that resends operations: after a change of the map, a lost connection, the end of a backoff,
//! EAGAIN or a redirect.
//!
//! It is not involved in an operation that is sent and answered normally. Because there is one such
//! task, no operation is resent twice at once. Because it closes the gates first (see [`Session`]), no
//! new operation overtakes a resent one. Operations keep their tids and are resent in tid order, which
//! is the order of submission.

use std::sync::Arc;
use std::time::Duration;

use loligo_maps::{Incremental, OsdMap};
use loligo_msgr::Connection;
use loligo_wire::message::osd::{MOSDBackoff, MOSDMap, OsdFlags, OsdReply};
use loligo_wire::{Epoch, GlobalId, OsdId, PgId, Tid};
use rustc_hash::FxHashMap;
use tokio::sync::mpsc;

use super::flight::Elsewhere;
use super::op::{Numbered, Op};
use super::replica::Location;
use super::session::{Attempts, Session};
use super::target::MapView;
use super::{Objecter, OpError, Resent};

/// The steward's events. The number of queued maps is limited ([`MAPS_WAITING_MAX`]); the operations in
/// flight and the number of sessions limit the other events.
pub(super) enum Event {
    /// Maps have arrived.
    Maps {
        /// The message of a monitor or an OSD.
        maps: MOSDMap,
        /// Time of arrival.
        came_at: std::time::Instant,
    },
    /// A monitor has authenticated the client.
    Authenticated,
    /// A session has lost its connection.
    Lost {
        /// The session.
        session: Arc<Session>,
        /// The connection's id.
        conn_id: u64,
    },
    /// A backoff has ended.
    Unblocked {
        /// The session.
        session: Arc<Session>,
        /// The OSD's message.
        backoff: MOSDBackoff,
    },
    /// An OSD asked for an operation to be resent or redirected it.
    Again {
        /// The operation, which is in no table.
        op: Arc<Op>,
        /// The OSD's reply.
        reply: OsdReply,
    },
}

/// Maximum number of queued map messages. Further ones are dropped, and requested again when the gap is
/// found.
pub(super) const MAPS_WAITING_MAX: usize = 64;

/// Minimum age of a connection before it is replaced. If it is lost earlier, the reconnection waits.
const RECONNECT_MIN: Duration = Duration::from_millis(100);

/// The task's state.
pub(crate) struct Steward {
    objecter: Arc<Objecter>,
    events: mpsc::UnboundedReceiver<Event>,
    location: Arc<Location>,
    /// The global id that operations were sent under. OSDs recognise resent operations by it; 0 before a
    /// monitor has assigned one.
    identity: GlobalId,
}

impl Steward {
    pub(super) fn new(
        objecter: Arc<Objecter>,
        events: mpsc::UnboundedReceiver<Event>,
        location: Location,
    ) -> Self {
        Self { objecter, events, location: Arc::new(location), identity: GlobalId(0) }
    }

    /// Runs until it is aborted.
    pub(crate) async fn run(mut self) {
        while let Some(event) = self.events.recv().await {
            self.follow_identity();
            match event {
                Event::Authenticated => {}
                Event::Maps { maps, came_at } => {
                    let ops = self.take_maps(maps);
                    if ops > 0 {
                        self.objecter.resent.store(Arc::new(Resent { ops, took: came_at.elapsed() }));
                    }
                }
                Event::Lost { session, conn_id } => self.reconnect(session, conn_id),
                Event::Unblocked { session, backoff } => self.unblock(&session, &backoff),
                Event::Again { op, reply } => self.send_again(op, reply),
            }
        }
    }
}

/// Changes of the client's global id.
impl Steward {
    /// Restarts all sessions if the monitors have assigned another global id: OSDs would execute
    /// operations sent under the previous id again. Changes already sent fail with
    /// `OpError::NewIdentity`; all other operations are resent over new connections.
    ///
    /// Called before an event is handled, whatever it is: connections opened earlier authenticate only
    /// under the previous id.
    fn follow_identity(&mut self) {
        let identity = self.objecter.sessions.global_id();
        let before = std::mem::replace(&mut self.identity, identity);
        if before == identity || before == GlobalId(0) {
            return;
        }
        let sessions = self.objecter.sessions.all();
        sessions.iter().for_each(|session| session.gate());
        for session in &sessions {
            session.take_sent_changes().iter().for_each(|op| self.objecter.fail(op, OpError::NewIdentity));
            if !session.is_homeless() {
                self.connect_anew(session);
            }
        }
        let rest =
            sessions.iter().filter(|session| !session.is_homeless()).flat_map(|session| session.take_all());
        self.place_all(rest.collect());
        sessions.iter().for_each(|session| self.open_gate(session));
        self.objecter.send_commands();
    }

    fn connect_anew(&self, session: &Arc<Session>) {
        if let Some(conn) = session.conn() {
            self.objecter.lingers.lost(session.osd, conn.id());
        }
        if let Some(Some(unused)) = self.objecter.sessions.connect(session) {
            unused.mark_down();
        }
    }
}

/// Maps.
impl Steward {
    /// Applies the maps that follow the current one, and requests missing ones. Returns the number of
    /// operations that were placed again.
    fn take_maps(&self, maps: MOSDMap) -> u64 {
        self.objecter.maps_waiting.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        let before = self.objecter.view.load_full();
        let Some(last) = maps.last().filter(|last| *last > before.epoch()) else { return 0 };
        let mut displaced = 0;
        let mut current = Arc::clone(&before);
        while let Some(map) = next_map(current.map(), &maps) {
            let next = Arc::new(MapView::new(map, Arc::clone(&self.location)));
            displaced += self.adopt(&current, &next);
            current = next;
        }
        let reached = current.epoch();
        if reached > before.epoch() {
            self.objecter.monc.got("osdmap", reached.0.into());
            self.objecter.epochs.send_replace(reached);
        }
        if reached < last {
            // A gap: a message was dropped, or the monitor no longer has the map after the current one.
            self.objecter.monc.follow("osdmap", u64::from(reached.0) + 1);
        }
        displaced
    }

    /// Publishes `new` as the map that places operations, and places the operations again that it moves.
    /// Returns their number.
    fn adopt(&self, old: &MapView, new: &Arc<MapView>) -> u64 {
        let sessions = self.objecter.sessions.gate_all(new.epoch());
        self.objecter.view.store(Arc::clone(new));
        if new.keeps_out(self.objecter.nonce) {
            self.objecter.found_blocklisted();
        }
        let mut displaced = Vec::new();
        for session in &sessions {
            if session.is_homeless() || new.serves(session.osd, session.addr) {
                let moved = self.moved(session, old, new);
                displaced.extend(session.take(&moved));
            } else {
                displaced.extend(self.end(session));
            }
        }
        self.objecter.lingers.moved(old, new);
        let count = displaced.len() as u64;
        self.place_all(displaced);
        for session in self.objecter.sessions.all() {
            self.open_gate(&session);
        }
        for session in self.objecter.sessions.ungate_new() {
            self.open_gate(&session);
        }
        self.objecter.send_commands();
        count
    }

    /// Ends the session with an OSD that is down or has moved; returns the operations that were in flight.
    fn end(&self, session: &Arc<Session>) -> Vec<Numbered> {
        let (conn, ops) = session.end();
        if let Some(conn) = conn {
            conn.mark_down();
        }
        self.objecter.sessions.remove(session);
        ops
    }

    /// Returns the operations of a session that must be placed again. Placements are computed outside
    /// the session's lock; operations that end meanwhile are skipped later.
    ///
    /// Maps are examined one by one: an OSD that went down and came up again has dropped the operations
    /// sent to it, even if it serves the same placement groups before and after. If maps were skipped,
    /// all operations are placed again, because such an interval may have been missed. An OSD recognises
    /// the tid of an executed operation and does not execute it again.
    fn moved(&self, session: &Session, old: &MapView, new: &MapView) -> Vec<Tid> {
        let skipped = new.epoch().0 > old.epoch().0 + 1;
        let mut unchanged: FxHashMap<PgId, bool> = FxHashMap::default();
        let mut moved = Vec::new();
        for op in session.in_table() {
            let place = op.flight.place();
            let pg = place.spgid.pgid;
            let stays = !skipped
                && !place.paused
                && place.osd.is_some()
                && *unchanged.entry(pg).or_insert_with(|| new.continues(old, pg))
                && !new.pauses(pg.pool, place.flags);
            if !stays {
                moved.push(op.tid);
            }
        }
        moved
    }
}

/// Returns the map that `maps` lead to from `current`: the next one, or, after a gap, the newest full
/// map. Returns `None` if there is neither or decoding fails.
fn next_map(current: &OsdMap, maps: &MOSDMap) -> Option<OsdMap> {
    let next = Epoch(current.epoch.0 + 1);
    if let Some(bytes) = maps.incrementals.get(&next).filter(|_| current.epoch > Epoch(0)) {
        let mut map = current.clone();
        map.apply_incremental(&Incremental::decode(bytes).ok()?).ok()?;
        return Some(map);
    }
    let (epoch, bytes) = maps.maps.last_key_value()?;
    let map = OsdMap::decode(bytes).ok().filter(|_| *epoch > current.epoch)?;
    // Every iteration must advance the epoch, whatever the message contains.
    (map.epoch > current.epoch).then_some(map)
}

/// Operations for one OSD, or for no OSD at present.
struct Portion {
    osd: Option<OsdId>,
    /// Operations that are in no table yet.
    ops: Vec<Arc<Op>>,
    /// Attempts of operations that are in the table.
    attempts: Attempts,
    /// The connection for the attempts. It stays the same, because only this task replaces a session's
    /// connection.
    conn: Option<Arc<Connection>>,
}

/// Number of attempts handed to a connection as one batch. Each batch wakes the connection's writer
/// task, which costs a few microseconds.
const PORTION_OPS: usize = 512;

/// Number of operations prefetched at a time and entered into tables before the next batch. The parts of
/// them that are accessed, two cache lines each, fit into a core's L1 cache, and the session's lock is
/// held for a few microseconds.
const NEAR_OPS: usize = 32;

/// One portion for each OSD; there may be hundreds.
#[derive(Default)]
struct Portions {
    all: Vec<Portion>,
    at: FxHashMap<Option<OsdId>, usize>,
}

impl Portions {
    fn of(&mut self, osd: Option<OsdId>, epoch: Epoch) -> &mut Portion {
        let at = *self.at.entry(osd).or_insert_with(|| {
            let (ops, attempts) = (Vec::with_capacity(NEAR_OPS), Attempts::new(osd, epoch));
            self.all.push(Portion { osd, ops, attempts, conn: None });
            self.all.len() - 1
        });
        &mut self.all[at]
    }
}

/// Hands a portion's attempts to its connection.
fn leave(portion: &mut Portion) {
    if portion.attempts.len() == 0 {
        return;
    }
    if let Some(conn) = &portion.conn {
        // On a closed connection the attempts are lost; the connection's loss has them resent.
        let _ = conn.leave(Box::new(portion.attempts.take()));
    }
}

/// Prefetches operations that are scattered over memory. The loads do not depend on each other, so they
/// overlap.
fn bring_near(ops: &[Arc<Op>]) {
    for op in ops {
        std::hint::black_box(op.tid);
        std::hint::black_box(op.data_len);
    }
}

/// Sorts operations by tid. The tids are usually dense.
fn in_order(mut ops: Vec<Numbered>) -> Vec<Arc<Op>> {
    let numbers = ops.iter().map(|(tid, _)| tid.0);
    let (first, last) = (numbers.clone().min().unwrap_or(0), numbers.max().unwrap_or(0));
    let span = last - first;
    if span >= 4 * ops.len() as u64 {
        ops.sort_unstable_by_key(|(tid, _)| *tid);
        return ops.into_iter().map(|(_, op)| op).collect();
    }
    let mut places = vec![None; span as usize + 1];
    for (tid, op) in ops {
        places[(tid.0 - first) as usize] = Some(op);
    }
    places.into_iter().flatten().collect()
}

/// Resending.
impl Steward {
    /// Opens a new connection for a session, and resends all its operations.
    fn reconnect(&self, session: Arc<Session>, conn_id: u64) {
        if !session.uses(conn_id) {
            return;
        }
        if let Some(pause) = session.too_young(RECONNECT_MIN) {
            let objecter = Arc::clone(&self.objecter);
            tokio::spawn(async move {
                tokio::time::sleep(pause).await;
                objecter.tell(Event::Lost { session, conn_id });
            });
            return;
        }
        session.gate();
        self.objecter.lingers.lost(session.osd, conn_id);
        if let Some(Some(unused)) = self.objecter.sessions.connect(&session) {
            unused.mark_down();
        }
        self.place_all(session.take_all());
        self.open_gate(&session);
        self.objecter.send_commands();
    }

    fn unblock(&self, session: &Arc<Session>, backoff: &MOSDBackoff) {
        session.gate();
        self.place_all(session.unblock(backoff));
        self.open_gate(session);
    }

    /// Resends an operation to the primary after EAGAIN, or to the target of a redirect.
    fn send_again(&self, op: Arc<Op>, reply: OsdReply) {
        let mut flight = op.flight.load();
        if let Some(redirect) = reply.redirect {
            let (_, oid, _) = flight.address(&op.request);
            let elsewhere = Elsewhere {
                locator: redirect.locator,
                oid: if redirect.object.is_empty() { oid.to_vec() } else { redirect.object },
                flags: OsdFlags::REDIRECTED | OsdFlags::IGNORE_CACHE | OsdFlags::IGNORE_OVERLAY,
            };
            flight.elsewhere = Some(Arc::new(elsewhere));
        }
        flight.primary_only = true;
        let (locator, oid, flags) = flight.address(&op.request);
        match self.objecter.view.load().place(locator, oid, flags) {
            Ok(place) => flight.place = place,
            Err(e) => return self.objecter.fail(&op, OpError::Os(e.errno())),
        }
        // The operation is in no table and no queue, so this task holds it exclusively.
        op.flight.store(flight);
        self.place_all(vec![(op.tid, op)]);
    }

    /// Places operations by the current map and sends them in the order of submission. Operations whose
    /// pool is gone fail.
    fn place_all(&self, ops: Vec<Numbered>) {
        let view = self.objecter.view.load_full();
        let mut places = view.places_again();
        // All operations of one object go to one OSD.
        let mut portions = Portions::default();
        let mut ops = in_order(ops).into_iter();
        while !ops.as_slice().is_empty() {
            bring_near(&ops.as_slice()[..NEAR_OPS.min(ops.len())]);
            for op in ops.by_ref().take(NEAR_OPS) {
                let mut place = op.flight.place();
                match places.place(&mut place) {
                    Ok(()) => {
                        op.flight.set_place(&place);
                        portions.of(place.osd, view.epoch()).ops.push(op);
                    }
                    // Pool ids are never reused: a pool missing from the map is gone permanently.
                    Err(e) => self.objecter.fail(&op, OpError::Os(e.errno())),
                }
            }
            let share = ops.len() / portions.all.len().max(1);
            for portion in &mut portions.all {
                self.enter(&view, portion, share);
            }
        }
        portions.all.iter_mut().for_each(leave);
    }

    /// Enters a portion's operations, placed by `view`, into their session's table, and hands a full
    /// batch to its connection. About `more` operations follow.
    fn enter(&self, view: &MapView, portion: &mut Portion, more: usize) {
        if portion.ops.is_empty() {
            return;
        }
        let Portion { osd, ops, attempts, conn } = portion;
        let entered = self.objecter.sessions.with(*osd, view, |session| {
            *conn = session.place(ops.drain(..), more, attempts);
        });
        if entered.is_err() {
            // The map is the newest, so there is no session only because the client is being shut down.
            ops.drain(..).for_each(|op| self.objecter.fail(&op, OpError::Shutdown));
        }
        if attempts.len() >= PORTION_OPS {
            leave(portion);
        }
    }

    /// Enters the operations held at a gate, then opens it.
    fn open_gate(&self, session: &Arc<Session>) {
        while let Some(held) = session.open_gate() {
            self.place_all(held.into_iter().map(|op| (op.tid, op)).collect());
        }
    }
}
