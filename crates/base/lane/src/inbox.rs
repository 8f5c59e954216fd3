//! The inbox: the part of a lane that producers push to.

use std::ptr;

use crate::chain::{Chain, Node};
use crate::sync::{AcqRel, Acquire, AtomicPtr, Relaxed};

/// The duty of a producer after a push.
#[must_use = "a lane that is not run when it says Submit stands still"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Run the lane, or submit it to a worker: no worker is responsible for it yet.
    Submit,
    /// Nothing: a worker runs the lane or has been asked to, and will find the item.
    Nothing,
}

/// A lock-free stack of one word, to which producers push items.
///
/// | `head` | the inbox is | a worker runs the lane, or has been asked to |
/// |---|---|---|
/// | 0 | empty | no |
/// | `BUSY` | empty | yes |
/// | `CLOSED` | empty forever | no |
/// | `CLOSED + BUSY` | empty forever | yes |
/// | the newest node's address | not empty; older nodes follow by `next`, the oldest's is null | yes |
///
/// `push` and `kick` may be called by any thread at any time. All other methods are called by one thread
/// at a time, under the lane's lock (or a [`Combiner`](crate::Combiner)'s, which does not use `BUSY`).
/// Between two loads by that thread, therefore, only `push` and `kick` change the word: an address
/// changes only to another address, and `BUSY` never changes to 0.
pub(crate) struct Inbox<T> {
    head: AtomicPtr<Node<T>>,
}

const IDLE: usize = 0;
const BUSY: usize = 1;
const CLOSED: usize = 2;

// SAFETY: the inbox hands items from one thread to another, and never gives out references to them.
unsafe impl<T: Send> Send for Inbox<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Inbox<T> {}

impl<T> Inbox<T> {
    pub(crate) fn new() -> Self {
        Self { head: AtomicPtr::new(state(IDLE)) }
    }

    /// Adds a node. Returns it if the inbox is closed.
    #[inline]
    pub(crate) fn push(&self, mut node: Box<Node<T>>) -> Result<Action, Box<Node<T>>> {
        let mut head = self.head.load(Relaxed);
        loop {
            if is_closed(head) {
                return Err(node);
            }
            node.next = if is_node(head) { head } else { ptr::null_mut() };
            let new = Box::into_raw(node);
            // Release: the thread that takes the node sees its contents.
            match self.head.compare_exchange_weak(head, new, AcqRel, Relaxed) {
                Ok(_) => return Ok(action(head)),
                Err(now) => head = now,
            }
            // SAFETY: from `into_raw` just above, and not published.
            node = unsafe { Box::from_raw(new) };
        }
    }

    /// Makes the lane busy. Returns Submit if it was idle.
    pub(crate) fn kick(&self) -> Action {
        let mut head = self.head.load(Relaxed);
        while is_idle(head) {
            let busy = state(head.addr() | BUSY);
            match self.head.compare_exchange_weak(head, busy, AcqRel, Relaxed) {
                Ok(_) => return Action::Submit,
                Err(now) => head = now,
            }
        }
        Action::Nothing
    }

    /// Takes all nodes. Called under the lane's lock.
    pub(crate) fn take(&self) -> Chain<T> {
        if !is_node(self.head.load(Relaxed)) {
            return Chain::new();
        }
        // The address can only have changed to another node's.
        let newest = self.head.swap(state(BUSY), Acquire);
        // SAFETY: the swap has made the nodes ours; each one comes from `into_raw` in `push`.
        unsafe { Chain::from_newest(newest) }
    }

    /// Makes the lane idle. Returns false, with no effect, if there are nodes. Called under the lane's
    /// lock by the worker that runs the lane.
    pub(crate) fn rest(&self) -> bool {
        let head = self.head.load(Relaxed);
        if is_node(head) {
            return false;
        }
        let idle = state(head.addr() & !BUSY);
        self.head.compare_exchange(head, idle, AcqRel, Relaxed).is_ok()
    }

    /// Takes all nodes and refuses new ones. Called under the lane's lock.
    pub(crate) fn close(&self) -> Chain<T> {
        let mut head = self.head.load(Relaxed);
        loop {
            let busy = if is_idle(head) { IDLE } else { BUSY };
            match self.head.compare_exchange_weak(head, state(CLOSED | busy), AcqRel, Relaxed) {
                Ok(_) if is_node(head) => {
                    // SAFETY: as in `take`.
                    return unsafe { Chain::from_newest(head) };
                }
                Ok(_) => return Chain::new(),
                Err(now) => head = now,
            }
        }
    }

    /// Accepts nodes again after a close. Called under the lane's lock.
    pub(crate) fn reopen(&self) {
        let head = self.head.load(Relaxed);
        if is_closed(head) {
            // While the inbox is closed, the word is changed only by the lock's owner and by `kick`,
            // which sets a bit that is set here too.
            self.head.store(state(BUSY), Relaxed);
        }
    }

    pub(crate) fn has_nodes(&self) -> bool {
        is_node(self.head.load(Relaxed))
    }

    pub(crate) fn is_idle(&self) -> bool {
        is_idle(self.head.load(Relaxed))
    }

    pub(crate) fn is_closed(&self) -> bool {
        is_closed(self.head.load(Relaxed))
    }
}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        self.take();
    }
}

fn state<T>(bits: usize) -> *mut Node<T> {
    const { assert!(align_of::<Node<T>>() > (BUSY | CLOSED), "no node's address is a state") };
    ptr::without_provenance_mut(bits)
}

fn is_node<T>(head: *mut Node<T>) -> bool {
    head.addr() > (BUSY | CLOSED)
}

fn is_idle<T>(head: *mut Node<T>) -> bool {
    !is_node(head) && head.addr() & BUSY == 0
}

fn is_closed<T>(head: *mut Node<T>) -> bool {
    !is_node(head) && head.addr() & CLOSED != 0
}

/// The action for a push or kick that replaced `head`.
fn action<T>(head: *mut Node<T>) -> Action {
    if is_idle(head) { Action::Submit } else { Action::Nothing }
}
