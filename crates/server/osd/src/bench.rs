//! `ceph tell osd.N bench`: how fast the store takes writes.

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

/// What is written.
#[derive(Clone, Copy, Debug)]
pub struct Bench {
    /// Bytes in all.
    pub bytes: u64,
    /// Bytes of a request.
    pub size: u64,
    /// How large objects become.
    pub object_size: u64,
    /// How many objects there are; 0: as many as there are requests.
    pub objects: u64,
}

/// Where it is written: no pool has this number, so that no client sees it.
const PLACE: PgId = PgId { pool: PoolId(i64::MAX), seed: 0 };
/// Objects are written over and over, so that a bench never needs more room than this.
const ROOM: u64 = 128 << 20;

/// Hears of what the store has left pending.
struct Listener(Sender<Result<Eversion, String>>);

impl CommitListener for Listener {
    fn committed(&self, version: Eversion) {
        // Who waited may have given up.
        let _ = self.0.send(Ok(version));
    }

    fn stopped(&self, error: &StoreError) {
        let _ = self.0.send(Err(error.to_string()));
    }
}

/// Says that nothing is measured any more.
struct Measuring<'a>(&'a AtomicBool);

impl Drop for Measuring<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Osd {
    /// Writes, waits until all of it is safe, and takes it away again. Returns how long that took; `None`:
    /// another bench is under way. Takes its time: not for a thread that serves clients.
    ///
    /// # Errors
    /// The store does not take the writes.
    pub fn bench(&self, bench: &Bench) -> Result<Option<Duration>, StoreError> {
        if self.benching.swap(true, Ordering::Acquire) {
            return Ok(None);
        }
        let _measuring = Measuring(&self.benching);
        // What a run before the last end of the process has left.
        self.store().remove(PLACE)?;
        let (tell, told) = channel();
        let place = self.store().open(PLACE, Arc::new(Listener(tell)))?;
        let began = Instant::now();
        let written = write(&*place, bench, &told);
        let took = began.elapsed();
        self.store().remove(PLACE)?;
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
