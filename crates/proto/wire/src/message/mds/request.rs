//! Requests to metadata servers: [`ClientRequest`], and the reply [`RequestForward`] that names another
//! server.

use std::fmt;

use az::SaturatingAs as _;
use bytes::Bytes;

use super::op::ARGS_LEN;
use super::{FeatureBits, RequestOp, feature};
use crate::message::macros::message_body;
use crate::message::{Data, Header, Message, concat};
use crate::{CapId, Caps, Decode, DecodeError, Encode, Epoch, Ino, Name, Rank, Reader, Tid, UTime, Writer};

/// A path that begins at an inode (`filepath`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FilePath {
    /// The inode; 0 if the path only has a name, such as the target of a symbolic link.
    pub base: Ino,
    /// The names, separated by slashes. An empty name is the directory of snapshots.
    pub path: Vec<u8>,
}

impl FilePath {
    /// Creates the path of an inode itself, or of a name below it.
    pub fn new(base: Ino, path: impl Into<Vec<u8>>) -> Self {
        Self { base, path: path.into() }
    }

    /// Creates a path without an inode.
    pub fn name(name: impl Into<Vec<u8>>) -> Self {
        Self::new(Ino(0), name)
    }
}

/// Ceph's text: `#0x1/dir/file`.
impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.base != Ino(0) {
            write!(f, "#{}", self.base)?;
            if !self.path.is_empty() {
                f.write_str("/")?;
            }
        }
        Name::from(&self.path).fmt(f)
    }
}

impl Encode for FilePath {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.put(&self.base);
        w.blob(&self.path);
    }
}

impl Decode for FilePath {
    const MIN_LEN: usize = 13;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match r.u8()? {
            1 => Ok(Self { base: r.get()?, path: r.blob()?.to_vec() }),
            other => Err(DecodeError::Invalid { what: "filepath version", value: other.into() }),
        }
    }
}

/// A capability that a request gives back, so that the server need not revoke it, and the lease on a name
/// (`ceph_mds_request_release`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestRelease {
    /// The inode.
    pub ino: Ino,
    /// The number of the capability.
    pub cap_id: CapId,
    /// The capabilities that the client keeps.
    pub caps: Caps,
    /// The capabilities that the client wants.
    pub wanted: Caps,
    /// The newest sequence number that the client has seen.
    pub seq: u32,
    /// The newest issue that the client has seen.
    pub issue_seq: u32,
    /// The number of migrations that the client has seen.
    pub mseq: u32,
    /// The number of the lease on `name`.
    pub lease_seq: u32,
    /// The name in directory `ino` whose lease is given back; empty for none.
    pub name: Vec<u8>,
}

impl Encode for RequestRelease {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.ino);
        w.put(&self.cap_id);
        w.put(&self.caps);
        w.put(&self.wanted);
        w.u32(self.seq);
        w.u32(self.issue_seq);
        w.u32(self.mseq);
        w.u32(self.lease_seq);
        w.blob(&self.name);
    }
}

impl Decode for RequestRelease {
    const MIN_LEN: usize = 44;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            ino: r.get()?,
            cap_id: r.get()?,
            caps: r.get()?,
            wanted: r.get()?,
            seq: r.u32()?,
            issue_seq: r.u32()?,
            mseq: r.u32()?,
            lease_seq: r.u32()?,
            name: r.blob()?.to_vec(),
        })
    }
}

/// The form of a request's fixed part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum HeadVersion {
    /// 98 bytes.
    V1 = 1,
    /// 106 bytes: retries and forwards are counted in 32 bits.
    V2 = 2,
    /// 118 bytes: with the owner of a new inode.
    #[default]
    V3 = 3,
}

impl HeadVersion {
    /// The form that a server with these features reads.
    pub fn for_server(features: &FeatureBits) -> Self {
        match () {
            () if !features.contains(feature::WIDE_RETRY_FWD) => Self::V1,
            () if !features.contains(feature::HAS_OWNER_UIDGID) => Self::V2,
            () => Self::V3,
        }
    }

    /// The highest number of retries that the form can express.
    pub fn max_retries(self) -> u32 {
        if self == Self::V1 { u8::MAX.into() } else { u32::MAX }
    }
}

/// The length of the fixed part in its newest form.
const HEAD_V3_LEN: u32 = 118;

/// The context of an encryption, and the encrypted size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fscrypt {
    /// The context.
    pub auth: Bytes,
    /// The size.
    pub file: Bytes,
}

impl Encode for Fscrypt {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.auth);
        w.put(&self.file);
    }
}

impl Decode for Fscrypt {
    const MIN_LEN: usize = 8;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { auth: r.get()?, file: r.get()? })
    }
}

/// A request to a metadata server. Its number is the message's tid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientRequest {
    /// The form of the fixed part, which depends on the server.
    pub head: HeadVersion,
    /// The client's oldest request that has no final reply; requests for locks do not count.
    pub oldest_client_tid: Tid,
    /// The epoch of the client's MDS map.
    pub mdsmap_epoch: Epoch,
    /// [`ClientRequest::REPLAY`] and the constants after it.
    pub flags: u32,
    /// How often the request was sent before.
    pub num_retry: u32,
    /// How often the request was forwarded.
    pub num_fwd: u32,
    /// The operation and its arguments.
    pub op: RequestOp,
    /// The user on whose behalf the request is made.
    pub caller_uid: u32,
    /// The user's group.
    pub caller_gid: u32,
    /// The number of the inode that this request creates: of one created before in a replay, of a
    /// delegated one in an asynchronous creation.
    pub ino: Ino,
    /// The owner of a new inode; not sent in forms before [`HeadVersion::V3`].
    pub owner_uid: u32,
    /// The owner's group.
    pub owner_gid: u32,
    /// The object of the operation.
    pub path: FilePath,
    /// A second object, or a name; see [`RequestOp`].
    pub path2: FilePath,
    /// Capabilities and leases to give back.
    pub releases: Vec<RequestRelease>,
    /// The client's time, which becomes the time of the change.
    pub stamp: UTime,
    /// The user's further groups.
    pub gids: Vec<u64>,
    /// The second form of a new name.
    pub alternate_name: Vec<u8>,
    /// The encryption of a new inode. `None` selects version 5, which release 16 writes.
    pub fscrypt: Option<Fscrypt>,
    /// The value of an extended attribute, or the first attributes of a new inode.
    pub data: Bytes,
}

impl ClientRequest {
    /// The request was made before; the server lost it, or its effect, in a restart.
    pub const REPLAY: u32 = 1;
    /// The reply is to contain directory and name.
    pub const WANT_DENTRY: u32 = 2;
    /// The client has not waited for this request.
    pub const ASYNC: u32 = 4;

    fn encode_head(&self, w: &mut Writer) {
        w.u16(self.head as u16);
        w.put(&self.oldest_client_tid);
        w.put(&self.mdsmap_epoch);
        w.u32(self.flags);
        w.u8(self.num_retry.saturating_as::<u8>());
        w.u8(self.num_fwd.saturating_as::<u8>());
        w.u16(
            u16::try_from(self.releases.len()).expect("a request releases at most RELEASES_MAX capabilities"),
        );
        w.u32(self.op.code());
        w.u32(self.caller_uid);
        w.u32(self.caller_gid);
        w.put(&self.ino);
        self.op.encode_args(w);
        if self.head >= HeadVersion::V2 {
            w.u32(self.num_retry);
            w.u32(self.num_fwd);
        }
        if self.head >= HeadVersion::V3 {
            w.u32(HEAD_V3_LEN);
            w.u32(self.owner_uid);
            w.u32(self.owner_gid);
        }
    }

    /// The maximum number of capabilities that a request can give back.
    pub const RELEASES_MAX: usize = u16::MAX as usize;

    /// Reads the fixed part. Returns the number of releases that follow the paths.
    fn decode_head(&mut self, r: &mut Reader<'_>) -> Result<u32, DecodeError> {
        let version = r.u16()?;
        self.head = match version {
            0 => return Err(DecodeError::Invalid { what: "request head's version", value: 0 }),
            1 => HeadVersion::V1,
            2 => HeadVersion::V2,
            _ => HeadVersion::V3,
        };
        self.oldest_client_tid = r.get()?;
        self.mdsmap_epoch = r.get()?;
        self.flags = r.u32()?;
        self.num_retry = r.u8()?.into();
        self.num_fwd = r.u8()?.into();
        let releases = r.u16()?;
        let code = r.u32()?;
        self.caller_uid = r.u32()?;
        self.caller_gid = r.u32()?;
        self.ino = r.get()?;
        self.op = RequestOp::decode_args(code, r.array::<ARGS_LEN>()?)?;
        if self.head >= HeadVersion::V2 {
            self.num_retry = r.u32()?;
            self.num_fwd = r.u32()?;
        }
        if self.head >= HeadVersion::V3 {
            let len = r.u32()?;
            self.owner_uid = r.u32()?;
            self.owner_gid = r.u32()?;
            r.skip(len.saturating_sub(HEAD_V3_LEN) as usize)?; // what a newer client adds
        }
        Ok(releases.into())
    }
}

impl Message for ClientRequest {
    const NAME: &'static str = "client_request";
    const KIND: u16 = 24;
    const VERSION: u16 = 6;
    const COMPAT: u16 = 1;

    fn version(&self) -> u16 {
        if self.fscrypt.is_some() { 6 } else { 5 }
    }

    fn encode_front(&self, w: &mut Writer) {
        self.encode_head(w);
        w.put(&self.path);
        w.put(&self.path2);
        self.releases.iter().for_each(|release| w.put(release));
        w.put(&self.stamp);
        w.put(&self.gids);
        w.blob(&self.alternate_name);
        if let Some(fscrypt) = &self.fscrypt {
            w.put(fscrypt);
        }
    }

    fn data(&self) -> Data {
        [&self.data].into_iter().filter(|bytes| !bytes.is_empty()).cloned().collect()
    }

    fn front_len_hint(&self) -> usize {
        let names = self.path.path.len() + self.path2.path.len() + self.alternate_name.len();
        200 + names + self.gids.len() * 8 + self.releases.len() * 64
    }

    fn decode(header: &Header, r: &mut Reader<'_>, data: &Data) -> Result<Self, DecodeError> {
        if header.version < 4 {
            // The fixed part has another form, which clients without the feature FS_BTIME use.
            let version = header.version.saturating_as::<u8>();
            return Err(DecodeError::TooOld { what: Self::NAME, version, oldest: 4 });
        }
        let mut request = Self { data: concat(data), ..Self::default() };
        let releases = request.decode_head(r)?;
        request.path = r.get()?;
        request.path2 = r.get()?;
        request.releases = super::snap::decode_list(r, releases)?;
        request.stamp = r.get()?;
        request.gids = r.get()?;
        if header.version >= 5 {
            request.alternate_name = r.blob()?.to_vec();
        }
        if header.version >= 6 {
            request.fscrypt = Some(r.get()?);
        }
        Ok(request)
    }
}

message_body! {
    /// A server tells the client to send a request to another one.
    RequestForward = 25 "client_request_forward", version 1, compat 1, PRIORITY_DEFAULT {
        /// The server to ask.
        dest: Rank,
        /// How often the request was forwarded, with this time.
        num_fwd: u32,
        /// Always set: the client must send the request.
        must_resend: bool,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{OpenArgs, ReadDirArgs};
    use super::*;
    use crate::message::Msg;
    use proptest::prelude::*;

    fn sample(head: HeadVersion) -> ClientRequest {
        ClientRequest {
            head,
            oldest_client_tid: Tid(2),
            mdsmap_epoch: Epoch(3),
            flags: ClientRequest::WANT_DENTRY,
            num_retry: 4,
            num_fwd: 5,
            op: RequestOp::Create(OpenArgs { flags: OpenArgs::CREAT, pool: -1, ..OpenArgs::default() }),
            caller_uid: 6,
            caller_gid: 7,
            ino: Ino(8),
            owner_uid: if head == HeadVersion::V3 { 9 } else { 0 },
            owner_gid: if head == HeadVersion::V3 { 10 } else { 0 },
            path: FilePath::new(Ino::ROOT, "name"),
            path2: FilePath::default(),
            releases: vec![
                RequestRelease {
                    ino: Ino::ROOT,
                    cap_id: CapId(11),
                    name: b"old".to_vec(),
                    ..Default::default()
                },
                RequestRelease::default(),
            ],
            stamp: UTime { sec: 12, nsec: 13 },
            gids: vec![14],
            alternate_name: b"alt".to_vec(),
            fscrypt: None,
            data: Bytes::from_static(b"value"),
        }
    }

    #[test]
    fn the_fixed_part_has_three_lengths() {
        for (head, len) in [(HeadVersion::V1, 98), (HeadVersion::V2, 106), (HeadVersion::V3, 118)] {
            let body = sample(head);
            let msg = Msg::new(&body);
            let rest = (13 + 4) + 13 + (44 + 3) + 44 + 8 + (4 + 8) + (4 + 3);
            assert_eq!((msg.header.version, msg.front.len()), (5, len + rest));
            assert_eq!(msg.open(), Ok(body));
        }
    }

    #[test]
    fn fields_are_where_ceph_has_them() {
        let front = Msg::new(&sample(HeadVersion::V3)).front;
        assert_eq!(&front[..22], b"\x03\0\x02\0\0\0\0\0\0\0\x03\0\0\0\x02\0\0\0\x04\x05\x02\0");
        assert_eq!(&front[22..34], b"\x01\x13\0\0\x06\0\0\0\x07\0\0\0");
        assert_eq!(&front[34..46], b"\x08\0\0\0\0\0\0\0\x40\0\0\0");
        assert_eq!(&front[98..118], b"\x04\0\0\0\x05\0\0\0\x76\0\0\0\x09\0\0\0\x0a\0\0\0");
        assert_eq!(&front[118..135], b"\x01\x01\0\0\0\0\0\0\0\x04\0\0\0name");
    }

    #[test]
    fn what_a_newer_client_adds_is_skipped() {
        let body = ClientRequest { fscrypt: Some(Fscrypt::default()), ..sample(HeadVersion::V3) };
        let msg = Msg::new(&body);
        assert_eq!((msg.header.version, msg.open().as_ref()), (6, Ok(&body)));
        let mut front = msg.front[..118].to_vec();
        front[0] = 4;
        front[106] = 118 + 3;
        front.extend_from_slice(b"new");
        front.extend_from_slice(&msg.front[118..]);
        assert_eq!(Msg { front: front.into(), ..msg }.open(), Ok(body));
    }

    #[test]
    fn old_and_impossible_requests_are_refused() {
        let mut msg = Msg::new(&sample(HeadVersion::V1));
        msg.header.version = 3;
        assert!(matches!(msg.open::<ClientRequest>(), Err(DecodeError::TooOld { version: 3, .. })));
        msg.header.version = 5;
        let mut front = msg.front.to_vec();
        front[20..22].copy_from_slice(&u16::MAX.to_le_bytes());
        msg.front = front.into();
        assert!(matches!(msg.open::<ClientRequest>(), Err(DecodeError::Truncated { .. })));
        let mut w = Writer::new();
        w.u8(2);
        w.zeros(12);
        assert!(FilePath::from_bytes(&w.into_bytes()).is_err());
    }

    #[test]
    fn a_server_s_features_choose_the_form() {
        let form = |bits: &[u32]| HeadVersion::for_server(&FeatureBits::of(bits));
        assert_eq!(form(&[feature::REPLY_ENCODING]), HeadVersion::V1);
        assert_eq!(form(&[feature::WIDE_RETRY_FWD]), HeadVersion::V2);
        assert_eq!(form(&[feature::WIDE_RETRY_FWD, feature::HAS_OWNER_UIDGID]), HeadVersion::V3);
        assert_eq!((HeadVersion::V1.max_retries(), HeadVersion::V2.max_retries()), (255, u32::MAX));
    }

    #[test]
    fn forwards_and_paths() {
        let body = RequestForward { dest: Rank(1), num_fwd: 2, must_resend: true };
        assert_eq!(&Msg::new(&body).front[..], b"\x01\0\0\0\x02\0\0\0\x01");
        assert_eq!(Msg::new(&body).open(), Ok(body));
        assert_eq!(FilePath::new(Ino::ROOT, "a/b").to_string(), "#0x1/a/b");
        assert_eq!(FilePath::new(Ino(16), "").to_string(), "#0x10");
        assert_eq!(FilePath::name("x").to_string(), "x");
    }

    proptest! {
        #[test]
        fn any_request_is_read_back(
            paths in prop::array::uniform2(prop::collection::vec(any::<u8>(), 0..40)),
            numbers in prop::array::uniform4(any::<u32>()),
            releases in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..10), 0..4),
            gids in prop::collection::vec(any::<u64>(), 0..4),
        ) {
            let [path, path2] = paths.map(|path| FilePath::new(Ino(numbers[0].into()), path));
            let release = |name| RequestRelease { name, seq: numbers[1], ..RequestRelease::default() };
            let args = ReadDirArgs { max_entries: numbers[2], offset_hash: numbers[3], ..Default::default() };
            let body = ClientRequest {
                num_retry: numbers[1],
                op: RequestOp::ReadDir(args),
                path,
                path2,
                releases: releases.into_iter().map(release).collect(),
                gids,
                fscrypt: Some(Fscrypt::default()),
                ..ClientRequest::default()
            };
            prop_assert_eq!(Msg::new(&body).open(), Ok(body));
        }

        #[test]
        fn a_cut_request_is_an_error(at in any::<prop::sample::Index>()) {
            let mut msg = Msg::new(&sample(HeadVersion::V3));
            msg.front = msg.front.slice(..at.index(msg.front.len()));
            prop_assert!(msg.open::<ClientRequest>().is_err());
        }
    }
}
