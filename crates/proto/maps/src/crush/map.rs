//! The CRUSH map.

use std::collections::BTreeMap;

use super::{Bucket, ChooseArg, Rule};
use crate::Name;

/// Stands for "no item" in a placement (`CRUSH_ITEM_NONE`): a shard that could not be placed.
pub const ITEM_NONE: i32 = 0x7fff_ffff;
/// Stands for "not decided yet" while a placement is computed (`CRUSH_ITEM_UNDEF`).
pub const ITEM_UNDEF: i32 = 0x7fff_fffe;
/// The key of the weight sets that hold for pools without their own (`DEFAULT_CHOOSE_ARGS`).
pub const DEFAULT_CHOOSE_ARGS: i64 = -1;

/// A CRUSH map.
///
/// Devices have ids from 0, buckets negative ones: bucket `b` is `buckets[-1 - b]`.
///
/// The fields are open because a map is data. [`CrushMap::validate`] says whether they fit together; decoding
/// checks it, and a placement with an invalid map comes out incomplete but does no harm.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CrushMap {
    /// Buckets by index `-1 - id`; places may be empty. Ceph keeps the length a power of two, 8 or more.
    pub buckets: Vec<Option<Bucket>>,
    /// Rules by number; places may be empty.
    pub rules: Vec<Option<Rule>>,
    /// One more than the highest device id.
    pub max_devices: i32,
    /// The levels of the hierarchy: 0 is a device, the higher the number the wider.
    pub type_names: BTreeMap<i32, Name>,
    /// Names of buckets and devices.
    pub names: BTreeMap<i32, Name>,
    /// Names of rules.
    pub rule_names: BTreeMap<i32, Name>,
    /// How hard to try.
    pub tunables: Tunables,
    /// The class of each device that has one (and of each shadow bucket): a key of `class_names`.
    pub classes: BTreeMap<i32, i32>,
    /// Device classes' names.
    pub class_names: BTreeMap<i32, Name>,
    /// The shadow of a bucket for a class: the copy of its tree that holds only that class' devices.
    pub class_buckets: BTreeMap<i32, BTreeMap<i32, i32>>,
    /// Weight sets by pool number, or by [`DEFAULT_CHOOSE_ARGS`].
    pub choose_args: BTreeMap<i64, ChooseArgs>,
}

impl CrushMap {
    /// The bucket with this (negative) id.
    #[inline]
    pub fn bucket(&self, id: i32) -> Option<&Bucket> {
        self.buckets.get(bucket_index(id)?)?.as_ref()
    }

    /// The rule with this number.
    pub fn rule(&self, number: usize) -> Option<&Rule> {
        self.rules.get(number)?.as_ref()
    }

    /// The id of the bucket or device with this name.
    pub fn item_by_name(&self, name: &str) -> Option<i32> {
        key_of(&self.names, name)
    }

    /// The number of the rule with this name.
    pub fn rule_by_name(&self, name: &str) -> Option<i32> {
        key_of(&self.rule_names, name)
    }

    /// The number of the type with this name.
    pub fn type_by_name(&self, name: &str) -> Option<i32> {
        key_of(&self.type_names, name)
    }

    /// The weight sets that hold for a pool: its own, or the default ones.
    pub fn choose_args_for(&self, pool: i64) -> Option<&ChooseArgs> {
        self.choose_args.get(&pool).or_else(|| self.choose_args.get(&DEFAULT_CHOOSE_ARGS))
    }
}

/// The place of bucket `id` in [`CrushMap::buckets`]; `None` for a device.
#[inline]
pub(super) fn bucket_index(id: i32) -> Option<usize> {
    usize::try_from(-1 - i64::from(id)).ok()
}

fn key_of(names: &BTreeMap<i32, Name>, name: &str) -> Option<i32> {
    names.iter().find(|(_, n)| **n == *name).map(|(id, _)| *id)
}

/// How a placement retries. The names are Ceph's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunables {
    /// Retries in the same bucket after a collision.
    pub choose_local_tries: u32,
    /// Further retries there, with a permutation of the bucket.
    pub choose_local_fallback_tries: u32,
    /// Retries from the top; one less than the tries.
    pub choose_total_tries: u32,
    /// Whether a chooseleaf step tries only once below a chosen bucket (nonzero), and starts over above it.
    pub chooseleaf_descend_once: u32,
    /// Whether and how slowly (right shift by one less) the try's number varies the leaf.
    pub chooseleaf_vary_r: u8,
    /// Version of the computation of straw lengths; says nothing about placement.
    pub straw_calc_version: u8,
    /// A bit per bucket algorithm that tools may use.
    pub allowed_bucket_algs: u32,
    /// Whether a leaf's place does not depend on the places before it.
    pub chooseleaf_stable: u8,
    /// Multi-step-retry rules: descents from the top.
    pub msr_descents: u32,
    /// Multi-step-retry rules: retries after a collision.
    pub msr_collision_tries: u32,
}

impl Tunables {
    /// The profile `legacy` (argonaut): what a map without tunables means.
    pub const LEGACY: Self = Self {
        choose_local_tries: 2,
        choose_local_fallback_tries: 5,
        choose_total_tries: 19,
        chooseleaf_descend_once: 0,
        chooseleaf_vary_r: 0,
        straw_calc_version: 0,
        allowed_bucket_algs: 1 << 1 | 1 << 2 | 1 << 4,
        chooseleaf_stable: 0,
        msr_descents: 100,
        msr_collision_tries: 100,
    };
    /// The profile `bobtail`.
    pub const BOBTAIL: Self = Self {
        choose_local_tries: 0,
        choose_local_fallback_tries: 0,
        choose_total_tries: 50,
        chooseleaf_descend_once: 1,
        ..Self::LEGACY
    };
    /// The profile `firefly`.
    pub const FIREFLY: Self = Self { chooseleaf_vary_r: 1, ..Self::BOBTAIL };
    /// The profile `hammer`.
    pub const HAMMER: Self =
        Self { allowed_bucket_algs: Self::LEGACY.allowed_bucket_algs | 1 << 5, ..Self::FIREFLY };
    /// The profile `jewel`, which is still the newest; with it maps get straw version 1.
    pub const JEWEL: Self = Self { chooseleaf_stable: 1, straw_calc_version: 1, ..Self::HAMMER };
}

impl Default for Tunables {
    fn default() -> Self {
        Self::JEWEL
    }
}

/// Replacement weights and ids of straw2 buckets, by bucket index (`-1 - id`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChooseArgs(pub BTreeMap<u32, ChooseArg>);
