//! The payloads of the handshake's frames that are not visible outside of this crate. (The session's
//! payloads are in `session.rs`.)

use az::SaturatingAs as _;
use bytes::Bytes;
use loligo_wire::{Decode, DecodeError, Encode, EntityAddr, EntityType, GlobalId, Reader, Writer};

/// The fixed start of a banner.
pub(crate) const BANNER_PREFIX: &[u8; 8] = b"ceph v2\n";
/// Bytes of a banner's payload as all releases send it. A longer one is accepted; the additional bytes
/// are ignored.
const BANNER_PAYLOAD_LEN: u16 = 16;
/// The longest accepted banner payload.
pub(crate) const BANNER_PAYLOAD_LEN_MAX: u16 = 1024;

/// The msgr2 feature bit of revision msgr2.1.
pub(crate) const FEATURE_REVISION_1: u64 = 1;
/// The msgr2 feature bit of compression: peers that both have it exchange compression requests after
/// authentication.
pub(crate) const FEATURE_COMPRESSION: u64 = 2;

/// The banner: the prefix, the payload's length in 16 bits, and the payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Banner {
    pub(crate) supported: u64,
    pub(crate) required: u64,
}

impl Banner {
    /// Bytes before the payload.
    pub(crate) const HEAD_LEN: usize = BANNER_PREFIX.len() + 2;

    pub(crate) fn encode_all(&self) -> Bytes {
        let mut w = Writer::with_capacity(Self::HEAD_LEN + usize::from(BANNER_PAYLOAD_LEN));
        w.raw(BANNER_PREFIX);
        w.u16(BANNER_PAYLOAD_LEN);
        w.u64(self.supported);
        w.u64(self.required);
        w.into_bytes()
    }

    pub(crate) fn decode_payload(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(payload);
        Ok(Self { supported: r.u64()?, required: r.u64()? })
    }
}

/// HELLO: the sender's entity type, and the receiver's address as the sender sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hello {
    pub(crate) kind: EntityType,
    pub(crate) peer_addr: EntityAddr,
}

impl Encode for Hello {
    fn encode(&self, w: &mut Writer) {
        w.u8(self.kind.0.saturating_as::<u8>());
        w.put(&self.peer_addr);
    }
}

impl Decode for Hello {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { kind: EntityType(r.u8()?.into()), peer_addr: r.get()? })
    }
}

/// AUTH_REQUEST.
#[derive(Clone, Debug)]
pub(crate) struct AuthRequestFrame {
    pub(crate) method: u32,
    pub(crate) modes: Vec<u32>,
    pub(crate) payload: Bytes,
}

impl Encode for AuthRequestFrame {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.method);
        w.put(&self.modes);
        w.put(&self.payload);
    }
}

impl Decode for AuthRequestFrame {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { method: r.u32()?, modes: r.get()?, payload: r.get()? })
    }
}

/// AUTH_BAD_METHOD.
#[derive(Clone, Debug)]
pub(crate) struct BadMethod {
    pub(crate) method: u32,
    /// Negative errno.
    pub(crate) result: i32,
    pub(crate) methods: Vec<u32>,
    pub(crate) modes: Vec<u32>,
}

impl Encode for BadMethod {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.method);
        w.i32(self.result);
        w.put(&self.methods);
        w.put(&self.modes);
    }
}

impl Decode for BadMethod {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { method: r.u32()?, result: r.i32()?, methods: r.get()?, modes: r.get()? })
    }
}

/// AUTH_DONE.
#[derive(Clone, Debug)]
pub(crate) struct AuthDone {
    pub(crate) global_id: GlobalId,
    pub(crate) mode: u32,
    pub(crate) payload: Bytes,
}

impl Encode for AuthDone {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.global_id);
        w.u32(self.mode);
        w.put(&self.payload);
    }
}

impl Decode for AuthDone {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { global_id: r.get()?, mode: r.u32()?, payload: r.get()? })
    }
}
