//! Making and changing maps, as far as a server with its own maps needs it: straw2 buckets and simple rules.

use az::SaturatingAs as _;

use super::map::bucket_index;
use super::{Bucket, BucketAlg, CrushMap, Rule, RuleKind, StepOp, Tunables};
use crate::Name;

/// The types of a new cluster's hierarchy, from narrow to wide, as stock monitors make them.
const TYPES: [&str; 12] =
    ["osd", "host", "chassis", "rack", "row", "pdu", "pod", "room", "datacenter", "zone", "region", "root"];
/// The number of type `host`.
const HOST: u16 = 1;
/// The number of type `root`.
const ROOT: u16 = 11;
/// Ceph starts with room for so many buckets and doubles it.
const BUCKETS_MIN: usize = 8;
/// The pool sizes that releases before 17 write into new rules.
const RULE_SIZES: (u8, u8) = (1, 10);
/// The fewest shards that those releases write into rules for erasure-coded pools.
const ERASURE_RULE_MIN: u8 = 3;

/// Why a CRUSH map cannot be changed like that.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CrushBuildError {
    /// The name stands for something else already.
    #[error("the name {0} is taken")]
    NameTaken(Name),
    /// There is no such bucket.
    #[error("there is no bucket {0}")]
    NoSuchBucket(i32),
    /// The item is in that bucket already.
    #[error("bucket {bucket} has item {item} already")]
    AlreadyThere {
        /// The bucket.
        bucket: i32,
        /// The item.
        item: i32,
    },
    /// Only straw2 buckets can be changed.
    #[error("bucket {0} is not of algorithm straw2")]
    NotStraw2(i32),
    /// The item does not exist, or lies above the bucket it should lie in.
    #[error("item {0} cannot be put there")]
    BadItem(i32),
    /// All 256 rule numbers are in use.
    #[error("there is no room for another rule")]
    TooManyRules,
}

impl CrushMap {
    /// A map with the usual types and an empty root `default` (id −1).
    pub fn with_root() -> Self {
        let mut map = Self { tunables: Tunables::JEWEL, ..Self::default() };
        map.type_names = (0..).zip(TYPES.map(Name::from)).collect();
        map.place_bucket(-1, ROOT, "default");
        map
    }

    /// What a new stock cluster looks like: root `default`, one host with devices 0 to `osds`, each of weight
    /// 1, and rule 0, `replicated_rule`, which spreads over `failure_domain` (a type's name, `osd` or
    /// `host`).
    pub fn simple(host: &str, osds: u32, failure_domain: &str) -> Result<Self, CrushBuildError> {
        let mut map = Self::with_root();
        let host = map.add_bucket(host, HOST)?;
        map.insert_item(host, 0, -1)?;
        for osd in 0..osds.cast_signed() {
            map.add_device(osd, &format!("osd.{osd}"))?;
            map.insert_item(osd, 0x1_0000, host)?;
        }
        let kind = map.type_by_name(failure_domain).unwrap_or(0);
        map.add_simple_rule("replicated_rule", RuleKind::REPLICATED, -1, kind)?;
        Ok(map)
    }

    /// Makes an empty straw2 bucket and returns its id. It lies nowhere yet.
    pub fn add_bucket(&mut self, name: &str, kind: u16) -> Result<i32, CrushBuildError> {
        self.check_name_free(name)?;
        let free = self.buckets.iter().position(Option::is_none).unwrap_or(self.buckets.len());
        let id = -1 - free.saturating_as::<i32>();
        self.place_bucket(id, kind, name);
        Ok(id)
    }

    /// Names a device and makes room for its number.
    pub fn add_device(&mut self, device: i32, name: &str) -> Result<(), CrushBuildError> {
        if device < 0 {
            return Err(CrushBuildError::BadItem(device));
        }
        if self.names.get(&device).is_some_and(|has| *has == *name) {
            return Ok(());
        }
        self.check_name_free(name)?;
        self.names.insert(device, name.into());
        self.max_devices = self.max_devices.max(device.saturating_add(1));
        Ok(())
    }

    /// Puts a device or a bucket into a bucket. A device weighs `weight` (in 1/65536), a bucket what it
    /// weighs itself.
    pub fn insert_item(&mut self, item: i32, weight: u32, bucket: i32) -> Result<(), CrushBuildError> {
        let weight = match self.bucket(item) {
            Some(below) => below.weight,
            None if (0..self.max_devices).contains(&item) => weight,
            None => return Err(CrushBuildError::BadItem(item)),
        };
        if item < 0 && (item == bucket || self.ancestors(bucket).contains(&item)) {
            return Err(CrushBuildError::BadItem(item));
        }
        let into = self.bucket_mut(bucket).ok_or(CrushBuildError::NoSuchBucket(bucket))?;
        if into.items.contains(&item) {
            return Err(CrushBuildError::AlreadyThere { bucket, item });
        }
        let BucketAlg::Straw2 { item_weights } = &mut into.alg else {
            return Err(CrushBuildError::NotStraw2(bucket));
        };
        item_weights.push(0);
        into.items.push(item);
        self.set_item_weight(item, weight, bucket)
    }

    /// Takes an item out of a bucket; it stays in the map.
    pub fn remove_item(&mut self, item: i32, bucket: i32) -> Result<(), CrushBuildError> {
        self.set_item_weight(item, 0, bucket)?;
        let from = self.bucket_mut(bucket).ok_or(CrushBuildError::NoSuchBucket(bucket))?;
        if let (Some(at), BucketAlg::Straw2 { item_weights }) =
            (from.items.iter().position(|i| *i == item), &mut from.alg)
        {
            from.items.remove(at);
            item_weights.remove(at);
        }
        Ok(())
    }

    /// Changes what an item of a bucket weighs (in 1/65536), and with it what everything above weighs.
    pub fn set_item_weight(&mut self, item: i32, weight: u32, bucket: i32) -> Result<(), CrushBuildError> {
        let into = self.bucket_mut(bucket).ok_or(CrushBuildError::NoSuchBucket(bucket))?;
        let at = into.items.iter().position(|i| *i == item).ok_or(CrushBuildError::BadItem(item))?;
        let BucketAlg::Straw2 { item_weights } = &mut into.alg else {
            return Err(CrushBuildError::NotStraw2(bucket));
        };
        item_weights[at] = weight;
        let total = item_weights.iter().fold(0u32, |sum, weight| sum.saturating_add(*weight));
        into.weight = total;
        let parents: Vec<i32> = self.parents(bucket).collect();
        parents.into_iter().try_for_each(|parent| self.set_item_weight(bucket, total, parent))
    }

    /// Makes the usual rule: from `root`, one device in each of as many `failure_domain`s (a type's number)
    /// as the pool is wide. Returns its number.
    pub fn add_simple_rule(
        &mut self,
        name: &str,
        kind: RuleKind,
        root: i32,
        failure_domain: i32,
    ) -> Result<u8, CrushBuildError> {
        if self.rule_by_name(name).is_some() {
            return Err(CrushBuildError::NameTaken(name.into()));
        }
        self.bucket(root).ok_or(CrushBuildError::NoSuchBucket(root))?;
        let free = self.rules.iter().position(Option::is_none).unwrap_or(self.rules.len());
        let number = u8::try_from(free).map_err(|_| CrushBuildError::TooManyRules)?;
        let is_erasure = kind == RuleKind::ERASURE;
        let choose = match (is_erasure, failure_domain) {
            (false, 0) => StepOp::CHOOSE_FIRSTN,
            (false, _) => StepOp::CHOOSELEAF_FIRSTN,
            (true, 0) => StepOp::CHOOSE_INDEP,
            (true, _) => StepOp::CHOOSELEAF_INDEP,
        };
        let mut steps = Vec::new();
        if is_erasure {
            // Positions are worth more tries: a hole is a lost shard, not just one replica less.
            steps.extend([StepOp::SET_CHOOSELEAF_TRIES.with(5), StepOp::SET_CHOOSE_TRIES.with(100)]);
        }
        steps.extend([StepOp::TAKE.with(root), choose.choose(0, failure_domain), StepOp::EMIT.with(0)]);
        let (min_size, max_size) = RULE_SIZES;
        self.put_rule(free, Rule { kind, min_size, max_size, steps });
        self.rule_names.insert(i32::from(number), name.into());
        Ok(number)
    }

    /// Makes the rule of an erasure-coded pool of `shards` shards: [`CrushMap::add_simple_rule`], with the
    /// sizes of pools that releases before 17 look at.
    pub fn add_erasure_rule(
        &mut self,
        name: &str,
        shards: u8,
        root: i32,
        failure_domain: i32,
    ) -> Result<u8, CrushBuildError> {
        let number = self.add_simple_rule(name, RuleKind::ERASURE, root, failure_domain)?;
        if let Some(rule) = self.rules.get_mut(usize::from(number)).and_then(Option::as_mut) {
            (rule.min_size, rule.max_size) = (ERASURE_RULE_MIN, shards);
        }
        Ok(number)
    }

    /// Removes a rule; its number may be given out again.
    pub fn remove_rule(&mut self, number: u8) {
        if let Some(place) = self.rules.get_mut(usize::from(number)) {
            *place = None;
        }
        self.rule_names.remove(&i32::from(number));
    }

    /// Adds a device of weight 1 on a host of its own below the root.
    pub fn add_host_with_device(&mut self, host: &str, device: i32) -> Result<(), CrushBuildError> {
        let host = self.add_bucket(host, HOST)?;
        self.insert_item(host, 0, -1)?;
        self.add_device(device, &format!("osd.{device}"))?;
        self.insert_item(device, 0x1_0000, host)
    }

    fn put_rule(&mut self, number: usize, rule: Rule) {
        if self.rules.len() <= number {
            self.rules.resize(number + 1, None);
        }
        self.rules[number] = Some(rule);
    }

    fn check_name_free(&self, name: &str) -> Result<(), CrushBuildError> {
        match self.item_by_name(name) {
            Some(_) => Err(CrushBuildError::NameTaken(name.into())),
            None => Ok(()),
        }
    }

    fn place_bucket(&mut self, id: i32, kind: u16, name: &str) {
        let alg = BucketAlg::Straw2 { item_weights: Vec::new() };
        self.put_bucket(Bucket { id, kind, hash: 0, weight: 0, items: Vec::new(), alg });
        self.names.insert(id, name.into());
    }

    /// Puts a bucket into its place.
    pub(super) fn put_bucket(&mut self, bucket: Bucket) {
        let index = bucket_index(bucket.id).unwrap_or_default();
        while self.buckets.len() <= index {
            self.buckets.resize((self.buckets.len() * 2).max(BUCKETS_MIN), None);
        }
        self.buckets[index] = Some(bucket);
    }

    fn bucket_mut(&mut self, id: i32) -> Option<&mut Bucket> {
        self.buckets.get_mut(bucket_index(id)?)?.as_mut()
    }

    /// The buckets that hold `item`: one in a tree.
    fn parents(&self, item: i32) -> impl Iterator<Item = i32> {
        self.buckets
            .iter()
            .flatten()
            .filter(move |bucket| bucket.items.contains(&item))
            .map(|bucket| bucket.id)
    }

    /// All buckets above `item`.
    fn ancestors(&self, item: i32) -> Vec<i32> {
        let mut above: Vec<i32> = self.parents(item).collect();
        let mut next = 0;
        while let Some(&bucket) = above.get(next) {
            let further: Vec<i32> = self.parents(bucket).filter(|id| !above.contains(id)).collect();
            above.extend(further);
            next += 1;
        }
        above
    }
}
