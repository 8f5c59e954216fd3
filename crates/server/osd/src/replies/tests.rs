//! Goal: the replies that one client gets for one object arrive in the order of its requests, whatever
//! each reply waits for. Method: one thread executes generated requests, a second commits changes, a
//! third completes disk reads, all at random times. The recipient pauses now and then; the test checks
//! the order it received.

use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use loligo_msgr::Cork;
use loligo_wire::{Epoch, Tid};

use super::*;

const REQUESTS: u64 = 20_000;
const OBJECTS: u32 = 3;

/// Pseudo-random numbers of a linear congruential generator: the high bits are good enough to mix
/// orders.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Records the replies of one connection.
struct Inbox {
    conn: u64,
    arrived: std::sync::Mutex<Vec<u64>>,
}

impl Asker for Inbox {
    fn answer(&self, msg: Msg) {
        let tid = msg.header.tid.0;
        // Gives the next reply a chance to overtake.
        if tid.is_multiple_of(7) {
            thread::yield_now();
        }
        self.arrived.lock().expect("no test has panicked").push(tid);
    }

    fn cork(&self) -> Option<Cork<'_>> {
        None
    }

    fn id(&self) -> u64 {
        self.conn
    }
}

fn version(version: u64) -> Eversion {
    Eversion { epoch: Epoch(u32::from(version > 0)), version }
}

/// The reply to a request that reads the disk, given when the read completes.
type Read = (Eversion, Reply);

struct Executor {
    replies: Arc<Replies>,
    inboxes: [Arc<Inbox>; 2],
    dice: Dice,
    /// The version of the newest submitted change.
    submitted: Arc<AtomicU64>,
    reads: Sender<Read>,
}

impl Executor {
    /// The object is derived from the request's number, so that the check can tell it.
    fn execute(&mut self, number: u64) {
        let (inbox, hash) = (&self.inboxes[self.dice.below(2) as usize], number as u32 % OBJECTS);
        let asker = Arc::clone(inbox) as Arc<dyn Asker>;
        let key = Key { conn: inbox.conn, hash };
        let msg = Msg { ..Msg::new(&loligo_wire::message::osd::MOSDMap::default()).with_tid(Tid(number)) };
        let place = Place { key, number, is_reserved: false };
        let reply = Reply { asker, msg, hold: Held::default(), track: None, place };
        let newest = self.submitted.load(Ordering::Relaxed);
        match self.dice.below(10) {
            // A change that is committed later.
            0..4 => {
                self.submitted.store(newest + 1, Ordering::Release);
                self.replies.give(version(newest + 1), reply);
            }
            // A read served from memory, of an object changed recently or long ago.
            4..6 => drop(self.replies.give(version(newest - self.dice.below(4).min(newest)), reply)),
            // An error, a resent write, or a read in a group without changes.
            6..9 => drop(self.replies.give(Eversion::default(), reply)),
            _ => {
                self.replies.reserve(key, number);
                let place = Place { is_reserved: true, ..place };
                let read = (version(newest - self.dice.below(3).min(newest)), Reply { place, ..reply });
                self.reads.send(read).expect("somebody reads");
            }
        }
    }
}

/// Commits changes, some alone and some together, up to the last.
fn commit(replies: &Replies, submitted: &AtomicU64, is_over: &AtomicUsize) {
    let (mut dice, mut safe) = (Dice(2), 0);
    loop {
        let over = is_over.load(Ordering::Acquire) > 0;
        let newest = submitted.load(Ordering::Acquire);
        if newest == safe {
            if over {
                return;
            }
            thread::yield_now();
            continue;
        }
        safe += 1 + dice.below(newest - safe);
        match dice.below(2) {
            0 => replies.committed_alone(version(safe)),
            _ => replies.committed(version(safe)),
        }
    }
}

/// Completes reads in random order. The executor's mutex stands for the slot's lane.
fn end_reads(reads: Receiver<Read>, executor: &std::sync::Mutex<Executor>) {
    let (mut dice, mut open) = (Dice(3), Vec::new());
    loop {
        match reads.try_recv() {
            Ok(read) => open.push(read),
            Err(mpsc::TryRecvError::Disconnected) if open.is_empty() => return,
            Err(_) => thread::yield_now(),
        }
        if !open.is_empty() && dice.below(3) == 0 {
            let (tells_of, reply) = open.swap_remove(dice.below(open.len() as u64) as usize);
            let executor = executor.lock().expect("no test has panicked");
            executor.replies.give(tells_of, reply);
        }
    }
}

#[test]
fn answers_of_one_client_for_one_object_come_in_order() {
    let inbox = |conn| Arc::new(Inbox { conn, arrived: std::sync::Mutex::default() });
    let inboxes = [inbox(1), inbox(2)];
    let replies = Replies::new(&Arc::default(), &Arc::default());
    let (reads, to_read) = mpsc::channel();
    let submitted: Arc<AtomicU64> = Arc::default();
    let is_over = AtomicUsize::new(0);
    let executor = std::sync::Mutex::new(Executor {
        replies: Arc::clone(&replies),
        inboxes: inboxes.clone(),
        dice: Dice(1),
        submitted: Arc::clone(&submitted),
        reads,
    });
    thread::scope(|scope| {
        scope.spawn(|| commit(&replies, &submitted, &is_over));
        let executor_of_reads = &executor;
        scope.spawn(move || end_reads(to_read, executor_of_reads));
        for number in 1..=REQUESTS {
            executor.lock().expect("no test has panicked").execute(number);
        }
        let (closed, _) = mpsc::channel();
        executor.lock().expect("no test has panicked").reads = closed;
        is_over.store(1, Ordering::Release);
    });
    // The finisher's thread may still be sending.
    while replies.unsent.load(Ordering::Acquire) > 0 {
        thread::yield_now();
    }
    let mut count = 0;
    for inbox in &inboxes {
        let arrived = inbox.arrived.lock().expect("no test has panicked");
        count += arrived.len() as u64;
        for object in 0..u64::from(OBJECTS) {
            let of_object: Vec<u64> =
                arrived.iter().copied().filter(|tid| tid % u64::from(OBJECTS) == object).collect();
            let overtaken = of_object.windows(2).find(|pair| pair[0] > pair[1]);
            assert_eq!(overtaken, None, "an answer has overtaken an earlier one");
        }
    }
    assert_eq!(count, REQUESTS, "each request is answered once");
    let state = replies.state.lock();
    assert!(state.orders.is_empty() && state.waiting.is_empty() && state.leaving.is_empty());
}

#[test]
fn a_store_that_stops_leaves_nothing_behind() {
    let inbox = Arc::new(Inbox { conn: 1, arrived: std::sync::Mutex::default() });
    let replies = Replies::new(&Arc::default(), &Arc::default());
    let reply = |number, is_reserved| Reply {
        asker: Arc::clone(&inbox) as Arc<dyn Asker>,
        msg: Msg::new(&loligo_wire::message::osd::MOSDMap::default()).with_tid(Tid(number)),
        hold: Held::default(),
        track: None,
        place: Place { key: Key { conn: 1, hash: 0 }, number, is_reserved },
    };
    replies.give(version(1), reply(1, false));
    replies.reserve(Key { conn: 1, hash: 0 }, 2);
    replies.give(Eversion::default(), reply(3, false));
    replies.stopped(&StoreError::Stopped);
    // The read ends with an error that reports a change which will never be committed.
    replies.give(version(1), reply(2, true));
    assert_eq!(replies.unsent.load(Ordering::Acquire), 0);
    assert_eq!(*inbox.arrived.lock().expect("no test has panicked"), [0_u64; 0]);
    assert!(replies.state.lock().orders.is_empty());
}
