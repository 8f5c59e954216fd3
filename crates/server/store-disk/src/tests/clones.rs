//! Goal: a clone takes no space until one of the two is written to, and each block is in use exactly as
//! long as something refers to it. Method: mostly clones among random changes, with power failures,
//! compared with the model. Then references are counted from the rows alone and compared with the store's
//! free space.

use super::*;
use crate::backend::Batch;
use crate::block::Block;
use crate::fsck::check_on;
use crate::shares::Shares;
use crate::{keys, rows};

/// Returns how often the map's objects refer to each block.
pub(super) fn references(machine: &Machine) -> std::collections::BTreeMap<u32, u32> {
    let disk = machine.kv().expect("simulated").snapshot();
    let mut counts = std::collections::BTreeMap::new();
    for (key, _) in disk.range(b"O", b"P", usize::MAX).expect("simulated") {
        let collection = u32::from_be_bytes(key[1..5].try_into().expect("four bytes"));
        let name = keys::object_name(&key).expect("ours");
        let (onode, _) = rows::load(&*disk, collection, name.as_ref()).expect("ours").expect("just listed");
        for block in onode.chunks.iter().flatten().flat_map(|chunk| &chunk.blocks) {
            if let Block::Disk(place) = block {
                *counts.entry(place.block).or_default() += 1;
            }
        }
    }
    counts
}

/// Checks a closed store: the blocks that its rows mark as in use and shared are those that rows refer to.
fn check_accounts(store: &DiskStore, machine: &Machine, what: &str) {
    let counts = references(machine);
    let (blocks, _) = store.core().space.figures();
    let in_use = store.core().space.in_use();
    // A reading thread may still hold a view: until it ends, its blocks are not reused, whatever the rows
    // contain.
    assert!(in_use >= counts.len() as u64, "{what}: {in_use} blocks are in use, {} have to be", counts.len());
    let mut shares = Shares::default();
    let disk = machine.kv().expect("simulated").snapshot();
    for (key, row) in disk.range(b"R", b"S", usize::MAX).expect("simulated") {
        let number = u32::from_be_bytes(key[1..].try_into().expect("four bytes"));
        shares.load(number, &row, blocks).expect("ours");
    }
    let stored: std::collections::BTreeMap<u32, u32> =
        shares.ranges().flat_map(|(run, n)| (run.start..run.end()).map(move |block| (block, n))).collect();
    let expected: std::collections::BTreeMap<u32, u32> = counts.into_iter().filter(|(_, n)| *n > 1).collect();
    assert_eq!(stored, expected, "{what}: what is shared");
    let mut findings = Vec::new();
    // Finds blocks in use without a reference.
    check_on(machine, &mut |f| findings.push(f.clone()), &mut |_, _| ()).expect("it can be read");
    assert!(findings.is_empty(), "{what}: {findings:?}");
}

fn oid(rng: &mut Rng) -> ObjectRef<'static> {
    let snap = rng.one_of(&[SnapId::HEAD, SnapId(1), SnapId(2), SnapId(3)]);
    ObjectRef { snap, ..ObjectRef::head(0, rng.one_of(&[&b"a"[..], b"b"])) }
}

fn change(rng: &mut Rng) -> Change<'static> {
    let offset = rng.below(60) * 4096 + rng.one_of(&[0, 0, 1000]);
    match rng.below(16) {
        0 => Change::Remove,
        1..=7 => Change::CloneFrom { source: oid(rng) },
        8..=11 => Change::Write { offset, data: rng.data() },
        12 => Change::WriteFull { data: rng.data() },
        13 => Change::Zero { offset, len: rng.below(60_000) },
        14 => Change::Truncate { size: offset },
        _ => Change::SetOmap { pairs: vec![(rng.short(), rng.short())] },
    }
}

/// Like an OSD, makes a clone and a change of its source in one transaction; adds other changes.
fn transaction(rng: &mut Rng, version: u64) -> Transaction<'static> {
    let mut txn = rng.transaction(version);
    let objects = (0..1 + rng.below(3)).map(|_| ObjectChanges {
        oid: oid(rng),
        info: txn.objects[0].info,
        changes: (0..1 + rng.below(2)).map(|_| change(rng)).collect(),
    });
    txn.objects = objects.collect();
    txn
}

fn submit(pg: &mut Pg, rng: &mut Rng) -> Result<(), StoreError> {
    let txn = transaction(rng, pg.version() + 1);
    let mut models = pg.history.last().map(|(_, models)| models.clone()).unwrap_or_default();
    txn.objects.iter().for_each(|object| apply(&mut models, object));
    let version = txn.version.version;
    match pg.collection.submit(txn) {
        Err(StoreError::Full { .. } | StoreError::TooLarge { .. }) => Ok(()),
        result => {
            // Also if it failed: it may be applied all the same.
            pg.history.push((version, models));
            result.map(|_| ())
        }
    }
}

/// Random transactions, checkpoints, and views that are held for a while.
fn load(
    store: &DiskStore,
    pgs: &mut [Pg],
    rng: &mut Rng,
    checks: bool,
    what: &str,
) -> Result<(), StoreError> {
    let mut views = Vec::new();
    for _ in 0..5 + rng.below(60) {
        let pg = &mut pgs[rng.below(PGS.into()) as usize];
        submit(pg, rng)?;
        if rng.below(6) == 0 {
            store.core().signals.want_checkpoint();
        }
        let Some((_, models)) = pg.history.last() else { continue };
        let of = rng.below(models.len().max(1) as u64) as usize;
        if let Some((name, model)) = models.iter().nth(of)
            && let Some(view) = wait(pg.collection.object(name.as_ref()))?
        {
            views.push((view, model.clone()));
        }
        if checks && rng.below(10) == 0 {
            views.iter().for_each(|(view, model)| check_view(&**view, model, what));
        }
        views.truncate(rng.below(8) as usize);
    }
    Ok(())
}

#[test]
fn blocks_are_in_use_as_long_as_something_refers_to_them() {
    for seed in seeds() {
        let mut rng = Rng::new(seed ^ 0xc10e);
        let mut machine = Machine::new(seed, 64 << 20);
        let mut histories = vec![Vec::new(); PGS as usize];
        for life in 0..4 {
            let what = format!("seed {seed}, life {life}");
            let cut = rng.below(3) > 0;
            let off_at = 1 + rng.below(if life == 0 { 150 } else { 60 });
            machine.plan(Plan { power_off_at: cut.then_some(off_at), ..Plan::default() });
            let mut pgs = Vec::new();
            if let Ok(store) = open(&machine)
                && let Ok(opened) = open_all(&store, histories.clone())
            {
                pgs = opened;
                let loaded = load(&store, &mut pgs, &mut rng, !cut, &what);
                if !cut {
                    loaded.expect("nothing fails");
                    store.close();
                    machine = machine.restarted();
                    check_accounts(&store, &machine, &format!("{what}, closed"));
                }
            }
            machine.power_cycle();
            let store = open(&machine).unwrap_or_else(|e| panic!("{what}: {e}"));
            if pgs.is_empty() {
                pgs = open_all(&store, histories).expect("works");
            }
            histories = pgs.into_iter().map(|pg| pg.check(&store, &what)).collect();
            store.close();
            machine = machine.restarted();
            check_accounts(&store, &machine, &what);
        }
    }
}

fn copy(version: u64, name: &'static [u8], source: &'static [u8]) -> Transaction<'static> {
    one(version, name, Change::CloneFrom { source: ObjectRef::head(0, source) })
}

#[test]
fn a_clone_takes_no_room_until_one_of_the_two_is_written_to() {
    // Of large writes that no checkpoint has captured, and of blocks that have their place.
    for placed in [false, true] {
        let mut machine = Machine::new(1, 64 << 20);
        let mut store = open(&machine).expect("a new store");
        let mut pg = Pg::open(&store, 0, Vec::new()).expect("works");
        let data = Bytes::from(vec![7; 64 * 4096]);
        pg.collection.submit(one(1, b"head", Change::WriteFull { data: data.clone() })).expect("room");
        if placed {
            store.close();
            machine = machine.restarted();
            store = open(&machine).expect("closed");
            pg = Pg::open(&store, 0, Vec::new()).expect("works");
        }
        pg.collection.submit(copy(2, b"clone", b"head")).expect("room");
        let write = Change::Write { offset: 5 * 4096, data: vec![8; 4096].into() };
        pg.collection.submit(one(3, b"head", write)).expect("room");
        store.close();
        machine = machine.restarted();
        assert_eq!(references(&machine).values().sum::<u32>(), 128);
        check_accounts(&store, &machine, "both");
        assert_eq!(store.core().space.in_use(), 65);
        let store = open(&machine).expect("closed");
        let pg = Pg::open(&store, 0, Vec::new()).expect("works");
        let view = wait(pg.collection.object(ObjectRef::head(0, b"clone"))).expect("readable");
        assert_eq!(wait(view.expect("there").read(0, u64::MAX)).expect("readable").concat(), data);
        pg.collection.submit(one(4, b"head", Change::Remove)).expect("works");
        store.close();
        machine = machine.restarted();
        check_accounts(&store, &machine, "one");
        assert_eq!(store.core().space.in_use(), 64);
    }
}

#[test]
fn a_full_store_can_be_cloned() {
    let machine = Machine::new(1, 64 << 20);
    let store = open(&machine).expect("a new store");
    let pg = Pg::open(&store, 0, Vec::new()).expect("works");
    let data = Bytes::from(vec![7; 3 << 20]);
    pg.collection.submit(one(1, b"head", Change::WriteFull { data: data.clone() })).expect("room");
    for (version, name) in [(2, b"a".as_slice()), (3, b"b"), (4, b"c")] {
        pg.collection.submit(copy(version, name, b"head")).expect("needs no room");
    }
    let full = pg.collection.submit(one(5, b"head", Change::WriteFull { data }));
    assert!(matches!(full, Err(StoreError::Full { .. })), "{full:?}");
    store.close();
    check_accounts(&store, &machine.restarted(), "three clones");
}

#[test]
fn counts_that_are_wrong_are_found_and_mended() {
    let machine = Machine::new(1, 64 << 20);
    let store = open(&machine).expect("a new store");
    let pg = Pg::open(&store, 0, Vec::new()).expect("works");
    let data = Bytes::from(vec![7; 64 * 4096]);
    pg.collection.submit(one(1, b"head", Change::WriteFull { data })).expect("room");
    pg.collection.submit(copy(2, b"clone", b"head")).expect("room");
    store.close();
    let machine = machine.restarted();
    let kv = machine.kv().expect("simulated");
    let (key, value) = kv.snapshot().range(b"R", b"S", 9).expect("simulated").swap_remove(0);
    let mut more = value.to_vec();
    more[4] += 1;
    for wrong in [None, Some(Bytes::from(more)), Some(value.slice(..3))] {
        let mut batch = Batch::default();
        batch.changes.push((key.clone(), wrong.clone()));
        kv.commit(batch).expect("simulated");
        let mut found = Vec::new();
        check_on(&machine, &mut |f| found.push(f.what.clone()), &mut |_, _| ()).expect("readable");
        assert!(
            found.iter().any(|what| what.starts_with("64 blocks") || what.contains("row 0")),
            "{found:?}"
        );
        let (done, left, _) = fsck::mend(&machine);
        assert!(left.is_empty() && !done.is_empty(), "{left:?}");
        assert_eq!(kv.snapshot().get(&key).expect("simulated"), Some(value.clone()), "{wrong:?}");
    }
}

#[test]
fn a_store_of_the_version_before_is_taken_over() {
    let machine = Machine::new(1, 64 << 20);
    let store = open(&machine).expect("a new store");
    let pg = Pg::open(&store, 0, Vec::new()).expect("works");
    pg.collection.submit(one(1, b"a", Change::WriteFull { data: vec![7; 9000].into() })).expect("room");
    drop((pg, store));
    let machine = machine.restarted();
    let file = machine.open("super").expect("simulated");
    let mut superblock = crate::layout::Superblock::load(&*file).expect("ours").expect("there");
    superblock.version = 2;
    superblock.store(&*file).expect("simulated");
    let store = open(&machine).expect("of the version before");
    let pg = Pg::open(&store, 0, Vec::new()).expect("works");
    pg.collection.submit(copy(2, b"b", b"a")).expect("room");
    store.close();
    let machine = machine.restarted();
    check_accounts(&store, &machine, "taken over");
    let file = machine.open("super").expect("simulated");
    let superblock = crate::layout::Superblock::load(&*file).expect("ours").expect("there");
    assert_eq!(superblock.version, crate::layout::VERSION);
}
