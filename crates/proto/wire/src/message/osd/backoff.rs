//! [`MOSDBackoff`]: an OSD asks a client to stop sending requests on a range of objects, and later to
//! resume.

use super::HObject;
use crate::message::{Data, Header, Message};
use crate::{DecodeError, Epoch, Reader, SpgId, Writer};

/// The kind of a backoff message (`CEPH_OSD_BACKOFF_OP_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackoffOp {
    /// OSD to client: stop sending requests on the range.
    Block = 1,
    /// Client to OSD: acknowledges `Block`.
    AckBlock = 2,
    /// OSD to client: resume, and send the withheld requests again.
    Unblock = 3,
}

/// An OSD's backoff, or a client's acknowledgement of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MOSDBackoff {
    /// The placement group.
    pub pgid: SpgId,
    /// The epoch of the sender's map.
    pub map_epoch: Epoch,
    /// The kind of message.
    pub op: BackoffOp,
    /// The backoff's number in its placement group and connection.
    pub id: u64,
    /// First object of the range.
    pub begin: HObject,
    /// End of the range, exclusive. Equal to `begin` if the range is the single object `begin`.
    pub end: HObject,
}

impl Message for MOSDBackoff {
    const NAME: &'static str = "osd_backoff";
    const KIND: u16 = 61;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;
    const PRIORITY: u16 = Header::PRIORITY_HIGH;

    fn encode_front(&self, w: &mut Writer) {
        w.put(&self.pgid);
        w.put(&self.map_epoch);
        w.u8(self.op as u8);
        w.u64(self.id);
        w.put(&self.begin);
        w.put(&self.end);
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Data) -> Result<Self, DecodeError> {
        let pgid = r.get()?;
        let map_epoch = r.get()?;
        let op = match r.u8()? {
            1 => BackoffOp::Block,
            2 => BackoffOp::AckBlock,
            3 => BackoffOp::Unblock,
            other => return Err(DecodeError::Invalid { what: "backoff op", value: u64::from(other) }),
        };
        Ok(Self { pgid, map_epoch, op, id: r.u64()?, begin: r.get()?, end: r.get()? })
    }
}
