//! Goal: after any fault, acknowledged transactions are present and complete, others are present
//! completely or not at all, and nothing else is present. Method: random transactions run on a simulated
//! machine and on a naive model that keeps every version. The seed determines when the power fails or a
//! call fails. After the restart each collection must be at one of its versions, not older than the newest
//! acknowledged one, and equal to the model of that version.
//!
//! `LOLIGO_STORE_SEEDS` is the number of seeds, `LOLIGO_STORE_SEED` the first one.

mod capacity;
mod clones;
mod conformance;
mod files;
mod fsck;
mod lost;
mod nonsense;
mod order;
mod reads;
mod start;

use std::env;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};

use bytes::Bytes;
use loligo_lockstat::{Class, Mutex};
use loligo_store::conformance::{ALL, Models, apply, check_all, check_view, wait};
use loligo_store::{
    Change, Collection, CommitListener, Fetch, Info, ObjectChanges, ObjectRef, ObjectStore, OpRecord,
    StoreError, Transaction,
};
use loligo_wire::{Epoch, Eversion, PgId, PoolId, SnapId, Tid, UTime, Uuid};
use smallvec::{SmallVec, smallvec};

use super::backend::Backend;
use super::backend::sim::{At, Machine, Plan};
use super::config::{DiskConfig, OpenError, SmallWrites};
use super::store::DiskStore;

static ACKED: Class = Class::new("test.acked");

const PGS: u32 = 2;
const CAPACITY: u64 = 4 << 20;
const JOURNAL: u64 = 256 << 10;
/// Room for some of the blocks, so that others are evicted.
const CACHE: usize = 400 << 10;

fn seeds() -> std::ops::Range<u64> {
    let number = |name, default| env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let first = number("LOLIGO_STORE_SEED", 0);
    first..first + number("LOLIGO_STORE_SEEDS", 60)
}

struct Rng(u64);

impl Rng {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0xd134_2543_de82_ef95) | 1)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn data(&mut self) -> Bytes {
        let len = match self.below(10) {
            0 => 64 << 10,
            1 => (64 << 10) + self.below(100_000),
            2 => 4096,
            3..=5 => self.below(20_000),
            _ => self.below(3000),
        };
        let seed = self.below(256) as u8;
        (0..len).map(|i| (i as u8).wrapping_mul(31) ^ seed ^ (i >> 8) as u8).collect()
    }

    fn short(&mut self) -> Bytes {
        let len = self.below(3) as usize;
        (0..len).map(|_| self.one_of(b"\0abc")).collect()
    }

    fn oid(&mut self) -> ObjectRef<'static> {
        let hash = self.one_of(&[0, 2, 0x8000_0000]);
        let snap = self.one_of(&[SnapId::HEAD, SnapId::HEAD, SnapId(1)]);
        ObjectRef { snap, ..ObjectRef::head(hash, self.one_of(&[&b"a"[..], b"b"])) }
    }

    fn change(&mut self) -> Change<'static> {
        let offset = |rng: &mut Self| match rng.below(3) {
            0 => rng.below(40) * 4096,
            _ => rng.below(150_000),
        };
        match self.below(22) {
            0 => Change::Create,
            1 => Change::Remove,
            2..=8 => Change::Write { offset: offset(self), data: self.data() },
            9 | 10 => Change::WriteFull { data: self.data() },
            11 => Change::NoteCrc { crc: self.below(99) as u32 },
            12 => Change::Zero { offset: offset(self), len: self.below(50_000) },
            13 => Change::Truncate { size: offset(self) },
            14 => Change::CloneFrom { source: self.oid() },
            15 => Change::SetXattr { name: self.short(), value: self.short() },
            16 => Change::RemoveXattr { name: self.short() },
            17 => {
                Change::SetOmap { pairs: (0..self.below(6)).map(|_| (self.short(), self.short())).collect() }
            }
            18 => Change::RemoveOmap { keys: (0..self.below(4)).map(|_| self.short()).collect() },
            19 => Change::RemoveOmapRange { from: self.short(), until: self.short() },
            20 if self.below(2) == 0 => Change::ClearXattrs,
            20 => Change::ClearOmap,
            _ => Change::SetOmapHeader { header: self.short() },
        }
    }

    fn transaction(&mut self, version: u64) -> Transaction<'static> {
        let version = Eversion { epoch: Epoch(3), version };
        let info = Info {
            version,
            user_version: version.version,
            mtime: UTime { sec: 7, nsec: 0 },
            has_omap: version.version & 1 != 0,
            whiteout: version.version & 2 != 0,
            has_snaps: version.version & 4 != 0,
            watched: version.version & 8 != 0,
            ..Info::default()
        };
        let objects = (0..1 + self.below(2)).map(|_| ObjectChanges {
            oid: self.oid(),
            info,
            changes: (0..1 + self.below(3)).map(|_| self.change()).collect::<SmallVec<_>>(),
        });
        let record = OpRecord { client: 4, tid: Tid(version.version), version, ..OpRecord::default() };
        Transaction { version, objects: objects.collect(), record: Some(record) }
    }
}

/// Records the newest safe version.
struct Listener {
    acked: Mutex<u64>,
    news: mpsc::Sender<()>,
}

impl CommitListener for Listener {
    fn committed(&self, version: Eversion) {
        let mut acked = self.acked.lock();
        assert!(version.version > *acked, "acknowledgements go forward");
        *acked = version.version;
        let _ = self.news.send(());
    }

    fn stopped(&self, _: &StoreError) {
        let _ = self.news.send(());
    }
}

/// A collection with its expected contents.
struct Pg {
    id: PgId,
    collection: Arc<dyn Collection>,
    listener: Arc<Listener>,
    news: mpsc::Receiver<()>,
    /// The contents after each version, from the version at which the store was opened.
    history: Vec<(u64, Models)>,
}

impl Pg {
    fn open(store: &DiskStore, seed: u32, history: Vec<(u64, Models)>) -> Result<Self, StoreError> {
        let (sender, news) = mpsc::channel();
        let acked = history.last().map_or(0, |(version, _)| *version);
        let listener = Arc::new(Listener { acked: Mutex::new(&ACKED, acked), news: sender });
        let id = PgId { pool: PoolId(1), seed };
        let collection = store.open(id, listener.clone())?;
        Ok(Self { id, collection, listener, news, history })
    }

    fn version(&self) -> u64 {
        self.history.last().map_or(0, |(version, _)| *version)
    }

    fn submit(&mut self, rng: &mut Rng) -> Result<(), StoreError> {
        let txn = rng.transaction(self.version() + 1);
        let mut models = self.history.last().map(|(_, models)| models.clone()).unwrap_or_default();
        txn.objects.iter().for_each(|object| apply(&mut models, object));
        let version = txn.version.version;
        match self.collection.submit(txn) {
            // Nothing is applied. The journal is small: some transactions are too large for it.
            Err(StoreError::Full { .. } | StoreError::TooLarge { .. }) => Ok(()),
            Err(e) => {
                // It may be applied all the same.
                self.history.push((version, models));
                Err(e)
            }
            Ok(_) => {
                self.history.push((version, models));
                Ok(())
            }
        }
    }

    fn wait(&self) {
        while *self.listener.acked.lock() < self.version() {
            self.news.recv().expect("the listener lives");
        }
    }

    fn acked(&self) -> u64 {
        *self.listener.acked.lock()
    }

    /// Checks that the found state is that of one version; returns the history up to it.
    fn check(self, store: &DiskStore, what: &str) -> Vec<(u64, Models)> {
        let (acked, last) = (self.acked(), self.version());
        let found = Self::open(store, self.id.seed, self.history).expect("the store works");
        let version = found.collection.version().version;
        assert!(
            (acked..=last).contains(&version),
            "{what}: version {version}, acknowledged {acked}, submitted {last}"
        );
        let mut history = found.history;
        history.retain(|(v, _)| *v <= version);
        let nothing = Models::new();
        let models = history.last().map_or(&nothing, |(_, models)| models);
        check_all(&*found.collection, models, &format!("{what}, {} at {version}", self.id));
        let records = found.collection.records();
        assert_eq!(records.last().map_or(0, |record| record.tid.0), version, "{what}");
        history
    }
}

fn config() -> DiskConfig {
    DiskConfig {
        fsid: Uuid([1; 16]),
        store: None,
        capacity: Some(CAPACITY),
        journal_bytes: JOURNAL,
        cache_bytes: CACHE,
        io_uring: true,
        small_writes: SmallWrites::ByLoad,
    }
}

fn open(machine: &Machine) -> Result<DiskStore, OpenError> {
    // With half of the seeds, small writes take the path for many concurrent writes.
    let small_writes =
        if machine.seed().is_multiple_of(2) { SmallWrites::ToPlace } else { SmallWrites::ByLoad };
    DiskStore::open_on(Arc::new(machine.clone()), DiskConfig { small_writes, ..config() })
}

fn open_all(store: &DiskStore, histories: Vec<Vec<(u64, Models)>>) -> Result<Vec<Pg>, StoreError> {
    histories.into_iter().zip(0..).map(|(history, seed)| Pg::open(store, seed, history)).collect()
}

/// Submits random transactions, waits for some, and runs checkpoints.
fn load(store: &DiskStore, pgs: &mut [Pg], rng: &mut Rng, count: u64) -> Result<(), StoreError> {
    for _ in 0..count {
        let pg = rng.below(PGS.into()) as usize;
        pgs[pg].submit(rng)?;
        if rng.below(12) == 0 {
            store.core().signals.want_checkpoint();
        }
    }
    Ok(())
}

#[test]
fn transactions_do_what_they_say() {
    for seed in seeds().take(20) {
        let mut rng = Rng::new(seed);
        let machine = Machine::new(seed, 64 << 20);
        let store = open(&machine).expect("a new store");
        let mut pgs = open_all(&store, vec![Vec::new(); PGS as usize]).expect("works");
        let mut old_views = Vec::new();
        for _ in 0..10 {
            load(&store, &mut pgs, &mut rng, 8).expect("works");
            for pg in &pgs {
                let Some((_, models)) = pg.history.last() else { continue };
                check_all(&*pg.collection, models, &format!("seed {seed}"));
                for (name, model) in models {
                    let view =
                        wait(pg.collection.object(name.as_ref())).expect("readable").expect("it exists");
                    old_views.push((view, model.clone()));
                }
            }
            if rng.below(3) == 0 {
                old_views.iter().for_each(|(view, model)| {
                    check_view(&**view, model, &format!("seed {seed}: an old view"))
                });
                old_views.clear();
            }
        }
        pgs.iter().for_each(Pg::wait);
        old_views
            .iter()
            .for_each(|(view, model)| check_view(&**view, model, &format!("seed {seed}: an old view")));
        drop(old_views);
        store.close();
        assert_eq!(store.why_stopped().as_deref(), Some("the store was closed"), "seed {seed}");
        let again = open(&machine.restarted()).expect("a closed store");
        for pg in pgs {
            pg.check(&again, &format!("seed {seed}, closed and opened"));
        }
    }
}

#[test]
fn what_was_acknowledged_survives_a_loss_of_power() {
    for seed in seeds() {
        let mut rng = Rng::new(seed);
        let mut machine = Machine::new(seed, 64 << 20);
        let mut histories = vec![Vec::new(); PGS as usize];
        for life in 0..4 {
            let what = format!("seed {seed}, life {life}");
            let soft = rng.below(4) == 0;
            let off_at = 1 + if life == 0 { rng.below(150) } else { rng.below(60) };
            machine.plan(Plan { power_off_at: (!soft).then_some(off_at), ..Plan::default() });
            let mut pgs = Vec::new();
            if let Ok(store) = open(&machine) {
                if let Ok(opened) = open_all(&store, histories.clone()) {
                    pgs = opened;
                    let count = 5 + rng.below(60);
                    let _ = load(&store, &mut pgs, &mut rng, count);
                    if rng.below(2) == 0 && store.why_stopped().is_none() {
                        store.close();
                    }
                }
                if soft {
                    machine = machine.restarted();
                }
            }
            machine.power_cycle();
            let store = open(&machine).unwrap_or_else(|e| panic!("{what}: {e}"));
            if pgs.is_empty() {
                pgs = open_all(&store, histories).expect("works");
            }
            histories = pgs.into_iter().map(|pg| pg.check(&store, &what)).collect();
        }
    }
}

#[test]
fn a_call_that_fails_stops_the_store_and_loses_nothing() {
    for seed in seeds() {
        let mut rng = Rng::new(seed ^ 0x5555);
        let machine = Machine::new(seed, 64 << 20);
        drop(open(&machine).expect("a new store"));
        let machine = machine.restarted();
        let error =
            rng.one_of(&[io::ErrorKind::Other, io::ErrorKind::StorageFull, io::ErrorKind::UnexpectedEof]);
        machine.plan(Plan { fail_at: Some(rng.below(120)), error: Some(error), ..Plan::default() });
        let Ok(store) = open(&machine) else { continue };
        let Ok(mut pgs) = open_all(&store, vec![Vec::new(); PGS as usize]) else { continue };
        let _ = load(&store, &mut pgs, &mut rng, 60);
        drop(store);
        let what = format!("seed {seed}, after {} calls", machine.calls());
        machine.power_cycle();
        let store = open(&machine).unwrap_or_else(|e| panic!("{what}: {e}"));
        for pg in pgs {
            pg.check(&store, &what);
        }
    }
}

fn one(version: u64, name: &'static [u8], change: Change<'static>) -> Transaction<'static> {
    let version = Eversion { epoch: Epoch(1), version };
    let oid = ObjectRef::head(0, name);
    let changes = smallvec![change];
    Transaction {
        version,
        objects: smallvec![ObjectChanges { oid, info: Info::default(), changes }],
        record: None,
    }
}

#[test]
fn a_flipped_bit_is_an_error_that_names_object_and_offset() {
    let machine = Machine::new(1, 64 << 20);
    let store = open(&machine).expect("a new store");
    let pg = Pg::open(&store, 0, Vec::new()).expect("works");
    let data: Bytes = (0..40_000u32).map(|i| (i % 251) as u8 ^ (i >> 12) as u8).collect();
    pg.collection.submit(one(1, b"bad", Change::WriteFull { data: data.clone() })).expect("room");
    pg.collection.submit(one(2, b"good", Change::WriteFull { data: data.clone() })).expect("room");
    drop(store);
    let machine = machine.restarted();
    let contents = machine.contents("data");
    let at = contents
        .windows(4096)
        .position(|w| w == &data[20_480..24_576])
        .expect("the sixth block of an object") as u64;
    machine.flip("data", at + 7, 2);
    let store = open(&machine).expect("the map is whole");
    let pg = Pg::open(&store, 0, Vec::new()).expect("works");
    let view =
        |name| wait(pg.collection.object(ObjectRef::head(0, name))).expect("readable").expect("it exists");
    let results = [b"bad".as_slice(), b"good"].map(|name| wait(view(name).read(0, u64::MAX)));
    let bad = results.iter().filter_map(|r| r.as_ref().err()).collect::<Vec<_>>();
    let [StoreError::BadData { offset: 20_480, what }] = bad[..] else { panic!("{results:?}") };
    assert!(what.contains(":bad:") || what.contains(":good:"), "{what}");
    assert_eq!(wait(view(b"bad").read(0, 20_480)).expect("the part before").concat(), data[..20_480]);
}

/// Goal: a cold read delays only its caller. Method: the machine holds one read back until all others of
/// the same placement group have finished.
#[test]
fn a_cold_read_delays_nothing_else_of_its_placement_group() {
    let machine = Machine::new(1, 64 << 20);
    let store = open(&machine).expect("a new store");
    let mut pg = Pg::open(&store, 0, Vec::new()).expect("works");
    let data = |fill: u8| Bytes::from(vec![fill; 10_000]);
    for (version, name) in [(1, b"cold".as_slice()), (2, b"warm"), (3, b"other")] {
        pg.collection
            .submit(one(version, name, Change::WriteFull { data: data(version as u8) }))
            .expect("room");
    }
    drop(store);
    let machine = machine.restarted();
    let store = open(&machine).expect("a store");
    pg = Pg::open(&store, 0, Vec::new()).expect("works");
    let view = |name| wait(pg.collection.object(ObjectRef::head(0, name))).expect("readable").expect("there");
    let (begun, release) = machine.hold_read("data");
    let Fetch::Later(cold) = view(b"cold").read(0, u64::MAX) else { panic!("nothing is in memory yet") };
    let (sender, answer) = mpsc::channel();
    cold.then(move |data| drop(sender.send(data)));
    begun.recv().expect("the read has begun");
    // A cold read of another object, and a second one from memory; a write, its commit, and a read of its
    // object; and a write and a read of the delayed object itself.
    assert_eq!(wait(view(b"other").read(0, u64::MAX)).expect("readable").concat(), data(3));
    assert!(
        matches!(view(b"other").read(4096, 4096), Fetch::Now(again) if again.concat() == data(3)[..4096])
    );
    pg.collection.submit(one(4, b"warm", Change::WriteFull { data: data(4) })).expect("room");
    pg.collection.submit(one(5, b"cold", Change::WriteFull { data: data(5) })).expect("room");
    while *pg.listener.acked.lock() < 5 {
        pg.news.recv().expect("the listener lives");
    }
    assert_eq!(wait(view(b"warm").read(0, u64::MAX)).expect("readable").concat(), data(4));
    assert_eq!(wait(view(b"cold").read(0, u64::MAX)).expect("readable").concat(), data(5));
    assert!(answer.try_recv().is_err(), "it is held back");
    drop(release);
    let late = answer.recv().expect("an answer").expect("readable");
    assert_eq!(late.concat(), data(1), "the object as it was when it was asked for");
}

#[test]
fn what_a_checkpoint_has_written_is_read_from_memory() {
    let machine = Machine::new(1, 64 << 20);
    let store = open(&machine).expect("a new store");
    let pg = Pg::open(&store, 0, Vec::new()).expect("works");
    let data: Bytes = (0..9_000u32).map(|i| (i % 251) as u8).collect();
    pg.collection.submit(one(1, b"a", Change::WriteFull { data: data.clone() })).expect("room");
    store.core().signals.want_checkpoint();
    while store.core().io.data_cache.bytes() == 0 || store.core().dirty.load(Ordering::Relaxed) > 0 {
        std::thread::yield_now();
    }
    let view = wait(pg.collection.object(ObjectRef::head(0, b"a"))).expect("readable").expect("there");
    let Fetch::Now(found) = view.read(0, u64::MAX) else { panic!("it is in memory") };
    assert_eq!(found.concat(), data);
    drop(view);
    // Also a long one that was written in short parts.
    let write = |at: u64| Change::Write { offset: at * 4096, data: data.slice(..4096) };
    for at in 0..20 {
        let _ = pg.collection.submit(one(2 + at, b"a", write(at))).expect("room");
    }
    store.core().signals.want_checkpoint();
    let found = loop {
        let view = wait(pg.collection.object(ObjectRef::head(0, b"a"))).expect("readable").expect("there");
        if store.core().dirty.load(Ordering::Relaxed) == 0
            && store.core().io.data_cache.bytes() >= 20 * 4096
            && let Fetch::Now(found) = view.read(0, u64::MAX)
        {
            break found;
        }
        std::thread::yield_now();
    };
    assert_eq!(found.concat(), [&data[..4096]; 20].concat());
    // It is removed when no reader can reach it any more.
    pg.collection.submit(one(22, b"a", Change::Remove)).expect("room");
    while store.core().io.data_cache.bytes() > 0 {
        store.core().signals.want_checkpoint();
        std::thread::yield_now();
    }
}

#[test]
fn a_full_store_refuses_and_recovers() {
    let machine = Machine::new(1, 64 << 20);
    let store = open(&machine).expect("a new store");
    let pg = Pg::open(&store, 0, Vec::new()).expect("works");
    let data = Bytes::from(vec![7; 200_000]);
    let names: Vec<&'static [u8]> = vec![
        b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h", b"i", b"j", b"k", b"l", b"m", b"n", b"o", b"p", b"q",
        b"r", b"s", b"t", b"u", b"v", b"w", b"x",
    ];
    let mut version = 0;
    let mut submit = |name, change| {
        version += 1;
        pg.collection.submit(one(version, name, change))
    };
    let full = names.iter().find_map(|name| submit(name, Change::WriteFull { data: data.clone() }).err());
    assert!(matches!(full, Some(StoreError::Full { .. })), "{full:?}");
    for name in &names {
        submit(name, Change::Remove).expect("removing needs no room");
    }
    // Space is freed by a checkpoint, which the refusal has requested.
    loop {
        match submit(b"again", Change::WriteFull { data: data.clone() }) {
            Ok(_) => break,
            Err(StoreError::Full { .. }) => std::thread::yield_now(),
            Err(e) => panic!("{e}"),
        }
    }
}

#[test]
fn a_removed_collection_is_gone_and_may_be_made_again() {
    for seed in seeds().take(20) {
        let mut rng = Rng::new(seed);
        let machine = Machine::new(seed, 64 << 20);
        let store = open(&machine).expect("a new store");
        let mut pgs = open_all(&store, vec![Vec::new(); PGS as usize]).expect("works");
        load(&store, &mut pgs, &mut rng, 30).expect("works");
        store.remove(pgs[0].id).expect("works");
        assert!(matches!(pgs[0].submit(&mut rng), Ok(()) | Err(StoreError::NoCollection(_))));
        let mut again = Pg::open(&store, 0, Vec::new()).expect("works");
        // At least one that is applied: a removal is known to be safe only when something after it is.
        let more = rng.below(10);
        while again.version() == 0 || again.history.len() < more as usize {
            again.submit(&mut rng).expect("works");
        }
        pgs[0] = again;
        if rng.below(2) == 0 {
            store.close();
        }
        pgs.iter().filter(|_| store.why_stopped().is_none()).for_each(Pg::wait);
        let machine = machine.restarted();
        drop(store);
        let store = open(&machine).expect("works");
        for pg in pgs {
            pg.check(&store, &format!("seed {seed}"));
        }
        store.close();
        let machine = machine.restarted();
        let store = open(&machine).expect("closed");
        let used = clones::references(&machine.restarted()).len() as u64;
        assert_eq!(store.core().space.in_use(), used, "seed {seed}: nothing else is in use");
    }
}

#[test]
fn a_store_of_another_cluster_is_not_opened() {
    let machine = Machine::new(1, 64 << 20);
    drop(open(&machine).expect("a new store"));
    let other = DiskConfig { fsid: Uuid([9; 16]), ..config() };
    let backend: Arc<dyn Backend> = Arc::new(machine.restarted());
    assert!(matches!(DiskStore::open_on(backend, other), Err(OpenError::Foreign { .. })));
}
