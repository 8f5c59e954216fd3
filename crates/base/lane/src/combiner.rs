//! A lock whose contenders leave their work to its owner.

use std::mem;
use std::ops::{ControlFlow, Deref, DerefMut};

use loligo_lockstat::Class;

use crate::Bound;
use crate::chain::{Chain, Node};
use crate::inbox::Inbox;
use crate::room::Room;
use crate::sync::{LeafGuard, LeafLock};

/// A lock that nobody need wait for: whoever finds it taken leaves what he wanted done, and whoever has it
/// does that.
///
/// ```text
/// try_lock ──▶ Some: serve what was left before, do one's own, release ──▶ false: done
///     │                                                              └──▶ true: call ──▶ Some: serve, release, as before
///     └──────▶ None: leave one's own ──▶ Ok(Some): serve, release, as before         └─▶ None: done, as below
///                                  ├───▶ Ok(None): done, whoever has the lock will come upon it
///                                  └───▶ Err (shut, or no room): lock, which waits
/// ```
///
/// So nothing is left behind by those who, after a [`release`](Combined::release) that says true, see to it
/// that somebody [calls](Combiner::call). What one thread does comes in the order in which it does it, if it
/// does nothing itself while something is left from before ([`Combined::serve`] says).
///
/// # Why nothing is lost
/// He who leaves adds his item and then, in one step, takes the lock or marks it as called. All that is done
/// to the lock's word are read-modify-writes, which come one after another: the mark is seen by the release
/// of him who had the lock then, and with it the item. If by then somebody else has the lock he calls that
/// one in turn. So a release costs no more than that of a lock: who finds no mark knows that there is nothing
/// to look for.
pub struct Combiner<S, T> {
    inbox: Inbox<T>,
    room: Room,
    weigh: fn(&T) -> usize,
    lock: LeafLock<Shared<S, T>>,
}

struct Shared<S, T> {
    state: S,
    /// Left before what is in the inbox.
    taken: Chain<T>,
    /// What remains of what was done, to be freed after the release.
    done: Chain<T>,
}

/// The lock of a [`Combiner`]. To be given back by [`release`](Self::release); dropped, it says nothing of
/// what was left.
pub struct Combined<'a, S, T> {
    shared: LeafGuard<'a, Shared<S, T>>,
    combiner: &'a Combiner<S, T>,
}

/// Things that were left and not done, to be dropped where that may take time.
pub struct Discarded<T> {
    _chain: Chain<T>,
}

impl<S, T> Combiner<S, T> {
    /// A free lock around `state`, with which nothing can be left until it is [opened](Combined::open).
    /// `bound` is for what is left and not done yet; `weigh` must be quick and say the same each time.
    pub fn new(class: &'static Class, bound: Bound, weigh: fn(&T) -> usize, state: S) -> Self {
        let inbox = Inbox::new();
        drop(inbox.close());
        let lock = LeafLock::new(class, Shared { state, taken: Chain::new(), done: Chain::new() });
        Self { inbox, room: Room::new(bound), weigh, lock }
    }

    /// The lock, if it is free.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> Option<Combined<'_, S, T>> {
        Some(self.guard(self.lock.try_lock()?))
    }

    /// The lock, if it is free; else whoever has it will know that something was left.
    #[track_caller]
    pub fn call(&self) -> Option<Combined<'_, S, T>> {
        Some(self.guard(self.lock.try_lock_or_call()?))
    }

    /// The lock. Waits for it.
    #[track_caller]
    pub fn lock(&self) -> Combined<'_, S, T> {
        self.guard(self.lock.lock())
    }

    /// Leaves something for whoever has the lock. If it is free by now, that is the caller.
    ///
    /// # Errors
    /// Gives it back if the inbox is shut or has no room for it.
    #[track_caller]
    pub fn leave(&self, item: T) -> Result<Option<Combined<'_, S, T>>, T> {
        let bytes = (self.weigh)(&item);
        if !self.room.admit(bytes) {
            return Err(item);
        }
        // The inbox's own bit is of no use here: the lock says whether somebody is concerned.
        match self.inbox.push(Node::new(item)) {
            Ok(_) => Ok(self.call()),
            Err(node) => {
                self.room.release(1, bytes);
                Err(node.item)
            }
        }
    }

    /// Things left and not done, at some moment during the call.
    pub fn left(&self) -> usize {
        self.room.items()
    }

    #[inline]
    fn guard<'a>(&'a self, shared: LeafGuard<'a, Shared<S, T>>) -> Combined<'a, S, T> {
        Combined { shared, combiner: self }
    }
}

impl<S, T> Combined<'_, S, T> {
    /// Does what was left, in order, at most `items_max` things: `f` is given the state and one after
    /// another, and breaks if it cannot do that one now. What is then left of them is freed after the lock's
    /// release.
    ///
    /// Turning the inbox round takes a step for each thing in it, at most the bound's number. Returns whether
    /// all has been done that was there when this was called.
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

    /// Whether nothing is left.
    #[inline]
    pub fn is_clear(&self) -> bool {
        self.shared.taken.is_empty() && !self.combiner.inbox.has_nodes()
    }

    /// Whether things can be left.
    #[inline]
    pub fn is_open(&self) -> bool {
        !self.combiner.inbox.is_closed()
    }

    /// From now on things can be left.
    pub fn open(&mut self) {
        self.combiner.inbox.reopen();
    }

    /// From now on nothing can be left, and everybody waits for the lock. What was left before remains to be
    /// done.
    pub fn shut(&mut self) {
        let last = self.combiner.inbox.close();
        self.shared.taken.append(last);
    }

    /// Takes out what was left without doing it.
    #[must_use = "is to be dropped after the lock's release"]
    pub fn discard(&mut self) -> Discarded<T> {
        let mut chain = mem::replace(&mut self.shared.taken, Chain::new());
        chain.append(self.combiner.inbox.take());
        let bytes = chain.iter().map(self.combiner.weigh).sum();
        self.combiner.room.release(chain.len(), bytes);
        Discarded { _chain: chain }
    }

    /// Releases the lock. Whether something is left: then the caller sees to it that somebody
    /// [calls](Combiner::call).
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
