//! Goal: keys, values, names and attributes take capacity as data does, and free it again. Method: a store
//! of 4 MiB is filled with each of them until it refuses, is opened again, and is emptied.

use std::collections::BTreeSet;

use super::*;
use crate::backend::Batch;
use crate::fsck::check_on;
use crate::rows::CollectionRow;

/// Returns the object and the change for a version.
type Make = fn(u64) -> (&'static [u8], Change<'static>);

fn some_name(i: u64) -> &'static [u8] {
    [&b"a"[..], b"b", b"c", b"d", b"e", b"f", b"g", b"h"][(i % 8) as usize]
}

fn omap(i: u64) -> (&'static [u8], Change<'static>) {
    let pairs = vec![(Bytes::from(format!("k{i}")), vec![1; 20_000].into())];
    (some_name(i), Change::SetOmap { pairs })
}

fn attributes(i: u64) -> (&'static [u8], Change<'static>) {
    (some_name(i), Change::SetXattr { name: format!("k{i}").into(), value: vec![1; 20_000].into() })
}

fn names(i: u64) -> (&'static [u8], Change<'static>) {
    (format!("{i:02000}").into_bytes().leak(), Change::Create)
}

/// Writes until there is no room for more; returns the version reached, and the names of the objects.
fn fill(pg: &Pg, make: Make, bytes: u64) -> (u64, BTreeSet<&'static [u8]>) {
    let (mut version, mut names) = (0, BTreeSet::new());
    let full = loop {
        let (name, change) = make(version);
        match pg.collection.submit(one(version + 1, name, change)) {
            Ok(_) => version += 1,
            Err(e) => break e,
        }
        names.insert(name);
        assert!(version * bytes <= CAPACITY, "it takes more than its capacity");
        while pg.acked() < version {
            pg.news.recv().expect("the listener lives");
        }
    };
    assert!(matches!(full, StoreError::Full { .. }), "{full}");
    assert!(version * bytes > CAPACITY / 2, "{version}");
    (version, names)
}

#[test]
fn a_store_is_full_of_keys_names_and_attributes_too() {
    for (make, bytes) in [(omap as Make, 20_000), (attributes, 20_000), (names, 2000)] {
        let machine = Machine::new(1, 64 << 20);
        let store = open(&machine).expect("a new store");
        let pg = Pg::open(&store, 0, Vec::new()).expect("works");
        let (mut version, names) = fill(&pg, make, bytes);
        assert!(store.statfs().available < 40_000, "{:?}", store.statfs());
        // There is no room for data either.
        let data = || Change::WriteFull { data: vec![1; 200_000].into() };
        assert!(matches!(
            pg.collection.submit(one(version + 1, b"data", data())),
            Err(StoreError::Full { .. })
        ));
        // The same after a restart, which is not refused.
        drop(pg);
        store.close();
        let machine = machine.restarted();
        let store = open(&machine).expect("full, and whole");
        assert!(store.statfs().available < 40_000, "{:?}", store.statfs());
        // A removal always has room, and frees space.
        let pg = Pg::open(&store, 0, Vec::new()).expect("works");
        for name in names {
            version += 1;
            pg.collection.submit(one(version, name, Change::Remove)).expect("a removal");
        }
        drop(pg);
        store.close();
        let machine = machine.restarted();
        let store = open(&machine).expect("closed");
        assert_eq!(store.statfs().available, CAPACITY, "{:?}", store.statfs());
        let pg = Pg::open(&store, 0, Vec::new()).expect("works");
        pg.collection.submit(one(version + 1, b"data", data())).expect("room");
    }
}

/// An overwritten value counts once after a checkpoint has captured it.
#[test]
fn what_is_overwritten_does_not_fill_a_store() {
    let mut machine = Machine::new(1, 64 << 20);
    let mut store = open(&machine).expect("a new store");
    for round in 0..3 {
        let pg = Pg::open(&store, 0, Vec::new()).expect("works");
        for i in 0..50 {
            let value = vec![i; 20_000].into();
            let change = match i % 2 {
                0 => Change::SetOmap { pairs: vec![(Bytes::from_static(b"k"), value)] },
                _ => Change::SetXattr { name: Bytes::from_static(b"k"), value },
            };
            pg.collection.submit(one(round * 50 + u64::from(i) + 1, b"a", change)).expect("room");
        }
        drop(pg);
        store.close();
        machine = machine.restarted();
        store = open(&machine).expect("closed");
        let used = CAPACITY - store.statfs().available;
        assert!((40_000..50_000).contains(&used), "{used}");
    }
}

/// A clone of an omap takes space when it is made, not when a checkpoint copies it: a clone of rows in the
/// map, of keys in memory, and of a clone that has no rows yet.
#[test]
fn a_cloned_omap_takes_room_at_once() {
    let machine = Machine::new(1, 64 << 20);
    let store = open(&machine).expect("a new store");
    let pg = Pg::open(&store, 0, Vec::new()).expect("works");
    let mut version = 0;
    let mut submit = |name: &'static [u8], change| {
        version += 1;
        pg.collection.submit(one(version, name, change))
    };
    for i in 0..45 {
        let pairs = vec![(Bytes::from(format!("k{i}")), Bytes::from(vec![1; 20_000]))];
        submit(b"a", Change::SetOmap { pairs }).expect("room");
    }
    let omap = 45 * 20_000;
    let clone = |source: &'static [u8]| Change::CloneFrom { source: ObjectRef::head(0, source) };
    let mut available = store.statfs().available;
    let mut takes = |what: &str| {
        let now = store.statfs().available;
        // A checkpoint that ends meanwhile counts earlier writes exactly, which is a little less.
        assert!(now + omap - 20_000 <= available, "{what}: {available} bytes before it, {now} after");
        available = now;
    };
    // From memory.
    submit(b"b", clone(b"a")).expect("room");
    takes("the first");
    order::until_map_has(&store, b"b");
    order::until_checkpoints_have_ended(&store);
    // From the map, and from a clone that the map does not have.
    submit(b"c", clone(b"b")).expect("room");
    takes("the second");
    submit(b"d", clone(b"c")).expect("room");
    takes("the third");
    let full = submit(b"e", clone(b"a")).map(drop);
    assert!(matches!(full, Err(StoreError::Full { .. })), "{full:?}");
    drop(pg);
    store.close();
    let machine = machine.restarted();
    let store = open(&machine).expect("closed");
    let used = CAPACITY - store.statfs().available;
    assert!((4 * omap..4 * omap + 40_000).contains(&used), "{used}");
    let pg = Pg::open(&store, 0, Vec::new()).expect("works");
    let full = pg.collection.submit(one(version + 1, b"e", clone(b"d"))).map(drop);
    assert!(matches!(full, Err(StoreError::Full { .. })), "after a restart: {full:?}");
}

/// The rows of older stores are counted when they are opened; a wrong count is found.
#[test]
fn rows_that_nobody_has_counted_are_counted() {
    let machine = Machine::new(1, 64 << 20);
    let store = open(&machine).expect("a new store");
    let pg = Pg::open(&store, 0, Vec::new()).expect("works");
    for version in 1..=20 {
        let (name, change) = attributes(version);
        pg.collection.submit(one(version, name, change)).expect("room");
    }
    drop(pg);
    store.close();
    let machine = machine.restarted();
    let store = open(&machine).expect("closed");
    let available = store.statfs().available;
    assert!(available < CAPACITY - 20 * 20_000, "{available}");
    store.close();
    let machine = machine.restarted();
    let kv = machine.kv().expect("simulated");
    let (key, value) = kv.snapshot().range(b"C", b"D", 9).expect("simulated").swap_remove(0);
    let row = CollectionRow::decode(&value).expect("a row of ours");
    let with = |object_rows| {
        let mut batch = Batch::default();
        batch.set(key.clone(), CollectionRow { object_rows, ..row }.encode());
        kv.commit(batch).expect("simulated");
        let mut findings = Vec::new();
        check_on(&machine, &mut |f| findings.push(f.clone()), &mut |_, _| ()).expect("it can be read");
        findings
    };
    let wrong = with(row.object_rows.map(|bytes| bytes + 1));
    assert!(matches!(&wrong[..], [f] if f.what.contains("the rows of the objects")), "{wrong:?}");
    assert!(with(None).is_empty());
    let store = open(&machine).expect("as it was once");
    assert_eq!(store.statfs().available, available);
    store.close();
}
