//! Answers that wait until what they tell of is safe.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use loligo_lockstat::{Class, Mutex};
use loligo_msgr::Hold;
use loligo_store::{CommitListener, StoreError};
use loligo_wire::Eversion;
use loligo_wire::message::Msg;

use crate::finisher::{self, Finisher};
use crate::history::{self, History, Track, TrackedOp};
use crate::slot::{Asker, Helpers};

/// Held to add one answer, or to take out those that may go.
static REPLIES: Class = Class::new("osd.replies");

/// An answer and who gets it.
pub(crate) struct Reply {
    pub(crate) asker: Arc<dyn Asker>,
    pub(crate) msg: Msg,
    /// Counts the request against what may be read from clients, until it is answered.
    pub(crate) hold: Hold,
    /// The moments of the request, if it is a client's.
    pub(crate) track: Option<Track>,
}

/// The answers of one placement group that wait. It is the store's listener.
pub(crate) struct Replies {
    state: Mutex<State>,
    finisher: Arc<Finisher>,
    history: Arc<History>,
}

#[derive(Default)]
struct State {
    /// In order of the versions.
    waiting: VecDeque<(Eversion, Reply)>,
    /// All changes up to this one are safe.
    safe: Eversion,
    /// No change will be safe any more.
    stopped: bool,
}

impl Replies {
    pub(crate) fn new(helpers: &Helpers) -> Self {
        let (finisher, history) = (Arc::clone(&helpers.finisher), Arc::clone(&helpers.history));
        Self { state: Mutex::new(&REPLIES, State::default()), finisher, history }
    }

    /// What is there when the placement group is opened is safe.
    pub(crate) fn begin(&self, version: Eversion) {
        self.state.lock().safe = version;
    }

    /// Sends an answer as soon as all changes up to `tells_of` are safe. If they never will be, there is no answer: the
    /// client asks again elsewhere, or when the server is back.
    /// The moment at which it left, unless it waits.
    pub(crate) fn give(&self, tells_of: Eversion, mut reply: Reply) -> Option<Instant> {
        // A store that makes everything safe at once says so with each change, and its versions are never waited for.
        if tells_of != Eversion::default() {
            let mut state = self.state.lock();
            if tells_of > state.safe {
                if !state.stopped {
                    if let Some(track) = &mut reply.track {
                        track.executed = Some(Instant::now());
                    }
                    let at = state.waiting.partition_point(|(version, _)| *version <= tells_of);
                    state.waiting.insert(at, (tells_of, reply));
                }
                return None;
            }
        }
        let now = Instant::now();
        let Reply { asker, msg, hold, track } = reply;
        self.history.done(now, track.as_ref(), &asker, &msg);
        finisher::answer((asker, msg, hold));
        Some(now)
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

impl Replies {
    /// Takes out what may go now that this version is safe.
    fn ready(&self, version: Eversion) -> VecDeque<(Eversion, Reply)> {
        let mut state = self.state.lock();
        state.safe = state.safe.max(version);
        let count = state.waiting.partition_point(|(waits_for, _)| *waits_for <= version);
        let behind = state.waiting.split_off(count);
        mem::replace(&mut state.waiting, behind)
    }
}

impl CommitListener for Replies {
    fn committed(&self, version: Eversion) {
        self.finisher.send(self.ready(version).into_iter().map(|(_, reply)| reply));
    }

    fn committed_alone(&self, version: Eversion) {
        let mut ready = self.ready(version);
        // One answer leaves at once: to wake another thread for it would take longer than to send it.
        match ready.pop_front() {
            Some((_, Reply { asker, msg, hold, track })) if ready.is_empty() => {
                self.history.done(Instant::now(), track.as_ref(), &asker, &msg);
                asker.answer(msg);
                drop(hold);
            }
            first => self.finisher.send(first.into_iter().chain(ready).map(|(_, reply)| reply)),
        }
    }

    fn stopped(&self, _: &StoreError) {
        let mut state = self.state.lock();
        state.stopped = true;
        let waiting = mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
    }
}
