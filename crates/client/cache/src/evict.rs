//! Eviction: two queues and a memory of recently evicted blocks, as in S3-FIFO.
//!
//! A new block enters the short queue. If it is used while it waits there, or returns soon after its
//! eviction, it enters the long queue, in which it survives one round for each use. So a scan evicts
//! only blocks of other scans. The use count is beside the block's page (`shelf.rs`), and a hit takes no
//! lock at all. The queues are sharded by a block's hash, and shards take turns in evicting. Only idle
//! blocks are queued: dirty blocks and blocks being read are not.

use crate::sync::{AtomicUsize, Class, Mutex, Ordering};

/// Held to link or unlink one block. Taken under an object's lock; nothing is taken under it.
static QUEUE: Class = Class::new("cache.queue");

/// A power of two. Loom's models have few blocks, which must share a shard.
const SHARDS: usize = if cfg!(loom) { 1 } else { 16 };
/// The short queue is evicted from first while it has more than 1/`NEW_PART` of all blocks.
const NEW_PART: usize = 10;
const NONE: u32 = u32::MAX;

/// A block's slot in its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u32);

/// A block that may be evicted next.
#[derive(Debug)]
pub(crate) struct Candidate<T> {
    pub(crate) owner: T,
    pub(crate) block: u32,
    pub(crate) slot: Slot,
    /// The block is in the long queue.
    pub(crate) is_used: bool,
}

/// All blocks that may be evicted. `T` is the type of a block's owner.
#[derive(Debug)]
pub(crate) struct Queues<T> {
    shards: Vec<Mutex<Shard<T>>>,
    turn: AtomicUsize,
}

#[derive(Debug)]
struct Shard<T> {
    nodes: Vec<Node<T>>,
    free: u32,
    new: List,
    used: List,
    /// Memory of evicted blocks: indexed by some bits of a block's hash, it holds other bits of the last
    /// block evicted there.
    gone: Vec<u32>,
}

#[derive(Debug)]
struct Node<T> {
    owner: Option<T>,
    block: u32,
    before: u32,
    /// In a free node: the next free node.
    behind: u32,
    is_used: bool,
}

/// A doubly linked list, oldest first.
#[derive(Debug)]
struct List {
    first: u32,
    last: u32,
    len: usize,
}

impl<T: Clone> Queues<T> {
    /// Queues for about this many blocks.
    pub(crate) fn new(blocks: usize) -> Self {
        let gone = (blocks / SHARDS).max(1).next_power_of_two();
        let shards = (0..SHARDS).map(|_| Mutex::new(&QUEUE, Shard::new(gone))).collect();
        Self { shards, turn: AtomicUsize::new(0) }
    }

    pub(crate) fn add(&self, hash: u64, owner: T, block: u32) -> Slot {
        self.shard(hash).lock().add(hash, owner, block)
    }

    /// Removes a block. Returns its owner, to be dropped without the lock. With `gone` the block was
    /// evicted, which is remembered if it was in the short queue.
    pub(crate) fn remove(&self, hash: u64, slot: Slot, gone: bool) -> Option<T> {
        let mut shard = self.shard(hash).lock();
        if gone && !shard.nodes[slot.0 as usize].is_used {
            *shard.memory(hash) = known_as(hash);
        }
        shard.remove(slot)
    }

    /// Moves a block to the end of the long queue.
    pub(crate) fn keep(&self, hash: u64, slot: Slot) {
        let mut shard = self.shard(hash).lock();
        shard.unlink(slot.0);
        shard.append(slot.0, true);
    }

    /// Returns the next block to evict, from the next shard that has one; with `new`, from its short
    /// queue unless that is empty. The block stays queued: its object decides under its lock whether to
    /// keep it.
    pub(crate) fn candidate(&self, new: bool) -> Option<Candidate<T>> {
        // Relaxed: any shard is as good as another.
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        (0..SHARDS).find_map(|n| self.shards[(first + n) % SHARDS].lock().candidate(new))
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard<T>> {
        &self.shards[hash as usize % SHARDS]
    }

    #[cfg(any(test, loom))]
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock()).map(|shard| shard.new.len + shard.used.len).sum()
    }
}

impl<T: Clone> Shard<T> {
    fn new(gone: usize) -> Self {
        let list = || List { first: NONE, last: NONE, len: 0 };
        Self { nodes: Vec::new(), free: NONE, new: list(), used: list(), gone: vec![0; gone] }
    }

    fn add(&mut self, hash: u64, owner: T, block: u32) -> Slot {
        let memory = self.memory(hash);
        let is_used = *memory == known_as(hash);
        if is_used {
            *memory = 0;
        }
        let node = Node { owner: Some(owner), block, before: NONE, behind: NONE, is_used };
        let index = match self.free {
            NONE => {
                self.nodes.push(node);
                u32::try_from(self.nodes.len() - 1).expect("fewer blocks than 2^32")
            }
            free => {
                self.free = self.nodes[free as usize].behind;
                self.nodes[free as usize] = node;
                free
            }
        };
        self.append(index, is_used);
        Slot(index)
    }

    fn remove(&mut self, slot: Slot) -> Option<T> {
        self.unlink(slot.0);
        let free = self.free;
        let node = &mut self.nodes[slot.0 as usize];
        node.behind = free;
        self.free = slot.0;
        node.owner.take()
    }

    fn candidate(&self, new: bool) -> Option<Candidate<T>> {
        let is_long = self.new.len * NEW_PART > self.new.len + self.used.len || (new && self.new.len > 0);
        let list = if is_long || self.used.first == NONE { &self.new } else { &self.used };
        let node = self.nodes.get(list.first as usize)?;
        let Node { owner, block, is_used, .. } = node;
        Some(Candidate { owner: owner.clone()?, block: *block, slot: Slot(list.first), is_used: *is_used })
    }

    fn append(&mut self, index: u32, is_used: bool) {
        let list = if is_used { &mut self.used } else { &mut self.new };
        let last = std::mem::replace(&mut list.last, index);
        list.len += 1;
        match last {
            NONE => list.first = index,
            last => self.nodes[last as usize].behind = index,
        }
        let node = &mut self.nodes[index as usize];
        (node.before, node.behind, node.is_used) = (last, NONE, is_used);
    }

    fn unlink(&mut self, index: u32) {
        let Node { before, behind, is_used, .. } = self.nodes[index as usize];
        let list = if is_used { &mut self.used } else { &mut self.new };
        list.len -= 1;
        match before {
            NONE => list.first = behind,
            before => self.nodes[before as usize].behind = behind,
        }
        let list = if is_used { &mut self.used } else { &mut self.new };
        match behind {
            NONE => list.last = before,
            behind => self.nodes[behind as usize].before = before,
        }
    }

    fn memory(&mut self, hash: u64) -> &mut u32 {
        let index = (hash >> 8) as usize & (self.gone.len() - 1);
        &mut self.gone[index]
    }
}

/// Bits of a hash that are not part of its index; never 0.
fn known_as(hash: u64) -> u32 {
    (hash >> 32) as u32 | 1
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn hash(block: u32) -> u64 {
        u64::from(block).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    proptest! {
        /// For any sequence of additions, moves and removals, the queues contain exactly the blocks that
        /// were not removed, and each block comes up for eviction.
        #[test]
        fn nothing_is_lost_or_twice(steps in vec((0..4u8, 0..200u32), 1..600)) {
            let queues = Queues::new(64);
            let mut slots: HashMap<u32, Slot> = HashMap::new();
            for (step, block) in steps {
                match (step, slots.get(&block).copied()) {
                    (0 | 1, None) => drop(slots.insert(block, queues.add(hash(block), block, block))),
                    (0, Some(slot)) => queues.keep(hash(block), slot),
                    (2, Some(slot)) => {
                        prop_assert_eq!(queues.remove(hash(block), slot, block % 2 == 0), Some(block));
                        slots.remove(&block);
                    }
                    (3, _) => match queues.candidate(false) {
                        Some(Candidate { owner, block, slot, .. }) => {
                            prop_assert_eq!((owner, slots[&block]), (block, slot));
                        }
                        None => prop_assert!(slots.is_empty()),
                    },
                    _ => {}
                }
                prop_assert_eq!(queues.len(), slots.len());
            }
            while let Some(Candidate { block, slot, .. }) = queues.candidate(false) {
                prop_assert_eq!(slots.remove(&block), Some(slot));
                queues.remove(hash(block), slot, true);
            }
            prop_assert!(slots.is_empty());
        }
    }
}
