//! Messages of a client's session with a monitor: maps, subscriptions and configuration.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::message::macros::message_body;
use crate::message::{Data, Header, Message};
use crate::{Decode, DecodeError, Encode, Reader, Uuid, Writer};

message_body! {
    /// Requests the monmap.
    MMonGetMap = 5 "mon_getmap", version 1, compat 1, PRIORITY_DEFAULT {}
}

message_body! {
    /// The encoded monmap; `loligo-maps` decodes it.
    MMonMap = 4 "mon_map", version 1, compat 1, PRIORITY_HIGH {
        /// The monmap.
        monmap: Bytes,
    }
}

message_body! {
    /// Settings from the monitors' configuration database. Every client receives this message at the
    /// start of its session; it is often empty.
    MConfig = 62 "config", version 1, compat 1, PRIORITY_HIGH {
        /// Options and their values.
        config: BTreeMap<String, String>,
    }
}

/// A client's subscription to one kind of map or setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subscription {
    /// The first version wanted; for the osdmap, 0 means the newest full map.
    pub start: u64,
    /// Whether the client wants only the next version, not all that follow.
    pub onetime: bool,
}

impl Encode for Subscription {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.start);
        w.bool(self.onetime);
    }
}

impl Decode for Subscription {
    const MIN_LEN: usize = 9;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { start: r.u64()?, onetime: r.bool()? })
    }
}

/// Subscribes to changes: `monmap`, `config`, `osdmap`, `mgrmap`, … (version 3 of the message).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MMonSubscribe {
    /// The subscribed kinds, and the first version wanted of each.
    pub what: BTreeMap<String, Subscription>,
    /// The sender's host name, for operators.
    pub hostname: String,
}

impl Message for MMonSubscribe {
    const NAME: &'static str = "mon_subscribe";
    const KIND: u16 = 15;
    const VERSION: u16 = 3;
    const COMPAT: u16 = 1;

    fn encode_front(&self, w: &mut Writer) {
        w.put(&self.what);
        w.put(&self.hostname);
    }

    fn decode(header: &Header, r: &mut Reader<'_>, _: &Data) -> Result<Self, DecodeError> {
        let what = r.get()?;
        // Kernel clients send version 2, which ends here.
        let hostname = if header.version >= 3 { r.get()? } else { String::new() };
        Ok(Self { what, hostname })
    }
}

message_body! {
    /// Acknowledges a subscription. Clients since jewel do not need it; older ones renew the
    /// subscription within the interval.
    MMonSubscribeAck = 16 "mon_subscribe_ack", version 1, compat 1, PRIORITY_HIGH {
        /// Seconds until the subscription must be renewed.
        interval_s: u32,
        /// The cluster.
        fsid: Uuid,
    }
}

message_body! {
    /// Requests the newest version number of a map.
    MMonGetVersion = 19 "mon_get_version", version 1, compat 1, PRIORITY_DEFAULT {
        /// The sender's id for the request.
        handle: u64,
        /// The kind of map: `osdmap`, `monmap`, …
        what: String,
    }
}

message_body! {
    /// The reply to [`MMonGetVersion`].
    MMonGetVersionReply = 20 "mon_get_version_reply", version 2, compat 2, PRIORITY_HIGH {
        /// The id from the request.
        handle: u64,
        /// The newest version; 0 if there is no such map.
        version: u64,
        /// The oldest version that the monitor still stores.
        oldest: u64,
    }
}

message_body! {
    /// Checks whether the peer is alive (`ceph ping`).
    MPing = 2 "ping", version 1, compat 1, PRIORITY_DEFAULT {}
}
