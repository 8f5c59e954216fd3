//! Fragments: the parts of a directory, by the hash of the entries' names.

use std::collections::BTreeMap;
use std::fmt;

/// Hash values of names have 24 bits: they are below this number.
pub const HASH_END: u32 = 1 << HASH_BITS;

const HASH_BITS: u32 = 24;

/// A fragment: all names whose hash begins with certain bits (`frag_t`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frag {
    bits: u32,
    value: u32,
}

/// Why numbers are no fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FragTreeError {
    /// More bits than hashes have, or bits of the value beyond them.
    #[error("{0:#010x} is no fragment: it has more bits than hashes have, or bits beyond its own")]
    NoFrag(u32),
    /// A split into more parts than hashes have values.
    #[error("fragment {frag} is split by {by} bits, more than hashes have left")]
    TooFine {
        /// The fragment.
        frag: Frag,
        /// By how many bits.
        by: u32,
    },
}

impl Frag {
    /// The whole directory.
    pub const ROOT: Self = Self { bits: 0, value: 0 };

    /// Takes the number apart in which messages have a fragment.
    ///
    /// # Errors
    ///
    /// [`FragTreeError::NoFrag`].
    pub fn from_raw(raw: u32) -> Result<Self, FragTreeError> {
        let (bits, value) = (raw >> HASH_BITS, raw & (HASH_END - 1));
        if bits > HASH_BITS || value & !mask(bits) != 0 {
            return Err(FragTreeError::NoFrag(raw));
        }
        Ok(Self { bits, value })
    }

    /// The number in which messages have the fragment.
    pub fn raw(self) -> u32 {
        self.bits << HASH_BITS | self.value
    }

    /// How many bits all its hashes have in common.
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// The first hash value in the fragment.
    pub fn first(self) -> u32 {
        self.value
    }

    /// The hash value after the last one in the fragment.
    pub fn end(self) -> u32 {
        self.value + (HASH_END >> self.bits)
    }

    /// Whether names with this hash are in the fragment.
    pub fn contains(self, hash: u32) -> bool {
        (self.first()..self.end()).contains(&hash)
    }

    /// The fragment of `bits` bits that has this hash. Both are cut to the 24 bits of hashes.
    fn of(hash: u32, bits: u32) -> Self {
        let bits = bits.min(HASH_BITS);
        Self { bits, value: hash & mask(bits) }
    }
}

impl fmt::Display for Frag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06x}/{}", self.value, self.bits)
    }
}

fn mask(bits: u32) -> u32 {
    (HASH_END - 1) & !((HASH_END - 1) >> bits)
}

/// How a directory is divided (`fragtree_t`). Only valid trees can be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FragTree {
    splits: BTreeMap<Frag, u32>,
}

impl FragTree {
    /// A tree from the pairs in a message: a fragment's number, and by how many bits it is split.
    ///
    /// # Errors
    ///
    /// Numbers that are no fragments, and splits finer than hashes.
    pub fn from_splits(splits: impl IntoIterator<Item = (u32, u32)>) -> Result<Self, FragTreeError> {
        let mut tree = Self::default();
        for (raw, by) in splits {
            let frag = Frag::from_raw(raw)?;
            if by > HASH_BITS - frag.bits {
                return Err(FragTreeError::TooFine { frag, by });
            }
            if by > 0 {
                tree.splits.insert(frag, by);
            }
        }
        Ok(tree)
    }

    /// The fragment that has the names with this hash.
    pub fn leaf(&self, hash: u32) -> Frag {
        let mut frag = Frag::ROOT;
        // Each split adds at least one bit, so this ends after 24 steps.
        while let Some(by) = self.splits.get(&frag) {
            frag = Frag::of(hash, frag.bits + by);
        }
        frag
    }

    /// All fragments that are not split, in the order of hashes.
    pub fn leaves(&self) -> impl Iterator<Item = Frag> + '_ {
        let mut next = Some(self.leaf(0));
        std::iter::from_fn(move || {
            let leaf = next?;
            next = (leaf.end() < HASH_END).then(|| self.leaf(leaf.end()));
            Some(leaf)
        })
    }
}
