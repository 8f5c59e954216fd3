//! Object stores: what an OSD keeps its placement groups in.
//!
//! An [`ObjectStore`] holds [`Collection`]s, one for each placement group. A collection holds objects in the
//! order in which Ceph lists them ([`ObjectRef`]); an object has data, extended attributes and an ordered
//! key-value map with a header ("omap"). What changes is said in a [`Transaction`], which happens wholly or
//! not at all; what is read is read from an [`ObjectView`], which no later transaction changes.
//!
//! A store may answer at once or later, and one trait serves both: a store in memory answers every call with
//! [`Fetch::Now`] and [`Commit::Done`]; a store on disk answers the same way when it has what is asked for in
//! memory, and else with [`Fetch::Later`] and [`Commit::Pending`]. The memory store is
//! [`memory::MemoryStore`], the one on disk the crate `loligo-store-disk`; [`Delayed`] makes any store slow.
//!
//! What this crate refuses to do: it knows no connections, no maps, no capabilities and no meaning of an
//! operation. The caller serialises the transactions of one collection (a collection is a sequencer);
//! different collections never wait for each other.
#![deny(unsafe_code)]

mod batch;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod delayed;
mod error;
mod fetch;
mod guard;
mod info;
pub mod memory;
mod oid;
mod store;
mod transaction;

pub use batch::{BatchListener, BatchListeners};
pub use delayed::Delayed;
pub use error::StoreError;
pub use fetch::{Completer, Fetch, Later};
pub use guard::guarded;
pub use info::Info;
pub use oid::{NameTooLong, ObjectName, ObjectRef};
pub use store::{
    Collection, CollectionStats, Commit, CommitListener, Data, KeyValues, ObjectStore, ObjectView, OmapPage,
    OmapRange, StatFs,
};
pub use transaction::{Change, ObjectChanges, OpRecord, Transaction, is_own};

/// The largest object that a store keeps, in bytes. Far above Ceph's own limit (`osd_max_object_size`, 128
/// MiB by default), which the OSD enforces; this one keeps a store's arithmetic in bounds whatever it is
/// asked.
pub const OBJECT_BYTES_MAX: u64 = 1 << 32;
