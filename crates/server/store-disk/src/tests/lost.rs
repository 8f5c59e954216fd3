//! Goal: the lost row of a collection is reconstructed from other data, or nothing is changed. Method: a
//! store whose last records are in the journal only; then rows are truncated or removed.

use super::fsck::{check, mend};
use super::*;
use crate::backend::Batch;
use crate::keys;

const VERSIONS: u64 = 70;
const NAMES: [&[u8]; 2] = [b"first", b"second"];

fn pgs(store: &DiskStore) -> [Pg; 2] {
    [0, 1].map(|seed| Pg::open(store, seed, Vec::new()).expect("works"))
}

/// Writes an object in each of two placement groups, with a key of 3,000 bytes for each version.
fn write(store: &DiskStore, versions: std::ops::RangeInclusive<u64>) {
    let pgs = pgs(store);
    let last = *versions.end();
    for version in versions {
        for (pg, name) in pgs.iter().zip(NAMES) {
            let change = Change::Write { offset: version * 3000, data: vec![version as u8; 3000].into() };
            let mut txn = one(version, name, change);
            txn.record = Some(op(version));
            pg.collection.submit(txn).expect("room");
        }
    }
    for pg in &pgs {
        while pg.acked() < last {
            pg.news.recv().expect("the listener lives");
        }
    }
}

fn op(version: u64) -> OpRecord {
    let version = Eversion { epoch: Epoch(1), version };
    OpRecord { client: 4, tid: Tid(version.version), version, ..OpRecord::default() }
}

/// A store whose last three versions are in the journal only if `logged`.
fn written(logged: bool) -> Machine {
    let machine = Machine::new(1, 64 << 20);
    let store = open(&machine).expect("a new store");
    let before = if logged { VERSIONS - 3 } else { VERSIONS };
    write(&store, 1..=before);
    store.close();
    let machine = machine.restarted();
    if before == VERSIONS {
        return machine;
    }
    let store = open(&machine).expect("closed");
    write(&store, before + 1..=VERSIONS);
    machine.restarted()
}

fn put(machine: &Machine, key: Bytes, value: Option<Bytes>) {
    let mut batch = Batch::default();
    batch.changes.push((key, value));
    machine.kv().expect("simulated").commit(batch).expect("simulated");
}

fn rows(machine: &Machine) -> Vec<(Bytes, Bytes)> {
    machine.kv().expect("simulated").snapshot().range(b"A", b"Z", usize::MAX).expect("simulated")
}

/// Checks that everything is present, once, and that the store accepts writes.
fn check_all_of(machine: &Machine, what: &str) {
    let store = open(machine).unwrap_or_else(|e| panic!("{what}: {e}"));
    for (pg, name) in pgs(&store).iter().zip(NAMES) {
        assert_eq!(pg.collection.version().version, VERSIONS, "{what}");
        let tids: Vec<u64> = pg.collection.records().iter().map(|record| record.tid.0).collect();
        assert_eq!(tids, (1..=VERSIONS).collect::<Vec<_>>(), "{what}");
        let view = wait(pg.collection.object(ObjectRef::head(0, name))).expect("readable").expect("there");
        let expected: Vec<u8> = (0..=VERSIONS).flat_map(|version| vec![version as u8; 3000]).collect();
        assert!(wait(view.read(0, u64::MAX)).expect("readable").concat() == expected, "{what}");
    }
    write(&store, VERSIONS + 1..=VERSIONS + 1);
    store.close();
    let (_, findings) = check(&machine.restarted());
    assert!(findings.is_empty(), "{what}: {findings:?}");
}

#[test]
fn a_row_that_is_cut_short_is_made_again() {
    for logged in [false, true] {
        let machine = written(logged);
        let key = keys::collection(PgId { pool: PoolId(1), seed: 0 });
        let value = machine.kv().expect("simulated").snapshot().get(&key).expect("simulated").expect("a row");
        for len in [0, 4, 36] {
            let machine = written(logged);
            put(&machine, key.clone(), Some(value.slice(..len)));
            let what = format!("{len} bytes are left, {logged}");
            assert!(matches!(open(&machine), Err(OpenError::Damaged(_))), "{what}");
            let (done, left, kept) = mend(&machine);
            assert!(
                left.is_empty() && done.iter().any(|done| done.contains("is made again")),
                "{what}: {done:?} {left:?}"
            );
            assert!(
                kept.iter().any(|(name, row)| name.starts_with("row-C-") && *row == value[..len]),
                "{what}"
            );
            check_all_of(&machine, &what);
        }
    }
}

#[test]
fn rows_that_are_gone_are_made_again_if_the_journal_speaks_of_them() {
    for seeds in [&[0][..], &[1], &[0, 1]] {
        let machine = written(true);
        let logged = check(&machine).0.records > 0;
        for seed in seeds {
            put(&machine, keys::collection(PgId { pool: PoolId(1), seed: *seed }), None);
        }
        let before = rows(&machine);
        let (done, left, _) = mend(&machine);
        let what = format!("{seeds:?}: {done:?} {left:?}");
        if logged {
            assert!(left.is_empty(), "{what}");
            check_all_of(&machine, &what);
        } else {
            // A checkpoint ran in between.
            assert!(done[0].starts_with("nothing: ") && rows(&machine) == before, "{what}");
        }
    }
}

#[test]
fn what_contradicts_itself_is_left_alone() {
    let machine = written(false);
    let key = |seed| keys::collection(PgId { pool: PoolId(1), seed });
    let value = machine.kv().expect("simulated").snapshot().get(&key(1)).expect("simulated").expect("a row");
    // The remains name the number of the other collection; or two rows are cut, and it is unknown which is
    // which.
    for changes in [vec![(0, value.slice(..4))], vec![(0, Bytes::new()), (1, Bytes::new())]] {
        let machine = written(false);
        changes.into_iter().for_each(|(seed, value)| put(&machine, key(seed), Some(value)));
        let before = rows(&machine);
        let (done, _, kept) = mend(&machine);
        assert!(done.len() == 1 && done[0].starts_with("nothing: ") && kept.is_empty(), "{done:?}");
        assert_eq!(rows(&machine), before);
    }
}
