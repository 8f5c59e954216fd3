//! The state that all choosing algorithms share: the input of the placement, draws from buckets, the
//! test for devices that are out, and the work bound.

use super::hash::{hash32_2, hash32_3};
use super::map::bucket_index;
use super::{Bucket, BucketAlg, ChooseArgs, CrushMap};

/// The maximum number of items that one placement examines. The most expensive legitimate placements
/// (wide erasure codes with hundreds of tries in roots of a thousand hosts) stay a factor of ten below.
/// A map constructed to be expensive costs a tenth of a second and yields an incomplete placement.
const WORK_MAX: u64 = 1 << 24;

/// Scratch memory for [`CrushMap::do_rule`]. A caller reuses it, so that placements allocate nothing
/// after the first few.
///
/// A workspace may be used with different maps.
#[derive(Debug, Default)]
pub struct Workspace {
    pub(super) result: Vec<i32>,
    /// Three vectors of the result's size; for a multi-step-retry rule, one for each step.
    pub(super) vectors: Vec<Vec<i32>>,
    permutations: Vec<Permutation>,
    /// Distinguishes permutations of earlier placements from those of the current one.
    generation: u64,
}

impl Workspace {
    /// Creates an empty workspace.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a placement: invalidates the permutations and clears the vectors.
    pub(super) fn start(&mut self, vectors: usize, result_max: usize, fill: i32) {
        self.generation += 1;
        if self.vectors.len() < vectors {
            self.vectors.resize_with(vectors, Vec::new);
        }
        for vector in &mut self.vectors[..vectors] {
            vector.clear();
            vector.resize(result_max, fill);
        }
        self.result.clear();
    }
}

/// The start of a random permutation of a bucket's items: the first `known` positions are final.
#[derive(Debug, Default)]
struct Permutation {
    generation: u64,
    known: u32,
    order: Vec<u32>,
}

/// One placement in progress.
pub(super) struct Walk<'a> {
    pub(super) map: &'a CrushMap,
    pub(super) x: u32,
    weights: &'a [u32],
    args: Option<&'a ChooseArgs>,
    permutations: &'a mut Vec<Permutation>,
    generation: u64,
    work_left: u64,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        map: &'a CrushMap,
        x: u32,
        weights: &'a [u32],
        args: Option<&'a ChooseArgs>,
        workspace: &'a mut Workspace,
    ) -> (Self, &'a mut Vec<Vec<i32>>, &'a mut Vec<i32>) {
        let Workspace { result, vectors, permutations, generation } = workspace;
        let walk = Self { map, x, weights, args, permutations, generation: *generation, work_left: WORK_MAX };
        (walk, vectors, result)
    }

    /// Draws an item from `bucket` for try `r`. Returns `None` if the bucket is empty or inconsistent,
    /// or if the work bound is reached.
    #[inline]
    pub(super) fn draw(&mut self, bucket: &Bucket, r: u32, position: usize) -> Option<i32> {
        if let BucketAlg::Uniform { .. } = bucket.alg {
            return self.permute(bucket, r);
        }
        self.spend(bucket.items.len())?;
        let arg = self.args.and_then(|args| args.0.get(&u32::try_from(bucket_index(bucket.id)?).ok()?));
        bucket.draw(self.x, r, arg, position)
    }

    /// Returns the item at position `r` (modulo the bucket's size) of the bucket's random permutation.
    pub(super) fn permute(&mut self, bucket: &Bucket, r: u32) -> Option<i32> {
        let size = u32::try_from(bucket.items.len()).ok()?;
        let place = r.checked_rem(size)?;
        let index = bucket_index(bucket.id)?;
        if self.permutations.len() <= index {
            self.spend(index)?;
            self.permutations.resize_with(index + 1, Permutation::default);
        }
        let fresh = self.permutations[index].generation != self.generation;
        self.spend(if fresh { bucket.items.len() } else { 1 })?;

        let permutation = &mut self.permutations[index];
        if fresh {
            permutation.generation = self.generation;
            permutation.known = 0;
            permutation.order.clear();
            permutation.order.extend(0..size);
        }
        while permutation.known <= place {
            let at = permutation.known;
            if at < size - 1 {
                let hash = if bucket.hash == 0 { hash32_3(self.x, bucket.id.cast_unsigned(), at) } else { 0 };
                permutation.order.swap(at as usize, (at + hash % (size - at)) as usize);
            }
            permutation.known += 1;
        }
        bucket.items.get(permutation.order[place as usize] as usize).copied()
    }

    /// Whether a device accepts no data for this input: its weight is 0, or the input falls into the
    /// fraction that a partial weight excludes.
    pub(super) fn is_out(&self, item: i32) -> bool {
        let weight = usize::try_from(item).ok().and_then(|i| self.weights.get(i)).copied().unwrap_or(0);
        match weight {
            0x1_0000.. => false,
            0 => true,
            partial => hash32_2(self.x, item.cast_unsigned()) & 0xffff >= partial,
        }
    }

    /// The type of an item: 0 for a device, the bucket's type for a bucket, `None` if the map does not
    /// contain the item.
    #[inline]
    pub(super) fn kind_of(&self, item: i32) -> Option<i32> {
        if item >= 0 {
            return (item < self.map.max_devices).then_some(0);
        }
        self.map.bucket(item).map(|bucket| i32::from(bucket.kind))
    }

    /// Charges `items` items and one step to the placement's work bound. Once the bound is reached,
    /// every further charge fails. Every loop of a walk charges in each iteration and ends when the
    /// charge fails.
    #[inline]
    pub(super) fn spend(&mut self, items: usize) -> Option<()> {
        match self.work_left.checked_sub(items as u64 + 1) {
            Some(left) => self.work_left = left,
            None => {
                self.work_left = 0;
                return None;
            }
        }
        Some(())
    }
}
