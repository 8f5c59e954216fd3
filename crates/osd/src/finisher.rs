//! The thread that sends answers which had to wait for the store.
//!
//! The store's committer tells of many changes at once, on the thread that should be writing the next ones; so it only leaves
//! the answers here. They leave in one write for each connection, and so do the answers to reads that the store gives together.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Instant;

use loligo_lane::{Action, Lane};
use loligo_lockstat::Class;
use loligo_msgr::{Cork, Hold};
use loligo_wire::message::Msg;

use crate::history::History;
use crate::replies::Reply;
use crate::slot::Asker;

/// Held to take out all answers that wait; leaving one takes no lock.
static FINISHER: Class = Class::new("osd.finisher");

/// Answers that wait to be sent: more than requests are let in.
const WAITING_MAX: usize = 256 << 10;
/// Answers sent at once.
const BATCH: usize = 256;
/// Connections whose answers are gathered at once; those of others leave one by one.
const CORKS_MAX: usize = 32;

/// Sends answers; has no thread before the first one.
pub(crate) struct Finisher {
    shared: Arc<Shared>,
    thread: OnceLock<Option<Thread>>,
}

struct Shared {
    lane: Lane<Reply>,
    closed: AtomicBool,
    history: Arc<History>,
}

impl Default for Finisher {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

impl Finisher {
    /// What becomes of requests is told there.
    pub(crate) fn new(history: Arc<History>) -> Self {
        let lane = Lane::new(&FINISHER, WAITING_MAX);
        let shared = Shared { lane, closed: AtomicBool::new(false), history };
        Self { shared: Arc::new(shared), thread: OnceLock::new() }
    }

    /// Has answers sent. Never waits.
    pub(crate) fn send(&self, replies: impl Iterator<Item = Reply>) {
        let mut wake = false;
        for reply in replies {
            match self.shared.lane.push(reply) {
                Ok(action) => wake |= action == Action::Submit,
                // As many answers wait as may: nobody is served worse if this one does not.
                Err(refused) => {
                    let reply = refused.into_inner();
                    reply.asker.answer(reply.msg);
                }
            }
        }
        if wake {
            self.wake();
        }
    }

    /// Wakes the thread; in a thread of the store that gives several answers, behind the last of them: it would be awake for each.
    fn wake(&self) {
        let Some(thread) = self.thread.get_or_init(|| self.start()) else { return self.shared.run() };
        let is_left = TO_WAKE.with_borrow_mut(|to_wake| match to_wake {
            Some(other) => other.id() == thread.id(),
            None => {
                let is_left = loligo_store::behind_answers(wake_left);
                *to_wake = is_left.then(|| thread.clone());
                is_left
            }
        });
        if !is_left {
            thread.unpark();
        }
    }

    /// Starts the thread; without one, answers are sent by whoever brings them.
    fn start(&self) -> Option<Thread> {
        let shared = Arc::clone(&self.shared);
        let work = move || {
            // Acquire: what was left before is sent.
            while !shared.closed.load(Ordering::Acquire) {
                shared.run();
                thread::park();
            }
        };
        let spawned = thread::Builder::new().name("loligo-finish".to_owned()).spawn(work);
        spawned.ok().map(|handle| handle.thread().clone())
    }
}

impl Drop for Finisher {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        if let Some(Some(thread)) = self.thread.get() {
            thread.unpark();
        }
    }
}

impl Shared {
    fn run(&self) {
        while self.lane.run_batch(BATCH, |batch| {
            send(&self.history, batch.drain(..));
            ControlFlow::Continue(())
        }) == loligo_lane::RunEnd::Again
        {}
    }
}

/// An answer, who gets it, and what counts the request against what may be read from clients.
type Leaving = (Arc<dyn Asker>, Msg, Hold);

thread_local! {
    /// A finisher's thread, to be woken when the store has given all answers that it has.
    static TO_WAKE: RefCell<Option<Thread>> = const { RefCell::new(None) };
    /// Answers that leave when the store has given all that it has.
    static GATHERED: RefCell<Vec<Leaving>> = const { RefCell::new(Vec::new()) };
}

/// Sends an answer that waits for nothing any more; in a thread of the store that gives several answers, together with those.
pub(crate) fn answer(leaving: Leaving) {
    let alone = GATHERED.with_borrow_mut(|gathered| {
        if gathered.is_empty() && !loligo_store::behind_answers(send_gathered) {
            return Some(leaving);
        }
        gathered.push(leaving);
        None
    });
    if let Some((asker, msg, hold)) = alone {
        asker.answer(msg);
        drop(hold);
    }
}

fn wake_left() {
    let thread = TO_WAKE.take();
    thread.iter().for_each(Thread::unpark);
}

fn send_gathered() {
    leave(GATHERED.take());
}

fn send(history: &History, replies: impl Iterator<Item = Reply>) {
    let now = Instant::now();
    let leaving = |Reply { asker, msg, hold, track }: Reply| {
        history.done(now, track.as_ref(), &asker, &msg);
        (asker, msg, hold)
    };
    leave(replies.map(leaving).collect());
}

/// Sends answers, in one write for each connection.
fn leave(leaving: Vec<Leaving>) {
    let mut askers: Vec<Arc<dyn Asker>> = Vec::new();
    for (asker, ..) in &leaving {
        let known = askers.iter().any(|known| Arc::ptr_eq(known, asker));
        if !known && askers.len() < CORKS_MAX {
            askers.push(Arc::clone(asker));
        }
    }
    let corks: Vec<Option<Cork<'_>>> = askers.iter().map(|asker| asker.cork()).collect();
    for (asker, msg, hold) in leaving {
        asker.answer(msg);
        drop(hold);
    }
    drop(corks);
}
