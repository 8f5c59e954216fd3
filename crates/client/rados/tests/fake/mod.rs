//! A cluster for tests: a monitor, OSDs and [managers](mgr) in this process, over loopback, scripted by
//! the test. The OSDs share one store, so that an object "moves" with the map. They also share one
//! record of executed requests, because placement groups keep theirs when they move.
#![allow(dead_code, reason = "no test uses all of it")]

pub(crate) mod mgr;

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use loligo_maps::{Features, Incremental, MonMap, OsdMap, PgPool};
use loligo_msgr::testing::OpenDoor;
use loligo_msgr::{Config, Connection, Dispatcher, Messenger, Policies, Policy};
use loligo_rados::{Builder, Conf, Environment};
use loligo_wire::message::mon::{
    MConfig, MMgrMap, MMonGetVersion, MMonGetVersionReply, MMonMap, MMonSubscribe, MPoolOp, MPoolOpReply,
    MgrMap,
};
use loligo_wire::message::osd::{MOSDBackoff, MOSDMap, MOSDOp, MOSDOpReply, OpCode, RequestRedirect};
use loligo_wire::message::{Message as _, Msg};
use loligo_wire::{
    Encode as _, EntityAddr, EntityAddrVec, EntityName, EntityType, Epoch, Eversion, OsdId, PoolId, Tid,
    UTime, Uuid,
};

const FSID: Uuid = Uuid([7; 16]);
pub(crate) const POOL: &str = "p";

/// What an OSD does with a request that it has to serve.
pub(crate) enum Verdict {
    Execute,
    /// Sends no reply.
    Drop,
    /// Replies with this result without executing the request.
    Refuse(i32),
    Redirect(RequestRedirect),
    /// Sends this message instead of a reply.
    Say(Msg),
}

/// A request that an OSD has received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) osd: i32,
    pub(crate) tid: Tid,
    pub(crate) oid: Vec<u8>,
    pub(crate) attempt: i32,
    pub(crate) flags: u32,
}

type Rule = Box<dyn FnMut(&Seen, &MOSDOp) -> Verdict + Send>;

pub(crate) struct Fake {
    shared: Arc<Shared>,
    mon_addr: SocketAddr,
    mon: Arc<Messenger>,
    osds: Vec<Arc<Messenger>>,
}

struct Shared {
    map: Mutex<OsdMap>,
    mgr_map: Mutex<MgrMap>,
    mgr_followers: Mutex<Vec<Arc<Connection>>>,
    osd_addrs: Mutex<Vec<EntityAddr>>,
    subscribers: Mutex<Vec<Arc<Connection>>>,
    /// Accepted connections to OSDs.
    clients: Mutex<Vec<Arc<Connection>>>,
    store: Mutex<Store>,
    rule: Mutex<Rule>,
}

#[derive(Default)]
struct Store {
    objects: HashMap<Vec<u8>, Vec<u8>>,
    /// Results of writes, by tid.
    done: HashMap<Tid, i32>,
    seen: Vec<Seen>,
    backoff_acks: Vec<MOSDBackoff>,
    version: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fake {
    /// Starts a monitor, `osds` OSDs that are up, and the pool `p` with `pg_num` placement groups.
    pub(crate) async fn start(osds: u32, pg_num: u32) -> Self {
        Self::start_requiring(osds, pg_num, [0, 0]).await
    }

    /// Like `start`, with features that the monitor and the OSDs require of clients.
    pub(crate) async fn start_requiring(osds: u32, pg_num: u32, features: [u64; 2]) -> Self {
        let [of_mon, of_osds] = features.map(|features_required| {
            Policies::new(Policy { features_required, ..Policy::stateless_server() })
        });
        let mut map = OsdMap::build(FSID).osds(osds).finish().expect("a first map");
        let mut inc = map.next_incremental(UTime::now());
        inc.create_pool(&map, POOL, PgPool::replicated(1, pg_num));
        map = map.advance(inc).expect("a pool").map;
        let shared = Arc::new(Shared {
            map: Mutex::new(map),
            mgr_map: Mutex::new(MgrMap { epoch: Epoch(1), ..MgrMap::default() }),
            mgr_followers: Mutex::default(),
            osd_addrs: Mutex::default(),
            subscribers: Mutex::default(),
            clients: Mutex::default(),
            store: Mutex::default(),
            rule: Mutex::new(Box::new(|_, _| Verdict::Execute)),
        });
        let mut messengers = Vec::new();
        for osd in 0..osds {
            let policies = of_osds.clone();
            let config = Config { num: osd.into(), nonce: osd + 1, policies, ..Config::new(EntityType::OSD) };
            let messenger =
                Messenger::new(config, Arc::new(Osd { osd: OsdId(osd as i32), shared: Arc::clone(&shared) }));
            let addr = messenger.bind(loopback(), OpenDoor::client("osd")).await.expect("a port");
            lock(&shared.osd_addrs).push(EntityAddr::msgr2(addr).with_nonce(osd + 1));
            messengers.push(messenger);
        }
        let config = Config { num: 0, nonce: 0, policies: of_mon, ..Config::new(EntityType::MON) };
        let mon = Messenger::new(config, Arc::new(Mon { shared: Arc::clone(&shared) }));
        let mon_addr = mon.bind(loopback(), OpenDoor::client("mon")).await.expect("a port");
        let fake = Self { shared, mon_addr, mon, osds: messengers };
        (0..osds).for_each(|osd| fake.osd_up(osd as i32));
        fake
    }

    /// Returns a client builder configured for this cluster.
    pub(crate) fn builder(&self) -> Builder {
        let text = format!("[global]\nmon host = v2:{}\nauth client required = none\n", self.mon_addr);
        let conf = Conf::parse(&text, EntityName::client("admin"), Environment::default()).expect("a conf");
        Builder::new().conf(conf)
    }

    pub(crate) fn mon_addr(&self) -> SocketAddr {
        self.mon_addr
    }

    pub(crate) fn osd_addr(&self, osd: i32) -> SocketAddr {
        lock(&self.shared.osd_addrs)[osd as usize].sock.expect("it listens")
    }

    pub(crate) fn set_rule(&self, rule: impl FnMut(&Seen, &MOSDOp) -> Verdict + Send + 'static) {
        *lock(&self.shared.rule) = Box::new(rule);
    }

    /// Publishes the next map to all subscribers.
    pub(crate) fn change(&self, change: impl FnOnce(&OsdMap, &mut Incremental)) {
        let next = self.next_map(change);
        self.tell_followers(BTreeMap::from([next]), BTreeMap::new());
    }

    /// Marks an OSD down and up again. Subscribers learn of both in one message: as two incrementals,
    /// or, if `skip`, as the resulting full map.
    pub(crate) fn osd_blinks(&self, osd: i32, skip: bool) {
        let addrs = EntityAddrVec::from(lock(&self.shared.osd_addrs)[osd as usize]);
        let down = self.next_map(|_, inc| inc.osd_down(OsdId(osd)));
        let up = self.next_map(|_, inc| inc.osd_up(OsdId(osd), addrs.clone(), addrs.clone()));
        let map = lock(&self.shared.map);
        let whole = (map.epoch, map.encode(Features::PACIFIC).bytes);
        drop(map);
        match skip {
            true => self.tell_followers(BTreeMap::new(), BTreeMap::from([whole])),
            false => self.tell_followers(BTreeMap::from([down, up]), BTreeMap::new()),
        }
    }

    /// Creates the next map.
    fn next_map(&self, change: impl FnOnce(&OsdMap, &mut Incremental)) -> (Epoch, Bytes) {
        let mut map = lock(&self.shared.map);
        let mut inc = map.next_incremental(UTime::now());
        change(&map, &mut inc);
        let next = map.advance(inc).expect("a change that fits");
        *map = next.map;
        (map.epoch, next.incremental)
    }

    fn tell_followers(&self, incrementals: BTreeMap<Epoch, Bytes>, maps: BTreeMap<Epoch, Bytes>) {
        let newest = lock(&self.shared.map).epoch;
        let body = MOSDMap { fsid: FSID, incrementals, maps, oldest: Epoch(1), newest };
        let msg = Msg::new(&body);
        for conn in lock(&self.shared.subscribers).iter() {
            let _ = conn.send(msg.clone());
        }
    }

    /// Makes a manager the active one, or none, and publishes the map to all subscribers.
    pub(crate) fn set_active_mgr(&self, active: Option<&mgr::Mgr>) {
        let followers = lock(&self.shared.mgr_followers);
        let map = {
            let mut map = lock(&self.shared.mgr_map);
            let epoch = Epoch(map.epoch.0 + 1);
            *map = active.map_or_else(MgrMap::default, mgr::Mgr::as_active);
            map.epoch = epoch;
            map.clone()
        };
        for conn in followers.iter() {
            let _ = conn.send(Msg::new(&MMgrMap { map: map.clone() }));
        }
    }

    pub(crate) fn osd_up(&self, osd: i32) {
        let addrs = EntityAddrVec::from(lock(&self.shared.osd_addrs)[osd as usize]);
        self.change(|_, inc| inc.osd_up(OsdId(osd), addrs.clone(), addrs.clone()));
    }

    pub(crate) fn osd_down(&self, osd: i32) {
        self.change(|_, inc| inc.osd_down(OsdId(osd)));
    }

    pub(crate) fn is_up(&self, osd: i32) -> bool {
        lock(&self.shared.map).is_up(OsdId(osd))
    }

    /// Returns the epoch of the newest map.
    pub(crate) fn epoch(&self) -> Epoch {
        lock(&self.shared.map).epoch
    }

    pub(crate) fn pool_id(&self) -> PoolId {
        lock(&self.shared.map).pool_by_name(POOL.as_bytes()).expect("the pool")
    }

    /// Returns the OSD that serves an object now.
    pub(crate) fn primary(&self, oid: &[u8]) -> i32 {
        let map = lock(&self.shared.map);
        let pool = map.pool_by_name(POOL.as_bytes()).expect("the pool");
        let pg = map.object_to_pg(pool, b"", b"", oid).expect("the pool");
        map.acting_primary(pg).map_or(-1, |osd| osd.0)
    }

    pub(crate) fn object(&self, oid: &[u8]) -> Option<Vec<u8>> {
        lock(&self.shared.store).objects.get(oid).cloned()
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        lock(&self.shared.store).seen.clone()
    }

    pub(crate) fn seen_count(&self) -> usize {
        lock(&self.shared.store).seen.len()
    }

    pub(crate) fn backoff_acks(&self) -> Vec<MOSDBackoff> {
        lock(&self.shared.store).backoff_acks.clone()
    }

    /// Sends a message to all clients of the OSDs.
    pub(crate) fn tell_clients(&self, msg: &Msg) {
        for conn in lock(&self.shared.clients).iter() {
            let _ = conn.send(msg.clone());
        }
    }

    /// Closes all connections to OSDs.
    pub(crate) fn reset_osd_connections(&self) {
        for conn in std::mem::take(&mut *lock(&self.shared.clients)) {
            conn.mark_down();
        }
    }

    /// Closes all connections to the monitor.
    pub(crate) fn reset_mon_connections(&self) {
        for conn in std::mem::take(&mut *lock(&self.shared.subscribers)) {
            conn.mark_down();
        }
    }
}

fn loopback() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

struct Mon {
    shared: Arc<Shared>,
}

impl Dispatcher for Mon {
    fn accepted(&self, conn: &Arc<Connection>) {
        let addr = EntityAddr::default();
        let monmap = MonMap::new(FSID, UTime::now(), [("a".into(), EntityAddrVec::from(addr))]);
        let _ = conn.send(Msg::new(&MMonMap { monmap: monmap.to_bytes() }));
        let _ = conn.send(Msg::new(&MConfig::default()));
    }

    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        for msg in msgs.drain(..) {
            match msg.header.kind {
                MMonSubscribe::KIND => self.subscribe(conn, &msg.open().expect("a subscription")),
                MMonGetVersion::KIND => {
                    let asked: MMonGetVersion = msg.open().expect("a question");
                    let version = lock(&self.shared.map).epoch.0.into();
                    let reply = MMonGetVersionReply { handle: asked.handle, version, oldest: 1 };
                    let _ = conn.send(Msg::new(&reply));
                }
                MPoolOp::KIND => {
                    let reply = MPoolOpReply { fsid: FSID, result: -1, ..MPoolOpReply::default() };
                    let _ = conn.send(Msg::new(&reply).with_tid(msg.header.tid));
                }
                _ => {}
            }
        }
    }
}

impl Mon {
    fn subscribe(&self, conn: &Arc<Connection>, wanted: &MMonSubscribe) {
        if wanted.what.contains_key("mgrmap") {
            let mut followers = lock(&self.shared.mgr_followers);
            let _ = conn.send(Msg::new(&MMgrMap { map: lock(&self.shared.mgr_map).clone() }));
            followers.push(Arc::clone(conn));
        }
        if !wanted.what.contains_key("osdmap") {
            return;
        }
        let mut subscribers = lock(&self.shared.subscribers);
        let map = lock(&self.shared.map);
        let maps = BTreeMap::from([(map.epoch, map.encode(Features::PACIFIC).bytes)]);
        let body = MOSDMap { fsid: FSID, maps, oldest: Epoch(1), newest: map.epoch, ..MOSDMap::default() };
        let _ = conn.send(Msg::new(&body));
        if subscribers.iter().all(|there| there.id() != conn.id()) {
            subscribers.push(Arc::clone(conn));
        }
    }
}

struct Osd {
    osd: OsdId,
    shared: Arc<Shared>,
}

impl Dispatcher for Osd {
    fn accepted(&self, conn: &Arc<Connection>) {
        lock(&self.shared.clients).push(Arc::clone(conn));
    }

    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        for msg in msgs.drain(..) {
            match msg.header.kind {
                MOSDOp::KIND => self.request(conn, &msg),
                MOSDBackoff::KIND => {
                    lock(&self.shared.store).backoff_acks.push(msg.open().expect("an acknowledgement"));
                }
                _ => {}
            }
        }
    }
}

impl Osd {
    fn request(&self, conn: &Arc<Connection>, msg: &Msg) {
        let request: MOSDOp = msg.open().expect("a request");
        let tid = msg.header.tid;
        let epoch = {
            let map = lock(&self.shared.map);
            let here = map.is_up(self.osd) && map.acting_primary(request.spgid.pgid) == Some(self.osd);
            // As Ceph's OSDs do with misdirected requests.
            if !here {
                return;
            }
            map.epoch
        };
        let seen = Seen {
            osd: self.osd.0,
            tid,
            oid: request.oid.clone(),
            attempt: request.retry_attempt,
            flags: request.flags.bits(),
        };
        lock(&self.shared.store).seen.push(seen.clone());
        let verdict = lock(&self.shared.rule)(&seen, &request);
        let reply = match verdict {
            Verdict::Drop => return,
            Verdict::Say(msg) => {
                let _ = conn.send(msg);
                return;
            }
            Verdict::Refuse(result) => MOSDOpReply::answer(request, result, epoch),
            Verdict::Redirect(redirect) => {
                let reply = MOSDOpReply::answer(request, 0, epoch);
                MOSDOpReply { redirect: Some(Box::new(redirect)), ..reply }
            }
            Verdict::Execute => lock(&self.shared.store).execute(tid, request, epoch),
        };
        let _ = conn.send(Msg::new(&reply).with_tid(tid));
    }
}

impl Store {
    /// Executes the first operation, or returns the recorded result if it was executed before.
    fn execute(&mut self, tid: Tid, request: MOSDOp, epoch: Epoch) -> MOSDOpReply {
        let op = request.ops[0].clone();
        if op.code == OpCode::READ {
            let object = self.objects.get(&request.oid).cloned();
            let mut reply = MOSDOpReply::answer(request, if object.is_some() { 0 } else { -2 }, epoch);
            reply.ops[0].op.data = object.unwrap_or_default().into();
            return reply;
        }
        if let Some(result) = self.done.get(&tid) {
            return MOSDOpReply::answer(request, *result, epoch);
        }
        let object = self.objects.entry(request.oid.clone()).or_default();
        match op.code {
            OpCode::APPEND => object.extend_from_slice(&op.data),
            OpCode::WRITEFULL => *object = op.data.to_vec(),
            OpCode::WRITE => *object = op.data.to_vec(),
            other => panic!("a test asks for {other}"),
        }
        self.done.insert(tid, 0);
        self.version += 1;
        let version = self.version;
        MOSDOpReply::answer(request, 0, epoch).with_versions(Eversion { epoch, version }, version)
    }
}

/// Returns the bytes of a text.
pub(crate) fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// Waits for a condition that another thread brings about.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(30), wait).await.is_ok(), "never: {what}");
}
