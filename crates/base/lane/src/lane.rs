//! The lane: a bounded queue that tells its producers when it must be run.

use std::collections::VecDeque;
use std::fmt;
use std::mem;

use loligo_lockstat::Class;

use crate::chain::{Chain, Node};
use crate::inbox::Inbox;
use crate::room::Room;
use crate::sync::Lock;
use crate::{Action, Bound, PushError};

/// A bounded queue that tells its producers when it must be run. See the crate's documentation.
pub struct Lane<T> {
    pub(crate) inbox: Inbox<T>,
    room: Room,
    weigh: fn(&T) -> usize,
    pub(crate) taken: Lock<Taken<T>>,
}

/// The items that have left the inbox, and whether a run is under way. Guarded by the lane's lock.
pub(crate) struct Taken<T> {
    /// Items older than everything in the inbox, in order.
    pub(crate) chain: Chain<T>,
    /// A [`Run`](crate::Run) exists. The inbox is then not idle.
    pub(crate) running: bool,
    /// An empty buffer, kept so that a run in batches does not allocate one.
    pub(crate) spare: VecDeque<T>,
}

/// The largest buffer, in items, that a lane keeps: enough for the usual batch, little for a thousand
/// idle lanes.
pub(crate) const SPARE_ITEMS_MAX: usize = 256;

impl<T> Lane<T> {
    /// Creates an idle lane for up to `items_max` items that weigh nothing. `class` is the class of the
    /// lock that runs and removals take.
    pub fn new(class: &'static Class, items_max: usize) -> Self {
        Self::weighed(class, Bound { items: items_max, bytes: usize::MAX }, |_| 0)
    }

    /// Creates an idle lane that counts the bytes of its items. `weigh` must be fast and return the same
    /// value for the same item each time.
    pub fn weighed(class: &'static Class, bound: Bound, weigh: fn(&T) -> usize) -> Self {
        let taken = Taken { chain: Chain::new(), running: false, spare: VecDeque::new() };
        Self { inbox: Inbox::new(), room: Room::new(bound), weigh, taken: Lock::new(class, taken) }
    }

    /// Appends an item. Takes no lock and never waits.
    ///
    /// # Errors
    /// Returns the item if the lane is full or closed.
    #[inline]
    pub fn push(&self, item: T) -> Result<Action, PushError<T>> {
        let bytes = self.weight(&item);
        if !self.room.admit(bytes) {
            return Err(if self.inbox.is_closed() { PushError::Closed(item) } else { PushError::Full(item) });
        }
        self.inbox.push(Node::new(item)).map_err(|node| {
            self.room.release(1, bytes);
            PushError::Closed(node.item)
        })
    }

    /// Puts items that a run took and could not finish back in front, in their order. The bound does not
    /// apply, since the items were admitted before.
    ///
    /// # Errors
    /// Returns the items if the lane is closed.
    pub fn requeue(&self, items: VecDeque<T>) -> Result<Action, PushError<VecDeque<T>>> {
        let bytes = items.iter().map(|item| self.weight(item)).sum();
        let chain: Chain<T> = items.into_iter().collect();
        let mut taken = self.taken.lock();
        let refused = self.put_in_front(&mut taken, chain, bytes);
        let closed = self.inbox.is_closed();
        drop(taken);
        if closed {
            let mut items = VecDeque::new();
            refused.unpack(&mut items);
            return Err(PushError::Closed(items));
        }
        Ok(self.inbox.kick())
    }

    /// Requests a run without adding an item: the runner has other work to do. Takes no lock.
    pub fn kick(&self) -> Action {
        self.inbox.kick()
    }

    /// Removes the first item that matches, wherever it is in the queue. Items that a run has taken out
    /// are not found.
    ///
    /// `matches` is called under the lane's lock: it must do no more than compare.
    pub fn remove(&self, matches: impl FnMut(&T) -> bool) -> Option<T> {
        let mut taken = self.taken.lock();
        self.gather(&mut taken);
        let node = taken.chain.remove(matches)?;
        drop(taken);
        Some(self.released(node.item))
    }

    /// Removes and returns all items, in their order.
    pub fn drain(&self) -> VecDeque<T> {
        let mut taken = self.taken.lock();
        self.gather(&mut taken);
        let chain = mem::replace(&mut taken.chain, Chain::new());
        drop(taken);
        self.unpacked(chain)
    }

    /// Removes and returns all items, and refuses every push from now on. A run in progress continues
    /// with the items it has taken out.
    pub fn close(&self) -> VecDeque<T> {
        let mut taken = self.taken.lock();
        let mut chain = mem::replace(&mut taken.chain, Chain::new());
        chain.append(self.inbox.close());
        drop(taken);
        self.unpacked(chain)
    }

    /// The number of queued items at some moment during the call, including items whose push is in
    /// progress.
    pub fn len(&self) -> usize {
        self.room.items()
    }

    /// Whether the queue was empty at some moment during the call.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The queued bytes at some moment during the call; 0 if the lane does not count bytes.
    pub fn bytes(&self) -> usize {
        self.room.bytes()
    }

    /// Moves the inbox's items behind those that were taken from it before.
    #[inline]
    pub(crate) fn gather(&self, taken: &mut Taken<T>) {
        taken.chain.append(self.inbox.take());
    }

    /// Uncounts an item that has been taken out, and returns it.
    #[inline]
    pub(crate) fn released(&self, item: T) -> T {
        self.room.release(1, self.weight(&item));
        item
    }

    /// Moves the items of a chain that has been taken out to the end of a buffer, and uncounts them.
    pub(crate) fn unpack(&self, chain: Chain<T>, buffer: &mut VecDeque<T>) {
        let (items, before) = (chain.len(), buffer.len());
        if items == 0 {
            return;
        }
        chain.unpack(buffer);
        let bytes = buffer.range(before..).map(|item| self.weight(item)).sum();
        self.room.release(items, bytes);
    }

    fn unpacked(&self, chain: Chain<T>) -> VecDeque<T> {
        let mut items = VecDeque::new();
        self.unpack(chain, &mut items);
        items
    }

    /// Puts the items in front. If the lane is closed, returns them, so that the caller drops them
    /// without the lock.
    pub(crate) fn put_in_front(&self, taken: &mut Taken<T>, mut chain: Chain<T>, bytes: usize) -> Chain<T> {
        if self.inbox.is_closed() {
            return chain;
        }
        self.room.readmit(chain.len(), bytes);
        chain.append(mem::replace(&mut taken.chain, Chain::new()));
        mem::replace(&mut taken.chain, chain)
    }

    #[inline]
    pub(crate) fn weight(&self, item: &T) -> usize {
        if self.room.is_weighed() { (self.weigh)(item) } else { 0 }
    }
}

impl<T> fmt::Debug for Lane<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("items", &self.len())
            .field("bytes", &self.bytes())
            .field("bound", &self.room.bound())
            .field("idle", &self.inbox.is_idle())
            .field("closed", &self.inbox.is_closed())
            .finish()
    }
}
