//! Pools (`pg_pool_t` in `src/osd/osd_types.h`).

mod codec;
mod opts;

use std::collections::{BTreeMap, BTreeSet};

use az::WrappingAs as _;
use bitflags::bitflags;
use bytes::Bytes;
use loligo_wire::{Epoch, Eversion, PgId, PoolId, SnapId, SnapSet, UTime};

pub use opts::{PoolOpt, PoolOptKey, PoolOpts};

use crate::crush::hash32_2;
use crate::{Name, ObjectHash};

/// The redundancy scheme of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolKind(pub u8);

impl PoolKind {
    /// Each object is stored as full copies.
    pub const REPLICATED: Self = Self(1);
    /// Each object is stored as shards of an erasure code.
    pub const ERASURE: Self = Self(3);
}

bitflags! {
    /// A pool's flags (`FLAG_*`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct PoolFlags: u64 {
        /// The pool's number is hashed into the placement, so that different pools do not use the same
        /// devices for the same placement groups.
        const HASHPSPOOL = 1;
        /// The pool has no space left.
        const FULL = 1 << 1;
        /// The erasure-coded pool allows overwrites.
        const EC_OVERWRITES = 1 << 2;
        /// The pool cannot be deleted.
        const NODELETE = 1 << 4;
        /// `pg_num` cannot be changed.
        const NOPGCHANGE = 1 << 5;
        /// The size cannot be changed.
        const NOSIZECHANGE = 1 << 6;
        /// Objects are not scrubbed.
        const NOSCRUB = 1 << 8;
        /// Objects are not deep-scrubbed.
        const NODEEP_SCRUB = 1 << 9;
        /// The pool's quota is exhausted.
        const FULL_QUOTA = 1 << 10;
        /// The pool has little space left.
        const NEARFULL = 1 << 11;
        /// The pool has too little space left for backfill.
        const BACKFILLFULL = 1 << 12;
        /// Clients create snapshots themselves and send snapshot contexts.
        const SELFMANAGED_SNAPS = 1 << 13;
        /// Snapshots cover the whole pool.
        const POOL_SNAPS = 1 << 14;
        /// The pool's PGs are being created.
        const CREATING = 1 << 15;
        /// Operations fail with EIO.
        const EIO = 1 << 16;
        /// The pool is expected to become large.
        const BULK = 1 << 17;
        /// The erasure-coded pool reads and writes parts of stripes (release 20).
        const EC_OPTIMIZATIONS = 1 << 19;
        // Bits that newer releases may send are kept.
        const _ = !0;
    }
}

/// A pool in an OSD map. Names and meanings of the fields are Ceph's.
#[derive(Clone, Debug, PartialEq)]
pub struct PgPool {
    /// Replicated or erasure-coded.
    pub kind: PoolKind,
    /// The number of copies or shards.
    pub size: u8,
    /// The minimum number of available copies or shards for I/O.
    pub min_size: u8,
    /// The number of the pool's CRUSH rule.
    pub crush_rule: u8,
    /// The hash function for object names.
    pub object_hash: ObjectHash,
    pub(crate) pg_num: u32,
    pub(crate) pgp_num: u32,
    /// The target of the change of `pg_num` in progress.
    pub pg_num_target: u32,
    /// The target of the change of `pgp_num` in progress.
    pub pgp_num_target: u32,
    /// The value of `pg_num` after the merge in progress.
    pub pg_num_pending: u32,
    /// The epoch of the last change other than of snapshots.
    pub last_change: Epoch,
    /// The newest snapshot id in use.
    pub snap_seq: SnapId,
    /// The epoch of the last snapshot.
    pub snap_epoch: Epoch,
    /// Snapshots of the whole pool.
    pub snaps: BTreeMap<SnapId, PoolSnap>,
    /// Snapshots removed before release 14; later removals are in the map's queue.
    pub removed_snaps: SnapSet,
    /// Formerly the owner.
    pub auid: u64,
    /// The pool's flags.
    pub flags: PoolFlags,
    /// The maximum number of bytes; 0: no limit.
    pub quota_max_bytes: u64,
    /// The maximum number of objects; 0: no limit.
    pub quota_max_objects: u64,
    /// Settings of cache tiers and their agent.
    pub tier: Tiering,
    /// Unused for a long time; kept for the encoding.
    pub properties: BTreeMap<Name, Name>,
    /// The length in bytes of a full stripe of an erasure-coded pool; 0 for replicated pools.
    pub stripe_width: u32,
    /// The profile in the OSD map with which an erasure-coded pool was created.
    pub erasure_code_profile: Name,
    /// The epoch of the last change after which clients must resend operations.
    pub last_force_op_resend: Epoch,
    /// As `last_force_op_resend`, for clients before release 14.
    pub last_force_op_resend_prenautilus: Epoch,
    /// As `last_force_op_resend`, for clients before release 12.
    pub last_force_op_resend_preluminous: Epoch,
    /// A hint given when the pool was created.
    pub expected_num_objects: u64,
    /// Whether reads are sent to all shards at once.
    pub fast_read: bool,
    /// Optional settings, which few pools have.
    pub opts: PoolOpts,
    /// The applications that use the pool, with their own settings.
    pub application_metadata: BTreeMap<Name, BTreeMap<Name, Name>>,
    /// The time at which the pool was created.
    pub create_time: UTime,
    /// The autoscaler's mode: 0 off, 1 warn, 2 on, 255 unknown.
    pub pg_autoscale_mode: u8,
    /// The last merge of two PGs.
    pub last_pg_merge_meta: PgMergeMeta,
    /// The conditions of peering for a pool of a stretch cluster.
    pub peering_crush: Option<PeeringCrush>,
    /// Shards that cannot become primary (release 20).
    pub nonprimary_shards: ShardSet,
}

/// A snapshot of a whole pool (`pool_snap_info_t`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSnap {
    /// The snapshot's id.
    pub id: SnapId,
    /// The time of the snapshot.
    pub stamp: UTime,
    /// The snapshot's name.
    pub name: Name,
}

/// Settings of cache tiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiering {
    /// Pools that are tiers of this one.
    pub tiers: BTreeSet<u64>,
    /// The pool that this pool is a tier of; −1 if none.
    pub tier_of: PoolId,
    /// The cache mode (`cache_mode_t`); 0: not a cache tier.
    pub cache_mode: u8,
    /// The pool to which clients send reads; −1: this pool.
    pub read_tier: PoolId,
    /// The pool to which clients send writes; −1: this pool.
    pub write_tier: PoolId,
    /// The encoded `HitSet::Params`, with the envelope.
    pub hit_set_params: Bytes,
    /// The period of a hit set, in seconds.
    pub hit_set_period_s: u32,
    /// The number of hit sets to keep.
    pub hit_set_count: u32,
    /// Whether names of hit sets use UTC.
    pub use_gmt_hitset: bool,
    /// The decay of the weight of each older hit set, in percent.
    pub hit_set_grade_decay_rate: u32,
    /// The number of hit sets to search.
    pub hit_set_search_last_n: u32,
    /// Flushing and eviction start at this number of bytes; 0: no limit.
    pub target_max_bytes: u64,
    /// Flushing and eviction start at this number of objects; 0: no limit.
    pub target_max_objects: u64,
    /// Flushing starts at this fraction of the target, in millionths.
    pub dirty_ratio_micro: u32,
    /// Fast flushing starts at this fraction of the target, in millionths.
    pub dirty_high_ratio_micro: u32,
    /// Eviction starts at this fraction of the target, in millionths.
    pub full_ratio_micro: u32,
    /// The minimum age of an object for flushing, in seconds.
    pub min_flush_age_s: u32,
    /// The minimum age of an object for eviction, in seconds.
    pub min_evict_age_s: u32,
    /// The number of hit sets that must contain an object before a read promotes it.
    pub min_read_recency_for_promote: u32,
    /// The number of hit sets that must contain an object before a write promotes it.
    pub min_write_recency_for_promote: u32,
}

/// A set of shards of an erasure code (`shard_id_set`): bit `i` represents shard `i`.
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

/// Data about the last merge of two PGs (`pg_merge_meta_t`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PgMergeMeta {
    /// The PG that was merged into another.
    pub source_pgid: PgId,
    /// The epoch in which the source PG was ready to merge.
    pub ready_epoch: Epoch,
    /// The last epoch in which the source PG started.
    pub last_epoch_started: Epoch,
    /// The last epoch in which the source PG was clean.
    pub last_epoch_clean: Epoch,
    /// The last version of the source PG.
    pub source_version: Eversion,
    /// The last version of the target PG.
    pub target_version: Eversion,
}

/// The conditions of peering for a pool of a stretch cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeeringCrush {
    /// The minimum number of different buckets with members of the PG.
    pub bucket_count: u32,
    /// The intended number of different buckets with members of the PG.
    pub bucket_target: u32,
    /// The CRUSH type of these buckets.
    pub bucket_barrier: u32,
    /// The bucket that must be among them.
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

/// The settings that stock monitors give a new pool.
impl Default for Tiering {
    fn default() -> Self {
        const NO_POOL: PoolId = PoolId(-1);
        // An encoded struct of version 1, compat 1, one byte long: type 0, no hit set.
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
    /// Creates a replicated pool of `pg_num` PGs with the settings of a stock monitor.
    pub fn replicated(size: u8, pg_num: u32) -> Self {
        Self {
            size,
            min_size: size - size / 2,
            flags: PoolFlags::HASHPSPOOL,
            ..Self::default().with_pg_num(pg_num)
        }
    }

    /// Creates an erasure-coded pool of `data` and `coding` shards with the settings of a stock monitor.
    /// I/O requires one shard more than `data`, or exactly `data` shards if `coding` is at most 1.
    pub fn erasure(data: u8, coding: u8, pg_num: u32) -> Self {
        Self {
            kind: PoolKind::ERASURE,
            size: data.saturating_add(coding),
            min_size: data.saturating_add(coding.saturating_sub(1).min(1)),
            flags: PoolFlags::HASHPSPOOL,
            ..Self::default().with_pg_num(pg_num)
        }
    }

    /// Returns the pool with `pg_num` PGs, each placed separately, and no change in progress.
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

    /// Splits or merges the pool's PGs so that there are `pg_num` at once. `pgp_num` changes with
    /// `pg_num` if the two were equal, and is never larger.
    pub fn set_pg_num(&mut self, pg_num: u32) {
        if self.pgp_num == self.pg_num || self.pgp_num > pg_num {
            self.set_pgp_num(pg_num);
        }
        (self.pg_num, self.pg_num_target, self.pg_num_pending) = (pg_num, pg_num, pg_num);
    }

    /// Sets the number of PGs that are placed separately.
    pub fn set_pgp_num(&mut self, pgp_num: u32) {
        self.pgp_num = pgp_num;
        self.pgp_num_target = pgp_num;
    }

    /// The number of PGs.
    pub fn pg_num(&self) -> u32 {
        self.pg_num
    }

    /// The number of PGs that are placed separately. Each other PG has the placement of the PG that it
    /// was split from.
    pub fn pgp_num(&self) -> u32 {
        self.pgp_num
    }

    /// Whether the pool is erasure-coded.
    pub fn is_erasure(&self) -> bool {
        self.kind == PoolKind::ERASURE
    }

    /// Whether objects can only be appended to, by whole stripes of [`PgPool::stripe_width`] bytes, or
    /// replaced as a whole.
    pub fn requires_aligned_append(&self) -> bool {
        self.is_erasure() && !self.flags.contains(PoolFlags::EC_OVERWRITES)
    }

    /// Whether objects can have an omap.
    pub fn supports_omap(&self) -> bool {
        !self.is_erasure()
    }

    /// Whether the members of a PG have no fixed positions: a missing member leaves no hole.
    pub fn can_shift_osds(&self) -> bool {
        self.kind == PoolKind::REPLICATED
    }

    /// The id of the pool's snapshot with this name.
    pub fn snap_named(&self, name: &[u8]) -> Option<SnapId> {
        self.snaps.values().find(|snap| snap.name.as_bytes() == name).map(|snap| snap.id)
    }

    /// Returns the hash of an object: of its locator key, or of its name if the key is empty, always
    /// together with the namespace.
    #[inline]
    pub fn hash_object(&self, namespace: &[u8], key: &[u8], name: &[u8]) -> u32 {
        self.object_hash.of(namespace, if key.is_empty() { name } else { key })
    }

    /// Folds a full hash to the number of the pool's PGs.
    #[inline]
    pub fn fold(&self, hash: u32) -> u32 {
        stable_mod(hash, self.pg_num)
    }

    /// Returns the input to CRUSH for a PG (`raw_pg_to_pps`).
    pub fn placement_seed(&self, pg: PgId) -> u32 {
        let seed = stable_mod(pg.seed, self.pgp_num);
        let pool = pg.pool.0.wrapping_as::<u32>();
        if self.flags.contains(PoolFlags::HASHPSPOOL) {
            hash32_2(seed, pool)
        } else {
            seed.wrapping_add(pool)
        }
    }
}

/// Returns `x` modulo `n`, adjusted so that few results change when `n` grows: only those that move to a
/// new remainder (`ceph_stable_mod`). Returns 0 for `n` = 0.
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
