//! Object stores: the storage behind an OSD's placement groups.
//!
//! An [`ObjectStore`] holds [`Collection`]s, one for each placement group. A collection holds objects in
//! Ceph's listing order ([`ObjectRef`]). An object has data, extended attributes and an ordered
//! key-value map with a header ("omap"). A [`Transaction`] describes changes and is applied completely
//! or not at all. An [`ObjectView`] gives read access to one object; later transactions do not change it.
//!
//! One trait serves stores that reply at once and stores that reply later. A store in memory replies to
//! every call with [`Fetch::Now`] and [`Commit::Done`]. A store on disk does the same if it has the data
//! in memory, and otherwise replies with [`Fetch::Later`] and [`Commit::Pending`]. The memory store is
//! [`memory::MemoryStore`]; the disk store is the crate `loligo-store-disk`. [`Delayed`] adds a commit
//! latency to any store.
//!
//! The crate knows nothing about connections, maps, capabilities or the meaning of an operation. The
//! caller serialises the transactions of one collection (a collection is a sequencer); different
//! collections never wait for each other.
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

pub use batch::{BatchListener, Batches};
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

/// The largest object that a store keeps, in bytes. It is far above Ceph's own limit
/// (`osd_max_object_size`, 128 MiB by default), which the OSD enforces. This limit keeps a store's
/// arithmetic in bounds for any request.
pub const OBJECT_BYTES_MAX: u64 = 1 << 32;
