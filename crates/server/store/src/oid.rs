//! The name of an object within a collection, and the order in which collections list objects.
//!
//! The order is Ceph's (`cmp(const hobject_t&, const hobject_t&)` in `src/common/hobject.cc`). The first
//! criterion is the placement hash with its bits reversed, so that the objects of a placement group are
//! adjacent whatever the pool's number of groups. Then follow the namespace, the locator key (the name,
//! where there is no key), the name and the snapshot.

use std::cmp::Ordering;
use std::fmt;

use loligo_wire::SnapId;

/// Flag of an [`ObjectName`] whose text ends with a snapshot number: every name except a head's.
const HAS_SNAP: u16 = 1 << 15;
/// The longest namespace or key that [`ObjectName`] holds.
const PART_LEN_MAX: usize = (HAS_SNAP - 1) as usize;

/// The name of an object, borrowed. It does not include the pool, which the collection implies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ObjectRef<'a> {
    /// The placement hash of key or name and namespace, all 32 bits.
    pub hash: u32,
    /// The namespace; the default namespace is empty.
    pub nspace: &'a [u8],
    /// The locator key; usually empty.
    pub key: &'a [u8],
    /// The name.
    pub name: &'a [u8],
    /// The snapshot; [`SnapId::HEAD`] for the current object.
    pub snap: SnapId,
}

impl<'a> ObjectRef<'a> {
    /// The head of an object without a locator key, in the default namespace.
    pub fn head(hash: u32, name: &'a [u8]) -> Self {
        Self { hash, nspace: b"", key: b"", name, snap: SnapId::HEAD }
    }

    /// The first name with this hash: the start of a listing of that hash.
    pub fn first_of_hash(hash: u32) -> Self {
        Self { hash, nspace: b"", key: b"", name: b"", snap: SnapId(0) }
    }

    /// The reversed hash, the first criterion of the order.
    pub fn reversed_hash(&self) -> u32 {
        self.hash.reverse_bits()
    }

    fn effective_key(&self) -> &'a [u8] {
        if self.key.is_empty() { self.name } else { self.key }
    }

    /// The order among names of equal hash.
    pub(crate) fn cmp_same_hash(&self, other: &Self) -> Ordering {
        let by_key = || match (self.key, other.key) {
            (b"", b"") => Ordering::Equal,
            _ => self.effective_key().cmp(other.effective_key()),
        };
        (self.nspace.cmp(other.nspace))
            .then_with(by_key)
            .then_with(|| self.name.cmp(other.name))
            .then_with(|| self.snap.cmp(&other.snap))
    }
}

impl Ord for ObjectRef<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.reversed_hash().cmp(&other.reversed_hash()).then_with(|| self.cmp_same_hash(other))
    }
}

impl PartialOrd for ObjectRef<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for ObjectRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (nspace, key, name) =
            (self.nspace.escape_ascii(), self.key.escape_ascii(), self.name.escape_ascii());
        write!(f, "{:08x}:{nspace}:{key}:{name}:", self.reversed_hash())?;
        match self.snap {
            SnapId::HEAD => f.write_str("head"),
            SnapId::DIR => f.write_str("snapdir"),
            snap => write!(f, "{:x}", snap.0),
        }
    }
}

/// A namespace or a locator key of 32 KiB or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a namespace or locator key of {len} bytes; at most {PART_LEN_MAX} fit")]
pub struct NameTooLong {
    /// Its length in bytes.
    pub len: usize,
}

/// The name of an object, owned: 24 bytes and one allocation, because a store may hold millions.
#[derive(Clone)]
pub struct ObjectName {
    /// Namespace, key, name and, if [`HAS_SNAP`] is set, the snapshot number, little-endian.
    text: Box<[u8]>,
    hash: u32,
    /// Also carries [`HAS_SNAP`].
    nspace_len: u16,
    key_len: u16,
}

impl ObjectName {
    /// Copies a name.
    pub fn new(oid: ObjectRef<'_>) -> Result<Self, NameTooLong> {
        Self::fits(&oid)?;
        let is_head = oid.snap == SnapId::HEAD;
        let snap = oid.snap.0.to_le_bytes();
        let text = [oid.nspace, oid.key, oid.name, if is_head { b"" } else { &snap }].concat();
        let flag = if is_head { 0 } else { HAS_SNAP };
        Ok(Self {
            text: text.into_boxed_slice(),
            hash: oid.hash,
            nspace_len: oid.nspace.len() as u16 | flag,
            key_len: oid.key.len() as u16,
        })
    }

    /// Checks that an [`ObjectName`] can hold the name.
    pub fn fits(oid: &ObjectRef<'_>) -> Result<(), NameTooLong> {
        let len = oid.nspace.len().max(oid.key.len());
        if len > PART_LEN_MAX { Err(NameTooLong { len }) } else { Ok(()) }
    }

    /// The name, borrowed.
    pub fn as_ref(&self) -> ObjectRef<'_> {
        let (text, snap) = match self.nspace_len & HAS_SNAP {
            0 => (&*self.text, SnapId::HEAD),
            _ => {
                let (text, snap) =
                    self.text.split_last_chunk::<8>().expect("`new` put a snapshot's number at the end");
                (text, SnapId(u64::from_le_bytes(*snap)))
            }
        };
        let (nspace, rest) = text.split_at(usize::from(self.nspace_len & !HAS_SNAP));
        let (key, name) = rest.split_at(usize::from(self.key_len));
        ObjectRef { hash: self.hash, nspace, key, name, snap }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_len(&self) -> usize {
        self.text.len()
    }
}

impl PartialEq for ObjectName {
    fn eq(&self, other: &Self) -> bool {
        self.as_ref() == other.as_ref()
    }
}

impl Eq for ObjectName {}

impl PartialOrd for ObjectName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ObjectName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_ref().cmp(&other.as_ref())
    }
}

impl fmt::Debug for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_parts() {
        for snap in [SnapId::HEAD, SnapId::DIR, SnapId(4)] {
            let oid = ObjectRef { hash: 7, nspace: b"ns", key: b"k", name: b"object", snap };
            assert_eq!(ObjectName::new(oid).expect("short parts").as_ref(), oid);
        }
        let empty = ObjectRef { hash: 0, nspace: b"", key: b"", name: b"", snap: SnapId(0) };
        assert_eq!(ObjectName::new(empty).expect("short parts").as_ref(), empty);
        let long = vec![0; PART_LEN_MAX + 1];
        let oid = ObjectRef { nspace: &long, ..empty };
        assert_eq!(ObjectName::new(oid), Err(NameTooLong { len: long.len() }));
    }

    #[test]
    fn the_order_is_that_of_ceph() {
        let a = ObjectRef::head(1, b"z");
        let b = ObjectRef::head(2, b"a");
        assert!(b < a, "hash 2 reversed is 0x4000_0000, hash 1 reversed is 0x8000_0000");
        let keyed = ObjectRef { key: b"m", ..ObjectRef::head(1, b"b") };
        assert!(keyed < a, "key m stands before name z");
        assert!(ObjectRef::head(1, b"c") < keyed, "name c stands before key m");
        assert!(ObjectRef { snap: SnapId(3), ..a } < a, "snapshots stand before the head");
        assert!(a < ObjectRef { nspace: b"n", ..ObjectRef::head(1, b"a") });
        assert!(ObjectRef::first_of_hash(1) < ObjectRef { snap: SnapId(1), ..ObjectRef::head(1, b"") });
    }
}
