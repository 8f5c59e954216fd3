//! Buckets of a CRUSH map, and the algorithms by which a bucket chooses an item.

use az::{SaturatingAs as _, WrappingAs as _};

use super::hash::{hash32_3, hash32_3_each, hash32_4};
use super::ln::crush_ln;

/// An inner node of the hierarchy: a host, a rack, a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The bucket's id, a negative number.
    pub id: i32,
    /// The bucket's type: a key of the map's type names.
    pub kind: u16,
    /// The hash function for draws; 0 ("rjenkins1") is the only one defined.
    pub hash: u8,
    /// The sum of the items' weights, in 1/65536.
    pub weight: u32,
    /// The devices and buckets directly below this bucket.
    pub items: Vec<i32>,
    /// The algorithm that chooses among the items.
    pub alg: BucketAlg,
}

/// A bucket's choosing algorithm, with the weights (in 1/65536) in the form that it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BucketAlg {
    /// All items have the same weight; chooses by permutation, in constant time.
    Uniform {
        /// The weight of each item.
        item_weight: u32,
    },
    /// Tries the items from the last to the first. Moves little data when items are only added.
    List {
        /// Each item's weight.
        item_weights: Vec<u32>,
        /// For each item, the sum of the weights of the items up to and including it.
        sum_weights: Vec<u32>,
    },
    /// Descends a binary tree stored in order: odd nodes are leaves, and node `2i + 1` is item `i`.
    Tree {
        /// The weights of the tree's nodes, at most 255 of them.
        node_weights: Vec<u32>,
    },
    /// The item with the longest straw wins. Moves more data than necessary when weights change.
    Straw {
        /// Each item's weight.
        item_weights: Vec<u32>,
        /// Each item's straw length, which the map's creator computed from the weights.
        straws: Vec<u32>,
    },
    /// The item with the highest exponential draw wins: the algorithm of all current maps.
    Straw2 {
        /// Each item's weight.
        item_weights: Vec<u32>,
    },
}

impl BucketAlg {
    /// The algorithm's number (`CRUSH_BUCKET_*`).
    pub(super) fn code(&self) -> u8 {
        match self {
            Self::Uniform { .. } => 1,
            Self::List { .. } => 2,
            Self::Tree { .. } => 3,
            Self::Straw { .. } => 4,
            Self::Straw2 { .. } => 5,
        }
    }
}

impl Bucket {
    /// The weight of the item at `position`, in 1/65536.
    pub fn item_weight(&self, position: usize) -> Option<u32> {
        if position >= self.items.len() {
            return None;
        }
        match &self.alg {
            BucketAlg::Uniform { item_weight } => Some(*item_weight),
            BucketAlg::List { item_weights, .. }
            | BucketAlg::Straw { item_weights, .. }
            | BucketAlg::Straw2 { item_weights } => item_weights.get(position).copied(),
            BucketAlg::Tree { node_weights } => node_weights.get(2 * position + 1).copied(),
        }
    }

    /// Draws an item for input `x` and try `r`. Returns `None` if the bucket is empty or its parts are
    /// inconsistent, and for a uniform bucket, whose items the caller chooses by permutation.
    #[inline]
    pub(super) fn draw(&self, x: u32, r: u32, arg: Option<&ChooseArg>, position: usize) -> Option<i32> {
        match &self.alg {
            BucketAlg::Uniform { .. } => None,
            BucketAlg::List { item_weights, sum_weights } => self.draw_list(x, r, item_weights, sum_weights),
            BucketAlg::Tree { node_weights } => self.draw_tree(x, r, node_weights),
            BucketAlg::Straw { straws, .. } => self.draw_straw(x, r, straws),
            BucketAlg::Straw2 { item_weights } => self.draw_straw2(x, r, item_weights, arg, position),
        }
    }

    fn draw_list(&self, x: u32, r: u32, item_weights: &[u32], sum_weights: &[u32]) -> Option<i32> {
        let weights = item_weights.iter().zip(sum_weights);
        let items = self.items.iter().zip(weights).rev();
        for (&item, (&weight, &sum)) in items {
            let draw = u64::from(self.hash4(x, item.cast_unsigned(), r, self.id.cast_unsigned()) & 0xffff);
            if (draw * u64::from(sum)) >> 16 < u64::from(weight) {
                return Some(item);
            }
        }
        self.items.first().copied()
    }

    fn draw_tree(&self, x: u32, r: u32, node_weights: &[u32]) -> Option<i32> {
        let mut node = node_weights.len() >> 1;
        while node & 1 == 0 {
            if node == 0 {
                return None;
            }
            let weight = u64::from(*node_weights.get(node)?);
            let draw = (u64::from(self.hash4(x, node.saturating_as::<u32>(), r, self.id.cast_unsigned()))
                * weight)
                >> 32;
            let step = 1 << (node.trailing_zeros() - 1);
            let left = node - step;
            node = if draw < u64::from(*node_weights.get(left)?) { left } else { node + step };
        }
        self.items.get(node >> 1).copied()
    }

    fn draw_straw(&self, x: u32, r: u32, straws: &[u32]) -> Option<i32> {
        let mut best: Option<(u64, i32)> = None;
        for (&item, &straw) in self.items.iter().zip(straws) {
            let length = u64::from(self.hash3(x, item.cast_unsigned(), r) & 0xffff) * u64::from(straw);
            if best.is_none_or(|(longest, _)| length > longest) {
                best = Some((length, item));
            }
        }
        best.map(|(_, item)| item)
    }

    #[inline]
    fn draw_straw2(
        &self,
        x: u32,
        r: u32,
        item_weights: &[u32],
        arg: Option<&ChooseArg>,
        position: usize,
    ) -> Option<i32> {
        let weights = match arg.map(|arg| arg.weight_set.as_slice()) {
            Some([.., last]) if position >= arg?.weight_set.len() => last,
            Some(set @ [_, ..]) => &set[position],
            _ => item_weights,
        };
        let ids = arg.map(|arg| arg.ids.as_slice()).filter(|ids| !ids.is_empty()).unwrap_or(&self.items);

        let mut best = Best::default();
        let mut draw = |hashes: &[u32], from: usize| {
            for (i, &hash) in (from..).zip(hashes) {
                if let (Some(&item), Some(&weight)) = (self.items.get(i), weights.get(i)) {
                    best.offer(item, if weight == 0 { i64::MIN } else { exponential(hash, weight) });
                }
            }
        };
        let (eights, rest) = ids.as_chunks::<8>();
        for (i, ids) in eights.iter().enumerate() {
            draw(&self.hash3_each(x, &ids.map(i32::cast_unsigned), r), i * 8);
        }
        let mut last = [0; 8];
        last.iter_mut().zip(rest).for_each(|(place, id)| *place = id.cast_unsigned());
        draw(&self.hash3_each(x, &last, r)[..rest.len()], eights.len() * 8);
        best.item
    }

    #[inline]
    fn hash3(&self, a: u32, b: u32, c: u32) -> u32 {
        if self.hash == 0 { hash32_3(a, b, c) } else { 0 }
    }

    #[inline]
    fn hash3_each(&self, a: u32, b: &[u32; 8], c: u32) -> [u32; 8] {
        if self.hash == 0 { hash32_3_each(a, b, c) } else { [0; 8] }
    }

    fn hash4(&self, a: u32, b: u32, c: u32, d: u32) -> u32 {
        if self.hash == 0 { hash32_4(a, b, c, d) } else { 0 }
    }
}

/// The item with the highest draw so far; of equal draws, the first.
#[derive(Default)]
struct Best {
    item: Option<i32>,
    draw: i64,
}

impl Best {
    #[inline]
    fn offer(&mut self, item: i32, draw: i64) {
        if self.item.is_none() || draw > self.draw {
            *self = Self { item: Some(item), draw };
        }
    }
}

/// Returns the logarithm of a uniform draw, divided by the weight. The highest of these draws selects
/// each item in proportion to its weight, and a change of one weight moves only the data that this item
/// gains or loses.
#[inline]
fn exponential(hash: u32, weight: u32) -> i64 {
    let ln = crush_ln(hash.wrapping_as::<u16>()).cast_signed() - (1 << 48);
    // Ceph passes the weight as a signed int: weights in the upper half of the range are negative there,
    // and must be here.
    ln / i64::from(weight.cast_signed())
}

/// Replacement weights and ids of a straw2 bucket. An empty part replaces nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChooseArg {
    /// For each position in the placement, one weight per item. The last entry applies to all further
    /// positions.
    pub weight_set: Vec<Vec<u32>>,
    /// The values to hash instead of the items' ids.
    pub ids: Vec<i32>,
}
