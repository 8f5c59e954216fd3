//! The OSD's state for one client connection.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use loligo_cephx::caps::{OsdCaps, PoolCaps};
use loligo_lockstat::{Class, Mutex};
use loligo_msgr::{Connection, Cork};
use loligo_wire::message::Msg;
use loligo_wire::{EntityAddr, EntityAddrVec, Epoch, PoolId};

use crate::asker::{Account, Asker, Held};
use crate::group::Group;
use crate::place::Pool;

/// Held for one lookup, or to insert capabilities computed without the lock.
static SESSION_CAPS: Class = Class::new("osd.session_caps");

/// Held to add one placement group, or to take all out.
static SESSION_WATCHES: Class = Class::new("osd.session_watches");

/// One client's session. Created at its first request and kept with the connection.
pub(crate) struct Session {
    /// The client's global id, assigned by the monitor.
    pub(crate) client: u64,
    caps: OsdCaps,
    allow_all: bool,
    addr: Option<IpAddr>,
    /// The client's capabilities by pool, with the epoch they were computed in.
    pools: Mutex<BTreeMap<PoolId, (Epoch, Arc<PoolCaps>)>>,
    /// Placement groups in which the client watches objects; `None` once the connection is lost.
    watching: Mutex<Option<Vec<Weak<dyn Group>>>>,
    /// The account of replies the client has not read.
    pub(crate) account: Arc<Account>,
    /// The newest map epoch that was sent to the client or that it has shown to have.
    epoch_known: AtomicU32,
}

impl Session {
    /// The session of a connection.
    pub(crate) fn of(conn: &Connection) -> Arc<Self> {
        let any = conn.user_data().get_or_init(|| Arc::new(Self::new(conn)));
        Arc::clone(any).downcast().expect("only this crate stores data with an OSD's connections")
    }

    fn new(conn: &Connection) -> Self {
        let peer = conn.peer();
        // A capability that does not parse allows nothing; the monitor refuses to store one.
        let caps = conn.identity().and_then(|id| OsdCaps::parse(&id.caps).ok()).unwrap_or_default();
        Self {
            // The ticket's id, not the one the peer claims: it identifies resent requests and the owner
            // of watches and locks.
            client: conn.identity().map_or(peer.num.cast_unsigned(), |identity| identity.global_id.0),
            allow_all: caps.allow_all(),
            caps,
            addr: peer.from.or(peer.addr.sock).map(|sock| sock.ip()),
            pools: Mutex::new(&SESSION_CAPS, BTreeMap::new()),
            watching: Mutex::new(&SESSION_WATCHES, Some(Vec::new())),
            account: Arc::default(),
            epoch_known: AtomicU32::new(0),
        }
    }

    /// The client's capabilities in a pool; `None` if it may do everything.
    pub(crate) fn caps_in(&self, id: PoolId, pool: &Pool, epoch: Epoch) -> Option<Arc<PoolCaps>> {
        if self.allow_all {
            return None;
        }
        let known =
            self.pools.lock().get(&id).filter(|(at, _)| *at == epoch).map(|(_, caps)| Arc::clone(caps));
        if known.is_some() {
            return known;
        }
        let caps = Arc::new(self.caps.for_pool(pool.facts(), self.addr));
        self.pools.lock().insert(id, (epoch, Arc::clone(&caps)));
        Some(caps)
    }

    /// Registers a placement group that has watches of this client. Returns false if the connection is
    /// lost already.
    fn watches_in(&self, group: Weak<dyn Group>) -> bool {
        let mut watching = self.watching.lock();
        let Some(groups) = watching.as_mut() else { return false };
        if !groups.iter().any(|known| std::ptr::addr_eq(known.as_ptr(), group.as_ptr())) {
            groups.push(group);
        }
        true
    }

    /// Handles the loss of the connection: its watches wait for the client to reconnect.
    pub(crate) fn lost(&self, conn: u64) {
        let groups = self.watching.lock().take();
        groups.into_iter().flatten().filter_map(|group| group.upgrade()).for_each(|group| group.lost(conn));
    }

    /// Whether the client, whose request used the map of epoch `has`, must be sent the map of epoch
    /// `newest`. Returns true once for each map.
    pub(crate) fn lacks_map(&self, has: Epoch, newest: Epoch) -> bool {
        // Relaxed: at worst two threads send the same map.
        if has >= newest || self.epoch_known.load(Ordering::Relaxed) >= newest.0 {
            return false;
        }
        self.epoch_known.store(newest.0, Ordering::Relaxed);
        true
    }
}

impl Asker for Connection {
    fn answer(&self, reply: Msg) {
        // A client whose connection is lost, or is closed because its out-queue is full, resends with
        // the same number.
        let _ = self.send(reply);
    }

    fn answer_held(&self, reply: Msg, held: Held) {
        let Held { hold, share, made } = held;
        let _ = match share {
            Some(share) => self.send_watched(reply, Arc::new(share.handed())),
            None => self.send(reply),
        };
        drop((hold, made));
    }

    fn account(&self) -> Option<Arc<Account>> {
        Some(Arc::clone(&Session::of(self).account))
    }

    fn written(&self) -> u64 {
        Connection::written(self)
    }

    fn give_up(&self) {
        Connection::give_up(self);
    }

    fn cork(&self) -> Option<Cork<'_>> {
        Some(Connection::cork(self))
    }

    fn id(&self) -> u64 {
        Connection::id(self)
    }

    fn addr(&self) -> EntityAddr {
        self.peer().addr
    }

    fn watches_in(&self, group: Weak<dyn Group>) -> bool {
        Session::of(self).watches_in(group)
    }
}

/// The addresses by which a blocklist may list a connection's peer: the address it claims, which
/// identifies its watches and locks; and the claimed port at the host its socket comes from, since a
/// peer may claim any address.
pub(crate) fn peer_addrs(conn: &Connection) -> EntityAddrVec {
    let peer = conn.peer();
    let port = peer.addr.sock.map_or(0, |sock| sock.port());
    let seen = peer.from.map(|from| EntityAddr { sock: Some(SocketAddr::new(from.ip(), port)), ..peer.addr });
    EntityAddrVec([Some(peer.addr), seen.filter(|seen| *seen != peer.addr)].into_iter().flatten().collect())
}
