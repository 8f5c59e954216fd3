use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use loligo_wire::{OsdId, PgId, PoolId};

use super::OsdMap;

/// Placement groups remembered in one epoch, at most: 16 MiB. Clusters have some ten thousand.
const PGS_MAX: u32 = 1 << 22;

/// An OSD map that remembers where it has placed things: what a client asks on every operation.
///
/// The first question about a placement group in an epoch costs a CRUSH placement, a few microseconds; every further one a
/// hash of the name, a look-up of the pool and one relaxed load. Nothing is allocated, and threads do not wait for each
/// other: two that ask first at the same time both compute, and get the same.
///
/// Takes four bytes per placement group, and is made anew for each epoch.
#[derive(Debug)]
pub struct Targets {
    map: Arc<OsdMap>,
    pools: BTreeMap<PoolId, Box<[AtomicU32]>>,
}

/// Where an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its placement group.
    pub pg: PgId,
    /// Its full hash, of which the group's seed is a folded part.
    pub hash: u32,
    /// Where to send its operations; `None` while nobody serves the group.
    pub primary: Option<OsdId>,
}

/// What is remembered of a placement group: nothing yet, or [`remember`]ed.
const UNKNOWN: u32 = 0;

impl Targets {
    /// Starts remembering for a map.
    pub fn new(map: Arc<OsdMap>) -> Self {
        let mut room = PGS_MAX;
        let mut pools = BTreeMap::new();
        for (id, pool) in &map.pools {
            // A pool that does not fit is computed each time.
            if let Some(left) = room.checked_sub(pool.pg_num()) {
                room = left;
                pools.insert(*id, (0..pool.pg_num()).map(|_| AtomicU32::new(UNKNOWN)).collect());
            }
        }
        Self { map, pools }
    }

    /// The map.
    pub fn map(&self) -> &Arc<OsdMap> {
        &self.map
    }

    /// Where an object is. `None` if there is no such pool. `key` is the locator key; empty, the name is hashed.
    #[inline]
    pub fn target(&self, pool: PoolId, namespace: &[u8], key: &[u8], name: &[u8]) -> Option<Target> {
        let hash = self.map.pool(pool)?.hash_object(namespace, key, name);
        self.target_of_hash(pool, hash)
    }

    /// Where objects with this full hash are. `None` if there is no such pool.
    #[inline]
    pub fn target_of_hash(&self, pool: PoolId, hash: u32) -> Option<Target> {
        let pg = PgId { pool, seed: self.map.pool(pool)?.fold(hash) };
        Some(Target { pg, hash, primary: self.primary(pg) })
    }

    /// Where to send operations of a placement group, as [`OsdMap::acting_primary`].
    #[inline]
    pub fn primary(&self, pg: PgId) -> Option<OsdId> {
        let place = self.pools.get(&pg.pool).and_then(|pgs| pgs.get(pg.seed as usize));
        match place.map_or(UNKNOWN, |place| place.load(Ordering::Relaxed)) {
            UNKNOWN => self.place(pg, place),
            known => recall(known),
        }
    }

    #[cold]
    fn place(&self, pg: PgId, place: Option<&AtomicU32>) -> Option<OsdId> {
        let primary = self.map.acting_primary(pg);
        if let Some(place) = place {
            place.store(remember(primary), Ordering::Relaxed);
        }
        primary
    }
}

/// 1 for nobody, else the OSD's number plus 2. OSDs' numbers are below 2³¹.
fn remember(primary: Option<OsdId>) -> u32 {
    primary.map_or(1, |osd| (osd.0 as u32).wrapping_add(2))
}

fn recall(known: u32) -> Option<OsdId> {
    known.checked_sub(2).map(|osd| OsdId(osd.cast_signed()))
}
