//! Objects are read that are on disk only, and others of the same placement group are written: how long does a write take?
//!
//! Connections keep 4 KiB writes in flight, others 4 KiB reads of objects that no cache holds, all in one placement group of an
//! OSD on disk. Messenger, decoding, checks, execution and store are the product's in both forms; what differs is who waits for
//! the disk, and holding what.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{env, fs, process};

use bytes::Bytes;
use loligo_store::disk::{DiskConfig, DiskStore};
use loligo_store::{
    Change, Collection, CollectionStats, Commit, CommitListener, Data, Fetch, Info, KeyValues, ObjectChanges,
    ObjectName, ObjectRef, ObjectStore, ObjectView, OmapPage, OmapRange, OpRecord, StatFs, StoreError,
    Transaction,
};
use loligo_wire::message::Msg;
use loligo_wire::message::osd::{OsdFlags, OsdOp};
use loligo_wire::{Epoch, Eversion, PgId, Uuid};
use smallvec::smallvec;

use super::clients::{self, Asks, Driven, POOL, runtime};
use super::queued::{PG, Queued, Workers};
use crate::measure::Waits;
use crate::{About, Case, Error, Form, Metric, Sample, Setting, Source, Spread, Unit};

const BYTES: usize = 4096;
/// Objects that are written.
const WRITTEN: u64 = 512;
const STORE_BYTES: u64 = 2 << 30;
const JOURNAL_BYTES: u64 = 64 << 20;

/// The case.
pub(super) struct AsyncRead {
    /// Connections that read, and that write.
    pub(super) readers: usize,
    pub(super) writers: usize,
    /// Requests that each keeps in flight.
    pub(super) in_flight: u64,
    /// Objects to read.
    pub(super) objects: u64,
}

impl Default for AsyncRead {
    fn default() -> Self {
        Self { readers: 4, writers: 4, in_flight: 8, objects: 20_000 }
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
            after: "loligo-osd's PG slot and loligo-store's disk store: a read that needs the disk takes its view of the object, is \
                    done by the read pool, and the slot goes on.",
            note: "What is read comes from the disk with direct I/O, without a data cache; what says where it lies may be in the \
                   page cache. Writes are answered when they are safe, in both forms.",
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
        vec![Setting {
            name: format!("{writes} writes and {reads} cold reads in flight, 1 PG"),
            metrics: vec![
                Metric::lower("write latency, mean", Unit::Us).published(1.0 / (1.0 - 0.53)),
                Metric::lower("write latency, p99", Unit::Us),
                Metric::higher("writes", Unit::PerS),
                Metric::higher("cold reads", Unit::PerS).published(2.2),
                Metric::lower("cold read latency, mean", Unit::Us),
                Metric::lower("total wait for the PG per million requests", Unit::Ms),
            ],
            spread_of: "latency of a write",
        }]
    }

    fn measure(&self, _: usize, form: Form, time: Duration) -> Result<Sample, Error> {
        let dir = Dir::new();
        prepare(&dir, self.objects)?;
        let store = Arc::new(open(&dir)?);
        let server_rt = runtime(std::thread::available_parallelism().map_or(1, usize::from))?;
        let measured = match form {
            Form::Before => {
                let osd = clients::osd(Arc::new(Synchronous(Arc::clone(&store) as _)), 1)?;
                let queued = Arc::new(Queued::new(osd, 1));
                let workers = Workers::start(&queued, &server_rt)?;
                let measured = clients::drive(&server_rt, queued, self.asks(), time);
                workers.stop()?;
                measured
            }
            Form::After => {
                let osd = clients::osd(Arc::clone(&store) as _, 1)?;
                clients::drive(&server_rt, osd, self.asks(), time)
            }
        };
        let guards = [if form == Form::Before { PG.name() } else { "osd." }];
        store.close();
        self.sample(measured?, &guards)
    }
}

impl AsyncRead {
    /// First those who write.
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

/// Writes of random objects among a few.
fn write(seed: u64) -> Box<dyn Fn(u64) -> Msg + Send + Sync> {
    let data = Bytes::from(vec![0x6c; BYTES]);
    Box::new(move |number| {
        let object = scramble(seed + number) % WRITTEN;
        let flags = OsdFlags::WRITE | OsdFlags::ONDISK;
        let ops = smallvec![OsdOp::write(0, data.clone())];
        Msg::new(&clients::request(format!("written {object}"), hash(object), 0, ops, flags))
    })
}

/// Reads of random objects among those on disk.
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

/// A number that looks random (the finalizer of SplitMix64).
fn scramble(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
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

/// Makes a store whose objects are on disk only.
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
    // Writes everything to its place.
    store.close();
    Ok(())
}

/// A directory that is removed in the end.
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
        // What is left lies in the system's directory for such things.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The "before": a store whose reads wait for the disk in the thread that asks.
struct Synchronous<T: ?Sized>(Arc<T>);

/// Waits for an answer.
fn wait<T: Send + 'static>(fetch: Fetch<T>) -> Result<T, StoreError> {
    match fetch {
        Fetch::Now(value) => Ok(value),
        Fetch::Later(later) => {
            let (sender, receiver) = mpsc::channel();
            later.then(move |value| drop(sender.send(value)));
            receiver.recv().unwrap_or(Err(StoreError::Stopped))
        }
    }
}

/// The answer as one that is there; one that failed stays one that comes, so that the error is seen.
fn now<T: Send + 'static>(fetch: Fetch<T>) -> Fetch<T> {
    match wait(fetch) {
        Ok(value) => Fetch::Now(value),
        Err(error) => {
            let (later, completer) = loligo_store::Later::new();
            completer.complete(Err(error));
            Fetch::Later(later)
        }
    }
}

impl ObjectStore for Synchronous<dyn ObjectStore> {
    fn open(&self, pg: PgId, listener: Arc<dyn CommitListener>) -> Result<Arc<dyn Collection>, StoreError> {
        Ok(Arc::new(Synchronous(self.0.open(pg, listener)?)))
    }

    fn remove(&self, pg: PgId) -> Result<(), StoreError> {
        self.0.remove(pg)
    }

    fn collections(&self) -> Vec<PgId> {
        self.0.collections()
    }

    fn statfs(&self) -> StatFs {
        self.0.statfs()
    }
}

impl Collection for Synchronous<dyn Collection> {
    fn object(&self, oid: ObjectRef<'_>) -> Fetch<Option<Arc<dyn ObjectView>>> {
        match now(self.0.object(oid)) {
            Fetch::Now(view) => Fetch::Now(view.map(|view| Arc::new(Synchronous(view)) as _)),
            failed => failed,
        }
    }

    fn submit(&self, txn: Transaction<'_>) -> Result<Commit, StoreError> {
        self.0.submit(txn)
    }

    fn list(&self, from: ObjectRef<'_>, max: usize) -> Fetch<Vec<ObjectName>> {
        now(self.0.list(from, max))
    }

    fn stats(&self) -> CollectionStats {
        self.0.stats()
    }

    fn version(&self) -> Eversion {
        self.0.version()
    }

    fn records(&self) -> Vec<OpRecord> {
        self.0.records()
    }
}

impl ObjectView for Synchronous<dyn ObjectView> {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn info(&self) -> Info {
        self.0.info()
    }

    fn read(&self, offset: u64, len: u64) -> Fetch<Data> {
        now(self.0.read(offset, len))
    }

    fn crc(&self) -> Option<u32> {
        self.0.crc()
    }

    fn extents(&self, offset: u64, len: u64) -> Fetch<Vec<(u64, u64)>> {
        now(self.0.extents(offset, len))
    }

    fn xattr(&self, name: &[u8]) -> Fetch<Option<Bytes>> {
        now(self.0.xattr(name))
    }

    fn xattrs(&self) -> Fetch<KeyValues> {
        now(self.0.xattrs())
    }

    fn omap_header(&self) -> Fetch<Bytes> {
        now(self.0.omap_header())
    }

    fn omap_page(&self, range: OmapRange<'_>) -> Fetch<OmapPage> {
        now(self.0.omap_page(range))
    }

    fn omap_values(&self, keys: &[Bytes]) -> Fetch<KeyValues> {
        now(self.0.omap_values(keys))
    }
}
