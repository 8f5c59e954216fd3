//! Capabilities: [`ClientCaps`] in both directions, and [`ClientCapRelease`] from clients.

use az::SaturatingAs as _;
use bytes::Bytes;

use super::{FileLayout, Fscrypt};
use crate::message::{Data, Header, Message};
use crate::{
    CapId, Caps, Decode, DecodeError, Encode, Epoch, Ino, Name, Rank, Reader, SnapId, Tid, UTime, Writer,
};

/// What a message about capabilities asks or says (`CEPH_CAP_OP_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CapOp {
    /// Server: these are the client's capabilities; nothing is taken away.
    #[default]
    Grant = 0,
    /// Server: capabilities are taken away; the client acknowledges with an update.
    Revoke = 1,
    /// Server: the file was truncated.
    Trunc = 2,
    /// Server: the capability moves to another server.
    Export = 3,
    /// Server: the capability has come from another server.
    Import = 4,
    /// Client: what it has and wants, and changes to flush.
    Update = 5,
    /// Client: a capability is gone (not sent by any supported release).
    Drop = 6,
    /// Client: changes to flush (sent by kernels).
    Flush = 7,
    /// Server: a flush is durable.
    FlushAck = 8,
    /// Client: the state of an inode at a snapshot.
    FlushSnap = 9,
    /// Server: a flush of a snapshot's state is durable.
    FlushSnapAck = 10,
    /// Client: a capability is given back (not sent by any supported release).
    Release = 11,
    /// Client: a capability is renewed (not sent by any supported release).
    Renew = 12,
}

impl CapOp {
    const ALL: [Self; 13] = [
        Self::Grant,
        Self::Revoke,
        Self::Trunc,
        Self::Export,
        Self::Import,
        Self::Update,
        Self::Drop,
        Self::Flush,
        Self::FlushAck,
        Self::FlushSnap,
        Self::FlushSnapAck,
        Self::Release,
        Self::Renew,
    ];

    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let code = r.u32()?;
        let known = usize::try_from(code).ok().and_then(|at| Self::ALL.get(at));
        known.copied().ok_or(DecodeError::Invalid { what: "cap op", value: code.into() })
    }
}

/// The other side of a capability's move between servers (`ceph_mds_cap_peer`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapPeer {
    /// The capability's number there.
    pub cap_id: CapId,
    /// The number of its last issue there.
    pub issue_seq: u32,
    /// The number of moves.
    pub mseq: u32,
    /// The server.
    pub mds: Rank,
    /// As in [`ReplyCap::flags`](super::ReplyCap::flags).
    pub flags: u8,
}

impl CapPeer {
    /// The length of the encoding, in bytes.
    const ENCODED_LEN: usize = 21;
}

impl Encode for CapPeer {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.cap_id);
        w.u32(self.issue_seq);
        w.u32(self.mseq);
        w.put(&self.mds);
        w.u8(self.flags);
    }
}

impl Decode for CapPeer {
    const MIN_LEN: usize = Self::ENCODED_LEN;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { cap_id: r.get()?, issue_seq: r.u32()?, mseq: r.u32()?, mds: r.get()?, flags: r.u8()? })
    }
}

/// Size, times and layout of a file in a message about capabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapFile {
    /// The size in bytes.
    pub size: u64,
    /// Server: the size up to which the client may write. Client: the one it asks for.
    pub max_size: u64,
    /// The size of the last truncation.
    pub truncate_size: u64,
    /// The number of the last truncation.
    pub truncate_seq: u32,
    /// The time of the last change of the data.
    pub mtime: UTime,
    /// The time of the last access.
    pub atime: UTime,
    /// The time of the last change of anything.
    pub ctime: UTime,
    /// The layout.
    pub layout: FileLayout,
    /// Counts the changes that set times back.
    pub time_warp_seq: u32,
}

impl CapFile {
    /// The length of the encoding, in bytes.
    const ENCODED_LEN: usize = 84;
}

impl Encode for CapFile {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.size);
        w.u64(self.max_size);
        w.u64(self.truncate_size);
        w.u32(self.truncate_seq);
        w.put(&self.mtime);
        w.put(&self.atime);
        w.put(&self.ctime);
        w.put(&self.layout);
        w.u32(self.time_warp_seq);
    }
}

impl Decode for CapFile {
    const MIN_LEN: usize = Self::ENCODED_LEN;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            size: r.u64()?,
            max_size: r.u64()?,
            truncate_size: r.u64()?,
            truncate_seq: r.u32()?,
            mtime: r.get()?,
            atime: r.get()?,
            ctime: r.get()?,
            layout: r.get()?,
            time_warp_seq: r.u32()?,
        })
    }
}

/// The number of entries of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirCounts {
    /// Files; −1: not known.
    pub nfiles: i64,
    /// Directories; −1: not known.
    pub nsubdirs: i64,
}

impl DirCounts {
    const UNKNOWN: Self = Self { nfiles: -1, nsubdirs: -1 };
}

/// A message about the capabilities on one inode. A flush's number is the message's tid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientCaps {
    /// What the message asks or says.
    pub op: CapOp,
    /// The inode.
    pub ino: Ino,
    /// Its snapshot realm.
    pub realm: Ino,
    /// The number of the capability.
    pub cap_id: CapId,
    /// The number of the issue. A client repeats the newest one that it has seen.
    pub seq: u32,
    /// The number of the last issue.
    pub issue_seq: u32,
    /// Server: the capabilities that the client may have. Client: those that it has.
    pub caps: Caps,
    /// The capabilities that the client wants.
    pub wanted: Caps,
    /// Client: the parts that it flushes. Server, in an acknowledgement: the parts that are durable.
    pub dirty: Caps,
    /// The number of the capability's moves between servers.
    pub mseq: u32,
    /// FLUSHSNAP: the newest snapshot older than the state.
    pub snap_follows: SnapId,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// File type and permissions.
    pub mode: u32,
    /// The number of links.
    pub nlink: u32,
    /// The version of the extended attributes.
    pub xattr_version: u64,
    /// Size, times and layout. Not sent with [`CapOp::Export`].
    pub file: CapFile,
    /// The other side of a move: with [`CapOp::Export`] and [`CapOp::Import`].
    pub peer: CapPeer,
    /// Snapshot realms, to be decoded with [`SnapTrace::from_blob`](super::SnapTrace::from_blob).
    pub snap_trace: Bytes,
    /// The client's locks on the file, to be decoded with
    /// [`HeldLocks::from_blob`](super::HeldLocks::from_blob).
    pub locks: Bytes,
    /// The version of inline data.
    pub inline_version: u64,
    /// Inline data.
    pub inline_data: Bytes,
    /// The osdmap that the receiver must have before it acts on the capabilities.
    pub osd_epoch_barrier: Epoch,
    /// Client: its oldest flush without an acknowledgement.
    pub oldest_flush_tid: Tid,
    /// The user who made the changes; `u32::MAX` if the client has checked that they are allowed.
    pub caller_uid: u32,
    /// The user's group.
    pub caller_gid: u32,
    /// The namespace of the layout's pool.
    pub pool_ns: Name,
    /// The time of creation.
    pub btime: UTime,
    /// Counts changes (for NFS).
    pub change_attr: u64,
    /// [`ClientCaps::SYNC`] and the constants after it.
    pub flags: u32,
    /// The number of a directory's entries.
    pub dir_counts: Option<DirCounts>,
    /// The encryption. `None` selects version 11, which release 16 writes.
    pub fscrypt: Option<Fscrypt>,
    /// The extended attributes, to be decoded with [`Xattrs::from_blob`](super::Xattrs::from_blob). They
    /// travel as the message's middle.
    pub xattrs: Bytes,
}

impl ClientCaps {
    /// The client waits for the acknowledgement.
    pub const SYNC: u32 = 1;
    /// No state at a snapshot is being flushed.
    pub const NO_CAPSNAP: u32 = 2;
    /// The state at a snapshot will be flushed.
    pub const PENDING_CAPSNAP: u32 = 4;

    fn encode_head(&self, w: &mut Writer) {
        w.u32(self.op as u32);
        w.put(&self.ino);
        w.put(&self.realm);
        w.put(&self.cap_id);
        w.u32(self.seq);
        w.u32(self.issue_seq);
        w.put(&self.caps);
        w.put(&self.wanted);
        w.put(&self.dirty);
        w.u32(self.mseq);
        w.put(&self.snap_follows);
        w.count(self.snap_trace.len());
        w.u32(self.uid);
        w.u32(self.gid);
        w.u32(self.mode);
        w.u32(self.nlink);
        w.count(self.xattrs.len());
        w.u64(self.xattr_version);
    }

    /// Reads the fixed part. Returns the length of the realms.
    fn decode_head(&mut self, r: &mut Reader<'_>) -> Result<u32, DecodeError> {
        self.op = CapOp::decode(r)?;
        self.ino = r.get()?;
        self.realm = r.get()?;
        self.cap_id = r.get()?;
        self.seq = r.u32()?;
        self.issue_seq = r.u32()?;
        self.caps = r.get()?;
        self.wanted = r.get()?;
        self.dirty = r.get()?;
        self.mseq = r.u32()?;
        self.snap_follows = r.get()?;
        let trace_len = r.u32()?;
        self.uid = r.u32()?;
        self.gid = r.u32()?;
        self.mode = r.u32()?;
        self.nlink = r.u32()?;
        r.skip(4)?; // the length of the message's middle
        self.xattr_version = r.u64()?;
        Ok(trace_len)
    }

    /// Writes the part that a moving capability uses for its other side.
    fn encode_file(&self, w: &mut Writer) {
        if self.op == CapOp::Export {
            w.put(&self.peer);
            w.zeros(CapFile::ENCODED_LEN - CapPeer::ENCODED_LEN);
        } else {
            w.put(&self.file);
        }
    }

    fn decode_file(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        if self.op == CapOp::Export {
            self.peer = r.get()?;
            r.skip(CapFile::ENCODED_LEN - CapPeer::ENCODED_LEN)
        } else {
            self.file = r.get()?;
            Ok(())
        }
    }

    /// Writes what versions 4 and up added.
    fn encode_additions(&self, w: &mut Writer) {
        w.u64(self.inline_version);
        w.put(&self.inline_data);
        w.put(&self.osd_epoch_barrier);
        w.put(&self.oldest_flush_tid);
        w.u32(self.caller_uid);
        w.u32(self.caller_gid);
        w.put(&self.pool_ns);
        w.put(&self.btime);
        w.u64(self.change_attr);
        w.u32(self.flags);
        let counts = self.dir_counts.unwrap_or(DirCounts::UNKNOWN);
        w.i64(counts.nfiles);
        w.i64(counts.nsubdirs);
        if let Some(fscrypt) = &self.fscrypt {
            w.put(fscrypt);
        }
    }

    fn decode_additions(&mut self, version: u16, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        self.inline_version = r.u64()?;
        self.inline_data = r.get()?;
        self.osd_epoch_barrier = r.get()?;
        self.oldest_flush_tid = r.get()?;
        self.caller_uid = r.u32()?;
        self.caller_gid = r.u32()?;
        self.pool_ns = r.get()?;
        self.btime = r.get()?;
        self.change_attr = r.u64()?;
        self.flags = r.u32()?;
        if version >= 11 {
            let counts = DirCounts { nfiles: r.i64()?, nsubdirs: r.i64()? };
            self.dir_counts = (counts != DirCounts::UNKNOWN).then_some(counts);
        }
        if version >= 12 {
            self.fscrypt = Some(r.get()?);
        }
        Ok(())
    }
}

impl Message for ClientCaps {
    const NAME: &'static str = "client_caps";
    const KIND: u16 = 0x310;
    const VERSION: u16 = 12;
    const COMPAT: u16 = 1;

    fn version(&self) -> u16 {
        if self.fscrypt.is_some() { 12 } else { 11 }
    }

    fn encode_front(&self, w: &mut Writer) {
        self.encode_head(w);
        self.encode_file(w);
        w.raw(&self.snap_trace);
        w.put(&self.locks);
        if self.op == CapOp::Import {
            w.put(&self.peer);
        }
        self.encode_additions(w);
    }

    fn middle(&self) -> Bytes {
        self.xattrs.clone()
    }

    fn set_middle(&mut self, middle: &Bytes) {
        self.xattrs = middle.clone();
    }

    fn front_len_hint(&self) -> usize {
        320 + self.snap_trace.len() + self.locks.len() + self.inline_data.len() + self.pool_ns.len()
    }

    fn decode(header: &Header, r: &mut Reader<'_>, _: &Data) -> Result<Self, DecodeError> {
        if header.version < 10 {
            let version = header.version.saturating_as::<u8>();
            return Err(DecodeError::TooOld { what: Self::NAME, version, oldest: 10 });
        }
        let mut caps = Self::default();
        let trace_len = caps.decode_head(r)?;
        caps.decode_file(r)?;
        caps.snap_trace = Bytes::copy_from_slice(r.raw(trace_len as usize)?);
        caps.locks = r.get()?;
        if caps.op == CapOp::Import {
            caps.peer = r.get()?;
        }
        caps.decode_additions(header.version, r)?;
        Ok(caps)
    }
}

/// A capability that a client gives back (`ceph_mds_cap_item`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapRelease {
    /// The inode.
    pub ino: Ino,
    /// The number of the capability.
    pub cap_id: CapId,
    /// The number of moves that the client has seen.
    pub mseq: u32,
    /// The newest issue that the client has seen. The server ignores the release if it has issued the
    /// capability again since.
    pub issue_seq: u32,
}

impl Encode for CapRelease {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.ino);
        w.put(&self.cap_id);
        w.u32(self.mseq);
        w.u32(self.issue_seq);
    }
}

impl Decode for CapRelease {
    const MIN_LEN: usize = 24;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { ino: r.get()?, cap_id: r.get()?, mseq: r.u32()?, issue_seq: r.u32()? })
    }
}

/// Capabilities that a client gives back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientCapRelease {
    /// The capabilities.
    pub caps: Vec<CapRelease>,
    /// The osdmap that the server must have before it gives them to others.
    pub osd_epoch_barrier: Epoch,
}

impl Message for ClientCapRelease {
    const NAME: &'static str = "client_cap_release";
    const KIND: u16 = 0x313;
    const VERSION: u16 = 2;
    const COMPAT: u16 = 1;

    fn encode_front(&self, w: &mut Writer) {
        w.put(&self.caps);
        w.put(&self.osd_epoch_barrier);
    }

    fn front_len_hint(&self) -> usize {
        8 + self.caps.len() * CapRelease::MIN_LEN
    }

    fn decode(header: &Header, r: &mut Reader<'_>, _: &Data) -> Result<Self, DecodeError> {
        let caps = r.get()?;
        let osd_epoch_barrier = if header.version >= 2 { r.get()? } else { Epoch(0) };
        Ok(Self { caps, osd_epoch_barrier })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PoolId;
    use crate::message::Msg;
    use proptest::prelude::*;

    fn sample(op: CapOp) -> ClientCaps {
        let file = CapFile {
            size: 1,
            max_size: 2,
            truncate_size: 3,
            truncate_seq: 4,
            mtime: UTime { sec: 5, nsec: 6 },
            layout: FileLayout { stripe_unit: 7, stripe_count: 1, object_size: 7, pool: PoolId(8) },
            time_warp_seq: 9,
            ..CapFile::default()
        };
        let peer = CapPeer { cap_id: CapId(10), issue_seq: 11, mseq: 12, mds: Rank(1), flags: 1 };
        let moves = matches!(op, CapOp::Export | CapOp::Import);
        ClientCaps {
            op,
            ino: Ino(13),
            realm: Ino::ROOT,
            cap_id: CapId(14),
            seq: 15,
            issue_seq: 16,
            caps: Caps::FILE_RD,
            wanted: Caps::FILE_WR,
            dirty: Caps::AUTH_EXCL,
            mseq: 17,
            snap_follows: SnapId(18),
            mode: 0o100_644,
            nlink: 1,
            xattr_version: 19,
            file: if op == CapOp::Export { CapFile::default() } else { file },
            peer: if moves { peer } else { CapPeer::default() },
            snap_trace: Bytes::from_static(b"trace"),
            locks: Bytes::from_static(b"locks"),
            pool_ns: "ns".into(),
            flags: ClientCaps::SYNC,
            dir_counts: Some(DirCounts { nfiles: 20, nsubdirs: -1 }),
            xattrs: Bytes::from_static(b"\0\0\0\0"),
            ..ClientCaps::default()
        }
    }

    #[test]
    fn each_operation_is_read_back() {
        for op in CapOp::ALL {
            let body = sample(op);
            let msg = Msg::new(&body);
            let peer = if op == CapOp::Import { 21 } else { 0 };
            let rest = 8 + 4 + 4 + 8 + 8 + (4 + 2) + 8 + 8 + 4 + 16;
            assert_eq!(msg.front.len(), 92 + 84 + 5 + (4 + 5) + peer + rest);
            assert_eq!((msg.header.version, msg.middle.len()), (11, 4));
            assert_eq!(msg.open(), Ok(body));
        }
    }

    #[test]
    fn fields_are_where_ceph_has_them() {
        let front = Msg::new(&sample(CapOp::Update)).front;
        assert_eq!(&front[..12], b"\x05\0\0\0\x0d\0\0\0\0\0\0\0");
        assert_eq!(&front[28..52], b"\x0f\0\0\0\x10\0\0\0\0\x08\0\0\0\x10\0\0\x08\0\0\0\x11\0\0\0");
        assert_eq!(&front[52..64], b"\x12\0\0\0\0\0\0\0\x05\0\0\0");
        assert_eq!(&front[80..92], b"\x04\0\0\0\x13\0\0\0\0\0\0\0");
        assert_eq!((front[92], front[100], front[108], front[116], front[120]), (1, 2, 3, 4, 5));
        assert_eq!((front[144], front[168], front[172]), (7, 8, 9));
        assert_eq!(&front[176..181], b"trace");
        let front = Msg::new(&sample(CapOp::Export)).front;
        assert_eq!(&front[92..113], b"\x0a\0\0\0\0\0\0\0\x0b\0\0\0\x0c\0\0\0\x01\0\0\0\x01");
        assert!(front[113..176].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn versions_follow_from_the_contents() {
        let body = ClientCaps { fscrypt: Some(Fscrypt::default()), ..sample(CapOp::Grant) };
        let mut msg = Msg::new(&body);
        assert_eq!((msg.header.version, msg.open().as_ref()), (12, Ok(&body)));
        msg.header.version = 10;
        let old = ClientCaps { fscrypt: None, dir_counts: None, ..body };
        assert_eq!(msg.open(), Ok(old));
        msg.header.version = 9;
        assert!(matches!(msg.open::<ClientCaps>(), Err(DecodeError::TooOld { version: 9, .. })));
    }

    #[test]
    fn impossible_messages_are_refused() {
        let msg = Msg::new(&sample(CapOp::Grant));
        for (at, value) in [(0, 13_u32), (60, u32::MAX)] {
            let mut front = msg.front.to_vec();
            front[at..at + 4].copy_from_slice(&value.to_le_bytes());
            assert!(Msg { front: front.into(), ..msg.clone() }.open::<ClientCaps>().is_err());
        }
    }

    #[test]
    fn releases_are_24_bytes_each() {
        let cap = CapRelease { ino: Ino(1), cap_id: CapId(2), mseq: 3, issue_seq: 4 };
        let body = ClientCapRelease { caps: vec![cap], osd_epoch_barrier: Epoch(5) };
        let mut msg = Msg::new(&body);
        let expected = b"\x01\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\x04\0\0\0\x05\0\0\0";
        assert_eq!(&msg.front[..], expected);
        assert_eq!(msg.open(), Ok(body.clone()));
        msg.header.version = 1;
        assert_eq!(msg.open(), Ok(ClientCapRelease { osd_epoch_barrier: Epoch(0), ..body }));
        msg.front = Bytes::from_static(b"\xff\xff\xff\xff\0\0\0\0");
        assert!(msg.open::<ClientCapRelease>().is_err());
    }

    proptest! {
        #[test]
        fn a_cut_message_is_an_error(op in 0..13_usize, at in any::<prop::sample::Index>()) {
            let mut msg = Msg::new(&sample(CapOp::ALL[op]));
            msg.front = msg.front.slice(..at.index(msg.front.len()));
            prop_assert!(msg.open::<ClientCaps>().is_err());
        }
    }
}
