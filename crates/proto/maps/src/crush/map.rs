//! The CRUSH map.

use std::collections::BTreeMap;

use super::{Bucket, ChooseArg, Rule};
use crate::Name;

/// The value for "no item" in a placement (`CRUSH_ITEM_NONE`): a shard that could not be placed.
pub const ITEM_NONE: i32 = 0x7fff_ffff;
/// The value for "not decided yet" during a placement (`CRUSH_ITEM_UNDEF`).
pub const ITEM_UNDEF: i32 = 0x7fff_fffe;
/// The key of the weight sets for pools without their own (`DEFAULT_CHOOSE_ARGS`).
pub const DEFAULT_CHOOSE_ARGS: i64 = -1;

/// A CRUSH map.
///
/// Device ids start at 0; bucket ids are negative: bucket `b` is `buckets[-1 - b]`.
///
/// The fields are public because a map is data. [`CrushMap::validate`] checks their consistency.
/// Decoding includes that check. A placement with an invalid map is incomplete but does no harm.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CrushMap {
    /// Buckets by index `-1 - id`; entries may be empty. Ceph keeps the length a power of two, at least
    /// 8.
    pub buckets: Vec<Option<Bucket>>,
    /// Rules by number; entries may be empty.
    pub rules: Vec<Option<Rule>>,
    /// One more than the highest device id.
    pub max_devices: i32,
    /// The types of the hierarchy: 0 is a device; a higher number is a wider type.
    pub type_names: BTreeMap<i32, Name>,
    /// Names of buckets and devices.
    pub names: BTreeMap<i32, Name>,
    /// Names of rules.
    pub rule_names: BTreeMap<i32, Name>,
    /// Limits on retries.
    pub tunables: Tunables,
    /// The class of each device that has one, and of each shadow bucket: a key of `class_names`.
    pub classes: BTreeMap<i32, i32>,
    /// Names of device classes.
    pub class_names: BTreeMap<i32, Name>,
    /// The shadow of each bucket for each class: a copy of the bucket's tree with only the devices of
    /// that class.
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

    /// Returns the weight sets of a pool: its own, or the default ones.
    pub fn choose_args_for(&self, pool: i64) -> Option<&ChooseArgs> {
        self.choose_args.get(&pool).or_else(|| self.choose_args.get(&DEFAULT_CHOOSE_ARGS))
    }
}

/// The index of bucket `id` in [`CrushMap::buckets`]; `None` for a device.
#[inline]
pub(super) fn bucket_index(id: i32) -> Option<usize> {
    usize::try_from(-1 - i64::from(id)).ok()
}

fn key_of(names: &BTreeMap<i32, Name>, name: &str) -> Option<i32> {
    names.iter().find(|(_, n)| **n == *name).map(|(id, _)| *id)
}

/// Parameters of retries in a placement. The names are Ceph's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunables {
    /// Retries in the same bucket after a collision.
    pub choose_local_tries: u32,
    /// Further retries in the same bucket, with a permutation of its items.
    pub choose_local_fallback_tries: u32,
    /// Retries from the top: the number of tries minus one.
    pub choose_total_tries: u32,
    /// If nonzero, a chooseleaf step tries only once below a chosen bucket, and then starts again above
    /// it.
    pub chooseleaf_descend_once: u32,
    /// If nonzero, the number of the try, shifted right by one less than this value, varies the choice
    /// of the leaf.
    pub chooseleaf_vary_r: u8,
    /// The version of the computation of straw lengths; has no effect on placement.
    pub straw_calc_version: u8,
    /// The bucket algorithms that tools may use, one bit each.
    pub allowed_bucket_algs: u32,
    /// If nonzero, the leaf at a position does not depend on the positions before it.
    pub chooseleaf_stable: u8,
    /// Multi-step-retry rules: maximum number of descents from the top.
    pub msr_descents: u32,
    /// Multi-step-retry rules: maximum number of retries after a collision.
    pub msr_collision_tries: u32,
}

impl Tunables {
    /// The profile `legacy` (argonaut): the values for a map without tunables.
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
    /// The profile `jewel`, still the newest. Its maps use straw version 1.
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
