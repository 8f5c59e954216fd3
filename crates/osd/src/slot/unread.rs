//! Goal: what clients leave unread is bounded, nobody waits for them, and each gets every answer in order. Method: a slot and
//! askers that keep what counts their answers until the test takes it.

use std::sync::Mutex as StdMutex;
use std::time::Duration;

use bytes::Bytes;
use loligo_store::memory::MemoryStore;
use loligo_wire::message::osd::OsdOp;
use loligo_wire::{PoolId, Tid};

use super::*;

const ANSWER: usize = 1 << 20;
const REQUESTS: u64 = 300;
/// As many answers as one connection may leave unread.
const KEPT: usize = (64 << 20) / ANSWER;

/// A connection whose client reads when the test says so.
struct Slow {
    number: u64,
    account: Arc<Account>,
    unread: StdMutex<Vec<Held>>,
    tids: StdMutex<Vec<u64>>,
}

impl Slow {
    fn new(number: u64) -> Arc<Self> {
        let (unread, tids) = Default::default();
        Arc::new(Self { number, account: Arc::default(), unread, tids })
    }

    fn answers(&self) -> usize {
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

fn submit(slot: &Arc<Slot>, asker: &Arc<Slow>, tid: u64, object: &str, op: OsdOp) {
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
        // Small answers keep their places, too.
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
