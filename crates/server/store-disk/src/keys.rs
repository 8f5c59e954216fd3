//! The keys of the map. The first byte is the kind of the row; numbers are big-endian, so that rows are in
//! order.
//!
//! | key | value |
//! |---|---|
//! | `C` pool `u64`, seed `u32` | a collection: [`rows::CollectionRow`](super::rows::CollectionRow) |
//! | `D` collection `u32`, group `u64` | [`RECORDS_PER_ROW`] operation records |
//! | `K` object `u64`, chunk `u32` | where a chunk's blocks lie |
//! | `M` | the store: [`rows::StoreRow`](super::rows::StoreRow) |
//! | `O` collection `u32`, name | an object: see [`rows::encode_object`](super::rows::encode_object) |
//! | `P` object `u64`, key | a value of the object's omap |
//! | `R` row `u32` | the reference counts of shared blocks among 4,096: see [`shares`](super::shares) |
//! | `S` row `u32` | which of 4,096 blocks are in use |
//!
//! A name is encoded as its hash with the bits reversed, the namespace, the locator key (the name, if
//! there is none), how the name compares to that (1, 2, 3: before, equal, after; followed by the name
//! unless it is equal), and the snapshot. Texts end with `00 01`; a zero byte within is `00 ff`. Rows are
//! therefore in the order in which Ceph lists objects.

use std::cmp::Ordering;

use bytes::{BufMut, Bytes, BytesMut};
use loligo_store::{ObjectName, ObjectRef};
use loligo_wire::{PgId, SnapId};

/// The number of operation records in one row.
pub(super) const RECORDS_PER_ROW: u64 = 64;

pub(super) const STORE: &[u8] = b"M";

pub(super) fn collection(pg: PgId) -> Bytes {
    let mut key = BytesMut::with_capacity(13);
    key.put_u8(b'C');
    key.put_i64(pg.pool.0);
    key.put_u32(pg.seed);
    key.freeze()
}

pub(super) fn records(collection: u32, group: u64) -> Bytes {
    let mut key = BytesMut::with_capacity(13);
    key.put_u8(b'D');
    key.put_u32(collection);
    key.put_u64(group);
    key.freeze()
}

pub(super) fn chunk(object: u64, chunk: u32) -> Bytes {
    let mut key = BytesMut::with_capacity(13);
    key.put_u8(b'K');
    key.put_u64(object);
    key.put_u32(chunk);
    key.freeze()
}

pub(super) fn omap(object: u64, name: &[u8]) -> Bytes {
    let mut key = BytesMut::with_capacity(9 + name.len());
    key.put_u8(b'P');
    key.put_u64(object);
    key.put_slice(name);
    key.freeze()
}

/// The length of the prefix before an omap key.
pub(super) const OMAP_PREFIX_LEN: usize = 9;

pub(super) fn shared(row: u32) -> Bytes {
    let mut key = BytesMut::with_capacity(5);
    key.put_u8(b'R');
    key.put_u32(row);
    key.freeze()
}

pub(super) fn space(row: u32) -> Bytes {
    let mut key = BytesMut::with_capacity(5);
    key.put_u8(b'S');
    key.put_u32(row);
    key.freeze()
}

/// The prefix of a collection's objects. The prefix of the next number is after all of them.
pub(super) fn objects(collection: u32) -> Bytes {
    let mut key = BytesMut::with_capacity(5);
    key.put_u8(b'O');
    key.put_u32(collection);
    key.freeze()
}

pub(super) fn object(collection: u32, oid: ObjectRef<'_>) -> Bytes {
    let mut key = BytesMut::with_capacity(24 + oid.nspace.len() + oid.key.len() + 2 * oid.name.len());
    key.put_u8(b'O');
    key.put_u32(collection);
    key.put_u32(oid.reversed_hash());
    put_text(&mut key, oid.nspace);
    let locator = if oid.key.is_empty() { oid.name } else { oid.key };
    put_text(&mut key, locator);
    match oid.name.cmp(locator) {
        Ordering::Equal => key.put_u8(2),
        order => {
            key.put_u8(if order == Ordering::Less { 1 } else { 3 });
            put_text(&mut key, oid.name);
        }
    }
    match oid.snap {
        SnapId::HEAD => key.put_u8(1),
        SnapId::DIR => key.put_u8(2),
        snap => {
            key.put_u8(0);
            key.put_u64(snap.0);
        }
    }
    key.freeze()
}

/// Returns the name that an object's key encodes; `None` if the key is invalid.
pub(super) fn object_name(key: &[u8]) -> Option<ObjectName> {
    let rest = key.strip_prefix(b"O")?.get(4..)?;
    let (hash, rest) = rest.split_first_chunk::<4>()?;
    let (nspace, rest) = take_text(rest)?;
    let (locator, rest) = take_text(rest)?;
    let (order, rest) = rest.split_first()?;
    let (name, rest) = match order {
        2 => (locator.clone(), rest),
        1 | 3 => take_text(rest)?,
        _ => return None,
    };
    let snap = match rest {
        [1] => SnapId::HEAD,
        [2] => SnapId::DIR,
        [0, snap @ ..] => SnapId(u64::from_be_bytes(snap.try_into().ok()?)),
        _ => return None,
    };
    let key = if *order == 2 { &[][..] } else { &locator };
    let hash = u32::from_be_bytes(*hash).reverse_bits();
    ObjectName::new(ObjectRef { hash, nspace: &nspace, key, name: &name, snap }).ok()
}

fn put_text(key: &mut BytesMut, text: &[u8]) {
    for part in text.split_inclusive(|byte| *byte == 0) {
        key.put_slice(part);
        if part.last() == Some(&0) {
            key.put_u8(0xff);
        }
    }
    key.put_slice(&[0, 1]);
}

fn take_text(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut text = Vec::new();
    let mut rest = bytes;
    loop {
        let zero = rest.iter().position(|byte| *byte == 0)?;
        text.extend_from_slice(&rest[..zero]);
        match rest.get(zero + 1)? {
            1 => return Some((text, &rest[zero + 2..])),
            0xff => text.push(0),
            _ => return None,
        }
        rest = &rest[zero + 2..];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(vec![0, 1, 2, b'a', 0xfe, 0xff]), 0..4)
    }

    fn name() -> impl Strategy<Value = ObjectName> {
        let hash = prop::sample::select(vec![0, 1, 2, u32::MAX, 0x8000_0000]);
        let snap = prop::sample::select(vec![SnapId(0), SnapId(7), SnapId::HEAD, SnapId::DIR]);
        (hash, text(), text(), text(), snap).prop_map(|(hash, nspace, key, name, snap)| {
            ObjectName::new(ObjectRef { hash, nspace: &nspace, key: &key, name: &name, snap }).expect("short")
        })
    }

    proptest! {
        #[test]
        fn keys_lie_in_the_order_of_names(a in name(), b in name()) {
            let (ka, kb) = (object(7, a.as_ref()), object(7, b.as_ref()));
            prop_assert_eq!(ka.cmp(&kb), a.cmp(&b));
            prop_assert!(objects(7) < ka && ka < objects(8));
            let read = object_name(&ka).expect("a key of ours");
            prop_assert_eq!(read.cmp(&a), Ordering::Equal);
        }

        #[test]
        fn nonsense_is_no_name(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut key = b"O".to_vec();
            key.extend_from_slice(&bytes);
            if let Some(name) = object_name(&key) {
                let collection = u32::from_be_bytes(bytes[..4].try_into().expect("a name has them"));
                let normal = object(collection, name.as_ref());
                prop_assert_eq!(object_name(&normal).map(|n| n.cmp(&name)), Some(Ordering::Equal));
            }
        }
    }
}
