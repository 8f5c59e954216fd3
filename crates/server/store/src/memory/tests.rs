//! The conformance tests, and the guarantees that only a store in memory gives: it replies at once, and
//! its accounting is exact to the byte.

use bytes::Bytes;
use loligo_wire::{PgId, PoolId};
use proptest::prelude::*;

use super::MemoryStore;
use crate::conformance::{self, Model, Models, change, open, transactions, view};
use crate::{Change, Collection, Commit, ObjectName, ObjectRef, ObjectStore, StoreError};

fn write(pg: &dyn Collection, name: &[u8], len: usize) -> Result<Commit, StoreError> {
    let data = Bytes::from(vec![1; len]);
    pg.submit(change(ObjectRef::head(0, name), Change::WriteFull { data }))
}

proptest! {
    #[test]
    fn transactions_do_what_they_say(txns in transactions()) {
        let store = MemoryStore::new(1 << 30);
        let (pg, models) = conformance::transactions_do_what_they_say(&store, txns);
        check_sums(&store, &*pg, &models);
    }
}

fn check_sums(store: &MemoryStore, pg: &dyn Collection, models: &Models) {
    let names: Vec<ObjectName> = models.keys().cloned().collect();
    assert_eq!(pg.list(ObjectRef::first_of_hash(0), usize::MAX).now(), Some(names.clone()), "at once");
    let stats = pg.stats();
    assert_eq!(stats.omap_keys, models.values().map(|m| m.omap.len() as u64).sum::<u64>());
    let omap_bytes =
        |m: &Model| m.omap.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>() + m.header.len();
    assert_eq!(stats.omap_bytes, models.values().map(|m| omap_bytes(m) as u64).sum::<u64>());
    for name in &names {
        let view = pg.object(name.as_ref()).now().expect("found at once").expect("it exists");
        let replied = view.read(0, u64::MAX).now().is_some() && view.extents(0, u64::MAX).now().is_some();
        assert!(replied && view.xattrs().now().is_some() && view.omap_header().now().is_some());
    }
    for name in &names {
        let done = pg.submit(change(name.as_ref(), Change::Remove));
        assert_eq!(done, Ok(Commit::Done), "removing needs no room");
    }
    assert_eq!(store.statfs().available, store.statfs().total, "nothing is left, nothing is counted");
}

#[test]
fn a_full_store_refuses_and_recovers() {
    let store = MemoryStore::new(1 << 20);
    let (a, b) = (open(&store, 0), open(&store, 1));
    let mut written = 0u32;
    let full = loop {
        let pg = if written.is_multiple_of(2) { &a } else { &b };
        match write(&**pg, &written.to_le_bytes(), 10_000) {
            Ok(_) => written += 1,
            Err(e) => break e,
        }
    };
    assert!(matches!(full, StoreError::Full { .. }), "{full}");
    assert!((70..105).contains(&written), "{written} objects of 10 kB fit in 1 MiB");
    let pg = if written.is_multiple_of(2) { &a } else { &b };
    assert!(
        view(&**pg, ObjectRef::head(0, &written.to_le_bytes())).is_none(),
        "nothing of a refused write is done"
    );
    a.submit(change(ObjectRef::head(0, &0u32.to_le_bytes()), Change::Remove))
        .expect("removing needs no room");
    write(&*a, b"again", 1_000).expect("room again");
    store.remove(PgId { pool: PoolId(1), seed: 0 }).expect("memory has no reason to refuse");
    assert_eq!(a.stats().objects, 0);
    assert_eq!(store.collections(), [PgId { pool: PoolId(1), seed: 1 }]);
}

#[test]
fn absurd_requests_are_refused() {
    conformance::absurd_requests_are_refused(&MemoryStore::new(u64::MAX));
}

#[test]
fn holes_read_as_zeros_and_are_no_extents() {
    conformance::holes_read_as_zeros_and_are_no_extents(&MemoryStore::new(1 << 30));
}

#[test]
fn an_omap_is_read_in_pages() {
    conformance::an_omap_is_read_in_pages(&MemoryStore::new(1 << 30));
}
