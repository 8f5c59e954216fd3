use std::collections::VecDeque;
use std::fmt;

use loligo_lockstat::Class;

use crate::PushError;
use crate::sync::Lock;

/// A bounded queue that says when it must be run. See the crate's documentation.
pub struct Lane<T> {
    queue: Lock<Queue<T>>,
    bound: Bound,
    weigh: fn(&T) -> usize,
}

/// How much a lane may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Items.
    pub items: usize,
    /// Bytes, as the lane's weighing function counts them. An item that is heavier by itself is let into an empty
    /// lane, as it could never be sent otherwise.
    pub bytes: usize,
}

/// What a producer has to do after a push.
#[must_use = "a lane that is not run when it says Submit stands still"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Run the lane, or have it run: nobody else has been asked to.
    Submit,
    /// Nothing: somebody runs the lane or has been asked to, and will come upon the item.
    Nothing,
}

/// Who is concerned with the lane; the table in the crate's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Idle,
    Due,
    Running,
}

pub(crate) struct Queue<T> {
    pub(crate) items: VecDeque<T>,
    /// The weight of `items`.
    bytes: usize,
    pub(crate) phase: Phase,
    closed: bool,
    /// An empty buffer, kept so that taking all items away need not allocate.
    spare: VecDeque<T>,
}

/// Items for which a lane keeps memory when it is empty: enough for the usual batch, little for a thousand idle
/// lanes.
const SPARE_ITEMS_MAX: usize = 256;
/// Items for which a lane first gets memory.
const FIRST_ITEMS: usize = 8;

impl<T> Lane<T> {
    /// An idle lane for up to `items_max` items that weigh nothing.
    pub fn new(class: &'static Class, items_max: usize) -> Self {
        Self::weighed(class, Bound { items: items_max, bytes: usize::MAX }, |_| 0)
    }

    /// An idle lane that counts the bytes of its items. `weigh` must be quick and say the same each time.
    pub fn weighed(class: &'static Class, bound: Bound, weigh: fn(&T) -> usize) -> Self {
        assert!(bound.items > 0 && bound.bytes > 0, "a lane without room: {bound:?}");
        let queue = Queue {
            items: VecDeque::new(),
            bytes: 0,
            phase: Phase::Idle,
            closed: false,
            spare: VecDeque::new(),
        };
        Self { queue: Lock::new(class, queue), bound, weigh }
    }

    /// Puts an item at the end.
    ///
    /// # Errors
    /// Gives the item back if the lane is full or closed.
    #[inline]
    pub fn push(&self, item: T) -> Result<Action, PushError<T>> {
        let weight = (self.weigh)(&item);
        let mut queue = self.queue.lock();
        if queue.items.len() == queue.items.capacity() {
            drop(queue);
            return self.push_growing(item, weight);
        }
        self.admit(&mut queue, item, weight)
    }

    /// Puts items back in front, in their order: what a run took and could not finish. Not refused at the bound,
    /// since the items had been admitted before; a closed lane gives them back.
    ///
    /// # Errors
    /// Gives the items back if the lane is closed.
    pub fn requeue(&self, mut items: VecDeque<T>) -> Result<Action, PushError<VecDeque<T>>> {
        match self.put_in_front(&mut items, Queue::request) {
            Some(action) => Ok(action),
            None => Err(PushError::Closed(items)),
        }
    }

    /// Asks for a run without an item: something else has come up that the runner looks after.
    pub fn kick(&self) -> Action {
        self.queue.lock().request()
    }

    /// Takes out the first item that matches, wherever it is in the queue; an item that a run has taken is out of
    /// reach.
    ///
    /// `matches` is called under the lane's lock: it may compare, not more.
    pub fn remove(&self, mut matches: impl FnMut(&T) -> bool) -> Option<T> {
        let mut queue = self.queue.lock();
        let index = queue.items.iter().position(&mut matches)?;
        let item = queue.items.remove(index)?;
        queue.bytes -= (self.weigh)(&item);
        Some(item)
    }

    /// Takes out all items, in their order.
    pub fn drain(&self) -> VecDeque<T> {
        self.queue.lock().take_all()
    }

    /// Takes out all items and refuses every push from now on. A run that is under way goes on with what it has
    /// taken.
    pub fn close(&self) -> VecDeque<T> {
        let mut queue = self.queue.lock();
        queue.closed = true;
        queue.take_all()
    }

    /// Items in the queue, at some moment during the call.
    pub fn len(&self) -> usize {
        self.queue.lock().items.len()
    }

    /// Whether the queue was empty at some moment during the call.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes in the queue, at some moment during the call; 0 if the lane does not weigh.
    pub fn bytes(&self) -> usize {
        self.queue.lock().bytes
    }

    pub(crate) fn queue(&self) -> &Lock<Queue<T>> {
        &self.queue
    }

    pub(crate) fn weight(&self, items: &VecDeque<T>) -> usize {
        items.iter().map(self.weigh).sum()
    }

    /// Puts items before those in the queue, and takes a further step under the same lock. None if the lane is
    /// closed: then the items stay where they were. Else `items` is left with a buffer for the caller to free.
    pub(crate) fn put_in_front<R>(
        &self,
        items: &mut VecDeque<T>,
        then: impl FnOnce(&mut Queue<T>) -> R,
    ) -> Option<R> {
        let weight = self.weight(items);
        loop {
            let mut queue = self.queue.lock();
            if queue.closed {
                return None;
            }
            let behind = queue.items.len();
            if items.capacity() - items.len() < behind {
                drop(queue);
                items.reserve(behind);
                continue;
            }
            queue.bytes += weight;
            items.append(&mut queue.items);
            std::mem::swap(items, &mut queue.items);
            return Some(then(&mut queue));
        }
    }

    /// The first item, if there is one.
    #[inline]
    pub(crate) fn pop(&self, queue: &mut Queue<T>) -> Option<T> {
        let item = queue.items.pop_front()?;
        queue.bytes -= (self.weigh)(&item);
        Some(item)
    }

    #[inline]
    fn admit(&self, queue: &mut Queue<T>, item: T, weight: usize) -> Result<Action, PushError<T>> {
        if queue.closed {
            return Err(PushError::Closed(item));
        }
        let too_heavy = queue.bytes.saturating_add(weight) > self.bound.bytes && !queue.items.is_empty();
        if too_heavy || queue.items.len() >= self.bound.items {
            return Err(PushError::Full(item));
        }
        queue.bytes += weight;
        queue.items.push_back(item);
        Ok(queue.request())
    }

    /// The push that finds no room in the buffer: gets a larger one, without the lock, and moves over.
    #[cold]
    fn push_growing(&self, item: T, weight: usize) -> Result<Action, PushError<T>> {
        let mut larger = VecDeque::new();
        loop {
            let mut queue = self.queue.lock();
            let wanted = (queue.items.len() * 2).max(FIRST_ITEMS);
            let is_roomy = queue.items.len() < queue.items.capacity();
            // A full lane refuses the item whatever the buffer's size.
            if !is_roomy && queue.items.len() < self.bound.items {
                if larger.capacity() < wanted {
                    drop(queue);
                    larger = VecDeque::with_capacity(wanted);
                    continue;
                }
                larger.append(&mut queue.items);
                std::mem::swap(&mut larger, &mut queue.items);
            }
            let pushed = self.admit(&mut queue, item, weight);
            // The former buffer is freed without the lock.
            drop(queue);
            return pushed;
        }
    }
}

impl<T> Queue<T> {
    /// Notes that a run is wanted, and says whether it is the caller who must see to it.
    #[inline]
    pub(crate) fn request(&mut self) -> Action {
        if self.phase == Phase::Idle {
            self.phase = Phase::Due;
            return Action::Submit;
        }
        Action::Nothing
    }

    /// All items, leaving the spare buffer in their place.
    pub(crate) fn take_all(&mut self) -> VecDeque<T> {
        let spare = std::mem::take(&mut self.spare);
        self.exchange(spare)
    }

    /// All items, leaving an empty buffer in their place.
    pub(crate) fn exchange(&mut self, empty: VecDeque<T>) -> VecDeque<T> {
        self.bytes = 0;
        std::mem::replace(&mut self.items, empty)
    }

    /// Ends a run: nobody is concerned with the lane any more. Returns the buffer that is to be freed without the
    /// lock.
    pub(crate) fn end(&mut self, buffer: VecDeque<T>) -> VecDeque<T> {
        self.phase = Phase::Idle;
        if self.items.is_empty() && self.items.capacity() > SPARE_ITEMS_MAX {
            return std::mem::replace(&mut self.items, buffer);
        }
        let is_worth_keeping =
            buffer.capacity() <= SPARE_ITEMS_MAX && buffer.capacity() > self.spare.capacity();
        if is_worth_keeping { std::mem::replace(&mut self.spare, buffer) } else { buffer }
    }
}

impl<T> fmt::Debug for Lane<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = self.queue.lock();
        let (items, bytes, phase, closed) = (queue.items.len(), queue.bytes, queue.phase, queue.closed);
        drop(queue);
        f.debug_struct("Lane")
            .field("items", &items)
            .field("bytes", &bytes)
            .field("phase", &phase)
            .field("closed", &closed)
            .field("bound", &self.bound)
            .finish()
    }
}
