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

#[test]
fn what_is_frozen_stays_whatever_changes() {
    let store = MemoryStore::new(1 << 30);
    let (a, b) = (open(&store, 0), open(&store, 1));
    write(&*a, b"one", 10).expect("room");
    write(&*b, b"two", 20_000).expect("room");
    let frozen = store.freeze();
    let before = frozen.stats();
    write(&*a, b"one", 5).expect("room");
    write(&*a, b"three", 7).expect("room");
    b.submit(change(ObjectRef::head(0, b"two"), Change::Remove)).expect("removing needs no room");
    assert_eq!((frozen.stats(), before.objects, before.bytes), (before, 2, 20_010));
    let thawed = MemoryStore::thawed(1 << 30, &frozen);
    let (c, d) = (open(&thawed, 0), open(&thawed, 1));
    let size = |pg: &dyn Collection, name| view(pg, ObjectRef::head(0, name)).map(|object| object.size());
    assert_eq!((size(&*c, b"one"), size(&*c, b"three"), size(&*d, b"two")), (Some(10), None, Some(20_000)));
    write(&*c, b"four", 1).expect("room");
    assert_eq!(size(&*a, b"four"), None, "a thawed store is one of its own");
    for (pg, name) in [(&c, &b"one"[..]), (&c, b"four"), (&d, b"two")] {
        pg.submit(change(ObjectRef::head(0, name), Change::Remove)).expect("removing needs no room");
    }
    assert_eq!(thawed.statfs().available, thawed.statfs().total, "nothing is left, nothing is counted");
    assert_eq!(frozen.stats(), before);
}

#[test]
fn versions_continue_after_the_newer_store() {
    let (old, new) = (MemoryStore::new(1 << 30), MemoryStore::new(1 << 30));
    let of = |store: &MemoryStore, pg: u32, version: u64| {
        let txn = change(ObjectRef::head(0, b"o"), Change::Create);
        let version = loligo_wire::Eversion { epoch: loligo_wire::Epoch(1), version };
        open(store, pg).submit(crate::Transaction { version, ..txn }).expect("room");
    };
    of(&old, 0, 5);
    for (pg, version) in [(0, 9), (1, 3), (2, 4)] {
        of(&new, pg, version);
    }
    let mut frozen = old.freeze();
    frozen.continue_after(&new, |pg| pg.seed != 2);
    let found: Vec<_> =
        frozen.collections().map(|(pg, one)| (pg.seed, one.version().version, one.stats().objects)).collect();
    assert_eq!(found, [(0, 9, 1), (1, 3, 0)]);
}

#[test]
fn a_store_that_begins_with_too_much_is_full() {
    let store = MemoryStore::new(1 << 30);
    write(&*open(&store, 0), b"large", 1 << 20).expect("room");
    let small = MemoryStore::thawed(1 << 16, &store.freeze());
    let pg = open(&small, 0);
    assert!(matches!(write(&*pg, b"more", 100_000), Err(StoreError::Full { free: 0, .. })));
    assert_eq!(small.statfs().available, 0);
    pg.submit(change(ObjectRef::head(0, b"large"), Change::Remove)).expect("removing needs no room");
    write(&*pg, b"more", 1_000).expect("room again");
}
