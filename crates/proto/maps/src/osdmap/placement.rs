//! From a placement group to the OSDs that serve it.
//!
//! In order: CRUSH gives raw OSDs; upmaps exchange some; what is down goes ("up"); affinity chooses the
//! primary; a temporary placement, while there is one, holds instead of all that ("acting").

use std::cell::RefCell;

use loligo_wire::{OsdId, PgId, PoolId};
use smallvec::SmallVec;

use super::OsdMap;
use crate::PgPool;
use crate::crush::{ITEM_NONE, Rule, Workspace, hash32_2};

/// The OSDs of a placement group in order. In an erasure-coded pool the order is the shards', and [`HOLE`]
/// stands for a shard that nobody has.
pub type OsdSet = SmallVec<[OsdId; 8]>;

/// Stands for nobody in an [`OsdSet`].
pub const HOLE: OsdId = OsdId(ITEM_NONE);

/// The OSDs of a placement group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpActing {
    /// Those that should serve it and are up.
    pub up: OsdSet,
    /// The primary among them.
    pub up_primary: Option<OsdId>,
    /// Those that do serve it.
    pub acting: OsdSet,
    /// The primary among them: where clients send their operations.
    pub acting_primary: Option<OsdId>,
}

thread_local! {
    /// So that placing does not allocate.
    static WORKSPACE: RefCell<Workspace> = RefCell::default();
}

impl OsdMap {
    /// The placement group of an object, with the object's full hash as its seed. `None` if there is no such
    /// pool.
    ///
    /// `key` is the locator key; empty, the name is hashed. Allocates nothing; costs the hash of the name.
    #[inline]
    pub fn object_to_pg(&self, pool: PoolId, namespace: &[u8], key: &[u8], name: &[u8]) -> Option<PgId> {
        let seed = self.pool(pool)?.hash_object(namespace, key, name);
        Some(PgId { pool, seed })
    }

    /// Folds a full hash as seed into the pool's placement groups (`raw_pg_to_pg`). `None` if there is no
    /// such pool.
    #[inline]
    pub fn raw_pg_to_pg(&self, pg: PgId) -> Option<PgId> {
        Some(PgId { seed: self.pool(pg.pool)?.fold(pg.seed), ..pg })
    }

    /// The OSDs of a placement group, whose seed may be a full hash. Nobody if there is no such pool.
    ///
    /// Costs a CRUSH placement, a few microseconds in a usual map; see [`Targets`](super::Targets) for a
    /// cache.
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

    /// What CRUSH alone gives for a placement group: those of the OSDs that exist. Nobody if there is no such
    /// pool.
    pub fn pg_to_raw(&self, pg: PgId) -> OsdSet {
        self.pool(pg.pool).map(|pool| self.raw(pool, pg.pool, pool.placement_seed(pg))).unwrap_or_default()
    }

    /// The OSD that clients send a placement group's operations to.
    pub fn acting_primary(&self, pg: PgId) -> Option<OsdId> {
        let pool = self.pool(pg.pool)?;
        let folded = PgId { seed: pool.fold(pg.seed), ..pg };
        match self.temp(pool, folded) {
            (acting, primary) if !acting.is_empty() => primary,
            (_, Some(primary)) => Some(primary),
            (_, None) => self.up(pool, pg, folded).1,
        }
    }

    /// Those that should serve it and are up, and their primary.
    fn up(&self, pool: &PgPool, pg: PgId, folded: PgId) -> (OsdSet, Option<OsdId>) {
        let seed = pool.placement_seed(pg);
        let mut osds = self.raw(pool, pg.pool, seed);
        self.apply_upmap(folded, &mut osds);
        retain(pool, &mut osds, |osd| self.is_up(osd));
        let mut primary = first(&osds);
        self.apply_primary_affinity(seed, pool, &mut osds, &mut primary);
        (osds, primary)
    }

    /// What CRUSH gives.
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

    /// Whether the pool's rule is for such pools. Since release 17 every rule is for all.
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

    /// Whether an OSD that the map has takes no data: what disables an upmap to it.
    fn is_marked_out(&self, osd: OsdId) -> bool {
        usize::try_from(osd.0).is_ok_and(|osd| self.osd_weight.get(osd) == Some(&0))
    }

    /// Chooses the primary so that each OSD declines its part of the placement groups. Who declines is taken
    /// only if everyone does.
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

    /// The temporary placement of which some OSD is up, and the temporary primary. Each may be there without
    /// the other.
    fn temp(&self, pool: &PgPool, pg: PgId) -> (OsdSet, Option<OsdId>) {
        let mut osds = self.pg_temp.get(&pg).map_or_else(OsdSet::new, |osds| OsdSet::from_slice(osds));
        retain(pool, &mut osds, |osd| self.is_up(osd));
        let primary = self.primary_temp.get(&pg).copied().or_else(|| first(&osds));
        (pool.undo_primary_first(osds), primary)
    }
}

impl PgPool {
    /// Temporary placements of pools with shards that cannot become primary are stored with those shards
    /// last. This puts every shard into its position.
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

/// Takes out who does not pass: in an erasure-coded pool that leaves a hole.
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
