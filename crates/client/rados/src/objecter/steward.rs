//! The one task that sends operations again: when the map changes, a connection is lost, a backoff ends, or
//! an OSD says "again" or "there".
//!
//! Everything it does is off the way of an operation that is simply sent and answered. Because it is one
//! task, nothing is sent again by two at once; because it closes gates first (see [`Session`]), nothing that
//! is new overtakes what is sent again. Operations keep their tids and go out in the order of their tids,
//! which is the order of submission.

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

/// What the steward is told. Maps are bounded in number ([`MAPS_WAITING_MAX`]), the others by what is in
/// flight and by the number of sessions.
pub(super) enum Event {
    /// Maps have come.
    Maps {
        /// What a monitor or an OSD sent.
        maps: MOSDMap,
        /// When.
        came_at: std::time::Instant,
    },
    /// A monitor has let us in.
    Authenticated,
    /// A session's connection is lost.
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
        /// What the OSD said.
        backoff: MOSDBackoff,
    },
    /// An OSD wants an operation to be sent again, or to another object.
    Again {
        /// The operation, which is in no table.
        op: Arc<Op>,
        /// What the OSD said.
        reply: OsdReply,
    },
}

/// Messages of maps that may wait. Those beyond are dropped, and asked for again when the gap shows.
pub(super) const MAPS_WAITING_MAX: usize = 64;

/// A connection that is lost sooner than this after it was made is made again only then.
const RECONNECT_MIN: Duration = Duration::from_millis(100);

/// The task.
pub(crate) struct Steward {
    objecter: Arc<Objecter>,
    events: mpsc::UnboundedReceiver<Event>,
    location: Arc<Location>,
    /// By it OSDs know what is sent again; 0 before a monitor has given one.
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

/// The client's number.
impl Steward {
    /// Begins anew if the monitors have given the client another number: OSDs would execute again what was
    /// sent under the one before. Changes that were sent end; all else is sent over new connections.
    ///
    /// Before anything is sent again, whatever the event: connections that were opened before authenticate
    /// only under the number of then.
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
    /// Follows the maps from ours on, and asks again for what is missing. Gives how many operations were
    /// placed anew.
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
            // A gap: a message was dropped, or the monitor no longer has what follows our map.
            self.objecter.monc.follow("osdmap", u64::from(reached.0) + 1);
        }
        displaced
    }

    /// Makes `new` the map that operations are placed by, and moves those that it places elsewhere. Gives
    /// their number.
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

    /// Ends the session with an OSD that is down or has moved; returns what was in flight.
    fn end(&self, session: &Arc<Session>) -> Vec<Numbered> {
        let (conn, ops) = session.end();
        if let Some(conn) = conn {
            conn.mark_down();
        }
        self.objecter.sessions.remove(session);
        ops
    }

    /// The operations of a session that have to be placed anew. Placement is computed outside the session's
    /// lock; what ends meanwhile is not found any more afterwards.
    ///
    /// Maps are looked at one by one, since an OSD that went down and came up again has dropped what was sent
    /// to it, though it serves the same placement groups after it as before. Where maps were skipped nobody
    /// knows, so all is placed anew; an OSD that has executed an operation knows its number and does not do
    /// so again.
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

/// The map that `maps` lead to from `current`: the next one, or, where there is a gap, the newest that is
/// there whole. `None` if there is neither or it cannot be read.
fn next_map(current: &OsdMap, maps: &MOSDMap) -> Option<OsdMap> {
    let next = Epoch(current.epoch.0 + 1);
    if let Some(bytes) = maps.incrementals.get(&next).filter(|_| current.epoch > Epoch(0)) {
        let mut map = current.clone();
        map.apply_incremental(&Incremental::decode(bytes).ok()?).ok()?;
        return Some(map);
    }
    let (epoch, bytes) = maps.maps.last_key_value()?;
    let map = OsdMap::decode(bytes).ok().filter(|_| *epoch > current.epoch)?;
    // Each turn must lead on, whatever the message says.
    (map.epoch > current.epoch).then_some(map)
}

/// Operations that go to the same OSD, or to nobody for now.
struct Portion {
    osd: Option<OsdId>,
    /// Those that are in no table yet.
    ops: Vec<Arc<Op>>,
    /// Of those that are.
    attempts: Attempts,
    /// For them; the same each time, as nobody but this task gives a session another one.
    conn: Option<Arc<Connection>>,
}

/// How many operations are left with a connection as one thing: each of these wakes its writer task, which
/// costs some microseconds.
const PORTION_OPS: usize = 512;

/// How many operations are brought near at a time and go into tables before the next: what is asked of them,
/// two cache lines of each, fits into a core's first cache, and a session is locked for some microseconds of
/// work.
const NEAR_OPS: usize = 32;

/// One for each OSD; there may be hundreds.
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

/// Leaves a portion's attempts with its connection.
fn leave(portion: &mut Portion) {
    if portion.attempts.len() == 0 {
        return;
    }
    if let Some(conn) = &portion.conn {
        // Lost with the connection, if that is closed, and found again as all that is lost with it.
        let _ = conn.leave(Box::new(portion.attempts.take()));
    }
}

/// Has the processor fetch operations that lie all over the memory, many at the same time: none of these
/// loads waits for another.
fn bring_near(ops: &[Arc<Op>]) {
    for op in ops {
        std::hint::black_box(op.tid);
        std::hint::black_box(op.data_len);
    }
}

/// Operations in the order of their numbers, which mostly lie close to each other.
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

/// Sending again.
impl Steward {
    /// Makes a new connection for a session, and sends everything again.
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

    /// Sends an operation to the primary after EAGAIN, or to where it was redirected.
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
        // It is in no table and no queue: nobody else has it.
        op.flight.store(flight);
        self.place_all(vec![(op.tid, op)]);
    }

    /// Places operations by the current map and sends them, in the order in which they were submitted. Those
    /// whose pool is gone end.
    fn place_all(&self, ops: Vec<Numbered>) {
        let view = self.objecter.view.load_full();
        let mut places = view.places_again();
        // One object's operations all go to one OSD.
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
                    // Pool numbers are not used twice: a pool that the map has lost is gone for good.
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

    /// Puts a portion's operations, which were placed by `view`, into their session's table, and leaves them
    /// with its connection once they are enough. About `more` follow.
    fn enter(&self, view: &MapView, portion: &mut Portion, more: usize) {
        if portion.ops.is_empty() {
            return;
        }
        let Portion { osd, ops, attempts, conn } = portion;
        let entered = self.objecter.sessions.with(*osd, view, |session| {
            *conn = session.place(ops.drain(..), more, attempts);
        });
        if entered.is_err() {
            // There is no session only because the client is being shut down: the map is the newest.
            ops.drain(..).for_each(|op| self.objecter.fail(&op, OpError::Shutdown));
        }
        if attempts.len() >= PORTION_OPS {
            leave(portion);
        }
    }

    /// Lets those in who wait at a gate, then opens it.
    fn open_gate(&self, session: &Arc<Session>) {
        while let Some(held) = session.open_gate() {
            self.place_all(held.into_iter().map(|op| (op.tid, op)).collect());
        }
    }
}
