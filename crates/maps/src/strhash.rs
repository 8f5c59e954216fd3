//! The hashes that turn an object's name into a placement seed (`src/common/ceph_hash.cc`).

use crate::mix::mix;

/// Separates a namespace from the name behind it in what is hashed.
const NAMESPACE_SEPARATOR: u8 = 0x1f;
const GOLDEN_RATIO: u32 = 0x9e37_79b9;

/// Which hash a pool uses (`object_hash`; `CEPH_STR_HASH_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectHash(pub u8);

impl ObjectHash {
    /// Linux' directory cache hash.
    pub const LINUX: Self = Self(1);
    /// Robert Jenkins' hash, what every pool has had for many years.
    pub const RJENKINS: Self = Self(2);

    /// The hash of an object in namespace `ns` (empty: none) whose name or locator key is `name`. Allocates nothing.
    ///
    /// An unknown kind of hash gives `u32::MAX`, as in Ceph.
    #[inline]
    pub fn of(self, ns: &[u8], name: &[u8]) -> u32 {
        match (self, ns.is_empty()) {
            (Self::RJENKINS, true) => rjenkins(&[name]),
            (Self::RJENKINS, false) => rjenkins(&[ns, &[NAMESPACE_SEPARATOR], name]),
            (Self::LINUX, true) => linux_dcache(name.iter()),
            (Self::LINUX, false) => linux_dcache(ns.iter().chain(&[NAMESPACE_SEPARATOR]).chain(name)),
            _ => u32::MAX,
        }
    }
}

/// The hash of the concatenation of `parts`.
fn rjenkins(parts: &[&[u8]]) -> u32 {
    let (mut a, mut b, mut c) = (GOLDEN_RATIO, GOLDEN_RATIO, 0u32);
    let mut block = [0u8; 12];
    let mut filled = 0;
    let mut length = 0usize;
    for part in parts {
        let mut rest = *part;
        length += rest.len();
        while filled + rest.len() >= 12 {
            let (head, tail) = rest.split_at(12 - filled);
            block[filled..].copy_from_slice(head);
            (rest, filled) = (tail, 0);
            let [x, y, z] = words(&block);
            (a, b, c) = (a.wrapping_add(x), b.wrapping_add(y), c.wrapping_add(z));
            mix(&mut a, &mut b, &mut c);
        }
        block[filled..filled + rest.len()].copy_from_slice(rest);
        filled += rest.len();
    }
    block[filled..].fill(0);
    let [x, y, z] = words(&block);
    // The lowest byte of the last word is the length's: the name's last bytes are moved up by one.
    (a, b) = (a.wrapping_add(x), b.wrapping_add(y));
    c = c.wrapping_add(length as u32).wrapping_add(z << 8);
    mix(&mut a, &mut b, &mut c);
    c
}

#[inline]
fn words(block: &[u8; 12]) -> [u32; 3] {
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

    /// As `ceph osd map` of a stock cluster prints them for objects of pool 2.
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
