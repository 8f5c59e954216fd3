//! The thread that sends replies which had to wait for the store.
//!
//! The store's committer reports many changes at once, on the thread that must write the next ones. It
//! therefore only queues the placement groups that have replies. The replies of a batch leave in one
//! write for each connection, and so do the replies to reads that the store completes together.

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

use super::Replies;
use crate::asker::{Asker, Held};
use crate::hands::OnPanic;

/// Held to take out all queued items; queueing one takes no lock.
static FINISHER: Class = Class::new("osd.finisher");

/// Maximum number of queued items: placement groups with replies, each at most once, and messages.
const WAITING_MAX: usize = 256 << 10;
/// Placement groups and messages served in one batch.
const BATCH: usize = 256;
/// Connections whose replies are gathered at once; replies to further connections are written one by
/// one.
const CORKS_MAX: usize = 32;

/// Sends replies. The thread is started by the first one.
pub(crate) struct Finisher {
    shared: Arc<Shared>,
    thread: OnceLock<Option<Thread>>,
}

struct Shared {
    lane: Lane<Item>,
    closed: AtomicBool,
    on_panic: OnceLock<OnPanic>,
}

/// An item for the thread to send.
#[expect(
    clippy::large_enum_variant,
    reason = "a message is moved twice; a box would be an allocation for each"
)]
enum Item {
    /// The leaving replies of a placement group.
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
    /// Sends the replies of a placement group whose sender the caller has become. Never blocks.
    pub(crate) fn send(&self, group: Option<Arc<Replies>>) {
        self.push(group.into_iter().map(Item::Group));
    }

    /// Sets the handler called when the thread has panicked.
    pub(crate) fn on_panic(&self, heard: OnPanic) {
        let _ = self.shared.on_panic.set(heard);
    }

    /// Sends messages. Never blocks.
    pub(crate) fn send_messages(&self, messages: impl Iterator<Item = Leaving>) {
        self.push(messages.map(Item::Message));
    }

    fn push(&self, items: impl Iterator<Item = Item>) {
        let mut wake = false;
        for item in items {
            match self.shared.lane.push(item) {
                Ok(action) => wake |= action == Action::Submit,
                // The queue is full: the caller sends the item itself.
                Err(refused) => send_items([refused.into_inner()].into_iter()),
            }
        }
        if wake {
            self.wake();
        }
    }

    /// Wakes the thread. On a thread of the store that completes several reads in a batch, the wake-up
    /// is deferred to the end of the batch; otherwise the thread would be woken for each reply.
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

    /// Starts the thread. If that fails, the threads that bring replies send them.
    fn start(&self) -> Option<Thread> {
        let shared = Arc::clone(&self.shared);
        let work = move || {
            // Acquire: pairs with the store when the finisher is dropped.
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

/// A reply, its recipient, and the guards that count the request and the reply.
pub(crate) type Leaving = (Arc<dyn Asker>, Msg, Held);

thread_local! {
    /// Actions deferred to the end of the store's current batch on this thread; `None` outside a batch.
    static BEHIND: RefCell<Option<Batch>> = const { RefCell::new(None) };
}

/// Actions deferred to the end of a batch.
#[derive(Default)]
struct Batch {
    /// Finisher threads to wake.
    to_wake: SmallVec<[Thread; 1]>,
    /// Placement groups whose replies leave.
    groups: Vec<Arc<Replies>>,
}

/// Listens to the store's batches, so that the replies of a batch leave together.
pub(crate) struct Gatherer;

impl BatchListener for Gatherer {
    fn begins(&self) {
        BEHIND.with_borrow_mut(|batch| {
            batch.get_or_insert_default();
        });
    }

    fn ended(&self) {
        // The batch is taken first: actions caused by the sending belong to no batch.
        let Some(Batch { to_wake, groups }) = BEHIND.take() else { return };
        to_wake.iter().for_each(Thread::unpark);
        if !groups.is_empty() {
            send_all(groups, Vec::new());
        }
    }
}

/// Whether this thread is inside a batch of the store. The replies of the batch then leave together at
/// its end.
pub(crate) fn gathers() -> bool {
    BEHIND.with_borrow(Option::is_some)
}

/// Sends the replies of a placement group at the end of the store's current batch on this thread, which
/// [gathers] and has become their sender.
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

/// Sends messages, and the replies of placement groups whose sender the caller has become, until none
/// are left.
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

/// Sends replies, in one write for each connection.
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

    use loligo_store::Batches;
    use loligo_wire::Eversion;

    use super::super::{Key, Place, Reply};
    use super::*;

    /// A recipient that panics on each reply.
    struct Faulty;

    impl Asker for Faulty {
        fn answer(&self, _: Msg) {
            panic!("no answer");
        }

        fn cork(&self) -> Option<Cork<'_>> {
            None
        }
    }

    /// A recipient that counts its replies.
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
        let replies = Replies::new(&Arc::default(), &Arc::default());
        let give = |number| {
            let msg = Msg::new(&loligo_wire::message::osd::MOSDMap::default());
            let place = Place { key: Key { conn: 1, hash: 1 }, number, is_reserved: false };
            let asker = Arc::clone(&asker) as Arc<dyn Asker>;
            let reply = Reply { asker, msg, hold: Held::default(), track: None, place };
            replies.give(Eversion::default(), reply);
        };
        let arrived = || asker.0.load(Ordering::Relaxed);
        let batches = Batches::default();
        // Two OSDs over one store both listen.
        (0..2).for_each(|_| batches.listen(Arc::new(Gatherer)));
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
