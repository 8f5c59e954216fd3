//! CRUSH: where the data of a placement group goes, computed from a description of the cluster.
//!
//! [`CrushMap`] is the description: a forest of [`Bucket`]s with devices as leaves, and [`Rule`]s that say
//! how to walk it. [`CrushMap::do_rule`] walks it: a pure function of the map, a rule, a 32-bit input and the
//! devices' weights, the same on every client and server of a cluster, or data is not found. Every bucket
//! algorithm, every rule step, the tunables of all releases, `choose_args`, and the multi-step-retry rules of
//! release 19 are here.
//!
//! The facts come from `src/crush/` of Ceph and from what `crushtool` answers; a test compares with
//! `crushtool` on thousands of random maps. What a hostile map could make Ceph do (follow a bucket that does
//! not exist, walk a cycle, retry for ever) ends here with an unfilled place: a placement may only cost so
//! much.

mod bucket;
mod build;
mod classes;
mod codec;
mod do_rule;
mod firstn;
mod hash;
mod indep;
mod ln;
mod map;
mod msr;
mod place;
mod rule;
#[cfg(test)]
mod tests;
mod validate;
mod walk;
mod weight_set;

pub use bucket::{Bucket, BucketAlg, ChooseArg};
pub use build::CrushBuildError;
pub use hash::{hash32_1, hash32_2, hash32_3, hash32_4, hash32_5};
pub use map::{ChooseArgs, CrushMap, DEFAULT_CHOOSE_ARGS, ITEM_NONE, ITEM_UNDEF, Tunables};
pub use place::Location;
pub use rule::{Rule, RuleKind, Step, StepOp};
pub use walk::Workspace;
