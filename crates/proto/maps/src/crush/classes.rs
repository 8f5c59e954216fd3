//! Device classes. A rule that uses only devices of one class starts from a shadow tree: a copy of the
//! tree that contains only those devices (`CrushWrapper::device_class_clone`).

use std::collections::{BTreeMap, BTreeSet};

use super::map::bucket_index;
use super::{Bucket, BucketAlg, CrushBuildError, CrushMap, Rule, StepOp};

/// Ids of shadow buckets, by bucket and class.
type Shadows = BTreeMap<i32, BTreeMap<i32, i32>>;

impl CrushMap {
    /// Assigns a device to a class, which is created if it is new. Rules do not see the change until
    /// [`CrushMap::rebuild_class_trees`].
    pub fn set_device_class(&mut self, device: i32, class: &str) -> Result<(), CrushBuildError> {
        if !(0..self.max_devices).contains(&device) {
            return Err(CrushBuildError::BadItem(device));
        }
        let id = self.add_class(class);
        self.classes.insert(device, id);
        Ok(())
    }

    /// Returns the shadow of a bucket for a class: the start of a rule that places data on this class
    /// only.
    pub fn shadow(&self, bucket: i32, class: &str) -> Option<i32> {
        self.class_buckets.get(&bucket)?.get(&self.class_by_name(class)?).copied()
    }

    /// Rebuilds the shadows of all trees, after devices were added, removed, reweighted or assigned to
    /// other classes.
    ///
    /// A shadow keeps its id, because rules refer to it. Shadows have no weight sets of their own.
    ///
    /// # Errors
    /// If a tree contains a bucket that is not straw2. The map is then unchanged.
    pub fn rebuild_class_trees(&mut self) -> Result<(), CrushBuildError> {
        let shadows: BTreeSet<i32> =
            self.class_buckets.values().flat_map(|shadows| shadows.values().copied()).collect();
        let mut map = self.clone();
        map.forget(&shadows);
        let old = std::mem::take(&mut map.class_buckets);
        let in_rules = |class: &i32| self.is_class_in_rule(*class);
        let in_use: BTreeSet<i32> =
            map.classes.values().copied().chain(map.class_names.keys().copied().filter(in_rules)).collect();
        map.class_names.retain(|class, _| in_use.contains(class));
        for root in map.roots() {
            for class in map.class_names.keys().copied().collect::<Vec<_>>() {
                map.make_shadow(root, class, &old, &shadows)?;
            }
        }
        *self = map;
        Ok(())
    }

    /// Whether a rule starts from a shadow of this class.
    fn is_class_in_rule(&self, class: i32) -> bool {
        let mut taken = self.rules.iter().flatten().flat_map(|rule| &rule.steps);
        taken.any(|step| {
            step.op == StepOp::TAKE && self.classes.get(&step.arg1) == Some(&class) && step.arg1 < 0
        })
    }

    /// The rules that start from a shadow of this class.
    pub fn rules_of_class(&self, class: &str) -> Vec<usize> {
        let Some(id) = self.class_by_name(class) else { return Vec::new() };
        let takes = |rule: &Rule| {
            let mut steps = rule.steps.iter();
            steps.any(|step| {
                step.op == StepOp::TAKE && step.arg1 < 0 && self.classes.get(&step.arg1) == Some(&id)
            })
        };
        (0..).zip(&self.rules).filter_map(|(number, rule)| takes(rule.as_ref()?).then_some(number)).collect()
    }

    /// The number of a class.
    pub fn class_by_name(&self, class: &str) -> Option<i32> {
        self.class_names.iter().find(|(_, name)| **name == *class).map(|(id, _)| *id)
    }

    /// The class of a device or of a shadow bucket.
    pub fn class_of(&self, item: i32) -> Option<String> {
        self.class_names.get(self.classes.get(&item)?).map(ToString::to_string)
    }

    /// Creates a class without devices, unless it exists. Returns its number.
    pub fn add_class(&mut self, class: &str) -> i32 {
        self.class_by_name(class).unwrap_or_else(|| {
            let id = self.class_names.keys().next_back().map_or(0, |last| last + 1);
            self.class_names.insert(id, class.into());
            id
        })
    }

    fn forget(&mut self, buckets: &BTreeSet<i32>) {
        for id in buckets {
            if let Some(place) = bucket_index(*id).and_then(|index| self.buckets.get_mut(index)) {
                *place = None;
            }
            self.names.remove(id);
            self.classes.remove(id);
        }
    }

    /// The buckets that no other bucket contains, by ascending id.
    fn roots(&self) -> BTreeSet<i32> {
        let below: BTreeSet<i32> =
            self.buckets.iter().flatten().flat_map(|bucket| bucket.items.iter().copied()).collect();
        self.buckets.iter().flatten().map(|bucket| bucket.id).filter(|id| !below.contains(id)).collect()
    }

    /// Creates the shadow of a bucket and of all buckets below it. Returns the shadow's id and weight.
    fn make_shadow(
        &mut self,
        id: i32,
        class: i32,
        old: &Shadows,
        taken: &BTreeSet<i32>,
    ) -> Result<(i32, u32), CrushBuildError> {
        let original = self.bucket(id).ok_or(CrushBuildError::NoSuchBucket(id))?.clone();
        let BucketAlg::Straw2 { item_weights } = &original.alg else {
            return Err(CrushBuildError::NotStraw2(id));
        };
        let (mut items, mut weights) = (Vec::new(), Vec::new());
        for (item, weight) in original.items.iter().zip(item_weights) {
            if *item < 0 {
                let (shadow, weight) = self.make_shadow(*item, class, old, taken)?;
                items.push(shadow);
                weights.push(weight);
            } else if self.classes.get(item) == Some(&class) {
                items.push(*item);
                weights.push(*weight);
            }
        }
        let shadow = old.get(&id).and_then(|shadows| shadows.get(&class)).copied();
        let shadow = shadow.unwrap_or_else(|| self.free_id(taken));
        let weight = weights.iter().fold(0u32, |sum, weight| sum.saturating_add(*weight));
        let alg = BucketAlg::Straw2 { item_weights: weights };
        self.put_bucket(Bucket { id: shadow, weight, items, alg, ..original });
        if let (Some(name), Some(class)) = (self.names.get(&id), self.class_names.get(&class)) {
            self.names.insert(shadow, format!("{name}~{class}").into());
        }
        self.classes.insert(shadow, class);
        self.class_buckets.entry(id).or_default().insert(class, shadow);
        Ok((shadow, weight))
    }

    /// The first id that no bucket has and no previous shadow had.
    fn free_id(&self, taken: &BTreeSet<i32>) -> i32 {
        let mut id = -1;
        while self.bucket(id).is_some() || taken.contains(&id) {
            id -= 1;
        }
        id
    }
}
