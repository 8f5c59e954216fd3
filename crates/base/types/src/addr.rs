//! Addresses in Ceph's encoding (`entity_addr_t`, `entity_addrvec_t` in `src/msg/msg_types.h`). The
//! encoder always writes the form of peers with the feature `MSG_ADDR2`, which every release since 14
//! has.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::{Decode, DecodeError, Encode, Reader, Writer};

const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
/// Byte length of `sockaddr_in` and `sockaddr_in6` on Linux, family included.
const SOCKADDR_IN_LEN: u32 = 16;
const SOCKADDR_IN6_LEN: u32 = 28;
/// Byte length of `sockaddr_storage`.
const SOCKADDR_STORAGE_LEN: usize = 128;

/// The messenger protocol of an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddrKind {
    /// No address.
    #[default]
    None,
    /// The messenger of version 1.
    Legacy,
    /// msgr2.
    Msgr2,
    /// Not known yet: either of the two. Occurs only in configuration and in monitors' blank addresses.
    Any,
    /// A range of addresses in a blocklist.
    Cidr,
}

impl AddrKind {
    /// Ceph's number of the kind (`entity_addr_t::type`).
    pub fn code(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Legacy => 1,
            Self::Msgr2 => 2,
            Self::Any => 3,
            Self::Cidr => 4,
        }
    }

    fn from_code(code: u32) -> Result<Self, DecodeError> {
        Ok(match code {
            0 => Self::None,
            1 => Self::Legacy,
            2 => Self::Msgr2,
            3 => Self::Any,
            4 => Self::Cidr,
            other => {
                return Err(DecodeError::Invalid { what: "entity_addr_t type", value: u64::from(other) });
            }
        })
    }
}

/// One address of an entity: the messenger protocol, a nonce that distinguishes restarts of a process,
/// and a socket address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityAddr {
    /// The protocol spoken at this address.
    pub kind: AddrKind,
    /// Differs between two processes that use the same socket address one after the other.
    pub nonce: u32,
    /// `None` is the blank address: no family, no port.
    pub sock: Option<SocketAddr>,
}

impl EntityAddr {
    /// Bytes of the form that [`EntityAddr::encode_legacy`] writes.
    pub const LEGACY_LEN: usize = 4 + 4 + SOCKADDR_STORAGE_LEN;

    /// A msgr2 address with nonce 0.
    pub fn msgr2(sock: SocketAddr) -> Self {
        Self { kind: AddrKind::Msgr2, nonce: 0, sock: Some(sock) }
    }

    /// An address of the messenger of version 1, with nonce 0.
    pub fn legacy(sock: SocketAddr) -> Self {
        Self { kind: AddrKind::Legacy, nonce: 0, sock: Some(sock) }
    }

    /// Encodes the form of peers without `MSG_ADDR2`, which the messenger of version 1 exchanges before
    /// features are known: [`EntityAddr::LEGACY_LEN`] bytes. The kind is not part of it.
    pub fn encode_legacy(&self, w: &mut Writer) {
        let mut native = Writer::with_capacity(SOCKADDR_STORAGE_LEN + 4);
        encode_sockaddr(self.sock, &mut native);
        w.u32(0);
        w.u32(self.nonce);
        // The family is big-endian here, and the rest as it is elsewhere. The blank address has family 0.
        let sockaddr = &native.as_slice()[4..];
        let (family, rest) = sockaddr.split_at(sockaddr.len().min(2));
        family.iter().rev().for_each(|byte| w.u8(*byte));
        w.raw(rest);
        w.zeros(SOCKADDR_STORAGE_LEN - sockaddr.len());
    }

    /// The same address with another nonce.
    pub fn with_nonce(self, nonce: u32) -> Self {
        Self { nonce, ..self }
    }
}

impl Encode for EntityAddr {
    fn encode(&self, w: &mut Writer) {
        w.u8(1); // 0 would be the legacy form, 2 an address vector
        w.versioned(1, 1, |w| {
            w.u32(self.kind.code());
            w.u32(self.nonce);
            encode_sockaddr(self.sock, w);
        });
    }
}

fn encode_sockaddr(sock: Option<SocketAddr>, w: &mut Writer) {
    match sock {
        None => w.u32(0),
        Some(SocketAddr::V4(v4)) => {
            w.u32(SOCKADDR_IN_LEN);
            w.u16(AF_INET);
            w.raw(&v4.port().to_be_bytes());
            w.raw(&v4.ip().octets());
            w.zeros(8);
        }
        Some(SocketAddr::V6(v6)) => {
            w.u32(SOCKADDR_IN6_LEN);
            w.u16(AF_INET6);
            w.raw(&v6.port().to_be_bytes());
            w.u32(v6.flowinfo());
            w.raw(&v6.ip().octets());
            w.u32(v6.scope_id());
        }
    }
}

impl Decode for EntityAddr {
    const MIN_LEN: usize = 7;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match r.u8()? {
            1 => decode_modern(r),
            0 => decode_legacy(r),
            other => Err(DecodeError::Invalid { what: "entity_addr_t marker", value: u64::from(other) }),
        }
    }
}

fn decode_modern(r: &mut Reader<'_>) -> Result<EntityAddr, DecodeError> {
    r.versioned("entity_addr_t", 1, 1, |r, _| {
        let kind = AddrKind::from_code(r.u32()?)?;
        let nonce = r.u32()?;
        let mut sa = r.sized()?;
        let sock = if sa.is_empty() { None } else { decode_sockaddr(&mut sa)? };
        Ok(EntityAddr { kind, nonce, sock })
    })
}

fn decode_sockaddr(r: &mut Reader<'_>) -> Result<Option<SocketAddr>, DecodeError> {
    match r.u16()? {
        0 => Ok(None),
        AF_INET => {
            let port = u16::from_be_bytes(r.array()?);
            let ip = Ipv4Addr::from(r.array::<4>()?);
            Ok(Some(SocketAddr::new(IpAddr::V4(ip), port)))
        }
        AF_INET6 => {
            let port = u16::from_be_bytes(r.array()?);
            let flow = r.u32()?;
            let ip = Ipv6Addr::from(r.array::<16>()?);
            let scope = if r.remaining() >= 4 { r.u32()? } else { 0 };
            Ok(Some(SocketAddr::V6(SocketAddrV6::new(ip, port, flow, scope))))
        }
        other => Err(DecodeError::Invalid { what: "address family", value: u64::from(other) }),
    }
}

/// Decodes the form of peers without `MSG_ADDR2`: the marker's three further bytes, the nonce, and a
/// `sockaddr_storage` of 128 bytes whose family is big-endian.
fn decode_legacy(r: &mut Reader<'_>) -> Result<EntityAddr, DecodeError> {
    r.skip(3)?;
    let nonce = r.u32()?;
    let raw: [u8; SOCKADDR_STORAGE_LEN] = r.array()?;
    let family = u16::from_be_bytes([raw[0], raw[1]]);
    let mut native = raw;
    native[..2].copy_from_slice(&family.to_le_bytes());
    let sock = decode_sockaddr(&mut Reader::new(&native))?;
    Ok(EntityAddr { kind: AddrKind::Legacy, nonce, sock })
}

impl fmt::Display for EntityAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            AddrKind::None => return f.write_str("-"),
            AddrKind::Legacy => f.write_str("v1:")?,
            AddrKind::Msgr2 => f.write_str("v2:")?,
            AddrKind::Any => f.write_str("any:")?,
            AddrKind::Cidr => f.write_str("cidr:")?,
        }
        match self.sock {
            Some(sock) => write!(f, "{sock}/{}", self.nonce),
            None => write!(f, ":/{}", self.nonce),
        }
    }
}

/// All addresses of one entity.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityAddrVec(pub Vec<EntityAddr>);

impl EntityAddrVec {
    /// Returns the msgr2 address, if there is one.
    pub fn msgr2(&self) -> Option<&EntityAddr> {
        self.0.iter().find(|a| a.kind == AddrKind::Msgr2)
    }

    /// Returns the address of the messenger of version 1, if there is one.
    pub fn legacy(&self) -> Option<&EntityAddr> {
        self.0.iter().find(|a| a.kind == AddrKind::Legacy)
    }

    /// Returns the address to connect to: as in stock clients the first of those whose messenger is
    /// known. Daemons put their msgr2 address first.
    pub fn to_dial(&self) -> Option<&EntityAddr> {
        self.0.iter().find(|a| matches!(a.kind, AddrKind::Msgr2 | AddrKind::Legacy))
    }
}

impl From<EntityAddr> for EntityAddrVec {
    fn from(addr: EntityAddr) -> Self {
        Self(vec![addr])
    }
}

impl Encode for EntityAddrVec {
    fn encode(&self, w: &mut Writer) {
        w.u8(2);
        w.put(&self.0);
    }
}

impl Decode for EntityAddrVec {
    const MIN_LEN: usize = 5;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match r.rest().first() {
            Some(2) => {
                r.skip(1)?;
                r.get().map(Self)
            }
            _ => EntityAddr::decode(r).map(Self::from),
        }
    }
}

/// Ceph prints a single address without brackets, and several in brackets.
impl fmt::Display for EntityAddrVec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(f, "{only}");
        }
        f.write_str("[")?;
        for (i, addr) in self.0.iter().enumerate() {
            write!(f, "{}{addr}", if i > 0 { "," } else { "" })?;
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip() {
        for text in ["127.0.0.1:6800", "[::1]:3300"] {
            let addr = EntityAddr::msgr2(text.parse().expect("a socket address")).with_nonce(7);
            assert_eq!(EntityAddr::from_bytes(&addr.to_bytes()), Ok(addr));
            let many = EntityAddrVec(vec![addr, EntityAddr::default()]);
            assert_eq!(EntityAddrVec::from_bytes(&many.to_bytes()), Ok(many));
        }
    }

    #[test]
    fn the_legacy_form_has_a_big_endian_family() {
        let addr = EntityAddr::legacy(([10, 0, 0, 1], 6789).into()).with_nonce(7);
        let mut w = Writer::new();
        addr.encode_legacy(&mut w);
        let mut expected = vec![0, 0, 0, 0, 7, 0, 0, 0, 0, 2, 0x1a, 0x85, 10, 0, 0, 1];
        expected.resize(EntityAddr::LEGACY_LEN, 0);
        assert_eq!(w.as_slice(), expected);
        let six = EntityAddr::legacy("[2001:db8::1]:6789".parse().expect("a socket address"));
        let blank = EntityAddr { kind: AddrKind::Legacy, nonce: 3, sock: None };
        for addr in [addr, six, blank] {
            let mut w = Writer::new();
            addr.encode_legacy(&mut w);
            assert_eq!(w.len(), EntityAddr::LEGACY_LEN);
            assert_eq!(EntityAddr::from_bytes(w.as_slice()), Ok(addr));
        }
    }

    #[test]
    fn the_first_address_with_a_known_messenger_is_dialled() {
        let (old, new) = (EntityAddr::legacy(([1; 4], 1).into()), EntityAddr::msgr2(([1; 4], 2).into()));
        let any = EntityAddr { kind: AddrKind::Any, ..old };
        for (addrs, dialled) in [
            (vec![new, old], Some(new)),
            (vec![old, new], Some(old)),
            (vec![any, old], Some(old)),
            (vec![any], None),
        ] {
            assert_eq!(EntityAddrVec(addrs).to_dial().copied(), dialled);
        }
    }

    #[test]
    fn unknown_kinds_and_families_are_refused() {
        let mut bytes = EntityAddr::msgr2(([127, 0, 0, 1], 1).into()).to_bytes().to_vec();
        bytes[7] = 9;
        assert!(matches!(EntityAddr::from_bytes(&bytes), Err(DecodeError::Invalid { .. })));
    }
}
