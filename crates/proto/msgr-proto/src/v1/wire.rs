//! The fixed structs of the protocol (`src/include/msgr.h`): banner, connect, its reply, and the header and
//! footer of a message.

use az::SaturatingAs as _;
use loligo_wire::crc::crc32c;
use loligo_wire::message::Header;
use loligo_wire::{DecodeError, EntityType, Reader, Tid, Writer};

use crate::{Misbehaviour, ProtoError};

/// What both sides send first, without a terminator.
pub(super) const BANNER: &[u8; 9] = b"ceph v027";

/// Bytes of a connect request without the authorizer.
pub(super) const CONNECT_LEN: usize = 33;
/// Bytes of the reply without the authorizer's reply.
pub(super) const REPLY_LEN: usize = 26;

/// The flag in a connect request and its reply that the session ends with its connection.
const FLAG_LOSSY: u8 = 1;

/// The bytes in front of messages, and in connect replies.
pub(super) mod tag {
    pub(crate) const READY: u8 = 1;
    pub(crate) const RESET_SESSION: u8 = 2;
    pub(crate) const WAIT: u8 = 3;
    pub(crate) const RETRY_SESSION: u8 = 4;
    pub(crate) const RETRY_GLOBAL: u8 = 5;
    pub(crate) const CLOSE: u8 = 6;
    pub(crate) const MSG: u8 = 7;
    pub(crate) const ACK: u8 = 8;
    pub(crate) const KEEPALIVE: u8 = 9;
    pub(crate) const BAD_PROTOCOL: u8 = 10;
    pub(crate) const BAD_AUTHORIZER: u8 = 11;
    pub(crate) const FEATURES: u8 = 12;
    pub(crate) const SEQ: u8 = 13;
    pub(crate) const KEEPALIVE2: u8 = 14;
    pub(crate) const KEEPALIVE2_ACK: u8 = 15;
    pub(crate) const CHALLENGE: u8 = 16;
}

/// The version of the protocol that a server of kind `server` speaks with a peer of kind `client`. Daemons
/// of one kind have a version of their own.
pub(super) fn protocol_of(server: EntityType, client: EntityType) -> u32 {
    match (server, server == client) {
        (EntityType::OSD, false) => 24,
        (EntityType::OSD, true) => 10,
        (EntityType::MDS, false) => 32,
        (EntityType::MDS, true) => 36,
        (EntityType::MON, false) => 15,
        (EntityType::MON, true) => 13,
        _ => 0,
    }
}

/// A connect request; the authorizer follows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ConnectMsg {
    pub(super) features: u64,
    pub(super) host_type: u32,
    pub(super) global_seq: u32,
    pub(super) connect_seq: u32,
    pub(super) protocol: u32,
    pub(super) auth_method: u32,
    pub(super) auth_len: u32,
    pub(super) lossy: bool,
}

impl ConnectMsg {
    pub(super) fn encode(&self, w: &mut Writer) {
        w.u64(self.features);
        for field in [
            self.host_type,
            self.global_seq,
            self.connect_seq,
            self.protocol,
            self.auth_method,
            self.auth_len,
        ] {
            w.u32(field);
        }
        w.u8(if self.lossy { FLAG_LOSSY } else { 0 });
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        Ok(Self {
            features: r.u64()?,
            host_type: r.u32()?,
            global_seq: r.u32()?,
            connect_seq: r.u32()?,
            protocol: r.u32()?,
            auth_method: r.u32()?,
            auth_len: r.u32()?,
            lossy: r.u8()? & FLAG_LOSSY != 0,
        })
    }
}

/// The server's reply; the authorizer's reply follows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReplyMsg {
    pub(super) tag: u8,
    pub(super) features: u64,
    pub(super) global_seq: u32,
    pub(super) connect_seq: u32,
    pub(super) protocol: u32,
    pub(super) auth_len: u32,
    pub(super) lossy: bool,
}

impl ReplyMsg {
    pub(super) fn encode(&self, w: &mut Writer) {
        w.u8(self.tag);
        w.u64(self.features);
        [self.global_seq, self.connect_seq, self.protocol, self.auth_len].into_iter().for_each(|n| w.u32(n));
        w.u8(if self.lossy { FLAG_LOSSY } else { 0 });
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        Ok(Self {
            tag: r.u8()?,
            features: r.u64()?,
            global_seq: r.u32()?,
            connect_seq: r.u32()?,
            protocol: r.u32()?,
            auth_len: r.u32()?,
            lossy: r.u8()? & FLAG_LOSSY != 0,
        })
    }
}

/// Bytes of an encoded message header.
pub(super) const HEADER_LEN: usize = 53;
/// Bytes that the header's checksum covers: all before it.
const HEADER_SUMMED: usize = HEADER_LEN - 4;

/// The number of a message's sender among those of its kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub(super) kind: EntityType,
    pub(super) num: i64,
}

/// A message's header as it is sent: the fields of [`Header`], and the lengths of the parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeaderMsg {
    pub(super) header: Header,
    /// Of front, middle and data.
    pub(super) lens: [u32; 3],
    pub(super) crc: u32,
}

impl HeaderMsg {
    /// Encodes a header; returns the bytes and their checksum.
    pub(super) fn encode(h: &Header, lens: [u32; 3], source: Source) -> ([u8; HEADER_LEN], u32) {
        let mut w = Writer::with_capacity(HEADER_LEN);
        w.u64(h.seq);
        w.u64(h.tid.0);
        w.u16(h.kind);
        w.u16(h.priority);
        w.u16(h.version);
        lens.into_iter().for_each(|len| w.u32(len));
        w.u16(h.data_off);
        w.u8(source.kind.0.saturating_as::<u8>());
        w.i64(source.num);
        w.u16(h.compat_version);
        w.u16(0);
        let mut bytes = [0; HEADER_LEN];
        bytes[..HEADER_SUMMED].copy_from_slice(w.as_slice());
        let crc = crc32c(0, &bytes[..HEADER_SUMMED]);
        bytes[HEADER_SUMMED..].copy_from_slice(&crc.to_le_bytes());
        (bytes, crc)
    }

    /// Decodes a header and checks its checksum.
    pub(super) fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Self, ProtoError> {
        let actual = crc32c(0, &bytes[..HEADER_SUMMED]);
        let mut r = Reader::new(bytes);
        let read = |r: &mut Reader<'_>| -> Result<Self, DecodeError> {
            let (seq, tid) = (r.u64()?, Tid(r.u64()?));
            let (kind, priority, version) = (r.u16()?, r.u16()?, r.u16()?);
            let lens = [r.u32()?, r.u32()?, r.u32()?];
            let data_off = r.u16()?;
            r.skip(9)?; // the sender's name, which the session has already told
            let compat_version = r.u16()?;
            r.skip(2)?;
            let header =
                Header { seq, tid, kind, priority, version, compat_version, data_off, ack_seq: 0, flags: 0 };
            Ok(Self { header, lens, crc: r.u32()? })
        };
        let decoded = read(&mut r).map_err(part("a message's header"))?;
        check_crc("a message's header", decoded.crc, actual)?;
        Ok(decoded)
    }
}

/// Bytes of a footer without a signature.
const FOOTER_OLD_LEN: usize = 13;
/// Bytes of a footer with a place for a signature.
const FOOTER_LEN: usize = 21;

const FOOTER_COMPLETE: u8 = 1;
const FOOTER_NO_DATA_CRC: u8 = 2;
const FOOTER_SIGNED: u8 = 4;

/// What follows a message's parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Footer {
    /// Of front, middle and data.
    pub(super) crcs: [u32; 3],
    pub(super) signature: Option<u64>,
    /// The data has no checksum.
    pub(super) no_data_crc: bool,
    pub(super) complete: bool,
}

impl Footer {
    /// The length, with a place for a signature (`MSG_AUTH` is agreed) or without.
    pub(super) fn len(with_signature: bool) -> usize {
        if with_signature { FOOTER_LEN } else { FOOTER_OLD_LEN }
    }

    pub(super) fn encode(&self, with_signature: bool, w: &mut Writer) {
        self.crcs.into_iter().for_each(|crc| w.u32(crc));
        if with_signature {
            w.u64(self.signature.unwrap_or(0));
        }
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        w.u8(flag(self.complete, FOOTER_COMPLETE)
            | flag(self.no_data_crc, FOOTER_NO_DATA_CRC)
            | flag(self.signature.is_some(), FOOTER_SIGNED));
    }

    /// Returns the footer and its flags.
    pub(super) fn decode(bytes: &[u8], with_signature: bool) -> Result<(Self, u8), DecodeError> {
        let mut r = Reader::new(bytes);
        let crcs = [r.u32()?, r.u32()?, r.u32()?];
        let signature = if with_signature { r.u64()? } else { 0 };
        let flags = r.u8()?;
        let footer = Self {
            crcs,
            signature: (flags & FOOTER_SIGNED != 0).then_some(signature),
            no_data_crc: flags & FOOTER_NO_DATA_CRC != 0,
            complete: flags & FOOTER_COMPLETE != 0,
        };
        Ok((footer, flags))
    }
}

/// Compares checksums.
pub(super) fn check_crc(what: &'static str, expected: u32, actual: u32) -> Result<(), Misbehaviour> {
    if expected == actual { Ok(()) } else { Err(Misbehaviour::Crc { what, expected, actual }) }
}

/// Returns the error for a part that cannot be decoded.
pub(super) fn part(what: &'static str) -> impl Fn(DecodeError) -> ProtoError {
    move |source| Misbehaviour::Part { what, source }.into()
}

/// The length of an authorizer as a field.
pub(super) fn len_u32(bytes: &[u8]) -> u32 {
    bytes.len().saturating_as::<u32>()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn structs_have_the_lengths_of_the_protocol() {
        let mut w = Writer::new();
        ConnectMsg::default().encode(&mut w);
        assert_eq!(w.len(), CONNECT_LEN);
        let mut w = Writer::new();
        ReplyMsg::default().encode(&mut w);
        assert_eq!(w.len(), REPLY_LEN);
        for with_signature in [false, true] {
            let mut w = Writer::new();
            Footer::default().encode(with_signature, &mut w);
            assert_eq!(w.len(), Footer::len(with_signature));
        }
    }

    #[test]
    fn equals_have_their_own_protocol() {
        assert_eq!(protocol_of(EntityType::OSD, EntityType::CLIENT), 24);
        assert_eq!(protocol_of(EntityType::MON, EntityType::OSD), 15);
        assert_eq!(protocol_of(EntityType::OSD, EntityType::OSD), 10);
        assert_eq!(protocol_of(EntityType::MGR, EntityType::CLIENT), 0);
    }

    proptest! {
        #[test]
        fn structs_round_trip(
            n: [u32; 6], features: u64, lossy: bool, tag: u8, signature: Option<u64>, complete: bool, no_data_crc: bool,
        ) {
            let [host_type, global_seq, connect_seq, protocol, auth_method, auth_len] = n;
            let connect =
                ConnectMsg { features, host_type, global_seq, connect_seq, protocol, auth_method, auth_len, lossy };
            let mut w = Writer::new();
            connect.encode(&mut w);
            prop_assert_eq!(ConnectMsg::decode(w.as_slice()), Ok(connect));
            let reply = ReplyMsg { tag, features, global_seq, connect_seq, protocol, auth_len, lossy };
            let mut w = Writer::new();
            reply.encode(&mut w);
            prop_assert_eq!(ReplyMsg::decode(w.as_slice()), Ok(reply));
            let footer = Footer { crcs: [n[0], n[1], n[2]], signature, no_data_crc, complete };
            let mut w = Writer::new();
            footer.encode(true, &mut w);
            prop_assert_eq!(Footer::decode(w.as_slice(), true).map(|(footer, _)| footer), Ok(footer));
        }

        #[test]
        fn headers_round_trip(n: [u64; 2], m: [u16; 5], lens: [u32; 3], bit in 0..HEADER_SUMMED * 8) {
            let header = Header {
                seq: n[0],
                tid: Tid(n[1]),
                kind: m[0],
                priority: m[1],
                version: m[2],
                compat_version: m[3],
                data_off: m[4],
                ..Header::default()
            };
            let (mut bytes, crc) = HeaderMsg::encode(&header, lens, Source { kind: EntityType::CLIENT, num: 4 });
            let decoded = HeaderMsg::decode(&bytes).expect("a header");
            prop_assert_eq!((decoded.header, decoded.lens, decoded.crc), (header, lens, crc));
            bytes[bit / 8] ^= 1 << (bit % 8);
            let damaged = HeaderMsg::decode(&bytes);
            let is_refused = matches!(damaged, Err(ProtoError::Misbehaving(Misbehaviour::Crc { .. })));
            prop_assert!(is_refused);
        }
    }
}
