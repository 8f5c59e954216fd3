//! The first segment of a message frame (`ceph_msg_header2` in `src/include/msgr.h`).

use loligo_wire::message::Header;
use loligo_wire::{DecodeError, Reader, Tid};

/// Bytes of an encoded header.
pub(super) const HEADER_LEN: usize = 41;
/// The same, as a field of the preamble.
pub(super) const HEADER_LEN_U32: u32 = 41;

/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 8 | seq |
/// | 8 | 8 | tid |
/// | 16 | 2 | kind |
/// | 18 | 2 | priority |
/// | 20 | 2 | version |
/// | 22 | 4 | padding before the data: never used, zero |
/// | 26 | 2 | data offset |
/// | 28 | 8 | ack seq |
/// | 36 | 1 | flags |
/// | 37 | 2 | compat version |
/// | 39 | 2 | reserved |
pub(super) fn encode_header(h: &Header) -> [u8; HEADER_LEN] {
    let mut b = [0; HEADER_LEN];
    b[0..8].copy_from_slice(&h.seq.to_le_bytes());
    b[8..16].copy_from_slice(&h.tid.0.to_le_bytes());
    b[16..18].copy_from_slice(&h.kind.to_le_bytes());
    b[18..20].copy_from_slice(&h.priority.to_le_bytes());
    b[20..22].copy_from_slice(&h.version.to_le_bytes());
    b[26..28].copy_from_slice(&h.data_off.to_le_bytes());
    b[28..36].copy_from_slice(&h.ack_seq.to_le_bytes());
    b[36] = h.flags;
    b[37..39].copy_from_slice(&h.compat_version.to_le_bytes());
    b
}

pub(super) fn decode_header(bytes: &[u8]) -> Result<Header, DecodeError> {
    let mut r = Reader::new(bytes);
    let seq = r.u64()?;
    let tid = Tid(r.u64()?);
    let kind = r.u16()?;
    let priority = r.u16()?;
    let version = r.u16()?;
    r.skip(4)?;
    let data_off = r.u16()?;
    let ack_seq = r.u64()?;
    let flags = r.u8()?;
    let compat_version = r.u16()?;
    Ok(Header { seq, tid, kind, priority, version, compat_version, data_off, ack_seq, flags })
}
