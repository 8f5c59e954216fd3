//! Creation and removal of pools and snapshots.

use az::SaturatingAs as _;
use bytes::Bytes;

use super::PaxosHeader;
use crate::message::macros::message_body;
use crate::message::{Data, Header, Message};
use crate::{DecodeError, Epoch, Reader, SnapId, Uuid, Writer};

/// An operation on a pool (`POOL_OP_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolOpCode {
    /// Create a pool.
    Create = 0x01,
    /// Remove a pool and its contents.
    Delete = 0x02,
    /// No effect: pools no longer have owners.
    AuidChange = 0x03,
    /// Create a snapshot of the whole pool.
    CreateSnap = 0x11,
    /// Remove a snapshot of the whole pool.
    DeleteSnap = 0x12,
    /// Allocate an id for a snapshot that the client manages. The reply's payload is the id in 64 bits.
    CreateUnmanagedSnap = 0x21,
    /// Remove a snapshot that the client manages.
    DeleteUnmanagedSnap = 0x22,
}

impl PoolOpCode {
    fn from_code(code: u32) -> Result<Self, DecodeError> {
        [
            Self::Create,
            Self::Delete,
            Self::AuidChange,
            Self::CreateSnap,
            Self::DeleteSnap,
            Self::CreateUnmanagedSnap,
            Self::DeleteUnmanagedSnap,
        ]
        .into_iter()
        .find(|op| *op as u32 == code)
        .ok_or(DecodeError::Invalid { what: "pool op", value: u64::from(code) })
    }
}

/// Asks the monitors to change a pool (version 4 of the message).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MPoolOp {
    /// The epoch of the client's osdmap.
    pub paxos: PaxosHeader,
    /// The cluster.
    pub fsid: Uuid,
    /// The pool; 0 to create one.
    pub pool: u32,
    /// The operation.
    pub op: PoolOpCode,
    /// The snapshot's id, for operations that name the snapshot by id.
    pub snapid: SnapId,
    /// The new pool's name, or the snapshot's.
    pub name: Bytes,
    /// The new pool's CRUSH rule; −1 is the cluster's default.
    pub crush_rule: i16,
}

impl Message for MPoolOp {
    const NAME: &'static str = "poolop";
    const KIND: u16 = 49;
    const VERSION: u16 = 4;
    const COMPAT: u16 = 2;

    fn encode_front(&self, w: &mut Writer) {
        w.put(&self.paxos);
        w.put(&self.fsid);
        w.u32(self.pool);
        w.u32(self.op as u32);
        w.u64(0); // was the pool's owner
        w.put(&self.snapid);
        w.put(&self.name);
        w.u8(0);
        w.u16(self.crush_rule.cast_unsigned());
    }

    fn decode(header: &Header, r: &mut Reader<'_>, _: &Data) -> Result<Self, DecodeError> {
        if header.version < Self::VERSION {
            let version = header.version.saturating_as::<u8>();
            return Err(DecodeError::TooOld {
                what: Self::NAME,
                version,
                oldest: Self::VERSION.saturating_as::<u8>(),
            });
        }
        let paxos = r.get()?;
        let fsid = r.get()?;
        let pool = r.u32()?;
        let op = PoolOpCode::from_code(r.u32()?)?;
        r.skip(8)?;
        let snapid = r.get()?;
        let name = r.get()?;
        r.skip(1)?;
        Ok(Self { paxos, fsid, pool, op, snapid, name, crush_rule: r.u16()?.cast_signed() })
    }
}

message_body! {
    /// The reply to an [`MPoolOp`].
    MPoolOpReply = 48 "poolopreply", version 1, compat 1, PRIORITY_HIGH {
        /// The epoch of the osdmap that the reply is based on.
        paxos: PaxosHeader,
        /// The cluster.
        fsid: Uuid,
        /// 0, or a negative errno.
        result: i32,
        /// The epoch of the osdmap that contains the change.
        epoch: Epoch,
        /// The output of operations that have one.
        payload: Option<Bytes>,
    }
}
