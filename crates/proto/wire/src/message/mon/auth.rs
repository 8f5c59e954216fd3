//! Authentication messages inside an authenticated session, used to renew tickets. (The first
//! authentication is part of msgr2's handshake, not a message.)

use bytes::Bytes;

use super::PaxosHeader;
use crate::GlobalId;
use crate::message::macros::message_body;

message_body! {
    /// The client's step of an authentication exchange.
    MAuth = 17 "auth", version 1, compat 1, PRIORITY_DEFAULT {
        /// Unused: no version applies.
        paxos: PaxosHeader,
        /// The method (`CEPH_AUTH_*`): 1 none, 2 cephx.
        protocol: u32,
        /// The method's payload.
        payload: Bytes,
        /// The epoch of the client's monmap; 0 if it has none.
        monmap_epoch: u32,
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
