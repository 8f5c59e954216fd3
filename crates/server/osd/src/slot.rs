//! The slot of a placement group: its queue of requests. One thread at a time executes them in order.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Weak};
use std::time::Instant;

use loligo_lane::{Action, Lane, PushError};
use loligo_lockstat::{Class, Mutex};
use loligo_maps::OsdMap;
use loligo_msgr::{Cork, Hold};
use loligo_store::{Collection, ObjectName, ObjectStore, StoreError};
use loligo_wire::message::Msg;
use loligo_wire::message::osd::{MOSDOp, ObjectLocator, OsdFlags};
use loligo_wire::{EntityAddrVec, Epoch, Errno, Eversion, PgId, Tid};
use smallvec::smallvec;

use self::turn::Turn;
use crate::asker::{Asker, Held};
use crate::dups::Dups;
use crate::exec::{self, Context, Executed, PgState, Task};
use crate::group::{Group, Walk};
use crate::helpers::Helpers;
use crate::history::{Track, TrackedOp, Waiting, Waits};
use crate::replies::{Key, Place, Replies, Reply};
use crate::stats::{Counters, PgStats, PoolStats};
use crate::watch::{Effects, Expired, Outbox, WatchFacts, Watches};

#[cfg(test)]
mod order;
mod parked;
mod turn;
#[cfg(test)]
mod unread;
#[cfg(test)]
mod work;

/// Held to take all queued requests out; appending one takes no lock.
static SLOT: Class = Class::new("osd.slot");

/// Held by the thread that runs the slot's lane, one at a time. Only queries about the placement group
/// contend for it.
static SLOT_STATE: Class = Class::new("osd.slot_state");

/// Maximum number of requests queued in one slot. The messenger's throttles bound the bytes.
const WAITING_MAX: usize = 64 << 10;

/// A placement group being served.
pub(crate) struct Slot {
    pg: PgId,
    lane: Lane<Item>,
    pub(crate) collection: Arc<dyn Collection>,
    state: Mutex<SlotState>,
    replies: Arc<Replies>,
    helpers: Helpers,
    pub(crate) counters: Counters,
    /// Requests taken out of the lane so far, and how many of them are parked. Written only by the
    /// thread that runs the lane.
    arrived: AtomicU64,
    parked: AtomicUsize,
    /// For each turn so far: whether a thread of `hands` ran it, and its work.
    #[cfg(test)]
    turns: std::sync::Mutex<Vec<(bool, u64)>>,
}

/// The state that changes from request to request.
struct SlotState {
    pg: PgState,
    /// The pending wake-up time requested from the clock, if any.
    armed: Option<Instant>,
    /// Objects that a request waits for, with the requests for them that arrived since. A read that has
    /// its view of the object is not included: only that read waits for the data.
    waited_for: BTreeMap<ObjectName, VecDeque<Box<Request>>>,
    /// Requests of connections that must first read replies, by connection number.
    parked: BTreeMap<u64, VecDeque<Box<Request>>>,
    /// Requests that wait for the disk, for reports.
    waits: Waits,
    /// Requests executed so far.
    executed: u64,
}

impl SlotState {
    fn new(pg: PgState) -> Self {
        let (waited_for, parked, waits) = (BTreeMap::new(), BTreeMap::new(), Waits::default());
        Self { pg, armed: None, waited_for, parked, waits, executed: 0 }
    }
}

/// An item of a slot's lane.
enum Item {
    New(Box<Request>),
    /// The data the request waited for has arrived. With the number of its entry in `waits`, and its
    /// object if others are kept from it.
    Again(Box<Request>, u64, Option<ObjectName>),
    /// The wake-up time requested from the clock has come.
    Tick,
    /// This connection is lost.
    Lost(u64),
    /// A map with another blocklist was installed.
    Blocked(Arc<OsdMap>),
    /// A walk begins.
    Walk(Arc<dyn Walk>),
    /// Connections may have room for replies again.
    Eased,
    /// A request was executed beside the lane: its reply, and the version that must be committed before
    /// the reply leaves.
    Done(Box<Reply>, Eversion),
    /// Executes the requests that queued up for this object.
    Behind(ObjectName),
}

/// The recipient of replies to the OSD's own requests; it discards them.
struct Nobody;

impl Asker for Nobody {
    fn answer(&self, _: Msg) {}

    fn cork(&self) -> Option<Cork<'_>> {
        None
    }
}

/// A request that has passed all checks.
pub(crate) struct Request {
    pub(crate) asker: Arc<dyn Asker>,
    pub(crate) op: MOSDOp,
    pub(crate) context: Context,
    /// Counts the request against the bounds on bytes read from clients and on unread replies.
    pub(crate) hold: Held,
    /// When the connection's reader received it.
    pub(crate) received: Instant,
    /// If set, the request is not executed: it is refused with this error, behind the replies to earlier
    /// requests.
    pub(crate) refusal: Option<Errno>,
    /// The position of its reply in the reply order, if it reads the disk.
    pub(crate) place: Option<Place>,
    /// Its sequence number among the requests that reached the slot.
    pub(crate) arrival: u64,
}

impl Request {
    /// Creates a request that will be executed.
    pub(crate) fn new(
        asker: Arc<dyn Asker>,
        op: MOSDOp,
        context: Context,
        hold: Hold,
        received: Instant,
    ) -> Box<Self> {
        let hold = hold.into();
        Box::new(Self { asker, op, context, hold, received, refusal: None, place: None, arrival: 0 })
    }

    fn key(&self) -> Key {
        Key { conn: self.asker.id(), hash: self.op.hash }
    }
}

impl Group for Slot {
    fn tick(self: Arc<Self>) {
        self.push(Item::Tick);
    }

    fn lost(self: Arc<Self>, conn: u64) {
        self.push(Item::Lost(conn));
    }

    fn eased(self: Arc<Self>) {
        self.push(Item::Eased);
    }
}

impl Slot {
    /// Opens a placement group.
    pub(crate) fn open(pg: PgId, store: &dyn ObjectStore, helpers: &Helpers) -> Result<Self, StoreError> {
        let replies = Replies::new(&helpers.finisher, &helpers.history);
        let collection = store.open(pg, Arc::clone(&replies) as _)?;
        replies.begin(collection.version());
        let load = Arc::clone(&helpers.load);
        let mut state = PgState::new(collection.version(), Dups::new(collection.records()), load);
        state.made = Arc::clone(&helpers.made);
        Ok(Self {
            pg,
            lane: Lane::new(&SLOT, WAITING_MAX),
            collection,
            state: Mutex::new(&SLOT_STATE, SlotState::new(state)),
            replies,
            helpers: helpers.clone(),
            counters: Counters::default(),
            arrived: AtomicU64::new(0),
            parked: AtomicUsize::new(0),
            #[cfg(test)]
            turns: std::sync::Mutex::default(),
        })
    }

    /// Queues a blocklist check for a map with another blocklist.
    pub(crate) fn blocked(self: &Arc<Self>, map: Arc<OsdMap>) {
        self.push(Item::Blocked(map));
    }

    /// Begins a walk behind all requests queued so far.
    pub(crate) fn walk(self: &Arc<Self>, walk: Arc<dyn Walk>) {
        self.push(Item::Walk(walk));
    }

    /// Queues an item in front of all others and never refuses it. A walk is queued behind the others
    /// while the lane has room.
    fn push(self: &Arc<Self>, item: Item) {
        let pushed = match item {
            Item::Walk(_) => self
                .lane
                .push(item)
                .or_else(|refused| self.lane.requeue(VecDeque::from([refused.into_inner()]))),
            urgent => self.lane.requeue(VecDeque::from([urgent])),
        };
        match pushed {
            Ok(Action::Submit) => self.run(),
            Ok(Action::Nothing) | Err(_) => {}
        }
    }

    /// Submits a request of the OSD's own for an object. Returns false if the queue is full.
    pub(crate) fn submit_task(
        self: &Arc<Self>,
        name: &ObjectName,
        epoch: Epoch,
        task: Task,
        asker: Arc<dyn Asker>,
    ) -> bool {
        let oid = name.as_ref();
        let locator = ObjectLocator {
            key: oid.key.to_vec(),
            nspace: oid.nspace.to_vec(),
            ..ObjectLocator::in_pool(self.pg.pool)
        };
        let mut op = MOSDOp::new(locator, oid.name.to_vec(), smallvec![], OsdFlags::empty());
        (op.hash, op.spgid.pgid) = (oid.hash, self.pg);
        let context =
            Context { writes: true, task: Some(task), ..Context::plain(0, Tid(0), epoch, self.pg.pool, 1) };
        self.submit(Request::new(asker, op, context, Hold::default(), Instant::now()))
    }

    /// Submits a request: executes it on this thread if the lane is idle, otherwise leaves it to the
    /// thread that runs the lane. Returns false if the queue is full.
    #[must_use]
    pub(crate) fn submit(self: &Arc<Self>, request: Box<Request>) -> bool {
        match self.lane.push(Item::New(request)) {
            Ok(Action::Submit) => self.run(),
            Ok(Action::Nothing) => {}
            Err(PushError::Full(_) | PushError::Closed(_)) => return false,
        }
        true
    }

    /// Processes one item of the lane.
    fn process(self: &Arc<Self>, item: Item, turn: &mut Turn) {
        let (request, kept) = match item {
            Item::Tick => return self.expire(),
            Item::Lost(conn) => return self.forget(conn),
            Item::Blocked(map) => return self.end_blocked(&map),
            Item::Walk(walk) => return walk.begin(),
            Item::Again(request, waited, kept) => {
                let told = self.state.lock().waits.end(waited);
                drop(told);
                (request, kept)
            }
            Item::Eased => return self.unpark(turn),
            Item::Done(reply, tells_of) => {
                let tells_of = tells_of.min(self.state.lock().pg.submitted);
                turn.before = self.replies.give(tells_of, *reply).or(turn.before);
                return;
            }
            Item::Behind(name) => return self.execute_behind(name, turn),
            Item::New(mut request) => {
                self.arrives(&mut request);
                match self.room_for(request).and_then(|request| self.behind_others(request)) {
                    Some(request) => (request, None),
                    None => return,
                }
            }
        };
        if self.execute(request, kept.clone(), turn) {
            return;
        }
        if let Some(name) = kept {
            self.execute_behind(name, turn);
        }
    }

    /// Executes the requests that queued up for an object, until one of them waits again.
    fn execute_behind(self: &Arc<Self>, name: ObjectName, turn: &mut Turn) {
        while let Some(next) = self.next_for(&name) {
            let Some(next) = self.room_for(next) else { continue };
            if self.execute(next, Some(name.clone()), turn) {
                return;
            }
            if turn.is_over() {
                // The object stays in `waited_for` until then. This thread runs the lane, so the
                // returned action needs no handling.
                let _ = self.lane.requeue(VecDeque::from([Item::Behind(name)]));
                return;
            }
        }
    }

    /// Queues a request behind those that wait for its object. Returns the request if there are none.
    fn behind_others(&self, request: Box<Request>) -> Option<Box<Request>> {
        let mut state = self.state.lock();
        if state.waited_for.is_empty() || exec::is_pg_request(&request.op) {
            return Some(request);
        }
        let name = ObjectName::new(exec::oid_of(&request.op)).ok();
        match name.and_then(|name| state.waited_for.get_mut(&name)) {
            Some(queue) => {
                // Behind all others, except later requests of the same connection if this one was
                // parked.
                let is_later = |other: &Request| {
                    other.asker.id() == request.asker.id() && other.arrival > request.arrival
                };
                let at = queue.iter().rposition(|other| !is_later(other)).map_or(0, |at| at + 1);
                queue.insert(at, request);
                None
            }
            None => Some(request),
        }
    }

    /// Pops the next request queued for an object. If there is none, removes the object from
    /// `waited_for`.
    fn next_for(&self, name: &ObjectName) -> Option<Box<Request>> {
        let mut state = self.state.lock();
        let next = state.waited_for.get_mut(name).and_then(VecDeque::pop_front);
        let done = if next.is_none() { state.waited_for.remove(name) } else { None };
        drop(state);
        drop(done);
        next
    }

    /// Executes a request. `kept` is its object if later requests are kept from it. Returns true if they
    /// still are, because the request waits again.
    fn execute(
        self: &Arc<Self>,
        mut request: Box<Request>,
        kept: Option<ObjectName>,
        turn: &mut Turn,
    ) -> bool {
        let mut place = request.place.unwrap_or(Place { key: request.key(), number: 0, is_reserved: false });
        let (received, client) = (request.received, request.context.client);
        let reached = turn.before.map_or(received, |before| before.max(received));
        let track = Track { received, reached, executed: None, client };
        let executed = {
            let mut state = self.state.lock();
            if !place.is_reserved {
                state.executed += 1;
                place.number = state.executed;
            }
            let Request { context, op, refusal, .. } = &mut *request;
            match refusal.take() {
                Some(errno) => exec::refuse(context, op, errno),
                None => exec::execute(context, op, &*self.collection, &mut state.pg, &self.counters),
            }
        };
        turn.did(request.context.budget.work().max(request.context.data_len as u64));
        let share = request.hold.share.take();
        let is_answer = !request.context.writes;
        match executed {
            Executed::Answer(msg, tells_of, effects) => {
                if let Some(effects) = effects {
                    self.apply(*effects, &request.asker);
                }
                let Request { asker, context, mut hold, .. } = *request;
                hold.made = context.making.take();
                hold.share = self.helpers.unread.count(&asker, share, msg.data_len() as u64, is_answer);
                let track = context.task.is_none().then_some(track);
                let left = self.replies.give(tells_of, Reply { asker, msg, hold, track, place });
                turn.before = left.or(turn.before);
                false
            }
            Executed::Nothing => false,
            Executed::Waits => {
                let taken = request.context.budget.spent();
                request.hold.share = self.helpers.unread.count(&request.asker, share, taken, is_answer);
                request.place = Some(place);
                self.wait(request, track, kept)
            }
        }
    }

    /// Applies the effects of a request on watches.
    fn apply(self: &Arc<Self>, effects: Effects, asker: &Arc<dyn Asker>) {
        let connects = !effects.connected.is_empty();
        let out = self.watches(|watches| watches.apply(effects, asker, Instant::now()));
        self.send(out);
        let me: Weak<Self> = Arc::downgrade(self);
        if connects && !asker.watches_in(me) {
            self.forget(asker.id());
        }
    }

    fn forget(self: &Arc<Self>, conn: u64) {
        self.watches(|watches| watches.lost(conn, Instant::now()));
    }

    fn expire(self: &Arc<Self>) {
        let (expired, out) = self.watches_and_clock(true, |watches| watches.expire(Instant::now()));
        self.send(out);
        self.end(expired);
    }

    fn end_blocked(self: &Arc<Self>, map: &OsdMap) {
        let blocked = self.watches(|w| w.blocked(|addr| map.blocklist.contains(&EntityAddrVec::from(addr))));
        self.end(blocked);
    }

    fn end(self: &Arc<Self>, watches: Vec<Expired>) {
        for (name, key) in watches {
            // If the queue is full, the watch expires again one second later and the removal is retried.
            let _ = self.submit_task(&name, Epoch(0), Task::EndWatch(key), Arc::new(Nobody));
        }
    }

    /// Runs `work` on the watches and arms the clock for the next deadline.
    fn watches<T>(self: &Arc<Self>, work: impl FnOnce(&mut Watches) -> T) -> T {
        self.watches_and_clock(false, work)
    }

    fn watches_and_clock<T>(self: &Arc<Self>, ticked: bool, work: impl FnOnce(&mut Watches) -> T) -> T {
        let mut state = self.state.lock();
        let done = work(&mut state.pg.watches);
        if ticked {
            state.armed = None;
        }
        let due = state.pg.watches.due().filter(|due| state.armed.is_none_or(|armed| *due < armed));
        if due.is_some() {
            state.armed = due;
        }
        drop(state);
        if let Some(due) = due {
            let me: Weak<Self> = Arc::downgrade(self);
            self.helpers.clock.wake(due, me);
        }
        done
    }

    /// Sends messages to watchers and notifiers through the finisher, since there may be thousands.
    fn send(&self, out: Outbox) {
        if !out.is_empty() {
            let messages = out.into_iter().map(|(asker, out)| {
                let msg = out.pack();
                let share = self.helpers.unread.count(&asker, None, msg.len() as u64, true);
                (asker, msg, Held { share, ..Held::default() })
            });
            self.helpers.finisher.send_messages(messages);
        }
    }

    /// Executes a request again when the data it waits for arrives. Returns true if later requests are
    /// kept from its object until then.
    fn wait(self: &Arc<Self>, mut request: Box<Request>, track: Track, kept: Option<ObjectName>) -> bool {
        let Some((number, wait)) = request.context.fetches.take_wait() else { return false };
        let alone = exec::is_pg_request(&request.op) || request.context.fetches.has_view();
        let name =
            if alone { None } else { kept.or_else(|| ObjectName::new(exec::oid_of(&request.op)).ok()) };
        let mut state = self.state.lock();
        if let Some(name) = &name {
            state.waited_for.entry(name.clone()).or_default();
        }
        let waited = state.waits.begin(track, &request.asker, &request.op, request.context.tid);
        drop(state);
        let keeps = name.is_some();
        // A request that waits alone lets later requests for its object proceed; a place is reserved so
        // that their replies stay behind its own.
        request.place = request.place.filter(|_| alone).map(|place| {
            if !place.is_reserved {
                self.replies.reserve(place.key, place.number);
            }
            Place { is_reserved: true, ..place }
        });
        let slot = Arc::clone(self);
        wait(Box::new(move |answer: Box<dyn Any + Send>| {
            request.context.fetches.answered(number, answer);
            // Queued in front and never refused: the request was admitted before.
            match slot.lane.requeue(VecDeque::from([Item::Again(request, waited, name)])) {
                Ok(Action::Submit) => slot.run(),
                Ok(Action::Nothing) | Err(_) => {}
            }
        }));
        keeps
    }

    /// Adds the requests that wait for a disk read or for the commit of their changes.
    pub(crate) fn tell_waiting(&self, ops: &mut Vec<TrackedOp>) {
        let waiting = self.state.lock().waits.oldest();
        ops.extend(waiting.into_iter().map(Waiting::tell));
        self.replies.tell_waiting(ops);
    }

    /// The watches on this group's objects.
    pub(crate) fn watch_facts(&self) -> Vec<WatchFacts> {
        self.state.lock().pg.watches.all()
    }

    /// The contents and request counters of this group.
    pub(crate) fn stats(&self) -> PgStats {
        let mut stats = PoolStats::default();
        self.add_to(&mut stats);
        let state = self.state.lock();
        let (version, remembered) = (state.pg.version, state.pg.dups.len() as u64);
        drop(state);
        PgStats { pg: self.pg, stats, version, remembered }
    }

    /// Adds the contents and request counters of this group to `stats`.
    pub(crate) fn add_to(&self, stats: &mut PoolStats) {
        stats.stored += self.collection.stats();
        self.counters.add_to(stats);
    }
}

#[cfg(test)]
mod tests {
    //! Goal: each write happens once and in its sender's order, whichever thread runs a slot. Method:
    //! several threads append to the same objects and increment the same counters in two slots, and send
    //! each write twice. At the end each object must hold the combined result.

    use std::collections::BTreeMap;
    use std::sync::mpsc::{self, Receiver, Sender};
    use std::thread;

    use bytes::Bytes;
    use loligo_store::memory::MemoryStore;
    use loligo_wire::message::osd::{CmpOp, ObjectLocator, OpCode, OsdFlags, OsdOp, OsdReply, XattrArgs};
    use loligo_wire::{Epoch, PoolId, Tid};
    use smallvec::smallvec;

    use super::*;

    const THREADS: u64 = 8;
    const ROUNDS: u64 = 200;
    const SLOTS: u32 = 2;
    const OBJECTS: u64 = 3;

    struct Inbox(Sender<OsdReply>);

    impl Asker for Inbox {
        fn answer(&self, reply: Msg) {
            let data: Vec<u8> = reply.data.concat();
            let reply = Msg { data: smallvec![Bytes::from(data)], ..reply };
            // The client thread may have ended: it does not wait for replies to its last resends.
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

        /// Sends a request, and sends it again if it writes. Returns the first reply; both replies must
        /// be equal.
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
            let writes = op.ops.iter().any(|op| op.code.is_modify());
            let context =
                Context { writes, ..Context::plain(self.number, Tid(self.tid), Epoch(1), PoolId(1), SLOTS) };
            let asker = Arc::clone(&self.inbox) as Arc<dyn Asker>;
            let received = Instant::now();
            assert!(slot.submit(Request::new(asker, op, context, Hold::default(), received)));
        }

        /// Increments a counter that other threads increment concurrently.
        fn count(&mut self, object: u64) {
            loop {
                let read = self.ask(object, smallvec![OsdOp::xattr(OpCode::GETXATTR, b"n", b"", 0, 0)]);
                let old = read.outs[0].data.to_vec();
                let number: u64 = std::str::from_utf8(&old).expect("digits").parse().unwrap_or(0);
                let same =
                    OsdOp::xattr(OpCode::CMPXATTR, b"n", &old, CmpOp::Eq.code(), XattrArgs::MODE_STRING);
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
        let open =
            |seed| Slot::open(PgId { pool: PoolId(1), seed }, &store, &Helpers::default()).map(Arc::new);
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
