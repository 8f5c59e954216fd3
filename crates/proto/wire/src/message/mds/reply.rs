//! Replies of metadata servers: [`ClientReply`], and the contents that depend on the request.
//!
//! Replies consist of versioned structs. Servers use them only with clients that have the feature
//! REPLY_ENCODING ([`feature::REQUIRED`](super::feature::REQUIRED)); the older form is not supported.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::{Frag, InodeStat, LeaseStat};
use crate::message::{Data, Header, Message};
use crate::{Decode, DecodeError, Encode, Epoch, Ino, Rank, Reader, Writer};

/// Who is responsible for a fragment of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirStat {
    /// The fragment.
    pub frag: Frag,
    /// The server that is its authority; [`Rank::NONE`] for that of the directory's inode.
    pub auth: Rank,
    /// The servers that hold copies.
    pub dist: BTreeSet<Rank>,
}

impl Encode for DirStat {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.frag);
            w.put(&self.auth);
            w.put(&self.dist);
        });
    }
}

impl Decode for DirStat {
    const MIN_LEN: usize = 18;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("DirStat", 1, 1, |r, _| Ok(Self { frag: r.get()?, auth: r.get()?, dist: r.get()? }))
    }
}

/// A name in a directory, as a reply describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DentryTrace {
    /// The directory.
    pub dir: InodeStat,
    /// The fragment that contains the name.
    pub dirstat: DirStat,
    /// The name.
    pub name: Vec<u8>,
    /// The lease on the name.
    pub lease: LeaseStat,
}

impl Encode for DentryTrace {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.dir);
        w.put(&self.dirstat);
        w.blob(&self.name);
        w.put(&self.lease);
    }
}

impl Decode for DentryTrace {
    const MIN_LEN: usize = InodeStat::MIN_LEN + DirStat::MIN_LEN + 4 + LeaseStat::MIN_LEN;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { dir: r.get()?, dirstat: r.get()?, name: r.blob()?.to_vec(), lease: r.get()? })
    }
}

/// The inodes that a request touched. A reply without either is possible after a restart of the server:
/// the client must look them up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The name, and the directory that contains it.
    pub dentry: Option<Box<DentryTrace>>,
    /// The inode. A name without an inode does not exist.
    pub target: Option<Box<InodeStat>>,
}

impl Trace {
    /// Whether the reply describes nothing.
    pub fn is_empty(&self) -> bool {
        self.dentry.is_none() && self.target.is_none()
    }
}

/// The reply to a request, whose number it carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientReply {
    /// The number of the request's operation.
    pub op: u32,
    /// 0 or more, or a negative errno of Linux.
    pub result: i32,
    /// The epoch of the server's MDS map.
    pub mdsmap_epoch: Epoch,
    /// Whether the effect is durable. A changing request may have two replies, the first one not safe.
    pub safe: bool,
    /// The inodes.
    pub trace: Trace,
    /// Contents that depend on the operation: [`ReaddirExtra`], [`CreateExtra`], [`VxattrExtra`],
    /// [`FileLockRecord`](super::FileLockRecord).
    pub extra: Bytes,
    /// The target's snapshot realms, to be decoded with
    /// [`SnapTrace::from_blob`](super::SnapTrace::from_blob).
    pub snap: Bytes,
}

impl Message for ClientReply {
    const NAME: &'static str = "client_reply";
    const KIND: u16 = 26;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode_front(&self, w: &mut Writer) {
        w.u32(self.op);
        w.i32(self.result);
        w.put(&self.mdsmap_epoch);
        w.bool(self.safe);
        w.bool(self.trace.dentry.is_some());
        w.bool(self.trace.target.is_some());
        w.sized(|w| {
            if let Some(dentry) = &self.trace.dentry {
                w.put(&**dentry);
            }
            if let Some(target) = &self.trace.target {
                w.put(&**target);
            }
        });
        w.put(&self.extra);
        w.put(&self.snap);
    }

    fn front_len_hint(&self) -> usize {
        1024 + self.extra.len() + self.snap.len()
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Data) -> Result<Self, DecodeError> {
        let (op, result, mdsmap_epoch, safe) = (r.u32()?, r.i32()?, r.get()?, r.bool()?);
        let (has_dentry, has_target) = (r.bool()?, r.bool()?);
        let mut trace = r.sized()?;
        let dentry = if has_dentry { Some(Box::new(trace.get()?)) } else { None };
        let target = if has_target { Some(Box::new(trace.get()?)) } else { None };
        let trace = Trace { dentry, target };
        Ok(Self { op, result, mdsmap_epoch, safe, trace, extra: r.get()?, snap: r.get()? })
    }
}

/// The contents of a directory: the reply to READDIR, LSSNAP and READDIR_SNAPDIFF.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReaddirExtra {
    /// The fragment that was listed. It can differ from the one asked for, if that no longer exists.
    pub dirstat: DirStat,
    /// [`ReaddirExtra::END`] and the constants after it.
    pub flags: u16,
    /// The names, in the order of hashes if the flag says so.
    pub entries: Vec<ReaddirEntry>,
}

/// A name in a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReaddirEntry {
    /// The name.
    pub name: Vec<u8>,
    /// The lease on it.
    pub lease: LeaseStat,
    /// The inode.
    pub stat: InodeStat,
}

impl ReaddirExtra {
    /// The fragment ends here.
    pub const END: u16 = 1;
    /// The list is the whole fragment.
    pub const COMPLETE: u16 = 0x100;
    /// The names are in the order of their hashes.
    pub const HASH_ORDER: u16 = 0x200;
    /// The server understands offsets in hashes.
    pub const OFFSET_HASH: u16 = 0x400;

    /// Whether the fragment ends here.
    pub fn is_end(&self) -> bool {
        self.flags & Self::END != 0
    }
}

impl Encode for ReaddirExtra {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.dirstat);
        w.count(self.entries.len());
        w.u16(self.flags);
        self.entries.iter().for_each(|entry| w.put(entry));
    }
}

impl Decode for ReaddirExtra {
    const MIN_LEN: usize = DirStat::MIN_LEN + 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (dirstat, count, flags) = (r.get()?, r.u32()?, r.u16()?);
        Ok(Self { dirstat, flags, entries: super::snap::decode_list(r, count)? })
    }
}

impl Encode for ReaddirEntry {
    fn encode(&self, w: &mut Writer) {
        w.blob(&self.name);
        w.put(&self.lease);
        w.put(&self.stat);
    }
}

impl Decode for ReaddirEntry {
    const MIN_LEN: usize = 4 + LeaseStat::MIN_LEN + InodeStat::MIN_LEN;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { name: r.blob()?.to_vec(), lease: r.get()?, stat: r.get()? })
    }
}

/// What a CREATE created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateExtra {
    /// The new inode.
    pub created: Ino,
    /// Ranges (first number and count) that the client may use for asynchronous creations. `None` selects
    /// the form for clients without the feature DELEG_INO, which replies to replayed requests have too.
    pub delegated: Option<BTreeMap<Ino, u64>>,
}

impl CreateExtra {
    /// The length of the form without ranges.
    const PLAIN_LEN: usize = 8;

    /// Decodes the contents of a reply. None mean that the file existed.
    pub fn from_extra(extra: &[u8]) -> Result<Option<Self>, DecodeError> {
        let mut r = Reader::new(extra);
        match extra.len() {
            0 => Ok(None),
            Self::PLAIN_LEN => Ok(Some(Self { created: r.get()?, delegated: None })),
            _ => r.versioned("openc_response_t", 1, 1, |r, _| {
                Ok(Some(Self { created: r.get()?, delegated: Some(r.get()?) }))
            }),
        }
    }
}

impl Encode for CreateExtra {
    fn encode(&self, w: &mut Writer) {
        match &self.delegated {
            None => w.put(&self.created),
            Some(ranges) => w.versioned(1, 1, |w| {
                w.put(&self.created);
                w.put(ranges);
            }),
        }
    }
}

/// The value of a virtual extended attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VxattrExtra(pub Bytes);

impl Encode for VxattrExtra {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| w.put(&self.0));
    }
}

impl Decode for VxattrExtra {
    const MIN_LEN: usize = 10;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("getvxattr reply", 1, 1, |r, _| r.get().map(Self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Msg;
    use proptest::prelude::*;

    fn inode(ino: u64) -> InodeStat {
        InodeStat { ino: Ino(ino), ..InodeStat::default() }
    }

    fn dentry() -> DentryTrace {
        DentryTrace {
            dir: inode(1),
            dirstat: DirStat { frag: Frag(0x0180_0000), auth: Rank(2), dist: [Rank(0), Rank(1)].into() },
            name: b"\xffname".to_vec(),
            lease: LeaseStat { mask: LeaseStat::VALID, duration_ms: 30_000, ..LeaseStat::default() },
        }
    }

    #[test]
    fn a_reply_is_read_back_with_every_kind_of_trace() {
        for (dentry, target) in
            [(None, None), (Some(dentry()), None), (None, Some(5)), (Some(dentry()), Some(5))]
        {
            let trace =
                Trace { dentry: dentry.map(Box::new), target: target.map(|ino| Box::new(inode(ino))) };
            let body = ClientReply {
                op: 0x1301,
                result: -2,
                mdsmap_epoch: Epoch(3),
                safe: true,
                trace,
                extra: Bytes::from_static(b"extra"),
                snap: Bytes::from_static(b"snap"),
            };
            let msg = Msg::new(&body);
            assert_eq!(&msg.front[..13], b"\x01\x13\0\0\xfe\xff\xff\xff\x03\0\0\0\x01");
            assert_eq!(msg.front[13] != 0, body.trace.dentry.is_some());
            assert_eq!(msg.front[14] != 0, body.trace.target.is_some());
            assert!(msg.front.ends_with(b"\x05\0\0\0extra\x04\0\0\0snap"));
            assert_eq!(msg.open(), Ok(body));
        }
    }

    /// Goal: the form of servers for clients without REPLY_ENCODING is an error, not a misread inode. It
    /// begins with the inode's number instead of a version.
    #[test]
    fn an_unversioned_trace_is_refused() {
        let body = ClientReply {
            trace: Trace { dentry: None, target: Some(inode(1).into()) },
            ..Default::default()
        };
        let front = Msg::new(&body).front;
        let plain = &front[19 + 6..];
        for ino in [1_u64, 0x100_0000_0001] {
            let mut changed = front[..15].to_vec();
            changed.extend_from_slice(&u32::try_from(plain.len() - 8).expect("short").to_le_bytes());
            changed.extend_from_slice(&ino.to_le_bytes());
            changed.extend_from_slice(&plain[8..]);
            let msg = Msg { front: changed.into(), ..Msg::new(&body) };
            assert!(msg.open::<ClientReply>().is_err(), "{ino:#x}");
        }
    }

    #[test]
    fn directories_are_read_back() {
        let entry =
            |name: &[u8], ino| ReaddirEntry { name: name.to_vec(), stat: inode(ino), ..Default::default() };
        let extra = ReaddirExtra {
            dirstat: dentry().dirstat,
            flags: ReaddirExtra::END | ReaddirExtra::HASH_ORDER,
            entries: vec![entry(b"a", 5), entry(b"\xff", 6)],
        };
        let bytes = extra.to_bytes();
        let dirstat = b"\x01\x01\x14\0\0\0\0\0\x80\x01\x02\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0";
        assert_eq!(&bytes[..32], [&dirstat[..], b"\x02\0\0\0\x01\x02"].concat());
        assert_eq!(ReaddirExtra::from_bytes(&bytes), Ok(extra.clone()));
        assert!(extra.is_end());
        let mut claim = bytes.to_vec();
        claim[26..30].copy_from_slice(&3_u32.to_le_bytes());
        assert!(matches!(ReaddirExtra::from_bytes(&claim), Err(DecodeError::Truncated { .. })));
    }

    #[test]
    fn creations_have_three_forms() {
        assert_eq!(CreateExtra::from_extra(b""), Ok(None));
        let plain = CreateExtra { created: Ino(7), delegated: None };
        assert_eq!(&plain.to_bytes()[..], b"\x07\0\0\0\0\0\0\0");
        let ranges = CreateExtra { created: Ino(7), delegated: Some(BTreeMap::from([(Ino(8), 2)])) };
        assert_eq!(ranges.to_bytes().len(), 6 + 8 + 4 + 16);
        for extra in [plain, ranges] {
            assert_eq!(CreateExtra::from_extra(&extra.to_bytes()), Ok(Some(extra)));
        }
        assert!(CreateExtra::from_extra(b"\x01\x01").is_err());
    }

    #[test]
    fn virtual_attributes_are_read_back() {
        let extra = VxattrExtra(Bytes::from_static(b"v"));
        assert_eq!(&extra.to_bytes()[..], b"\x01\x01\x05\0\0\0\x01\0\0\0v");
        assert_eq!(VxattrExtra::from_bytes(&extra.to_bytes()), Ok(extra));
    }

    proptest! {
        #[test]
        fn a_cut_reply_is_an_error(at in any::<prop::sample::Index>()) {
            let target = Some(Box::new(inode(5)));
            let trace = Trace { dentry: Some(Box::new(dentry())), target };
            let mut msg = Msg::new(&ClientReply { trace, ..ClientReply::default() });
            msg.front = msg.front.slice(..at.index(msg.front.len()));
            prop_assert!(msg.open::<ClientReply>().is_err());
        }

        #[test]
        fn any_extra_does_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = ReaddirExtra::from_bytes(&bytes);
            let _ = CreateExtra::from_extra(&bytes);
            let _ = VxattrExtra::from_bytes(&bytes);
        }
    }
}
