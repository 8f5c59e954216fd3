//! Goal: rare thread schedules break nothing. Method: each schedule is forced.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::AtomicBool;
use std::thread;

use loligo_lane::Bound;

use super::*;
use crate::collection::DiskCollection;
use crate::core::{Core, Start};
use crate::keys;
use crate::opened::Opened;
use crate::pool::Pool;
use crate::rows::CollectionRow;
use crate::space::{Space, Stored};

/// Waits until the map has an object. Fails if the store stops, which would end the wait.
pub(super) fn until_map_has(store: &DiskStore, name: &[u8]) {
    let key = keys::object(1, ObjectRef::head(0, name));
    loop {
        assert_eq!(store.why_stopped(), None);
        store.core().signals.want_checkpoint();
        if store.core().io.kv().snapshot().get(&key).expect("simulated").is_some() {
            return;
        }
        thread::yield_now();
    }
}

/// Waits until everything submitted before is in the map, and the blocks that this frees are free, if they
/// may be.
pub(super) fn until_checkpoints_have_ended(store: &DiskStore) {
    // The third checkpoint begins when the second has ended, which began after this function was called.
    for _ in 0..3 {
        store.core().signals.want_checkpoint();
        while store.core().signals.checkpoint_wanted.load(std::sync::atomic::Ordering::Relaxed) {
            assert_eq!(store.why_stopped(), None);
            thread::yield_now();
        }
    }
}

fn read_all(pg: &Pg, name: &[u8]) -> Result<Vec<u8>, StoreError> {
    let view = wait(pg.collection.object(ObjectRef::head(0, name)))?.expect("it exists");
    Ok(wait(view.read(0, u64::MAX))?.concat())
}

#[test]
fn a_place_is_nobody_elses_before_the_committer_has_written_to_it() {
    const LARGE: usize = 64 << 10;
    let machine = Machine::new(1, 64 << 20);
    let small = DiskConfig { capacity: Some(24 * 4096), ..config() };
    let store = DiskStore::open_on(Arc::new(machine.clone()), small).expect("a new store");
    let pg = Pg::open(&store, 0, Vec::new()).expect("works");
    let (arrived, go_on) = machine.gate("data", At::Write);
    let submit = |version, name, change| pg.collection.submit(one(version, name, change));
    let (first, second) = (Bytes::from(vec![1; LARGE]), Bytes::from(vec![2; LARGE]));

    submit(1, b"first", Change::WriteFull { data: first }).expect("room");
    arrived.recv().expect("somebody writes it to its place");
    submit(2, b"first", Change::Remove).expect("works");
    until_checkpoints_have_ended(&store);
    // No checkpoint has captured it, and none will: its blocks belong to no object, but a thread is still
    // about to write there.
    let early = submit(3, b"second", Change::WriteFull { data: second.clone() });
    if early.is_ok() {
        until_map_has(&store, b"second");
    }
    go_on.send(()).expect("somebody waits");
    while early.is_err() {
        match submit(3, b"second", Change::WriteFull { data: second.clone() }) {
            Ok(_) => break,
            Err(StoreError::Full { .. }) => thread::yield_now(),
            Err(e) => panic!("{e}"),
        }
    }
    until_map_has(&store, b"second");
    while pg.acked() < 3 {
        pg.news.recv().expect("the listener lives");
    }
    let found = read_all(&pg, b"second").unwrap_or_else(|e| panic!("the late write went to its place: {e}"));
    assert!(found == second, "the late write went to its place");
    assert!(matches!(early, Err(StoreError::Full { .. })), "{early:?}");
}

#[test]
fn a_checkpoint_does_not_trust_its_sync_when_that_of_the_committer_has_failed() {
    let machine = Machine::new(1, 64 << 20);
    let store = open(&machine).expect("a new store");
    let pg = Pg::open(&store, 0, Vec::new()).expect("works");
    let (checkpoint_syncs, checkpoint_go_on) = machine.gate("data", At::Sync);
    let small = Bytes::from(vec![1; 5000]);
    pg.collection.submit(one(1, b"small", Change::WriteFull { data: small.clone() })).expect("room");
    while pg.acked() < 1 {
        pg.news.recv().expect("the listener lives");
    }
    store.core().signals.want_checkpoint();
    checkpoint_syncs.recv().expect("it has written the small object's blocks");
    let (lost, say_so) = machine.gate("data", At::LostSync);
    let large = Change::WriteFull { data: vec![2; 64 << 10].into() };
    pg.collection.submit(one(2, b"large", large)).expect("room");
    lost.recv().expect("the committer syncs what it has written");
    // The checkpoint's writes are lost as well; only the committer's handle has reported it so far.
    checkpoint_go_on.send(()).expect("it waits");
    let key = keys::object(1, ObjectRef::head(0, b"small"));
    while store.why_stopped().is_none() {
        // If the map is committed all the same, go on, and find that it is wrong.
        if machine.kv().expect("simulated").snapshot().get(&key).expect("simulated").is_some() {
            break;
        }
        thread::yield_now();
    }
    say_so.send(()).expect("it waits");
    drop(store);
    machine.power_cycle();
    let store = open(&machine).expect("works");
    let pg = Pg::open(&store, 0, Vec::new()).expect("works");
    assert!(read_all(&pg, b"small").is_ok_and(|found| found == small), "it was acknowledged");
}

#[test]
fn a_collection_is_open_until_it_is_empty() {
    let machine = Machine::new(1, 64 << 20);
    let store = Arc::new(open(&machine).expect("a new store"));
    let pg = Pg::open(&store, 0, Vec::new()).expect("works");
    let known = store.table().all().swap_remove(0);
    // The remover proceeds as far as it can without this lock; the observer sees the table.
    let held = known.inner.lock();
    let is_held = Arc::new(AtomicBool::new(true));
    let (of_remover, of_observer) = (Arc::clone(&store), Arc::clone(&store));
    let still_held = Arc::clone(&is_held);
    let remover = thread::spawn(move || of_remover.remove(pg.id));
    let observer = thread::spawn(move || {
        while of_observer.collections().contains(&pg.id) {
            thread::yield_now();
        }
        still_held.load(Ordering::Relaxed)
    });
    // If the collection leaves the table too early, the observer ends soon.
    for _ in 0..20_000 {
        if observer.is_finished() {
            break;
        }
        thread::yield_now();
    }
    is_held.store(false, Ordering::Relaxed);
    drop(held);
    remover.join().expect("no panic").expect("works");
    assert!(!observer.join().expect("no panic"), "a checkpoint would find it removed, with all it had");
}

/// Goal: cloning an object reads nothing, so that a thread that holds a lock may do it. Method: an omap
/// that is only in the map on disk is cloned, the clone cloned again, and both changed, while a lock is
/// held. Simulated disks refuse reads of a thread that holds a lock.
#[test]
fn an_omap_is_cloned_without_reading_it() {
    static HELD: Class = Class::new("store.test.held");
    let machine = Machine::new(1, 64 << 20);
    let store = open(&machine).expect("a new store");
    let pg = Pg::open(&store, 0, Vec::new()).expect("works");
    let pair = |k: &'static str, v: &'static str| (Bytes::from(k), Bytes::from(v));
    let set = |pairs| Change::SetOmap { pairs };
    let stored = (0..1500).map(|n| (Bytes::from(format!("k{n:04}")), Bytes::from("v"))).collect();
    pg.collection.submit(one(1, b"source", set(stored))).expect("room");
    until_map_has(&store, b"source");
    until_checkpoints_have_ended(&store);
    let lock = Mutex::new(&HELD, ());
    let held = lock.lock();
    let clone = |source: &'static [u8]| Change::CloneFrom { source: ObjectRef::head(0, source) };
    let gone = Change::RemoveOmapRange { from: "k0001".into(), until: "k1498".into() };
    let changes = [
        (&b"source"[..], set(vec![pair("k0000", "before")])),
        (b"first", clone(b"source")),
        (b"source", Change::ClearOmap),
        (b"first", gone),
        (b"second", clone(b"first")),
        (b"second", set(vec![pair("k0700", "after")])),
        (b"second", Change::RemoveOmap { keys: vec!["k1499".into()] }),
    ];
    for (version, (name, change)) in (2..).zip(changes) {
        pg.collection.submit(one(version, name, change)).expect("room");
    }
    drop(held);
    let omap = |name| {
        let view =
            wait(pg.collection.object(ObjectRef::head(0, name))).expect("readable").expect("it is there");
        let value = wait(view.omap_values(&["k0700".into(), "k1498".into()])).expect("readable");
        let page = wait(view.omap_page(ALL)).expect("readable");
        assert_eq!(
            value,
            page.pairs.iter().filter(|(k, _)| k == "k0700" || k == "k1498").cloned().collect::<Vec<_>>()
        );
        page.pairs
    };
    let check = |when| {
        assert_eq!(omap(b"source"), [], "{when}");
        assert_eq!(
            omap(b"first"),
            [pair("k0000", "before"), pair("k1498", "v"), pair("k1499", "v")],
            "{when}"
        );
        assert_eq!(
            omap(b"second"),
            [pair("k0000", "before"), pair("k0700", "after"), pair("k1498", "v")],
            "{when}"
        );
    };
    check("from the source's rows");
    until_map_has(&store, b"second");
    until_checkpoints_have_ended(&store);
    check("from rows of their own");
}

#[test]
fn who_finds_no_room_waits_and_the_store_goes_on() {
    let machine = Machine::new(1, 64 << 20);
    let pool = Pool::start(0).expect("no threads");
    let start = Start {
        journal_len: JOURNAL,
        journal_at: 0,
        next_seq: 1,
        next_object: 1,
        cache_bytes: 0,
        waiting_max: Bound { items: 2, bytes: 1 << 20 },
        small_writes: SmallWrites::ByLoad,
    };
    let data = machine.open("data").expect("simulated");
    let kv = machine.kv().expect("simulated");
    let disk = kv.snapshot();
    let core = Arc::new(Core::new(data, kv, Space::new(&Stored::new(64)), pool, &start));
    core.filter.complete();
    let (id, row) =
        (PgId { pool: PoolId(1), seed: 0 }, CollectionRow { number: 1, ..CollectionRow::default() });
    // No committer takes records out of its lane.
    let collection = DiskCollection::new(Arc::clone(&core), id, &row, Vec::new(), disk, Arc::default());
    let collection = Opened(collection);
    let submit = |version| collection.submit(one(version, b"a", Change::Create)).map(drop);
    assert_eq!([submit(1), submit(2)], [Ok(()), Ok(())]);
    let (tell, told) = mpsc::channel();
    let wait = || {
        let tell = tell.clone();
        match collection.room() {
            Fetch::Now(()) => tell.send(Ok(())).expect("the test waits"),
            Fetch::Later(later) => later.then(move |answer| tell.send(answer).expect("the test waits")),
        }
    };
    wait();
    assert!(told.try_recv().is_err(), "there is no room");
    assert_eq!(submit(3), Ok(()), "who does not wait is not refused");
    let mut taken = VecDeque::new();
    let mut take = || {
        let _ = core.queue.records.run_batch(1, |batch| {
            taken.extend(batch.drain(..));
            std::ops::ControlFlow::Break(())
        });
        core.handled(&[taken.pop_front().expect("a record")]);
    };
    take();
    assert!(told.try_recv().is_err(), "as many wait as may");
    take();
    told.recv().expect("the pool tells").expect("there is room");
    assert_eq!(submit(4), Ok(()));
    wait();
    core.stop("a disk".to_owned());
    assert_eq!(told.recv(), Ok(Err(StoreError::Stopped)));
    assert_eq!(submit(5), Err(StoreError::Stopped));
}

#[test]
fn each_handle_is_told_of_a_sync_that_failed() {
    let machine = Machine::new(1, 64 << 20);
    let [a, b] = [0; 2].map(|_| machine.open("data").expect("simulated"));
    let store = open(&machine).expect("a new store");
    drop(store);
    let machine = machine.restarted();
    drop((a, b));
    let [a, b] = [0; 2].map(|_| machine.open("data").expect("simulated"));
    a.write(0, &crate::backend::Buffer::zeroed(4096)).expect("simulated");
    machine.plan(Plan { fail_at: Some(0), ..Plan::default() });
    a.sync().expect_err("as planned");
    b.sync().expect_err("it would vouch for what the other wrote");
    for handle in [a, b] {
        handle.sync().expect("told already");
    }
}

/// The thread in which an injected panic occurred.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Hit {
    Thread(String),
    /// The thread that uses the store.
    User,
    Nothing,
}

/// Makes one call panic while objects are written, read and checkpointed. No thread may wait for ever, and
/// no acknowledged transaction may be lost. Returns where the panic occurred.
fn panic_at(seed: u64, call: u64) -> Hit {
    let mut rng = Rng::new(seed);
    let machine = Machine::new(seed, 64 << 20);
    let store = open(&machine).expect("a new store");
    let mut pgs = open_all(&store, vec![Vec::new(); PGS as usize]).expect("works");
    load(&store, &mut pgs, &mut rng, 20).expect("works");
    pgs.iter().for_each(Pg::wait);
    let histories = pgs.into_iter().map(|pg| pg.history).collect();
    store.close();
    // So that nothing is in memory.
    let machine = machine.restarted();
    let store = open(&machine).expect("a closed store");
    let (tell, told) = mpsc::channel();
    store.on_stop(move |_| tell.send(()).expect("the test waits"));
    let mut pgs = open_all(&store, histories).expect("works");
    machine.plan(Plan { panic_at: Some(call), ..Plan::default() });
    let work = || -> Result<(), StoreError> {
        for _ in 0..4 {
            load(&store, &mut pgs, &mut rng, 8)?;
            pgs.iter().try_for_each(read_some)?;
            store.core().signals.want_checkpoint();
        }
        Ok(())
    };
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    for pg in pgs.iter().filter(|_| matches!(done, Ok(Ok(())))) {
        while pg.acked() < pg.version() && store.why_stopped().is_none() {
            // The thread that stops the store notifies the listener.
            pg.news.recv().expect("the listener lives");
        }
    }
    store.close();
    told.recv().expect("stopped or closed");
    let why = store.why_stopped().expect("closed at least");
    let machine = machine.restarted();
    let what = format!("seed {seed}, call {call}: {why}");
    let store = open(&machine).unwrap_or_else(|e| panic!("{what}: {e}"));
    pgs.into_iter().for_each(|pg| drop(pg.check(&store, &what)));
    match why.strip_prefix("a fault of the program in the thread ") {
        Some(rest) => Hit::Thread(rest.split(':').next().unwrap_or_default().to_owned()),
        None if done.is_err() => Hit::User,
        None => Hit::Nothing,
    }
}

/// Reads all objects of a collection: data, attributes and omaps.
fn read_some(pg: &Pg) -> Result<(), StoreError> {
    for name in pg.history.last().into_iter().flat_map(|(_, models)| models.keys()) {
        let Some(view) = wait(pg.collection.object(name.as_ref()))? else { continue };
        wait(view.read(0, u64::MAX))?;
        wait(view.omap_page(ALL))?;
    }
    wait(pg.collection.list(ObjectRef::first_of_hash(0), usize::MAX)).map(drop)
}

/// A panic in any thread stops the store: nothing more is acknowledged, every listener is notified, and
/// the store can be closed.
#[test]
fn a_panic_in_any_thread_stops_the_store_and_nobody_waits() {
    let mut hits = BTreeMap::new();
    for seed in seeds() {
        let call = Rng::new(seed ^ 0xaaaa).below(250);
        *hits.entry(panic_at(seed, call)).or_insert(0) += 1;
    }
    let threads = hits.keys().filter(|hit| matches!(hit, Hit::Thread(_))).count();
    assert!(threads >= 3 || seeds().count() < 60, "{hits:?}");
}

/// Goal: a checkpoint that waits for a write of the committer is woken if that write fails. Method: the
/// committer is held in its write until the checkpoint waits for it, and then panics.
#[test]
fn a_checkpoint_does_not_wait_for_a_committer_that_has_panicked() {
    // Small writes go to their places, and the committer writes them.
    let machine = Machine::new(2, 64 << 20);
    let store = open(&machine).expect("a new store");
    let pg = Pg::open(&store, 0, Vec::new()).expect("works");
    let (arrived, go_on) = machine.gate("data", At::Write);
    pg.collection.submit(one(1, b"a", Change::WriteFull { data: vec![1; 8192].into() })).expect("room");
    arrived.recv().expect("the committer writes it");
    store.core().signals.want_checkpoint();
    while store.core().dirty.load(Ordering::Relaxed) > 0 {
        thread::yield_now();
    }
    // The checkpoint needs only a few more steps to wait.
    (0..1000).for_each(|_| thread::yield_now());
    drop(go_on);
    store.close();
    let why = store.why_stopped().expect("closed at least");
    assert!(why.contains("loligo-commit"), "{why}");
    assert_eq!(pg.acked(), 0);
}
