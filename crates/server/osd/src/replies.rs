//! The answers of one placement group: each leaves when what it tells of is safe, and behind the earlier
//! answers that the same client gets for the same object.
//!
//! An answer goes through up to three stages:
//!
//! 1. `waiting`: a change that it tells of is not safe yet. In the order of the changes' versions.
//! 2. `orders`: an earlier request of the same client for the same object still reads the disk. In the order
//!    of execution.
//! 3. `leaving`: nothing holds it any more, and one thread sends what is there, in order.
//!
//! Most answers skip all three: the thread that executes the placement group's requests sends an answer
//! itself as long as no earlier one that belongs before it is in any stage. That thread is one at a time, so
//! nothing can get between.

mod finisher;

use std::collections::VecDeque;
use std::collections::btree_map::BTreeMap;
use std::collections::hash_map::Entry;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use loligo_lockstat::{Class, Mutex};
use loligo_store::{CommitListener, StoreError};
use loligo_wire::Eversion;
use loligo_wire::message::Msg;
use rustc_hash::FxHashMap;

use crate::asker::{Asker, Held};
use crate::history::{self, History, Track, TrackedOp};
use finisher::Leaving;
pub(crate) use finisher::{Finisher, Gatherer};

/// Held to add one answer, or to take out those that may go.
static REPLIES: Class = Class::new("osd.replies");

/// An answer and who gets it.
pub(crate) struct Reply {
    pub(crate) asker: Arc<dyn Asker>,
    pub(crate) msg: Msg,
    /// What counts the request and its answer.
    pub(crate) hold: Held,
    /// The moments of the request, if it is a client's.
    pub(crate) track: Option<Track>,
    pub(crate) place: Place,
}

/// Answers with equal keys leave in the order of their requests: a connection, and the hash of an object's
/// name. Objects with equal hashes only wait for each other now and then.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Key {
    pub(crate) conn: u64,
    pub(crate) hash: u32,
}

/// Where an answer belongs among those of its key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) key: Key,
    /// Grows from request to request of the placement group, in the order of their execution.
    pub(crate) number: u64,
    /// The place was reserved when the request began to wait for the disk ([`Replies::reserve`]).
    pub(crate) is_reserved: bool,
}

/// The answers of one placement group that have not left. It is the store's listener.
pub(crate) struct Replies {
    state: Mutex<State>,
    /// Answers in any stage, and reserved places.
    unsent: AtomicUsize,
    this: Weak<Self>,
    finisher: Arc<Finisher>,
    history: Arc<History>,
}

#[derive(Default)]
struct State {
    /// In order of the versions.
    waiting: VecDeque<(Eversion, Reply)>,
    /// The keys that have answers in `waiting`, or reserved places.
    orders: FxHashMap<Key, Order>,
    leaving: VecDeque<Reply>,
    /// A thread sends what is in `leaving`, or was told to.
    is_sending: bool,
    /// All changes up to this one are safe.
    safe: Eversion,
    /// No change will be safe any more.
    stopped: bool,
}

/// The answers of one key.
#[derive(Default)]
struct Order {
    /// How many are in [`State::waiting`] …
    waiting: usize,
    /// … and the newest version that one of them waits for.
    newest: Eversion,
    /// Reserved places without their answers yet, and the answers behind them, by their numbers.
    places: BTreeMap<u64, Taken>,
}

/// What stands at a place among the answers of a key.
enum Taken {
    /// A request that reads the disk. Its answer leaves behind those that were waiting when the reading
    /// began: for this version.
    Reserved(Eversion),
    Given(Box<Reply>),
}

/// What becomes of an answer.
enum Fate {
    /// The caller sends it: no other answer belongs before it.
    Send(Reply),
    /// It is in a stage. If true, the caller sends what is in [`State::leaving`].
    Kept(bool),
    /// What it tells of will never be safe. The same of those that were behind it.
    Dropped(Reply, bool),
}

impl Replies {
    pub(crate) fn new(finisher: &Arc<Finisher>, history: &Arc<History>) -> Arc<Self> {
        let (finisher, history) = (Arc::clone(finisher), Arc::clone(history));
        Arc::new_cyclic(|this| Self {
            state: Mutex::new(&REPLIES, State::default()),
            unsent: AtomicUsize::new(0),
            this: Weak::clone(this),
            finisher,
            history,
        })
    }

    /// What is there when the placement group is opened is safe.
    pub(crate) fn begin(&self, version: Eversion) {
        self.state.lock().safe = version;
    }

    /// Keeps a place for the answer to a request that reads the disk now: later answers of the same key wait
    /// for it.
    ///
    /// Called, as [`Replies::give`] is, only by the thread that executes the placement group's requests.
    pub(crate) fn reserve(&self, key: Key, number: u64) {
        self.unsent.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state.lock();
        let order = state.orders.entry(key).or_default();
        order.places.insert(number, Taken::Reserved(order.waited_for()));
    }

    /// Sends an answer as soon as all changes up to `tells_of` are safe and the earlier answers of its key
    /// have left. If those changes never will be safe, there is no answer: the client asks again elsewhere,
    /// or when the server is back. Returns the moment at which the answer left, unless it waits.
    pub(crate) fn give(&self, tells_of: Eversion, reply: Reply) -> Option<Instant> {
        // A store that makes everything safe at once says so with each change, and its versions are never
        // waited for. Acquire: with the senders' Release. Only this thread adds answers, so if none is left,
        // all earlier ones were handed to their connections, and nothing but this thread can bring the next
        // one.
        if tells_of == Eversion::default() && self.unsent.load(Ordering::Acquire) == 0 && !finisher::gathers()
        {
            return Some(self.send(reply));
        }
        let gathers = finisher::gathers();
        let was_reserved = reply.place.is_reserved;
        let fate = self.state.lock().admit(tells_of, reply, gathers);
        // The count may be off for a moment, if another thread has sent the answer before it is counted. Only
        // this thread, or the next one behind the slot's lane, looks whether it is zero: so Relaxed is enough
        // to count up.
        let sends = match fate {
            Fate::Send(reply) => return Some(self.send(reply)),
            Fate::Kept(sends) => {
                self.unsent.fetch_add(usize::from(!was_reserved), Ordering::Relaxed);
                sends
            }
            Fate::Dropped(reply, sends) => {
                self.unsent.fetch_sub(usize::from(was_reserved), Ordering::Relaxed);
                drop(reply);
                sends
            }
        };
        if sends && gathers {
            finisher::gather(self.this.upgrade());
        } else if sends {
            finisher::send_all(self.this.upgrade().into_iter().collect(), Vec::new());
        }
        None
    }

    fn send(&self, Reply { asker, msg, hold, track, .. }: Reply) -> Instant {
        let now = Instant::now();
        self.history.done(now, track.as_ref(), &asker, &msg);
        asker.answer_held(msg, hold);
        now
    }

    /// Moves what is to leave to `to`; how many there were. If there were none, the caller is the sender no
    /// longer.
    pub(crate) fn take_leaving(&self, to: &mut Vec<Leaving>) -> usize {
        let mut state = self.state.lock();
        let leaving = mem::take(&mut state.leaving);
        state.is_sending = !leaving.is_empty();
        drop(state);
        let (now, count) = (Instant::now(), leaving.len());
        to.extend(leaving.into_iter().map(|Reply { asker, msg, hold, track, .. }| {
            self.history.done(now, track.as_ref(), &asker, &msg);
            (asker, msg, hold)
        }));
        count
    }

    /// So many answers were handed to their connections.
    pub(crate) fn sent(&self, count: usize) {
        // Release: whoever sees that none is left sends behind them.
        self.unsent.fetch_sub(count, Ordering::Release);
    }

    /// Adds the answers that wait, as far as one report shows them.
    pub(crate) fn tell_waiting(&self, ops: &mut Vec<TrackedOp>) {
        let state = self.state.lock();
        let tracked = state.waiting.iter().filter_map(|(_, reply)| Some((reply, reply.track?)));
        let waiting: Vec<_> = tracked
            .take(history::SHOWN_MAX)
            .map(|(reply, track)| (track, Arc::clone(&reply.asker), reply.msg.clone()))
            .collect();
        drop(state);
        let told =
            waiting.iter().filter_map(|(track, asker, msg)| history::waiting_answer(track, asker, msg));
        ops.extend(told);
    }
}

impl State {
    /// Finds an answer's stage; `gathers` if the calling thread sends nothing before it has more.
    fn admit(&mut self, tells_of: Eversion, mut reply: Reply, gathers: bool) -> Fate {
        let key = reply.place.key;
        let order = self.orders.get(&key);
        let waits_for = order.map_or(tells_of, |order| order.behind(&reply.place).max(tells_of));
        if waits_for > self.safe {
            if self.stopped {
                self.vacate(&reply.place);
                return Fate::Dropped(reply, self.begin_to_send());
            }
            if let Some(track) = &mut reply.track {
                track.executed = Some(Instant::now());
            }
            self.wait(waits_for, reply);
            return Fate::Kept(false);
        }
        let is_held = order.is_some_and(|order| !order.places.is_empty());
        if !is_held && !self.is_sending && !gathers {
            return Fate::Send(reply);
        }
        self.release(reply);
        Fate::Kept(self.begin_to_send())
    }

    fn wait(&mut self, version: Eversion, reply: Reply) {
        let order = self.orders.entry(reply.place.key).or_default();
        order.waiting += 1;
        order.newest = order.newest.max(version);
        let at = self.waiting.partition_point(|(waits_for, _)| *waits_for <= version);
        self.waiting.insert(at, (version, reply));
    }

    /// Takes out what may go now that this version is safe.
    fn commit(&mut self, version: Eversion) {
        self.safe = self.safe.max(version);
        let count = self.waiting.partition_point(|(waits_for, _)| *waits_for <= version);
        let behind = self.waiting.split_off(count);
        for (_, reply) in mem::replace(&mut self.waiting, behind) {
            if let Some(order) = self.orders.get_mut(&reply.place.key) {
                order.waiting -= 1;
            }
            self.release(reply);
        }
    }

    /// The changes that an answer tells of are safe: it leaves, unless an earlier one of its key reads the
    /// disk.
    fn release(&mut self, reply: Reply) {
        let Entry::Occupied(mut entry) = self.orders.entry(reply.place.key) else {
            return self.leaving.push_back(reply);
        };
        let order = entry.get_mut();
        if order.places.is_empty() {
            self.leaving.push_back(reply);
        } else {
            order.places.insert(reply.place.number, Taken::Given(Box::new(reply)));
            order.flush(&mut self.leaving);
        }
        if order.is_over() {
            entry.remove();
        }
    }

    /// There will be no answer.
    fn vacate(&mut self, place: &Place) {
        let Entry::Occupied(mut entry) = self.orders.entry(place.key) else { return };
        let order = entry.get_mut();
        order.places.remove(&place.number);
        order.flush(&mut self.leaving);
        if order.is_over() {
            entry.remove();
        }
    }

    /// True if there is something to send and the caller has to.
    fn begin_to_send(&mut self) -> bool {
        let begins = !self.is_sending && !self.leaving.is_empty();
        self.is_sending |= begins;
        begins
    }
}

impl Order {
    /// Lets go what is behind no reserved place any more.
    fn flush(&mut self, leaving: &mut VecDeque<Reply>) {
        while let Some((number, first)) = self.places.pop_first() {
            match first {
                Taken::Given(reply) => leaving.push_back(*reply),
                reserved => {
                    self.places.insert(number, reserved);
                    return;
                }
            }
        }
    }

    /// The newest version that an answer waits for.
    fn waited_for(&self) -> Eversion {
        if self.waiting > 0 { self.newest } else { Eversion::default() }
    }

    /// The version that answers in front of this place wait for.
    fn behind(&self, place: &Place) -> Eversion {
        match self.places.get(&place.number) {
            Some(Taken::Reserved(version)) => *version,
            _ => self.waited_for(),
        }
    }

    fn is_over(&self) -> bool {
        self.waiting == 0 && self.places.is_empty()
    }
}

impl CommitListener for Replies {
    fn committed(&self, version: Eversion) {
        let mut state = self.state.lock();
        state.commit(version);
        let begins = state.begin_to_send();
        drop(state);
        if begins {
            self.finisher.send(self.this.upgrade());
        }
    }

    fn committed_alone(&self, version: Eversion) {
        let mut state = self.state.lock();
        state.commit(version);
        let begins = state.begin_to_send();
        let alone = if begins && state.leaving.len() == 1 { state.leaving.pop_front() } else { None };
        drop(state);
        // One answer leaves at once: to wake another thread for it would take longer than to send it.
        if let Some(reply) = alone {
            self.send(reply);
            self.sent(1);
            let mut state = self.state.lock();
            state.is_sending = false;
            if !state.begin_to_send() {
                return;
            }
        } else if !begins {
            return;
        }
        self.finisher.send(self.this.upgrade());
    }

    fn stopped(&self, _: &StoreError) {
        let mut state = self.state.lock();
        state.stopped = true;
        let waiting = mem::take(&mut state.waiting);
        for (_, reply) in &waiting {
            if let Some(order) = state.orders.get_mut(&reply.place.key) {
                order.waiting -= 1;
            }
            state.vacate(&reply.place);
        }
        let begins = state.begin_to_send();
        drop(state);
        self.sent(waiting.len());
        drop(waiting);
        if begins {
            self.finisher.send(self.this.upgrade());
        }
    }
}

#[cfg(test)]
mod tests;
