//! [`MOSDOp`]: a client's request to an OSD.

use az::SaturatingAs as _;
use bytes::Bytes;
use smallvec::SmallVec;

use super::{HObject, ObjectLocator, OsdFlags, OsdOp, OsdReqId};
use crate::message::{Data, Header, Message, Msg, concat, skip_trace, write_no_trace};
use crate::{DecodeError, Epoch, Incarnation, PgId, Reader, SnapId, SpgId, UTime, Writer};

/// The operations of a request, in order. librbd and most users of librados send at most two.
pub type Ops = SmallVec<[OsdOp; 2]>;

/// The target of one attempt of a request: the fields that differ between attempts.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The placement group: the hash folded by the sender's map.
    pub spgid: SpgId,
    /// The object's full placement hash.
    pub hash: u32,
    /// The epoch of the map that the sender used.
    pub map_epoch: Epoch,
    /// Flags of the whole request.
    pub flags: OsdFlags,
    /// Pool, namespace and locator key.
    pub locator: &'a ObjectLocator,
    /// The object's name.
    pub oid: &'a [u8],
    /// 0 for the first attempt.
    pub retry_attempt: i32,
}

/// A request to an OSD: operations on one object, executed all or not at all (version 8 of the message).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MOSDOp {
    /// The placement group: the hash folded by the sender's map.
    pub spgid: SpgId,
    /// The object's full placement hash.
    pub hash: u32,
    /// The epoch of the map that the sender used.
    pub map_epoch: Epoch,
    /// Flags of the whole request.
    pub flags: OsdFlags,
    /// The sender; blank except for the incarnation, see [`OsdReqId`].
    pub reqid: OsdReqId,
    /// The sender's incarnation; `reqid.inc` holds the same.
    pub client_inc: Incarnation,
    /// The object's new modification time.
    pub mtime: UTime,
    /// Pool, namespace and locator key.
    pub locator: ObjectLocator,
    /// The object's name; empty in a request to a placement group.
    pub oid: Vec<u8>,
    /// The operations.
    pub ops: Ops,
    /// The snapshot to read.
    pub snapid: SnapId,
    /// The snapshot context's newest snapshot.
    pub snap_seq: SnapId,
    /// The snapshot context, newest first.
    pub snaps: Vec<SnapId>,
    /// 0 for the first attempt.
    pub retry_attempt: i32,
    /// The sender's features.
    pub features: u64,
}

impl MOSDOp {
    /// The priority that clients send requests with (`osd_client_op_priority`).
    pub const CLIENT_PRIORITY: u16 = 63;

    /// Creates the first attempt of a request without a target: the caller sets [`MOSDOp::spgid`], the
    /// hash and the epoch.
    pub fn new(locator: ObjectLocator, oid: Vec<u8>, ops: Ops, flags: OsdFlags) -> Self {
        Self {
            spgid: SpgId::whole(PgId { pool: locator.pool, seed: 0 }),
            hash: 0,
            map_epoch: Epoch(0),
            flags,
            reqid: OsdReqId::default(),
            client_inc: Incarnation(0),
            mtime: UTime::default(),
            locator,
            oid,
            ops,
            snapid: SnapId::HEAD,
            snap_seq: SnapId(0),
            snaps: Vec::new(),
            retry_attempt: 0,
            features: crate::features::SUPPORTED,
        }
    }

    /// The object as a position in the pool's order.
    pub fn hobject(&self) -> HObject {
        HObject {
            key: self.locator.key.clone(),
            oid: self.oid.clone(),
            snap: self.snapid,
            hash: self.hash,
            max: false,
            nspace: self.locator.nspace.clone(),
            pool: self.spgid.pgid.pool.0,
        }
    }

    /// The maximum number of operations in a request on the wire. The sender checks the length of its
    /// list.
    pub const OPS_MAX: usize = u16::MAX as usize;

    /// Whether one of the operations changes the object.
    pub fn may_write(&self) -> bool {
        self.flags.contains(OsdFlags::WRITE)
    }

    /// Encodes one attempt of this request. All other fields are the same in every attempt.
    pub fn pack(&self, attempt: &Attempt<'_>) -> Msg {
        let mut w = Writer::with_capacity(self.front_len(attempt)); // exact: the buffer never grows or moves
        self.encode(attempt, &mut w);
        let header = Header {
            kind: Self::KIND,
            version: Self::VERSION,
            compat_version: Self::COMPAT,
            priority: Self::PRIORITY,
            ..Header::default()
        };
        Msg { header, front: w.into_bytes(), middle: Bytes::new(), data: self.data(), data_crc: None }
    }

    /// The attempt that the request's own fields describe.
    fn attempt(&self) -> Attempt<'_> {
        Attempt {
            spgid: self.spgid,
            hash: self.hash,
            map_epoch: self.map_epoch,
            flags: self.flags,
            locator: &self.locator,
            oid: &self.oid,
            retry_attempt: self.retry_attempt,
        }
    }

    fn encode(&self, attempt: &Attempt<'_>, w: &mut Writer) {
        w.put(&attempt.spgid);
        w.u32(attempt.hash);
        w.put(&attempt.map_epoch);
        w.u32(attempt.flags.bits());
        w.put(&self.reqid);
        write_no_trace(w);
        w.put(&self.client_inc);
        w.put(&self.mtime);
        w.put(attempt.locator);
        w.blob(attempt.oid);
        w.u16(u16::try_from(self.ops.len()).expect("a request has at most OPS_MAX operations"));
        self.ops.iter().for_each(|op| op.encode_fixed(w));
        w.put(&self.snapid);
        w.put(&self.snap_seq);
        w.seq(&self.snaps);
        w.i32(attempt.retry_attempt);
        w.u64(self.features);
    }

    fn front_len(&self, attempt: &Attempt<'_>) -> usize {
        const FIXED: usize =
            SpgId::ENCODED_LEN + 4 + 4 + 4 + OsdReqId::ENCODED_LEN + 24 + 4 + 8 + 4 + 2 + 8 + 8 + 4 + 4 + 8;
        FIXED
            + attempt.locator.encoded_len()
            + attempt.oid.len()
            + self.ops.len() * OsdOp::ENCODED_LEN
            + self.snaps.len() * 8
    }
}

impl Message for MOSDOp {
    const NAME: &'static str = "osd_op";
    const KIND: u16 = 42;
    const VERSION: u16 = 8;
    const COMPAT: u16 = 3;
    const PRIORITY: u16 = Self::CLIENT_PRIORITY;

    fn encode_front(&self, w: &mut Writer) {
        self.encode(&self.attempt(), w);
    }

    fn data(&self) -> Data {
        self.ops.iter().flat_map(OsdOp::pieces).cloned().collect()
    }

    fn front_len_hint(&self) -> usize {
        self.front_len(&self.attempt())
    }

    fn decode(header: &Header, r: &mut Reader<'_>, data: &Data) -> Result<Self, DecodeError> {
        if header.version < Self::VERSION {
            let version = header.version.saturating_as::<u8>();
            return Err(DecodeError::TooOld {
                what: Self::NAME,
                version,
                oldest: Self::VERSION.saturating_as::<u8>(),
            });
        }
        let spgid = r.get()?;
        let hash = r.u32()?;
        let map_epoch = r.get()?;
        let flags = OsdFlags::from_bits_retain(r.u32()?);
        let reqid = r.get()?;
        skip_trace(r)?;
        if header.version >= 9 {
            r.versioned("jspan_context", 1, 1, |_, _| Ok(()))?; // a second kind of tracing
        }
        let client_inc = r.get()?;
        let mtime = r.get()?;
        let locator = r.get()?;
        let oid = r.blob()?.to_vec();
        let num_ops = r.u16()?;
        let ops = decode_ops(r, num_ops.into(), data)?;
        Ok(Self {
            spgid,
            hash,
            map_epoch,
            flags,
            reqid,
            client_inc,
            mtime,
            locator,
            oid,
            ops,
            snapid: r.get()?,
            snap_seq: r.get()?,
            snaps: r.get()?,
            retry_attempt: r.i32()?,
            features: r.u64()?,
        })
    }
}

fn decode_ops(r: &mut Reader<'_>, num_ops: usize, data: &Data) -> Result<Ops, DecodeError> {
    let needed = num_ops * OsdOp::ENCODED_LEN;
    if needed > r.remaining() {
        return Err(DecodeError::Truncated { needed: needed as u64, left: r.remaining() });
    }
    let mut payloads: Bytes = concat(data);
    (0..num_ops).map(|_| OsdOp::decode_fixed(r, &mut payloads)).collect()
}
