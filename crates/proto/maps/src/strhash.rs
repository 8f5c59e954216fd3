//! Hash functions that map an object's name to a placement seed (`src/common/ceph_hash.cc`).

use az::SaturatingAs as _;

use crate::mix::mix;

/// The byte between namespace and name in the hashed string.
const NAMESPACE_SEPARATOR: u8 = 0x1f;
const GOLDEN_RATIO: u32 = 0x9e37_79b9;

/// The hash function of a pool (`object_hash`; `CEPH_STR_HASH_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectHash(pub u8);

impl ObjectHash {
    /// The hash of Linux' directory cache.
    pub const LINUX: Self = Self(1);
    /// Robert Jenkins' hash, used by all current pools.
    pub const RJENKINS: Self = Self(2);

    /// Returns the hash of an object in namespace `ns` (empty: none) whose name or locator key is
    /// `name`. Allocates nothing.
    ///
    /// An unknown hash function yields `u32::MAX`, as in Ceph.
    #[inline]
    pub fn of(self, ns: &[u8], name: &[u8]) -> u32 {
        match (self, ns.is_empty()) {
            (Self::RJENKINS, true) => rjenkins(name),
            (Self::RJENKINS, false) => rjenkins_joined([ns, &[NAMESPACE_SEPARATOR], name]),
            (Self::LINUX, true) => linux_dcache(name.iter()),
            (Self::LINUX, false) => linux_dcache(ns.iter().chain(&[NAMESPACE_SEPARATOR]).chain(name)),
            _ => u32::MAX,
        }
    }
}

/// The state of Jenkins' string hash, which processes twelve bytes at a time.
struct Jenkins {
    a: u32,
    b: u32,
    c: u32,
}

impl Jenkins {
    const BLOCK: usize = 12;

    fn new() -> Self {
        Self { a: GOLDEN_RATIO, b: GOLDEN_RATIO, c: 0 }
    }

    #[inline]
    fn absorb(&mut self, block: &[u8; Self::BLOCK]) {
        let [x, y, z] = words(block);
        self.a = self.a.wrapping_add(x);
        self.b = self.b.wrapping_add(y);
        self.c = self.c.wrapping_add(z);
        mix(&mut self.a, &mut self.b, &mut self.c);
    }

    /// Processes the remaining bytes, fewer than a block, and the total length.
    #[inline]
    fn finish(mut self, rest: &[u8], length: usize) -> u32 {
        let mut block = [0; Self::BLOCK];
        block[..rest.len()].copy_from_slice(rest);
        let [x, y, z] = words(&block);
        self.a = self.a.wrapping_add(x);
        self.b = self.b.wrapping_add(y);
        // The lowest byte of the last word is reserved for the length, so the last bytes move up by one.
        self.c = self.c.wrapping_add(z << 8).wrapping_add(length.saturating_as::<u32>());
        mix(&mut self.a, &mut self.b, &mut self.c);
        self.c
    }
}

fn rjenkins(name: &[u8]) -> u32 {
    let mut state = Jenkins::new();
    let (blocks, rest) = name.as_chunks();
    blocks.iter().for_each(|block| state.absorb(block));
    state.finish(rest, name.len())
}

/// Returns the hash of the concatenation of `parts`.
fn rjenkins_joined(parts: [&[u8]; 3]) -> u32 {
    let mut state = Jenkins::new();
    let mut block = [0; Jenkins::BLOCK];
    let mut filled = 0;
    for mut part in parts {
        while let Some((head, tail)) = part.split_at_checked(Jenkins::BLOCK - filled) {
            block[filled..].copy_from_slice(head);
            state.absorb(&block);
            (part, filled) = (tail, 0);
        }
        block[filled..filled + part.len()].copy_from_slice(part);
        filled += part.len();
    }
    state.finish(&block[..filled], parts.iter().map(|part| part.len()).sum())
}

#[inline]
fn words(block: &[u8; Jenkins::BLOCK]) -> [u32; 3] {
    let word = |i: usize| u32::from_le_bytes([block[i], block[i + 1], block[i + 2], block[i + 3]]);
    [word(0), word(4), word(8)]
}

fn linux_dcache<'a>(bytes: impl Iterator<Item = &'a u8>) -> u32 {
    bytes.fold(0u32, |hash, &byte| {
        let c = u32::from(byte);
        hash.wrapping_add(c << 4).wrapping_add(c >> 4).wrapping_mul(11)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: hashes equal those of Ceph. Method: values that `ceph osd map` of a stock cluster printed
    /// for objects of pool 2.
    #[test]
    fn known_hashes() {
        assert_eq!(ObjectHash::RJENKINS.of(b"", b"foo"), 0x7fc1_f406);
        assert_eq!(ObjectHash::RJENKINS.of(b"ns", b"foo"), 0xac17_f0b6);
        let long = b"a-much-longer-object-name.0000000000001234";
        assert_eq!(ObjectHash::RJENKINS.of(b"", long), 0xe885_8fc3);
    }

    #[test]
    fn a_namespace_is_hashed_as_one_string_with_the_name() {
        for hash in [ObjectHash::RJENKINS, ObjectHash::LINUX] {
            for ns_len in 1..40 {
                for name_len in 0..40 {
                    let ns = vec![b'n'; ns_len];
                    let name = vec![b'x'; name_len];
                    let joined = [ns.as_slice(), b"\x1f", name.as_slice()].concat();
                    assert_eq!(hash.of(&ns, &name), hash.of(b"", &joined));
                }
            }
        }
    }
}
