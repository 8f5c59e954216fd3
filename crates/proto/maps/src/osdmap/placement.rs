//! Mapping of placement groups to the OSDs that serve them.
//!
//! The steps are: CRUSH yields the raw set of OSDs; upmaps replace some of them; OSDs that are down are
//! removed, which yields the up set; primary affinity chooses the primary. A temporary placement, while
//! it exists, replaces the result, which yields the acting set.

use std::cell::RefCell;

use loligo_wire::{OsdId, PgId, PoolId};
use smallvec::SmallVec;

use super::OsdMap;
use crate::PgPool;
use crate::crush::{ITEM_NONE, Rule, Workspace, hash32_2};

/// The OSDs of a placement group, in order. In an erasure-coded pool the position is the shard, and
/// [`HOLE`] marks a shard without an OSD.
pub type OsdSet = SmallVec<[OsdId; 8]>;

/// The entry of an [`OsdSet`] for "no OSD".
pub const HOLE: OsdId = OsdId(ITEM_NONE);

/// The OSDs of a placement group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpActing {
    /// The OSDs that the map assigns to the group and that are up.
    pub up: OsdSet,
    /// The primary of the up set.
    pub up_primary: Option<OsdId>,
    /// The OSDs that serve the group.
    pub acting: OsdSet,
    /// The primary of the acting set, to which clients send their operations.
    pub acting_primary: Option<OsdId>,
}

thread_local! {
    /// Reused by all placements of a thread, so that they do not allocate.
    static WORKSPACE: RefCell<Workspace> = RefCell::default();
}

impl OsdMap {
    /// Returns the placement group of an object, with the object's full hash as its seed. `None` if the
    /// pool does not exist.
    ///
    /// `key` is the locator key; if it is empty, the name is hashed. Costs one hash of the name;
    /// allocates nothing.
    #[inline]
    pub fn object_to_pg(&self, pool: PoolId, namespace: &[u8], key: &[u8], name: &[u8]) -> Option<PgId> {
        let seed = self.pool(pool)?.hash_object(namespace, key, name);
        Some(PgId { pool, seed })
    }

    /// Folds the full hash in the seed to the pool's placement groups (`raw_pg_to_pg`). `None` if the
    /// pool does not exist.
    #[inline]
    pub fn raw_pg_to_pg(&self, pg: PgId) -> Option<PgId> {
        Some(PgId { seed: self.pool(pg.pool)?.fold(pg.seed), ..pg })
    }

    /// Returns the OSDs of a placement group, whose seed may be a full hash. The sets are empty if the
    /// pool does not exist.
    ///
    /// Costs one CRUSH placement, a few microseconds in a typical map; [`Targets`](super::Targets)
    /// caches the results.
    pub fn pg_to_up_acting(&self, pg: PgId) -> UpActing {
        let Some(pool) = self.pool(pg.pool) else { return UpActing::default() };
        let folded = PgId { seed: pool.fold(pg.seed), ..pg };
        let (up, up_primary) = self.up(pool, pg, folded);
        let (acting, temp_primary) = self.temp(pool, folded);
        if acting.is_empty() {
            let acting_primary = temp_primary.or(up_primary);
            return UpActing { acting: up.clone(), acting_primary, up, up_primary };
        }
        UpActing { up, up_primary, acting, acting_primary: temp_primary }
    }

    /// Returns the OSDs that CRUSH alone yields for a placement group, limited to existing OSDs. The set
    /// is empty if the pool does not exist.
    pub fn pg_to_raw(&self, pg: PgId) -> OsdSet {
        self.pool(pg.pool).map(|pool| self.raw(pool, pg.pool, pool.placement_seed(pg))).unwrap_or_default()
    }

    /// Returns the OSD to which clients send a placement group's operations.
    pub fn acting_primary(&self, pg: PgId) -> Option<OsdId> {
        let pool = self.pool(pg.pool)?;
        let folded = PgId { seed: pool.fold(pg.seed), ..pg };
        match self.temp(pool, folded) {
            (acting, primary) if !acting.is_empty() => primary,
            (_, Some(primary)) => Some(primary),
            (_, None) => self.up(pool, pg, folded).1,
        }
    }

    /// Returns the up set and its primary.
    fn up(&self, pool: &PgPool, pg: PgId, folded: PgId) -> (OsdSet, Option<OsdId>) {
        let seed = pool.placement_seed(pg);
        let mut osds = self.raw(pool, pg.pool, seed);
        self.apply_upmap(folded, &mut osds);
        retain(pool, &mut osds, |osd| self.is_up(osd));
        let mut primary = first(&osds);
        self.apply_primary_affinity(seed, pool, &mut osds, &mut primary);
        (osds, primary)
    }

    /// Returns the existing OSDs that CRUSH yields.
    fn raw(&self, pool: &PgPool, id: PoolId, seed: u32) -> OsdSet {
        let args = self.crush.choose_args_for(id.0);
        let rule = usize::from(pool.crush_rule);
        let size = usize::from(pool.size);
        if !self.rule_fits(pool) {
            return OsdSet::new();
        }
        let mut osds: OsdSet = WORKSPACE.with_borrow_mut(|workspace| {
            let placed = self.crush.do_rule(rule, seed, size, &self.osd_weight, args, workspace);
            placed.iter().map(|item| OsdId(*item)).collect()
        });
        retain(pool, &mut osds, |osd| self.exists(osd));
        osds
    }

    /// Whether the pool's rule supports the pool's kind and size. Since release 17 every rule supports
    /// every pool.
    fn rule_fits(&self, pool: &PgPool) -> bool {
        const QUINCY: u8 = 17;
        let fits =
            |rule: &Rule| rule.kind.0 == pool.kind.0 && (rule.min_size..=rule.max_size).contains(&pool.size);
        self.require_osd_release >= QUINCY || self.crush.rule(usize::from(pool.crush_rule)).is_some_and(fits)
    }

    fn apply_upmap(&self, pg: PgId, osds: &mut OsdSet) {
        if let Some(explicit) = self.pg_upmap.get(&pg) {
            if explicit.iter().any(|osd| self.is_marked_out(*osd)) {
                return;
            }
            *osds = OsdSet::from_slice(explicit);
        }
        for (from, to) in self.pg_upmap_items.get(&pg).into_iter().flatten() {
            if osds.contains(to) || self.is_marked_out(*to) {
                continue;
            }
            if let Some(place) = osds.iter_mut().find(|osd| *osd == from) {
                *place = *to;
            }
        }
        if let Some(primary) = self.pg_upmap_primaries.get(&pg)
            && self.weight(*primary) != 0
            && let Some(place @ 1..) = osds.iter().position(|osd| osd == primary)
        {
            osds.swap(0, place);
        }
    }

    /// Whether the map has an entry for the OSD with weight 0, which disables upmaps to the OSD.
    fn is_marked_out(&self, osd: OsdId) -> bool {
        usize::try_from(osd.0).is_ok_and(|osd| self.osd_weight.get(osd) == Some(&0))
    }

    /// Chooses the primary so that each OSD declines the fraction of placement groups that its affinity
    /// defines. An OSD that declines becomes primary only if all OSDs decline.
    fn apply_primary_affinity(
        &self,
        seed: u32,
        pool: &PgPool,
        osds: &mut OsdSet,
        primary: &mut Option<OsdId>,
    ) {
        let Some(affinities) = &self.primary_affinity else { return };
        let affinity = |osd: &OsdId| super::index(*osd).and_then(|i| affinities.get(i)).copied();
        if osds.iter().filter_map(affinity).all(|affinity| affinity == Self::WEIGHT_IN) {
            return;
        }
        let declines = |osd: &OsdId| {
            let affinity = affinity(osd).unwrap_or(Self::WEIGHT_IN);
            affinity < Self::WEIGHT_IN && hash32_2(seed, osd.0.cast_unsigned()) >> 16 >= affinity
        };
        let somebody = |osd: &OsdId| *osd != HOLE;
        let chosen = osds.iter().position(|osd| somebody(osd) && !declines(osd));
        let Some(place) = chosen.or_else(|| osds.iter().position(somebody)) else { return };
        *primary = Some(osds[place]);
        if pool.can_shift_osds() {
            osds[..=place].rotate_right(1);
        }
    }

    /// Returns the OSDs of the temporary placement that are up, and the temporary primary. Each may
    /// exist without the other.
    fn temp(&self, pool: &PgPool, pg: PgId) -> (OsdSet, Option<OsdId>) {
        let mut osds = self.pg_temp.get(&pg).map_or_else(OsdSet::new, |osds| OsdSet::from_slice(osds));
        retain(pool, &mut osds, |osd| self.is_up(osd));
        let primary = self.primary_temp.get(&pg).copied().or_else(|| first(&osds));
        (pool.undo_primary_first(osds), primary)
    }
}

impl PgPool {
    /// Restores the shard order of a temporary placement. In pools with shards that cannot become
    /// primary, temporary placements are stored with those shards last.
    fn undo_primary_first(&self, osds: OsdSet) -> OsdSet {
        if self.nonprimary_shards.is_empty() {
            return osds;
        }
        let is_last = |shard: &usize| self.nonprimary_shards.contains(*shard);
        let stored_order = (0..osds.len()).filter(|s| !is_last(s)).chain((0..osds.len()).filter(is_last));
        let mut in_position = osds.clone();
        for (osd, shard) in osds.into_iter().zip(stored_order) {
            in_position[shard] = osd;
        }
        in_position
    }
}

/// Removes the OSDs that do not pass; in an erasure-coded pool each leaves a hole.
fn retain(pool: &PgPool, osds: &mut OsdSet, pass: impl Fn(OsdId) -> bool) {
    if pool.can_shift_osds() {
        osds.retain(|osd| pass(*osd));
    } else {
        osds.iter_mut().filter(|osd| !pass(**osd)).for_each(|osd| *osd = HOLE);
    }
}

fn first(osds: &OsdSet) -> Option<OsdId> {
    osds.iter().copied().find(|osd| *osd != HOLE)
}
