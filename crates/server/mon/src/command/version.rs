//! The version that daemons report, and the epoch of the election.

use crate::output::json::Node;

/// Our version string, where Ceph prints `ceph version …`.
pub(super) const VERSION: &str =
    concat!("loligo version ", env!("CARGO_PKG_VERSION"), " (as ceph version 16.2, pacific)");

/// The epoch after one election with a single candidate.
pub(super) const ELECTION_EPOCH: u32 = 3;

pub(super) fn object_of_version(count: u32) -> Node {
    Node::map((count > 0).then_some((VERSION, count)))
}
