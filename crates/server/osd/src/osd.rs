//! The OSD: takes messages, checks them, and submits requests to slots.

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
use loligo_maps::{OsdMap, PoolFlags, SnapSet};
use loligo_msgr::{Connection, Dispatcher, Error};
use loligo_store::{ObjectStore, StatFs, StoreError};
use loligo_wire::message::osd::{MOSDOp, OpCode, OsdFlags};
use loligo_wire::message::{Message, Msg};
use loligo_wire::{EntityAddr, OsdId, PoolId, SnapId};

use crate::errno::Errno;
use crate::exec::{self, Budget, Context, Limits, Needs, PoolRules, Room, SnapContext};
use crate::filing::by_pg;
use crate::finisher::Gatherer;
use crate::history::TrackedOp;
use crate::place::{Places, Pool};
use crate::scrub::Scrubs;
use crate::session::{Session, peer_addrs};
use crate::slot::{Asker, Helpers, Request};
use crate::stats::{PgStats, PoolStats};
use crate::trim::Trims;
use crate::watch::WatchFacts;

/// Held while one map takes the place of another; requests never take it.
static MAP_CHANGE: Class = Class::new("osd.map_change");

/// How an OSD is made.
pub struct OsdConfig {
    /// Where objects are kept.
    pub store: Arc<dyn ObjectStore>,
    /// How large things may be.
    pub limits: Limits,
}

/// An object storage daemon, as far as clients see it.
pub struct Osd {
    store: Arc<dyn ObjectStore>,
    limits: Limits,
    pub(crate) places: ArcSwap<Places>,
    map_change: Mutex<()>,
    helpers: Helpers,
    trims: Arc<Trims>,
    pub(crate) scrubs: Arc<Scrubs>,
    /// Whether the store is being measured.
    pub(crate) benching: AtomicBool,
}

impl Osd {
    /// An OSD without a map: it answers nothing until [`Osd::set_map`].
    pub fn new(config: OsdConfig) -> Arc<Self> {
        config.store.on_batches(Arc::new(Gatherer));
        Arc::new(Self {
            store: config.store,
            limits: config.limits,
            places: ArcSwap::from_pointee(Places::none()),
            map_change: Mutex::new(&MAP_CHANGE, ()),
            helpers: Helpers::default(),
            trims: Arc::default(),
            scrubs: Arc::default(),
            benching: AtomicBool::new(false),
        })
    }

    /// Takes a newer map; `encoded` is the same map as clients get it. An older one is ignored. Opens the
    /// placement groups of new pools that the store has, and removes those of pools that are gone, with what
    /// they hold.
    ///
    /// `filed_by` has the pools that were made with another `pg_num` than the map says, and that number. A
    /// store that is opened with another number than it was filled with does not find its objects. Of two
    /// callers at the same time one repeats its work.
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
            // Opens placement groups, for which the store may have to read.
            let next = old.next(Arc::clone(&map), encoded.clone(), filed_by, &self.store, &self.helpers)?;
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
        self.trims.begin(&new);
        old.gone_in(&new).iter().try_for_each(|slots| slots.remove())
    }

    /// Says who hears that one of the OSD's own threads has panicked. Answers may be missing from then on, so
    /// that the server has to end.
    pub fn on_panic(&self, heard: impl Fn(String) + Send + Sync + 'static) {
        let heard: crate::finisher::OnPanic = Arc::new(heard);
        self.helpers.clock.on_panic(Arc::clone(&heard));
        self.helpers.finisher.on_panic(Arc::clone(&heard));
        self.helpers.hands.on_panic(heard);
    }

    /// Has `tell` called whenever removed snapshots are gone from all objects of a pool.
    pub fn on_purged(&self, tell: impl Fn(PoolId, SnapSet) + Send + Sync + 'static) {
        self.trims.on_purged(Box::new(tell));
    }

    /// The map in use.
    pub fn map(&self) -> Arc<OsdMap> {
        Arc::clone(&self.places.load().map)
    }

    /// What each pool holds and was asked for.
    pub fn pool_stats(&self) -> BTreeMap<PoolId, PoolStats> {
        let sum = |pool: &Pool| {
            let mut stats = PoolStats::default();
            pool.slots.iter().for_each(|slot| slot.add_to(&mut stats));
            stats
        };
        self.places.load().pools().map(|(id, pool)| (id, sum(pool))).collect()
    }

    /// What each placement group holds and was asked for.
    pub fn pg_stats(&self) -> Vec<PgStats> {
        let places = self.places.load();
        let of_pool = |pool: &Pool| by_pg(&pool.slots.stats(), pool.pool.pg_num());
        places.pools().flat_map(|(_, pool)| of_pool(pool)).collect()
    }

    /// The slowest requests of the last [`KEPT_S`](crate::KEPT_S) seconds, in the order in which they came.
    pub fn historic_ops(&self) -> Vec<TrackedOp> {
        self.helpers.history.slowest()
    }

    /// The newest requests that took [`SLOW_S`](crate::SLOW_S) seconds or more.
    pub fn historic_slow_ops(&self) -> Vec<TrackedOp> {
        self.helpers.history.slow()
    }

    /// Requests that wait: for the disk to read, or for a change to be safe. Of each placement group the
    /// oldest few hundred.
    pub fn ops_in_flight(&self) -> Vec<TrackedOp> {
        let mut ops = Vec::new();
        let places = self.places.load();
        places.pools().flat_map(|(_, pool)| pool.slots.iter()).for_each(|slot| slot.tell_waiting(&mut ops));
        ops.sort_by_key(|op| std::cmp::Reverse(op.age));
        ops
    }

    /// The clients that watch objects, as far as their placement groups know of them.
    pub fn watches(&self) -> Vec<WatchFacts> {
        let places = self.places.load();
        places.pools().flat_map(|(_, pool)| pool.slots.iter()).flat_map(|slot| slot.watch_facts()).collect()
    }

    pub(crate) fn store(&self) -> &dyn ObjectStore {
        &*self.store
    }

    /// How full the store is.
    pub fn statfs(&self) -> StatFs {
        self.store.statfs()
    }

    /// Takes a request. `Break`: the connection is closed, and nothing more of it is to be taken.
    fn request(
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
            // Made with another map than ours: the client sends it again when it has the one just sent.
            return ControlFlow::Continue(());
        };
        if came.at.is_some_and(|osd| !serves(places, pool, osd, &op)) {
            // As a stock OSD: the client sends it to another one when it has the map.
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
        // A refusal goes the same way as what is executed, so that it does not overtake earlier answers.
        let (writes, refusal) = match self.allowed(places, pool, conn, session, &op) {
            Ok(writes) => (writes, None),
            Err(errno) => {
                log!(OSD, 5, "client.{}:{} refused: {}", client, tid, errno.code());
                (false, Some(errno))
            }
        };
        // A request about a placement group goes where the group's first hash is.
        let hash = if exec::is_pg_request(&op) { op.spgid.pgid.seed } else { op.hash };
        // Without it the store has stopped, and the server ends.
        let Some(slot) = pool.slot(hash) else { return ControlFlow::Continue(()) };
        let id = op.spgid.pgid.pool;
        let context = Context {
            writes,
            peer: if wants_peer(&op) { conn.peer().addr } else { EntityAddr::default() },
            snapc: if writes { snap_context(places, pool, &op) } else { SnapContext::default() },
            places: wants_map(&op).then(|| Arc::clone(places)),
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
        // As many requests wait as may: let the client's connection go; it sends what is unanswered again.
        // What came behind this request must not be executed before it.
        conn.mark_down();
        session.lost(conn.id());
        ControlFlow::Break(())
    }

    /// Whether the client may read all objects that its request copies. A stock OSD asks for the copy's pool
    /// only, so that whoever may write anywhere may read everything.
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

    /// The checks before a request may enter its slot, in a stock OSD's order; whether it may change its
    /// object.
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
        // Clients that have the map which says so fail by themselves.
        if pool.pool.flags.has(PoolFlags::EIO) {
            return Err(Errno::EIO);
        }
        let writes = needs.writes();
        exec::check_shape(op, writes, &self.limits)?;
        Ok(writes)
    }
}

/// Whether the request tells of its sender's address.
fn wants_peer(op: &MOSDOp) -> bool {
    op.ops.iter().any(|op| matches!(op.code, OpCode::WATCH | OpCode::CALL))
}

/// Whether the request is about snapshots or other objects, or lists a placement group.
fn wants_map(op: &MOSDOp) -> bool {
    let about = |code| matches!(code, OpCode::ROLLBACK | OpCode::COPY_FROM | OpCode::COPY_FROM2);
    op.snapid != SnapId::HEAD || op.ops.iter().any(|op| about(op.code) || op.code.is_pg())
}

/// The snapshots that a write takes care of: the pool's, or those that the client manages.
fn snap_context(places: &Places, pool: &Pool, op: &MOSDOp) -> SnapContext {
    if pool.pool.flags.has(PoolFlags::POOL_SNAPS) && !op.flags.contains(OsdFlags::ENFORCE_SNAPC) {
        return SnapContext {
            seq: pool.pool.snap_seq,
            snaps: pool.pool.snaps.keys().rev().copied().collect(),
        };
    }
    let id = op.spgid.pgid.pool;
    let there = op.snaps.iter().copied().filter(|snap| !places.is_removed(id, *snap));
    SnapContext { seq: op.snap_seq, snaps: there.collect() }
}

/// Whether the request's placement group is the one that our map has for its hash.
fn addressed_right(pool: &Pool, op: &MOSDOp) -> bool {
    let seed = op.spgid.pgid.seed;
    seed < pool.pool.pg_num() && (exec::is_pg_request(op) || pool.pool.fold(op.hash) == seed)
}

/// What a full pool does with requests that grow. Clients wait by themselves once they have the map that says
/// so.
fn room(places: &Places, pool: &Pool, flags: OsdFlags) -> Room {
    let full = places.full() || pool.pool.flags.has(PoolFlags::FULL);
    if !full || flags.contains(OsdFlags::FULL_FORCE) {
        Room::There
    } else if !flags.contains(OsdFlags::FULL_TRY) {
        Room::Wait
    } else if pool.pool.flags.has(PoolFlags::FULL_QUOTA) {
        Room::Refuse(Errno::EDQUOT)
    } else {
        Room::Refuse(Errno::ENOSPC)
    }
}

/// When a request came, and at the door of which OSD, if that matters.
#[derive(Clone, Copy)]
struct Came {
    received: Instant,
    at: Option<OsdId>,
}

/// Whether an OSD serves the request. Reads whose sender balances them may go to any copy
/// (`PrimaryLogPG::do_op`); the shards of an erasure-coded pool are no copies.
fn serves(places: &Places, pool: &Pool, osd: OsdId, op: &MOSDOp) -> bool {
    let pg = op.spgid.pgid;
    if places.is_primary(osd, pg) {
        return true;
    }
    let spread = op.flags.contains(OsdFlags::BALANCE_READS) || op.flags.contains(OsdFlags::LOCALIZE_READS);
    let writes = || Needs::of(op).is_ok_and(|needs| needs.writes());
    spread && !pool.pool.is_erasure() && !writes() && places.has_copy(osd, pg)
}

/// One of the OSDs that the map shows over the one store: requests that come to it are those of the placement
/// groups that the map has placed there.
///
/// All requests for an object come through the door of one OSD, its primary, so that a session keeps their
/// order.
pub struct Door {
    osd: Arc<Osd>,
    id: OsdId,
}

impl Door {
    /// The door of the OSD with this number.
    pub fn new(osd: Arc<Osd>, id: OsdId) -> Self {
        Self { osd, id }
    }
}

impl Dispatcher for Door {
    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        self.osd.take(conn, msgs, Some(self.id));
    }

    fn room(&self, conn: &Arc<Connection>) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        self.osd.room(conn)
    }

    fn reset(&self, conn: &Arc<Connection>, why: &Error) {
        self.osd.reset(conn, why);
    }
}

/// Whatever the map says of OSDs: serves all placement groups.
impl Dispatcher for Osd {
    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        self.take(conn, msgs, None);
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
    fn take(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>, at: Option<OsdId>) {
        let places = self.places.load();
        let session = Session::of(conn);
        let came = Came { received: Instant::now(), at };
        for msg in msgs.drain(..).filter(|msg| msg.header.kind == MOSDOp::KIND) {
            let op = match msg.open() {
                Ok(op) => op,
                Err(e) => return conn.refuse(msg.header.kind, e),
            };
            if self.request(&places, conn, &session, &msg, op, came).is_break() {
                return;
            }
        }
    }
}
