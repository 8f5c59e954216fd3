//! Authentication inside an authenticated session: renewal of tickets. (The first authentication is part of
//! msgr2's handshake and no message.)

use bytes::Bytes;

use super::PaxosHeader;
use crate::GlobalId;
use crate::message::macros::message_body;

message_body! {
    /// A step of the client's.
    MAuth = 17 "auth", version 1, compat 1, PRIORITY_DEFAULT {
        /// No version is meant.
        paxos: PaxosHeader,
        /// The method (`CEPH_AUTH_*`): 1 none, 2 cephx.
        protocol: u32,
        /// What the method says.
        payload: Bytes,
        /// The client's monmap; 0 if it has none.
        monmap_epoch: u32,
    }
}

message_body! {
    /// A step of the monitor's.
    MAuthReply = 18 "auth_reply", version 1, compat 1, PRIORITY_HIGH {
        /// The method.
        protocol: u32,
        /// 0, or a negative errno.
        result: i32,
        /// The client's number.
        global_id: GlobalId,
        /// What the method says.
        payload: Bytes,
        /// A text for people.
        message: String,
    }
}
