//! Ids of CephFS, and the capabilities that metadata servers grant to clients.

use std::fmt;
use std::ops::{BitAnd, BitAndAssign, BitOr, BitOrAssign, Not, Sub, SubAssign};
use std::str::FromStr;

use crate::{Decode, DecodeError, Encode, Reader, Writer};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ident)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl Encode for $name {
            fn encode(&self, w: &mut Writer) {
                self.0.encode(w);
            }
        }

        impl Decode for $name {
            const MIN_LEN: usize = size_of::<$inner>();
            fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
                $inner::decode(r).map(Self)
            }
        }
    };
}

id!(
    /// The number of an inode; unique in a file system.
    Ino(u64)
);
id!(
    /// The number that a metadata server assigns to one client's capability on one inode.
    CapId(u64)
);
id!(
    /// The number of a file system in its cluster; −1 means "none".
    Fscid(i32)
);
id!(
    /// A position among the metadata servers of a file system; −1 means "none".
    Rank(i32)
);

impl Ino {
    /// The root directory of a file system.
    pub const ROOT: Self = Self(1);
    /// The realm above all others; it holds no snapshots.
    pub const GLOBAL_SNAP_REALM: Self = Self(3);
    /// The first number that a file or directory of a user can have.
    pub const FIRST_OF_USERS: Self = Self(0x1000);

    /// The name of the object with the data of stripe object `number` of this file.
    pub fn object_name(self, number: u64) -> String {
        format!("{:x}.{number:08x}", self.0)
    }
}

/// Ceph prints inode numbers in hexadecimal digits.
impl fmt::Display for Ino {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for CapId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Fscid {
    /// No file system.
    pub const NONE: Self = Self(-1);
}

impl fmt::Display for Fscid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Rank {
    /// No rank: a standby daemon, or a directory whose authority is that of its parent.
    pub const NONE: Self = Self(-1);
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A set of capabilities on an inode (`CEPH_CAP_*` in `src/include/ceph_fs.h`).
///
/// Each part of an inode has its own bits: A (owner and mode), L (link count), X (extended attributes)
/// and F (size, times, data). The text form is Ceph's: `pAsLsXsFscr`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Caps(pub u32);

const SHARED: u32 = 1;
const EXCL: u32 = 2;
const CACHE: u32 = 4;
const RD: u32 = 8;
const WR: u32 = 16;
const BUFFER: u32 = 32;
const WREXTEND: u32 = 64;
const LAZYIO: u32 = 128;

const AUTH: u32 = 2;
const LINK: u32 = 4;
const XATTR: u32 = 6;
const FILE: u32 = 8;

/// The letters of one part, in the order in which Ceph prints them.
const LETTERS: [(char, u32); 8] = [
    ('s', SHARED),
    ('x', EXCL),
    ('c', CACHE),
    ('r', RD),
    ('w', WR),
    ('b', BUFFER),
    ('a', WREXTEND),
    ('l', LAZYIO),
];

/// The parts: their letter, the position of their first bit, and their number of bits.
const PARTS: [(char, u32, u32); 4] = [('A', AUTH, 2), ('L', LINK, 2), ('X', XATTR, 2), ('F', FILE, 8)];

impl Caps {
    /// No capability.
    pub const NONE: Self = Self(0);
    /// The inode stays in the metadata server's memory.
    pub const PIN: Self = Self(1);
    /// Owner and mode may be cached.
    pub const AUTH_SHARED: Self = Self(SHARED << AUTH);
    /// Owner and mode may be changed locally.
    pub const AUTH_EXCL: Self = Self(EXCL << AUTH);
    /// The link count may be cached.
    pub const LINK_SHARED: Self = Self(SHARED << LINK);
    /// The link count may be changed locally.
    pub const LINK_EXCL: Self = Self(EXCL << LINK);
    /// Extended attributes may be cached.
    pub const XATTR_SHARED: Self = Self(SHARED << XATTR);
    /// Extended attributes may be changed locally.
    pub const XATTR_EXCL: Self = Self(EXCL << XATTR);
    /// Size and times may be cached.
    pub const FILE_SHARED: Self = Self(SHARED << FILE);
    /// Size and times may be changed locally.
    pub const FILE_EXCL: Self = Self(EXCL << FILE);
    /// Data may be cached for reading.
    pub const FILE_CACHE: Self = Self(CACHE << FILE);
    /// Data may be read.
    pub const FILE_RD: Self = Self(RD << FILE);
    /// Data may be written.
    pub const FILE_WR: Self = Self(WR << FILE);
    /// Written data may be buffered.
    pub const FILE_BUFFER: Self = Self(BUFFER << FILE);
    /// Writes may extend the file; unused by all releases.
    pub const FILE_WREXTEND: Self = Self(WREXTEND << FILE);
    /// Data may be read and written without coherence (lazy I/O).
    pub const FILE_LAZYIO: Self = Self(LAZYIO << FILE);
    /// On a directory: files may be created before the metadata server replies (Dc).
    pub const DIR_CREATE: Self = Self::FILE_CACHE;
    /// On a directory: files may be unlinked before the metadata server replies (Du).
    pub const DIR_UNLINK: Self = Self::FILE_RD;

    /// All bits of owner and mode.
    pub const ANY_AUTH: Self = Self((SHARED | EXCL) << AUTH);
    /// All bits of the link count.
    pub const ANY_LINK: Self = Self((SHARED | EXCL) << LINK);
    /// All bits of extended attributes.
    pub const ANY_XATTR: Self = Self((SHARED | EXCL) << XATTR);
    /// All bits of size, times and data.
    pub const ANY_FILE: Self = Self(0xff << FILE);
    /// The shared bit of every part.
    pub const ANY_SHARED: Self = Self(SHARED << AUTH | SHARED << LINK | SHARED << XATTR | SHARED << FILE);
    /// The exclusive bit of every part.
    pub const ANY_EXCL: Self = Self(EXCL << AUTH | EXCL << LINK | EXCL << XATTR | EXCL << FILE);
    /// The bits with which data or size can change: Fw, Fb and Fx.
    pub const ANY_FILE_WR: Self = Self((WR | BUFFER | EXCL) << FILE);
    /// The bits with which data can be read: Fc, Fr and Fs.
    pub const ANY_FILE_RD: Self = Self((CACHE | RD | SHARED) << FILE);
    /// All bits with which anything can change.
    pub const ANY_WR: Self = Self(Self::ANY_EXCL.0 | Self::ANY_FILE_WR.0);
    /// Every bit.
    pub const ALL: Self = Self(0xffff & !2);

    /// A request's mask: everything that `stat` shows.
    pub const STAT: Self = Self::ANY_SHARED;
    /// A request's mask: recursive statistics of a directory.
    pub const STAT_RECURSIVE: Self = Self::FILE_WREXTEND;

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of `other` is in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether this set and `other` have a bit in common.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// This set and `other` together, in constants.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOr for Caps {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Caps {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl BitAnd for Caps {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitAndAssign for Caps {
    fn bitand_assign(&mut self, other: Self) {
        self.0 &= other.0;
    }
}

/// The bits of the left set that are not in the right one.
impl Sub for Caps {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl SubAssign for Caps {
    fn sub_assign(&mut self, other: Self) {
        self.0 &= !other.0;
    }
}

impl Not for Caps {
    type Output = Self;
    fn not(self) -> Self {
        Self(!self.0)
    }
}

impl Encode for Caps {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.0);
    }
}

impl Decode for Caps {
    const MIN_LEN: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.u32().map(Self)
    }
}

/// Ceph's text, such as `pAsLsXsFscr`; `-` for the empty set.
impl fmt::Display for Caps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if (*self & Self::ALL).is_empty() {
            return f.write_str("-");
        }
        if self.contains(Self::PIN) {
            f.write_str("p")?;
        }
        for (part, shift, bits) in PARTS {
            let set = self.0 >> shift & ((1 << bits) - 1);
            if set == 0 {
                continue;
            }
            write!(f, "{part}")?;
            for (letter, bit) in LETTERS {
                if set & bit != 0 {
                    write!(f, "{letter}")?;
                }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Caps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Parses Ceph's text, with the parts and their letters in any order.
impl FromStr for Caps {
    type Err = DecodeError;
    fn from_str(text: &str) -> Result<Self, DecodeError> {
        let mut caps = Self::NONE;
        let mut part = None;
        if text == "-" {
            return Ok(caps);
        }
        for (at, letter) in text.char_indices() {
            let bad = DecodeError::Invalid { what: "capabilities, at offset", value: at as u64 };
            if letter == 'p' {
                caps |= Self::PIN;
                continue;
            }
            if let Some(found) = PARTS.iter().find(|(name, ..)| *name == letter) {
                part = Some(found);
                continue;
            }
            let &(_, shift, bits) = part.ok_or(bad)?;
            let &(_, bit) = LETTERS.iter().find(|(name, _)| *name == letter).ok_or(bad)?;
            if bit >> bits != 0 {
                return Err(bad);
            }
            caps.0 |= bit << shift;
        }
        if caps.is_empty() {
            return Err(DecodeError::Invalid { what: "capabilities, at offset", value: 0 });
        }
        Ok(caps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_capabilities_is_ceph_s() {
        let full = "pAsxLsXsxFsxcrwb";
        let caps: Caps = full.parse().expect("capabilities");
        assert_eq!(caps.to_string(), full);
        assert_eq!(caps.0, 1 | 0xc | 0x10 | 0xc0 | 0x3f00);
        assert_eq!("Fl".parse(), Ok(Caps::FILE_LAZYIO));
        assert_eq!("FcrAs".parse(), Ok(Caps::FILE_CACHE | Caps::FILE_RD | Caps::AUTH_SHARED));
        assert_eq!(Caps::NONE.to_string(), "-");
        assert_eq!("-".parse(), Ok(Caps::NONE));
        for text in ["", "s", "Ar", "Fz", "pp A", "Lb"] {
            assert!(text.parse::<Caps>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_set_survives_its_text() {
        for bits in (0..0x1_0000_u32).filter(|bits| bits & 2 == 0) {
            assert_eq!(Caps(bits).to_string().parse(), Ok(Caps(bits)));
        }
    }

    #[test]
    fn sets_are_combined() {
        let caps = Caps::ANY_SHARED | Caps::PIN;
        assert!(caps.contains(Caps::FILE_SHARED) && !caps.intersects(Caps::ANY_WR));
        assert_eq!(caps - Caps::ANY_SHARED, Caps::PIN);
        assert!(Caps::ALL.contains(Caps::ANY_FILE | Caps::ANY_EXCL | Caps::ANY_SHARED));
        assert!(!Caps::ALL.intersects(!Caps::ALL));
    }

    #[test]
    fn objects_of_files_have_ceph_s_names() {
        assert_eq!(Ino(0x100_0000_0001).object_name(0x1f), "10000000001.0000001f");
        assert_eq!(Ino(16).to_string(), "0x10");
    }
}
