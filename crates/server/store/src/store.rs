//! The traits that every store implements.

use std::sync::Arc;

use bytes::Bytes;
use loligo_wire::{Eversion, PgId};

use crate::{BatchListener, Fetch, Info, ObjectName, ObjectRef, OpRecord, StoreError, Transaction};

pub use loligo_wire::message::Data;

/// Names (or keys) and values, in order of the names.
pub type KeyValues = Vec<(Bytes, Bytes)>;

/// A set of collections with one capacity.
pub trait ObjectStore: Send + Sync {
    /// Opens the collection of a placement group; creates it if it does not exist. `listener` is
    /// notified when a transaction for which [`Collection::submit`] returned [`Commit::Pending`] is
    /// safe. It replaces the listener of an earlier call.
    fn open(&self, pg: PgId, listener: Arc<dyn CommitListener>) -> Result<Arc<dyn Collection>, StoreError>;

    /// Registers `listener` for batches of results that a thread of the store delivers together. A store
    /// that replies to every call at once has no such threads.
    fn on_batches(&self, listener: Arc<dyn BatchListener>) {
        drop(listener);
    }

    /// Removes a collection with all its objects, if it exists. An open handle to it is empty afterwards.
    fn remove(&self, pg: PgId) -> Result<(), StoreError>;

    /// Returns the existing collections, in order.
    fn collections(&self) -> Vec<PgId>;

    /// Returns how full the store is.
    fn statfs(&self) -> StatFs;
}

/// The objects of one placement group.
///
/// The caller ensures that at most one thread at a time calls [`submit`](Self::submit) and that
/// transaction versions increase. Any thread may call the other methods at any time.
pub trait Collection: Send + Sync {
    /// Returns the current state of an object, including every submitted transaction, committed or not.
    /// `None` if the object does not exist.
    fn object(&self, oid: ObjectRef<'_>) -> Fetch<Option<Arc<dyn ObjectView>>>;

    /// Completes when there is room for another transaction. A caller that can wait calls it before each
    /// transaction, so that submitted transactions do not accumulate faster than the store commits them.
    /// It reserves nothing; `submit` accepts a transaction in any case.
    fn room(&self) -> Fetch<()> {
        Fetch::Now(())
    }

    /// Applies a transaction. After an error nothing is changed.
    fn submit(&self, txn: Transaction<'_>) -> Result<Commit, StoreError>;

    /// Returns up to `max` objects starting at `from` (inclusive), in order. Fewer than `max` are
    /// returned only at the collection's end.
    fn list(&self, from: ObjectRef<'_>, max: usize) -> Fetch<Vec<ObjectName>>;

    /// Returns how much the collection holds.
    fn stats(&self) -> CollectionStats;

    /// Returns the version of the newest transaction; the zero version if there was none.
    fn version(&self) -> Eversion;

    /// Returns the records of the newest transactions that have one, oldest first. A restarted OSD uses
    /// them to reply to repeated operations. A store that loses everything at a restart has none.
    fn records(&self) -> Vec<OpRecord>;

    /// Reads an object's metadata again from the medium, without its data and its omap, bypassing
    /// memory. An error means that it cannot be read or differs from what was written. Metadata that has
    /// not reached the medium yet counts as correct, and so does everything in a store without a medium.
    fn verify(&self, oid: ObjectRef<'_>) -> Fetch<()> {
        let _ = oid;
        Fetch::Now(())
    }
}

/// How far a transaction got. The caller must check it before it replies: a pending transaction may
/// still be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// It is as safe as this store makes transactions.
    Done,
    /// It is visible. It is safe when the listener is notified of its version or of a later one.
    Pending,
}

/// Is notified when transactions that were [`Commit::Pending`] are safe. The calls come from a thread of
/// the store that holds no lock; they must not block.
pub trait CommitListener: Send + Sync {
    /// Every transaction of the collection up to this version is safe.
    fn committed(&self, version: Eversion);

    /// Same as `committed`, called when nothing else waits for the store: its thread has time to send
    /// the reply.
    fn committed_alone(&self, version: Eversion) {
        self.committed(version);
    }

    /// The store has stopped: pending transactions will never be safe.
    fn stopped(&self, error: &StoreError);
}

/// One object at one moment: later transactions are not visible. Drop it early: a store in memory copies
/// an object that is changed while a view of it exists.
pub trait ObjectView: Send + Sync {
    /// The object's size in bytes, holes included.
    fn size(&self) -> u64;

    /// The OSD's metadata of the object.
    fn info(&self) -> Info;

    /// Reads a range, clipped at the object's end. Holes read as zeros.
    fn read(&self, offset: u64, len: u64) -> Fetch<Data>;

    /// Reads the same bytes from the medium and checks them, even if they are in memory as well. The
    /// bytes are not added to a cache.
    fn verify(&self, offset: u64, len: u64) -> Fetch<Data> {
        self.read(offset, len)
    }

    /// The CRC-32C (begun with −1) of all the object's data, if [`Change::NoteCrc`] recorded it.
    ///
    /// [`Change::NoteCrc`]: crate::Change::NoteCrc
    fn crc(&self) -> Option<u32>;

    /// Returns the parts of a range that are not holes: offset and length, in order, none adjacent to
    /// the next.
    fn extents(&self, offset: u64, len: u64) -> Fetch<Vec<(u64, u64)>>;

    /// Returns the value of an extended attribute.
    fn xattr(&self, name: &[u8]) -> Fetch<Option<Bytes>>;

    /// Returns all extended attributes.
    fn xattrs(&self) -> Fetch<KeyValues>;

    /// The size in bytes of the names and values of all extended attributes.
    fn xattr_bytes(&self) -> u64 {
        0
    }

    /// Estimates the memory, in bytes, that a clone of the object takes at once: its attributes, and the
    /// part of its omap that is in memory.
    fn cloned_bytes(&self) -> u64 {
        self.xattr_bytes()
    }

    /// Returns the omap's header; empty if none was set.
    fn omap_header(&self) -> Fetch<Bytes>;

    /// Returns a part of the omap.
    fn omap_page(&self, range: OmapRange<'_>) -> Fetch<OmapPage>;

    /// Returns those of `keys` that the omap has, in order, with their values.
    fn omap_values(&self, keys: &[Bytes]) -> Fetch<KeyValues>;
}

/// Selects a part of an omap.
#[derive(Clone, Copy, Debug)]
pub struct OmapRange<'a> {
    /// Only keys after this one; `None` starts at the first.
    pub after: Option<&'a [u8]>,
    /// Only keys with this prefix.
    pub prefix: &'a [u8],
    /// The maximum number of keys.
    pub keys_max: usize,
    /// The page ends when keys and values reach this many bytes; the last pair may exceed it.
    pub bytes_max: usize,
}

/// A part of an omap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OmapPage {
    /// Keys and values, in order.
    pub pairs: KeyValues,
    /// Whether a limit cut the page short.
    pub more: bool,
}

/// How much a collection holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectionStats {
    /// The number of objects.
    pub objects: u64,
    /// The sum of their sizes in bytes, holes included.
    pub bytes: u64,
    /// Bytes that their data occupies in the store.
    pub bytes_allocated: u64,
    /// Bytes of omap keys, values and headers.
    pub omap_bytes: u64,
    /// The number of omap keys.
    pub omap_keys: u64,
}

impl std::ops::AddAssign for CollectionStats {
    fn add_assign(&mut self, other: Self) {
        self.objects += other.objects;
        self.bytes += other.bytes;
        self.bytes_allocated += other.bytes_allocated;
        self.omap_bytes += other.omap_bytes;
        self.omap_keys += other.omap_keys;
    }
}

/// How full a store is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFs {
    /// Bytes the store may use.
    pub total: u64,
    /// Bytes left.
    pub available: u64,
    /// The sums over all collections.
    pub stored: CollectionStats,
}
