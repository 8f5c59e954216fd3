//! The thread that sends answers which had to wait for the store.
//!
//! The store's committer tells of many changes at once, on the thread that should be writing the next ones;
//! so it only leaves here which placement groups have answers. They leave in one write for each connection,
//! and so do the answers to reads that the store gives together.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};

use loligo_lane::{Action, Lane};
use loligo_lockstat::Class;
use loligo_msgr::Cork;
use loligo_store::BatchListener;
use loligo_wire::message::Msg;
use smallvec::SmallVec;

use crate::replies::Replies;
use crate::slot::Asker;
use crate::unread::Held;

/// Held to take out all that waits to be sent; leaving something takes no lock.
static FINISHER: Class = Class::new("osd.finisher");

/// Placement groups with answers, each at most once, and messages that wait to be sent.
const WAITING_MAX: usize = 256 << 10;
/// Placement groups and messages served at once.
const BATCH: usize = 256;
/// Connections whose answers are gathered at once; those of others leave one by one.
const CORKS_MAX: usize = 32;

/// Sends answers; has no thread before the first one.
pub(crate) struct Finisher {
    shared: Arc<Shared>,
    thread: OnceLock<Option<Thread>>,
}

struct Shared {
    lane: Lane<Item>,
    closed: AtomicBool,
    on_panic: OnceLock<OnPanic>,
}

/// Hears that a thread of the OSD has panicked: nobody does its work any more.
pub(crate) type OnPanic = Arc<dyn Fn(String) + Send + Sync>;

/// What the thread sends.
#[expect(
    clippy::large_enum_variant,
    reason = "a message is moved twice; a box would be an allocation for each"
)]
enum Item {
    /// The answers of a placement group that may leave.
    Group(Arc<Replies>),
    /// A message to a watcher or a notifier.
    Message(Leaving),
}

impl Default for Finisher {
    fn default() -> Self {
        let shared = Shared {
            lane: Lane::new(&FINISHER, WAITING_MAX),
            closed: AtomicBool::new(false),
            on_panic: OnceLock::new(),
        };
        Self { shared: Arc::new(shared), thread: OnceLock::new() }
    }
}

impl Finisher {
    /// Has the answers of a placement group sent; the caller has become their sender. Never waits.
    pub(crate) fn send(&self, group: Option<Arc<Replies>>) {
        self.push(group.into_iter().map(Item::Group));
    }

    /// Says who hears that the thread has panicked.
    pub(crate) fn on_panic(&self, heard: OnPanic) {
        let _ = self.shared.on_panic.set(heard);
    }

    /// Has messages sent. Never waits.
    pub(crate) fn send_messages(&self, messages: impl Iterator<Item = Leaving>) {
        self.push(messages.map(Item::Message));
    }

    fn push(&self, items: impl Iterator<Item = Item>) {
        let mut wake = false;
        for item in items {
            match self.shared.lane.push(item) {
                Ok(action) => wake |= action == Action::Submit,
                // As much waits as may: nobody is served worse if this does not.
                Err(refused) => send_items([refused.into_inner()].into_iter()),
            }
        }
        if wake {
            self.wake();
        }
    }

    /// Wakes the thread; in a thread of the store that gives several answers, behind the last of them: it
    /// would be awake for each.
    fn wake(&self) {
        let Some(thread) = self.thread.get_or_init(|| self.start()) else { return self.shared.run() };
        let is_left = BEHIND.with_borrow_mut(|batch| {
            let Some(Batch { to_wake, .. }) = batch else { return false };
            if !to_wake.iter().any(|other| other.id() == thread.id()) {
                to_wake.push(thread.clone());
            }
            true
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
        let of_panic = Arc::clone(&self.shared);
        let panicked =
            move |why: String| of_panic.on_panic.get().into_iter().for_each(|heard| heard(why.clone()));
        let name = "loligo-finish";
        let guarded = move || loligo_store::guarded(name, work, panicked);
        let spawned = thread::Builder::new().name(name.to_owned()).spawn(guarded);
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
            send_items(batch.drain(..));
            ControlFlow::Continue(())
        }) == loligo_lane::RunEnd::Again
        {}
    }
}

/// An answer, the session that gets it, and what counts the request and the answer.
pub(crate) type Leaving = (Arc<dyn Asker>, Msg, Held);

thread_local! {
    /// What follows from the answers that the store gives in this thread; nothing if it gives none.
    static BEHIND: RefCell<Option<Batch>> = const { RefCell::new(None) };
}

/// What is done behind the last answer of a batch.
#[derive(Default)]
struct Batch {
    /// Threads of finishers that are to be woken.
    to_wake: SmallVec<[Thread; 1]>,
    /// Placement groups whose answers leave.
    groups: Vec<Arc<Replies>>,
}

/// Hears of the store's batches: what its answers cause leaves together.
pub(crate) struct Gatherer;

impl BatchListener for Gatherer {
    fn begins(&self) {
        BEHIND.with_borrow_mut(|batch| {
            batch.get_or_insert_default();
        });
    }

    fn ended(&self) {
        // What comes of it is of no batch any more.
        let Some(Batch { to_wake, groups }) = BEHIND.take() else { return };
        to_wake.iter().for_each(Thread::unpark);
        if !groups.is_empty() {
            send_all(groups, Vec::new());
        }
    }
}

/// Whether this thread is one of the store's that gives several answers: what comes of them leaves together,
/// behind the last.
pub(crate) fn gathers() -> bool {
    BEHIND.with_borrow(Option::is_some)
}

/// Has the answers of a placement group leave behind the last answer that the store gives in this thread,
/// which [gathers] and has become their sender.
pub(crate) fn gather(group: Option<Arc<Replies>>) {
    let Some(group) = group else { return };
    let is_alone = BEHIND.with_borrow_mut(|batch| match batch {
        Some(batch) => {
            batch.groups.push(group);
            None
        }
        None => Some(group),
    });
    if let Some(group) = is_alone {
        send_all(vec![group], Vec::new());
    }
}

fn send_items(items: impl Iterator<Item = Item>) {
    let (mut groups, mut messages) = (Vec::new(), Vec::new());
    for item in items {
        match item {
            Item::Group(group) => groups.push(group),
            Item::Message(message) => messages.push(message),
        }
    }
    send_all(groups, messages);
}

/// Sends messages, and answers of placement groups whose sender the caller has become, until no more are
/// there.
pub(crate) fn send_all(mut groups: Vec<Arc<Replies>>, mut leaving: Vec<Leaving>) {
    loop {
        let mut counts = Vec::with_capacity(groups.len());
        groups.retain(|group| {
            let count = group.take_leaving(&mut leaving);
            counts.extend((count > 0).then_some(count));
            count > 0
        });
        if leaving.is_empty() {
            return;
        }
        leave(std::mem::take(&mut leaving));
        groups.iter().zip(counts).for_each(|(group, count)| group.sent(count));
    }
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
        asker.answer_held(msg, hold);
    }
    drop(corks);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    use loligo_store::BatchListeners;
    use loligo_wire::Eversion;

    use super::*;
    use crate::replies::{Key, Place, Reply};
    use crate::slot::Helpers;

    /// Somebody whose answers cannot be given.
    struct Faulty;

    impl Asker for Faulty {
        fn answer(&self, _: Msg) {
            panic!("no answer");
        }

        fn cork(&self) -> Option<Cork<'_>> {
            None
        }
    }

    /// Somebody who counts what he gets.
    #[derive(Default)]
    struct Counts(AtomicUsize);

    impl Asker for Counts {
        fn answer(&self, _: Msg) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn cork(&self) -> Option<Cork<'_>> {
            None
        }
    }

    #[test]
    fn what_the_store_answers_together_leaves_behind_the_last_answer() {
        let asker = Arc::new(Counts::default());
        let replies = Replies::new(&Helpers::default());
        let give = |number| {
            let msg = Msg::new(&loligo_wire::message::osd::MOSDMap::default());
            let place = Place { key: Key { conn: 1, hash: 1 }, number, is_reserved: false };
            let asker = Arc::clone(&asker) as Arc<dyn Asker>;
            let reply = Reply { asker, msg, hold: Held::default(), track: None, place };
            replies.give(Eversion::default(), reply);
        };
        let arrived = || asker.0.load(Ordering::Relaxed);
        let batches = BatchListeners::default();
        // Of two OSDs over one store both listen.
        (0..2).for_each(|_| batches.add(Arc::new(Gatherer)));
        batches.together(|| {
            give(1);
            give(2);
            assert_eq!(arrived(), 0, "the last answer is still to come");
        });
        assert_eq!(arrived(), 2);
        give(3);
        assert_eq!(arrived(), 3, "alone it leaves at once");
    }

    #[test]
    fn a_panic_of_the_thread_is_heard_of() {
        let finisher = Finisher::default();
        let (tell, told) = mpsc::channel();
        finisher.on_panic(Arc::new(move |why| drop(tell.send(why))));
        let msg = Msg::new(&loligo_wire::message::osd::MOSDMap::default());
        finisher.send_messages([(Arc::new(Faulty) as Arc<dyn Asker>, msg, Held::default())].into_iter());
        let why = told.recv().expect("the thread tells before it ends");
        assert!(why.contains("loligo-finish") && why.contains("no answer"), "{why}");
    }
}
