//! The parts that both sides of a handshake share.

use std::collections::VecDeque;

use bytes::Bytes;
use loligo_cephx::handshake::{AuthKeys, ConMode};
use loligo_wire::{Decode, Encode, EntityAddr, EntityType};
use subtle::ConstantTimeEq;

use super::{Event, Local};
use crate::control::{
    BANNER_PAYLOAD_LEN_MAX, BANNER_PREFIX, Banner, FEATURE_COMPRESSION, FEATURE_REVISION_1, Hello,
};
use crate::crypto::{Gcm, GcmPair, SIGNATURE_LEN, sign};
use crate::error::bad_payload;
use crate::frame::{Opener, Sealer};
use crate::limits::TRANSCRIPT_MAX;
use crate::{Compression, Method, Misbehaviour, OutBuf, PeerInfo, ProtoError, Session, Tag, Unsupported};

/// The state common to both roles: the two halves, the transcript, and the opening (banner and HELLO),
/// which is symmetrical.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) sealer: Sealer,
    pub(super) opener: Opener,
    pub(super) out: OutBuf,
    pub(super) events: VecDeque<Event>,
    /// Set together with [`Event::Established`].
    pub(super) established: Option<(PeerInfo, Session)>,
    /// All bytes up to and including AUTH_DONE, for the signatures; `None` from then on.
    transcript: Option<Transcript>,
    our_hello: Hello,
    opening: Opening,
    /// The compression that this side wants.
    compression: Option<Compression>,
    /// Whether both sides support compression: then it is negotiated after authentication.
    compresses: bool,
}

#[derive(Debug)]
enum Opening {
    AwaitBanner,
    AwaitHello,
    Done(PeerHello),
}

/// The contents of the peer's HELLO.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerHello {
    pub(super) kind: EntityType,
    pub(super) our_addr: EntityAddr,
}

#[derive(Debug, Default)]
struct Transcript {
    received: Vec<u8>,
    sent: Vec<u8>,
}

impl Wire {
    /// Starts with this side's banner in the output.
    pub(super) fn new(local: &Local) -> Self {
        let mut wire = Self {
            sealer: Sealer::plain(),
            opener: Opener::plain(),
            out: OutBuf::new(),
            events: VecDeque::new(),
            established: None,
            transcript: None,
            our_hello: Hello { kind: local.kind, peer_addr: local.peer_addr },
            opening: Opening::AwaitBanner,
            compression: None,
            compresses: false,
        };
        wire.begin(FEATURE_REVISION_1);
        wire
    }

    /// Restarts with a banner that announces compression. Call it before anything is written or read.
    pub(super) fn offer(&mut self, compression: Compression) {
        self.compression = Some(compression);
        self.begin(FEATURE_REVISION_1 | FEATURE_COMPRESSION);
    }

    fn begin(&mut self, supported: u64) {
        let banner = Banner { supported, required: FEATURE_REVISION_1 }.encode_all();
        self.out = OutBuf::new();
        self.out.copy(&banner);
        self.transcript = Some(Transcript { received: Vec::new(), sent: banner.to_vec() });
    }

    /// Exchanges banners and HELLOs. Returns the contents of the peer's HELLO once it has been received.
    pub(super) fn open(&mut self) -> Result<Option<PeerHello>, ProtoError> {
        if matches!(self.opening, Opening::AwaitBanner) {
            if !self.receive_banner()? {
                return Ok(None);
            }
            self.send(Tag::Hello, &self.our_hello.to_bytes())?;
            self.opening = Opening::AwaitHello;
        }
        if matches!(self.opening, Opening::AwaitHello) {
            let Some((tag, payload)) = self.receive()? else {
                return Ok(None);
            };
            let hello: Hello = expect(Tag::Hello, tag, &payload)?;
            let (kind, our_addr) = (hello.kind, hello.peer_addr);
            self.opening = Opening::Done(PeerHello { kind, our_addr });
            self.events.push_back(Event::Hello { kind, our_addr });
        }
        match self.opening {
            Opening::Done(peer) => Ok(Some(peer)),
            _ => Ok(None),
        }
    }

    fn receive_banner(&mut self) -> Result<bool, ProtoError> {
        let Some(banner) = self.opener.next_raw(banner_len)? else {
            return Ok(false);
        };
        if let Some(transcript) = &mut self.transcript {
            transcript.received.extend_from_slice(&banner);
        }
        let Banner { supported, required } =
            Banner::decode_payload(&banner[Banner::HEAD_LEN..]).map_err(bad_payload(Tag::Hello))?;
        if supported & FEATURE_REVISION_1 == 0 {
            return Err(Unsupported::Revision { supported }.into());
        }
        let ours = match self.compression {
            Some(_) => FEATURE_REVISION_1 | FEATURE_COMPRESSION,
            None => FEATURE_REVISION_1,
        };
        self.compresses = supported & ours & FEATURE_COMPRESSION != 0;
        let missing = required & !ours;
        if missing != 0 {
            return Err(Unsupported::Required { missing }.into());
        }
        Ok(true)
    }

    /// Sends a frame with one segment.
    pub(super) fn send(&mut self, tag: Tag, payload: &[u8]) -> Result<(), ProtoError> {
        let mut frame = OutBuf::new();
        self.sealer.control(tag, payload, &mut frame)?;
        let frame = frame.take();
        if let Some(transcript) = &mut self.transcript {
            transcript.sent.extend_from_slice(&frame);
            check_bound(&transcript.sent)?;
        }
        self.out.copy(&frame);
        Ok(())
    }

    /// Returns the next frame, if it has been received.
    pub(super) fn receive(&mut self) -> Result<Option<(Tag, Bytes)>, ProtoError> {
        let Some(transcript) = &mut self.transcript else {
            return self.opener.next_control(None);
        };
        let frame = self.opener.next_control(Some(&mut transcript.received));
        check_bound(&transcript.received)?;
        frame
    }

    /// Records the successful end of the handshake.
    pub(super) fn establish(&mut self, peer: PeerInfo, session: Session) {
        self.established = Some((peer, session));
        self.events.push_back(Event::Established);
    }

    /// Protects frames as agreed from here on: AUTH_DONE has been sent or received. Sends this side's
    /// signature and returns the signature that the peer must send.
    pub(super) fn protect(
        &mut self,
        keys: &AuthKeys,
        mode: ConMode,
        halves: fn(GcmPair) -> (Gcm, Gcm),
    ) -> Result<Expected, ProtoError> {
        let transcript = self.transcript.take().unwrap_or_default();
        if mode == ConMode::Secure {
            let (tx, rx) = halves(GcmPair::new(&keys.connection_secret)?);
            self.sealer.secure(tx);
            self.opener.secure(rx);
        }
        // Each side signs the bytes that it has received, so the peer's signature covers the bytes sent
        // here.
        self.send(Tag::AuthSignature, &sign(keys, &transcript.received))?;
        Ok(Expected(sign(keys, &transcript.sent)))
    }
}

/// Compression.
impl Wire {
    /// Whether compression is negotiated.
    pub(super) fn talks_of_compression(&self) -> bool {
        self.compresses
    }

    /// The methods that this side accepts on a connection of this mode, the best first.
    pub(super) fn methods(&self, mode: ConMode) -> &[Method] {
        match &self.compression {
            Some(compression) if mode == ConMode::Crc || compression.secure => &compression.methods,
            _ => &[],
        }
    }

    /// Enables compression from the next frame on, in both directions.
    pub(super) fn compress(&mut self, method: Method) {
        if let Some(compression) = &self.compression {
            self.sealer.compress(method, compression.frame_len_min);
            self.opener.decompress(method);
        }
    }
}

/// The signature that the peer must send.
#[derive(Debug)]
pub(super) struct Expected([u8; SIGNATURE_LEN]);

impl Expected {
    pub(super) fn check(&self, tag: Tag, payload: &[u8]) -> Result<(), ProtoError> {
        if tag != Tag::AuthSignature {
            return Err(Misbehaviour::Unexpected(tag).into());
        }
        if !bool::from(self.0[..].ct_eq(payload)) {
            return Err(Misbehaviour::Signature.into());
        }
        Ok(())
    }
}

/// Decodes the payload of a frame that must have the tag `wanted`. Additional bytes, which a newer peer
/// may send, are ignored.
pub(super) fn expect<T: Decode>(wanted: Tag, tag: Tag, payload: &[u8]) -> Result<T, ProtoError> {
    if tag != wanted {
        return Err(Misbehaviour::Unexpected(tag).into());
    }
    T::from_bytes(payload).map_err(bad_payload(tag))
}

/// The length of the banner that starts with these bytes; `None` if there are too few bytes to tell.
fn banner_len(start: &[u8]) -> Result<Option<usize>, ProtoError> {
    let n = start.len().min(BANNER_PREFIX.len());
    if start[..n] != BANNER_PREFIX[..n] {
        let mut seen = [0; BANNER_PREFIX.len()];
        seen[..n].copy_from_slice(&start[..n]);
        return Err(Unsupported::Banner(seen).into());
    }
    let Some(head) = start.first_chunk::<{ Banner::HEAD_LEN }>() else {
        return Ok(None);
    };
    let payload_len = u16::from_le_bytes([head[8], head[9]]);
    if payload_len > BANNER_PAYLOAD_LEN_MAX {
        return Err(Misbehaviour::BannerLen(payload_len).into());
    }
    Ok(Some(Banner::HEAD_LEN + usize::from(payload_len)))
}

fn check_bound(said: &[u8]) -> Result<(), Misbehaviour> {
    let max = TRANSCRIPT_MAX;
    if said.len() > max { Err(Misbehaviour::HandshakeTooLong { max }) } else { Ok(()) }
}
