//! CRUSH: computes the location of a placement group's data from a description of the cluster.
//!
//! [`CrushMap`] is the description: a forest of [`Bucket`]s with devices as leaves, and [`Rule`]s that
//! define how to walk it. [`CrushMap::do_rule`] walks it. It is a pure function of the map, a rule, a
//! 32-bit input and the devices' weights. Every client and server of a cluster must compute the same
//! result, otherwise data is not found. This module implements every bucket algorithm, every rule step,
//! the tunables of all releases, `choose_args`, and the multi-step-retry rules of release 19.
//!
//! Sources are Ceph's `src/crush/` and the output of `crushtool`; a test compares with `crushtool` on
//! thousands of random maps. A hostile map can make Ceph follow a bucket that does not exist, walk a
//! cycle, or retry forever. Here such a placement ends with an unfilled position, because the work of
//! one placement is bounded.

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
