//! The OSD: receives messages, checks them, and submits requests to slots.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use arc_swap::ArcSwap;
use bytes::Bytes;
use loligo_cephx::caps::Access;
use loligo_lockstat::{Class, Mutex};
use loligo_logring::log;
use loligo_maps::{OsdMap, PoolFlags};
use loligo_msgr::{Connection, Dispatcher, Error};
use loligo_store::{ObjectStore, StatFs, StoreError};
use loligo_wire::message::osd::{MOSDOp, OpCode, OsdFlags};
use loligo_wire::message::{Message, Msg};
use loligo_wire::{EntityAddr, Errno, OsdId, PoolId, SnapContext, SnapId, SnapSet};

use crate::asker::Asker;
use crate::exec::{self, Budget, Context, Elsewhere as _, Limits, Needs, PoolRules, Room};
use crate::filing::by_pg;
use crate::helpers::Helpers;
use crate::history::TrackedOp;
use crate::place::{Places, Pool};
use crate::replies::Gatherer;
use crate::scrubs::Scrubs;
use crate::session::{Session, peer_addrs};
use crate::slot::Request;
use crate::stats::{PgStats, PoolStats};
use crate::trim::Trims;
use crate::watch::WatchFacts;

/// Held while a new map replaces the old one; requests never take it.
static MAP_CHANGE: Class = Class::new("osd.map_change");

/// The configuration of an OSD.
pub struct OsdConfig {
    /// The store of the objects.
    pub store: Arc<dyn ObjectStore>,
    /// Bounds on objects and requests.
    pub limits: Limits,
}

/// An object storage daemon, as far as clients see it.
pub struct Osd {
    limits: Limits,
    pub(crate) places: ArcSwap<Places>,
    map_change: Mutex<()>,
    helpers: Helpers,
    /// Of the store in use.
    trims: ArcSwap<Trims>,
    pub(crate) scrubs: Arc<Scrubs>,
    /// Set while a bench of the store is running.
    pub(crate) benching: AtomicBool,
}

/// What [`Osd::replace`] has replaced. Frees the old objects when it is dropped, which takes a moment, and
/// when no request uses them any more.
#[must_use = "it is dropped where a moment does not matter"]
pub struct Replaced {
    _old: Arc<Places>,
}

impl Osd {
    /// Creates an OSD without a map. It answers no request until [`Osd::set_map`].
    pub fn new(config: OsdConfig) -> Arc<Self> {
        config.store.on_batches(Arc::new(Gatherer));
        Arc::new(Self {
            limits: config.limits,
            places: ArcSwap::from_pointee(Places::none(config.store)),
            map_change: Mutex::new(&MAP_CHANGE, ()),
            helpers: Helpers::default(),
            trims: ArcSwap::default(),
            scrubs: Arc::default(),
            benching: AtomicBool::new(false),
        })
    }

    /// Installs a newer map; `encoded` is the same map in the form clients receive. An older map is
    /// ignored. Opens the placement groups of new pools that the store has, and removes those of deleted
    /// pools with their contents.
    ///
    /// `filed_by` lists the pools that were created with a `pg_num` other than the map's, and that
    /// number. A store opened with a number other than the one it was filled with does not find its
    /// objects. If two callers run concurrently, one of them repeats its work.
    pub fn set_map(
        &self,
        map: Arc<OsdMap>,
        encoded: Bytes,
        filed_by: &BTreeMap<PoolId, u32>,
    ) -> Result<(), StoreError> {
        let (old, new) = loop {
            let old = self.places.load_full();
            if map.epoch <= old.epoch() {
                return Ok(());
            }
            // Opens placement groups, which may read from the store.
            let next = old.next(Arc::clone(&map), encoded.clone(), filed_by, &self.helpers)?;
            let new = Arc::new(next);
            let _change = self.map_change.lock();
            if Arc::ptr_eq(&old, &self.places.load()) {
                self.places.store(Arc::clone(&new));
                break (old, new);
            }
        };
        if old.map.blocklist != new.map.blocklist {
            let slots = new.pools().flat_map(|(_, pool)| pool.slots.iter());
            slots.for_each(|slot| slot.blocked(Arc::clone(&new.map)));
        }
        self.trims.load_full().begin(&new);
        old.gone_in(&new).iter().try_for_each(|slots| slots.remove())
    }

    /// Continues with another store, whose objects replace all others, and with the map that belongs to them.
    /// The map must be newer than the one in use, so that no client takes it for an old one.
    ///
    /// A request that the OSD is executing goes on with the old store; one that it receives later finds the
    /// new one. Watches are gone with the old store. The caller therefore closes the connections that there
    /// are ([`Osd::disconnect`]): their clients send again what was not answered, and watch again.
    pub fn replace(
        &self,
        store: Arc<dyn ObjectStore>,
        map: Arc<OsdMap>,
        encoded: Bytes,
        filed_by: &BTreeMap<PoolId, u32>,
    ) -> Result<Replaced, StoreError> {
        store.on_batches(Arc::new(Gatherer));
        let new = Arc::new(Places::none(store).next(map, encoded, filed_by, &self.helpers)?);
        let change = self.map_change.lock();
        let old = self.places.swap(Arc::clone(&new));
        drop(change);
        let trims = Arc::new(self.trims.load().of_another_store());
        self.trims.swap(Arc::clone(&trims)).end();
        self.scrubs.forget_found();
        trims.begin(&new);
        Ok(Replaced { _old: old })
    }

    /// Closes a client's connection.
    pub fn disconnect(&self, conn: &Arc<Connection>) {
        conn.mark_down();
        Session::of(conn).lost(conn.id());
    }

    /// Sets the handler called when one of the OSD's own threads has panicked. Replies may be missing
    /// from then on, so the server must exit.
    pub fn on_panic(&self, heard: impl Fn(String) + Send + Sync + 'static) {
        let heard: crate::hands::OnPanic = Arc::new(heard);
        self.helpers.clock.on_panic(Arc::clone(&heard));
        self.helpers.finisher.on_panic(Arc::clone(&heard));
        self.helpers.hands.on_panic(heard);
    }

    /// Sets the handler called whenever removed snapshots are gone from all objects of a pool.
    pub fn on_purged(&self, tell: impl Fn(PoolId, SnapSet) + Send + Sync + 'static) {
        self.trims.load().on_purged(Arc::new(tell));
    }

    /// The map in use.
    pub fn map(&self) -> Arc<OsdMap> {
        Arc::clone(&self.places.load().map)
    }

    /// The contents and request counters of each pool.
    pub fn pool_stats(&self) -> BTreeMap<PoolId, PoolStats> {
        let sum = |pool: &Pool| {
            let mut stats = PoolStats::default();
            pool.slots.iter().for_each(|slot| slot.add_to(&mut stats));
            stats
        };
        self.places.load().pools().map(|(id, pool)| (id, sum(pool))).collect()
    }

    /// The contents and request counters of each placement group.
    pub fn pg_stats(&self) -> Vec<PgStats> {
        let places = self.places.load();
        let of_pool = |pool: &Pool| by_pg(&pool.slots.stats(), pool.pool.pg_num());
        places.pools().flat_map(|(_, pool)| of_pool(pool)).collect()
    }

    /// The slowest requests of the last [`KEPT_S`](crate::KEPT_S) seconds, in order of arrival.
    pub fn historic_ops(&self) -> Vec<TrackedOp> {
        self.helpers.history.slowest()
    }

    /// The newest requests that took [`SLOW_S`](crate::SLOW_S) seconds or more.
    pub fn historic_slow_ops(&self) -> Vec<TrackedOp> {
        self.helpers.history.slow()
    }

    /// Requests that wait for a disk read or for a change to be committed: the oldest few hundred of
    /// each placement group.
    pub fn ops_in_flight(&self) -> Vec<TrackedOp> {
        let mut ops = Vec::new();
        let places = self.places.load();
        places.pools().flat_map(|(_, pool)| pool.slots.iter()).for_each(|slot| slot.tell_waiting(&mut ops));
        ops.sort_by_key(|op| std::cmp::Reverse(op.age));
        ops
    }

    /// The watches on objects, as far as the placement groups have loaded them.
    pub fn watches(&self) -> Vec<WatchFacts> {
        let places = self.places.load();
        places.pools().flat_map(|(_, pool)| pool.slots.iter()).flat_map(|slot| slot.watch_facts()).collect()
    }

    pub(crate) fn store(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.places.load().store)
    }

    /// How full the store is.
    pub fn statfs(&self) -> StatFs {
        self.places.load().store.statfs()
    }

    /// Checks one request and submits it to its slot. `Break` means the connection is closed and no further
    /// message of it may be processed.
    fn admit(
        &self,
        places: &Arc<Places>,
        conn: &Arc<Connection>,
        session: &Arc<Session>,
        msg: &Msg,
        op: MOSDOp,
        came: Came,
    ) -> ControlFlow<()> {
        if session.lacks_map(op.map_epoch, places.epoch()) {
            let _ = conn.send(Msg::new(&places.message()));
        }
        let Some(pool) = places.pool(op.spgid.pgid.pool).filter(|pool| addressed_right(pool, &op)) else {
            // The client used another map. It resends the request after it receives the map just sent.
            return ControlFlow::Continue(());
        };
        if came.at.is_some_and(|osd| !serves(places, pool, osd, &op)) {
            // As in a stock OSD: the client resends to another OSD when it has the map.
            log!(OSD, 5, "client.{}:{} misdirected, pg {}", session.client, msg.header.tid, op.spgid.pgid);
            return ControlFlow::Continue(());
        }
        let (tid, client) = (msg.header.tid, session.client);
        log!(
            OSD,
            10,
            "client.{}:{} {} ops in pg {} e{}",
            client,
            tid,
            op.ops.len(),
            op.spgid.pgid,
            places.epoch()
        );
        // A refusal goes through the slot as an executed request does, so that it does not overtake
        // earlier replies.
        let (writes, refusal) = match self.allowed(places, pool, conn, session, &op) {
            Ok(writes) => (writes, None),
            Err(errno) => {
                log!(OSD, 5, "client.{}:{} refused: {}", client, tid, errno.to_result());
                (false, Some(errno))
            }
        };
        // A request about a placement group goes to the slot of the group's first hash.
        let hash = if exec::is_pg_request(&op) { op.spgid.pgid.seed } else { op.hash };
        // No slot means that the store has stopped; the server then exits.
        let Some(slot) = pool.slot(hash) else { return ControlFlow::Continue(()) };
        let id = op.spgid.pgid.pool;
        let context = Context {
            writes,
            peer: if wants_peer(&op) { conn.peer().addr } else { EntityAddr::default() },
            snapc: if writes { snap_context(places, pool, &op) } else { SnapContext::default() },
            places: wants_map(&op).then(|| Arc::clone(places) as _),
            scrubs: op.ops.iter().any(|op| op.code == OpCode::SCRUBLS).then(|| Arc::clone(&self.scrubs)),
            room: room(places, pool, op.flags),
            rules: PoolRules::of(&pool.pool),
            limits: self.limits,
            data_crc: msg.data_crc,
            data_len: msg.data_len(),
            budget: Budget::light(),
            ..Context::plain(session.client, tid, places.epoch(), id, pool.pool.pg_num())
        };
        let asker = Arc::clone(conn) as Arc<dyn Asker>;
        let mut request = Request::new(asker, op, context, conn.hold(msg.len()), came.received);
        request.refusal = refusal;
        if slot.submit(request) {
            return ControlFlow::Continue(());
        }
        // The slot's queue is full. The connection is dropped; the client reconnects and resends its
        // unanswered requests. Later messages of this connection must not be executed before this
        // request.
        conn.mark_down();
        session.lost(conn.id());
        ControlFlow::Break(())
    }

    /// Checks whether the client may read all objects its request copies from. A stock OSD checks only
    /// the capability for the destination's pool, so a client with write access anywhere can read
    /// everything.
    fn allows_sources(&self, places: &Places, session: &Session, op: &MOSDOp) -> Result<(), Errno> {
        for source in op.ops.iter().filter_map(exec::source_of) {
            let Some(pool) = places.pool(source.locator.pool) else { continue };
            let Some(caps) = session.caps_in(source.locator.pool, pool, places.epoch()) else { continue };
            let object = if source.locator.key.is_empty() { &source.name[..] } else { &source.locator.key };
            let reads = Access { read: true, ..Access::default() };
            if !caps.allows_calls(reads, &source.locator.nspace, object, &[]) {
                return Err(Errno::EPERM);
            }
        }
        Ok(())
    }

    /// Runs the checks before a request enters its slot, in a stock OSD's order. Returns whether the
    /// request may change its object.
    fn allowed(
        &self,
        places: &Places,
        pool: &Pool,
        conn: &Connection,
        session: &Session,
        op: &MOSDOp,
    ) -> Result<bool, Errno> {
        let needs = Needs::of(op)?;
        if let Some(caps) = session.caps_in(op.spgid.pgid.pool, pool, places.epoch()) {
            let object = if op.locator.key.is_empty() { &op.oid } else { &op.locator.key };
            if !caps.allows_calls(needs.access, &op.locator.nspace, object, &needs.calls) {
                return Err(Errno::EPERM);
            }
            self.allows_sources(places, session, op)?;
        }
        self.limits.check_count(op)?;
        if exec::is_pg_request(op) {
            return Ok(false);
        }
        self.limits.check_names(op)?;
        if !places.map.blocklist.is_empty() && places.map.blocklist.contains(&peer_addrs(conn)) {
            return Err(Errno::ESHUTDOWN);
        }
        // Clients that have the map with this flag return the error by themselves.
        if pool.pool.flags.contains(PoolFlags::EIO) {
            return Err(Errno::EIO);
        }
        let writes = needs.writes();
        exec::check_shape(op, writes, &self.limits)?;
        Ok(writes)
    }
}

/// Whether executing the request needs the sender's address.
fn wants_peer(op: &MOSDOp) -> bool {
    op.ops.iter().any(|op| matches!(op.code, OpCode::WATCH | OpCode::CALL))
}

/// Whether the request concerns snapshots or other objects, or lists a placement group.
fn wants_map(op: &MOSDOp) -> bool {
    let about = |code| matches!(code, OpCode::ROLLBACK | OpCode::COPY_FROM | OpCode::COPY_FROM2);
    op.snapid != SnapId::HEAD || op.ops.iter().any(|op| about(op.code) || op.code.is_pg())
}

/// The snapshot context of a write: the pool's snapshots, or those that the client manages.
fn snap_context(places: &Places, pool: &Pool, op: &MOSDOp) -> SnapContext {
    if pool.pool.flags.contains(PoolFlags::POOL_SNAPS) && !op.flags.contains(OsdFlags::ENFORCE_SNAPC) {
        return SnapContext {
            seq: pool.pool.snap_seq,
            snaps: pool.pool.snaps.keys().rev().copied().collect(),
        };
    }
    let id = op.spgid.pgid.pool;
    let there = op.snaps.iter().copied().filter(|snap| !places.is_removed(id, *snap));
    SnapContext { seq: op.snap_seq, snaps: there.collect() }
}

/// Whether the request's placement group is the one our map computes for its hash.
fn addressed_right(pool: &Pool, op: &MOSDOp) -> bool {
    let seed = op.spgid.pgid.seed;
    seed < pool.pool.pg_num() && (exec::is_pg_request(op) || pool.pool.fold(op.hash) == seed)
}

/// How a full pool treats requests that grow an object. Clients that have the map with the full flag
/// wait by themselves.
fn room(places: &Places, pool: &Pool, flags: OsdFlags) -> Room {
    let full = places.full() || pool.pool.flags.contains(PoolFlags::FULL);
    if !full || flags.contains(OsdFlags::FULL_FORCE) {
        Room::There
    } else if !flags.contains(OsdFlags::FULL_TRY) {
        Room::Wait
    } else if pool.pool.flags.contains(PoolFlags::FULL_QUOTA) {
        Room::Refuse(Errno::EDQUOT)
    } else {
        Room::Refuse(Errno::ENOSPC)
    }
}

/// When a request arrived, and at which OSD's door, if that matters.
#[derive(Clone, Copy)]
struct Came {
    received: Instant,
    at: Option<OsdId>,
}

/// Whether an OSD serves the request. Reads with a balancing flag may go to any copy
/// (`PrimaryLogPG::do_op`); the shards of an erasure-coded pool are not copies.
fn serves(places: &Places, pool: &Pool, osd: OsdId, op: &MOSDOp) -> bool {
    let pg = op.spgid.pgid;
    if places.is_primary(osd, pg) {
        return true;
    }
    let spread = op.flags.contains(OsdFlags::BALANCE_READS) || op.flags.contains(OsdFlags::LOCALIZE_READS);
    let writes = || Needs::of(op).is_ok_and(|needs| needs.writes());
    spread && !pool.pool.is_erasure() && !writes() && places.has_copy(osd, pg)
}

/// One of the OSDs that the map lists over the one store. It accepts the requests of the placement
/// groups that the map places on it.
///
/// All requests for an object come through the door of its primary OSD, so that one session keeps their
/// order.
pub struct Door {
    osd: Arc<Osd>,
    id: OsdId,
}

impl Door {
    /// Creates the door of the OSD with this number.
    pub fn new(osd: Arc<Osd>, id: OsdId) -> Self {
        Self { osd, id }
    }
}

impl Dispatcher for Door {
    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        self.osd.serve(conn, msgs, Some(self.id));
    }

    fn room(&self, conn: &Arc<Connection>) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        self.osd.room(conn)
    }

    fn reset(&self, conn: &Arc<Connection>, why: &Error) {
        self.osd.reset(conn, why);
    }
}

/// Serves all placement groups, regardless of where the map places them.
impl Dispatcher for Osd {
    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        self.serve(conn, msgs, None);
    }

    fn room(&self, conn: &Arc<Connection>) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        let unread = &self.helpers.unread;
        if unread.may_be_crowded() { unread.room(&Session::of(conn).account) } else { None }
    }

    fn reset(&self, conn: &Arc<Connection>, _: &Error) {
        Session::of(conn).lost(conn.id());
    }
}

impl Osd {
    /// Admits the requests of one read of a connection, in order.
    fn serve(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>, at: Option<OsdId>) {
        let places = self.places.load();
        let session = Session::of(conn);
        let came = Came { received: Instant::now(), at };
        for msg in msgs.drain(..).filter(|msg| msg.header.kind == MOSDOp::KIND) {
            let op = match msg.open() {
                Ok(op) => op,
                Err(e) => return conn.refuse(msg.header.kind, e),
            };
            if self.admit(&places, conn, &session, &msg, op, came).is_break() {
                return;
            }
        }
    }
}
