//! CRUSH rules and their steps.

/// The purpose of a rule (`CRUSH_RULE_TYPE_*`). For the multi-step-retry kinds it also determines how
/// the rule executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleKind(pub u8);

impl RuleKind {
    /// For replicated pools.
    pub const REPLICATED: Self = Self(1);
    /// For erasure-coded pools.
    pub const ERASURE: Self = Self(3);
    /// Multi-step retry; results are consecutive.
    pub const MSR_FIRSTN: Self = Self(4);
    /// Multi-step retry; each result keeps its position.
    pub const MSR_INDEP: Self = Self(5);

    /// Whether rules of this kind retry all their steps together.
    pub fn is_msr(self) -> bool {
        matches!(self, Self::MSR_FIRSTN | Self::MSR_INDEP)
    }
}

/// A placement rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The rule's purpose.
    pub kind: RuleKind,
    /// The smallest pool size that the rule supports. Ignored since release 17, where it is always 1.
    pub min_size: u8,
    /// The largest pool size that the rule supports. Ignored since release 17, where it is always 100.
    pub max_size: u8,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One step of a rule. Unused arguments are kept, so that a decoded map encodes to the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The operation.
    pub op: StepOp,
    /// An item, a count or a setting. A count of 0 means the pool's size; −n means n fewer than the pool's
    /// size.
    pub arg1: i32,
    /// In choosing steps, the type of the items to choose.
    pub arg2: i32,
}

/// An operation of a rule (`CRUSH_RULE_*` in `src/crush/crush.h`). Unknown operations have no effect, as
/// in Ceph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StepOp(pub u32);

impl StepOp {
    /// No effect.
    pub const NOOP: Self = Self(0);
    /// Starts at an item.
    pub const TAKE: Self = Self(1);
    /// Chooses items; failures are left out of the result.
    pub const CHOOSE_FIRSTN: Self = Self(2);
    /// Chooses items; failures leave holes in the result.
    pub const CHOOSE_INDEP: Self = Self(3);
    /// Appends the chosen items to the result.
    pub const EMIT: Self = Self(4);
    /// Chooses buckets and one device below each; failures are left out of the result.
    pub const CHOOSELEAF_FIRSTN: Self = Self(6);
    /// Chooses buckets and one device below each; failures leave holes in the result.
    pub const CHOOSELEAF_INDEP: Self = Self(7);
    /// Overrides the number of tries from the top, if positive.
    pub const SET_CHOOSE_TRIES: Self = Self(8);
    /// Overrides the number of tries below a chosen bucket, if positive.
    pub const SET_CHOOSELEAF_TRIES: Self = Self(9);
    /// Overrides the tunable `choose_local_tries`, unless negative.
    pub const SET_CHOOSE_LOCAL_TRIES: Self = Self(10);
    /// Overrides the tunable `choose_local_fallback_tries`, unless negative.
    pub const SET_CHOOSE_LOCAL_FALLBACK_TRIES: Self = Self(11);
    /// Overrides the tunable `chooseleaf_vary_r`, unless negative.
    pub const SET_CHOOSELEAF_VARY_R: Self = Self(12);
    /// Overrides the tunable `chooseleaf_stable`, unless negative.
    pub const SET_CHOOSELEAF_STABLE: Self = Self(13);
    /// Overrides the tunable `msr_descents`; only at the start of a multi-step-retry rule.
    pub const SET_MSR_DESCENTS: Self = Self(14);
    /// Overrides the tunable `msr_collision_tries`; only at the start of a multi-step-retry rule.
    pub const SET_MSR_COLLISION_TRIES: Self = Self(15);
    /// Chooses items in a multi-step-retry rule.
    pub const CHOOSE_MSR: Self = Self(16);

    /// Creates a step with the argument `arg1`.
    pub const fn with(self, arg1: i32) -> Step {
        Step { op: self, arg1, arg2: 0 }
    }

    /// Creates a step that chooses `n` items of type `kind`.
    pub const fn choose(self, n: i32, kind: i32) -> Step {
        Step { op: self, arg1: n, arg2: kind }
    }
}
