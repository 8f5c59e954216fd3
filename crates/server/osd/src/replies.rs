//! The replies of one placement group. Each reply leaves when the changes it reports are committed, and
//! behind the earlier replies that the same client gets for the same object.
//!
//! A reply goes through up to three stages:
//!
//! 1. `waiting`: a change that the reply reports is not committed yet. Ordered by the changes' versions.
//! 2. `orders`: an earlier request of the same client for the same object still reads the disk. In order
//!    of execution.
//! 3. `leaving`: nothing holds the reply back. One thread sends these replies in order.
//!
//! Most replies skip all three stages: the thread that executes the placement group's requests sends a
//! reply itself as long as no stage holds an earlier reply that must precede it. Only one thread
//! executes at a time, so no other reply can get in between.

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

/// Held to add one reply, or to take out those that may leave.
static REPLIES: Class = Class::new("osd.replies");

/// A reply and its recipient.
pub(crate) struct Reply {
    pub(crate) asker: Arc<dyn Asker>,
    pub(crate) msg: Msg,
    /// The guards that count the request and its reply until the reply is read.
    pub(crate) hold: Held,
    /// The timestamps of the request, if a client sent it.
    pub(crate) track: Option<Track>,
    pub(crate) place: Place,
}

/// Replies with equal keys leave in the order of their requests. A key is a connection and the hash of
/// an object's name. Objects with equal hashes only delay each other's replies occasionally.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Key {
    pub(crate) conn: u64,
    pub(crate) hash: u32,
}

/// The position of a reply among those of its key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) key: Key,
    /// Increases from request to request of the placement group, in the order of execution.
    pub(crate) number: u64,
    /// The place was reserved when the request began to wait for the disk ([`Replies::reserve`]).
    pub(crate) is_reserved: bool,
}

/// The replies of one placement group that have not left. It is the store's commit listener.
pub(crate) struct Replies {
    state: Mutex<State>,
    /// Replies in any stage, and reserved places.
    unsent: AtomicUsize,
    this: Weak<Self>,
    finisher: Arc<Finisher>,
    history: Arc<History>,
}

#[derive(Default)]
struct State {
    /// Ordered by version.
    waiting: VecDeque<(Eversion, Reply)>,
    /// The keys that have replies in `waiting`, or reserved places.
    orders: FxHashMap<Key, Order>,
    leaving: VecDeque<Reply>,
    /// A thread is sending the replies in `leaving`, or was told to.
    is_sending: bool,
    /// All changes up to this version are committed.
    safe: Eversion,
    /// The store has stopped: no further change will be committed.
    stopped: bool,
}

/// The order of the replies of one key.
#[derive(Default)]
struct Order {
    /// The number of replies in [`State::waiting`] …
    waiting: usize,
    /// … and the newest version that one of them waits for.
    newest: Eversion,
    /// Reserved places still without their reply, and the replies behind them, by number.
    places: BTreeMap<u64, Taken>,
}

/// The content of a place in a key's order.
enum Taken {
    /// A request that reads the disk. Its reply leaves behind those that were waiting when the read
    /// began; they wait for this version.
    Reserved(Eversion),
    Given(Box<Reply>),
}

/// The outcome of admitting a reply.
enum Fate {
    /// The caller sends it: no other reply must precede it.
    Send(Reply),
    /// A stage holds it. If true, the caller must send the replies in [`State::leaving`].
    Kept(bool),
    /// The changes it reports will never be committed, so it is dropped. The flag is as in `Kept`, for
    /// the replies behind it.
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

    /// Sets the version of the collection when it was opened: everything up to it is committed.
    pub(crate) fn begin(&self, version: Eversion) {
        self.state.lock().safe = version;
    }

    /// Reserves a place for the reply to a request that now reads the disk. Later replies of the same
    /// key wait for it.
    ///
    /// Like [`Replies::give`], called only by the thread that executes the placement group's requests.
    pub(crate) fn reserve(&self, key: Key, number: u64) {
        self.unsent.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state.lock();
        let order = state.orders.entry(key).or_default();
        order.places.insert(number, Taken::Reserved(order.waited_for()));
    }

    /// Sends a reply as soon as all changes up to `tells_of` are committed and the earlier replies of
    /// its key have left. If those changes will never be committed, no reply is sent: the client resends
    /// to another OSD, or when the server is back. Returns the time at which the reply left, or `None`
    /// if it waits.
    pub(crate) fn give(&self, tells_of: Eversion, reply: Reply) -> Option<Instant> {
        // A store that commits each change at once reports it as `Done`, and its versions are never
        // waited for. Acquire: pairs with the senders' Release. Only this thread adds replies, so if
        // none is unsent, all earlier ones were handed to their connections, and only this thread can
        // add the next one.
        if tells_of == Eversion::default() && self.unsent.load(Ordering::Acquire) == 0 && !finisher::gathers()
        {
            return Some(self.send(reply));
        }
        let gathers = finisher::gathers();
        let was_reserved = reply.place.is_reserved;
        let fate = self.state.lock().admit(tells_of, reply, gathers);
        // The count may be off briefly if another thread sends the reply before it is counted. Only this
        // thread, or the next one that runs the slot's lane, checks for zero, so Relaxed is enough for
        // the increment.
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

    /// Moves the leaving replies to `to` and returns how many there were. If there were none, the caller
    /// is no longer the sender.
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

    /// Records that `count` replies were handed to their connections.
    pub(crate) fn sent(&self, count: usize) {
        // Release: a thread that sees zero sends behind these replies.
        self.unsent.fetch_sub(count, Ordering::Release);
    }

    /// Adds the waiting replies, up to the number one report shows.
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
    /// Assigns a reply to a stage. `gathers`: the calling thread collects further replies before it sends.
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

    /// Marks this version committed and releases the replies that waited for it.
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

    /// Called when the changes a reply reports are committed. The reply leaves, unless an earlier one of
    /// its key still reads the disk.
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

    /// Gives up a place: its reply will never come.
    fn vacate(&mut self, place: &Place) {
        let Entry::Occupied(mut entry) = self.orders.entry(place.key) else { return };
        let order = entry.get_mut();
        order.places.remove(&place.number);
        order.flush(&mut self.leaving);
        if order.is_over() {
            entry.remove();
        }
    }

    /// Returns true if there are replies to send and the caller must send them.
    fn begin_to_send(&mut self) -> bool {
        let begins = !self.is_sending && !self.leaving.is_empty();
        self.is_sending |= begins;
        begins
    }
}

impl Order {
    /// Releases the replies that are no longer behind a reserved place.
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

    /// The newest version that a reply of this key waits for.
    fn waited_for(&self) -> Eversion {
        if self.waiting > 0 { self.newest } else { Eversion::default() }
    }

    /// The version that the replies in front of this place wait for.
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
        // A single reply is sent at once: waking another thread would take longer.
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
