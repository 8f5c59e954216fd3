//! `ceph tell osd.N bench`: measures how fast the store accepts writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use loligo_store::{
    Change, Collection, Commit, CommitListener, Info, ObjectChanges, ObjectRef, StoreError, Transaction,
};
use loligo_wire::{Epoch, Eversion, PgId, PoolId};
use smallvec::smallvec;

use crate::Osd;

/// The parameters of a bench.
#[derive(Clone, Copy, Debug)]
pub struct Bench {
    /// Total bytes to write.
    pub bytes: u64,
    /// Bytes of each write.
    pub size: u64,
    /// Size of each object.
    pub object_size: u64,
    /// Number of objects, at most as many as fit in 128 MiB; 0 means one for each write.
    pub objects: u64,
}

/// The placement group of the bench's objects: no pool has this number, so clients do not see them.
const PLACE: PgId = PgId { pool: PoolId(i64::MAX), seed: 0 };
/// Maximum bytes of all objects; beyond it objects are overwritten.
const ROOM: u64 = 128 << 20;

/// Forwards the store's commit notifications.
struct Listener(Sender<Result<Eversion, String>>);

impl CommitListener for Listener {
    fn committed(&self, version: Eversion) {
        // The receiver may have given up.
        let _ = self.0.send(Ok(version));
    }

    fn stopped(&self, error: &StoreError) {
        let _ = self.0.send(Err(error.to_string()));
    }
}

/// Clears the `benching` flag when dropped.
struct Measuring<'a>(&'a AtomicBool);

impl Drop for Measuring<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Osd {
    /// Writes, waits until all writes are committed, and removes the objects again. Returns how long the
    /// writing took, or `None` if another bench is running. Blocks: must not run on a thread that serves
    /// clients.
    ///
    /// # Errors
    /// The store refused a write.
    pub fn bench(&self, bench: &Bench) -> Result<Option<Duration>, StoreError> {
        if self.benching.swap(true, Ordering::Acquire) {
            return Ok(None);
        }
        let _measuring = Measuring(&self.benching);
        // Removes leftovers of a bench during which the process ended.
        let store = self.store();
        store.remove(PLACE)?;
        let (tell, told) = channel();
        let place = store.open(PLACE, Arc::new(Listener(tell)))?;
        let began = Instant::now();
        let written = write(&*place, bench, &told);
        let took = began.elapsed();
        store.remove(PLACE)?;
        written.map(|()| Some(took))
    }
}

fn write(
    place: &dyn Collection,
    bench: &Bench,
    told: &Receiver<Result<Eversion, String>>,
) -> Result<(), StoreError> {
    let size = bench.size.min(bench.bytes).max(1);
    let data = Bytes::from(vec![b'a'; usize::try_from(size).unwrap_or(usize::MAX)]);
    let objects_max = (ROOM / bench.object_size.max(1)).max(1);
    let objects = if bench.objects == 0 { objects_max } else { bench.objects.min(objects_max) };
    let slots = (bench.object_size / size).max(1);
    let (mut version, mut pending) = (Eversion::default(), false);
    for number in 0..bench.bytes.div_ceil(size) {
        version = Eversion { epoch: Epoch(1), version: number + 1 };
        let name = format!("bench_{}", number % objects);
        let offset = number / objects % slots * size;
        let changes = ObjectChanges {
            oid: ObjectRef::head(0, name.as_bytes()),
            info: Info { version, ..Info::default() },
            changes: smallvec![Change::Write { offset, data: data.clone() }],
        };
        let txn = Transaction { version, objects: smallvec![changes], record: None };
        pending = place.submit(txn)? == Commit::Pending;
    }
    while pending && told.recv().is_ok_and(|told| told.is_ok_and(|safe| safe < version)) {}
    Ok(())
}
