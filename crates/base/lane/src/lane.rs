//! The lane: a bounded queue that tells when it must be run.

use std::collections::VecDeque;
use std::fmt;
use std::mem;

use loligo_lockstat::Class;

use crate::chain::{Chain, Node};
use crate::inbox::Inbox;
use crate::room::Room;
use crate::sync::Lock;
use crate::{Action, Bound, PushError};

/// A bounded queue that says when it must be run. See the crate's documentation.
pub struct Lane<T> {
    pub(crate) inbox: Inbox<T>,
    room: Room,
    weigh: fn(&T) -> usize,
    pub(crate) taken: Lock<Taken<T>>,
}

/// What has left the inbox, and who runs the lane.
pub(crate) struct Taken<T> {
    /// Before everything in the inbox.
    pub(crate) chain: Chain<T>,
    /// Somebody has a [`Run`](crate::Run). Then the inbox is busy.
    pub(crate) running: bool,
    /// An empty buffer, kept so that a run in batches need not allocate one.
    pub(crate) spare: VecDeque<T>,
}

/// Items for which a lane keeps a buffer: enough for the usual batch, little for a thousand idle lanes.
pub(crate) const SPARE_ITEMS_MAX: usize = 256;

impl<T> Lane<T> {
    /// An idle lane for up to `items_max` items that weigh nothing. `class` is that of the lock which runs
    /// and removals take.
    pub fn new(class: &'static Class, items_max: usize) -> Self {
        Self::weighed(class, Bound { items: items_max, bytes: usize::MAX }, |_| 0)
    }

    /// An idle lane that counts the bytes of its items. `weigh` must be quick and say the same each time.
    pub fn weighed(class: &'static Class, bound: Bound, weigh: fn(&T) -> usize) -> Self {
        let taken = Taken { chain: Chain::new(), running: false, spare: VecDeque::new() };
        Self { inbox: Inbox::new(), room: Room::new(bound), weigh, taken: Lock::new(class, taken) }
    }

    /// Puts an item at the end. Takes no lock and never waits.
    ///
    /// # Errors
    /// Gives the item back if the lane is full or closed.
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

    /// Puts items back in front, in their order: what a run took and could not finish. Not refused at the
    /// bound, since the items had been admitted before.
    ///
    /// # Errors
    /// Gives the items back if the lane is closed.
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

    /// Asks for a run without an item: something else has come up that the runner looks after. Takes no lock.
    pub fn kick(&self) -> Action {
        self.inbox.kick()
    }

    /// Takes out the first item that matches, wherever it is in the queue; an item that a run has taken is
    /// out of reach.
    ///
    /// `matches` is called under the lane's lock: it may compare, not more.
    pub fn remove(&self, matches: impl FnMut(&T) -> bool) -> Option<T> {
        let mut taken = self.taken.lock();
        self.gather(&mut taken);
        let node = taken.chain.remove(matches)?;
        drop(taken);
        Some(self.released(node.item))
    }

    /// Takes out all items, in their order.
    pub fn drain(&self) -> VecDeque<T> {
        let mut taken = self.taken.lock();
        self.gather(&mut taken);
        let chain = mem::replace(&mut taken.chain, Chain::new());
        drop(taken);
        self.unpacked(chain)
    }

    /// Takes out all items and refuses every push from now on. A run that is under way goes on with what it
    /// has taken.
    pub fn close(&self) -> VecDeque<T> {
        let mut taken = self.taken.lock();
        let mut chain = mem::replace(&mut taken.chain, Chain::new());
        chain.append(self.inbox.close());
        drop(taken);
        self.unpacked(chain)
    }

    /// Items in the queue, at some moment during the call; among them those whose push is just under way.
    pub fn len(&self) -> usize {
        self.room.items()
    }

    /// Whether the queue was empty at some moment during the call.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes in the queue, at some moment during the call; 0 if the lane does not count them.
    pub fn bytes(&self) -> usize {
        self.room.bytes()
    }

    /// Moves what is in the inbox behind what was taken from it before.
    #[inline]
    pub(crate) fn gather(&self, taken: &mut Taken<T>) {
        taken.chain.append(self.inbox.take());
    }

    /// Counts an item that has been taken out.
    #[inline]
    pub(crate) fn released(&self, item: T) -> T {
        self.room.release(1, self.weight(&item));
        item
    }

    /// Moves the items of a chain that has been taken out to the end of a buffer.
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

    /// Puts the items in front, unless the lane is closed: then they come back, to be dropped without the
    /// lock.
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
