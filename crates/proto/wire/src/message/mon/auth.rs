//! Authentication messages inside an authenticated session, used to renew tickets. (The first
//! authentication is part of msgr2's handshake, not a message; with version 1 of the messenger it is these
//! messages.)

use bytes::Bytes;

use super::PaxosHeader;
use crate::message::macros::message_body;
use crate::message::{Data, Header, Message};
use crate::{DecodeError, GlobalId, Reader, Writer};

/// The client's step of an authentication exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MAuth {
    /// Unused: no version applies.
    pub paxos: PaxosHeader,
    /// The method (`CEPH_AUTH_*`): 1 none, 2 cephx.
    pub protocol: u32,
    /// The method's payload.
    pub payload: Bytes,
    /// The epoch of the client's monmap; 0 if it has none.
    pub monmap_epoch: u32,
}

impl Message for MAuth {
    const NAME: &'static str = "auth";
    const KIND: u16 = 17;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;
    const PRIORITY: u16 = Header::PRIORITY_DEFAULT;

    fn encode_front(&self, w: &mut Writer) {
        w.put(&self.paxos);
        w.u32(self.protocol);
        w.put(&self.payload);
        w.u32(self.monmap_epoch);
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Data) -> Result<Self, DecodeError> {
        let (paxos, protocol, payload) = (r.get()?, r.u32()?, r.get()?);
        // Kernel clients do not send it.
        let monmap_epoch = if r.remaining() == 0 { 0 } else { r.u32()? };
        Ok(Self { paxos, protocol, payload, monmap_epoch })
    }
}

message_body! {
    /// The monitor's step of an authentication exchange.
    MAuthReply = 18 "auth_reply", version 1, compat 1, PRIORITY_HIGH {
        /// The method.
        protocol: u32,
        /// 0, or a negative errno.
        result: i32,
        /// The client's global id.
        global_id: GlobalId,
        /// The method's payload.
        payload: Bytes,
        /// A text for people.
        message: String,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Msg;

    #[test]
    fn kernels_leave_the_epoch_out() {
        let auth = MAuth { protocol: 2, payload: Bytes::from_static(b"ticket"), ..MAuth::default() };
        let mut msg = Msg::new(&auth);
        msg.front.truncate(msg.front.len() - 4);
        assert_eq!(msg.open::<MAuth>(), Ok(auth));
    }
}
