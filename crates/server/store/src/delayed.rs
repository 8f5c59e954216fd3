//! A store that commits after an added delay: it simulates a slow disk in measurements and tests.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use std::{io, thread};

use loligo_wire::{Eversion, PgId};

use crate::{
    BatchListener, Collection, CollectionStats, Commit, CommitListener, Fetch, ObjectName, ObjectRef,
    ObjectStore, ObjectView, OpRecord, StatFs, StoreError, Transaction,
};

/// Wraps another store and reports each transaction as safe a fixed time after the other store did.
/// Transactions do not wait for each other: the delay is the same however many there are.
///
/// Reads are not delayed.
pub struct Delayed {
    inner: Arc<dyn ObjectStore>,
    timer: Timer,
}

/// A queue of commit notifications, in order of their due times, since all have the same delay. It holds
/// the transactions in flight, whose number the OSD bounds.
#[derive(Clone)]
struct Timer {
    delay: Duration,
    due: mpsc::Sender<Due>,
}

struct Due {
    at: Instant,
    listener: Arc<dyn CommitListener>,
    version: Eversion,
}

impl Delayed {
    /// Wraps `inner` and delays each commit by `delay`.
    ///
    /// # Errors
    /// The system's error if the thread cannot be created.
    pub fn new(inner: Arc<dyn ObjectStore>, delay: Duration) -> io::Result<Self> {
        let (due, wanted) = mpsc::channel::<Due>();
        thread::Builder::new().name("store-delay".to_owned()).spawn(move || report(wanted))?;
        Ok(Self { inner, timer: Timer { delay, due } })
    }
}

/// Reports each commit when it is due. Ends when the last sender is dropped.
fn report(wanted: impl IntoIterator<Item = Due>) {
    for Due { at, listener, version } in wanted {
        thread::sleep(at.saturating_duration_since(Instant::now()));
        listener.committed(version);
    }
}

impl Timer {
    fn set(&self, listener: &Arc<dyn CommitListener>, version: Eversion) {
        let due = Due { at: Instant::now() + self.delay, listener: Arc::clone(listener), version };
        // The receiving thread lives as long as a sender exists.
        let _ = self.due.send(due);
    }
}

impl ObjectStore for Delayed {
    fn open(&self, pg: PgId, listener: Arc<dyn CommitListener>) -> Result<Arc<dyn Collection>, StoreError> {
        let timer = self.timer.clone();
        let late = LateListener { listener: Arc::clone(&listener), timer: timer.clone() };
        let inner = self.inner.open(pg, Arc::new(late))?;
        Ok(Arc::new(DelayedCollection { inner, listener, timer }))
    }

    fn on_batches(&self, listener: Arc<dyn BatchListener>) {
        self.inner.on_batches(listener);
    }

    fn remove(&self, pg: PgId) -> Result<(), StoreError> {
        self.inner.remove(pg)
    }

    fn collections(&self) -> Vec<PgId> {
        self.inner.collections()
    }

    fn statfs(&self) -> StatFs {
        self.inner.statfs()
    }
}

/// Listens to the inner store's commits and forwards them after the delay.
struct LateListener {
    listener: Arc<dyn CommitListener>,
    timer: Timer,
}

impl CommitListener for LateListener {
    fn committed(&self, version: Eversion) {
        self.timer.set(&self.listener, version);
    }

    fn stopped(&self, error: &StoreError) {
        self.listener.stopped(error);
    }
}

struct DelayedCollection {
    inner: Arc<dyn Collection>,
    listener: Arc<dyn CommitListener>,
    timer: Timer,
}

impl Collection for DelayedCollection {
    fn object(&self, oid: ObjectRef<'_>) -> Fetch<Option<Arc<dyn ObjectView>>> {
        self.inner.object(oid)
    }

    fn room(&self) -> Fetch<()> {
        self.inner.room()
    }

    fn submit(&self, txn: Transaction<'_>) -> Result<Commit, StoreError> {
        let version = txn.version;
        if self.inner.submit(txn)? == Commit::Done {
            self.timer.set(&self.listener, version);
        }
        Ok(Commit::Pending)
    }

    fn list(&self, from: ObjectRef<'_>, max: usize) -> Fetch<Vec<ObjectName>> {
        self.inner.list(from, max)
    }

    fn stats(&self) -> CollectionStats {
        self.inner.stats()
    }

    fn version(&self) -> Eversion {
        self.inner.version()
    }

    fn records(&self) -> Vec<OpRecord> {
        self.inner.records()
    }

    fn verify(&self, oid: ObjectRef<'_>) -> Fetch<()> {
        self.inner.verify(oid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryStore;
    use crate::{Change, Info, ObjectChanges};
    use loligo_wire::{Epoch, PoolId};
    use smallvec::smallvec;

    struct Heard(mpsc::Sender<(Eversion, Instant)>);

    impl CommitListener for Heard {
        fn committed(&self, version: Eversion) {
            let _ = self.0.send((version, Instant::now()));
        }

        fn stopped(&self, _: &StoreError) {}
    }

    /// The delays run side by side: each commit is due `DELAY` after its own transaction.
    #[test]
    fn each_transaction_is_reported_later_and_none_waits_for_another() {
        const DELAY: Duration = Duration::from_millis(50);
        let (due, wanted) = mpsc::channel();
        let inner = Arc::new(MemoryStore::new(1 << 20));
        let store = Delayed { inner, timer: Timer { delay: DELAY, due } };
        let (tell, heard) = mpsc::channel();
        let pg = PgId { pool: PoolId(1), seed: 0 };
        let collection = store.open(pg, Arc::new(Heard(tell))).expect("a collection");
        let mut all = Vec::new();
        for number in 1..=10 {
            let version = Eversion { epoch: Epoch(1), version: number };
            let name = format!("o{number}");
            let oid = ObjectRef::head(number as u32, name.as_bytes());
            let info = Info { version, user_version: number, ..Info::default() };
            let changes = smallvec![Change::WriteFull { data: "x".into() }];
            let objects = smallvec![ObjectChanges { oid, info, changes }];
            let before = Instant::now();
            let commit = collection.submit(Transaction { version, objects, record: None });
            assert_eq!(commit.expect("done"), Commit::Pending);
            let after = Instant::now();
            let due = wanted.try_recv().expect("the commit is to be reported");
            assert!((before + DELAY..=after + DELAY).contains(&due.at), "transaction {number}");
            all.push(due);
        }
        assert_eq!(collection.version().version, 10, "it is visible at once");
        assert!(heard.try_recv().is_err(), "nothing is reported early");
        let due: Vec<_> = all.iter().map(|due| due.at).collect();
        report(all);
        let told: Vec<_> = heard.try_iter().collect();
        assert!(told.iter().map(|(version, _)| version.version).eq(1..=10), "each once and in order");
        assert!(told.iter().zip(due).all(|((_, at), due)| *at >= due), "none before it is due");
    }
}
