//! Goal: reads return correct data, and report damage, both with the kernel's `io_uring` and with threads.
//! Method: a store in real files is closed and opened again, so that nothing is in memory; its reads are
//! compared with the written data.

use std::fs;
use std::os::unix::fs::FileExt as _;

use super::*;

const OBJECTS: u64 = 40;

/// Writes blocks of all kinds: single, adjacent, patched, of large writes, holes.
fn write(store: &DiskStore) -> Pg {
    let mut pg = Pg::open(store, 0, Vec::new()).expect("works");
    let mut models = Models::new();
    let mut rng = Rng::new(7);
    let mut version = 0;
    for round in 0..3 {
        for object in 0..OBJECTS {
            let name = format!("object {object}");
            version += 1;
            let offset = rng.below(30) * 4096 + rng.one_of(&[0, 0, 5]);
            let len = rng.one_of(&[4096, 4096, 30_000, 70_000, 200_000]);
            let data = (0..len).map(|i: u64| (i ^ (i >> 8) ^ version) as u8).collect::<Bytes>();
            let changes: SmallVec<_> = match round {
                0 => smallvec![Change::WriteFull { data }],
                _ => smallvec![Change::Write { offset, data: data.slice(..data.len() / 3) }],
            };
            let oid = ObjectRef::head(object as u32, name.as_bytes());
            let eversion = Eversion { epoch: Epoch(1), version };
            let info = Info { version: eversion, user_version: version, ..Info::default() };
            let objects = smallvec![ObjectChanges { oid, info, changes }];
            let txn = Transaction { version: eversion, objects, record: None };
            txn.objects.iter().for_each(|object| apply(&mut models, object));
            pg.collection.submit(txn).expect("room");
        }
        pg.history.push((version, models.clone()));
        pg.wait();
        store.core().signals.want_checkpoint();
    }
    pg
}

fn reads_are_right(io_uring: bool) {
    let dir = std::env::temp_dir().join(format!("loligo-store-reads-{io_uring}-{}", std::process::id()));
    let config = DiskConfig { capacity: Some(64 << 20), journal_bytes: 8 << 20, io_uring, ..config() };
    let store = DiskStore::open(&dir, config).expect("a new store");
    let (_, models) = write(&store).history.pop().expect("written");
    drop(store);
    let store = DiskStore::open(&dir, config).expect("the same store");
    assert!(io_uring || store.core().io.reader.get().is_none());
    let pg = Pg::open(&store, 0, Vec::new()).expect("works");
    // All reads at once, no block in memory.
    let (sender, receiver) = mpsc::channel();
    for (name, model) in &models {
        let view = wait(pg.collection.object(name.as_ref())).expect("readable").expect("it exists");
        for (from, len) in [(0, u64::MAX), (4096, 4096), (4000, 60_000), (100, 100_000)] {
            let (sender, model, name) = (sender.clone(), model.data.clone(), name.clone());
            let compare = move |read: Result<loligo_store::Data, StoreError>| {
                let (read, all) = (read.expect("readable").concat(), &model[..]);
                let from = (from as usize).min(all.len());
                let until = from.saturating_add(len as usize).min(all.len());
                sender.send((name, from, read == all[from..until])).expect("the test waits");
            };
            match view.read(from, len) {
                Fetch::Now(data) => compare(Ok(data)),
                Fetch::Later(later) => later.then(compare),
            }
        }
    }
    drop(sender);
    let results: Vec<_> = receiver.iter().collect();
    assert_eq!(results.len() as u64, OBJECTS * 4);
    results.iter().for_each(|(name, from, same)| assert!(same, "{name:?} from {from}"));
    drop((pg, store));
    what_is_damaged_is_said(&dir, config, &models);
    fs::remove_dir_all(&dir).expect("ours");
}

fn what_is_damaged_is_said(dir: &std::path::Path, config: DiskConfig, models: &Models) {
    let data = fs::OpenOptions::new().write(true).open(dir.join("data")).expect("a store's");
    (0..(64 << 8)).for_each(|block| data.write_all_at(b"damage", block * 4096 + 9).expect("room"));
    drop(data);
    let store = DiskStore::open(dir, config).expect("the same store");
    let pg = Pg::open(&store, 0, Vec::new()).expect("works");
    for name in models.keys() {
        let view = wait(pg.collection.object(name.as_ref())).expect("readable").expect("it exists");
        let error = wait(view.read(4000, 100)).expect_err("damaged");
        assert!(
            matches!(&error, StoreError::BadData { offset: 4000, what } if what.contains("object")),
            "{error}"
        );
    }
}

#[test]
fn reads_by_io_uring_are_right() {
    reads_are_right(true);
}

#[test]
fn reads_by_threads_are_right() {
    reads_are_right(false);
}

/// Recently read data is in memory, which would hide that the disk's contents have changed.
#[test]
fn what_is_verified_is_read_from_the_disk_though_it_is_in_memory() {
    let dir = std::env::temp_dir().join(format!("loligo-store-verify-{}", std::process::id()));
    let config = DiskConfig { capacity: Some(64 << 20), journal_bytes: 8 << 20, ..config() };
    let store = DiskStore::open(&dir, config).expect("a new store");
    let pg = Pg::open(&store, 0, Vec::new()).expect("works");
    let content: Bytes = vec![7; 8192].into();
    pg.collection.submit(one(1, b"o", Change::WriteFull { data: content.clone() })).expect("room");
    drop((pg, store));
    let store = DiskStore::open(&dir, config).expect("the same store");
    let pg = Pg::open(&store, 0, Vec::new()).expect("works");
    let oid = ObjectRef::head(0, b"o");
    let view = wait(pg.collection.object(oid)).expect("readable").expect("it exists");
    assert_eq!(wait(view.read(0, 8192)).expect("readable").concat(), content);
    assert_eq!(wait(view.verify(0, 8192)).expect("readable").concat(), content);
    wait(pg.collection.verify(oid)).expect("its record is readable");
    let data = fs::OpenOptions::new().write(true).open(dir.join("data")).expect("a store's");
    (0..(64 << 8)).for_each(|block| data.write_all_at(b"damage", block * 4096 + 9).expect("room"));
    assert_eq!(wait(view.read(0, 8192)).expect("it is in memory").concat(), content);
    let error = wait(view.verify(0, 8192)).expect_err("it is not on the disk");
    assert!(matches!(error, StoreError::BadData { offset: 0, .. }), "{error}");
    drop((view, pg, store));
    fs::remove_dir_all(&dir).expect("ours");
}
