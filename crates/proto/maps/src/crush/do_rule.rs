//! Executes a CRUSH rule.

use az::SaturatingAs as _;

use super::firstn::Firstn;
use super::indep::Indep;
use super::map::bucket_index;
use super::msr;
use super::walk::Walk;
use super::{ChooseArgs, CrushMap, ITEM_UNDEF, Rule, Step, StepOp, Workspace};

impl CrushMap {
    /// Maps input `x` to at most `result_max` devices with rule number `rule`. A hole that an
    /// erasure-coded rule leaves is [`ITEM_NONE`](super::ITEM_NONE).
    ///
    /// `weights` gives, for each device, the fraction of its share that it accepts, from 0 (out) to
    /// 65536 (all). `args` are the weight sets to use, see [`CrushMap::choose_args_for`]. A rule that
    /// does not exist yields no devices.
    ///
    /// Costs about 30 ns per item of each straw2 bucket on the path. Allocates nothing once `workspace`
    /// has grown.
    pub fn do_rule<'w>(
        &self,
        rule: usize,
        x: u32,
        result_max: usize,
        weights: &[u32],
        args: Option<&ChooseArgs>,
        workspace: &'w mut Workspace,
    ) -> &'w [i32] {
        workspace.result.clear();
        let Some(rule) = self.rule(rule).filter(|_| result_max > 0) else { return &workspace.result };
        let vectors = if rule.kind.is_msr() { msr::vectors_needed(rule) } else { 3 };
        workspace.start(vectors, result_max, ITEM_UNDEF);
        let (walk, vectors, result) = Walk::new(self, x, weights, args, workspace);
        if rule.kind.is_msr() {
            msr::run(walk, rule, result_max, vectors, result);
        } else {
            run(walk, rule, result_max, vectors, result);
        }
        &workspace.result
    }
}

/// The parameters that a rule's `set_*` steps change.
struct Settings {
    choose_tries: u32,
    /// 0: not set; the default then depends on the kind of step.
    chooseleaf_tries: u32,
    local_retries: u32,
    local_fallback_retries: u32,
    vary_r: u32,
    stable: bool,
}

impl Settings {
    fn of(map: &CrushMap) -> Self {
        let tunables = &map.tunables;
        Self {
            // The tunable counts retries.
            choose_tries: tunables.choose_total_tries.wrapping_add(1),
            chooseleaf_tries: 0,
            local_retries: tunables.choose_local_tries,
            local_fallback_retries: tunables.choose_local_fallback_tries,
            vary_r: u32::from(tunables.chooseleaf_vary_r),
            stable: tunables.chooseleaf_stable != 0,
        }
    }

    fn set(&mut self, step: Step) {
        let Ok(value) = u32::try_from(step.arg1) else { return };
        match step.op {
            StepOp::SET_CHOOSE_TRIES if value > 0 => self.choose_tries = value,
            StepOp::SET_CHOOSELEAF_TRIES if value > 0 => self.chooseleaf_tries = value,
            StepOp::SET_CHOOSE_LOCAL_TRIES => self.local_retries = value,
            StepOp::SET_CHOOSE_LOCAL_FALLBACK_TRIES => self.local_fallback_retries = value,
            StepOp::SET_CHOOSELEAF_VARY_R => self.vary_r = value,
            StepOp::SET_CHOOSELEAF_STABLE => self.stable = value != 0,
            _ => {}
        }
    }
}

/// Executes a rule that is not a multi-step-retry rule. `vectors` holds at least three vectors of length
/// `result_max`.
fn run(mut walk: Walk<'_>, rule: &Rule, result_max: usize, vectors: &mut [Vec<i32>], result: &mut Vec<i32>) {
    let [from, to, leaves, ..] = vectors else { return };
    let mut chosen = 0; // number of items in `from` that the next step starts from
    let mut settings = Settings::of(walk.map);
    for step in &rule.steps {
        match step.op {
            StepOp::TAKE => {
                if walk.kind_of(step.arg1).is_some() {
                    from[0] = step.arg1;
                    chosen = 1;
                }
            }
            StepOp::CHOOSE_FIRSTN
            | StepOp::CHOOSE_INDEP
            | StepOp::CHOOSELEAF_FIRSTN
            | StepOp::CHOOSELEAF_INDEP => {
                if chosen > 0 {
                    chosen = choose(&mut walk, *step, &settings, &from[..chosen], to, leaves);
                    std::mem::swap(from, to);
                }
            }
            StepOp::EMIT => {
                let room = result_max - result.len();
                result.extend_from_slice(&from[..chosen.min(room)]);
                chosen = 0;
            }
            _ => settings.set(*step),
        }
    }
}

/// Executes one choosing step: chooses items below each of `from` and writes them to `to`. Returns their
/// number.
fn choose(
    walk: &mut Walk<'_>,
    step: Step,
    settings: &Settings,
    from: &[i32],
    to: &mut [i32],
    leaves: &mut [i32],
) -> usize {
    let wants_leaves = matches!(step.op, StepOp::CHOOSELEAF_FIRSTN | StepOp::CHOOSELEAF_INDEP);
    let is_firstn = matches!(step.op, StepOp::CHOOSE_FIRSTN | StepOp::CHOOSELEAF_FIRSTN);
    let numrep = match step.arg1 {
        n @ 1.. => n,
        n => n.saturating_add_unsigned(to.len().saturating_as::<u32>()),
    };
    if numrep <= 0 {
        return 0;
    }
    let firstn = firstn(walk.map, step, settings, numrep);
    let indep = Indep {
        numrep,
        kind: step.arg2,
        tries: settings.choose_tries,
        leaf_tries: settings.chooseleaf_tries.max(1),
    };

    let mut filled = 0;
    for &item in from {
        // Holes and devices have no items below them.
        let Some(bucket) = bucket_index(item).and_then(|_| walk.map.bucket(item)) else { continue };
        let out = &mut to[filled..];
        let leaves = wants_leaves.then_some(&mut leaves[filled..]);
        filled += if is_firstn {
            firstn.choose(walk, bucket, out, leaves)
        } else {
            let count = out.len().min(numrep.saturating_as::<usize>());
            indep.choose(walk, bucket, &mut out[..count], leaves.map(|leaves| &mut leaves[..count]));
            count
        };
    }
    if wants_leaves {
        to[..filled].copy_from_slice(&leaves[..filled]);
    }
    filled
}

fn firstn(map: &CrushMap, step: Step, settings: &Settings, numrep: i32) -> Firstn {
    let leaf_tries = match settings.chooseleaf_tries {
        0 if map.tunables.chooseleaf_descend_once != 0 => 1,
        0 => settings.choose_tries,
        tries => tries,
    };
    Firstn {
        numrep,
        kind: step.arg2,
        tries: settings.choose_tries,
        leaf_tries,
        local_retries: settings.local_retries,
        local_fallback_retries: settings.local_fallback_retries,
        vary_r: settings.vary_r,
        stable: settings.stable,
    }
}
