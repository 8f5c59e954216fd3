//! Cold objects of a placement group are read while others of it are written: latency of a write.
//!
//! Some connections keep 4 KiB writes in flight, others 4 KiB reads of objects that no cache holds, all
//! in one placement group of an OSD on disk. Messenger, decoding, checks, execution and store are the
//! product's in both forms. The forms differ in which thread waits for the disk, and which lock it holds
//! meanwhile.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use bytes::Bytes;
use loligo_store::{
    Change, Collection, CollectionStats, Commit, CommitListener, Data, Fetch, Info, KeyValues, Later,
    ObjectChanges, ObjectName, ObjectRef, ObjectStore, ObjectView, OmapPage, OmapRange, OpRecord, StatFs,
    StoreError, Transaction,
};
use loligo_store_disk::{DiskConfig, DiskStore};
use loligo_wire::message::Msg;
use loligo_wire::message::osd::{OsdFlags, OsdOp};
use loligo_wire::{Epoch, Eversion, PgId, Uuid};
use smallvec::smallvec;

use super::clients::{self, Asks, Driven, POOL, runtime};
use super::queued::{PG, Queued, Workers};
use crate::measure::Waits;
use crate::{About, Case, Error, Form, Metric, Sample, Setting, Source, Spread, Unit, scramble};

const BYTES: usize = 4096;
/// Number of objects that are written.
const WRITTEN: u64 = 512;
const STORE_BYTES: u64 = 2 << 30;
const JOURNAL_BYTES: u64 = 64 << 20;

/// A short seek and half a revolution of a disk with 10,000 revolutions per minute.
const ROTATING: Duration = Duration::from_millis(6);

/// The case.
pub(super) struct AsyncRead {
    /// Number of connections that read and that write.
    pub(super) readers: usize,
    pub(super) writers: usize,
    /// Requests that each connection keeps in flight.
    pub(super) in_flight: u64,
    /// Number of objects to read.
    pub(super) objects: u64,
    /// One setting for each time by which reads are delayed beyond the time of this machine's disk.
    pub(super) disks: &'static [Duration],
}

impl Default for AsyncRead {
    fn default() -> Self {
        let disks = &[Duration::ZERO, ROTATING];
        Self { readers: 4, writers: 4, in_flight: 8, objects: 20_000, disks }
    }
}

impl Case for AsyncRead {
    fn name(&self) -> &'static str {
        "async-read"
    }

    fn about(&self) -> About {
        About {
            title: "Writes wait for a cold read of their placement group",
            before: "The threads of a shard take requests and lock the placement group while they execute them, and a read that \
                     needs the disk waits for it there.",
            after: "loligo-osd's PG slot and loligo-store-disk: a read that needs the disk takes its view of the object, is \
                    done by the reader, and the slot goes on.",
            note: "What is read comes from the disk with direct I/O, without a data cache; what says where it lies may be in the \
                   page cache. Writes are answered when they are safe, in both forms. The published figures are of slower disks; the \
                   second setting adds to each read what a rotating one takes, as many at once as there are.",
            source: Source {
                author: "Didi Cloud Storage",
                title: "Optimizing locks in Didi's Ceph (in Chinese), 3.1: asynchronous reads",
                date: "2020-09-08",
                url: "https://www.infoq.cn/article/Jv3GygMyVBgedrN84rAT",
            },
        }
    }

    fn settings(&self) -> Vec<Setting> {
        let (reads, writes) = (self.readers as u64 * self.in_flight, self.writers as u64 * self.in_flight);
        let setting = |more: &Duration| Setting {
            name: if more.is_zero() {
                format!("{writes} writes and {reads} cold reads in flight, 1 PG")
            } else {
                format!("the same, reads take {} ms more", more.as_millis())
            },
            metrics: vec![
                Metric::lower("write latency, mean", Unit::Us).published(1.0 / (1.0 - 0.53)),
                Metric::lower("write latency, p99", Unit::Us),
                Metric::higher("writes", Unit::PerS),
                Metric::higher("cold reads", Unit::PerS).published(2.2),
                Metric::lower("cold read latency, mean", Unit::Us),
                Metric::lower("total wait for the PG per million requests", Unit::Ms),
            ],
            spread_of: "latency of a write",
        };
        self.disks.iter().map(setting).collect()
    }

    fn measure(&self, setting: usize, form: Form, time: Duration) -> Result<Sample, Error> {
        let dir = Dir::new();
        prepare(&dir, self.objects)?;
        let disk = Arc::new(open(&dir)?);
        let more = self.disks[setting];
        let store: Arc<dyn ObjectStore> = if more.is_zero() {
            Arc::clone(&disk) as _
        } else {
            Arc::new(Through { inner: Arc::clone(&disk) as _, answers: Slow::new(more)? })
        };
        let server_rt = runtime(thread::available_parallelism().map_or(1, usize::from))?;
        let measured = match form {
            Form::Before => {
                let osd = clients::osd(Arc::new(Through { inner: store, answers: Synchronous }), 1)?;
                let queued = Arc::new(Queued::new(osd, 1));
                let workers = Workers::start(&queued, &server_rt)?;
                let measured = clients::drive(&server_rt, queued, self.asks(), time);
                workers.stop()?;
                measured
            }
            Form::After => {
                let osd = clients::osd(store, 1)?;
                clients::drive(&server_rt, osd, self.asks(), time)
            }
        };
        let guards = [if form == Form::Before { PG.name() } else { "osd." }];
        disk.close();
        self.sample(measured?, &guards)
    }
}

impl AsyncRead {
    /// The requests of all connections, first those that write.
    fn asks(&self) -> Vec<Asks> {
        let in_flight = self.in_flight;
        let writes = (0..self.writers as u64).map(|n| Asks { in_flight, request: write(n << 32) });
        let objects = self.objects;
        let reads = (0..self.readers as u64).map(|n| Asks { in_flight, request: read(n << 32, objects) });
        writes.chain(reads).collect()
    }

    fn sample(&self, driven: Driven, guards: &[&str]) -> Result<Sample, Error> {
        let Driven { latency, took, locks } = driven;
        let sum = |of: &[Spread]| {
            let mut sum = Spread::new();
            of.iter().for_each(|one| sum.merge(one));
            sum
        };
        let (of_writes, of_reads) = latency.split_at(self.writers);
        let (writes, reads) = (sum(of_writes), sum(of_reads));
        if writes.is_empty() || reads.is_empty() {
            return Err(Error::NothingMeasured);
        }
        let figures = vec![
            writes.mean_ns() / 1e3,
            writes.quantile_ns(0.99) as f64 / 1e3,
            writes.count() as f64 / took.as_secs_f64(),
            reads.count() as f64 / took.as_secs_f64(),
            reads.mean_ns() / 1e3,
            Waits::of(&locks, guards).total_ms_per_million(writes.count() + reads.count()),
        ];
        Ok(Sample { figures, spread: writes, locks })
    }
}

/// Writes to random objects of a small set.
fn write(seed: u64) -> Box<dyn Fn(u64) -> Msg + Send + Sync> {
    let data = Bytes::from(vec![0x6c; BYTES]);
    Box::new(move |number| {
        let object = scramble(seed + number) % WRITTEN;
        let flags = OsdFlags::WRITE | OsdFlags::ONDISK;
        let ops = smallvec![OsdOp::write(0, data.clone())];
        Msg::new(&clients::request(format!("written {object}"), hash(object), 0, ops, flags))
    })
}

/// Reads of random objects that are on disk.
fn read(seed: u64, objects: u64) -> Box<dyn Fn(u64) -> Msg + Send + Sync> {
    Box::new(move |number| {
        let object = scramble(seed + number) % objects;
        let ops = smallvec![OsdOp::read(0, BYTES as u64)];
        Msg::new(&clients::request(cold_name(object), hash(object), 0, ops, OsdFlags::READ))
    })
}

fn cold_name(object: u64) -> String {
    format!("cold {object}")
}

fn hash(object: u64) -> u32 {
    scramble(!object) as u32
}

fn open(dir: &Dir) -> Result<DiskStore, Error> {
    let config = DiskConfig {
        capacity: Some(STORE_BYTES),
        journal_bytes: JOURNAL_BYTES,
        cache_bytes: 0,
        ..DiskConfig::new(Uuid([1; 16]))
    };
    DiskStore::open(&dir.0, config).map_err(Error::talk("open a store"))
}

/// Creates a store whose objects are only on disk.
fn prepare(dir: &Dir, objects: u64) -> Result<(), Error> {
    struct Nobody;
    impl CommitListener for Nobody {
        fn committed(&self, _: Eversion) {}
        fn stopped(&self, _: &StoreError) {}
    }
    let store = open(dir)?;
    let failed = Error::talk::<StoreError>("fill a store");
    let pg = PgId { pool: POOL, seed: 0 };
    let fill = || {
        let collection = store.open(pg, Arc::new(Nobody))?;
        let data = Bytes::from(vec![0x72; BYTES]);
        for object in 0..objects {
            let version = Eversion { epoch: Epoch(1), version: object + 1 };
            let name = cold_name(object);
            let oid = ObjectRef::head(hash(object), name.as_bytes());
            let info = Info { version, user_version: version.version, ..Info::default() };
            let changes = smallvec![Change::WriteFull { data: data.clone() }];
            let objects = smallvec![ObjectChanges { oid, info, changes }];
            let _ = collection.submit(Transaction { version, objects, record: None })?;
        }
        Ok(())
    };
    fill().map_err(failed)?;
    // Writes all data from the journal to their final place.
    store.close();
    Ok(())
}

/// A directory that is removed on drop.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self(env::temp_dir().join(format!("loligo-contend-{}-{number}", process::id())))
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // If this fails, the directory stays in the system's directory for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The way in which a store answers reads.
trait Answers: Clone + Send + Sync + 'static {
    /// Returns whether the caller waits for the answer.
    fn waits(&self) -> bool;

    fn answer<T: Send + 'static>(&self, fetch: Fetch<T>) -> Fetch<T>;
}

/// A store that answers reads in another way than `inner`.
struct Through<T: ?Sized, A> {
    inner: Arc<T>,
    answers: A,
}

/// The "before": the caller waits for the disk.
#[derive(Clone)]
struct Synchronous;

impl Answers for Synchronous {
    fn waits(&self) -> bool {
        true
    }

    fn answer<T: Send + 'static>(&self, fetch: Fetch<T>) -> Fetch<T> {
        let Fetch::Later(later) = fetch else { return fetch };
        let (sender, receiver) = mpsc::channel();
        later.then(move |value| drop(sender.send(value)));
        match receiver.recv().unwrap_or(Err(StoreError::Stopped)) {
            Ok(value) => Fetch::Now(value),
            Err(error) => {
                let (later, completer) = Later::new();
                completer.complete(Err(error));
                Fetch::Later(later)
            }
        }
    }
}

/// A disk on which reads take longer.
#[derive(Clone)]
struct Slow {
    more: Duration,
    timer: mpsc::Sender<(Instant, Box<dyn FnOnce() + Send>)>,
}

impl Slow {
    fn new(more: Duration) -> Result<Self, Error> {
        let (timer, due) = mpsc::channel::<(Instant, Box<dyn FnOnce() + Send>)>();
        // All delays are equal, so the entries are due in order. The thread ends when the last sender is
        // dropped.
        let run = move || {
            for (at, then) in due {
                thread::sleep(at.saturating_duration_since(Instant::now()));
                then();
            }
        };
        thread::Builder::new().name("slow disk".to_owned()).spawn(run).map_err(Error::io("start a timer"))?;
        Ok(Self { more, timer })
    }
}

impl Answers for Slow {
    fn waits(&self) -> bool {
        false
    }

    fn answer<T: Send + 'static>(&self, fetch: Fetch<T>) -> Fetch<T> {
        let Fetch::Later(fetched) = fetch else { return fetch };
        let (later, completer) = Later::new();
        let (timer, more) = (self.timer.clone(), self.more);
        fetched.then(move |value| {
            // If the timer has ended, the dropped completer reports that the store has stopped.
            let _ = timer.send((Instant::now() + more, Box::new(move || completer.complete(value))));
        });
        Fetch::Later(later)
    }
}

impl<A: Answers> ObjectStore for Through<dyn ObjectStore, A> {
    fn open(&self, pg: PgId, listener: Arc<dyn CommitListener>) -> Result<Arc<dyn Collection>, StoreError> {
        let inner = self.inner.open(pg, listener)?;
        Ok(Arc::new(Through { inner, answers: self.answers.clone() }))
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

impl<A: Answers> Collection for Through<dyn Collection, A> {
    fn object(&self, oid: ObjectRef<'_>) -> Fetch<Option<Arc<dyn ObjectView>>> {
        // The lookup of an object's location is not measured: it is not delayed, and its caller waits
        // only in the "before".
        let wrap = |inner: Option<Arc<dyn ObjectView>>, answers: &A| {
            let answers = answers.clone();
            inner.map(|inner| Arc::new(Through { inner, answers }) as Arc<dyn ObjectView>)
        };
        match self.inner.object(oid) {
            Fetch::Now(view) => Fetch::Now(wrap(view, &self.answers)),
            Fetch::Later(found) => {
                let (later, completer) = Later::new();
                let answers = self.answers.clone();
                found.then(move |view| completer.complete(view.map(|view| wrap(view, &answers))));
                if self.answers.waits() {
                    self.answers.answer(Fetch::Later(later))
                } else {
                    Fetch::Later(later)
                }
            }
        }
    }

    fn submit(&self, txn: Transaction<'_>) -> Result<Commit, StoreError> {
        self.inner.submit(txn)
    }

    fn list(&self, from: ObjectRef<'_>, max: usize) -> Fetch<Vec<ObjectName>> {
        self.answers.answer(self.inner.list(from, max))
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
}

impl<A: Answers> ObjectView for Through<dyn ObjectView, A> {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn info(&self) -> Info {
        self.inner.info()
    }

    fn read(&self, offset: u64, len: u64) -> Fetch<Data> {
        self.answers.answer(self.inner.read(offset, len))
    }

    fn crc(&self) -> Option<u32> {
        self.inner.crc()
    }

    fn extents(&self, offset: u64, len: u64) -> Fetch<Vec<(u64, u64)>> {
        self.answers.answer(self.inner.extents(offset, len))
    }

    fn xattr(&self, name: &[u8]) -> Fetch<Option<Bytes>> {
        self.answers.answer(self.inner.xattr(name))
    }

    fn xattrs(&self) -> Fetch<KeyValues> {
        self.answers.answer(self.inner.xattrs())
    }

    fn omap_header(&self) -> Fetch<Bytes> {
        self.answers.answer(self.inner.omap_header())
    }

    fn omap_page(&self, range: OmapRange<'_>) -> Fetch<OmapPage> {
        self.answers.answer(self.inner.omap_page(range))
    }

    fn omap_values(&self, keys: &[Bytes]) -> Fetch<KeyValues> {
        self.answers.answer(self.inner.omap_values(keys))
    }
}
