//! The table of placements of one epoch, filled as placement groups are looked up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use loligo_wire::{OsdId, PgId, PoolId};

use super::OsdMap;
use crate::pool::stable_mod;
use crate::{ObjectHash, PgPool};

/// Placement groups remembered in one epoch, at most: 16 MiB. Clusters have some ten thousand.
const PGS_MAX: u32 = 1 << 22;

/// An OSD map that remembers where it has placed things: what a client asks on every operation.
///
/// The first question about a placement group in an epoch costs a CRUSH placement, a few microseconds; every
/// further one a hash of the name, a look-up of the pool and one relaxed load. Nothing is allocated, and
/// threads do not wait for each other: two that ask first at the same time both compute, and get the same.
///
/// Takes four bytes per placement group, and is made anew for each epoch.
#[derive(Debug)]
pub struct Targets {
    map: Arc<OsdMap>,
    pools: BTreeMap<PoolId, PoolTargets>,
}

/// What it takes to find an object of one pool, together: one look-up per operation.
#[derive(Debug)]
struct PoolTargets {
    object_hash: ObjectHash,
    pg_num: u32,
    /// By folded seed; empty if there are too many to remember.
    primaries: Box<[AtomicU32]>,
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
        let mut pool_targets = |pool: &PgPool| {
            // A pool that does not fit is computed each time.
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

    /// Where an object is. `None` if there is no such pool. `key` is the locator key; empty, the name is
    /// hashed.
    #[inline]
    pub fn target(&self, pool: PoolId, namespace: &[u8], key: &[u8], name: &[u8]) -> Option<Target> {
        let targets = self.pools.get(&pool)?;
        let hash = targets.object_hash.of(namespace, if key.is_empty() { name } else { key });
        Some(self.find(pool, targets, hash))
    }

    /// Where objects with this full hash are. `None` if there is no such pool.
    #[inline]
    pub fn target_of_hash(&self, pool: PoolId, hash: u32) -> Option<Target> {
        Some(self.find(pool, self.pools.get(&pool)?, hash))
    }

    /// Where to send operations of a placement group, as [`OsdMap::acting_primary`].
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

/// 1 for nobody, else the OSD's number plus 2. OSDs' numbers are below 2³¹.
fn remember(primary: Option<OsdId>) -> u32 {
    primary.map_or(1, |osd| osd.0.cast_unsigned().wrapping_add(2))
}

fn recall(known: u32) -> Option<OsdId> {
    known.checked_sub(2).map(|osd| OsdId(osd.cast_signed()))
}
