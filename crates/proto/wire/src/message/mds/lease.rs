//! Leases on names in directories: [`LeaseStat`] in replies, and [`ClientLease`].

use crate::message::{Data, Header, Message};
use crate::{Decode, DecodeError, Encode, Ino, Reader, SnapId, Writer};

/// The lease on a name that a reply grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseStat {
    /// The version of the encoding: 1 without the alternate name, 2 with it.
    pub encoding: u8,
    /// [`LeaseStat::VALID`], [`LeaseStat::PRIMARY_LINK`]; 0 for no lease.
    pub mask: u16,
    /// The duration, counted from when the client sent the request.
    pub duration_ms: u32,
    /// The number of the lease.
    pub seq: u32,
    /// The name's second form, for encrypted and case-folding directories.
    pub alternate_name: Vec<u8>,
}

impl LeaseStat {
    /// The name may be cached.
    pub const VALID: u16 = 3;
    /// The name is the inode's first link.
    pub const PRIMARY_LINK: u16 = 4;
}

impl Default for LeaseStat {
    fn default() -> Self {
        Self { encoding: 2, mask: 0, duration_ms: 0, seq: 0, alternate_name: Vec::new() }
    }
}

impl Encode for LeaseStat {
    fn encode(&self, w: &mut Writer) {
        let version = self.encoding.clamp(1, 2);
        w.versioned(version, 1, |w| {
            w.u16(self.mask);
            w.u32(self.duration_ms);
            w.u32(self.seq);
            if version >= 2 {
                w.blob(&self.alternate_name);
            }
        });
    }
}

impl Decode for LeaseStat {
    const MIN_LEN: usize = 16;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("LeaseStat", 1, 2, |r, version| {
            let (mask, duration_ms, seq) = (r.u16()?, r.u32()?, r.u32()?);
            let alternate_name = if version >= 2 { r.blob()?.to_vec() } else { Vec::new() };
            Ok(Self { encoding: version.min(2), mask, duration_ms, seq, alternate_name })
        })
    }
}

/// What a lease message asks or says (`CEPH_MDS_LEASE_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeaseAction {
    /// Server: forget the name.
    #[default]
    Revoke = 1,
    /// Client: the lease is no longer used; also acknowledges a revocation.
    Release = 2,
    /// Client: the lease is wanted for longer; server: it is extended.
    Renew = 3,
    /// Client: acknowledges a revocation.
    RevokeAck = 4,
}

/// A message about the lease on a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientLease {
    /// What the message asks or says.
    pub action: LeaseAction,
    /// As in [`LeaseStat::mask`].
    pub mask: u16,
    /// The directory.
    pub ino: Ino,
    /// The first snapshot in which the name means this.
    pub first: SnapId,
    /// The last one.
    pub last: SnapId,
    /// The number of the lease.
    pub seq: u32,
    /// RENEW: the duration.
    pub duration_ms: u32,
    /// The name.
    pub name: Vec<u8>,
}

impl Message for ClientLease {
    const NAME: &'static str = "client_lease";
    const KIND: u16 = 0x311;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode_front(&self, w: &mut Writer) {
        w.u8(self.action as u8);
        w.u16(self.mask);
        w.put(&self.ino);
        w.put(&self.first);
        w.put(&self.last);
        w.u32(self.seq);
        w.u32(self.duration_ms);
        w.blob(&self.name);
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Data) -> Result<Self, DecodeError> {
        let action = match r.u8()? {
            1 => LeaseAction::Revoke,
            2 => LeaseAction::Release,
            3 => LeaseAction::Renew,
            4 => LeaseAction::RevokeAck,
            other => return Err(DecodeError::Invalid { what: "lease action", value: other.into() }),
        };
        Ok(Self {
            action,
            mask: r.u16()?,
            ino: r.get()?,
            first: r.get()?,
            last: r.get()?,
            seq: r.u32()?,
            duration_ms: r.u32()?,
            name: r.blob()?.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Msg;

    #[test]
    fn a_lease_message_is_35_bytes_and_a_name() {
        let body = ClientLease {
            action: LeaseAction::Release,
            mask: 1,
            ino: Ino::ROOT,
            first: SnapId(2),
            last: SnapId::HEAD,
            seq: 3,
            duration_ms: 30_000,
            name: b"\xff".to_vec(),
        };
        let msg = Msg::new(&body);
        assert_eq!(msg.front.len(), 35 + 5);
        assert_eq!(&msg.front[..11], b"\x02\x01\0\x01\0\0\0\0\0\0\0");
        assert_eq!(&msg.front[27..35], b"\x03\0\0\0\x30\x75\0\0");
        assert_eq!(msg.open(), Ok(body));
        let mut front = msg.front.to_vec();
        front[0] = 5;
        assert!(Msg { front: front.into(), ..msg }.open::<ClientLease>().is_err());
    }

    #[test]
    fn both_versions_are_read_back() {
        let with_name = LeaseStat { mask: 7, alternate_name: b"n".to_vec(), ..LeaseStat::default() };
        for lease in [LeaseStat { encoding: 1, seq: 4, ..LeaseStat::default() }, with_name] {
            let bytes = lease.to_bytes();
            assert!(bytes.len() >= LeaseStat::MIN_LEN);
            assert_eq!(LeaseStat::from_bytes(&bytes), Ok(lease));
        }
    }
}
