//! The traits behind which stores stand.

use std::sync::Arc;

use bytes::Bytes;
use loligo_wire::{Eversion, PgId};

use crate::{BatchListener, Fetch, Info, ObjectName, ObjectRef, OpRecord, StoreError, Transaction};

pub use loligo_wire::message::Data;

/// Names (or keys) and values, in order of the names.
pub type KeyValues = Vec<(Bytes, Bytes)>;

/// A set of collections with one capacity.
pub trait ObjectStore: Send + Sync {
    /// Opens the collection of a placement group; makes it if it does not exist. `listener` is told of what
    /// [`Collection::submit`] left pending; it replaces the listener of an earlier call.
    fn open(&self, pg: PgId, listener: Arc<dyn CommitListener>) -> Result<Arc<dyn Collection>, StoreError>;

    /// Has `listener` told of answers that a thread of the store gives together. A store that answers every call
    /// at once has no such threads.
    fn on_batches(&self, listener: Arc<dyn BatchListener>) {
        drop(listener);
    }

    /// Removes a collection with everything in it, if it exists. Who has it open sees it empty afterwards.
    fn remove(&self, pg: PgId) -> Result<(), StoreError>;

    /// The collections there are, in order.
    fn collections(&self) -> Vec<PgId>;

    /// How full the store is.
    fn statfs(&self) -> StatFs;
}

/// The objects of one placement group.
///
/// The caller makes sure that at most one thread at a time calls [`submit`](Self::submit), and that its
/// transactions' versions grow; the other methods may be called by any thread at any time.
pub trait Collection: Send + Sync {
    /// An object as it is now: everything submitted is seen, committed or not. `None` if it does not exist.
    fn object(&self, oid: ObjectRef<'_>) -> Fetch<Option<Arc<dyn ObjectView>>>;

    /// When there is room for another transaction: whoever can wait asks before each, so that what is
    /// submitted does not gather faster than it is made safe. Nothing is reserved, and a transaction is taken
    /// in any case.
    fn room(&self) -> Fetch<()> {
        Fetch::Now(())
    }

    /// Does a transaction. An error means that nothing was done.
    fn submit(&self, txn: Transaction<'_>) -> Result<Commit, StoreError>;

    /// Up to `max` objects from `from` on (inclusive), in order; fewer than `max` only at the collection's
    /// end.
    fn list(&self, from: ObjectRef<'_>, max: usize) -> Fetch<Vec<ObjectName>>;

    /// How much there is.
    fn stats(&self) -> CollectionStats;

    /// The version of the newest transaction; the zero version if there was none.
    fn version(&self) -> Eversion;

    /// The records of the newest transactions that have one, oldest first: what a restarted OSD answers
    /// repetitions from. A store that forgets everything at a restart has none.
    fn records(&self) -> Vec<OpRecord>;

    /// Reads again what the medium says of an object, its data and its omap left out, past what is kept in
    /// memory. An error: it cannot be read, or is not what was written. What has not reached the medium yet
    /// is in order, and so is all in a store that has none.
    fn verify(&self, oid: ObjectRef<'_>) -> Fetch<()> {
        let _ = oid;
        Fetch::Now(())
    }
}

/// How far a transaction got. Whoever answers for it must look: what is pending may yet be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// It is as safe as this store makes it.
    Done,
    /// It is visible, and will be safe when the listener hears of its version or of a later one.
    Pending,
}

/// Hears when transactions that were [`Commit::Pending`] are safe. Called from a thread of the store that
/// holds no lock; must not block.
pub trait CommitListener: Send + Sync {
    /// Every transaction of the collection up to this version is safe.
    fn committed(&self, version: Eversion);

    /// The same, when nothing else waits for the store: its thread has time to give the answer.
    fn committed_alone(&self, version: Eversion) {
        self.committed(version);
    }

    /// The store has stopped: nothing that is pending will ever be safe.
    fn stopped(&self, error: &StoreError);
}

/// One object at one moment: no transaction submitted later shows. Dropping it early helps: a store in memory
/// copies what is changed while it is viewed.
pub trait ObjectView: Send + Sync {
    /// Bytes of data, holes included.
    fn size(&self) -> u64;

    /// What the OSD keeps about the object.
    fn info(&self) -> Info;

    /// The bytes of a range, as far as the object reaches; holes read as zeros.
    fn read(&self, offset: u64, len: u64) -> Fetch<Data>;

    /// The same bytes, read from the medium and checked even if they are kept in memory as well; nothing is
    /// kept of them.
    fn verify(&self, offset: u64, len: u64) -> Fetch<Data> {
        self.read(offset, len)
    }

    /// The CRC-32C (begun with −1) of all the object's data, if [`Change::NoteCrc`] said it.
    ///
    /// [`Change::NoteCrc`]: crate::Change::NoteCrc
    fn crc(&self) -> Option<u32>;

    /// The parts (offset and length, in order, none adjacent to the next) of a range that are not holes.
    fn extents(&self, offset: u64, len: u64) -> Fetch<Vec<(u64, u64)>>;

    /// The value of an extended attribute.
    fn xattr(&self, name: &[u8]) -> Fetch<Option<Bytes>>;

    /// All extended attributes.
    fn xattrs(&self) -> Fetch<KeyValues>;

    /// Bytes of the names and values of all extended attributes.
    fn xattr_bytes(&self) -> u64 {
        0
    }

    /// About how many bytes of memory a clone of the object takes at once: attributes, and of the omap what
    /// is in memory.
    fn cloned_bytes(&self) -> u64 {
        self.xattr_bytes()
    }

    /// The omap's header; empty if none was set.
    fn omap_header(&self) -> Fetch<Bytes>;

    /// A part of the omap.
    fn omap_page(&self, range: OmapRange<'_>) -> Fetch<OmapPage>;

    /// Of these keys, those that the omap has, in order, with their values.
    fn omap_values(&self, keys: &[Bytes]) -> Fetch<KeyValues>;
}

/// Which part of an omap is wanted.
#[derive(Clone, Copy, Debug)]
pub struct OmapRange<'a> {
    /// Only keys behind this one; `None` starts at the first.
    pub after: Option<&'a [u8]>,
    /// Only keys that begin so.
    pub prefix: &'a [u8],
    /// At most so many keys.
    pub keys_max: usize,
    /// Stops when keys and values reach this many bytes; the last pair may go beyond it.
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
    /// Objects.
    pub objects: u64,
    /// The sum of their sizes, holes included.
    pub bytes: u64,
    /// Bytes that their data takes in the store.
    pub bytes_allocated: u64,
    /// Bytes of omap keys, values and headers.
    pub omap_bytes: u64,
    /// Omap keys.
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
    /// Bytes it may use.
    pub total: u64,
    /// Bytes left.
    pub available: u64,
    /// What all collections hold.
    pub stored: CollectionStats,
}
