//! Clients that write, record their operations, and compare the record with a server's content.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use futures_util::TryStreamExt as _;
use loligo_rados::{Builder, Errno, Error, IoCtx, Rados, WriteOp};
use tokio::task::JoinSet;

const WRITERS: usize = 6;
const OBJECTS: usize = 5;
/// Time limit of all waits; exceeded only by an event that never comes.
const LONG: Duration = Duration::from_secs(60);

pub(crate) async fn connect(dir: &Path, namespace: &str) -> (Rados, IoCtx) {
    let conf = dir.join("ceph.conf");
    let builder = Builder::new().conf_file(conf.to_str().expect("a path in UTF-8"));
    let connected = async {
        let rados = builder.connect().await.expect("connects");
        let pool = rados.ioctx("p").await.expect("the pool");
        (rados, pool.with_namespace(namespace))
    };
    tokio::time::timeout(LONG, connected).await.expect("the server answers")
}

/// The content of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Content {
    data: Vec<u8>,
    xattrs: BTreeMap<Vec<u8>, Bytes>,
    omap: BTreeMap<Bytes, Bytes>,
}

/// The recorded state of an object; the content is `None` if the object does not exist.
#[derive(Default)]
struct Known {
    content: Option<Content>,
    /// The content after the operation in flight.
    next: Option<Option<Content>>,
    done: u64,
    unanswered: u64,
}

/// Several writers, each with an object of its own and one operation at a time.
pub(crate) struct Writers {
    objects: Vec<Arc<Mutex<Known>>>,
    tasks: JoinSet<()>,
    stopping: Arc<AtomicBool>,
}

impl Writers {
    pub(crate) fn new() -> Self {
        let objects = (0..WRITERS * OBJECTS).map(|_| Arc::default()).collect();
        Self { objects, tasks: JoinSet::new(), stopping: Arc::default() }
    }

    pub(crate) fn start(&mut self, pool: &IoCtx, rng: &mut Rng) {
        self.stopping = Arc::default();
        for (writer, objects) in self.objects.chunks(OBJECTS).enumerate() {
            let (pool, objects, mut rng) = (pool.clone(), objects.to_vec(), Rng::with_seed(rng.u64(..)));
            let stopping = Arc::clone(&self.stopping);
            self.tasks.spawn(async move {
                while !stopping.load(Ordering::Relaxed) {
                    let n = rng.usize(..OBJECTS);
                    change(&pool, &name(writer * OBJECTS + n), &objects[n], &mut rng).await;
                }
            });
        }
    }

    /// Lets no writer begin another operation.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Waits until the last operation of each writer is acknowledged.
    pub(crate) async fn finish(&mut self) {
        let ended = async {
            while let Some(ended) = self.tasks.join_next().await {
                ended.expect("no operation fails");
            }
        };
        tokio::time::timeout(LONG, ended).await.expect("operations are answered by the new server");
    }

    /// Aborts all writers.
    pub(crate) async fn abandon(&mut self) {
        self.tasks.abort_all();
        while let Some(ended) = self.tasks.join_next().await {
            assert!(ended.is_ok() || ended.is_err_and(|e| e.is_cancelled()), "no operation fails");
        }
    }

    /// Compares the server's content with the record, and finds out the outcome of unacknowledged
    /// operations.
    pub(crate) async fn verify(&mut self, pool: &IoCtx, kill: u64) {
        let mut there = BTreeSet::new();
        for (i, object) in self.objects.iter().enumerate() {
            let name = name(i);
            let found = fetch(pool, &name).await;
            let mut known = object.lock().expect("no panic");
            let next = known.next.take();
            if next.is_some() {
                known.unanswered += 1;
            }
            if known.content != found {
                assert!(
                    next.as_ref() == Some(&found),
                    "after kill {kill} {name} is {}, not {}{}",
                    told(&found),
                    told(&known.content),
                    next.map_or(String::new(), |next| format!(" nor {}", told(&next)))
                );
            }
            if found.is_some() {
                there.insert(name.into_bytes());
            }
            known.content = found;
        }
        let mut list = pool.objects();
        let mut listed = BTreeSet::new();
        while let Some(object) = list.next().await.expect("listed") {
            listed.insert(object.oid.to_vec());
        }
        assert_eq!(listed, there, "after kill {kill}");
    }

    /// Returns the number of acknowledged operations, and of those whose outcome had to be found out.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let known = self.objects.iter().map(|object| object.lock().expect("no panic"));
        known.fold((0, 0), |(done, unanswered), known| (done + known.done, unanswered + known.unanswered))
    }
}

fn name(object: usize) -> String {
    format!("object {object}")
}

/// Runs one operation on one object, recorded before it is sent and when it is acknowledged.
async fn change(pool: &IoCtx, name: &str, object: &Mutex<Known>, rng: &mut Rng) {
    let (op, next) = {
        let mut known = object.lock().expect("no panic");
        let (op, next) = draw(known.content.clone(), rng);
        known.next = Some(next.clone());
        (op, next)
    };
    pool.operate(name, op).await.unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut known = object.lock().expect("no panic");
    known.content = next;
    known.next = None;
    known.done += 1;
}

/// Draws a random change. Returns it with the resulting content.
fn draw(content: Option<Content>, rng: &mut Rng) -> (WriteOp, Option<Content>) {
    let op = WriteOp::new();
    let existed = content.is_some();
    let mut content = content.unwrap_or_default();
    match rng.u32(..12) {
        0 if existed => (op.remove(), None),
        1 if existed => {
            let size = rng.usize(..content.data.len() + 5000);
            content.data.resize(size, 0);
            (op.truncate(size as u64), Some(content))
        }
        2 | 3 => {
            let data = bytes(rng);
            content.data.extend_from_slice(&data);
            // Limits the objects' size, so that comparing is fast.
            if content.data.len() > 2 << 20 {
                (op.remove(), None)
            } else {
                (op.append(data.into()), Some(content))
            }
        }
        4..=6 => {
            let at = rng.usize(..content.data.len() + 5000);
            let data = bytes(rng);
            overwrite(&mut content.data, at, &data);
            (op.write(at as u64, data.into()), Some(content))
        }
        7 => {
            let (key, value, data) = (b"a".to_vec(), Bytes::from(bytes(rng)), bytes(rng));
            let value = value.slice(..value.len().min(2000));
            content.data.clone_from(&data);
            content.xattrs.insert(key.clone(), value.clone());
            (op.write_full(data.into()).set_xattr(key, value), Some(content))
        }
        8 if existed && !content.data.is_empty() => {
            let at = rng.usize(..content.data.len());
            let len = rng.usize(..content.data.len() - at) + 1;
            content.data[at..at + len].fill(0);
            // Zeroing up to the end truncates the object, as in Ceph.
            if at + len == content.data.len() {
                content.data.truncate(at);
            }
            (op.zero(at as u64, len as u64), Some(content))
        }
        9 | 10 => {
            let pairs: BTreeMap<Bytes, Bytes> = (0..rng.usize(1..20))
                .map(|_| (Bytes::from(format!("key {}", rng.u32(..50))), Bytes::from(bytes(rng)).slice(..)))
                .map(|(key, value)| (key, value.slice(..value.len().min(500))))
                .collect();
            content.omap.extend(pairs.clone());
            (op.set_omap(pairs), Some(content))
        }
        _ => {
            content.data = bytes(rng);
            (op.write_full(content.data.clone().into()), Some(content))
        }
    }
}

/// Returns data of no length, a few bytes, some blocks, or too many bytes for the journal.
fn bytes(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.u32(..8) {
        0 => 0,
        1 | 2 => rng.usize(..200),
        3 => 4096,
        4 | 5 => rng.usize(..20_000),
        6 => rng.usize(..100_000),
        _ => 65_536 + rng.usize(..400_000),
    };
    // Each write has a random pattern, so that a byte of another write is detected.
    let mut pattern = [0; 61];
    rng.fill(&mut pattern);
    pattern.iter().copied().cycle().take(len).collect()
}

fn overwrite(data: &mut Vec<u8>, at: usize, with: &[u8]) {
    // An empty write beyond the end also extends the object, as in Ceph.
    data.resize(data.len().max(at + with.len()), 0);
    data[at..at + with.len()].copy_from_slice(with);
}

async fn fetch(pool: &IoCtx, name: &str) -> Option<Content> {
    let gone = |e: Error| assert_eq!(e.errno(), Errno::ENOENT, "{name}: {e}");
    let data = pool.read(name, 0, 0).await.map_err(gone).ok()?;
    let xattrs = pool.xattrs(name).await.map_err(gone).ok()?;
    let omap = pool.omap(name, "").try_collect().await.map_err(gone).ok()?;
    Some(Content { data: data.to_vec(), xattrs, omap })
}

fn told(content: &Option<Content>) -> String {
    content.as_ref().map_or("gone".to_owned(), |c| {
        let start: Vec<u8> = c.data.iter().copied().take(8).collect();
        format!(
            "{} bytes from {start:?} with {} xattrs and {} keys",
            c.data.len(),
            c.xattrs.len(),
            c.omap.len()
        )
    })
}
