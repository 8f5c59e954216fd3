//! A cache of one epoch's placements, filled by lookups.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use loligo_wire::{OsdId, PgId, PoolId};

use super::OsdMap;
use crate::pool::stable_mod;
use crate::{ObjectHash, PgPool};

/// The maximum number of placement groups cached for one epoch: 16 MiB. Typical clusters have about ten
/// thousand.
const PGS_MAX: u32 = 1 << 22;

/// An OSD map with a cache of its placements, which clients consult for every operation.
///
/// The first lookup of a placement group in an epoch costs a CRUSH placement, a few microseconds. Each
/// further lookup costs a hash of the name, a lookup of the pool and one relaxed load. Lookups do not
/// allocate, and threads do not wait for each other: two threads with a first lookup at the same time
/// both compute the same result.
///
/// The cache uses four bytes per placement group. A new one is created for each epoch.
#[derive(Debug)]
pub struct Targets {
    map: Arc<OsdMap>,
    pools: BTreeMap<PoolId, PoolTargets>,
}

/// The data needed to locate an object of one pool, stored together so that an operation needs one
/// lookup.
#[derive(Debug)]
struct PoolTargets {
    object_hash: ObjectHash,
    pg_num: u32,
    /// Cached primaries by folded seed; empty if the pool does not fit into the cache.
    primaries: Box<[AtomicU32]>,
}

/// The location of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its placement group.
    pub pg: PgId,
    /// The object's full hash; the group's seed is derived from it by folding.
    pub hash: u32,
    /// The OSD to send operations to; `None` while no OSD serves the group.
    pub primary: Option<OsdId>,
}

/// The cache entry of a placement group that was not looked up yet. Other entries are results of
/// [`remember`].
const UNKNOWN: u32 = 0;

impl Targets {
    /// Creates an empty cache for a map.
    pub fn new(map: Arc<OsdMap>) -> Self {
        let mut room = PGS_MAX;
        let mut pool_targets = |pool: &PgPool| {
            // The placements of a pool that does not fit are computed at each lookup.
            let remembered = if pool.pg_num() <= room { pool.pg_num() } else { 0 };
            room -= remembered;
            PoolTargets {
                object_hash: pool.object_hash,
                pg_num: pool.pg_num(),
                primaries: (0..remembered).map(|_| AtomicU32::new(UNKNOWN)).collect(),
            }
        };
        let pools = map.pools.iter().map(|(id, pool)| (*id, pool_targets(pool))).collect();
        Self { map, pools }
    }

    /// The map.
    pub fn map(&self) -> &Arc<OsdMap> {
        &self.map
    }

    /// Returns the location of an object. `None` if the pool does not exist. `key` is the locator key;
    /// if it is empty, the name is hashed.
    #[inline]
    pub fn target(&self, pool: PoolId, namespace: &[u8], key: &[u8], name: &[u8]) -> Option<Target> {
        let targets = self.pools.get(&pool)?;
        let hash = targets.object_hash.of(namespace, if key.is_empty() { name } else { key });
        Some(self.find(pool, targets, hash))
    }

    /// Returns the location of objects with this full hash. `None` if the pool does not exist.
    #[inline]
    pub fn target_of_hash(&self, pool: PoolId, hash: u32) -> Option<Target> {
        Some(self.find(pool, self.pools.get(&pool)?, hash))
    }

    /// Returns the OSD to which a placement group's operations are sent, as [`OsdMap::acting_primary`]
    /// does.
    pub fn primary(&self, pg: PgId) -> Option<OsdId> {
        self.target_of_hash(pg.pool, pg.seed)?.primary
    }

    #[inline]
    fn find(&self, pool: PoolId, targets: &PoolTargets, hash: u32) -> Target {
        let pg = PgId { pool, seed: stable_mod(hash, targets.pg_num) };
        let place = targets.primaries.get(pg.seed as usize);
        let primary = match place.map_or(UNKNOWN, |place| place.load(Ordering::Relaxed)) {
            UNKNOWN => self.place(pg, place),
            known => recall(known),
        };
        Target { pg, hash, primary }
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

/// Encodes a cache entry: 1 for no primary, otherwise the OSD's number plus 2. OSD numbers are below
/// 2³¹.
fn remember(primary: Option<OsdId>) -> u32 {
    primary.map_or(1, |osd| osd.0.cast_unsigned().wrapping_add(2))
}

fn recall(known: u32) -> Option<OsdId> {
    known.checked_sub(2).map(|osd| OsdId(osd.cast_signed()))
}
