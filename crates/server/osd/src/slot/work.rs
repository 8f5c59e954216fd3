//! Goal: no request occupies a placement group, or the thread that reads sockets, for more than the work
//! bound, whatever its operations are. Method: requests of many operations run while every thread of
//! `hands` is taken, beside another client's small requests; the test also checks the work of each turn.

use std::sync::Mutex as StdMutex;

use loligo_store::memory::MemoryStore;
use loligo_wire::PoolId;
use loligo_wire::message::osd::{HObject, OpCode, Ops, OsdOp, XattrArgs};

use super::unread::{Slow, no_hand_free, submit, submit_light};
use super::*;

fn slot(helpers: &Helpers) -> Arc<Slot> {
    let store = MemoryStore::new(1 << 30);
    Arc::new(Slot::open(PgId { pool: PoolId(1), seed: 0 }, &store, helpers).expect("a slot"))
}

fn many(count: usize, op: impl Fn() -> OsdOp) -> Ops {
    (0..count).map(|_| op()).collect()
}

#[test]
fn heavy_methods_and_listings_keep_nobody_waiting_but_their_own_client() {
    for ops in [
        many(20_000, || OsdOp::call("hello", "say_hello", b"you")),
        many(8, || OsdOp::pgnls(1, 1, &HObject::min())),
    ] {
        let code = ops[0].code;
        let helpers = Helpers::default();
        let (slot, heavy, other) = (slot(&helpers), Slow::new(1), Slow::new(2));
        submit(&slot, &other, 0, "o", OsdOp::write_full([1; 10].to_vec().into()));
        let go = no_hand_free(&helpers);
        submit_light(&slot, Arc::clone(&heavy) as _, 1, ops);
        submit(&slot, &heavy, 2, "o", OsdOp::read(0, 1));
        submit(&slot, &other, 1, "o", OsdOp::read(0, 1));
        assert_eq!((heavy.answers(), other.answers()), (0, 2), "{code:?}");
        drop(go);
        while heavy.answers() < 2 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(*heavy.tids.lock().expect("not poisoned"), [1, 2], "{code:?}: in order");
    }
}

/// A client whose next requests arrive before it has received the first reply.
struct Eager {
    slot: Arc<Slot>,
    /// The requests it sends on its first reply.
    then: StdMutex<Vec<Ops>>,
    answers: AtomicUsize,
}

/// The recipient of the client's replies; separate from the client because a request keeps its recipient
/// alive.
struct Inbox(Arc<Eager>);

impl Asker for Inbox {
    fn answer(&self, _: Msg) {
        self.0.answers.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let then = std::mem::take(&mut *self.0.then.lock().expect("not poisoned"));
        for (tid, ops) in (2..).zip(then) {
            submit_light(&self.0.slot, Arc::new(Self(Arc::clone(&self.0))), tid, ops);
        }
    }

    fn cork(&self) -> Option<Cork<'_>> {
        None
    }
}

#[test]
fn a_turn_ends_by_the_work_of_small_changes_too() {
    const REQUESTS: usize = 20;
    /// The work bound of a turn plus one request that stays light, or plus one heavy request.
    const TURN_MAX: u64 = (4 + 13) << 20;
    const TURN_BY_HAND_MAX: u64 = (4 + 256) << 20;
    let set = || OsdOp::xattr(OpCode::SETXATTR, b"name", b"value", 0, XattrArgs::MODE_STRING);
    for op in [&(|| OsdOp::zero(7, 1)) as &dyn Fn() -> OsdOp, &|| OsdOp::truncate(9), &set] {
        let slot = slot(&Helpers::default());
        let then = (0..REQUESTS).map(|_| many(3000, op)).collect();
        let client =
            Eager { slot: Arc::clone(&slot), then: StdMutex::new(then), answers: AtomicUsize::new(0) };
        let client = Arc::new(client);
        submit_light(&slot, Arc::new(Inbox(Arc::clone(&client))), 1, smallvec![OsdOp::truncate(1 << 20)]);
        while client.answers.load(std::sync::atomic::Ordering::Relaxed) < 1 + REQUESTS {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let code = op().code;
        let turns = slot.turns.lock().expect("not poisoned").clone();
        let sum: u64 = turns.iter().map(|(_, work)| work).sum();
        assert!(sum >= (REQUESTS as u64) * (3000 << 10), "{code:?}: {turns:?}");
        let most = |by_hand| if by_hand { TURN_BY_HAND_MAX } else { TURN_MAX };
        assert!(turns.iter().all(|(by_hand, work)| *work <= most(*by_hand)), "{code:?}: {turns:?}");
    }
}
