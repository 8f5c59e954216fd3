//! Goal: the replies to one connection's requests for one object arrive in the order of the requests,
//! with every store, and also after the store was reopened and reads its disk. Method: two connections
//! keep many random requests to a few objects in flight: changes, reads, class calls, errors, resends of
//! older requests, refusals. The test checks the order of the replies each connection receives.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use bytes::Bytes;
use loligo_store::Delayed;
use loligo_store::memory::MemoryStore;
use loligo_store_disk::{DiskConfig, DiskStore};
use loligo_wire::message::osd::{ObjectLocator, OpCode, Ops, OsdFlags, OsdOp};
use loligo_wire::{Epoch, PoolId, Tid, Uuid};
use smallvec::smallvec;

use super::*;
use crate::replies::Gatherer;

const OBJECTS: u64 = 5;
const REQUESTS: u64 = 4000;
/// Requests in flight on one connection.
const WINDOW: usize = 64;

struct Inbox {
    conn: u64,
    answers: Sender<Tid>,
}

impl Asker for Inbox {
    fn answer(&self, reply: Msg) {
        self.answers.send(reply.header.tid).expect("the test takes it");
    }

    fn cork(&self) -> Option<Cork<'_>> {
        None
    }

    fn id(&self) -> u64 {
        self.conn
    }
}

/// One connection.
struct Client {
    inbox: Arc<Inbox>,
    answers: Receiver<Tid>,
    /// The tids and objects of unanswered requests, in the order they were sent.
    asked: VecDeque<(Tid, u64)>,
    /// The changes sent, for resends.
    changes: Vec<(Tid, MOSDOp)>,
    dice: u64,
    sent: u64,
}

impl Client {
    fn new(conn: u64) -> Self {
        let (sender, answers) = mpsc::channel();
        let inbox = Arc::new(Inbox { conn, answers: sender });
        Self { inbox, answers, asked: VecDeque::new(), changes: Vec::new(), dice: conn, sent: 0 }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) % n
    }

    fn ops(&mut self) -> Ops {
        let (offset, blocks) = (self.below(8) * 4096, 1 + self.below(4));
        let len = blocks * 4096;
        let data: Bytes = [b'x'; 4096].repeat(usize::try_from(blocks).expect("few")).into();
        match self.below(12) {
            0..=2 => smallvec![OsdOp::write(offset, data)],
            3 => smallvec![OsdOp::write_full(data)],
            4 => smallvec![OsdOp::append(data)],
            5..=7 => smallvec![OsdOp::read(offset, len)],
            8 => smallvec![OsdOp::new(OpCode::STAT), OsdOp::read(0, 0)],
            9 => smallvec![OsdOp::call("no-such-class", "method", b"")],
            10 => smallvec![OsdOp::xattr(OpCode::GETXATTR, b"nothing", b"", 0, 0)],
            _ => smallvec![OsdOp::new(OpCode::CREATE), OsdOp::write(1 << 60, Bytes::from_static(b"too far"))],
        }
    }

    fn request(&mut self) -> (Tid, MOSDOp) {
        let again = self.below(10) == 0;
        let index = usize::try_from(self.below(self.sent.max(1))).expect("few");
        if again && let Some((tid, old)) = self.changes.get(index) {
            return (*tid, MOSDOp { retry_attempt: 1, ..old.clone() });
        }
        let object = self.below(OBJECTS);
        let ops = self.ops();
        let locator = ObjectLocator::in_pool(PoolId(1));
        let mut op = MOSDOp::new(locator, format!("o{object}").into(), ops, OsdFlags::RETURNVEC);
        op.hash = u32::try_from(object).expect("few");
        self.sent += 1;
        let tid = Tid(self.sent);
        if op.ops.iter().any(|op| op.code.is_modify()) {
            self.changes.push((tid, op.clone()));
        }
        (tid, op)
    }

    /// Sends one request without waiting for earlier ones.
    fn send(&mut self, slot: &Arc<Slot>) {
        let (tid, op) = self.request();
        let writes = op.ops.iter().any(|op| op.code.is_modify());
        self.asked.push_back((tid, u64::from(op.hash)));
        let context = Context { writes, ..Context::plain(self.inbox.conn, tid, Epoch(1), PoolId(1), 1) };
        let asker = Arc::clone(&self.inbox) as Arc<dyn Asker>;
        assert!(slot.submit(Request::new(asker, op, context, Hold::default(), Instant::now())));
    }

    /// Receives the next reply. It must answer the oldest unanswered request for its object.
    fn take(&mut self) {
        let answered = self.answers.recv_timeout(Duration::from_secs(60)).expect("an answer to each request");
        let index = self.asked.iter().position(|(tid, _)| *tid == answered).expect("asked for, and once");
        let (tid, object) = self.asked.remove(index).expect("just found");
        let overtaken = self.asked.iter().take(index).find(|(_, of)| *of == object);
        assert_eq!(overtaken, None, "{tid:?} of object {object} was answered before it");
    }
}

fn check(store: &dyn ObjectStore) {
    store.on_batches(Arc::new(Gatherer));
    let pg = PgId { pool: PoolId(1), seed: 0 };
    let slot = Slot::open(pg, store, &Helpers::default()).map(Arc::new).expect("a slot");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    std::thread::scope(|scope| {
        for conn in 1..=2 {
            let (slot, runtime) = (&slot, &runtime);
            scope.spawn(move || {
                let _context = runtime.enter();
                let mut client = Client::new(conn);
                for _ in 0..REQUESTS {
                    client.send(slot);
                    while client.asked.len() >= WINDOW {
                        client.take();
                    }
                }
                while !client.asked.is_empty() {
                    client.take();
                }
            });
        }
    });
}

/// A directory that is removed when dropped.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("loligo-osd-order-{}", std::process::id())))
    }

    fn open(&self) -> DiskStore {
        let config = DiskConfig {
            capacity: Some(64 << 20),
            journal_bytes: 16 << 20,
            cache_bytes: 0,
            ..DiskConfig::new(Uuid([7; 16]))
        };
        DiskStore::open(&self.0, config).expect("a store")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0 as &Path);
    }
}

#[test]
fn answers_come_in_order_from_memory() {
    check(&MemoryStore::new(1 << 30));
}

#[test]
fn answers_come_in_order_from_a_slow_disk() {
    let slow =
        Delayed::new(Arc::new(MemoryStore::new(1 << 30)), Duration::from_micros(300)).expect("a thread");
    check(&slow);
}

#[test]
fn answers_come_in_order_from_disk_and_after_a_restart() {
    let dir = Dir::new();
    for _ in 0..3 {
        let store = dir.open();
        check(&store);
        store.close();
    }
}
