//! Validation of decoded CRUSH maps.

use loligo_wire::DecodeError;

use super::map::bucket_index;
use super::{BucketAlg, CrushMap};

impl CrushMap {
    /// Checks the consistency of the map: every bucket has the index of its id and one weight per item,
    /// replacement ids match their buckets, and no bucket is below itself.
    ///
    /// Real maps contain items that do not exist, empty buckets, and weights that do not add up; these
    /// are accepted.
    pub fn validate(&self) -> Result<(), DecodeError> {
        for (index, bucket) in self.buckets.iter().enumerate() {
            let Some(bucket) = bucket else { continue };
            if bucket_index(bucket.id) != Some(index) {
                return Err(DecodeError::Invalid {
                    what: "crush bucket id",
                    value: i64::from(bucket.id).cast_unsigned(),
                });
            }
            let weights = match &bucket.alg {
                BucketAlg::Uniform { .. } | BucketAlg::Tree { .. } => bucket.items.len(),
                BucketAlg::List { item_weights, sum_weights: second }
                | BucketAlg::Straw { item_weights, straws: second } => item_weights.len().min(second.len()),
                BucketAlg::Straw2 { item_weights } => item_weights.len(),
            };
            if weights != bucket.items.len() {
                return Err(DecodeError::Invalid { what: "crush bucket weights", value: weights as u64 });
            }
        }
        self.validate_choose_args()?;
        self.find_cycle().map_or(Ok(()), |id| {
            Err(DecodeError::Invalid {
                what: "crush bucket that contains itself",
                value: i64::from(id).cast_unsigned(),
            })
        })
    }

    fn validate_choose_args(&self) -> Result<(), DecodeError> {
        for (&index, arg) in self.choose_args.values().flat_map(|args| &args.0) {
            let size = self.buckets.get(index as usize).and_then(Option::as_ref).map_or(0, |b| b.items.len());
            if !arg.ids.is_empty() && arg.ids.len() != size {
                return Err(DecodeError::Invalid {
                    what: "crush choose_args ids",
                    value: arg.ids.len() as u64,
                });
            }
        }
        Ok(())
    }

    /// Returns a bucket that is reachable from itself.
    fn find_cycle(&self) -> Option<i32> {
        let mut visit = vec![Visit::New; self.buckets.len()];
        // The path from a root to the current bucket: each entry is a bucket and the index of the next
        // item to visit.
        let mut way: Vec<(usize, usize)> = Vec::new();
        for root in 0..self.buckets.len() {
            if visit[root] == Visit::New {
                visit[root] = Visit::OnTheWay;
                way.push((root, 0));
            }
            while let Some((index, next)) = way.last_mut() {
                let items = self.buckets[*index].as_ref().map_or(&[][..], |bucket| &bucket.items);
                let Some(&item) = items.get(*next) else {
                    visit[*index] = Visit::Done;
                    way.pop();
                    continue;
                };
                *next += 1;
                let Some(below) = bucket_index(item).filter(|below| *below < visit.len()) else { continue };
                match visit[below] {
                    Visit::New => {
                        visit[below] = Visit::OnTheWay;
                        way.push((below, 0));
                    }
                    Visit::OnTheWay => return Some(item),
                    Visit::Done => {}
                }
            }
        }
        None
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Visit {
    New,
    OnTheWay,
    Done,
}
