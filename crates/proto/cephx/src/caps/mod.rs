//! Capabilities: the rights of a key's owner, as text such as `allow rw pool=x namespace=y*`.
//!
//! [`OsdCaps`] are the rights on object storage, [`MonCaps`] the rights on monitors, and [`MdsCaps`] the
//! rights on file systems. All are parsed and checked as in Ceph: everything that no grant allows is
//! forbidden.

mod mds;
mod mon;
mod osd;
mod scan;

pub use mds::{FsAccess, FsCaller, FsTarget, MdsCaps, MdsGrant};
pub use mon::{Command, MonCaps, Perms};
pub use osd::{Access, ClassCall, OsdCaps, PoolCaps, PoolFacts};
pub use scan::{CapsError, Network};
