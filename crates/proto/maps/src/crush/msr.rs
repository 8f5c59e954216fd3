//! Multi-step-retry rules (release 19): all steps between a take and an emit are retried together, so
//! that a failed step can change the choices of the steps before it.
//!
//! The first step of a block divides the block's positions into as many strides as it chooses items; the
//! next step divides each stride again. Different strides must use different items. One stride may use
//! more than one item, if the first has an unusable device. The items in use are recorded for every step
//! and position.

use az::SaturatingAs as _;

use super::walk::Walk;
use super::{Bucket, ITEM_NONE, ITEM_UNDEF, Rule, RuleKind, Step, StepOp};

/// Maximum number of choosing steps in a block. Real rules have one for each level of the hierarchy;
/// more would only deepen the recursion.
const STEPS_MAX: usize = 64;

/// The number of vectors of the result's size that [`run`] needs: one for each choosing step of the
/// longest block.
pub(super) fn vectors_needed(rule: &Rule) -> usize {
    let longest =
        rule.steps.chunk_by(|a, b| a.op == StepOp::CHOOSE_MSR && b.op == StepOp::CHOOSE_MSR).map(<[_]>::len);
    longest.max().unwrap_or(0).min(STEPS_MAX)
}

/// Executes a rule. A malformed rule yields no devices.
pub(super) fn run(
    mut walk: Walk<'_>,
    rule: &Rule,
    result_max: usize,
    vectors: &mut [Vec<i32>],
    result: &mut Vec<i32>,
) {
    let mut limits = Limits {
        descents: walk.map.tunables.msr_descents,
        collision_tries: walk.map.tunables.msr_collision_tries,
    };
    let blocks = limits.configure(&rule.steps);
    result.resize(result_max, ITEM_NONE);
    let mut out = Output { in_order: rule.kind == RuleKind::MSR_FIRSTN, items: result, returned: 0 };
    let valid = run_blocks(&mut walk, &limits, blocks, vectors, &mut out);
    match (valid, out.in_order) {
        (None, _) => out.items.clear(),
        (Some(()), true) => out.items.truncate(out.returned),
        (Some(()), false) => {}
    }
}

/// Limits on retries.
struct Limits {
    descents: u32,
    collision_tries: u32,
}

impl Limits {
    /// Applies the settings at the start of the rule, and returns the remaining steps.
    fn configure<'a>(&mut self, steps: &'a [Step]) -> &'a [Step] {
        let mut rest = steps;
        while let Some((step, tail)) = rest.split_first() {
            match step.op {
                StepOp::SET_MSR_DESCENTS => self.descents = step.arg1.cast_unsigned(),
                StepOp::SET_MSR_COLLISION_TRIES => self.collision_tries = step.arg1.cast_unsigned(),
                _ => break,
            }
            rest = tail;
        }
        rest
    }
}

/// The destination of results: consecutive entries, or each item at its position.
struct Output<'a> {
    in_order: bool,
    items: &'a mut Vec<i32>,
    returned: usize,
}

impl Output<'_> {
    fn emit(&mut self, position: usize, item: i32) {
        let place = if self.in_order { self.returned } else { position };
        if let Some(slot) = self.items.get_mut(place) {
            *slot = item;
            self.returned += 1;
        }
    }
}

/// Executes the rule's blocks. Returns `None` if the rule is malformed.
fn run_blocks(
    walk: &mut Walk<'_>,
    limits: &Limits,
    mut steps: &[Step],
    vectors: &mut [Vec<i32>],
    out: &mut Output<'_>,
) -> Option<()> {
    let result_max = out.items.len();
    let mut start = 0;
    while let Some((take, tail)) = steps.split_first().filter(|(take, _)| take.op == StepOp::TAKE) {
        let choosing = tail.iter().position(|step| step.op == StepOp::EMIT)?;
        let (choose, rest) = tail.split_at(choosing);
        steps = &rest[1..];
        if choose.iter().any(|step| step.op != StepOp::CHOOSE_MSR) || choose.len() > STEPS_MAX {
            return None;
        }
        if take.arg1 >= 0 {
            choose.is_empty().then_some(())?;
            out.emit(start, take.arg1);
            start += 1;
            continue;
        }
        let root = walk.map.bucket(take.arg1).filter(|_| !choose.is_empty())?;
        let descendants =
            choose.iter().try_fold(1u32, |all, step| all.checked_mul(fan_out(step, result_max)?))?;
        let end = result_max.min(start.saturating_add(descendants as usize));
        for vector in vectors.iter_mut() {
            vector.fill(ITEM_UNDEF);
        }
        let mut block = Block { walk, limits, result_max, out, descent: 0 };
        block.run(root, descendants, start..end, choose, vectors);
        start = end;
    }
    steps.is_empty().then_some(())
}

/// The number of strides into which a step divides its positions. `None` for a negative number, which no
/// rule compiler generates.
fn fan_out(step: &Step, result_max: usize) -> Option<u32> {
    match step.arg1 {
        0 => u32::try_from(result_max).ok(),
        n => u32::try_from(n).ok(),
    }
}

type Places = std::ops::Range<usize>;

/// A block in execution: a take, its choosing steps and the emit.
struct Block<'b, 'w, 'o> {
    walk: &'b mut Walk<'w>,
    limits: &'b Limits,
    result_max: usize,
    out: &'b mut Output<'o>,
    /// The number of the current descent from the top.
    descent: u32,
}

impl Block<'_, '_, '_> {
    fn run(
        &mut self,
        root: &Bucket,
        descendants: u32,
        places: Places,
        steps: &[Step],
        used: &mut [Vec<i32>],
    ) {
        let enough = self.out.returned + places.len();
        while self.descent < self.limits.descents && self.out.returned < enough {
            if self.walk.spend(0).is_none() {
                return;
            }
            self.choose(root, descendants, places.clone(), steps, used);
            self.descent += 1;
        }
    }

    /// Fills the empty positions of `places`, which represent `descendants` items below `bucket`.
    /// Returns the number of positions filled.
    fn choose(
        &mut self,
        bucket: &Bucket,
        descendants: u32,
        places: Places,
        steps: &[Step],
        used: &mut [Vec<i32>],
    ) -> usize {
        let Some(((step, below), strides)) =
            steps.split_first().zip(steps.first().and_then(|step| fan_out(step, self.result_max)))
        else {
            return 0;
        };
        let stride_len = (descendants / strides).max(1);
        let mut mapped = 0;
        // The items that a stride tried in vain are released only at the end. Until then other strides
        // collide with them, which limits the changes that one unusable device causes in the other
        // strides.
        let mut undo = Vec::new();
        for (index, first) in places.clone().step_by(stride_len as usize).enumerate() {
            let stride = first..places.end.min(first.saturating_add(stride_len as usize));
            let leaves = &used[steps.len() - 1];
            if !leaves[stride.clone()].contains(&ITEM_UNDEF) {
                continue;
            }
            let Some(item) = self.draw(bucket, step.arg2, index, &used[0], &places, &stride) else {
                continue;
            };
            if step.arg2 == 0 {
                let last = below.is_empty() && stride_len == 1;
                if last && !self.walk.is_out(item) {
                    push(&mut used[0][stride], item);
                    self.out.emit(first, item);
                    mapped += 1;
                }
                continue;
            }
            let Some(child) = self.walk.map.bucket(item).filter(|_| !below.is_empty()) else { continue };
            let found = self.choose(child, stride_len, stride.clone(), below, &mut used[1..]);
            if push(&mut used[0][stride.clone()], item) && found == 0 {
                undo.push(stride);
            } else {
                mapped += found;
            }
        }
        for stride in undo {
            pop(&mut used[0][stride]);
        }
        mapped
    }

    /// Draws until the item is not in use by another stride. Returns `None` if every try collides.
    fn draw(
        &mut self,
        bucket: &Bucket,
        kind: i32,
        index: usize,
        used: &[i32],
        places: &Places,
        stride: &Places,
    ) -> Option<i32> {
        for collision in 0..self.limits.collision_tries {
            let item = self.descend(bucket, kind, index, collision)?;
            let taken = places.clone().find(|&place| used[place] == item);
            if taken.is_none_or(|place| stride.contains(&place)) {
                return Some(item);
            }
        }
        None
    }

    /// Descends to a device or to a bucket of type `kind`.
    fn descend(&mut self, top: &Bucket, kind: i32, index: usize, collision: u32) -> Option<i32> {
        let map = self.walk.map;
        let total = self
            .descent
            .wrapping_mul(self.result_max.saturating_as::<u32>())
            .wrapping_add(index.saturating_as::<u32>());
        let r = (total << 16).wrapping_add(collision);
        let mut bucket = top;
        loop {
            let item = self.walk.draw(bucket, r, index)?;
            if item >= 0 {
                return Some(item);
            }
            bucket = map.bucket(item)?;
            if i32::from(bucket.kind) == kind {
                return Some(item);
            }
        }
    }
}

/// Records that a stride uses `item`. Returns `true` if it was not recorded before.
fn push(stride: &mut [i32], item: i32) -> bool {
    for used in stride {
        if *used == item {
            return false;
        }
        if *used == ITEM_UNDEF {
            *used = item;
            return true;
        }
    }
    false
}

/// Removes the last recorded item of a stride.
fn pop(stride: &mut [i32]) {
    if let Some(last) = stride.iter_mut().rev().find(|used| **used != ITEM_UNDEF) {
        *last = ITEM_UNDEF;
    }
}
