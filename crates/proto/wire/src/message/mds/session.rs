//! A client's session with a metadata server: [`ClientSession`].

use std::collections::BTreeMap;

use super::FeatureBits;
use crate::message::{Data, Header, Message};
use crate::{Decode, DecodeError, Encode, Name, Reader, Tid, UTime, Writer};

/// What a session message asks or says (`CEPH_SESSION_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionOp {
    /// Client: open a session.
    #[default]
    RequestOpen,
    /// Server: the session is open.
    Open,
    /// Client: close the session. The sequence number counts the server's messages that were received.
    RequestClose,
    /// Server: the session is closed.
    Close,
    /// Client: renew the lease of all capabilities.
    RequestRenewCaps,
    /// Server: the lease is renewed; the sequence number is the request's.
    RenewCaps,
    /// Server: the lease has run out.
    Stale,
    /// Server: return capabilities until at most `max_caps` are left.
    RecallState,
    /// Server: acknowledge after the releases of capabilities that are queued.
    FlushMsg,
    /// Client: acknowledges `FlushMsg`.
    FlushMsgAck,
    /// Server: the session can no longer write.
    ForceReadOnly,
    /// Server: no session is opened; the reason is `error_string` in the metadata.
    Reject,
    /// Client: make the effects of all replies durable.
    RequestFlushMdLog,
    /// A number that releases 16 to 20 do not use. A server rejects a client that sends it.
    Other(u32),
}

impl SessionOp {
    const NUMBERED: [Self; 13] = [
        Self::RequestOpen,
        Self::Open,
        Self::RequestClose,
        Self::Close,
        Self::RequestRenewCaps,
        Self::RenewCaps,
        Self::Stale,
        Self::RecallState,
        Self::FlushMsg,
        Self::FlushMsgAck,
        Self::ForceReadOnly,
        Self::Reject,
        Self::RequestFlushMdLog,
    ];

    /// The number on the wire.
    pub fn code(self) -> u32 {
        if let Self::Other(code) = self {
            return code;
        }
        (0..).zip(Self::NUMBERED).find(|(_, op)| *op == self).map_or(u32::MAX, |(code, _)| code)
    }

    /// The operation with this number.
    pub fn from_code(code: u32) -> Self {
        let numbered = usize::try_from(code).ok().and_then(|at| Self::NUMBERED.get(at));
        numbered.copied().unwrap_or(Self::Other(code))
    }
}

/// A grant of the client's key, which the server passes on so that the client can check it (`MDSCapAuth`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapAuth {
    /// The user that the grant is for; −1 for every user.
    pub uid: i64,
    /// The groups that the grant is for; empty for all.
    pub gids: Vec<u32>,
    /// The directory that the grant is for, without a leading slash; empty for the root.
    pub path: Name,
    /// The file system that the grant is for; empty for all.
    pub fs_name: Name,
    /// Whether user 0 must not write.
    pub root_squash: bool,
    /// Whether reading is allowed.
    pub readable: bool,
    /// Whether writing is allowed.
    pub writeable: bool,
}

impl Encode for CapAuth {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.versioned(1, 1, |w| {
                w.i64(self.uid);
                w.put(&self.gids);
                w.put(&self.path);
                w.put(&self.fs_name);
                w.bool(self.root_squash);
            });
            w.bool(self.readable);
            w.bool(self.writeable);
        });
    }
}

impl Decode for CapAuth {
    const MIN_LEN: usize = 35;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("MDSCapAuth", 1, 1, |r, _| {
            let (uid, gids, path, fs_name, root_squash) = r.versioned("MDSCapMatch", 1, 1, |r, _| {
                Ok((r.i64()?, r.get()?, r.get()?, r.get()?, r.bool()?))
            })?;
            let (readable, writeable) = (r.bool()?, r.bool()?);
            Ok(Self { uid, gids, path, fs_name, root_squash, readable, writeable })
        })
    }
}

/// A message about a session.
///
/// The version follows from the contents: 1 with neither metadata nor features (old kernel clients reject
/// more), 5 up to `flags`, 6 with `auths` and 7 with `oldest_client_tid`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientSession {
    /// What the message asks or says.
    pub op: SessionOp,
    /// The meaning depends on the operation.
    pub seq: u64,
    /// The sender's time.
    pub stamp: UTime,
    /// RECALL_STATE: the number of capabilities that the client may keep.
    pub max_caps: u32,
    /// RECALL_STATE: the number of leases that the client may keep.
    pub max_leases: u32,
    /// REQUEST_OPEN: the client's host, process, mount point and root; REJECT: the reason.
    pub metadata: BTreeMap<Name, Name>,
    /// The sender's features.
    pub features: FeatureBits,
    /// The kinds of metrics that the sender collects.
    pub metric_spec: FeatureBits,
    /// [`ClientSession::BLOCKLISTED`].
    pub flags: u32,
    /// OPEN: the grants of the client's key; absent from release 16.
    pub auths: Option<Vec<CapAuth>>,
    /// REQUEST_RENEWCAPS: the client's oldest request without a final reply; absent from release 16.
    pub oldest_client_tid: Option<Tid>,
}

impl ClientSession {
    /// REJECT: the client is on the blocklist.
    pub const BLOCKLISTED: u32 = 1;

    /// Creates a message without metadata.
    pub fn new(op: SessionOp, seq: u64) -> Self {
        Self { op, seq, ..Self::default() }
    }

    /// The reason in a REJECT.
    pub fn error_string(&self) -> Option<&Name> {
        self.metadata.get(&b"error_string"[..])
    }

    /// Whether nothing but the fields of version 1 is set.
    fn is_plain(&self) -> bool {
        self.metadata.is_empty() && self.features.is_absent() && self.auths.is_none()
    }
}

impl Message for ClientSession {
    const NAME: &'static str = "client_session";
    const KIND: u16 = 22;
    const VERSION: u16 = 7;
    const COMPAT: u16 = 1;

    fn version(&self) -> u16 {
        match self {
            _ if self.oldest_client_tid.is_some() => 7,
            _ if self.is_plain() => 1,
            Self { auths: None, .. } => 5,
            _ => 6,
        }
    }

    fn encode_front(&self, w: &mut Writer) {
        let version = self.version();
        w.u32(self.op.code());
        w.u64(self.seq);
        w.put(&self.stamp);
        w.u32(self.max_caps);
        w.u32(self.max_leases);
        if version == 1 {
            return;
        }
        w.put(&self.metadata);
        w.put(&self.features);
        w.versioned(1, 1, |w| w.put(&self.metric_spec));
        w.u32(self.flags);
        if version >= 6 {
            w.seq(self.auths.as_deref().unwrap_or_default());
        }
        if let Some(tid) = &self.oldest_client_tid {
            w.put(tid);
        }
    }

    fn decode(header: &Header, r: &mut Reader<'_>, _: &Data) -> Result<Self, DecodeError> {
        let mut session = Self {
            op: SessionOp::from_code(r.u32()?),
            seq: r.u64()?,
            stamp: r.get()?,
            max_caps: r.u32()?,
            max_leases: r.u32()?,
            ..Self::default()
        };
        if header.version >= 2 {
            session.metadata = r.get()?;
        }
        if header.version >= 3 {
            session.features = r.get()?;
        }
        if header.version >= 4 {
            session.metric_spec = r.versioned("metric_spec_t", 1, 1, |r, _| r.get())?;
        }
        if header.version >= 5 {
            session.flags = r.u32()?;
        }
        if header.version >= 6 {
            session.auths = Some(r.get()?);
        }
        if header.version >= 7 {
            session.oldest_client_tid = Some(r.get()?);
        }
        Ok(session)
    }
}

#[cfg(test)]
mod tests {
    use super::super::feature;
    use super::*;
    use crate::message::Msg;
    use proptest::prelude::*;

    fn grant() -> CapAuth {
        CapAuth {
            uid: -1,
            gids: vec![5],
            path: "d".into(),
            fs_name: "fs".into(),
            root_squash: true,
            readable: true,
            writeable: false,
        }
    }

    #[test]
    fn a_plain_message_is_28_bytes() {
        let body =
            ClientSession { max_caps: 3, max_leases: 4, ..ClientSession::new(SessionOp::RenewCaps, 2) };
        let msg = Msg::new(&body);
        assert_eq!(&msg.front[..], b"\x05\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x03\0\0\0\x04\0\0\0");
        assert_eq!((msg.header.version, msg.header.compat_version), (1, 1));
        assert_eq!(msg.open(), Ok(body));
    }

    #[test]
    fn the_version_follows_from_the_contents() {
        let mut body = ClientSession {
            metadata: BTreeMap::from([("hostname".into(), "h".into())]),
            features: FeatureBits::of(&[feature::REPLY_ENCODING]),
            ..ClientSession::new(SessionOp::RequestOpen, 0)
        };
        let mut again = |change: fn(&mut ClientSession)| {
            change(&mut body);
            let msg = Msg::new(&body);
            assert_eq!(msg.open().as_ref(), Ok(&body));
            (msg.header.version, msg.front.len())
        };
        let (version, len) = again(|_| {});
        assert_eq!((version, len), (5, 28 + 4 + 12 + 5 + 12 + 6 + 4 + 4));
        assert!(grant().to_bytes().len() >= CapAuth::MIN_LEN);
        let (version, _) = again(|body| body.auths = Some(vec![grant()]));
        assert_eq!(version, 6);
        let (version, _) = again(|body| body.oldest_client_tid = Some(Tid(8)));
        assert_eq!(version, 7);
    }

    #[test]
    fn older_versions_are_read() {
        let body = ClientSession {
            metadata: BTreeMap::from([("error_string".into(), "no".into())]),
            ..ClientSession::new(SessionOp::Reject, 0)
        };
        let mut msg = Msg::new(&body);
        msg.header.version = 2;
        msg.front = msg.front.slice(..28 + 4 + 16 + 6);
        assert_eq!(msg.open(), Ok(body.clone()));
        assert_eq!(body.error_string(), Some(&"no".into()));
    }

    #[test]
    fn each_operation_has_its_number() {
        for code in 0..20 {
            assert_eq!(SessionOp::from_code(code).code(), code);
        }
        assert_eq!(SessionOp::RequestFlushMdLog.code(), 12);
        assert_eq!(SessionOp::from_code(13), SessionOp::Other(13));
    }

    /// Goal: claims are checked before memory is allocated.
    #[test]
    fn a_claimed_number_of_grants_is_checked() {
        let body = ClientSession { auths: Some(Vec::new()), ..ClientSession::default() };
        let mut msg = Msg::new(&body);
        let mut front = msg.front.to_vec();
        let at = front.len() - 4;
        front[at..].copy_from_slice(&u32::MAX.to_le_bytes());
        msg.front = front.into();
        assert!(msg.open::<ClientSession>().is_err());
    }

    proptest! {
        #[test]
        fn a_cut_message_is_an_error(at in any::<prop::sample::Index>()) {
            let body = ClientSession {
                metadata: BTreeMap::from([("a".into(), "b".into())]),
                auths: Some(Vec::new()),
                oldest_client_tid: Some(Tid(1)),
                ..ClientSession::default()
            };
            let mut msg = Msg::new(&body);
            msg.front = msg.front.slice(..at.index(msg.front.len()));
            prop_assert!(msg.open::<ClientSession>().is_err());
        }
    }
}
