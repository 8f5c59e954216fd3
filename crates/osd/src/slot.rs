//! The slot of a placement group: its queue of requests, of which one thread at a time executes one after the other.

use std::sync::Arc;

use loligo_lane::{Action, Lane, PushError, RunEnd};
use loligo_lockstat::{Class, Mutex};
use loligo_msgr::{Connection, Hold};
use loligo_store::{Collection, CommitListener, ObjectStore, StoreError};
use loligo_wire::message::Msg;
use loligo_wire::message::osd::MOSDOp;
use loligo_wire::{Eversion, PgId};

use crate::dups::Dups;
use crate::exec::{self, Context};
use crate::stats::{Counters, PoolStats};

/// The queue: held to take out all requests that are there; appending one takes no lock.
static SLOT: Class = Class::new("osd.slot");

/// Taken by whoever runs the slot's lane, which is one thread at a time: nobody ever waits for it.
static SLOT_STATE: Class = Class::new("osd.slot_state");

/// Requests that wait in one slot. The messenger's throttles bound the bytes.
const WAITING_MAX: usize = 64 << 10;

/// Requests that one thread executes before it hands a busy slot over: a millisecond or so of small operations, so that a
/// connection's reader does not serve others' requests for long.
const RUN_BUDGET: usize = 512;

/// A placement group as it is served.
pub(crate) struct Slot {
    lane: Lane<Request>,
    pub(crate) collection: Arc<dyn Collection>,
    state: Mutex<SlotState>,
    pub(crate) counters: Counters,
}

/// What changes from request to request.
pub(crate) struct SlotState {
    /// The newest change.
    pub(crate) version: Eversion,
    /// The newest version as users count.
    pub(crate) user_version: u64,
    pub(crate) dups: Dups,
}

/// Whoever gets the answer.
pub(crate) trait Asker: Send + Sync {
    fn answer(&self, reply: Msg);
}

impl Asker for Connection {
    fn answer(&self, reply: Msg) {
        // A client whose connection is gone asks again, with the same number.
        let _ = self.send(reply);
    }
}

/// A request that has passed all checks.
pub(crate) struct Request {
    pub(crate) asker: Arc<dyn Asker>,
    pub(crate) op: MOSDOp,
    pub(crate) context: Context,
    /// Counts the request against what may be read from clients, until it is answered.
    pub(crate) hold: Hold,
}

impl Slot {
    /// Opens a placement group.
    pub(crate) fn open(pg: PgId, store: &dyn ObjectStore) -> Result<Self, StoreError> {
        let collection = store.open(pg, Arc::new(Synchronous))?;
        let version = collection.version();
        let state =
            SlotState { version, user_version: version.version, dups: Dups::new(collection.records()) };
        Ok(Self {
            lane: Lane::new(&SLOT, WAITING_MAX),
            collection,
            state: Mutex::new(&SLOT_STATE, state),
            counters: Counters::default(),
        })
    }

    /// Takes a request: executes it here and now, or leaves it to whoever is executing. False if too many wait already.
    #[must_use]
    pub(crate) fn submit(self: &Arc<Self>, request: Request) -> bool {
        match self.lane.push(request) {
            Ok(Action::Submit) => self.run(),
            Ok(Action::Nothing) => {}
            Err(PushError::Full(_) | PushError::Closed(_)) => return false,
        }
        true
    }

    fn run(self: &Arc<Self>) {
        if self.lane.run(RUN_BUDGET, |request| self.execute(request)) == RunEnd::Again {
            let slot = Arc::clone(self);
            tokio::spawn(async move { slot.run() });
        }
    }

    fn execute(&self, request: Request) {
        let Request { asker, op, context, hold } = request;
        let reply = {
            let mut state = self.state.lock();
            exec::execute(&context, op, &*self.collection, &mut state, &self.counters)
        };
        if let Some(reply) = reply {
            asker.answer(reply);
        }
        drop(hold);
    }

    /// Adds what this group holds and was asked.
    pub(crate) fn add_to(&self, stats: &mut PoolStats) {
        stats.stored += self.collection.stats();
        self.counters.add_to(stats);
    }
}

/// For stores that commit before they return: there is nothing to hear of.
pub(crate) struct Synchronous;

impl CommitListener for Synchronous {
    fn committed(&self, _: Eversion) {}

    fn stopped(&self, _: &StoreError) {}
}

#[cfg(test)]
mod tests {
    //! Goal: whoever runs a slot, each write happens once, in its sender's order. Method: threads that append to the same
    //! objects and count the same counters in two slots, and send each request twice; then every object is what the
    //! threads together must have made of it.

    use std::collections::BTreeMap;
    use std::sync::mpsc::{self, Receiver, Sender};
    use std::thread;

    use bytes::Bytes;
    use loligo_store::memory::MemoryStore;
    use loligo_wire::message::osd::{CmpOp, ObjectLocator, OpCode, OsdFlags, OsdOp, OsdReply, XattrArgs};
    use loligo_wire::{Epoch, PoolId, Tid};
    use smallvec::smallvec;

    use super::*;
    use crate::exec::{Limits, Room};

    const THREADS: u64 = 8;
    const ROUNDS: u64 = 200;
    const SLOTS: u32 = 2;
    const OBJECTS: u64 = 3;

    struct Inbox(Sender<OsdReply>);

    impl Asker for Inbox {
        fn answer(&self, reply: Msg) {
            let data: Vec<u8> = reply.data.concat();
            let reply = Msg { data: smallvec![Bytes::from(data)], ..reply };
            // The thread that asked may have ended: it does not wait for the answers to repetitions.
            let _ = self.0.send(OsdReply::open(&reply).expect("an answer"));
        }
    }

    struct Client {
        number: u64,
        tid: u64,
        slots: Arc<[Arc<Slot>]>,
        inbox: Arc<Inbox>,
        replies: Receiver<OsdReply>,
    }

    impl Client {
        fn new(number: u64, slots: &Arc<[Arc<Slot>]>) -> Self {
            let (sender, replies) = mpsc::channel();
            Self { number, tid: 0, slots: Arc::clone(slots), inbox: Arc::new(Inbox(sender)), replies }
        }

        /// Sends a request, and the same again if it writes; the first answer. Both answers must be equal.
        fn ask(&mut self, object: u64, ops: loligo_wire::message::osd::Ops) -> OsdReply {
            let writes = ops.iter().any(|op| op.code.is_modify());
            let locator = ObjectLocator::in_pool(PoolId(1));
            let mut op = MOSDOp::new(locator, format!("o{object}").into(), ops, OsdFlags::RETURNVEC);
            op.hash = object as u32;
            self.tid += 1;
            self.submit(op.clone());
            if !writes {
                return self.replies.recv().expect("an answer");
            }
            self.submit(MOSDOp { retry_attempt: 1, ..op });
            let first = self.replies.recv().expect("an answer");
            let again = self.replies.recv().expect("an answer to the repetition");
            assert_eq!((first.result, first.replay_version), (again.result, again.replay_version));
            let rvals = |reply: &OsdReply| reply.outs.iter().map(|out| out.rval).collect::<Vec<_>>();
            assert_eq!(rvals(&first), rvals(&again));
            first
        }

        fn submit(&self, op: MOSDOp) {
            let slot = &self.slots[op.hash as usize % self.slots.len()];
            let context = Context {
                client: self.number,
                tid: Tid(self.tid),
                epoch: Epoch(1),
                pg_num: SLOTS,
                room: Room::There,
                limits: Limits::default(),
                data_crc: None,
                data_len: 0,
            };
            let asker = Arc::clone(&self.inbox) as Arc<dyn Asker>;
            assert!(slot.submit(Request { asker, op, context, hold: Hold::default() }));
        }

        /// Makes a counter one larger; others do the same at the same time.
        fn count(&mut self, object: u64) {
            loop {
                let read = self.ask(object, smallvec![OsdOp::xattr(OpCode::GETXATTR, b"n", b"", 0, 0)]);
                let old = read.outs[0].data.to_vec();
                let number: u64 = std::str::from_utf8(&old).expect("digits").parse().unwrap_or(0);
                let same =
                    OsdOp::xattr(OpCode::CMPXATTR, b"n", &old, CmpOp::Eq as u8, XattrArgs::MODE_STRING);
                let next = (number + 1).to_string();
                let set = OsdOp::xattr(OpCode::SETXATTR, b"n", next.as_bytes(), 0, 0);
                match self.ask(object, smallvec![same, set]).result {
                    0 => return,
                    result => assert_eq!(result, -125, "somebody else was faster"),
                }
            }
        }

        fn run(&mut self) {
            for round in 0..ROUNDS {
                let token = [self.number.to_le_bytes(), round.to_le_bytes()].concat();
                let reply = self.ask(round % OBJECTS, smallvec![OsdOp::append(token.into())]);
                assert_eq!(reply.result, 0);
                self.count(round % OBJECTS);
            }
        }
    }

    #[test]
    fn many_threads_write_once_and_in_order() {
        let store = MemoryStore::new(1 << 30);
        let open = |seed| Slot::open(PgId { pool: PoolId(1), seed }, &store).map(Arc::new);
        let slots: Arc<[Arc<Slot>]> = (0..SLOTS).map(|seed| open(seed).expect("a slot")).collect();
        let mut setter = Client::new(999, &slots);
        for object in 0..OBJECTS {
            let zero = OsdOp::xattr(OpCode::SETXATTR, b"n", b"0", 0, 0);
            assert_eq!(setter.ask(object, smallvec![zero]).result, 0);
        }
        // A slot that is busy for long is handed to the runtime.
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        thread::scope(|scope| {
            for number in 0..THREADS {
                let (slots, runtime) = (&slots, &runtime);
                scope.spawn(move || {
                    let _context = runtime.enter();
                    Client::new(number, slots).run();
                });
            }
        });
        for object in 0..OBJECTS {
            let rounds: Vec<u64> = (0..ROUNDS).filter(|round| round % OBJECTS == object).collect();
            let reads = smallvec![OsdOp::read(0, 0), OsdOp::xattr(OpCode::GETXATTR, b"n", b"", 0, 0)];
            let reply = setter.ask(object, reads);
            assert_eq!(reply.outs[1].data, (THREADS * rounds.len() as u64).to_string());
            let mut seen: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
            for token in reply.outs[0].data.chunks(16) {
                let number = |at: usize| u64::from_le_bytes(token[at..at + 8].try_into().expect("8 bytes"));
                seen.entry(number(0)).or_default().push(number(8));
            }
            assert_eq!(seen, (0..THREADS).map(|number| (number, rounds.clone())).collect());
        }
    }
}
