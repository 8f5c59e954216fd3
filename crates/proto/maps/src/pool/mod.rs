//! Pools (`pg_pool_t` in `src/osd/osd_types.h`).

mod codec;
mod opts;

use std::collections::{BTreeMap, BTreeSet};

use az::WrappingAs as _;
use bytes::Bytes;
use loligo_wire::{Epoch, Eversion, PgId, PoolId, SnapId, UTime};

pub use opts::{PoolOpt, PoolOptKey, PoolOpts};

use crate::crush::hash32_2;
use crate::{Name, ObjectHash, SnapSet};

/// How a pool keeps its data safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolKind(pub u8);

impl PoolKind {
    /// Whole copies.
    pub const REPLICATED: Self = Self(1);
    /// Shards of an erasure code.
    pub const ERASURE: Self = Self(3);
}

/// A pool's flags (`FLAG_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PoolFlags(pub u64);

impl PoolFlags {
    /// The pool's number is hashed into the placement, so that pools do not pile up on the same devices.
    pub const HASHPSPOOL: Self = Self(1);
    /// No space left.
    pub const FULL: Self = Self(1 << 1);
    /// The erasure-coded pool allows overwrites.
    pub const EC_OVERWRITES: Self = Self(1 << 2);
    /// The pool cannot be deleted.
    pub const NODELETE: Self = Self(1 << 4);
    /// `pg_num` cannot be changed.
    pub const NOPGCHANGE: Self = Self(1 << 5);
    /// The size cannot be changed.
    pub const NOSIZECHANGE: Self = Self(1 << 6);
    /// Its objects are not scrubbed.
    pub const NOSCRUB: Self = Self(1 << 8);
    /// Its objects are not scrubbed deeply.
    pub const NODEEP_SCRUB: Self = Self(1 << 9);
    /// Its quota is used up.
    pub const FULL_QUOTA: Self = Self(1 << 10);
    /// Little space left.
    pub const NEARFULL: Self = Self(1 << 11);
    /// Too little space left to be backfilled.
    pub const BACKFILLFULL: Self = Self(1 << 12);
    /// Clients make snapshots themselves and send snap contexts.
    pub const SELFMANAGED_SNAPS: Self = Self(1 << 13);
    /// Snapshots are of the whole pool.
    pub const POOL_SNAPS: Self = Self(1 << 14);
    /// Its PGs are being created.
    pub const CREATING: Self = Self(1 << 15);
    /// Operations fail with EIO.
    pub const EIO: Self = Self(1 << 16);
    /// Expected to become large.
    pub const BULK: Self = Self(1 << 17);
    /// The erasure-coded pool writes and reads parts of stripes (release 20).
    pub const EC_OPTIMIZATIONS: Self = Self(1 << 19);

    /// Whether all flags of `other` are set.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// With the flags of `other` set too.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// With the flags of `other` cleared.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// A pool as the OSD map describes it. Names and meanings are Ceph's.
#[derive(Clone, Debug, PartialEq)]
pub struct PgPool {
    /// Replicated or erasure-coded.
    pub kind: PoolKind,
    /// Copies, or shards.
    pub size: u8,
    /// The fewest of them with which I/O goes on.
    pub min_size: u8,
    /// The number of the CRUSH rule that places it.
    pub crush_rule: u8,
    /// The hash of its objects' names.
    pub object_hash: ObjectHash,
    pub(crate) pg_num: u32,
    pub(crate) pgp_num: u32,
    /// Where `pg_num` is going.
    pub pg_num_target: u32,
    /// Where `pgp_num` is going.
    pub pgp_num_target: u32,
    /// `pg_num` after the merge in progress.
    pub pg_num_pending: u32,
    /// The epoch of the last change, but for snapshots.
    pub last_change: Epoch,
    /// The newest snapshot id given out.
    pub snap_seq: SnapId,
    /// The epoch of the last snapshot.
    pub snap_epoch: Epoch,
    /// Snapshots of the whole pool.
    pub snaps: BTreeMap<SnapId, PoolSnap>,
    /// Snapshots removed before release 14; later ones are in the map's queue.
    pub removed_snaps: SnapSet,
    /// Once the owner.
    pub auid: u64,
    /// Flags.
    pub flags: PoolFlags,
    /// Most bytes; 0: no limit.
    pub quota_max_bytes: u64,
    /// Most objects; 0: no limit.
    pub quota_max_objects: u64,
    /// Cache tiers and their agent.
    pub tier: Tiering,
    /// Long out of use; kept.
    pub properties: BTreeMap<Name, Name>,
    /// Bytes of a full erasure-coded stripe; 0 for replicated pools.
    pub stripe_width: u32,
    /// The profile in the OSD map that an erasure-coded pool was made with.
    pub erasure_code_profile: Name,
    /// The epoch from which on clients must send operations again.
    pub last_force_op_resend: Epoch,
    /// The same for clients before release 14.
    pub last_force_op_resend_prenautilus: Epoch,
    /// The same for clients before release 12.
    pub last_force_op_resend_preluminous: Epoch,
    /// A hint from who made the pool.
    pub expected_num_objects: u64,
    /// Whether reads go to all shards at once.
    pub fast_read: bool,
    /// Settings that few pools have.
    pub opts: PoolOpts,
    /// Who uses the pool, with their own settings.
    pub application_metadata: BTreeMap<Name, BTreeMap<Name, Name>>,
    /// When the pool was made.
    pub create_time: UTime,
    /// 0 off, 1 warn, 2 on, 255 unknown.
    pub pg_autoscale_mode: u8,
    /// The last merge of two PGs.
    pub last_pg_merge_meta: PgMergeMeta,
    /// What a pool of a stretch cluster demands of its PGs' peering.
    pub peering_crush: Option<PeeringCrush>,
    /// Shards that cannot become primary (release 20).
    pub nonprimary_shards: ShardSet,
}

/// A snapshot of a whole pool (`pool_snap_info_t`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSnap {
    /// Its id.
    pub id: SnapId,
    /// When it was made.
    pub stamp: UTime,
    /// Its name.
    pub name: Name,
}

/// Settings of cache tiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiering {
    /// Pools that are tiers of this one.
    pub tiers: BTreeSet<u64>,
    /// The pool that this one is a tier of; −1: none.
    pub tier_of: PoolId,
    /// How the tier behaves (`cache_mode_t`); 0: no tier.
    pub cache_mode: u8,
    /// Where clients shall read; −1: here.
    pub read_tier: PoolId,
    /// Where clients shall write; −1: here.
    pub write_tier: PoolId,
    /// How hits are recorded: `HitSet::Params` as encoded, envelope included.
    pub hit_set_params: Bytes,
    /// Seconds per hit set.
    pub hit_set_period_s: u32,
    /// Hit sets to keep.
    pub hit_set_count: u32,
    /// Whether hit sets are named in UTC.
    pub use_gmt_hitset: bool,
    /// How much less each older hit set counts, in percent.
    pub hit_set_grade_decay_rate: u32,
    /// How many hit sets to ask.
    pub hit_set_search_last_n: u32,
    /// Flush or evict from here on; 0: no limit.
    pub target_max_bytes: u64,
    /// Flush or evict from here on; 0: no limit.
    pub target_max_objects: u64,
    /// Start to flush, in millionths of the target.
    pub dirty_ratio_micro: u32,
    /// Flush faster, in millionths of the target.
    pub dirty_high_ratio_micro: u32,
    /// Start to evict, in millionths of the target.
    pub full_ratio_micro: u32,
    /// Youngest age to flush at, in seconds.
    pub min_flush_age_s: u32,
    /// Youngest age to evict at, in seconds.
    pub min_evict_age_s: u32,
    /// Hit sets that must have an object before a read promotes it.
    pub min_read_recency_for_promote: u32,
    /// Hit sets that must have an object before a write promotes it.
    pub min_write_recency_for_promote: u32,
}

/// A set of shards of an erasure code (`shard_id_set`): bit `i` stands for shard `i`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardSet(pub u128);

impl ShardSet {
    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `shard` is in the set.
    pub fn contains(self, shard: usize) -> bool {
        shard < 128 && self.0 >> shard & 1 == 1
    }
}

/// What is known of the last merge of two PGs (`pg_merge_meta_t`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PgMergeMeta {
    /// The PG that went.
    pub source_pgid: PgId,
    /// When it was ready.
    pub ready_epoch: Epoch,
    /// When it last started.
    pub last_epoch_started: Epoch,
    /// When it was last clean.
    pub last_epoch_clean: Epoch,
    /// Its last version.
    pub source_version: Eversion,
    /// The last version of the PG that it went into.
    pub target_version: Eversion,
}

/// What a pool of a stretch cluster demands of its PGs' peering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeeringCrush {
    /// At least so many different buckets …
    pub bucket_count: u32,
    /// … of which so many are aimed at …
    pub bucket_target: u32,
    /// … of this CRUSH type …
    pub bucket_barrier: u32,
    /// … with this one among them.
    pub mandatory_member: i32,
}

impl Default for PgPool {
    fn default() -> Self {
        Self {
            kind: PoolKind::REPLICATED,
            size: 0,
            min_size: 0,
            crush_rule: 0,
            object_hash: ObjectHash::RJENKINS,
            pg_num: 0,
            pgp_num: 0,
            pg_num_target: 0,
            pgp_num_target: 0,
            pg_num_pending: 0,
            last_change: Epoch(0),
            snap_seq: SnapId(0),
            snap_epoch: Epoch(0),
            snaps: BTreeMap::new(),
            removed_snaps: SnapSet::default(),
            auid: 0,
            flags: PoolFlags::default(),
            quota_max_bytes: 0,
            quota_max_objects: 0,
            tier: Tiering::default(),
            properties: BTreeMap::new(),
            stripe_width: 0,
            erasure_code_profile: Name::default(),
            last_force_op_resend: Epoch(0),
            last_force_op_resend_prenautilus: Epoch(0),
            last_force_op_resend_preluminous: Epoch(0),
            expected_num_objects: 0,
            fast_read: false,
            opts: PoolOpts::default(),
            application_metadata: BTreeMap::new(),
            create_time: UTime::default(),
            pg_autoscale_mode: 0,
            last_pg_merge_meta: PgMergeMeta::default(),
            peering_crush: None,
            nonprimary_shards: ShardSet::default(),
        }
    }
}

/// The values that stock monitors give a new pool.
impl Default for Tiering {
    fn default() -> Self {
        const NO_POOL: PoolId = PoolId(-1);
        // Version 1, readable from 1 on, one byte long: type 0, no hit set.
        const NO_HIT_SET: &[u8] = &[1, 1, 1, 0, 0, 0, 0];
        Self {
            tiers: BTreeSet::new(),
            tier_of: NO_POOL,
            cache_mode: 0,
            read_tier: NO_POOL,
            write_tier: NO_POOL,
            hit_set_params: Bytes::from_static(NO_HIT_SET),
            hit_set_period_s: 0,
            hit_set_count: 0,
            use_gmt_hitset: true,
            hit_set_grade_decay_rate: 0,
            hit_set_search_last_n: 0,
            target_max_bytes: 0,
            target_max_objects: 0,
            dirty_ratio_micro: 400_000,
            dirty_high_ratio_micro: 600_000,
            full_ratio_micro: 800_000,
            min_flush_age_s: 0,
            min_evict_age_s: 0,
            min_read_recency_for_promote: 0,
            min_write_recency_for_promote: 0,
        }
    }
}

impl PgPool {
    /// A replicated pool of `pg_num` PGs, with the settings that a stock monitor gives it.
    pub fn replicated(size: u8, pg_num: u32) -> Self {
        Self {
            size,
            min_size: size - size / 2,
            flags: PoolFlags::HASHPSPOOL,
            ..Self::default().with_pg_num(pg_num)
        }
    }

    /// An erasure-coded pool of `data` and `coding` shards, with the settings that a stock monitor gives it.
    /// I/O goes on while one shard more than the data needs is there.
    pub fn erasure(data: u8, coding: u8, pg_num: u32) -> Self {
        Self {
            kind: PoolKind::ERASURE,
            size: data.saturating_add(coding),
            min_size: data.saturating_add(coding.saturating_sub(1).min(1)),
            flags: PoolFlags::HASHPSPOOL,
            ..Self::default().with_pg_num(pg_num)
        }
    }

    /// The same pool with `pg_num` PGs, which are placed separately and are final.
    pub fn with_pg_num(self, pg_num: u32) -> Self {
        Self {
            pg_num,
            pgp_num: pg_num,
            pg_num_target: pg_num,
            pgp_num_target: pg_num,
            pg_num_pending: pg_num,
            ..self
        }
    }

    /// Splits or merges the pool's PGs: there are `pg_num` of them at once. `pgp_num` follows if it was
    /// equal, and is never larger.
    pub fn set_pg_num(&mut self, pg_num: u32) {
        if self.pgp_num == self.pg_num || self.pgp_num > pg_num {
            self.set_pgp_num(pg_num);
        }
        (self.pg_num, self.pg_num_target, self.pg_num_pending) = (pg_num, pg_num, pg_num);
    }

    /// Changes how many PGs are placed separately.
    pub fn set_pgp_num(&mut self, pgp_num: u32) {
        self.pgp_num = pgp_num;
        self.pgp_num_target = pgp_num;
    }

    /// How many PGs there are.
    pub fn pg_num(&self) -> u32 {
        self.pg_num
    }

    /// How many PGs are placed separately; the others lie where the one does that they were split from.
    pub fn pgp_num(&self) -> u32 {
        self.pgp_num
    }

    /// Whether the pool is erasure-coded.
    pub fn is_erasure(&self) -> bool {
        self.kind == PoolKind::ERASURE
    }

    /// Whether objects only grow, by whole stripes of [`PgPool::stripe_width`] bytes, and are otherwise
    /// replaced as a whole.
    pub fn requires_aligned_append(&self) -> bool {
        self.is_erasure() && !self.flags.has(PoolFlags::EC_OVERWRITES)
    }

    /// Whether objects can have an omap.
    pub fn supports_omap(&self) -> bool {
        !self.is_erasure()
    }

    /// Whether the members of a PG have no fixed positions: one that is missing leaves no hole.
    pub fn can_shift_osds(&self) -> bool {
        self.kind == PoolKind::REPLICATED
    }

    /// The id of the pool's snapshot of this name.
    pub fn snap_named(&self, name: &[u8]) -> Option<SnapId> {
        self.snaps.values().find(|snap| snap.name.as_bytes() == name).map(|snap| snap.id)
    }

    /// The hash of an object: of its locator key, if that is not empty, else of its name; always with its
    /// namespace.
    #[inline]
    pub fn hash_object(&self, namespace: &[u8], key: &[u8], name: &[u8]) -> u32 {
        self.object_hash.of(namespace, if key.is_empty() { name } else { key })
    }

    /// Folds a full hash into the pool's PGs.
    #[inline]
    pub fn fold(&self, hash: u32) -> u32 {
        stable_mod(hash, self.pg_num)
    }

    /// The input to CRUSH for a PG (`raw_pg_to_pps`).
    pub fn placement_seed(&self, pg: PgId) -> u32 {
        let seed = stable_mod(pg.seed, self.pgp_num);
        let pool = pg.pool.0.wrapping_as::<u32>();
        if self.flags.has(PoolFlags::HASHPSPOOL) { hash32_2(seed, pool) } else { seed.wrapping_add(pool) }
    }
}

/// `x` modulo `n`, but such that few values change when `n` grows: those that do go to the new remainders
/// (`ceph_stable_mod`). 0 for `n` = 0.
#[inline]
pub fn stable_mod(x: u32, n: u32) -> u32 {
    let mask = match n {
        0 => return 0,
        n => u32::MAX.checked_shr((n - 1).leading_zeros()).unwrap_or(0),
    };
    if x & mask < n { x & mask } else { x & (mask >> 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_mod_is_modulo_for_powers_of_two_and_splits_otherwise() {
        for x in 0..1000 {
            assert_eq!(stable_mod(x, 1), 0);
            assert_eq!(stable_mod(x, 64), x % 64);
            let folded = stable_mod(x, 12);
            assert!(folded < 12 && (folded == x % 16 || folded == x % 8));
        }
        assert_eq!(stable_mod(7, 0), 0);
        assert_eq!(stable_mod(u32::MAX, u32::MAX), u32::MAX >> 1);
    }
}
