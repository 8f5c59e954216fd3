//! Goal: a check finds all damage, reports where it is, and finds nothing in an intact store. Method:
//! stores with random contents, ended at any moment; then one thing is changed.

use super::*;
use crate::backend::Batch;
use crate::fsck::{Checked, Finding, Listener, check_on, repair_on};
use crate::rows::CollectionRow;

pub(super) fn check(machine: &Machine) -> (Checked, Vec<Finding>) {
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

/// A store with two objects, one in several chunks, without data that only the journal has.
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
    // The mark with the store's id follows the last block.
    let blocks = contents.len() / 4096 - 1;
    let used = (0..blocks).filter(|i| contents[i * 4096..][..4096].iter().any(|b| *b != 0));
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
        // Removed, or truncated. An omap's value may be anything.
        for new in [None, Some(value.slice(..value.len() / 2))] {
            if key[0] == b'P' && new.is_none() {
                continue;
            }
            let mut batch = Batch::default();
            batch.changes.push((key.clone(), new.clone()));
            kv.commit(batch).expect("simulated");
            let (_, findings) = check(&whole);
            // A missing chunk shows as blocks without references, and in the sums.
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
    // The last chunk's row also in place of the first one.
    let chunks = of(b"K", b"L");
    let mut batch = Batch::default();
    batch.set(key, value);
    batch.set(chunks[0].0.clone(), chunks[2].1.clone());
    kv.commit(batch).expect("simulated");
    let (_, findings) = check(&machine);
    let shared =
        findings.iter().filter(|f| f.what.starts_with("10 blocks") && f.what.contains("fewer")).count();
    assert_eq!(shared, 1, "{findings:?}");
}

type Kept = Vec<(String, Vec<u8>)>;

/// Repairs; returns the actions, the remaining faults and the removed data.
pub(super) fn mend(machine: &Machine) -> (Vec<String>, Vec<Finding>, Kept) {
    let (mut done, mut left, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    let listener = Listener {
        found: &mut |_| (),
        done: &mut |what| done.push(what.to_owned()),
        left: &mut |finding| left.push(finding.clone()),
        progress: &mut |_, _| (),
    };
    let mut keep = |name: &str, bytes: &[u8]| {
        kept.push((name.to_owned(), bytes.to_vec()));
        Ok(())
    };
    let repaired = repair_on(machine, listener, &mut keep).expect("it can be read");
    let nothing = repaired.after == repaired.before;
    assert!(nothing || repaired.after.errors == left.len() as u64);
    (done, left, kept)
}

/// Returns the contents of an object, block by block, with `None` for a failed read; `None` if the object
/// does not exist.
fn readable(pg: &Pg, name: &'static [u8]) -> Option<Vec<Option<Vec<u8>>>> {
    let view = wait(pg.collection.object(ObjectRef::head(0, name))).expect("its row can be read")?;
    let blocks = 0..view.size().div_ceil(4096);
    Some(blocks.map(|i| wait(view.read(i * 4096, 4096)).ok().map(|data| data.concat())).collect())
}

/// Damages every row in turn: afterwards the store opens, and everything that did not depend on that row
/// is present.
#[test]
fn what_is_damaged_is_mended_or_set_aside_and_the_rest_served() {
    let rows =
        written().kv().expect("simulated").snapshot().range(b"A", b"Z", usize::MAX).expect("simulated");
    let large: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8 ^ (i >> 12) as u8).collect();
    for (index, (key, value)) in rows.iter().enumerate().filter(|(_, (key, _))| !b"MC".contains(&key[0])) {
        for new in [None, Some(value.slice(..value.len() / 2))] {
            if key[0] == b'P' {
                continue;
            }
            let machine = written();
            let mut batch = Batch::default();
            // Objects and chunks have the same numbers in each of these stores.
            batch.changes.push((rows[index].0.clone(), new.clone()));
            machine.kv().expect("simulated").commit(batch).expect("simulated");
            let (done, left, kept) = mend(&machine);
            let what = format!("{} {:?}: {done:?}, {left:?}", key.escape_ascii(), new.is_some());
            assert!(!done.is_empty(), "{what}");
            let cut_chunk = key[0] == b'K' && new.is_some();
            assert!(
                left.iter().all(|f| f.what.contains("checksum")) && left.is_empty() != cut_chunk,
                "{what}"
            );
            let gone = key[0] == b'O' && new.is_none() || key[0] == b'S';
            assert!(gone || key[0] == b'K' && new.is_none() || !kept.is_empty(), "{what}");
            let store = open(&machine).expect("it opens");
            let pg = Pg::open(&store, 0, Vec::new()).expect("works");
            let mut lost = 0;
            for (name, len) in [(b"large".as_slice(), 300_000), (b"small", 9000)] {
                let Some(found) = readable(&pg, name) else {
                    assert_eq!(key[0], b'O', "{what}");
                    continue;
                };
                for (found, expected) in found.iter().zip(large[..len].chunks(4096)) {
                    // A chunk whose row is missing was a hole before the repair as well.
                    let hole = key[0] == b'K' && new.is_none() && found.iter().flatten().all(|b| *b == 0);
                    lost += usize::from(found.is_none());
                    assert!(hole || found.as_deref().is_none_or(|found| found == expected), "{what}");
                }
            }
            assert!(if cut_chunk { (1..=32).contains(&lost) } else { lost == 0 }, "{what}: {lost}");
            // And it can be written to.
            for (version, name) in [(8, b"large".as_slice()), (9, b"small")] {
                pg.collection
                    .submit(one(version, name, Change::WriteFull { data: vec![1; 70_000].into() }))
                    .expect("room");
            }
            store.close();
            assert_eq!(store.why_stopped().as_deref(), Some("the store was closed"), "{what}");
            assert!(check(&machine.restarted()).1.is_empty(), "{what}");
        }
    }
}

#[test]
fn a_block_of_two_objects_is_counted_so() {
    let machine = written();
    let kv = machine.kv().expect("simulated");
    let chunks = kv.snapshot().range(b"K", b"L", 9).expect("simulated");
    // The first chunk refers to the last chunk's blocks as well; only the last chunk's contents are correct.
    let mut batch = Batch::default();
    batch.set(chunks[0].0.clone(), chunks[2].1.clone());
    kv.commit(batch).expect("simulated");
    let (_, left, _) = mend(&machine);
    assert!(left.is_empty(), "each has the bytes that its checksum fits: {left:?}");
    let store = open(&machine).expect("it opens");
    let pg = Pg::open(&store, 0, Vec::new()).expect("works");
    pg.collection.submit(one(8, b"large", Change::Remove)).expect("works");
    store.close();
    let machine = machine.restarted();
    assert!(check(&machine).1.is_empty());
    assert_eq!(open(&machine).expect("it opens").core().space.in_use(), 3);
}

#[test]
fn a_journal_with_a_gap_ends_there() {
    let machine = Machine::new(1, 64 << 20);
    let store = open(&machine).expect("a new store");
    let pg = Pg::open(&store, 0, Vec::new()).expect("works");
    for version in 1..=9 {
        let change = Change::Write { offset: 0, data: vec![version as u8; 3000].into() };
        pg.collection.submit(one(version, b"a", change)).expect("room");
        while pg.acked() < version {
            pg.news.recv().expect("the listener lives");
        }
    }
    // Each version has a group of its own, of one block.
    let machine = machine.restarted();
    drop(store);
    // The first group has no records.
    machine.flip("journal", 5 * 4096 + 100, 1);
    assert!(matches!(open(&machine), Err(OpenError::Damaged(_))));
    let (done, left, kept) = mend(&machine);
    assert!(left.is_empty() && done.iter().any(|what| what.contains("is lost")), "{done:?} {left:?}");
    assert!(
        matches!(&kept[..], [(name, bytes)] if name == "journal-20480" && bytes.len() >= 5 * 4096),
        "{}",
        kept.len()
    );
    // The next write ends where an old group began, which must not be taken for the next group.
    let store = open(&machine).expect("it opens");
    let pg = Pg::open(&store, 0, Vec::new()).expect("works");
    assert_eq!(pg.collection.version().version, 4);
    pg.collection.submit(one(5, b"b", Change::Create)).expect("room");
    while pg.acked() < 5 {
        pg.news.recv().expect("the listener lives");
    }
    let machine = machine.restarted();
    drop(store);
    let store = open(&machine).expect("it opens");
    let pg = Pg::open(&store, 0, Vec::new()).expect("works");
    assert_eq!(pg.collection.version().version, 5);
    assert_eq!(readable(&pg, b"a").expect("it is there")[0].as_deref(), Some(&[4; 3000][..]));
}

#[test]
fn without_a_collections_row_nothing_is_changed() {
    let machine = written();
    let kv = machine.kv().expect("simulated");
    let (key, _) = kv.snapshot().range(b"C", b"D", 9).expect("simulated").swap_remove(0);
    let mut batch = Batch::default();
    batch.remove(key);
    kv.commit(batch).expect("simulated");
    let before = kv.snapshot().range(b"A", b"Z", usize::MAX).expect("simulated");
    let (done, _, kept) = mend(&machine);
    assert!(done.len() == 1 && done[0].starts_with("nothing: ") && kept.is_empty(), "{done:?}");
    assert_eq!(kv.snapshot().range(b"A", b"Z", usize::MAX).expect("simulated"), before);
}
