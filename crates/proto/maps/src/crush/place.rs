//! Positions of items in the hierarchy, with the changes that a stock monitor makes
//! (`CrushWrapper::insert_item` and related functions).

use std::collections::BTreeMap;

use super::{Bucket, BucketAlg, CrushBuildError, CrushMap};

/// Bucket names by the name of their type: `{"host": "h", "root": "default"}`.
pub type Location = BTreeMap<String, String>;

impl CrushMap {
    /// Returns the item's weight in the nearest bucket that the location names, or `None` if the item is
    /// not in that bucket.
    pub fn weight_at(&self, item: i32, at: &Location) -> Option<u32> {
        let nearest = self.named_types(at).next()?.1;
        let bucket = self.bucket(self.item_by_name(nearest)?)?;
        bucket.item_weight(bucket.items.iter().position(|other| *other == item)?)
    }

    /// Adds an item to the nearest bucket that a location names. Missing buckets are created and added
    /// to the next bucket of the location.
    ///
    /// # Errors
    /// The location names no bucket, a bucket of another type or one below the item, or the bucket
    /// already contains the item.
    pub fn insert_at(&mut self, item: i32, weight: u32, at: &Location) -> Result<(), CrushBuildError> {
        let path: Vec<(i32, String)> =
            self.named_types(at).map(|(kind, name)| (kind, name.to_owned())).collect();
        let (mut below, mut weight_below) = (item, weight);
        for (kind, name) in &path {
            let there = self.item_by_name(name);
            let bucket = match there {
                Some(id) => id,
                None => self.add_bucket(name, u16::try_from(*kind).unwrap_or_default())?,
            };
            let found = self.bucket(bucket).ok_or(CrushBuildError::NoSuchBucket(bucket))?;
            if i32::from(found.kind) != *kind {
                return Err(CrushBuildError::BadItem(bucket));
            }
            self.insert_item(below, weight_below, bucket)?;
            if there.is_some() {
                return Ok(());
            }
            (below, weight_below) = (bucket, 0);
        }
        if path.is_empty() { Err(CrushBuildError::BadItem(item)) } else { Ok(()) }
    }

    /// The types in a location and the names given for them, from the nearest type up.
    fn named_types<'a>(&'a self, at: &'a Location) -> impl Iterator<Item = (i32, &'a str)> {
        let types = self.type_names.iter().filter(|(kind, _)| **kind > 0);
        types.filter_map(|(kind, name)| Some((*kind, at.get(&name.to_string())?.as_str())))
    }

    /// The buckets that contain an item, without shadows.
    pub fn holders(&self, item: i32) -> Vec<i32> {
        let buckets = self.buckets.iter().flatten().filter(|bucket| bucket.items.contains(&item));
        buckets.map(|bucket| bucket.id).filter(|id| !self.is_shadow(*id)).collect()
    }

    /// Whether a bucket is the shadow of another bucket for one device class.
    pub fn is_shadow(&self, bucket: i32) -> bool {
        bucket < 0 && self.classes.contains_key(&bucket)
    }

    /// Removes an item from all buckets, or only from `below` and the buckets below it. Returns whether
    /// any bucket contained it.
    pub fn unlink(&mut self, item: i32, below: Option<i32>) -> Result<bool, CrushBuildError> {
        let under = |holder: &i32| below.is_none_or(|top| *holder == top || self.contains(top, *holder));
        let holders: Vec<i32> = self.holders(item).into_iter().filter(under).collect();
        holders.iter().try_for_each(|holder| self.remove_item(item, *holder))?;
        Ok(!holders.is_empty())
    }

    /// Whether an item is anywhere below a bucket.
    pub fn contains(&self, bucket: i32, item: i32) -> bool {
        let mut open = vec![bucket];
        let mut seen = Vec::new();
        while let Some(id) = open.pop() {
            let Some(bucket) = self.bucket(id).filter(|_| !seen.contains(&id)) else { continue };
            if bucket.items.contains(&item) {
                return true;
            }
            seen.push(id);
            open.extend(bucket.items.iter().filter(|item| **item < 0));
        }
        false
    }

    /// Deletes an item that no bucket contains.
    pub fn forget_item(&mut self, item: i32) {
        self.names.remove(&item);
        self.classes.remove(&item);
        if let Some(place) = super::map::bucket_index(item).and_then(|index| self.buckets.get_mut(index)) {
            *place = None;
        }
    }

    /// Whether a rule starts at an item or at a shadow of it.
    pub fn is_taken_by_rule(&self, item: i32) -> bool {
        let shadows = self.class_buckets.get(&item);
        let is = |taken: i32| taken == item || shadows.is_some_and(|of| of.values().any(|id| *id == taken));
        self.rules
            .iter()
            .flatten()
            .flat_map(|rule| &rule.steps)
            .any(|step| step.op == super::StepOp::TAKE && is(step.arg1))
    }

    /// Exchanges the contents and the names of two buckets.
    pub fn swap_buckets(&mut self, one: i32, other: i32) -> Result<(), CrushBuildError> {
        let contents = |map: &Self, id: i32| -> Result<Vec<(i32, u32)>, CrushBuildError> {
            let bucket = map.bucket(id).ok_or(CrushBuildError::NoSuchBucket(id))?;
            let weight = |at| bucket.item_weight(at).unwrap_or_default();
            Ok(bucket.items.iter().enumerate().map(|(at, item)| (*item, weight(at))).collect())
        };
        let (in_one, in_other) = (contents(self, one)?, contents(self, other)?);
        in_one.iter().try_for_each(|(item, _)| self.remove_item(*item, one))?;
        in_other.iter().try_for_each(|(item, _)| self.remove_item(*item, other))?;
        in_one.iter().try_for_each(|(item, weight)| self.insert_item(*item, *weight, other))?;
        in_other.iter().try_for_each(|(item, weight)| self.insert_item(*item, *weight, one))?;
        let (name_of_one, name_of_other) = (self.names.remove(&one), self.names.remove(&other));
        self.names.extend(name_of_other.map(|name| (one, name)));
        self.names.extend(name_of_one.map(|name| (other, name)));
        Ok(())
    }

    /// Recomputes the weight of each bucket from its items.
    pub fn reweight_all(&mut self) -> Result<(), CrushBuildError> {
        let devices: Vec<(i32, u32, i32)> = self
            .buckets
            .iter()
            .flatten()
            .filter(|bucket| !self.is_shadow(bucket.id))
            .flat_map(|bucket| bucket.items.iter().enumerate().map(move |(at, item)| (bucket, at, *item)))
            .filter(|(_, _, item)| *item >= 0)
            .map(|(bucket, at, item)| (item, bucket.item_weight(at).unwrap_or_default(), bucket.id))
            .collect();
        devices.into_iter().try_for_each(|(item, weight, bucket)| self.set_item_weight(item, weight, bucket))
    }

    /// Sets the weight of all devices below a bucket.
    pub fn reweight_below(&mut self, bucket: i32, weight: u32) -> Result<(), CrushBuildError> {
        let items = self.bucket(bucket).ok_or(CrushBuildError::NoSuchBucket(bucket))?.items.clone();
        items.into_iter().try_for_each(|item| match item >= 0 {
            true => self.set_item_weight(item, weight, bucket),
            false => self.reweight_below(item, weight),
        })
    }

    /// Converts all straw buckets to straw2. Returns whether there were any.
    pub fn straw_to_straw2(&mut self) -> bool {
        let mut any = false;
        for bucket in self.buckets.iter_mut().flatten() {
            any |= to_straw2(bucket);
        }
        any
    }
}

fn to_straw2(bucket: &mut Bucket) -> bool {
    let BucketAlg::Straw { item_weights, .. } = &mut bucket.alg else { return false };
    bucket.alg = BucketAlg::Straw2 { item_weights: std::mem::take(item_weights) };
    true
}
