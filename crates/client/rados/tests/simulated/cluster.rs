//! State shared by all parts of the modelled cluster: the map and its history, the placement groups, the
//! objects.
//!
//! The OSDs share one store and one record of executed requests, as if recovery took no time. The newest
//! map decides which OSD may use them, whatever map the OSD itself knows: in a real cluster, a former
//! primary cannot commit either.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use loligo_maps::{Features, Incremental, MapFlags, OsdMap, PgPool, PoolFlags};
use loligo_msgr::testing::{OpenDoor, Random, SimulatedNetwork};
use loligo_msgr::{Config, Connection, Messenger};
use loligo_wire::message::Msg;
use loligo_wire::message::osd::{HObject, MOSDMap};
use loligo_wire::{
    AddrKind, EntityAddr, EntityAddrVec, EntityType, Epoch, OsdId, PgId, PoolId, SpgId, Tid, UTime, Uuid,
};
use tokio::time::{Instant, sleep};

use crate::monitor::{Mon, Subscriber};
use crate::osd::{Item, Osd};

pub(crate) const FSID: Uuid = Uuid([7; 16]);
pub(crate) const POOL: &str = "p";
pub(crate) const OSDS: usize = 3;
pub(crate) const MONS: usize = 3;
const MON_PORT: u16 = 3300;

pub(crate) struct Cluster {
    pub(crate) network: SimulatedNetwork,
    /// The version of the messenger that all daemons speak.
    speaks: AddrKind,
    state: Mutex<State>,
}

pub(crate) struct State {
    pub(crate) random: Random,
    pub(crate) map: OsdMap,
    pub(crate) incrementals: BTreeMap<Epoch, Bytes>,
    pub(crate) osds: Vec<Daemon>,
    pub(crate) mons: Vec<Daemon>,
    pub(crate) subscribers: Vec<Subscriber>,
    pub(crate) pgs: BTreeMap<PgId, Pg>,
    /// Items that OSDs have received and not yet processed, by OSD, life of the OSD, and placement group.
    pub(crate) queues: BTreeMap<(usize, u64, PgId), VecDeque<Item>>,
    pub(crate) backoffs: Vec<Backoff>,
    /// The newest epoch in which a pool was full.
    pub(crate) last_full: Epoch,
    pub(crate) objects: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Results of changes, by tid.
    pub(crate) done: BTreeMap<Tid, i32>,
    pub(crate) version: u64,
    /// `true` if OSDs drop requests whose connection is closed.
    pub(crate) drops_orphans: bool,
    /// `true` while the cluster causes no further trouble.
    pub(crate) calm: bool,
    /// Protocol violations by the client.
    pub(crate) violations: Vec<String>,
    /// The trace, if enabled.
    trace: Option<Vec<String>>,
    began: Instant,
}

/// An OSD or a monitor.
#[derive(Default)]
pub(crate) struct Daemon {
    pub(crate) messenger: Option<Arc<Messenger>>,
    pub(crate) addr: EntityAddr,
    /// Number of starts.
    pub(crate) life: u64,
    /// The newest epoch it knows.
    pub(crate) known: Epoch,
    /// `true` while it processes nothing, although its connections are open.
    pub(crate) hangs: bool,
}

/// A placement group's history.
pub(crate) struct Pg {
    pub(crate) primary_since: Epoch,
    /// The epoch in which it was split or split off.
    pub(crate) split_at: Epoch,
    pub(crate) interval_since: Epoch,
    /// When its peering ends.
    pub(crate) active_at: Instant,
}

pub(crate) struct Backoff {
    pub(crate) conn: Arc<Connection>,
    pub(crate) pgid: SpgId,
    pub(crate) id: u64,
    pub(crate) begin: HObject,
    pub(crate) end: HObject,
    /// The client has acknowledged it.
    pub(crate) acked: bool,
    /// All requests that the client sent before it knew of the backoff have been processed.
    pub(crate) done: bool,
    pub(crate) released: bool,
}

impl Backoff {
    pub(crate) fn covers(&self, conn: &Connection, pgid: SpgId, object: &HObject) -> bool {
        let within = *object == self.begin || (self.begin <= *object && *object < self.end);
        self.conn.id() == conn.id() && self.pgid == pgid && within
    }
}

pub(crate) fn osd_ip(osd: usize) -> IpAddr {
    Ipv4Addr::new(10, 0, 1, osd as u8).into()
}

pub(crate) fn mon_ip(mon: usize) -> IpAddr {
    Ipv4Addr::new(10, 0, 2, mon as u8).into()
}

pub(crate) fn client_ip() -> IpAddr {
    Ipv4Addr::new(10, 0, 0, 1).into()
}

pub(crate) fn mon_addr(mon: usize) -> SocketAddr {
    SocketAddr::new(mon_ip(mon), MON_PORT)
}

impl State {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.random.next() % n
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn say(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>8} {}", self.began.elapsed().as_millis(), what()));
        }
    }

    pub(crate) fn pool(&self) -> Option<PoolId> {
        self.map.pool_by_name(POOL.as_bytes())
    }

    pub(crate) fn is_full(&self, pool: PoolId) -> bool {
        self.map.flags.contains(MapFlags::FULL)
            || self.map.pool(pool).is_some_and(|pool| pool.flags.contains(PoolFlags::FULL))
    }

    /// Returns a message with maps after `epoch` up to `known`: several incrementals, or the newest full map.
    pub(crate) fn maps_after(&mut self, epoch: Epoch, known: Epoch) -> Option<(Epoch, Msg)> {
        const MAPS_MAX: u32 = 5;
        if epoch >= known {
            return None;
        }
        let body = MOSDMap { fsid: FSID, oldest: Epoch(1), newest: known, ..MOSDMap::default() };
        // Only the newest full map is kept.
        if known == self.map.epoch && (epoch == Epoch(0) || self.chance(10)) {
            let whole = self.map.encode(Features::PACIFIC).bytes;
            return Some((known, Msg::new(&MOSDMap { maps: [(known, whole)].into(), ..body })));
        }
        let last = Epoch(known.0.min(epoch.0 + MAPS_MAX));
        let range = Epoch(epoch.0 + 1)..=last;
        let incrementals = self.incrementals.range(range).map(|(epoch, inc)| (*epoch, inc.clone())).collect();
        Some((last, Msg::new(&MOSDMap { incrementals, ..body })))
    }

    /// Creates the next map.
    fn advance(&mut self, change: impl FnOnce(&OsdMap, &mut Incremental)) -> Epoch {
        let mut inc = self.map.next_incremental(UTime { sec: 1, nsec: 0 });
        change(&self.map, &mut inc);
        let next = self.map.advance(inc).expect("a change that fits");
        let old = std::mem::replace(&mut self.map, next.map);
        let epoch = self.map.epoch;
        self.incrementals.insert(epoch, next.incremental);
        let pools: BTreeSet<PoolId> = self.map.pools.keys().copied().collect();
        self.pgs.retain(|pg, _| pools.contains(&pg.pool));
        for pool in pools {
            if self.is_full(pool) {
                self.last_full = epoch;
            }
            self.note_intervals(&old, pool);
        }
        self.say(|| format!("map {epoch:?}"));
        epoch
    }

    fn note_intervals(&mut self, old: &OsdMap, id: PoolId) {
        let epoch = self.map.epoch;
        let (before, now) = (old.pool(id), self.map.pool(id));
        let pg_num = now.map_or(0, PgPool::pg_num);
        let whole_pool = match (before, now) {
            (Some(before), Some(now)) => {
                before.pg_num() != pg_num
                    || (before.size, before.min_size) != (now.size, now.min_size)
                    || before.last_force_op_resend != now.last_force_op_resend
            }
            _ => true,
        };
        let had = before.map_or(pg_num, PgPool::pg_num);
        let parents: BTreeSet<u32> =
            before.map(|before| (had..pg_num).map(|child| before.fold(child)).collect()).unwrap_or_default();
        self.pgs.retain(|pg, _| pg.pool != id || pg.seed < pg_num);
        for seed in 0..pg_num {
            let pg = PgId { pool: id, seed };
            let (was, is) = (old.pg_to_up_acting(pg), self.map.pg_to_up_acting(pg));
            let changes = whole_pool || was != is;
            let delay = self.random.next() % if self.calm { 20 } else { 300 };
            let active_at = Instant::now() + Duration::from_millis(delay);
            let entry = self.pgs.entry(pg).or_insert(Pg {
                primary_since: epoch,
                split_at: epoch,
                interval_since: epoch,
                active_at,
            });
            if parents.contains(&seed) {
                entry.split_at = epoch;
            }
            if changes {
                (entry.interval_since, entry.active_at) = (epoch, active_at);
            }
            let forced =
                before.is_some_and(|b| now.is_some_and(|n| b.last_force_op_resend != n.last_force_op_resend));
            if was.acting_primary != is.acting_primary || forced {
                entry.primary_since = epoch;
            }
        }
    }
}

impl Cluster {
    /// Starts a cluster with three monitors, three OSDs, and a pool of two copies.
    pub(crate) async fn start(network: SimulatedNetwork, seed: u64, traced: bool) -> Arc<Self> {
        let map = OsdMap::build(FSID).osds(OSDS as u32).finish().expect("a first map");
        let daemons = |count| (0..count).map(|_| Daemon::default()).collect();
        let state = State {
            random: Random(seed.wrapping_mul(0xd134_2543_de82_ef95) | 1),
            map,
            incrementals: BTreeMap::new(),
            osds: daemons(OSDS),
            mons: daemons(MONS),
            subscribers: Vec::new(),
            pgs: BTreeMap::new(),
            queues: BTreeMap::new(),
            backoffs: Vec::new(),
            last_full: Epoch(0),
            objects: BTreeMap::new(),
            done: BTreeMap::new(),
            version: 0,
            drops_orphans: seed.is_multiple_of(2),
            calm: true,
            violations: Vec::new(),
            trace: traced.then(Vec::new),
            began: Instant::now(),
        };
        let speaks = if (seed + 1).is_multiple_of(3) { AddrKind::Legacy } else { AddrKind::Msgr2 };
        let cluster = Arc::new(Self { network, speaks, state: Mutex::new(state) });
        cluster.change(|map, inc| {
            inc.create_pool(map, POOL, PgPool::replicated(2, 8));
        });
        for mon in 0..MONS {
            cluster.start_mon(mon).await;
        }
        for osd in 0..OSDS {
            cluster.start_osd(osd).await;
        }
        cluster
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take_trace(&self) -> Vec<String> {
        self.lock().trace.take().unwrap_or_default()
    }

    /// Creates the next map, which all daemons learn of after a delay.
    pub(crate) fn change(self: &Arc<Self>, change: impl FnOnce(&OsdMap, &mut Incremental)) {
        let mut state = self.lock();
        let epoch = state.advance(change);
        for mon in 0..MONS {
            let delay = if state.calm { state.below(5) } else { state.below(400) };
            self.spawn_later(delay, move |cluster| cluster.mon_learns(mon, epoch));
        }
        for osd in 0..OSDS {
            let delay = if state.calm { state.below(5) } else { state.below(300) };
            self.spawn_later(delay, move |cluster| {
                let known = &mut cluster.lock().osds[osd].known;
                *known = epoch.max(*known);
            });
        }
    }

    pub(crate) fn spawn_later(self: &Arc<Self>, ms: u64, what: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let cluster = Arc::clone(self);
        tokio::spawn(async move {
            sleep(Duration::from_millis(ms)).await;
            what(&cluster);
        });
    }

    /// Starts an OSD that is not running, at a new address, and marks it up in the map.
    pub(crate) async fn start_osd(self: &Arc<Self>, osd: usize) {
        let (life, nonce) = {
            let mut state = self.lock();
            state.osds[osd].life += 1;
            (state.osds[osd].life, state.random.next() as u32)
        };
        let network = self.network.host(osd_ip(osd));
        let config = Config { num: osd as i64, nonce, network, ..Config::new(EntityType::OSD) };
        let messenger = Messenger::new(config, Arc::new(Osd { osd, life, cluster: Arc::clone(self) }));
        let sock = self.bind(&messenger, SocketAddr::new(osd_ip(osd), 0)).await;
        let addr = self.entity(sock).with_nonce(nonce);
        let is_up = {
            let mut state = self.lock();
            let known = state.map.epoch;
            state.osds[osd] = Daemon { messenger: Some(messenger), addr, life, known, hangs: false };
            state.say(|| format!("osd.{osd} starts"));
            state.map.is_up(OsdId(osd as i32))
        };
        let id = OsdId(osd as i32);
        if is_up {
            self.change(|_, inc| inc.osd_down(id));
        }
        self.change(|_, inc| inc.osd_up(id, addr.into(), addr.into()));
    }

    /// Kills an OSD. Its unprocessed requests are lost.
    pub(crate) async fn kill_osd(&self, osd: usize) {
        let messenger = {
            let mut state = self.lock();
            state.say(|| format!("osd.{osd} dies"));
            state.queues.retain(|(of, _, _), _| *of != osd);
            state.osds[osd].messenger.take()
        };
        if let Some(messenger) = messenger {
            messenger.shutdown().await;
        }
    }

    pub(crate) async fn start_mon(self: &Arc<Self>, mon: usize) {
        let network = self.network.host(mon_ip(mon));
        let config = Config { num: mon as i64, nonce: 0, network, ..Config::new(EntityType::MON) };
        let messenger = Messenger::new(config, Arc::new(Mon { mon, cluster: Arc::clone(self) }));
        self.bind(&messenger, mon_addr(mon)).await;
        let mut state = self.lock();
        let (known, life) = (state.map.epoch, state.mons[mon].life + 1);
        let addr = self.entity(mon_addr(mon));
        state.mons[mon] = Daemon { messenger: Some(messenger), addr, life, known, hangs: false };
        state.say(|| format!("mon.{mon} starts"));
    }

    pub(crate) async fn kill_mon(&self, mon: usize) {
        let messenger = {
            let mut state = self.lock();
            state.say(|| format!("mon.{mon} dies"));
            state.subscribers.retain(|subscriber| subscriber.mon != mon);
            state.mons[mon].messenger.take()
        };
        if let Some(messenger) = messenger {
            messenger.shutdown().await;
        }
    }

    /// Kills all daemons.
    pub(crate) async fn stop(&self) {
        for osd in 0..OSDS {
            self.kill_osd(osd).await;
        }
        for mon in 0..MONS {
            self.kill_mon(mon).await;
        }
    }

    /// Returns the monitors' addresses.
    pub(crate) fn mon_host(&self) -> String {
        let version = if self.speaks == AddrKind::Legacy { "v1" } else { "v2" };
        (0..MONS).map(|mon| format!("{version}:{}", mon_addr(mon))).collect::<Vec<_>>().join(",")
    }

    /// The address of a daemon, with the version that all speak.
    pub(crate) fn entity(&self, sock: SocketAddr) -> EntityAddr {
        EntityAddr { kind: self.speaks, nonce: 0, sock: Some(sock) }
    }

    async fn bind(&self, messenger: &Messenger, addr: SocketAddr) -> SocketAddr {
        let door = OpenDoor::client("daemon");
        let bound = match self.speaks {
            AddrKind::Legacy => messenger.bind_v1(addr, door).await,
            _ => messenger.bind(addr, door).await,
        };
        bound.expect("the port is free")
    }
}

/// Wraps a daemon's single address.
pub(crate) fn addrs_of(addr: EntityAddr) -> EntityAddrVec {
    EntityAddrVec::from(addr)
}
