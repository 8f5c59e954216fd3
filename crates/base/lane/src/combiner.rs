//! A combining lock: contenders leave their work to the lock's owner.

use std::mem;
use std::ops::{ControlFlow, Deref, DerefMut};

use loligo_lockstat::Class;

use crate::Bound;
use crate::chain::{Chain, Node};
use crate::inbox::Inbox;
use crate::room::Room;
use crate::sync::{LeafGuard, LeafLock};

/// A lock for which no thread needs to wait: a thread that finds it held leaves an item, and the lock's
/// owner processes it.
///
/// ```text
/// try_lock ──▶ Some: serve what was left before, do one's own, release ──▶ false: done
///     │                                                              └──▶ true: call ──▶ Some: serve, release, as before
///     └──────▶ None: leave one's own ──▶ Ok(Some): serve, release, as before         └─▶ None: done, as below
///                                  ├───▶ Ok(None): done, whoever has the lock will come upon it
///                                  └───▶ Err (shut, or no room): lock, which waits
/// ```
///
/// Nothing is left behind if, after each [`release`](Combined::release) that returns true, some thread
/// [calls](Combiner::call). The items of one thread are processed in its order, provided that it does
/// none of its own work while earlier items are left (see [`Combined::serve`]).
///
/// # Why nothing is lost
/// A contender adds its item and then, in one step, takes the lock or marks it as called. All changes of
/// the lock's word are read-modify-write operations, which have one total order: the owner's release
/// sees the mark, and with it the item. If another thread has taken the lock by the time the old owner
/// calls, the call marks the lock for that thread in turn. A release therefore costs no more than that
/// of a plain lock: if it finds no mark, there is nothing to look for.
pub struct Combiner<S, T> {
    inbox: Inbox<T>,
    room: Room,
    weigh: fn(&T) -> usize,
    lock: LeafLock<Shared<S, T>>,
}

struct Shared<S, T> {
    state: S,
    /// Items left before those in the inbox.
    taken: Chain<T>,
    /// Processed items, to be freed after the release.
    done: Chain<T>,
}

/// The held lock of a [`Combiner`]. To be released with [`release`](Self::release): dropping it does not
/// report whether items are left.
pub struct Combined<'a, S, T> {
    shared: LeafGuard<'a, Shared<S, T>>,
    combiner: &'a Combiner<S, T>,
}

/// Items that were left and not processed, to be dropped at a point where that may take time.
pub struct Discarded<T> {
    _chain: Chain<T>,
}

impl<S, T> Combiner<S, T> {
    /// Creates a free lock around `state`. No item can be left until the combiner is
    /// [opened](Combined::open). `bound` applies to the items left and not processed yet; `weigh` must
    /// be fast and return the same value for the same item each time.
    pub fn new(class: &'static Class, bound: Bound, weigh: fn(&T) -> usize, state: S) -> Self {
        let inbox = Inbox::new();
        drop(inbox.close());
        let lock = LeafLock::new(class, Shared { state, taken: Chain::new(), done: Chain::new() });
        Self { inbox, room: Room::new(bound), weigh, lock }
    }

    /// Takes the lock if it is free.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> Option<Combined<'_, S, T>> {
        Some(self.guard(self.lock.try_lock()?))
    }

    /// Takes the lock if it is free; otherwise marks it as called, so that the owner's release looks for
    /// items left.
    #[track_caller]
    pub fn call(&self) -> Option<Combined<'_, S, T>> {
        Some(self.guard(self.lock.try_lock_or_call()?))
    }

    /// Takes the lock, and waits for it if it is held.
    #[track_caller]
    pub fn lock(&self) -> Combined<'_, S, T> {
        self.guard(self.lock.lock())
    }

    /// Leaves an item for the lock's owner. If the lock is free by now, returns it: the caller is the
    /// owner.
    ///
    /// # Errors
    /// Returns the item if the inbox is shut or has no room for it.
    #[track_caller]
    pub fn leave(&self, item: T) -> Result<Option<Combined<'_, S, T>>, T> {
        let bytes = (self.weigh)(&item);
        if !self.room.admit(bytes) {
            return Err(item);
        }
        // The inbox's `BUSY` bit is not used here: the lock's word tells whether a thread is
        // responsible.
        match self.inbox.push(Node::new(item)) {
            Ok(_) => Ok(self.call()),
            Err(node) => {
                self.room.release(1, bytes);
                Err(node.item)
            }
        }
    }

    /// The number of items left and not processed, at some moment during the call.
    pub fn left(&self) -> usize {
        self.room.items()
    }

    #[inline]
    fn guard<'a>(&'a self, shared: LeafGuard<'a, Shared<S, T>>) -> Combined<'a, S, T> {
        Combined { shared, combiner: self }
    }
}

impl<S, T> Combined<'_, S, T> {
    /// Processes the items left, in order, at most `items_max` of them: calls `f` with the state and
    /// each item. `f` breaks if it cannot process that item now. Processed items are freed after the
    /// lock's release.
    ///
    /// Reversing the inbox takes a step for each item in it, at most the bound's number. Returns whether
    /// all items that were left before this call have been processed.
    #[inline]
    pub fn serve(&mut self, items_max: usize, f: impl FnMut(&mut S, &mut T) -> ControlFlow<()>) -> bool {
        self.is_clear() || self.serve_some(items_max, f)
    }

    #[cold]
    fn serve_some(&mut self, items_max: usize, mut f: impl FnMut(&mut S, &mut T) -> ControlFlow<()>) -> bool {
        let combiner = self.combiner;
        let Shared { state, taken, done } = &mut *self.shared;
        taken.append(combiner.inbox.take());
        let (mut items, mut bytes) = (0, 0);
        while items < items_max
            && let Some(item) = taken.first_mut()
        {
            let weight = (combiner.weigh)(item);
            if f(state, item).is_break() {
                break;
            }
            items += 1;
            bytes += weight;
            done.append(taken.split_front(1));
        }
        combiner.room.release(items, bytes);
        taken.is_empty()
    }

    /// Whether no items are left.
    #[inline]
    pub fn is_clear(&self) -> bool {
        self.shared.taken.is_empty() && !self.combiner.inbox.has_nodes()
    }

    /// Whether items can be left.
    #[inline]
    pub fn is_open(&self) -> bool {
        !self.combiner.inbox.is_closed()
    }

    /// Allows items to be left from now on.
    pub fn open(&mut self) {
        self.combiner.inbox.reopen();
    }

    /// Refuses items from now on, so that contenders wait for the lock. Items left before remain to be
    /// processed.
    pub fn shut(&mut self) {
        let last = self.combiner.inbox.close();
        self.shared.taken.append(last);
    }

    /// Removes the items left without processing them.
    #[must_use = "is to be dropped after the lock's release"]
    pub fn discard(&mut self) -> Discarded<T> {
        let mut chain = mem::replace(&mut self.shared.taken, Chain::new());
        chain.append(self.combiner.inbox.take());
        let bytes = chain.iter().map(self.combiner.weigh).sum();
        self.combiner.room.release(chain.len(), bytes);
        Discarded { _chain: chain }
    }

    /// Releases the lock. Returns true if items may be left: then the caller must see to it that some
    /// thread [calls](Combiner::call).
    #[inline]
    #[must_use = "what is left is to be done by somebody"]
    pub fn release(self) -> bool {
        let Self { shared, combiner } = self;
        if shared.taken.is_empty() && shared.done.is_empty() {
            return LeafLock::release(shared) && combiner.inbox.has_nodes();
        }
        Self { shared, combiner }.release_and_free()
    }

    #[cold]
    fn release_and_free(mut self) -> bool {
        let is_left = !self.shared.taken.is_empty();
        let done = mem::replace(&mut self.shared.done, Chain::new());
        let is_called = LeafLock::release(self.shared);
        drop(done);
        is_left || is_called && self.combiner.inbox.has_nodes()
    }
}

impl<S, T> Deref for Combined<'_, S, T> {
    type Target = S;

    #[inline]
    fn deref(&self) -> &S {
        &self.shared.state
    }
}

impl<S, T> DerefMut for Combined<'_, S, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut S {
        &mut self.shared.state
    }
}
