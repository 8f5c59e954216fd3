use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use loligo_cephx::caps::Access;
use loligo_lockstat::{Class, Mutex};
use loligo_logring::log;
use loligo_maps::{OsdMap, PoolFlags};
use loligo_msgr::{Connection, Dispatcher};
use loligo_store::{ObjectStore, StatFs, StoreError};
use loligo_wire::PoolId;
use loligo_wire::message::osd::{MOSDOp, MOSDOpReply, OsdFlags};
use loligo_wire::message::{Message, Msg};

use crate::errno::Errno;
use crate::exec::{self, Context, Fetches, Limits, Room};
use crate::finisher::Finisher;
use crate::place::{Places, Pool};
use crate::session::{Session, peer_addrs};
use crate::slot::{Asker, Request};
use crate::stats::PoolStats;

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
    places: ArcSwap<Places>,
    map_change: Mutex<()>,
    finisher: Arc<Finisher>,
}

impl Osd {
    /// An OSD without a map: it answers nothing until [`Osd::set_map`].
    pub fn new(config: OsdConfig) -> Arc<Self> {
        Arc::new(Self {
            store: config.store,
            limits: config.limits,
            places: ArcSwap::from_pointee(Places::none()),
            map_change: Mutex::new(&MAP_CHANGE, ()),
            finisher: Arc::default(),
        })
    }

    /// Takes a newer map; `encoded` is the same map as clients get it. An older one is ignored. Opens the placement groups
    /// of new pools and removes those of pools that are gone, with what they hold.
    ///
    /// The number of a pool's placement groups must not change. Of two callers at the same time one repeats its work.
    pub fn set_map(&self, map: Arc<OsdMap>, encoded: Bytes) -> Result<(), StoreError> {
        let (old, new) = loop {
            let old = self.places.load_full();
            if map.epoch <= old.epoch() {
                return Ok(());
            }
            // Opens placement groups, for which the store may have to read.
            let new = Arc::new(old.next(Arc::clone(&map), encoded.clone(), &*self.store, &self.finisher)?);
            let _change = self.map_change.lock();
            if Arc::ptr_eq(&old, &self.places.load()) {
                self.places.store(Arc::clone(&new));
                break (old, new);
            }
        };
        // Requests that were checked against the old map may still run: into collections that nobody finds any more.
        old.gone_in(&new).into_iter().try_for_each(|pg| self.store.remove(pg))
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

    /// How full the store is.
    pub fn statfs(&self) -> StatFs {
        self.store.statfs()
    }

    /// Takes a request. `Break`: the connection is closed, and nothing more of it is to be taken.
    fn request(
        &self,
        places: &Places,
        conn: &Arc<Connection>,
        session: &Arc<Session>,
        msg: &Msg,
        op: MOSDOp,
    ) -> ControlFlow<()> {
        if session.lacks_map(op.map_epoch, places.epoch()) {
            let _ = conn.send(Msg::new(&places.message()));
        }
        let Some(pool) = places.pool(op.spgid.pgid.pool).filter(|pool| addressed_right(pool, &op)) else {
            // Made with another map than ours: the client sends it again when it has the one just sent.
            return ControlFlow::Continue(());
        };
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
        let refuse = |op: MOSDOp, errno: Errno| {
            log!(OSD, 5, "client.{}:{} refused: {}", client, tid, errno.code());
            let reply = MOSDOpReply::answer(op, errno.code(), places.epoch());
            let _ = conn.send(Msg::new(&reply).with_tid(tid));
            ControlFlow::Continue(())
        };
        if let Err(errno) = self.allowed(places, pool, conn, session, &op) {
            return refuse(op, errno);
        }
        let slot = &pool.slots[op.spgid.pgid.seed as usize];
        let context = Context {
            client: session.client,
            tid,
            epoch: places.epoch(),
            pg_num: pool.slots.len() as u32,
            room: room(places, pool, op.flags),
            limits: self.limits,
            data_crc: msg.data_crc,
            data_len: msg.data_len(),
            fetches: Fetches::default(),
        };
        let asker = Arc::clone(conn) as Arc<dyn Asker>;
        let request = Request { asker, op, context, hold: conn.hold(msg.len()) };
        if slot.submit(request) {
            return ControlFlow::Continue(());
        }
        // As many requests wait as may: let the client's connection go; it sends what is unanswered again. What came behind
        // this request must not be executed before it.
        conn.mark_down();
        ControlFlow::Break(())
    }

    /// The checks before a request may enter its slot, in a stock OSD's order.
    fn allowed(
        &self,
        places: &Places,
        pool: &Pool,
        conn: &Connection,
        session: &Session,
        op: &MOSDOp,
    ) -> Result<(), Errno> {
        let access = Access {
            read: op.ops.iter().any(|op| op.code.is_read()),
            write: op.ops.iter().any(|op| op.code.is_modify()),
        };
        if let Some(caps) = session.caps_in(op.spgid.pgid.pool, pool, places.epoch()) {
            let object = if op.locator.key.is_empty() { &op.oid } else { &op.locator.key };
            if !caps.allows(access, &op.locator.nspace, object) {
                return Err(Errno::EPERM);
            }
        }
        self.limits.check_count(op)?;
        if exec::is_pg_request(op) {
            return Ok(());
        }
        self.limits.check_names(op)?;
        if !places.map.blocklist.is_empty() && places.map.blocklist.contains(&peer_addrs(conn)) {
            return Err(Errno::ESHUTDOWN);
        }
        exec::check_shape(op, access, &self.limits)
    }
}

/// Whether the request's placement group is the one that our map has for its hash.
fn addressed_right(pool: &Pool, op: &MOSDOp) -> bool {
    let seed = op.spgid.pgid.seed;
    (seed as usize) < pool.slots.len() && (exec::is_pg_request(op) || pool.pool.fold(op.hash) == seed)
}

/// What a full pool does with requests that grow. Clients wait by themselves once they have the map that says so.
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

impl Dispatcher for Osd {
    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        let places = self.places.load();
        let session = Session::of(conn);
        for msg in msgs.drain(..).filter(|msg| msg.header.kind == MOSDOp::KIND) {
            let op = match msg.open() {
                Ok(op) => op,
                Err(e) => return conn.refuse(msg.header.kind, e),
            };
            if self.request(&places, conn, &session, &msg, op).is_break() {
                return;
            }
        }
    }
}
