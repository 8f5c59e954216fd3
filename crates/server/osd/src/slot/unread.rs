//! Goal: unread replies are bounded, no client waits for another client to read, and each client gets
//! every reply in order. Method: a slot, and recipients that keep the share of each reply until the test
//! drops it.

use std::sync::Mutex as StdMutex;
use std::time::Duration;

use bytes::Bytes;
use loligo_store::memory::MemoryStore;
use loligo_wire::message::osd::{Ops, OsdOp};
use loligo_wire::{PoolId, Tid};

use super::*;
use crate::asker::Account;

const ANSWER: usize = 1 << 20;
const REQUESTS: u64 = 300;
/// The number of replies that one connection may leave unread.
const KEPT: usize = (64 << 20) / ANSWER;

/// A connection whose client reads only when the test does.
pub(super) struct Slow {
    number: u64,
    account: Arc<Account>,
    unread: StdMutex<Vec<Held>>,
    pub(super) tids: StdMutex<Vec<u64>>,
}

impl Slow {
    pub(super) fn new(number: u64) -> Arc<Self> {
        let (unread, tids) = Default::default();
        Arc::new(Self { number, account: Arc::default(), unread, tids })
    }

    pub(super) fn answers(&self) -> usize {
        self.tids.lock().expect("not poisoned").len()
    }
}

impl Asker for Slow {
    fn answer(&self, reply: Msg) {
        self.tids.lock().expect("not poisoned").push(reply.header.tid.0);
    }

    fn answer_held(&self, reply: Msg, held: Held) {
        self.unread.lock().expect("not poisoned").push(held);
        self.answer(reply);
    }

    fn account(&self) -> Option<Arc<Account>> {
        Some(Arc::clone(&self.account))
    }

    fn cork(&self) -> Option<Cork<'_>> {
        None
    }

    fn id(&self) -> u64 {
        self.number
    }
}

pub(super) fn submit(slot: &Arc<Slot>, asker: &Arc<Slow>, tid: u64, object: &str, op: OsdOp) {
    let writes = op.code.is_modify();
    let locator = ObjectLocator::in_pool(PoolId(1));
    let op = MOSDOp::new(locator, object.into(), smallvec![op], OsdFlags::empty());
    let context = Context { writes, ..Context::plain(asker.number, Tid(tid), Epoch(1), PoolId(1), 1) };
    let asker = Arc::clone(asker) as Arc<dyn Asker>;
    assert!(slot.submit(Request::new(asker, op, context, Hold::default(), Instant::now())));
}

#[test]
fn who_reads_late_is_answered_late_and_alone() {
    let store = MemoryStore::new(1 << 30);
    let helpers = Helpers::default();
    let slot = Slot::open(PgId { pool: PoolId(1), seed: 0 }, &store, &helpers).expect("a slot");
    let slot = Arc::new(slot);
    let (late, other) = (Slow::new(1), Slow::new(2));
    for object in ["a", "b"] {
        submit(&slot, &other, 0, object, OsdOp::write_full(vec![1; ANSWER].into()));
    }
    for tid in 1..=REQUESTS {
        let object = if tid % 3 == 0 { "a" } else { "b" };
        // Small replies keep their places, too.
        let read = if tid % 5 == 0 { OsdOp::read(0, 1) } else { OsdOp::read(0, 0) };
        submit(&slot, &late, tid, object, read);
    }
    assert!((KEPT..=KEPT * 5 / 4 + 1).contains(&late.answers()), "{} answers", late.answers());
    assert!(helpers.unread.is_over(&late.account));
    for tid in 1..=REQUESTS {
        submit(&slot, &other, tid, "a", OsdOp::read(0, 1));
    }
    assert_eq!(other.answers() as u64, 2 + REQUESTS, "nobody waits for others' clients");
    while (late.answers() as u64) < REQUESTS {
        late.unread.lock().expect("not poisoned").truncate(0);
        std::thread::sleep(Duration::from_millis(1));
        let unread = late.unread.lock().expect("not poisoned").len();
        assert!(unread <= KEPT * 5 / 4 + 1, "{unread} answers that nobody has read");
    }
    let tids = late.tids.lock().expect("not poisoned").clone();
    assert!(tids.into_iter().eq(1..=REQUESTS));
    late.unread.lock().expect("not poisoned").clear();
    assert!(!helpers.unread.may_be_crowded() && !helpers.unread.is_over(&late.account));
}

#[test]
fn what_waits_for_room_is_not_executed_before_what_came_earlier() {
    let store = MemoryStore::new(1 << 30);
    let slot = Slot::open(PgId { pool: PoolId(1), seed: 0 }, &store, &Helpers::default()).expect("a slot");
    let slot = Arc::new(slot);
    let late = Slow::new(1);
    submit(&slot, &late, 0, "o", OsdOp::write_full(vec![1; ANSWER].into()));
    for tid in 1..=REQUESTS {
        let op = if tid % 2 == 0 { OsdOp::read(0, 0) } else { OsdOp::append(Bytes::from_static(b"x")) };
        submit(&slot, &late, tid, "o", op);
    }
    while (late.answers() as u64) <= REQUESTS {
        late.unread.lock().expect("not poisoned").clear();
        std::thread::sleep(Duration::from_millis(1));
    }
    let tids = late.tids.lock().expect("not poisoned").clone();
    assert!(tids.into_iter().eq(0..=REQUESTS));
}

#[test]
fn what_requests_make_waits_until_others_are_done_with_theirs() {
    const PART: u64 = 64 << 20;
    let store = MemoryStore::new(1 << 30);
    let helpers = Helpers::default();
    let slot = Slot::open(PgId { pool: PoolId(1), seed: 0 }, &store, &helpers).expect("a slot");
    let (slot, client) = (Arc::new(slot), Slow::new(1));
    for tid in 1..=5 {
        let same = OsdOp::write_same(0, PART, Bytes::from_static(&[7; 4096]));
        submit(&slot, &client, tid, &format!("o{tid}"), same);
    }
    // A reply is counted until the test drops its share; with a client, until the store has committed
    // the change.
    assert_eq!(
        helpers.made.counted(),
        (2 * PART, 1),
        "two of one client at a time, and the rest behind the third"
    );
    let other = Slow::new(2);
    submit(&slot, &client, 6, "small", OsdOp::write_full(Bytes::from_static(b"x")));
    submit(&slot, &other, 1, "small", OsdOp::write_full(Bytes::from_static(b"y")));
    assert_eq!((client.answers(), other.answers()), (2, 1), "nobody waits for others");
    while client.answers() < 6 {
        assert!(helpers.made.counted().0 <= 2 * PART);
        client.unread.lock().expect("not poisoned").truncate(0);
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut tids = client.tids.lock().expect("not poisoned").clone();
    tids.sort_unstable();
    assert!(tids.into_iter().eq(1..=6));
    client.unread.lock().expect("not poisoned").clear();
    assert_eq!(helpers.made.counted(), (0, 0));
}

/// Occupies all threads of `hands` until the returned sender is dropped.
pub(super) fn no_hand_free(helpers: &Helpers) -> std::sync::mpsc::Sender<()> {
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let gate = Arc::new(StdMutex::new(gate));
    for _ in 0..64 {
        let gate = Arc::clone(&gate);
        helpers.hands.give(move || {
            let _ = gate.lock().expect("not poisoned").recv();
        });
    }
    go
}

/// Submits a request to the object `o` as one read from a socket, with a light budget.
pub(super) fn submit_light(slot: &Arc<Slot>, asker: Arc<dyn Asker>, tid: u64, ops: Ops) {
    let locator = ObjectLocator::in_pool(PoolId(1));
    let op = MOSDOp::new(locator, b"o".to_vec(), ops, OsdFlags::empty());
    let writes = exec::Needs::of(&op).expect("methods that there are").writes();
    let budget = exec::Budget::light();
    let client = asker.id();
    let context = Context { budget, writes, ..Context::plain(client, Tid(tid), Epoch(1), PoolId(1), 1) };
    assert!(slot.submit(Request::new(asker, op, context, Hold::default(), Instant::now())));
}

#[test]
fn a_heavy_read_keeps_nobody_waiting_but_its_own_client() {
    let store = MemoryStore::new(1 << 30);
    let helpers = Helpers::default();
    let slot = Slot::open(PgId { pool: PoolId(1), seed: 0 }, &store, &helpers).expect("a slot");
    let (slot, heavy, other) = (Arc::new(slot), Slow::new(1), Slow::new(2));
    submit(&slot, &other, 0, "o", OsdOp::write_full(vec![1; 16 << 20].into()));
    let go = no_hand_free(&helpers);
    submit_light(&slot, Arc::clone(&heavy) as _, 1, smallvec![OsdOp::read(0, 0)]);
    submit(&slot, &heavy, 2, "o", OsdOp::read(0, 1));
    submit(&slot, &other, 1, "o", OsdOp::read(0, 1));
    submit(&slot, &other, 2, "o", OsdOp::write(0, Bytes::from_static(b"new")));
    assert_eq!((heavy.answers(), other.answers()), (0, 3));
    drop(go);
    while heavy.answers() < 2 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(*heavy.tids.lock().expect("not poisoned"), [1, 2], "in order");
}
