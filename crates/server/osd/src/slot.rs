//! The slot of a placement group: its queue of requests, of which one thread at a time executes one after the
//! other.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Instant;

use loligo_lane::{Action, Lane, PushError};
use loligo_lockstat::{Class, Mutex};
use loligo_maps::OsdMap;
use loligo_msgr::{Connection, Cork, Hold};
use loligo_store::{Collection, ObjectName, ObjectStore, StoreError};
use loligo_wire::message::Msg;
use loligo_wire::message::osd::{MOSDOp, ObjectLocator, OsdFlags};
use loligo_wire::{EntityAddr, EntityAddrVec, Epoch, Eversion, PgId, Tid};
use smallvec::smallvec;

use self::turn::Turn;
use crate::clock::Clock;
use crate::dups::Dups;
use crate::errno::Errno;
use crate::exec::{self, Context, Executed, Task};
use crate::finisher::Finisher;
use crate::hands::Hands;
use crate::history::{History, Track, TrackedOp, Waiting, Waits};
use crate::made::Made;
use crate::replies::{Key, Place, Replies, Reply};
use crate::session::Session;
use crate::stats::{Counters, PgStats, PoolStats};
use crate::trim::TrimPg;
use crate::unread::{Account, Held, Unread};
use crate::watch::{Effects, Expired, Load, Outbox, WatchFacts, Watches};

#[cfg(test)]
mod order;
mod parked;
mod turn;
#[cfg(test)]
mod unread;
#[cfg(test)]
mod work;

/// The queue: held to take out all requests that are there; appending one takes no lock.
static SLOT: Class = Class::new("osd.slot");

/// Taken by whoever runs the slot's lane, which is one thread at a time: nobody ever waits for it, but for
/// who asks about the placement group.
static SLOT_STATE: Class = Class::new("osd.slot_state");

/// Requests that wait in one slot. The messenger's throttles bound the bytes.
const WAITING_MAX: usize = 64 << 10;

/// What all slots of an OSD share.
#[derive(Clone)]
pub(crate) struct Helpers {
    pub(crate) finisher: Arc<Finisher>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) load: Arc<Load>,
    pub(crate) history: Arc<History>,
    pub(crate) hands: Arc<Hands>,
    pub(crate) unread: Arc<Unread>,
    pub(crate) made: Arc<Made>,
}

impl Default for Helpers {
    fn default() -> Self {
        let (clock, load, history): (_, _, Arc<History>) = Default::default();
        let hands: Arc<Hands> = Arc::default();
        let (unread, made) = (Unread::new(Arc::clone(&hands)), Made::new(Arc::clone(&hands)));
        Self { finisher: Arc::default(), clock, load, history, hands, unread, made }
    }
}

/// A placement group as it is served.
pub(crate) struct Slot {
    pg: PgId,
    lane: Lane<Item>,
    pub(crate) collection: Arc<dyn Collection>,
    state: Mutex<SlotState>,
    replies: Arc<Replies>,
    helpers: Helpers,
    pub(crate) counters: Counters,
    /// Requests that were taken out of the lane so far, and those of them that are parked. Written by whoever
    /// runs the lane.
    arrived: AtomicU64,
    parked: AtomicUsize,
    /// Of each turn so far: whether a hand took it, and its work.
    #[cfg(test)]
    turns: std::sync::Mutex<Vec<(bool, u64)>>,
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
    pub(crate) watches: Watches,
    /// The moment that the clock was last asked for, if it has not come yet.
    armed: Option<Instant>,
    /// Objects that a request waits for, with the requests that came for them since. A read that has its view
    /// of the object is not among them: nobody waits for its data but who asked for it.
    pub(crate) waited_for: BTreeMap<ObjectName, VecDeque<Box<Request>>>,
    /// Requests of connections that must take answers first, by the connections' numbers.
    parked: BTreeMap<u64, VecDeque<Box<Request>>>,
    /// Who waits for the disk, to be told of.
    waits: Waits,
    /// Requests executed so far.
    executed: u64,
    /// Where what requests make is counted.
    pub(crate) made: Arc<Made>,
}

impl SlotState {
    /// As the last run left the placement group.
    pub(crate) fn new(version: Eversion, dups: Dups, load: Arc<Load>) -> Self {
        let (user_version, submitted) = (version.version, Eversion::default());
        let (watches, waited_for) = (Watches::new(load), BTreeMap::new());
        let (parked, waits, executed) = (BTreeMap::new(), Waits::default(), 0);
        let made = Made::new(Arc::default());
        Self {
            version,
            user_version,
            submitted,
            dups,
            watches,
            armed: None,
            waited_for,
            parked,
            waits,
            executed,
            made,
        }
    }
}

/// What a slot's lane brings.
enum Item {
    New(Box<Request>),
    /// What the request waited for is there; under which number it did, and whether its object is kept from
    /// others.
    Again(Box<Request>, u64, Option<ObjectName>),
    /// The moment that was asked for has come.
    Tick,
    /// This connection is gone.
    Lost(u64),
    /// There is a map with another blocklist.
    Blocked(Arc<OsdMap>),
    /// Snapshots have been removed.
    Trim(Arc<TrimPg>),
    /// Connections may have room for answers again.
    Eased,
    /// A request was executed beside the others: its answer, and the version that it tells of.
    Done(Box<Reply>, Eversion),
    /// Requests are to be executed that came for this object while it was waited for.
    Behind(ObjectName),
}

/// Whoever gets the answer.
pub(crate) trait Asker: Send + Sync {
    fn answer(&self, reply: Msg);

    /// The same for an answer that may be counted until it is read.
    fn answer_held(&self, reply: Msg, held: Held) {
        self.answer(reply);
        drop(held);
    }

    /// Where its unread answers are counted, if they are.
    fn account(&self) -> Option<Arc<Account>> {
        None
    }

    /// Bytes that it has taken so far.
    fn written(&self) -> u64 {
        0
    }

    /// It takes nothing, and others wait.
    fn give_up(&self) {}

    /// Gathers what is answered while the guard lives, if that makes sense.
    fn cork(&self) -> Option<Cork<'_>>;

    /// A number that tells connections apart.
    fn id(&self) -> u64 {
        0
    }

    /// Where it is.
    fn addr(&self) -> EntityAddr {
        EntityAddr::default()
    }

    /// Has the slot told when the connection is lost; false if it is lost already.
    fn watches_in(&self, slot: &Arc<Slot>) -> bool {
        let _ = slot;
        true
    }
}

/// For requests of the OSD's own.
struct Nobody;

impl Asker for Nobody {
    fn answer(&self, _: Msg) {}

    fn cork(&self) -> Option<Cork<'_>> {
        None
    }
}

impl Asker for Connection {
    fn answer(&self, reply: Msg) {
        // A client whose connection is gone, or ends because its queue is full, asks again, with the same
        // number.
        let _ = self.send(reply);
    }

    fn answer_held(&self, reply: Msg, held: Held) {
        let Held { hold, share, made } = held;
        let _ = match share {
            Some(share) => self.send_watched(reply, Arc::new(share.handed())),
            None => self.send(reply),
        };
        drop((hold, made));
    }

    fn account(&self) -> Option<Arc<Account>> {
        Some(Arc::clone(&Session::of(self).account))
    }

    fn written(&self) -> u64 {
        Connection::written(self)
    }

    fn give_up(&self) {
        Connection::give_up(self);
    }

    fn cork(&self) -> Option<Cork<'_>> {
        Some(Connection::cork(self))
    }

    fn id(&self) -> u64 {
        Connection::id(self)
    }

    fn addr(&self) -> EntityAddr {
        self.peer().addr
    }

    fn watches_in(&self, slot: &Arc<Slot>) -> bool {
        Session::of(self).watches_in(slot)
    }
}

/// A request that has passed all checks.
pub(crate) struct Request {
    pub(crate) asker: Arc<dyn Asker>,
    pub(crate) op: MOSDOp,
    pub(crate) context: Context,
    /// Counts the request against what may be read from clients, and what its answer may take.
    pub(crate) hold: Held,
    /// When its connection's reader had it.
    pub(crate) received: Instant,
    /// Nothing but this is to come of it: the refusal leaves behind the answers to what came before.
    pub(crate) refusal: Option<Errno>,
    /// The place that its answer has, if it reads the disk.
    pub(crate) place: Option<Place>,
    /// Its number among those that came to the slot.
    pub(crate) arrival: u64,
}

impl Request {
    /// A request to be executed.
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

impl Slot {
    /// Opens a placement group.
    pub(crate) fn open(pg: PgId, store: &dyn ObjectStore, helpers: &Helpers) -> Result<Self, StoreError> {
        let replies = Replies::new(helpers);
        let collection = store.open(pg, Arc::clone(&replies) as _)?;
        replies.begin(collection.version());
        let load = Arc::clone(&helpers.load);
        let mut state = SlotState::new(collection.version(), Dups::new(collection.records()), load);
        state.made = Arc::clone(&helpers.made);
        Ok(Self {
            pg,
            lane: Lane::new(&SLOT, WAITING_MAX),
            collection,
            state: Mutex::new(&SLOT_STATE, state),
            replies,
            helpers: helpers.clone(),
            counters: Counters::default(),
            arrived: AtomicU64::new(0),
            parked: AtomicUsize::new(0),
            #[cfg(test)]
            turns: std::sync::Mutex::default(),
        })
    }

    /// Told that the moment it asked for has come.
    pub(crate) fn tick(self: &Arc<Self>) {
        self.push(Item::Tick);
    }

    /// Told that a connection is gone which has watches here.
    pub(crate) fn lost(self: &Arc<Self>, conn: u64) {
        self.push(Item::Lost(conn));
    }

    /// Told of a map with another blocklist.
    pub(crate) fn blocked(self: &Arc<Self>, map: Arc<OsdMap>) {
        self.push(Item::Blocked(map));
    }

    /// Has the trimming begin behind all requests that are here already.
    pub(crate) fn trim(self: &Arc<Self>, trim: Arc<TrimPg>) {
        self.push(Item::Trim(trim));
    }

    /// In front of what waits, and never refused.
    fn push(self: &Arc<Self>, item: Item) {
        let pushed = match item {
            Item::Trim(_) => self
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

    /// A request of the OSD's own for an object; false if too many wait already.
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

    /// Takes a request: executes it here and now, or leaves it to whoever is executing. False if too many
    /// wait already.
    #[must_use]
    pub(crate) fn submit(self: &Arc<Self>, request: Box<Request>) -> bool {
        match self.lane.push(Item::New(request)) {
            Ok(Action::Submit) => self.run(),
            Ok(Action::Nothing) => {}
            Err(PushError::Full(_) | PushError::Closed(_)) => return false,
        }
        true
    }

    fn one(self: &Arc<Self>, item: Item, turn: &mut Turn) {
        let (request, kept) = match item {
            Item::Tick => return self.expire(),
            Item::Lost(conn) => return self.forget(conn),
            Item::Blocked(map) => return self.end_blocked(&map),
            Item::Trim(trim) => return trim.begin(),
            Item::Again(request, waited, kept) => {
                let told = self.state.lock().waits.end(waited);
                drop(told);
                (request, kept)
            }
            Item::Eased => return self.unpark(turn),
            Item::Done(reply, tells_of) => {
                let tells_of = tells_of.min(self.state.lock().submitted);
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

    /// Executes those that came for an object while it was waited for, until one of them waits again.
    fn execute_behind(self: &Arc<Self>, name: ObjectName, turn: &mut Turn) {
        while let Some(next) = self.next_for(&name) {
            let Some(next) = self.room_for(next) else { continue };
            if self.execute(next, Some(name.clone()), turn) {
                return;
            }
            if turn.is_over() {
                // Until then it counts as waited for. There is somebody who runs the lane: us.
                let _ = self.lane.requeue(VecDeque::from([Item::Behind(name)]));
                return;
            }
        }
    }

    /// Puts a request behind those that wait for its object, if there are any.
    fn behind_others(&self, request: Box<Request>) -> Option<Box<Request>> {
        let mut state = self.state.lock();
        if state.waited_for.is_empty() || exec::is_pg_request(&request.op) {
            return Some(request);
        }
        let name = ObjectName::new(exec::oid_of(&request.op)).ok();
        match name.and_then(|name| state.waited_for.get_mut(&name)) {
            Some(queue) => {
                // Behind all others, but for later ones of the same connection, if this one was parked.
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

    /// The next request for an object that was waited for. If there is none, it is not waited for any more.
    fn next_for(&self, name: &ObjectName) -> Option<Box<Request>> {
        let mut state = self.state.lock();
        let next = state.waited_for.get_mut(name).and_then(VecDeque::pop_front);
        let done = if next.is_none() { state.waited_for.remove(name) } else { None };
        drop(state);
        drop(done);
        next
    }

    /// Executes a request; `kept` is its object if that is kept from others for it. True if it is kept still,
    /// as the request has to wait again.
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
                None => exec::execute(context, op, &*self.collection, &mut state, &self.counters),
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

    /// Does for watchers what a request has come to.
    fn apply(self: &Arc<Self>, effects: Effects, asker: &Arc<dyn Asker>) {
        let connects = !effects.connected.is_empty();
        let out = self.watches(|watches| watches.apply(effects, asker, Instant::now()));
        self.send(out);
        if connects && !asker.watches_in(self) {
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
            // If the queue is full, the clock tries again.
            let _ = self.submit_task(&name, Epoch(0), Task::EndWatch(key), Arc::new(Nobody));
        }
    }

    /// Works with the watches, and sees to it that the clock looks after them.
    fn watches<T>(self: &Arc<Self>, work: impl FnOnce(&mut Watches) -> T) -> T {
        self.watches_and_clock(false, work)
    }

    fn watches_and_clock<T>(self: &Arc<Self>, ticked: bool, work: impl FnOnce(&mut Watches) -> T) -> T {
        let mut state = self.state.lock();
        let done = work(&mut state.watches);
        if ticked {
            state.armed = None;
        }
        let due = state.watches.due().filter(|due| state.armed.is_none_or(|armed| *due < armed));
        if due.is_some() {
            state.armed = due;
        }
        drop(state);
        if let Some(due) = due {
            self.helpers.clock.wake(due, Arc::downgrade(self));
        }
        done
    }

    /// Messages to watchers and notifiers go through the finisher: there may be thousands.
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

    /// Has a request executed again when what it waits for is there. True if its object is kept from others
    /// until then.
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
        // What waits alone lets later requests for its object go on: their answers are kept behind its own.
        request.place = request.place.filter(|_| alone).map(|place| {
            if !place.is_reserved {
                self.replies.reserve(place.key, place.number);
            }
            Place { is_reserved: true, ..place }
        });
        let slot = Arc::clone(self);
        wait(Box::new(move |answer: Box<dyn Any + Send>| {
            request.context.fetches.answered(number, answer);
            // In front, and never refused: it was admitted before.
            match slot.lane.requeue(VecDeque::from([Item::Again(request, waited, name)])) {
                Ok(Action::Submit) => slot.run(),
                Ok(Action::Nothing) | Err(_) => {}
            }
        }));
        keeps
    }

    /// Adds the requests that wait: for the disk to read, or for the store to make their changes safe.
    pub(crate) fn tell_waiting(&self, ops: &mut Vec<TrackedOp>) {
        let waiting = self.state.lock().waits.oldest();
        ops.extend(waiting.into_iter().map(Waiting::tell));
        self.replies.tell_waiting(ops);
    }

    /// The watches of this group's objects.
    pub(crate) fn watch_facts(&self) -> Vec<WatchFacts> {
        self.state.lock().watches.all()
    }

    /// What this group holds and was asked.
    pub(crate) fn stats(&self) -> PgStats {
        let mut stats = PoolStats::default();
        self.add_to(&mut stats);
        let state = self.state.lock();
        let (version, remembered) = (state.version, state.dups.len() as u64);
        drop(state);
        PgStats { pg: self.pg, stats, version, remembered }
    }

    /// Adds what this group holds and was asked.
    pub(crate) fn add_to(&self, stats: &mut PoolStats) {
        stats.stored += self.collection.stats();
        self.counters.add_to(stats);
    }
}

#[cfg(test)]
mod tests {
    //! Goal: whoever runs a slot, each write happens once, in its sender's order. Method: threads that append
    //! to the same objects and count the same counters in two slots, and send each request twice; then every
    //! object is what the threads together must have made of it.

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
            let writes = op.ops.iter().any(|op| op.code.is_modify());
            let context =
                Context { writes, ..Context::plain(self.number, Tid(self.tid), Epoch(1), PoolId(1), SLOTS) };
            let asker = Arc::clone(&self.inbox) as Arc<dyn Asker>;
            let received = Instant::now();
            assert!(slot.submit(Request::new(asker, op, context, Hold::default(), received)));
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
