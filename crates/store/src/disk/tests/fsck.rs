//! Goal: a check finds all damage, names where it is, and finds nothing in a store that is whole. Method: stores that were
//! written to at random, ended at any moment; then one thing is changed.

use super::*;
use crate::disk::backend::Batch;
use crate::disk::fsck::{Checked, Finding, check_on};
use crate::disk::rows::CollectionRow;

fn check(machine: &Machine) -> (Checked, Vec<Finding>) {
    let mut findings = Vec::new();
    let checked =
        check_on(machine, &mut |f| findings.push(f.clone()), &mut |_, _| ()).expect("it can be read");
    assert_eq!(checked.errors, findings.len() as u64);
    (checked, findings)
}

#[test]
fn nothing_is_wrong_with_a_store_that_lost_power() {
    for seed in seeds().take(100) {
        let mut rng = Rng::new(seed);
        let machine = Machine::new(seed, 64 << 20);
        machine.plan(Plan { power_off_at: Some(30 + rng.below(200)), ..Plan::default() });
        if let Ok(store) = open(&machine)
            && let Ok(mut pgs) = open_all(&store, vec![Vec::new(); PGS as usize])
        {
            let _ = load(&store, &mut pgs, &mut rng, 60);
        }
        machine.power_cycle();
        drop(open(&machine).expect("works"));
        let machine = machine.restarted();
        let (_, findings) = check(&machine);
        assert!(findings.is_empty(), "seed {seed}: {findings:?}");
    }
}

/// A store with two objects, one in several chunks, of which nothing is in the journal only.
fn written() -> Machine {
    let machine = Machine::new(1, 64 << 20);
    let store = open(&machine).expect("a new store");
    let pg = Pg::open(&store, 0, Vec::new()).expect("works");
    let data: Bytes = (0..300_000u32).map(|i| (i % 251) as u8 ^ (i >> 12) as u8).collect();
    pg.collection.submit(one(1, b"large", Change::WriteFull { data: data.clone() })).expect("room");
    pg.collection.submit(one(2, b"small", Change::WriteFull { data: data.slice(..9000) })).expect("room");
    let pairs = vec![(Bytes::from("k"), Bytes::from("v"))];
    pg.collection.submit(one(3, b"small", Change::SetOmap { pairs })).expect("room");
    drop(store);
    machine.restarted()
}

#[test]
fn every_flipped_bit_of_the_data_is_found_in_its_object() {
    let machine = written();
    let (checked, findings) = check(&machine);
    assert!(findings.is_empty(), "{findings:?}");
    assert_eq!((checked.objects, checked.blocks), (2, 74 + 3));
    let contents = machine.contents("data");
    let used = (0..contents.len() / 4096).filter(|i| contents[i * 4096..][..4096].iter().any(|b| *b != 0));
    let mut offsets = Vec::new();
    for block in used {
        machine.flip("data", (block * 4096 + 77) as u64, 3);
        let (_, findings) = check(&machine);
        let [Finding { object: Some((pg, name)), offset: Some(offset), .. }] = &findings[..] else {
            panic!("{findings:?}")
        };
        assert_eq!(pg.pool, PoolId(1));
        offsets.push((name.as_ref().name.to_vec(), *offset));
        machine.flip("data", (block * 4096 + 77) as u64, 3);
    }
    offsets.sort();
    let expected =
        |name: &[u8], blocks: u64| (0..blocks).map(|b| (name.to_vec(), b * 4096)).collect::<Vec<_>>();
    assert_eq!(offsets, [expected(b"large", 74), expected(b"small", 3)].concat());
}

#[test]
fn damaged_rows_are_found() {
    let whole = written();
    let kv = whole.kv().expect("simulated");
    let rows = kv.snapshot().range(b"A", b"Z", usize::MAX).expect("simulated");
    let kinds: std::collections::BTreeSet<u8> = rows.iter().map(|(key, _)| key[0]).collect();
    assert_eq!(kinds, b"CKMOPS".iter().copied().collect());
    for (key, value) in rows.iter().filter(|(key, _)| key[0] != b'M') {
        // Gone, or cut short. An omap's value may be anything.
        for new in [None, Some(value.slice(..value.len() / 2))] {
            if key[0] == b'P' && new.is_none() {
                continue;
            }
            let mut batch = Batch::default();
            batch.changes.push((key.clone(), new.clone()));
            kv.commit(batch).expect("simulated");
            let (_, findings) = check(&whole);
            // A chunk that is gone shows as blocks that nobody refers to, and in the sums.
            assert!(!findings.is_empty(), "{} {new:?}", key.escape_ascii());
            let mut batch = Batch::default();
            batch.set(key.clone(), value.clone());
            kv.commit(batch).expect("simulated");
        }
    }
    assert!(check(&whole).1.is_empty());
}

#[test]
fn wrong_sums_and_blocks_of_two_objects_are_found() {
    let machine = written();
    let kv = machine.kv().expect("simulated");
    let of = |from: &[u8], until: &[u8]| kv.snapshot().range(from, until, 9).expect("simulated");
    let (key, value) = of(b"C", b"D").swap_remove(0);
    let mut row = CollectionRow::decode(&value).expect("a row of ours");
    row.stats.bytes += 1;
    let mut batch = Batch::default();
    batch.set(key.clone(), row.encode());
    kv.commit(batch).expect("simulated");
    let (_, findings) = check(&machine);
    assert!(matches!(&findings[..], [f] if f.what.contains("statistics")), "{findings:?}");
    // The last chunk's row also in the place of the first one.
    let chunks = of(b"K", b"L");
    let mut batch = Batch::default();
    batch.set(key, value);
    batch.set(chunks[0].0.clone(), chunks[2].1.clone());
    kv.commit(batch).expect("simulated");
    let (_, findings) = check(&machine);
    let shared = findings.iter().filter(|f| f.what.contains("as well")).count();
    assert_eq!(shared, 2 * (74 - 64), "{findings:?}");
}
