//! An inode, and what this client knows of it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use loligo_lockstat::{Class, Mutex, MutexGuard};
use loligo_rados::Errno;
use loligo_wire::message::mds::FilePath;
use loligo_wire::{Caps, Ino, SnapId};
use tokio::sync::Notify;

use super::attrs::Attrs;
use super::caps::{CapSet, Trust};

/// Held for the time of looking at an inode or changing what is known of it; never while waiting.
static INODE: Class = Class::new("fs.inode");

/// What identifies an inode: its number, and the snapshot if it is one of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct InodeId {
    pub(crate) ino: Ino,
    pub(crate) snap: SnapId,
}

impl InodeId {
    /// The inode as it is now.
    pub(crate) fn head(ino: Ino) -> Self {
        Self { ino, snap: SnapId::HEAD }
    }

    /// Returns `true` for what can be changed: it is not of a snapshot.
    pub(crate) fn is_head(self) -> bool {
        self.snap == SnapId::HEAD
    }

    /// Returns `true` for the directory of snapshots of a directory.
    pub(crate) fn is_snap_dir(self) -> bool {
        self.snap == SnapId::DIR
    }
}

/// A file, directory, link or device.
pub(crate) struct Inode {
    pub(crate) id: InodeId,
    /// How requests name it: by its number, or, in a snapshot, by the path below the directory that has
    /// the snapshot.
    pub(crate) address: FilePath,
    known: Mutex<Known>,
    /// Something has changed that an operation may wait for.
    pub(crate) changed: Notify,
}

/// What is known of an inode.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) attrs: Attrs,
    pub(crate) caps: CapSet,
    /// In a snapshot nothing changes: what was read once is known for ever.
    pub(crate) of_snapshot: Caps,
    /// The snapshot realm.
    pub(crate) realm: Ino,
    /// A directory's entries that are known.
    pub(crate) entries: BTreeMap<Vec<u8>, Entry>,
    /// The largest size for which room was asked.
    pub(crate) asked_max: u64,
    /// Requests that the metadata server has carried out and not made durable.
    pub(crate) unconfirmed: u32,
    /// A failure that no caller has heard of; the next fsync or close reports it.
    pub(crate) failed: Option<Errno>,
    /// A directory and a name in it by which the inode was found.
    pub(crate) found_in: Option<(InodeId, Vec<u8>)>,
}

/// A name in a directory, as a server told it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) id: InodeId,
    /// The server's promise to tell of a change; none if the directory's Fs is one.
    pub(crate) lease: Option<Lease>,
}

/// A server's promise about a name.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    /// Until when it holds, by the client's clock.
    pub(crate) until_ms: u64,
    /// The generation of the session that it was given in.
    pub(crate) generation: u32,
    pub(crate) trust: Arc<Trust>,
}

impl Lease {
    fn holds(&self, now_ms: u64) -> bool {
        now_ms < self.until_ms && self.generation == self.trust.generation()
    }
}

impl Inode {
    pub(super) fn new(id: InodeId, address: FilePath) -> Arc<Self> {
        let known = Known { realm: Ino::ROOT, ..Known::default() };
        Arc::new(Self { id, address, known: Mutex::new(&INODE, known), changed: Notify::new() })
    }

    /// Locks what is known.
    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    /// Returns the address of an entry of this directory.
    pub(crate) fn address_of(&self, name: &[u8]) -> FilePath {
        let Self { id, address, .. } = self;
        let path = match (id.is_head(), id.is_snap_dir()) {
            (true, _) => name.to_vec(),
            // The empty name before it is that of the directory of snapshots.
            (_, true) => [b"/", name].concat(),
            _ => [&address.path[..], b"/", name].concat(),
        };
        FilePath { base: address.base, path }
    }

    /// Returns the mode's file type bits.
    pub(crate) fn kind(&self) -> u32 {
        self.known().attrs.mode & mode::TYPE
    }

    /// Returns `true` for a directory.
    pub(crate) fn is_dir(&self) -> bool {
        self.kind() == mode::DIRECTORY
    }
}

impl fmt::Debug for Inode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "inode {} of snapshot {}", self.id.ino, self.id.snap)
    }
}

/// Bits of modes.
pub(crate) mod mode {
    pub(crate) const TYPE: u32 = 0o170_000;
    pub(crate) const DIRECTORY: u32 = 0o040_000;
    pub(crate) const REGULAR: u32 = 0o100_000;
    pub(crate) const SYMLINK: u32 = 0o120_000;
    pub(crate) const PERMISSIONS: u32 = 0o7777;

    /// Returns the mode of a new file: its type and the permissions.
    pub(crate) fn regular(permissions: u32) -> u32 {
        REGULAR | (permissions & PERMISSIONS)
    }
}

impl Known {
    /// Returns what may be relied on now.
    pub(crate) fn issued(&self, now_ms: u64) -> Caps {
        self.caps.issued(now_ms) | self.of_snapshot
    }

    /// Returns a directory's entry, if it may be relied on.
    pub(crate) fn entry(&self, name: &[u8], now_ms: u64) -> Option<InodeId> {
        let entry = self.entries.get(name)?;
        let valid = match &entry.lease {
            Some(lease) => lease.holds(now_ms),
            None => self.issued(now_ms).contains(Caps::FILE_SHARED),
        };
        valid.then_some(entry.id)
    }

    /// Forgets the entries that only the directory's Fs vouches for.
    pub(crate) fn forget_entries(&mut self) {
        self.entries.retain(|_, entry| entry.lease.is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_in_snapshots_are_addressed_from_the_directory_that_has_them() {
        let dir = Inode::new(InodeId::head(Ino(16)), FilePath { base: Ino(16), path: Vec::new() });
        assert_eq!(dir.address_of(b"a").path, b"a");
        let snaps = Inode::new(InodeId { ino: Ino(16), snap: SnapId::DIR }, dir.address.clone());
        let snap = snaps.address_of(b"yesterday");
        assert_eq!((snap.base, &snap.path[..]), (Ino(16), &b"/yesterday"[..]));
        let snap = Inode::new(InodeId { ino: Ino(16), snap: SnapId(4) }, snap);
        assert_eq!(snap.address_of(b"b").path, b"/yesterday/b");
    }

    #[test]
    fn entries_are_relied_on_by_lease_or_by_capability() {
        let mut known = Known::default();
        let id = InodeId::head(Ino(5));
        let trust = Arc::new(Trust::default());
        let lease = Some(Lease { until_ms: 100, generation: 0, trust: Arc::clone(&trust) });
        known.entries.insert(b"leased".to_vec(), Entry { id, lease });
        known.entries.insert(b"held".to_vec(), Entry { id, lease: None });
        assert_eq!(known.entry(b"leased", 99), Some(id));
        assert_eq!(known.entry(b"leased", 100), None);
        trust.end_generation();
        assert_eq!(known.entry(b"leased", 99), None, "given before the session grew stale");
        assert_eq!(known.entry(b"held", 0), None, "Fs is not held");
        known.of_snapshot = Caps::FILE_SHARED;
        assert_eq!(known.entry(b"held", 0), Some(id));
        known.forget_entries();
        assert_eq!(known.entry(b"held", 0), None);
    }
}
