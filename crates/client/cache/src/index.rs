//! A map by number that is read without a lock.
//!
//! Its nodes never change. A change copies the nodes on the way to its entry, at most 32 children each, and
//! publishes a new root. A reader loads the root once and sees the map as it was then. A number's digits,
//! five bits each and the lowest first, lead to its entry; a node below exists only where two entries share
//! all digits so far, so that consecutive numbers fill the nodes and lonely ones cost little.

use std::sync::Arc;

use arc_swap::{ArcSwapOption, Guard};

/// The bits of a digit.
const BITS: u32 = 5;

/// The map. The caller sees to it that changes follow one another; readers need not wait for them.
#[derive(Debug)]
pub(crate) struct Index<T>(ArcSwapOption<Node<T>>);

/// The map as it was at one time.
pub(crate) struct Snapshot<T>(Guard<Option<Arc<Node<T>>>>);

#[derive(Debug)]
pub(crate) struct Node<T> {
    /// Bit `n`: there is a child for the digit `n`.
    digits: u32,
    /// In the order of their digits.
    children: Vec<Child<T>>,
}

#[derive(Debug)]
enum Child<T> {
    Entry(u64, Arc<T>),
    Node(Arc<Node<T>>),
}

impl<T> Index<T> {
    pub(crate) fn new() -> Self {
        Self(ArcSwapOption::empty())
    }

    /// Loads the map, for as many lookups as have to agree with one another.
    pub(crate) fn load(&self) -> Snapshot<T> {
        Snapshot(self.0.load())
    }

    pub(crate) fn get(&self, number: u64) -> Option<Arc<T>> {
        self.load().get(number).cloned()
    }

    /// Adds an entry, or replaces it.
    pub(crate) fn insert(&self, number: u64, entry: Arc<T>) {
        let next = match &*self.0.load() {
            Some(root) => root.with(0, number, entry),
            None => Node::empty().with(0, number, entry),
        };
        self.0.store(Some(Arc::new(next)));
    }

    /// Removes an entry, if it is there.
    pub(crate) fn remove(&self, number: u64) {
        let next = match &*self.0.load() {
            Some(root) => root.without(0, number),
            None => return,
        };
        self.0.store(Some(next).filter(|root| root.digits != 0).map(Arc::new));
    }
}

impl<T> Snapshot<T> {
    pub(crate) fn get(&self, number: u64) -> Option<&Arc<T>> {
        let mut node = self.0.as_ref()?;
        let mut shift = 0;
        loop {
            let bit = bit(number, shift);
            if node.digits & bit == 0 {
                return None;
            }
            match &node.children[node.place(bit)] {
                Child::Entry(known, entry) => return (*known == number).then_some(entry),
                Child::Node(below) => node = below,
            }
            shift += BITS;
        }
    }
}

impl<T> Node<T> {
    fn empty() -> Self {
        Self { digits: 0, children: Vec::new() }
    }

    /// Returns the index of the child for a digit, or where it would be.
    fn place(&self, bit: u32) -> usize {
        (self.digits & (bit - 1)).count_ones() as usize
    }

    /// Returns a copy with an entry, at `shift` bits below the root.
    fn with(&self, shift: u32, number: u64, entry: Arc<T>) -> Self {
        let bit = bit(number, shift);
        let at = self.place(bit);
        let mut children = Vec::with_capacity(self.children.len() + usize::from(self.digits & bit == 0));
        children.extend_from_slice(&self.children);
        if self.digits & bit == 0 {
            children.insert(at, Child::Entry(number, entry));
            return Self { digits: self.digits | bit, children };
        }
        let below = shift + BITS;
        children[at] = match &self.children[at] {
            Child::Entry(known, _) if *known == number => Child::Entry(number, entry),
            Child::Entry(known, other) => {
                // They differ in some digit below.
                let one = Self::empty().with(below, *known, Arc::clone(other));
                Child::Node(Arc::new(one.with(below, number, entry)))
            }
            Child::Node(node) => Child::Node(Arc::new(node.with(below, number, entry))),
        };
        Self { digits: self.digits, children }
    }

    /// Returns a copy without an entry.
    fn without(&self, shift: u32, number: u64) -> Self {
        let bit = bit(number, shift);
        let at = self.place(bit);
        let (mut digits, mut children) = (self.digits, self.children.clone());
        match self.children.get(at).filter(|_| digits & bit != 0) {
            Some(Child::Entry(known, _)) if *known == number => {
                children.remove(at);
                digits -= bit;
            }
            Some(Child::Node(node)) => {
                let mut below = node.without(shift + BITS, number);
                children[at] = match below.children.pop() {
                    // An entry that is alone needs no node.
                    Some(only @ Child::Entry(..)) if below.children.is_empty() => only,
                    last => {
                        below.children.extend(last);
                        Child::Node(Arc::new(below))
                    }
                };
            }
            _ => {}
        }
        Self { digits, children }
    }
}

impl<T> Clone for Child<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Entry(number, entry) => Self::Entry(*number, Arc::clone(entry)),
            Self::Node(node) => Self::Node(Arc::clone(node)),
        }
    }
}

/// Returns the bit of a number's digit.
fn bit(number: u64, shift: u32) -> u32 {
    1 << ((number >> shift) & ((1 << BITS) - 1))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Few numbers, so that they meet; some differ only in their highest bits.
    fn number() -> impl Strategy<Value = u64> {
        let scattered = (0..4u64, 0..64u32).prop_map(|(n, shift)| n << shift);
        prop_oneof![3 => 0..100u64, 1 => scattered]
    }

    /// Returns the number of entries, and checks that each node is needed.
    fn count<T>(node: &Node<T>, is_root: bool) -> usize {
        assert_eq!(node.digits.count_ones() as usize, node.children.len());
        let is_lonely = matches!(&node.children[..], [] | [Child::Entry(..)]);
        assert!(is_root || !is_lonely, "a node for one entry");
        let of = |child: &Child<T>| match child {
            Child::Entry(..) => 1,
            Child::Node(node) => count(node, false),
        };
        node.children.iter().map(of).sum()
    }

    proptest! {
        #[test]
        fn it_is_a_map(steps in vec((any::<bool>(), number()), 1..300)) {
            let (index, mut model) = (Index::new(), BTreeMap::new());
            for (step, (adds, number)) in steps.into_iter().enumerate() {
                let before = index.load();
                let known = model.get(&number).copied();
                if adds {
                    index.insert(number, Arc::new(step));
                    model.insert(number, step);
                } else {
                    index.remove(number);
                    model.remove(&number);
                }
                prop_assert_eq!(before.get(number).map(|entry| **entry), known, "it was loaded before");
                let now = index.load();
                for (number, step) in &model {
                    prop_assert_eq!(now.get(*number).map(|entry| **entry), Some(*step));
                }
                prop_assert_eq!(now.get(number).is_some(), adds);
                prop_assert_eq!(now.0.as_ref().map_or(0, |root| count(root, true)), model.len());
            }
        }
    }
}
