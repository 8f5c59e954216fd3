//! Capabilities: what the holder of a key may do, as text such as `allow rw pool=x namespace=y*`.
//!
//! [`OsdCaps`] are those for object storage, [`MonCaps`] those for monitors. Both are read as Ceph reads
//! them, and check as Ceph does: what no grant allows is forbidden.

mod mon;
mod osd;
mod scan;

pub use mon::{Command, MonCaps, Perms};
pub use osd::{Access, ClassCall, OsdCaps, PoolCaps, PoolFacts};
pub use scan::{CapsError, Network};
