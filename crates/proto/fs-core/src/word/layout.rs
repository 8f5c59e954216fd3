//! The fields of the word: `held:5 revoking:5 generation:14 counts:4×10`, from the lowest bit.

use loligo_types::Caps;

/// Generations are counted modulo this number. A client that declares a session stale voids the words of
/// all its inodes; the generation guards the time that this takes, in which no session is stale so often.
pub const GENERATIONS: u32 = 1 << GENERATION_BITS;

/// The maximum number of operations of one class that can be in progress on an inode.
pub const REFERENCES_MAX: u64 = (1 << COUNT_BITS) - 1;

const CAP_BITS: u32 = 5;
const GENERATION_BITS: u32 = 14;
const COUNT_BITS: u32 = 10;
const CLASSES: usize = 4;

const RD: u64 = 1;
const WR: u64 = 2;
const CACHE: u64 = 4;
const BUFFER: u64 = 8;
const LAZY: u64 = 16;

/// What reads from the cache use.
pub(super) const CACHED_READ: u64 = RD | CACHE;

/// The capabilities of the data path, and their bits in the word.
const CAPS: [(Caps, u64); 5] = [
    (Caps::FILE_RD, RD),
    (Caps::FILE_WR, WR),
    (Caps::FILE_CACHE, CACHE),
    (Caps::FILE_BUFFER, BUFFER),
    (Caps::FILE_LAZYIO, LAZY),
];

/// What an operation does with the file's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Reads from the store (Fr).
    Read,
    /// Reads from the cache, or fills it (Fr and Fc).
    CachedRead,
    /// Writes to the store (Fw).
    Write,
    /// Writes into the buffer (Fw and Fb).
    BufferedWrite,
}

impl Class {
    /// All classes.
    pub const ALL: [Self; CLASSES] = [Self::Read, Self::CachedRead, Self::Write, Self::BufferedWrite];

    /// The capabilities that an operation of this class uses.
    pub fn caps(self) -> Caps {
        set_of(self.bits())
    }

    pub(super) fn bits(self) -> u64 {
        match self {
            Self::Read => RD,
            Self::CachedRead => CACHED_READ,
            Self::Write => WR,
            Self::BufferedWrite => WR | BUFFER,
        }
    }

    fn index(self) -> usize {
        match self {
            Self::Read => 0,
            Self::CachedRead => 1,
            Self::Write => 2,
            Self::BufferedWrite => 3,
        }
    }
}

/// Which classes have operations in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Busy {
    /// Reads from the store.
    pub reads: bool,
    /// Reads from the cache.
    pub cached_reads: bool,
    /// Writes to the store.
    pub writes: bool,
    /// Writes into the buffer.
    pub buffered_writes: bool,
}

/// The word, taken apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) held: u64,
    pub(super) revoking: u64,
    pub(super) generation: u32,
    counts: [u64; CLASSES],
}

impl Fields {
    pub(super) fn of(word: u64) -> Self {
        let generation = (word >> (2 * CAP_BITS)) & u64::from(GENERATIONS - 1);
        let mut counts = [0; CLASSES];
        let mut rest = word >> (2 * CAP_BITS + GENERATION_BITS);
        for count in &mut counts {
            *count = rest & REFERENCES_MAX;
            rest >>= COUNT_BITS;
        }
        Self {
            held: word & ((1 << CAP_BITS) - 1),
            revoking: (word >> CAP_BITS) & ((1 << CAP_BITS) - 1),
            generation: u32::try_from(generation).unwrap_or_default(),
            counts,
        }
    }

    pub(super) fn word(self) -> u64 {
        let counts = self.counts.iter().rev().fold(0, |word, count| word << COUNT_BITS | count);
        let generation = u64::from(self.generation);
        let caps = self.held | self.revoking << CAP_BITS;
        caps | generation << (2 * CAP_BITS) | counts << (2 * CAP_BITS + GENERATION_BITS)
    }

    pub(super) fn count(&mut self, class: Class) -> &mut u64 {
        &mut self.counts[class.index()]
    }

    /// What a read or a write does: it uses the cache as soon as the capability for that may be used.
    pub(super) fn class(&self, writes: bool) -> Class {
        let usable = self.held & !self.revoking;
        match writes {
            false if usable & CACHE != 0 => Class::CachedRead,
            false => Class::Read,
            true if usable & BUFFER != 0 => Class::BufferedWrite,
            true => Class::Write,
        }
    }

    pub(super) fn busy(&self) -> Busy {
        let [reads, cached_reads, writes, buffered_writes] = self.counts.map(|count| count > 0);
        Busy { reads, cached_reads, writes, buffered_writes }
    }

    /// The bits that operations in progress use.
    pub(super) fn used(&self) -> u64 {
        let running = Class::ALL.into_iter().filter(|class| self.counts[class.index()] > 0);
        running.fold(0, |used, class| used | class.bits())
    }
}

pub(super) fn held_bits(caps: Caps) -> u64 {
    CAPS.iter().filter(|(cap, _)| caps.contains(*cap)).fold(0, |bits, (_, bit)| bits | bit)
}

pub(super) fn set_of(bits: u64) -> Caps {
    CAPS.iter().filter(|(_, bit)| bits & bit != 0).fold(Caps::NONE, |caps, (cap, _)| caps | *cap)
}
