//! What the OSD knows of one client's connection.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use loligo_cephx::caps::{OsdCaps, PoolCaps};
use loligo_lockstat::{Class, Mutex};
use loligo_msgr::Connection;
use loligo_wire::{EntityAddrVec, Epoch, PoolId};

use crate::place::Pool;

/// Held for one look-up, or to put in what was computed outside.
static SESSION_CAPS: Class = Class::new("osd.session_caps");

/// One client's session. Made at its first request and kept with the connection.
pub(crate) struct Session {
    /// The number that the monitor gave the client.
    pub(crate) client: u64,
    caps: OsdCaps,
    allow_all: bool,
    addr: Option<IpAddr>,
    /// The client's capabilities by pool, for the epoch they were computed in.
    pools: Mutex<BTreeMap<PoolId, (Epoch, Arc<PoolCaps>)>>,
    /// The newest map that this client was sent or has shown to have.
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
        // A capability that does not parse allows nothing; the monitor refuses to store such a one.
        let caps = conn.identity().and_then(|id| OsdCaps::parse(&id.caps).ok()).unwrap_or_default();
        Self {
            client: peer.num.cast_unsigned(),
            allow_all: caps.allow_all(),
            caps,
            addr: peer.addr.sock.map(|sock| sock.ip()),
            pools: Mutex::new(&SESSION_CAPS, BTreeMap::new()),
            epoch_known: AtomicU32::new(0),
        }
    }

    /// What the client may do in a pool; `None` if everything.
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

    /// Whether the client, whose request was made with the map of epoch `has`, is to be sent the map of epoch `newest`.
    /// Says so once for each map.
    pub(crate) fn lacks_map(&self, has: Epoch, newest: Epoch) -> bool {
        // Relaxed: at worst two threads send the same map.
        if has >= newest || self.epoch_known.load(Ordering::Relaxed) >= newest.0 {
            return false;
        }
        self.epoch_known.store(newest.0, Ordering::Relaxed);
        true
    }
}

/// The addresses that a blocklist knows a connection's peer by.
pub(crate) fn peer_addrs(conn: &Connection) -> EntityAddrVec {
    conn.peer().addr.into()
}
