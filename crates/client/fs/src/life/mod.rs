//! The life of a mount beside its sessions: what it counts, what it waits for, what it may remember, and
//! how it goes on after the cluster has shut this client out.

mod barrier;
mod blocked;
mod fragments;
mod instances;
mod metrics;
mod pass;
mod standing;
mod waits;

pub(crate) use self::barrier::Barrier;
pub(crate) use self::fragments::Fragments;
pub(crate) use self::instances::Instances;
pub(crate) use self::metrics::{Held as HeldNow, KINDS as METRICS, Metrics, thread_number};
pub(crate) use self::standing::Standing;
