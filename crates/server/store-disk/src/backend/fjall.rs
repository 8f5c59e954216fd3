//! The key-value map: `fjall`, a log-structured merge tree.
//!
//! Only its batches, snapshots and ranges are used. Each commit is synced: there is one for each checkpoint.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable};
use loligo_lockstat::blocking_point;

use super::{Batch, Kv, Snapshot};

/// The size of its block cache.
const CACHE_BYTES: u64 = 16 << 20;
/// The bytes it gathers in memory before it writes a table.
const MEMTABLE_BYTES: u64 = 16 << 20;
/// The maximum size of its own log, which a restart reads: as small as possible.
const LOG_BYTES: u64 = 64 << 20;

pub(super) struct FjallKv {
    db: Database,
    map: Keyspace,
}

impl FjallKv {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let db = Database::builder(path)
            .cache_size(CACHE_BYTES)
            .max_journaling_size(LOG_BYTES)
            .worker_threads(1)
            .open()
            .map_err(io::Error::other)?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
        let map = db.keyspace("meta", options).map_err(io::Error::other)?;
        Ok(Self { db, map })
    }
}

impl Kv for FjallKv {
    fn commit(&self, batch: Batch) -> io::Result<()> {
        blocking_point("committing to the store's key-value map");
        let mut writes = self.db.batch();
        for (key, value) in batch.changes {
            match value {
                Some(value) => writes.insert(&self.map, key, value),
                None => writes.remove(&self.map, key),
            }
        }
        writes.durability(Some(PersistMode::SyncAll)).commit().map_err(io::Error::other)
    }

    fn snapshot(&self) -> Arc<dyn Snapshot> {
        Arc::new(FjallSnapshot { snapshot: self.db.snapshot(), map: self.map.clone() })
    }
}

impl fmt::Debug for FjallKv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FjallKv")
    }
}

struct FjallSnapshot {
    snapshot: fjall::Snapshot,
    map: Keyspace,
}

impl Snapshot for FjallSnapshot {
    fn get(&self, key: &[u8]) -> io::Result<Option<Bytes>> {
        blocking_point("reading the store's key-value map");
        let value = self.snapshot.get(&self.map, key).map_err(io::Error::other)?;
        Ok(value.map(Bytes::from))
    }

    fn range(&self, from: &[u8], until: &[u8], max: usize) -> io::Result<Vec<(Bytes, Bytes)>> {
        blocking_point("reading the store's key-value map");
        if from >= until {
            return Ok(Vec::new());
        }
        let pairs = self.snapshot.range::<&[u8], _>(&self.map, from..until).take(max);
        let pair = |guard: fjall::Guard| guard.into_inner().map(|(k, v)| (Bytes::from(k), Bytes::from(v)));
        pairs.map(pair).collect::<Result<_, _>>().map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_survive_and_snapshots_stay() {
        let dir = std::env::temp_dir().join(format!("loligo-store-kv-{}", std::process::id()));
        let kv = FjallKv::open(&dir).expect("a new directory");
        let set = |pairs: &[(&'static str, &'static str)]| {
            let mut batch = Batch::default();
            pairs.iter().for_each(|(k, v)| batch.set(*k, *v));
            kv.commit(batch).expect("a disk that works");
        };
        set(&[("a", "1"), ("b", "2"), ("c", "3")]);
        let before = kv.snapshot();
        set(&[("b", "4")]);
        let mut batch = Batch::default();
        batch.remove("a");
        kv.commit(batch).expect("a disk that works");
        let all = |s: &dyn Snapshot| s.range(b"a", b"d", 9).expect("readable");
        let pair = |k: &'static str, v: &'static str| (Bytes::from(k), Bytes::from(v));
        assert_eq!(all(&*before), [pair("a", "1"), pair("b", "2"), pair("c", "3")]);
        assert_eq!(before.get(b"b").expect("readable").as_deref(), Some(&b"2"[..]));
        drop((before, kv));
        let kv = FjallKv::open(&dir).expect("the same directory");
        assert_eq!(all(&*kv.snapshot()), [pair("b", "4"), pair("c", "3")]);
        assert_eq!(kv.snapshot().range(b"a", b"d", 1).expect("readable").len(), 1);
        drop(kv);
        std::fs::remove_dir_all(&dir).expect("ours");
    }
}
