//! Explores every interleaving of a few threads that add blocks, use them and evict them. The account
//! equals the number of blocks and never exceeds its bound; no block in use is evicted; the queue has
//! exactly the blocks that may be evicted. This includes the case that a block's slot is reused for
//! another block between the look at the queue and the object's lock.
//!
//! Also explores every interleaving of a reader of two pages with writers that change both: it sees them as
//! they were at one time, or notices that it does not; with two writers, where threads are interrupted three
//! times at most.
//!
//! `evict.rs`, `account.rs` and `version.rs` are the crate's own. `object.rs` and `shelf.rs` are replaced by
//! short models of their use of them.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p loligo-cache --release --test loom`
#![cfg(loom)]

use std::collections::BTreeMap;

use loom::sync::Arc;
use loom::thread;

#[path = "../src/account.rs"]
#[allow(dead_code)]
mod account;
#[path = "../src/evict.rs"]
#[allow(dead_code)]
mod evict;
#[path = "../src/version.rs"]
mod version;

/// Loom's locks, under the names of the crate's.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    pub(crate) struct Class;

    impl Class {
        pub(crate) const fn new(_: &'static str) -> Self {
            Self
        }
    }

    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(_: &Class, value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().expect("no thread panics")
        }
    }
}

use account::Account;
use evict::{Candidate, Queues, Slot};
use sync::{AtomicU64, Class, Mutex, Ordering};
use version::Version;

static OBJECT: Class = Class::new("t.object");

/// The object's blocks, and the slots of those that may be evicted.
#[derive(Debug)]
struct Object(Mutex<BTreeMap<u32, Option<Slot>>>);

/// A cache with room for a number of blocks, and one object.
struct Model {
    used: Account,
    queues: Queues<Arc<Object>>,
    object: Arc<Object>,
}

fn hash(block: u32) -> u64 {
    u64::from(block).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Model {
    fn new(room: u64) -> Arc<Self> {
        let object = Arc::new(Object(Mutex::new(&OBJECT, BTreeMap::new())));
        Arc::new(Self { used: Account::new(room), queues: Queues::new(4), object })
    }

    /// Models `Shared::room`: returns `false` if no block can be evicted.
    fn room(&self) -> bool {
        while !self.used.claim(1) {
            let Some(next) = self.queues.candidate(false) else { return false };
            self.throw_out(&next);
        }
        true
    }

    /// Models `Object::throw_out`.
    fn throw_out(&self, Candidate { owner, block, slot, .. }: &Candidate<Arc<Object>>) {
        let mut blocks = owner.0.lock();
        if blocks.get(block) != Some(&Some(*slot)) {
            return;
        }
        let owner = self.queues.remove(hash(*block), *slot, true);
        assert!(owner.is_some(), "the place is the block's");
        blocks.remove(block);
        drop(blocks);
        self.used.give_back(1);
    }

    /// Adds a block, if there is room. The block is in use until [`Model::settle`].
    fn bring(&self, block: u32) -> bool {
        if !self.room() {
            return false;
        }
        let mut blocks = self.object.0.lock();
        let is_new = !blocks.contains_key(&block);
        if is_new {
            blocks.insert(block, None);
        }
        drop(blocks);
        if !is_new {
            self.used.give_back(1);
        }
        is_new
    }

    /// Puts a block in use. Returns `false` if it does not exist or is in use already.
    fn need(&self, block: u32) -> bool {
        let mut blocks = self.object.0.lock();
        let Some(slot) = blocks.get_mut(&block).and_then(Option::take) else { return false };
        assert!(self.queues.remove(hash(block), slot, false).is_some(), "the place is the block's");
        true
    }

    /// Ends the use of a block: it may be evicted from now on.
    fn settle(&self, block: u32) {
        let mut blocks = self.object.0.lock();
        let slot = blocks.get_mut(&block).expect("what is needed stays");
        assert!(slot.is_none(), "it is in the queue already");
        *slot = Some(self.queues.add(hash(block), Arc::clone(&self.object), block));
    }

    fn bring_and_settle(&self, block: u32) {
        if self.bring(block) {
            self.settle(block);
        }
    }

    /// Checks the state when no thread runs.
    fn check(&self) {
        let blocks = self.object.0.lock();
        assert_eq!(self.used.sum(), blocks.len() as u64);
        assert_eq!(self.queues.len(), blocks.len());
        assert!(blocks.values().all(Option::is_some));
        drop(blocks);
        // No cycle of references remains.
        while let Some(next) = self.queues.candidate(false) {
            self.throw_out(&next);
        }
        assert_eq!(self.used.sum(), 0);
    }
}

#[test]
fn two_that_bring_blocks_where_there_is_room_for_one() {
    loom::model(|| {
        let model = Model::new(1);
        let other = Arc::clone(&model);
        let thread = thread::spawn(move || other.bring_and_settle(1));
        model.bring_and_settle(0);
        thread.join().expect("it ends");
        model.check();
    });
}

/// Between the look at the queue and the object's lock the block is removed from the queue, and another
/// block gets its slot.
#[test]
fn a_place_that_has_another_block_meanwhile_is_left_alone() {
    loom::model(|| {
        let model = Model::new(2);
        model.bring_and_settle(0);
        let other = Arc::clone(&model);
        let thread = thread::spawn(move || {
            let Some(next) = other.queues.candidate(false) else { return };
            other.throw_out(&next);
        });
        if model.need(0) {
            // The new block gets the first free slot: that of block 0.
            model.bring_and_settle(1);
            model.settle(0);
        }
        thread.join().expect("it ends");
        model.check();
    });
}

#[test]
fn what_is_needed_is_not_thrown_out() {
    loom::model(|| {
        let model = Model::new(1);
        model.bring_and_settle(0);
        let other = Arc::clone(&model);
        let thread = thread::spawn(move || other.bring_and_settle(1));
        if model.need(0) {
            assert!(model.object.0.lock().contains_key(&0));
            model.settle(0);
        }
        thread.join().expect("it ends");
        model.check();
    });
}

/// Two pages of an object, each of which is a number. They are published with Release and loaded with
/// Acquire: `arc-swap` orders no less.
struct Pages {
    object: Mutex<()>,
    version: Version,
    pages: [AtomicU64; 2],
}

impl Pages {
    fn new() -> Arc<Self> {
        let pages = [AtomicU64::new(0), AtomicU64::new(0)];
        Arc::new(Self { object: Mutex::new(&OBJECT, ()), version: Version::new(), pages })
    }

    /// Models a write to both.
    fn write(&self, number: u64) {
        let _held = self.object.lock();
        self.version.change(|| self.pages.iter().for_each(|page| page.store(number, Ordering::Release)));
    }

    /// Models `Shelf::pages`, with one try.
    fn read(&self) -> Option<[u64; 2]> {
        self.version.read(|| [0, 1].map(|n| self.pages[n].load(Ordering::Acquire)))
    }
}

#[test]
fn two_pages_are_seen_as_they_were_at_one_time() {
    loom::model(|| {
        let pages = Pages::new();
        let other = Arc::clone(&pages);
        let writer = thread::spawn(move || (1..=2).for_each(|number| other.write(number)));
        if let Some([one, other]) = pages.read() {
            assert_eq!(one, other);
        }
        writer.join().expect("it ends");
        assert_eq!(pages.read(), Some([2, 2]), "what has ended is seen");
    });
}

#[test]
fn two_pages_of_two_writers_are_seen_as_they_were_at_one_time() {
    let mut bounded = loom::model::Builder::new();
    bounded.preemption_bound = Some(3);
    bounded.check(|| {
        let pages = Pages::new();
        let writers = [1, 2].map(|number| {
            let pages = Arc::clone(&pages);
            thread::spawn(move || pages.write(number))
        });
        if let Some([one, other]) = pages.read() {
            assert_eq!(one, other);
        }
        writers.into_iter().for_each(|writer| writer.join().expect("it ends"));
        assert!(pages.read().is_some_and(|[one, other]| one == other && one > 0));
    });
}
