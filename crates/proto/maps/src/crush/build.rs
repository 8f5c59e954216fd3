//! Construction and changes of maps, as far as a server that owns its maps needs them: straw2 buckets
//! and simple rules.

use az::SaturatingAs as _;

use super::map::bucket_index;
use super::{Bucket, BucketAlg, CrushMap, Rule, RuleKind, StepOp, Tunables};
use crate::Name;

/// The types of a new cluster's hierarchy, from the narrowest to the widest, as stock monitors create
/// them.
const TYPES: [&str; 12] =
    ["osd", "host", "chassis", "rack", "row", "pdu", "pod", "room", "datacenter", "zone", "region", "root"];
/// The number of type `host`.
const HOST: u16 = 1;
/// The number of type `root`.
const ROOT: u16 = 11;
/// The initial size of Ceph's bucket table, which doubles when it is full.
const BUCKETS_MIN: usize = 8;
/// The pool sizes that releases before 17 write into a new rule.
const RULE_SIZES: (u8, u8) = (1, 10);
/// The minimum pool size that those releases write into a rule for erasure-coded pools.
const ERASURE_RULE_MIN: u8 = 3;

/// The reason why a change of a CRUSH map was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CrushBuildError {
    /// Another item or rule has this name.
    #[error("the name {0} is taken")]
    NameTaken(Name),
    /// The bucket does not exist.
    #[error("there is no bucket {0}")]
    NoSuchBucket(i32),
    /// The bucket already contains the item.
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
    /// The item does not exist, or is above the target bucket.
    #[error("item {0} cannot be put there")]
    BadItem(i32),
    /// All 256 rule numbers are in use.
    #[error("there is no room for another rule")]
    TooManyRules,
}

impl CrushMap {
    /// Creates a map with the standard types and an empty root `default` (id −1).
    pub fn with_root() -> Self {
        let mut map = Self { tunables: Tunables::JEWEL, ..Self::default() };
        map.type_names = (0..).zip(TYPES.map(Name::from)).collect();
        map.place_bucket(-1, ROOT, "default");
        map
    }

    /// Creates the map of a new stock cluster: root `default`, one host with devices 0 to `osds` − 1,
    /// each of weight 1, and rule 0, `replicated_rule`, which spreads replicas over `failure_domain` (a
    /// type's name, `osd` or `host`).
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

    /// Creates an empty straw2 bucket, which is not yet part of the hierarchy, and returns its id.
    pub fn add_bucket(&mut self, name: &str, kind: u16) -> Result<i32, CrushBuildError> {
        self.check_name_free(name)?;
        let free = self.buckets.iter().position(Option::is_none).unwrap_or(self.buckets.len());
        let id = -1 - free.saturating_as::<i32>();
        self.place_bucket(id, kind, name);
        Ok(id)
    }

    /// Names a device, and raises `max_devices` to include its number.
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

    /// Adds a device or a bucket to a bucket. The weight of a device is `weight` (in 1/65536); a bucket
    /// keeps its own weight.
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

    /// Removes an item from a bucket. The item remains in the map.
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

    /// Sets the weight of an item in a bucket (in 1/65536), and updates the weights of all buckets
    /// above.
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

    /// Creates the standard rule: from `root`, it chooses one device in each of as many buckets of type
    /// `failure_domain` as the pool has replicas or shards. Returns the rule's number.
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
            // Erasure-coded pools get more tries: a hole is a lost shard, not only a missing replica.
            steps.extend([StepOp::SET_CHOOSELEAF_TRIES.with(5), StepOp::SET_CHOOSE_TRIES.with(100)]);
        }
        steps.extend([StepOp::TAKE.with(root), choose.choose(0, failure_domain), StepOp::EMIT.with(0)]);
        let (min_size, max_size) = RULE_SIZES;
        self.put_rule(free, Rule { kind, min_size, max_size, steps });
        self.rule_names.insert(i32::from(number), name.into());
        Ok(number)
    }

    /// Creates the rule of an erasure-coded pool of `shards` shards: [`CrushMap::add_simple_rule`], with
    /// the pool sizes that releases before 17 check.
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

    /// Removes a rule. Its number may be reused.
    pub fn remove_rule(&mut self, number: u8) {
        if let Some(place) = self.rules.get_mut(usize::from(number)) {
            *place = None;
        }
        self.rule_names.remove(&i32::from(number));
    }

    /// Adds a device of weight 1 in a new host below the root.
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

    /// Stores a bucket at the index of its id.
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

    /// The buckets that contain `item`; exactly one in a tree.
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
