//! Goal: a start reads and writes little, and still finds damage. Method: the simulated machine counts bytes.

use super::*;
use crate::layout::{Superblock, VERSION};
use crate::usage::usage_on;

/// Makes writes that no checkpoint has captured, each safe before the next.
pub(super) fn write_groups(store: &DiskStore, count: u64) -> Pg {
    let mut pg = Pg::open(store, 0, Vec::new()).expect("works");
    let mut models = Models::new();
    for version in 1..=count {
        let mut txn = one(version, b"o", Change::WriteFull { data: vec![version as u8; 3000].into() });
        txn.record = Some(OpRecord { tid: Tid(version), version: txn.version, ..OpRecord::default() });
        txn.objects.iter().for_each(|object| apply(&mut models, object));
        pg.collection.submit(txn).expect("room");
        pg.history.push((version, models.clone()));
        pg.wait();
    }
    pg
}

#[test]
fn a_new_store_does_not_wait_for_its_journal() {
    let machine = Machine::new(1, 64 << 20);
    // The first write marks the journal with the store's salt; the next one prepares it.
    let (first, go_on_first) = machine.gate("journal", At::Write);
    let (arrived, go_on) = machine.gate("journal", At::Write);
    let of_thread = machine.clone();
    let opening =
        std::thread::spawn(move || open(&of_thread).expect("no more of the journal is written first"));
    first.recv().expect("it is made");
    go_on_first.send(()).expect("somebody waits");
    let store = opening.join().expect("it opens");
    arrived.recv().expect("it is made ready when the store is open");
    assert_eq!(machine.contents("journal").len(), 4096, "a group without records");
    go_on.send(()).expect("somebody waits");
    write_groups(&store, 3);
    assert!(machine.contents("journal").len() < JOURNAL as usize / 2);
}

#[test]
fn a_start_reads_only_as_much_of_the_journal_as_may_have_been_written() {
    let machine = Machine::new(1, 64 << 20);
    let store = open(&machine).expect("a new store");
    // Twice around, so that the whole ring has been written.
    let pg = write_groups(&store, 2 * JOURNAL / 4096);
    let machine = machine.restarted();
    drop(store);
    let store = open(&machine).expect("killed");
    let tail = store.core().marks.tail.load(std::sync::atomic::Ordering::Relaxed);
    let head = store.core().marks.head.load(std::sync::atomic::Ordering::Relaxed);
    // Each group with its header, and the part where later groups may be.
    assert!(machine.bytes_read("journal") <= 2 * (head - tail) + 4 * JOURNAL / 32 + 4 * 4096);
    pg.check(&store, "killed");
    store.close();
    let machine = machine.restarted();
    let store = open(&machine).expect("closed");
    assert!(machine.bytes_read("journal") <= 3 * 4096, "{}", machine.bytes_read("journal"));
    assert!(store.core().io.kv().snapshot().get(b"M").expect("simulated").is_some());
}

#[test]
fn damage_before_the_end_is_found_also_without_a_limit() {
    for limit_is_lost in [false, true] {
        let machine = Machine::new(1, 64 << 20);
        let store = open(&machine).expect("a new store");
        write_groups(&store, 12);
        let machine = machine.restarted();
        drop(store);
        machine.flip("journal", 4 * 4096 + 100, 1);
        if limit_is_lost {
            machine.flip("super", 4096 + 5, 1);
        }
        let opened = open(&machine);
        assert!(
            matches!(&opened, Err(OpenError::Damaged(what)) if what.contains("with more behind")),
            "{opened:?}"
        );
    }
}

#[test]
fn a_store_of_the_first_format_is_opened_and_becomes_one_of_the_newest() {
    let machine = Machine::new(1, 64 << 20);
    let store = open(&machine).expect("a new store");
    let pg = write_groups(&store, 5);
    let machine = machine.restarted();
    drop(store);
    // The first format: no limit, and the journal's file has its full length.
    let superblock = machine.open("super").expect("simulated");
    let found = Superblock::load(&*superblock).expect("readable").expect("there");
    Superblock { version: 1, ..found }.store(&*superblock).expect("simulated");
    superblock.set_len(4096).expect("simulated");
    machine.open("journal").expect("simulated").set_len(JOURNAL).expect("simulated");
    assert_eq!(Superblock::load(&*superblock).expect("readable").map(|s| s.version), Some(1));
    let store = open(&machine).expect("known");
    pg.check(&store, "of the first format");
    assert_eq!(Superblock::load(&*superblock).expect("readable").map(|s| s.version), Some(VERSION));
}

#[test]
fn what_a_closed_store_holds_is_what_it_said() {
    // A checkpoint may run at any moment; afterwards no unstored record is left.
    let killed = |seed| {
        let machine = Machine::new(1, 64 << 20);
        let store = open(&machine).expect("a new store");
        let mut pgs = open_all(&store, vec![Vec::new(); PGS as usize]).expect("works");
        load(&store, &mut pgs, &mut Rng::new(seed), 41).expect("works");
        pgs.iter().for_each(Pg::wait);
        let (killed, stored) = (machine.restarted(), store.statfs().stored);
        (usage_on(&killed).expect("readable").unstored_records > 0).then_some((killed, stored))
    };
    let (killed, stored) = (5..100).find_map(killed).expect("records that no checkpoint has seen");
    open(&killed).expect("works").close();
    let closed = killed.restarted();
    let usage = usage_on(&closed).expect("readable");
    // Blocks shared by clones count once.
    let used = 4096 * clones::references(&closed).len() as u64;
    assert!(used <= stored.bytes_allocated);
    assert_eq!((usage.capacity, usage.used, usage.unstored_records), (CAPACITY, used, 0));
    // Only a checkpoint counts omaps.
    let sum = usage.pools[&PoolId(1)];
    assert_eq!(
        (sum.objects, sum.bytes, sum.bytes_allocated),
        (stored.objects, stored.bytes, stored.bytes_allocated)
    );
}
