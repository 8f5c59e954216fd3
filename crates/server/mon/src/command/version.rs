//! What all say who are asked for their version, and of the election that there never was.

use crate::output::json::Node;

/// What we call ourselves where Ceph prints `ceph version …`.
pub(super) const VERSION: &str =
    concat!("loligo version ", env!("CARGO_PKG_VERSION"), " (as ceph version 16.2, pacific)");

/// There was one election, which one candidate won.
pub(super) const ELECTION_EPOCH: u32 = 3;

pub(super) fn object_of_version(count: u32) -> Node {
    Node::map((count > 0).then_some((VERSION, count)))
}
