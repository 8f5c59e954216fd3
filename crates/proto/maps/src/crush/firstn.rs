//! The step `choose firstn`.

use az::SaturatingAs as _;

use super::Bucket;
use super::walk::Walk;

/// A choosing step whose failures leave no holes; used for replicated pools.
pub(super) struct Firstn {
    /// The number of positions to fill.
    pub(super) numrep: i32,
    /// The type of item to choose.
    pub(super) kind: i32,
    /// Maximum number of descents from the top for each position.
    pub(super) tries: u32,
    /// Maximum number of descents below a chosen bucket to find its leaf.
    pub(super) leaf_tries: u32,
    pub(super) local_retries: u32,
    pub(super) local_fallback_retries: u32,
    pub(super) vary_r: u32,
    pub(super) stable: bool,
}

/// The destination of results: up to `room` more items, after the `pos` items that are already there.
struct Output<'a> {
    items: &'a mut [i32],
    pos: usize,
    room: usize,
}

impl Firstn {
    /// Chooses items below `top` into `out`, and, if `leaves` is given, one device below each into
    /// `leaves`. Returns the number of items.
    pub(super) fn choose(
        &self,
        walk: &mut Walk<'_>,
        top: &Bucket,
        out: &mut [i32],
        leaves: Option<&mut [i32]>,
    ) -> usize {
        let room = out.len();
        self.fill(walk, top, Output { items: out, pos: 0, room }, leaves, 0)
    }

    /// Returns the position after the last result.
    fn fill(
        &self,
        walk: &mut Walk<'_>,
        top: &Bucket,
        mut out: Output<'_>,
        mut leaves: Option<&mut [i32]>,
        parent_r: i32,
    ) -> usize {
        let mut rep = if self.stable { 0 } else { out.pos.saturating_as::<i32>() };
        while rep < self.numrep && out.room > 0 && walk.spend(0).is_some() {
            if let Some(item) = self.place(walk, top, &out, leaves.as_deref_mut(), rep.wrapping_add(parent_r))
            {
                out.items[out.pos] = item;
                out.pos += 1;
                out.room -= 1;
            }
            rep += 1;
        }
        out.pos
    }

    /// Fills one position: descends from `top` until an item fits. Returns `None` when it gives up.
    fn place(
        &self,
        walk: &mut Walk<'_>,
        top: &Bucket,
        out: &Output<'_>,
        mut leaves: Option<&mut [i32]>,
        first_r: i32,
    ) -> Option<i32> {
        let map = walk.map;
        let mut bucket = top;
        let (mut failures, mut local_failures) = (0u32, 0u32);
        loop {
            walk.spend(0)?;
            let r = first_r.wrapping_add(failures.cast_signed());
            let mut collides = false;
            if !bucket.items.is_empty() {
                let item = self.pick(walk, bucket, r.cast_unsigned(), local_failures, out.pos)?;
                let kind = walk.kind_of(item)?;
                if kind != self.kind {
                    bucket = map.bucket(item)?;
                    continue;
                }
                collides = out.items[..out.pos].contains(&item);
                let fits = !collides
                    && leaves.as_deref_mut().is_none_or(|leaves| self.reach_leaf(walk, item, leaves, out, r))
                    && !(kind == 0 && walk.is_out(item));
                if fits {
                    return Some(item);
                }
            }

            failures = failures.wrapping_add(1);
            local_failures = local_failures.wrapping_add(1);
            let fallback_until =
                bucket.items.len().saturating_as::<u32>().wrapping_add(self.local_fallback_retries);
            let retry_here = collides && local_failures <= self.local_retries
                || self.local_fallback_retries > 0 && local_failures <= fallback_until;
            if !retry_here {
                if failures >= self.tries {
                    return None;
                }
                (bucket, local_failures) = (top, 0);
            }
        }
    }

    /// Draws an item. After many local failures it uses a permutation instead, which reaches every item.
    fn pick(
        &self,
        walk: &mut Walk<'_>,
        bucket: &Bucket,
        r: u32,
        local_failures: u32,
        position: usize,
    ) -> Option<i32> {
        let fallback = self.local_fallback_retries;
        let half = bucket.items.len().saturating_as::<u32>() >> 1;
        if fallback > 0 && local_failures >= half && local_failures > fallback {
            walk.permute(bucket, r)
        } else {
            walk.draw(bucket, r, position)
        }
    }

    /// Finds a device below a chosen bucket. A chosen device is its own leaf.
    fn reach_leaf(
        &self,
        walk: &mut Walk<'_>,
        item: i32,
        leaves: &mut [i32],
        out: &Output<'_>,
        r: i32,
    ) -> bool {
        if item >= 0 {
            leaves[out.pos] = item;
            return true;
        }
        let Some(bucket) = walk.map.bucket(item) else { return false };
        let below = Firstn {
            numrep: if self.stable { 1 } else { out.pos.saturating_as::<i32>() + 1 },
            kind: 0,
            tries: self.leaf_tries,
            leaf_tries: 0,
            ..*self
        };
        let sub_r = if self.vary_r == 0 { 0 } else { r.wrapping_shr(self.vary_r - 1) };
        let leaf = Output { items: leaves, pos: out.pos, room: out.room };
        below.fill(walk, bucket, leaf, None, sub_r) > out.pos
    }
}
