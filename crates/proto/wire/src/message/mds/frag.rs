//! Fragments of directories (`src/include/frag.h`). Names belong to fragments by the high-order bits of a
//! 24-bit hash.

use std::collections::BTreeMap;
use std::fmt;

use crate::{Decode, DecodeError, Encode, Reader, Writer};

/// A fragment of a directory: the names whose hash begins with certain bits. The number has the count of
/// bits in the top byte and the bits, left-aligned, in the low 24.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frag(pub u32);

impl Frag {
    /// The undivided directory.
    pub const ROOT: Self = Self(0);
    /// The number of bits in a hash.
    pub const HASH_BITS: u32 = 24;
    /// The hashes that exist.
    pub const HASH_MASK: u32 = (1 << Self::HASH_BITS) - 1;

    /// The number of leading bits that the fragment's hashes share; at most 24.
    pub fn bits(self) -> u32 {
        (self.0 >> Self::HASH_BITS).min(Self::HASH_BITS)
    }

    /// The smallest hash in the fragment.
    pub fn first(self) -> u32 {
        self.0 & self.mask()
    }

    /// The largest hash in the fragment.
    pub fn last(self) -> u32 {
        self.first() | (Self::HASH_MASK & !self.mask())
    }

    /// Whether the fragment contains names with this hash.
    pub fn contains(self, hash: u32) -> bool {
        hash & self.mask() == self.first()
    }

    /// Child `number` of the 2^`by` into which the fragment is divided. `None` if a hash has fewer bits,
    /// or if there are fewer children.
    pub fn child(self, number: u32, by: u32) -> Option<Self> {
        let bits = self.bits().saturating_add(by);
        if bits > Self::HASH_BITS || u64::from(number) >> by != 0 {
            return None;
        }
        let value = self.first() | number << (Self::HASH_BITS - bits);
        Some(Self(bits << Self::HASH_BITS | value))
    }

    /// The fragment that follows in the order of hashes with the same number of bits. `None` after the
    /// last one.
    pub fn next(self) -> Option<Self> {
        let first = self.last() + 1;
        (first <= Self::HASH_MASK).then_some(Self(self.bits() << Self::HASH_BITS | first))
    }

    fn mask(self) -> u32 {
        Self::HASH_MASK << (Self::HASH_BITS - self.bits()) & Self::HASH_MASK
    }
}

impl Encode for Frag {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.0);
    }
}

impl Decode for Frag {
    const MIN_LEN: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match r.u32()? {
            valid if valid >> Self::HASH_BITS <= Self::HASH_BITS => Ok(Self(valid)),
            other => Err(DecodeError::Invalid { what: "frag_t", value: u64::from(other) }),
        }
    }
}

/// The common leading bits and an asterisk, as Ceph prints it: `01*`.
impl fmt::Display for Frag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for bit in 0..self.bits() {
            write!(f, "{}", self.0 >> (Self::HASH_BITS - 1 - bit) & 1)?;
        }
        f.write_str("*")
    }
}

/// The division of a directory into fragments (`fragtree_t`): the fragments that are divided, and the
/// binary logarithm of their number of children.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FragTree {
    splits: BTreeMap<Frag, u32>,
}

impl FragTree {
    /// Divides a fragment into 2^`by`. Returns `false`, and changes nothing, if that is impossible.
    pub fn split(&mut self, frag: Frag, by: u32) -> bool {
        let possible = by > 0 && frag.bits().saturating_add(by) <= Frag::HASH_BITS;
        if possible {
            self.splits.insert(frag, by);
        }
        possible
    }

    /// Whether the directory is not divided.
    pub fn is_root(&self) -> bool {
        self.splits.is_empty()
    }

    /// The fragments that are divided, with the binary logarithm of the number of their children.
    pub fn splits(&self) -> impl ExactSizeIterator<Item = (Frag, u32)> {
        self.splits.iter().map(|(frag, by)| (*frag, *by))
    }

    /// The undivided fragment that contains names with this hash.
    pub fn leaf(&self, hash: u32) -> Frag {
        let mut frag = Frag::ROOT;
        // Each step adds bits, of which there are at most 24.
        while let Some(by) = self.splits.get(&frag) {
            let number = (hash & Frag::HASH_MASK) >> (Frag::HASH_BITS - frag.bits() - by) & ((1 << by) - 1);
            match frag.child(number, *by) {
                Some(child) => frag = child,
                None => break,
            }
        }
        frag
    }
}

impl Encode for FragTree {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.splits);
    }
}

impl Decode for FragTree {
    const MIN_LEN: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = r.count(8)?;
        let mut tree = Self::default();
        for _ in 0..count {
            let (frag, by) = (r.get()?, r.u32()?);
            // A fragment with a single child is not divided.
            if by != 0 && !tree.split(frag, by) {
                return Err(DecodeError::Invalid { what: "fragtree_t", value: u64::from(by) });
            }
        }
        Ok(tree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fragments_are_ranges_of_hashes() {
        let half = Frag::ROOT.child(1, 1).expect("a half");
        assert_eq!(half, Frag(0x0180_0000));
        assert_eq!((half.first(), half.last(), half.bits()), (0x80_0000, 0xff_ffff, 1));
        let eighth = half.child(2, 2).expect("an eighth");
        assert_eq!(eighth.to_string(), "110*");
        assert!(eighth.contains(0xc0_0000) && !eighth.contains(0xe0_0000));
        assert_eq!(eighth.next().map(Frag::first), Some(0xe0_0000));
        assert_eq!((half.next(), Frag::ROOT.next()), (None, None));
        assert_eq!((Frag::ROOT.first(), Frag::ROOT.last()), (0, Frag::HASH_MASK));
        assert_eq!((half.child(0, 24), half.child(4, 2)), (None, None));
        assert_eq!(Frag::ROOT.to_string(), "*");
    }

    #[test]
    fn a_tree_leads_to_its_leaves() {
        let mut tree = FragTree::default();
        assert_eq!(tree.leaf(0x12_3456), Frag::ROOT);
        assert!(tree.split(Frag::ROOT, 1) && tree.split(Frag(0x0180_0000), 2));
        assert!(!tree.split(Frag(0x1800_0000), 1) && !tree.split(Frag::ROOT, 0));
        assert_eq!(tree.leaf(0x12_3456).to_string(), "0*");
        assert_eq!(tree.leaf(0xd0_0000).to_string(), "110*");
        assert_eq!(FragTree::from_bytes(&tree.to_bytes()), Ok(tree));
    }

    #[test]
    fn impossible_trees_are_refused() {
        for (frag, by) in [(0x1900_0000_u32, 1_u32), (0x1800_0000, 1), (0, 25), (0, u32::MAX)] {
            let bytes = vec![(frag, by)].to_bytes();
            assert!(FragTree::from_bytes(&bytes).is_err(), "{frag:#x} by {by}");
        }
    }

    proptest! {
        #[test]
        fn each_hash_has_one_leaf(
            splits in prop::collection::vec((any::<u32>(), 1_u32..5), 0..20),
            hash in 0..=Frag::HASH_MASK,
        ) {
            let mut tree = FragTree::default();
            for (hash, by) in splits {
                let leaf = tree.leaf(hash);
                tree.split(leaf, by);
            }
            let leaf = tree.leaf(hash);
            prop_assert!(leaf.contains(hash));
            prop_assert_eq!(tree.leaf(leaf.first()), leaf);
            prop_assert_eq!(tree.leaf(leaf.last()), leaf);
        }
    }
}
