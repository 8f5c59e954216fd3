//! A chain: items taken out of an inbox, in order.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::{iter, mem, ptr};

/// An item in the lane, in an allocation of its own.
pub(crate) struct Node<T> {
    pub(crate) item: T,
    /// In the inbox: the node pushed before this one. In a chain: the node pushed after this one.
    pub(crate) next: *mut Node<T>,
}

impl<T> Node<T> {
    pub(crate) fn new(item: T) -> Box<Self> {
        Box::new(Self { item, next: ptr::null_mut() })
    }
}

/// Nodes in the order in which they are to be run. Moving nodes from one chain to another allocates and
/// frees nothing, so it may be done under a lock.
///
/// Invariant: `first`, and each node's `next`, is null or a node from `Box::into_raw` that belongs to this
/// chain alone; following `next` from `first` passes `len` nodes and ends at `last`. `last` is
/// meaningless if `len` is 0.
pub(crate) struct Chain<T> {
    first: *mut Node<T>,
    last: *mut Node<T>,
    len: usize,
    _owned: PhantomData<Node<T>>,
}

// SAFETY: a chain owns its nodes as a list of boxes would.
unsafe impl<T: Send> Send for Chain<T> {}

impl<T> Chain<T> {
    pub(crate) const fn new() -> Self {
        Self { first: ptr::null_mut(), last: ptr::null_mut(), len: 0, _owned: PhantomData }
    }

    /// Reverses the inbox's list, from newest first to oldest first.
    ///
    /// # Safety
    /// `newest` and the nodes that follow it by `next`, up to null, come from `Box::into_raw`, and no
    /// other thread accesses them.
    pub(crate) unsafe fn from_newest(newest: *mut Node<T>) -> Self {
        let mut chain = Self { last: newest, ..Self::new() };
        let mut node = newest;
        while !node.is_null() {
            // SAFETY: the caller passes ownership of the node.
            let older = mem::replace(unsafe { &mut (*node).next }, chain.first);
            chain.first = mem::replace(&mut node, older);
            chain.len += 1;
        }
        chain
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Moves the other chain's nodes to the end of this one.
    pub(crate) fn append(&mut self, mut other: Self) {
        if self.is_empty() {
            mem::swap(self, &mut other);
        } else if !other.is_empty() {
            // SAFETY: this chain is not empty, so `last` is a node of it.
            unsafe { (*self.last).next = other.first };
            self.last = other.last;
            self.len += mem::take(&mut other.len);
            other.first = ptr::null_mut();
        }
    }

    /// The first item.
    pub(crate) fn first_mut(&mut self) -> Option<&mut T> {
        // SAFETY: `first` is null or a node of this chain, which is borrowed mutably as long as the
        // reference lives.
        unsafe { self.first.as_mut() }.map(|node| &mut node.item)
    }

    /// The items, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let mut next = self.first;
        iter::from_fn(move || {
            // SAFETY: null or a node of this chain, which does not change while it is borrowed.
            let node: &Node<T> = unsafe { next.as_ref() }?;
            next = node.next;
            Some(&node.item)
        })
    }

    pub(crate) fn pop(&mut self) -> Option<Box<Node<T>>> {
        if self.first.is_null() {
            return None;
        }
        // SAFETY: the chain owns the node, which leaves it here.
        let mut node = unsafe { Box::from_raw(self.first) };
        self.first = mem::replace(&mut node.next, ptr::null_mut());
        self.len -= 1;
        Some(node)
    }

    /// Removes and returns the first `len_max` nodes, or all if there are fewer.
    pub(crate) fn split_front(&mut self, len_max: usize) -> Self {
        if len_max >= self.len {
            return mem::replace(self, Self::new());
        }
        let mut front = Self::new();
        let mut next = self.first;
        for _ in 0..len_max {
            front.last = next;
            // SAFETY: the chain has more than `len_max` nodes, so this is one of them.
            next = unsafe { (*next).next };
        }
        if !front.last.is_null() {
            front.first = mem::replace(&mut self.first, next);
            front.len = len_max;
            self.len -= len_max;
            // SAFETY: `last` is a node that was just passed.
            unsafe { (*front.last).next = ptr::null_mut() };
        }
        front
    }

    /// Removes and returns the first node whose item matches.
    pub(crate) fn remove(&mut self, mut matches: impl FnMut(&T) -> bool) -> Option<Box<Node<T>>> {
        let mut before: *mut Node<T> = ptr::null_mut();
        let mut node = self.first;
        // SAFETY: `node` is null or a node of this chain, which is borrowed mutably.
        while let Some(candidate) = unsafe { node.as_ref() } {
            if matches(&candidate.item) {
                return Some(self.unlink(before, node));
            }
            before = mem::replace(&mut node, candidate.next);
        }
        None
    }

    /// Removes and returns a node of this chain; `before` is the node before it, or null if it is the
    /// first.
    fn unlink(&mut self, before: *mut Node<T>, node: *mut Node<T>) -> Box<Node<T>> {
        if before.is_null() {
            return self.pop().expect("the node is in the chain");
        }
        // SAFETY: both are nodes of this chain; `node` leaves it here.
        let mut node = unsafe { Box::from_raw(node) };
        let after = mem::replace(&mut node.next, ptr::null_mut());
        // SAFETY: as above.
        unsafe { (*before).next = after };
        if after.is_null() {
            self.last = before;
        }
        self.len -= 1;
        node
    }

    /// Moves the items to the end of a buffer, and frees the nodes.
    pub(crate) fn unpack(mut self, buffer: &mut VecDeque<T>) {
        buffer.reserve(self.len);
        while let Some(node) = self.pop() {
            buffer.push_back(node.item);
        }
    }
}

impl<T> FromIterator<T> for Chain<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut chain = Self::new();
        for item in items {
            let node = Box::into_raw(Node::new(item));
            chain.append(Self { first: node, last: node, len: 1, _owned: PhantomData });
        }
        chain
    }
}

impl<T> Drop for Chain<T> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}
