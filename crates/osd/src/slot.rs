//! The slot of a placement group: its queue of requests, of which one thread at a time executes one after the other.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use loligo_lane::{Action, Lane, PushError, RunEnd};
use loligo_lockstat::{Class, Mutex};
use loligo_msgr::{Connection, Cork, Hold};
use loligo_store::{Collection, ObjectName, ObjectStore, StoreError};
use loligo_wire::message::Msg;
use loligo_wire::message::osd::MOSDOp;
use loligo_wire::{Eversion, PgId};
use tokio::runtime::Handle;

use crate::dups::Dups;
use crate::exec::{self, Context, Executed};
use crate::finisher::Finisher;
use crate::replies::{Replies, Reply};
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
    lane: Lane<Item>,
    pub(crate) collection: Arc<dyn Collection>,
    state: Mutex<SlotState>,
    replies: Arc<Replies>,
    pub(crate) counters: Counters,
}

/// What changes from request to request.
pub(crate) struct SlotState {
    /// The newest change.
    pub(crate) version: Eversion,
    /// The newest version as users count.
    pub(crate) user_version: u64,
    /// The newest change that the store said was not safe yet; zero if it never did.
    pub(crate) submitted: Eversion,
    pub(crate) dups: Dups,
    /// Objects that a request waits for, with the requests that came for them since. A read that has its view of the object
    /// is not among them: nobody waits for its data but who asked for it.
    pub(crate) waited_for: BTreeMap<ObjectName, VecDeque<Request>>,
}

impl SlotState {
    /// As the last run left the placement group.
    pub(crate) fn new(version: Eversion, dups: Dups) -> Self {
        let (user_version, submitted) = (version.version, Eversion::default());
        Self { version, user_version, submitted, dups, waited_for: BTreeMap::new() }
    }
}

/// What a slot's lane brings.
enum Item {
    New(Request),
    /// What the request waited for is there; whether its object is kept from others.
    Again(Request, Option<ObjectName>),
}

/// Whoever gets the answer.
pub(crate) trait Asker: Send + Sync {
    fn answer(&self, reply: Msg);

    /// Gathers what is answered while the guard lives, if that makes sense.
    fn cork(&self) -> Option<Cork<'_>>;
}

impl Asker for Connection {
    fn answer(&self, reply: Msg) {
        // A client whose connection is gone asks again, with the same number.
        let _ = self.send(reply);
    }

    fn cork(&self) -> Option<Cork<'_>> {
        Some(Connection::cork(self))
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
    pub(crate) fn open(
        pg: PgId,
        store: &dyn ObjectStore,
        finisher: &Arc<Finisher>,
    ) -> Result<Self, StoreError> {
        let replies = Arc::new(Replies::new(Arc::clone(finisher)));
        let collection = store.open(pg, Arc::clone(&replies) as _)?;
        replies.begin(collection.version());
        let state = SlotState::new(collection.version(), Dups::new(collection.records()));
        Ok(Self {
            lane: Lane::new(&SLOT, WAITING_MAX),
            collection,
            state: Mutex::new(&SLOT_STATE, state),
            replies,
            counters: Counters::default(),
        })
    }

    /// Takes a request: executes it here and now, or leaves it to whoever is executing. False if too many wait already.
    #[must_use]
    pub(crate) fn submit(self: &Arc<Self>, request: Request) -> bool {
        match self.lane.push(Item::New(request)) {
            Ok(Action::Submit) => self.run(),
            Ok(Action::Nothing) => {}
            Err(PushError::Full(_) | PushError::Closed(_)) => return false,
        }
        true
    }

    fn run(self: &Arc<Self>) {
        while self.lane.run(RUN_BUDGET, |item| self.one(item)) == RunEnd::Again {
            // A thread of the store has no runtime, and nothing better to do.
            if let Ok(runtime) = Handle::try_current() {
                let slot = Arc::clone(self);
                runtime.spawn(async move { slot.run() });
                return;
            }
        }
    }

    fn one(self: &Arc<Self>, item: Item) {
        let (request, kept) = match item {
            Item::Again(request, kept) => (request, kept),
            Item::New(request) => match self.behind_others(request) {
                Some(request) => (request, None),
                None => return,
            },
        };
        if self.execute(request, kept.clone()) {
            return;
        }
        // Those who came for the object meanwhile, until one of them waits again.
        let Some(name) = kept else { return };
        while let Some(next) = self.next_for(&name) {
            if self.execute(next, Some(name.clone())) {
                return;
            }
        }
    }

    /// Puts a request behind those that wait for its object, if there are any.
    fn behind_others(&self, request: Request) -> Option<Request> {
        let mut state = self.state.lock();
        if state.waited_for.is_empty() || exec::is_pg_request(&request.op) {
            return Some(request);
        }
        let name = ObjectName::new(exec::oid_of(&request.op)).ok();
        match name.and_then(|name| state.waited_for.get_mut(&name)) {
            Some(queue) => {
                queue.push_back(request);
                None
            }
            None => Some(request),
        }
    }

    /// The next request for an object that was waited for. If there is none, it is not waited for any more.
    fn next_for(&self, name: &ObjectName) -> Option<Request> {
        let mut state = self.state.lock();
        let next = state.waited_for.get_mut(name).and_then(VecDeque::pop_front);
        let done = if next.is_none() { state.waited_for.remove(name) } else { None };
        drop(state);
        drop(done);
        next
    }

    /// Executes a request; `kept` is its object if that is kept from others for it. True if it is kept still, as the request
    /// has to wait again.
    fn execute(self: &Arc<Self>, request: Request, kept: Option<ObjectName>) -> bool {
        let Request { asker, op, context, hold } = request;
        let executed = {
            let mut state = self.state.lock();
            exec::execute(&context, op, &*self.collection, &mut state, &self.counters)
        };
        match executed {
            Executed::Answer(reply, tells_of) => {
                self.replies.give(tells_of, Reply { asker, msg: reply, hold });
                false
            }
            Executed::Nothing => false,
            Executed::Waits(op) => self.wait(Request { asker, op: *op, context, hold }, kept),
        }
    }

    /// Has a request executed again when what it waits for is there. True if its object is kept from others until then.
    fn wait(self: &Arc<Self>, request: Request, kept: Option<ObjectName>) -> bool {
        let Some((number, wait)) = request.context.fetches.take_wait() else { return false };
        let alone = exec::is_pg_request(&request.op) || request.context.fetches.has_view();
        let name =
            if alone { None } else { kept.or_else(|| ObjectName::new(exec::oid_of(&request.op)).ok()) };
        if let Some(name) = &name {
            self.state.lock().waited_for.entry(name.clone()).or_default();
        }
        let keeps = name.is_some();
        let slot = Arc::clone(self);
        wait(Box::new(move |answer: Box<dyn Any + Send>| {
            request.context.fetches.answered(number, answer);
            // In front, and never refused: it was admitted before.
            match slot.lane.requeue(VecDeque::from([Item::Again(request, name)])) {
                Ok(Action::Submit) => slot.run(),
                Ok(Action::Nothing) | Err(_) => {}
            }
        }));
        keeps
    }

    /// Adds what this group holds and was asked.
    pub(crate) fn add_to(&self, stats: &mut PoolStats) {
        stats.stored += self.collection.stats();
        self.counters.add_to(stats);
    }
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
    use crate::exec::{Fetches, Limits, Room};

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

        fn cork(&self) -> Option<Cork<'_>> {
            None
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
                fetches: Fetches::default(),
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
        let open = |seed| Slot::open(PgId { pool: PoolId(1), seed }, &store, &Arc::default()).map(Arc::new);
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
