//! How a client tells a restarted metadata server what it holds ([`ClientReconnect`]), and takes over the
//! session of an earlier client ([`ClientReclaim`]).

use std::collections::BTreeMap;

use az::SaturatingAs as _;
use bytes::Bytes;

use crate::message::macros::message_body;
use crate::message::{Data, Header, Message, concat};
use crate::{
    CapId, Caps, Decode, DecodeError, Encode, EntityAddrVec, Epoch, Ino, Name, Reader, SnapId, Writer,
};

/// A lock on a range of a file, as servers store it (`ceph_filelock`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileLockRecord {
    /// The first byte.
    pub start: u64,
    /// The number of bytes; 0 reaches to the end of any file.
    pub length: u64,
    /// The client.
    pub client: u64,
    /// The owner on that client.
    pub owner: u64,
    /// The owner's process.
    pub pid: u64,
    /// The kind (`CEPH_LOCK_*`): 1 shared, 2 exclusive, 4 unlocked.
    pub kind: u8,
}

impl Encode for FileLockRecord {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.start);
        w.u64(self.length);
        w.u64(self.client);
        w.u64(self.owner);
        w.u64(self.pid);
        w.u8(self.kind);
    }
}

impl Decode for FileLockRecord {
    const MIN_LEN: usize = 41;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            start: r.u64()?,
            length: r.u64()?,
            client: r.u64()?,
            owner: r.u64()?,
            pid: r.u64()?,
            kind: r.u8()?,
        })
    }
}

/// The locks that a client holds on a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldLocks {
    /// Locks of `fcntl`.
    pub fcntl: Vec<FileLockRecord>,
    /// Locks of `flock`.
    pub flock: Vec<FileLockRecord>,
}

impl HeldLocks {
    /// Whether there are no locks.
    pub fn is_empty(&self) -> bool {
        self.fcntl.is_empty() && self.flock.is_empty()
    }

    /// Decodes the locks of a [`CapReconnect`] or a capability message. An empty blob means none.
    pub fn from_blob(blob: &[u8]) -> Result<Self, DecodeError> {
        if blob.is_empty() { Ok(Self::default()) } else { Self::from_bytes(blob) }
    }

    /// Encodes the locks; no locks become an empty blob.
    pub fn to_blob(&self) -> Bytes {
        if self.is_empty() { Bytes::new() } else { self.to_bytes() }
    }
}

impl Encode for HeldLocks {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.fcntl);
        w.put(&self.flock);
    }
}

impl Decode for HeldLocks {
    const MIN_LEN: usize = 8;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { fcntl: r.get()?, flock: r.get()? })
    }
}

/// A client's capability, as it reclaims it (`cap_reconnect_t`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapReconnect {
    /// The inode's path below `path_base`, for servers that do not have the inode in memory.
    pub path: Name,
    /// The number of the capability before the restart.
    pub cap_id: CapId,
    /// The capabilities that the client wants.
    pub wanted: Caps,
    /// The capabilities that the client had.
    pub issued: Caps,
    /// The inode's snapshot realm.
    pub realm: Ino,
    /// The inode that `path` begins at.
    pub path_base: Ino,
    /// The locks, to be decoded with [`HeldLocks::from_blob`].
    pub locks: Bytes,
    /// The newest snapshot that the client has flushed data of; 0 for none.
    pub snap_follows: SnapId,
}

impl Encode for CapReconnect {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.put(&self.path);
            w.put(&self.cap_id);
            w.put(&self.wanted);
            w.put(&self.issued);
            w.put(&self.realm);
            w.put(&self.path_base);
            w.put(&self.locks); // the count ends the fixed part, and the locks follow it
            w.put(&self.snap_follows);
        });
    }
}

impl Decode for CapReconnect {
    const MIN_LEN: usize = 46;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("cap_reconnect_t", 1, 2, |r, version| {
            Ok(Self {
                path: r.get()?,
                cap_id: r.get()?,
                wanted: r.get()?,
                issued: r.get()?,
                realm: r.get()?,
                path_base: r.get()?,
                locks: r.get()?,
                snap_follows: if version >= 2 { r.get()? } else { SnapId(0) },
            })
        })
    }
}

/// A snapshot realm that a client knows (`snaprealm_reconnect_t`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RealmReconnect {
    /// The realm.
    pub ino: Ino,
    /// The newest snapshot that the client knows.
    pub seq: SnapId,
    /// The realm above.
    pub parent: Ino,
}

impl Encode for RealmReconnect {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.ino);
            w.put(&self.seq);
            w.put(&self.parent);
        });
    }
}

impl Decode for RealmReconnect {
    const MIN_LEN: usize = 30;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("snaprealm_reconnect_t", 1, 1, |r, _| {
            Ok(Self { ino: r.get()?, seq: r.get()?, parent: r.get()? })
        })
    }
}

/// A client tells a restarted server what it holds. The contents travel as bulk data, because they can be
/// larger than a front may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientReconnect {
    /// The capabilities.
    pub caps: BTreeMap<Ino, CapReconnect>,
    /// The snapshot realms.
    pub realms: Vec<RealmReconnect>,
    /// Whether a further message follows. `None` selects version 4, which cannot say it.
    pub more: Option<bool>,
}

impl Message for ClientReconnect {
    const NAME: &'static str = "client_reconnect";
    const KIND: u16 = 23;
    const VERSION: u16 = 5;
    const COMPAT: u16 = 4;

    fn version(&self) -> u16 {
        if self.more.is_some() { 5 } else { 4 }
    }

    fn encode_front(&self, _: &mut Writer) {}

    fn data(&self) -> Data {
        let mut w = Writer::new();
        w.put(&self.caps);
        w.put(&self.realms);
        if let Some(more) = self.more {
            w.bool(more);
        }
        Data::from_buf([w.into_bytes()])
    }

    fn decode(header: &Header, _: &mut Reader<'_>, data: &Data) -> Result<Self, DecodeError> {
        if header.version < 4 {
            let version = header.version.saturating_as::<u8>();
            return Err(DecodeError::TooOld { what: Self::NAME, version, oldest: 4 });
        }
        let data = concat(data);
        let mut r = Reader::new(&data);
        Ok(Self {
            caps: r.get()?,
            realms: r.get()?,
            more: if header.version >= 5 { Some(r.bool()?) } else { None },
        })
    }
}

message_body! {
    /// A client takes over the session of an earlier client with the same unique name.
    ClientReclaim = 27 "client_reclaim", version 1, compat 1, PRIORITY_DEFAULT {
        /// The name that the earlier client gave in its session's metadata.
        uuid: Name,
        /// [`ClientReclaim::RESET`], [`ClientReclaim::FINISH`].
        flags: u32,
    }
}

impl ClientReclaim {
    /// Discard the earlier session instead of taking over what it holds.
    pub const RESET: u32 = 1;
    /// Everything was taken over.
    pub const FINISH: u32 = 1 << 31;
}

message_body! {
    /// The reply to a [`ClientReclaim`].
    ClientReclaimReply = 28 "client_reclaim_reply", version 1, compat 1, PRIORITY_DEFAULT {
        /// 0, or a negative errno.
        result: i32,
        /// The epoch of the osdmap that blocklists the earlier client; the new client waits for it.
        osd_epoch: Epoch,
        /// The addresses of the earlier client.
        addrs: EntityAddrVec,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Msg;

    fn sample() -> ClientReconnect {
        let locks = HeldLocks {
            fcntl: vec![FileLockRecord { start: 1, length: 2, client: 3, owner: 4, pid: 5, kind: 2 }],
            flock: Vec::new(),
        };
        let cap = CapReconnect {
            path: "d/f".into(),
            cap_id: CapId(7),
            wanted: Caps::FILE_RD,
            issued: Caps::PIN,
            realm: Ino::ROOT,
            path_base: Ino::ROOT,
            locks: locks.to_blob(),
            snap_follows: SnapId(2),
        };
        let realms = vec![RealmReconnect { ino: Ino::ROOT, seq: SnapId(1), parent: Ino(0) }];
        let caps = BTreeMap::from([(Ino(0x1000), cap), (Ino(0x1001), CapReconnect::default())]);
        ClientReconnect { caps, realms, more: Some(false) }
    }

    #[test]
    fn what_a_client_holds_travels_as_data() {
        let body = sample();
        let msg = Msg::new(&body);
        assert_eq!((msg.header.version, msg.header.compat_version, msg.front.len()), (5, 4, 0));
        // The count of capabilities; an inode; a struct of version 2; its path.
        let start = b"\x02\0\0\0\0\x10\0\0\0\0\0\0\x02\x01";
        let data = &msg.data[0];
        assert_eq!(&data[..start.len()], start);
        assert_eq!(data.len(), 4 + 8 + (6 + 7 + 36 + 49 + 8) + 8 + (6 + 4 + 36 + 8) + 4 + 30 + 1);
        assert_eq!(msg.open(), Ok(body.clone()));
        let locks = HeldLocks::from_blob(&body.caps[&Ino(0x1000)].locks).expect("locks");
        assert_eq!((locks.fcntl.len(), locks.flock.len()), (1, 0));
    }

    #[test]
    fn older_forms_are_read_or_refused() {
        let body = ClientReconnect { more: None, ..sample() };
        let mut msg = Msg::new(&body);
        assert_eq!(msg.header.version, 4);
        assert_eq!(msg.open(), Ok(body));
        msg.header.version = 3;
        assert!(matches!(msg.open::<ClientReconnect>(), Err(DecodeError::TooOld { version: 3, .. })));
    }

    #[test]
    fn claims_are_checked() {
        let msg = Msg::new(&ClientReconnect::default());
        for at in [0, 4] {
            let mut data = msg.data[0].to_vec();
            data[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
            let msg = Msg { data: Data::from_buf([data.into()]), ..msg.clone() };
            assert!(msg.open::<ClientReconnect>().is_err());
        }
        assert!(HeldLocks::from_blob(&[0xff; 8]).is_err());
        assert_eq!(HeldLocks::from_blob(b""), Ok(HeldLocks::default()));
        assert!(HeldLocks::default().to_blob().is_empty());
    }

    #[test]
    fn a_session_is_reclaimed() {
        let body = ClientReclaim { uuid: "nfs".into(), flags: ClientReclaim::RESET };
        assert_eq!(&Msg::new(&body).front[..], b"\x03\0\0\0nfs\x01\0\0\0");
        assert_eq!(Msg::new(&body).open(), Ok(body));
        let reply = ClientReclaimReply { result: -2, osd_epoch: Epoch(5), addrs: EntityAddrVec::default() };
        assert_eq!(Msg::new(&reply).open(), Ok(reply));
    }
}
