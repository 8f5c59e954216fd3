//! The step `choose indep`.

use az::SaturatingAs as _;

use super::walk::Walk;
use super::{Bucket, BucketAlg, ITEM_NONE, ITEM_UNDEF};

/// A choosing step whose failures leave holes, so that every item keeps its position; used for
/// erasure-coded pools.
pub(super) struct Indep {
    /// The number of positions of the whole step, including positions that the caller does not request.
    pub(super) numrep: i32,
    /// The type of item to choose.
    pub(super) kind: i32,
    /// Maximum number of rounds over the empty positions.
    pub(super) tries: u32,
    /// Maximum number of rounds below a chosen bucket to find its leaf.
    pub(super) leaf_tries: u32,
}

/// The result of one descent for one position.
enum Descent {
    Found(i32),
    /// The position is retried in the next round.
    Failed,
    /// The map is inconsistent on this path; the position stays empty.
    Dead,
}

impl Indep {
    /// Chooses items below `top` for all positions of `out`, and, if `leaves` is given, one device below
    /// each into `leaves`.
    pub(super) fn choose(
        &self,
        walk: &mut Walk<'_>,
        top: &Bucket,
        out: &mut [i32],
        leaves: Option<&mut [i32]>,
    ) {
        self.fill(walk, top, out, 0, leaves, 0);
    }

    /// Fills `out[from..]`.
    fn fill(
        &self,
        walk: &mut Walk<'_>,
        top: &Bucket,
        out: &mut [i32],
        from: usize,
        mut leaves: Option<&mut [i32]>,
        parent_r: i32,
    ) {
        out[from..].fill(ITEM_UNDEF);
        if let Some(leaves) = leaves.as_deref_mut() {
            leaves[from..].fill(ITEM_UNDEF);
        }
        let mut left = out.len() - from;
        let mut round = 0;
        'rounds: while left > 0 && round < self.tries {
            for place in from..out.len() {
                if out[place] != ITEM_UNDEF {
                    continue;
                }
                if walk.spend(0).is_none() {
                    break 'rounds;
                }
                let at = Place { place, from, round, parent_r };
                let item = match self.descend(walk, top, out, &at, leaves.as_deref_mut()) {
                    Descent::Found(item) => item,
                    Descent::Failed => continue,
                    Descent::Dead => {
                        if let Some(leaves) = leaves.as_deref_mut() {
                            leaves[place] = ITEM_NONE;
                        }
                        ITEM_NONE
                    }
                };
                out[place] = item;
                left -= 1;
            }
            round += 1;
        }
        let undecided = |item: &&mut i32| **item == ITEM_UNDEF;
        out[from..].iter_mut().filter(undecided).for_each(|item| *item = ITEM_NONE);
        if let Some(leaves) = leaves {
            leaves[from..].iter_mut().filter(undecided).for_each(|item| *item = ITEM_NONE);
        }
    }

    fn descend(
        &self,
        walk: &mut Walk<'_>,
        top: &Bucket,
        out: &[i32],
        at: &Place,
        leaves: Option<&mut [i32]>,
    ) -> Descent {
        let map = walk.map;
        let mut bucket = top;
        loop {
            if bucket.items.is_empty() {
                return Descent::Failed;
            }
            let r = self.r_for(bucket, at);
            let drawn = walk.draw(bucket, r.cast_unsigned(), at.from);
            let Some((item, kind)) = drawn.and_then(|item| Some((item, walk.kind_of(item)?))) else {
                return Descent::Dead;
            };
            if kind != self.kind {
                match map.bucket(item) {
                    Some(below) => bucket = below,
                    None => return Descent::Dead,
                }
                continue;
            }
            if out[at.from..].contains(&item) {
                return Descent::Failed;
            }
            if leaves.is_some_and(|leaves| !self.reach_leaf(walk, item, leaves, at.place, r)) {
                return Descent::Failed;
            }
            if kind == 0 && walk.is_out(item) {
                return Descent::Failed;
            }
            return Descent::Found(item);
        }
    }

    /// Returns the number of the draw. It depends on the position, also in the descent to a leaf, so
    /// that two positions with the same bucket tend to get different items below it.
    fn r_for(&self, bucket: &Bucket, at: &Place) -> i32 {
        // If the number of positions divides the length of the permutation, the stride is one larger, so
        // that each round visits other items.
        let divides = matches!(bucket.alg, BucketAlg::Uniform { .. })
            && bucket.items.len().is_multiple_of(self.numrep.saturating_as::<usize>());
        let stride = if divides { self.numrep.wrapping_add(1) } else { self.numrep };
        at.place
            .saturating_as::<i32>()
            .wrapping_add(at.parent_r)
            .wrapping_add(stride.wrapping_mul(at.round.cast_signed()))
    }

    /// Finds a device below a chosen bucket. A chosen device is its own leaf.
    fn reach_leaf(&self, walk: &mut Walk<'_>, item: i32, leaves: &mut [i32], place: usize, r: i32) -> bool {
        if item >= 0 {
            leaves[place] = item;
            return true;
        }
        let Some(bucket) = walk.map.bucket(item) else { return false };
        let below = Indep { numrep: self.numrep, kind: 0, tries: self.leaf_tries, leaf_tries: 0 };
        below.fill(walk, bucket, &mut leaves[..=place], place, None, r);
        leaves[place] != ITEM_NONE
    }
}

struct Place {
    place: usize,
    /// The first position that this call fills.
    from: usize,
    round: u32,
    parent_r: i32,
}
