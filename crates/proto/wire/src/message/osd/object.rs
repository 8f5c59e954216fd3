//! Types by which requests and replies identify objects and operations: [`ObjectLocator`], [`HObject`],
//! [`RequestRedirect`], [`OsdReqId`].

use crate::{Decode, DecodeError, Encode, EntityNum, Incarnation, PoolId, Reader, SnapId, Tid, Writer};

/// The fields besides the name that determine an object's placement (`object_locator_t`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectLocator {
    /// The pool.
    pub pool: PoolId,
    /// The locator key. Unless empty, it determines the placement instead of the object's name.
    pub key: Vec<u8>,
    /// The namespace; empty for the default one.
    pub nspace: Vec<u8>,
    /// The placement hash, for requests to a whole placement group; [`ObjectLocator::NO_HASH`] otherwise.
    pub hash: i64,
}

impl ObjectLocator {
    /// The value of `hash` for objects that are placed by name or key.
    pub const NO_HASH: i64 = -1;

    /// Creates the locator of the pool's default namespace, with placement by name.
    pub fn in_pool(pool: PoolId) -> Self {
        Self { pool, key: Vec::new(), nspace: Vec::new(), hash: Self::NO_HASH }
    }

    /// The length of the encoding, in bytes.
    pub fn encoded_len(&self) -> usize {
        6 + 8 + 4 + (4 + self.key.len()) + (4 + self.nspace.len()) + 8
    }
}

/// No pool (−1): a redirect with this locator keeps the object's location.
impl Default for ObjectLocator {
    fn default() -> Self {
        Self::in_pool(PoolId(-1))
    }
}

impl Encode for ObjectLocator {
    fn encode(&self, w: &mut Writer) {
        // Readers that do not know the field `hash` would place the request by its (empty) name.
        let compat = if self.hash == Self::NO_HASH { 3 } else { 6 };
        w.versioned(6, compat, |w| {
            w.put(&self.pool);
            w.i32(-1); // formerly the "preferred OSD"
            w.blob(&self.key);
            w.blob(&self.nspace);
            w.i64(self.hash);
        });
    }
}

impl Decode for ObjectLocator {
    const MIN_LEN: usize = 26;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        // Kernel clients write version 5, which has no hash.
        r.versioned("object_locator_t", 5, 6, |r, version| {
            let pool = r.get()?;
            r.skip(4)?;
            let (key, nspace) = (r.blob()?.to_vec(), r.blob()?.to_vec());
            let hash = if version < 6 { Self::NO_HASH } else { r.i64()? };
            Ok(Self { pool, key, nspace, hash })
        })
    }
}

/// An object's full name, ordered as the objects of a pool are (`hobject_t`). Listings and backoffs use
/// it as a position.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HObject {
    /// The locator key if it differs from the name, otherwise empty.
    pub key: Vec<u8>,
    /// The name.
    pub oid: Vec<u8>,
    /// The snapshot, or [`SnapId::HEAD`].
    pub snap: SnapId,
    /// The placement hash.
    pub hash: u32,
    /// Whether this is the position after all objects. All other fields are then ignored.
    pub max: bool,
    /// The namespace.
    pub nspace: Vec<u8>,
    /// The pool; [`HObject::POOL_MIN`] in the position before all objects.
    pub pool: i64,
}

impl HObject {
    /// The pool number that sorts before all pools.
    pub const POOL_MIN: i64 = i64::MIN;

    /// The position before all objects.
    pub fn min() -> Self {
        Self {
            key: Vec::new(),
            oid: Vec::new(),
            snap: SnapId(0),
            hash: 0,
            max: false,
            nspace: Vec::new(),
            pool: Self::POOL_MIN,
        }
    }

    /// The position after all objects.
    pub fn max() -> Self {
        Self { max: true, ..Self::min() }
    }

    /// Whether this is the position before all objects.
    pub fn is_min(&self) -> bool {
        *self == Self::min()
    }

    /// The bytes that determine the placement: the locator key, or the name if there is no key.
    pub fn effective_key(&self) -> &[u8] {
        if self.key.is_empty() { &self.oid } else { &self.key }
    }
}

/// Ceph's "bitwise" order: the maximum is last; otherwise by pool, bit-reversed hash, namespace, key,
/// name, snapshot.
impl Ord for HObject {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        fn rank(o: &HObject) -> (i64, u32, &[u8], &[u8], &[u8], SnapId) {
            (o.pool, o.hash.reverse_bits(), &o.nspace, o.effective_key(), &o.oid, o.snap)
        }
        match (self.max, other.max) {
            (false, false) => rank(self).cmp(&rank(other)),
            (a, b) => a.cmp(&b),
        }
    }
}

impl PartialOrd for HObject {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Encode for HObject {
    fn encode(&self, w: &mut Writer) {
        w.versioned(4, 3, |w| {
            w.blob(&self.key);
            w.blob(&self.oid);
            w.put(&self.snap);
            w.u32(self.hash);
            w.bool(self.max);
            w.blob(&self.nspace);
            w.i64(self.pool);
        });
    }
}

impl Decode for HObject {
    const MIN_LEN: usize = 39;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("hobject_t", 4, 4, |r, _| {
            let mut o = Self {
                key: r.blob()?.to_vec(),
                oid: r.blob()?.to_vec(),
                snap: r.get()?,
                hash: r.u32()?,
                max: r.bool()?,
                nspace: r.blob()?.to_vec(),
                pool: r.i64()?,
            };
            // The oldest writers encode the minimum with pool −1; all readers treat both forms alike.
            if o.pool == -1 && o.snap == SnapId(0) && o.hash == 0 && !o.max && o.oid.is_empty() {
                o.pool = Self::POOL_MIN;
            }
            Ok(o)
        })
    }
}

/// Tells the client, in a reply, to send the request to another location (`request_redirect_t`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestRedirect {
    /// The location to send the request to.
    pub locator: ObjectLocator,
    /// The name of the object to address, unless empty.
    pub object: Vec<u8>,
}

impl Encode for RequestRedirect {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.locator);
            w.blob(&self.object);
            w.u32(0); // formerly a list of instructions; no release sends one
        });
    }
}

impl Decode for RequestRedirect {
    const MIN_LEN: usize = 48;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("request_redirect_t", 1, 1, |r, _| {
            let redirect = Self { locator: r.get()?, object: r.blob()?.to_vec() };
            r.blob()?;
            Ok(redirect)
        })
    }
}

/// The identity of an operation (`osd_reqid_t`), the same in every attempt: the sender, its incarnation
/// and the tid.
///
/// Clients leave name and tid blank: the OSD then uses the sender's number and the tid of the message
/// header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OsdReqId {
    /// The sender.
    pub name: EntityNum,
    /// The sender's number for the operation.
    pub tid: Tid,
    /// The sender's incarnation.
    pub inc: Incarnation,
}

impl OsdReqId {
    /// The length of the encoding, in bytes.
    pub const ENCODED_LEN: usize = 27;
}

impl Encode for OsdReqId {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 2, |w| {
            w.put(&self.name);
            w.put(&self.tid);
            w.put(&self.inc);
        });
    }
}

impl Decode for OsdReqId {
    const MIN_LEN: usize = Self::ENCODED_LEN;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("osd_reqid_t", 2, 2, |r, _| Ok(Self { name: r.get()?, tid: r.get()?, inc: r.get()? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_order_as_listings_do() {
        let named = |hash, oid: &str| HObject {
            pool: 3,
            hash,
            oid: oid.into(),
            snap: SnapId::HEAD,
            ..HObject::min()
        };
        // Bit 0 of the hash is the most significant in this order.
        let order = [HObject::min(), named(2, "b"), named(1, "a"), named(1, "b"), HObject::max()];
        assert!(order.is_sorted());
        assert!(order[0].is_min());
    }

    /// As Linux writes it (`encode_oloc` in `net/ceph/osd_client.c`).
    #[test]
    fn kernels_write_locators_without_a_hash() {
        let mut w = Writer::new();
        w.versioned(5, 4, |w| {
            w.u64(3);
            w.i32(-1);
            w.blob(b"");
            w.blob(b"space");
        });
        let locator = ObjectLocator { nspace: b"space".to_vec(), ..ObjectLocator::in_pool(PoolId(3)) };
        assert_eq!(ObjectLocator::from_bytes(&w.into_bytes()), Ok(locator));
    }

    #[test]
    fn a_blank_place_is_the_start() {
        let hammer = HObject { pool: -1, ..HObject::min() };
        assert_eq!(HObject::from_bytes(&hammer.to_bytes()), Ok(HObject::min()));
    }
}
