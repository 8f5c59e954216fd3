//! Weight sets: alternative weights for the hierarchy, for one pool or for all (`crush_choose_arg_map`).

use super::{BucketAlg, ChooseArg, ChooseArgs, CrushBuildError, CrushMap};

impl CrushMap {
    /// Creates a weight set with `positions` positions from the current weights.
    pub fn create_weight_set(&mut self, key: i64, positions: usize) {
        let mut args = ChooseArgs::default();
        for (index, bucket) in (0..).zip(&self.buckets) {
            let Some(bucket) =
                bucket.as_ref().filter(|bucket| matches!(bucket.alg, BucketAlg::Straw2 { .. }))
            else {
                continue;
            };
            let weights = (0..bucket.items.len()).map(|at| bucket.item_weight(at).unwrap_or_default());
            let weights: Vec<u32> = weights.collect();
            args.0.insert(index, ChooseArg { weight_set: vec![weights; positions], ids: Vec::new() });
        }
        self.choose_args.insert(key, args);
    }

    /// The number of positions of a weight set; 0 if the set does not exist.
    pub fn weight_set_positions(&self, key: i64) -> usize {
        let args = self.choose_args.get(&key);
        args.and_then(|args| args.0.values().map(|arg| arg.weight_set.len()).max()).unwrap_or(0)
    }

    /// Returns an item's weights in a weight set, by position.
    pub fn weights_of(&self, key: i64, item: i32) -> Option<Vec<u32>> {
        let args = self.choose_args.get(&key)?;
        self.buckets.iter().flatten().find_map(|bucket| {
            let at = bucket.items.iter().position(|other| *other == item)?;
            let index = u32::try_from(-1 - bucket.id).ok()?;
            let rows = &args.0.get(&index)?.weight_set;
            rows.iter()
                .map(|row| row.get(at).copied())
                .collect::<Option<Vec<u32>>>()
                .filter(|of| !of.is_empty())
        })
    }

    /// Sets an item's weights in a weight set, one for each position, and updates the weights of all
    /// buckets above.
    ///
    /// # Errors
    /// If the weight set does not exist, or no bucket contains the item.
    pub fn set_weights(&mut self, key: i64, item: i32, weights: &[u32]) -> Result<(), CrushBuildError> {
        let mut open = vec![(item, weights.to_vec(), 0)];
        let mut any = false;
        while let Some((item, weights, depth)) = open.pop() {
            let holders = self.buckets.iter().flatten().filter(|bucket| bucket.items.contains(&item));
            let holders: Vec<(i32, usize)> = holders
                .filter_map(|bucket| Some((bucket.id, bucket.items.iter().position(|other| *other == item)?)))
                .collect();
            let args = self.choose_args.get_mut(&key).ok_or(CrushBuildError::BadItem(item))?;
            for (holder, at) in holders {
                let index = u32::try_from(-1 - holder).unwrap_or_default();
                let Some(arg) = args.0.get_mut(&index) else { continue };
                any = true;
                for (row, weight) in arg.weight_set.iter_mut().zip(&weights) {
                    if let Some(place) = row.get_mut(at) {
                        *place = *weight;
                    }
                }
                if depth < DEPTH_MAX {
                    open.push((holder, arg.weight_set.iter().map(|row| sum(row)).collect(), depth + 1));
                }
            }
        }
        if any { Ok(()) } else { Err(CrushBuildError::BadItem(item)) }
    }

    /// Adapts the weight sets after a change of the hierarchy. Items that existed in `before` keep their
    /// weights; new items get their weights from the hierarchy.
    pub fn fit_weight_sets(&mut self, before: &Self) {
        let keys: Vec<i64> = self.choose_args.keys().copied().collect();
        for key in keys {
            let positions = before.weight_set_positions(key);
            let Some(old) = before.choose_args.get(&key).filter(|_| positions > 0) else { continue };
            self.create_weight_set(key, positions);
            let devices: Vec<i32> = self.names.keys().copied().filter(|item| *item >= 0).collect();
            let ids = |index: &u32| old.0.get(index).map(|arg| arg.ids.clone()).unwrap_or_default();
            if let Some(args) = self.choose_args.get_mut(&key) {
                args.0.iter_mut().for_each(|(index, arg)| arg.ids = ids(index));
                // Replacement ids are kept only if their number still equals the number of items.
                let fits = |index: &u32, arg: &ChooseArg| {
                    arg.weight_set.first().map(Vec::len) == Some(ids(index).len())
                };
                args.0
                    .iter_mut()
                    .filter(|(index, arg)| !fits(index, arg))
                    .for_each(|(_, arg)| arg.ids.clear());
            }
            for device in devices {
                if let Some(weights) = before.weights_of(key, device) {
                    let _ = self.set_weights(key, device, &weights); // no bucket may contain the device now
                }
            }
        }
    }
}

/// The maximum depth through which weights propagate upwards. CRUSH has a dozen types.
const DEPTH_MAX: usize = 32;

fn sum(row: &[u32]) -> u32 {
    row.iter().fold(0, |sum: u32, weight| sum.saturating_add(*weight))
}
