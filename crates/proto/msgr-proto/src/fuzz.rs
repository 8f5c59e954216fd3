//! Entry points of the fuzzers and of the corpus test: any input bytes, and never a panic.

use bytes::Bytes;
use loligo_cephx::handshake::{
    AuthError, AuthKeys, AuthMethod, AuthRequest, ClientAuth, ConMode, Identity, ServerAuth, ServerStep,
};
use loligo_wire::{EntityAddr, EntityName, EntityType, Errno, GlobalId};

use crate::compression::compress;
use crate::crypto::GcmPair;
use crate::frame::{Opener, Sealer};
use crate::method::Method;
use crate::{
    ClientIdent, Event, Frame, Handshake, Limits, Local, OutBuf, ProtoError, Reconnect, ServerIdent, Tag, v1,
};

/// Reads an open session in crc mode. `data`: one byte with the length of the pieces in which the rest
/// arrives (0: all at once), then the frames.
pub fn frames(data: &[u8]) {
    let Some((piece_len, stream)) = data.split_first() else { return };
    let mut opener = Opener::plain();
    opener.establish(Limits::default());
    for piece in pieces(stream, *piece_len) {
        opener.spare().extend_from_slice(piece);
        if drain(|| opener.next()).is_err() {
            return;
        }
    }
}

/// Reads an open session in secure mode from a malicious peer that has the keys. `data`: frames, each as
/// its tag, the lengths of its four segments (one byte each), and the segments.
pub fn secure_frames(data: &[u8]) {
    let (Ok(ours), Ok(theirs)) = (GcmPair::new(&[7; 64]), GcmPair::new(&[7; 64])) else { return };
    let (mut sealer, mut opener) = (Sealer::plain(), Opener::plain());
    sealer.secure(theirs.client_tx);
    opener.secure(ours.client_tx);
    opener.establish(Limits::default());
    let mut rest = data;
    while let Some(([tag, lens @ ..], body)) = rest.split_first_chunk::<5>() {
        let (tag, mut body) = (Tag::ALL[usize::from(*tag) % Tag::ALL.len()], body);
        let segments = lens.map(|len| {
            let segment;
            (segment, body) = body.split_at(usize::from(len).min(body.len()));
            Bytes::copy_from_slice(segment)
        });
        rest = body;
        let mut out = OutBuf::new();
        if sealer.any_frame(tag, segments, &mut out).is_err() {
            return;
        }
        opener.spare().extend_from_slice(&out.take());
        if drain(|| opener.next()).is_err() {
            return;
        }
    }
}

/// Reads an open session from a malicious peer with which compression was agreed. `data`: the method,
/// then frames, each as its tag, a byte whose bit 0 tells whether the segments are to be compressed here
/// (1) or are sent as they are (0), the lengths of the four segments (one byte each), and the segments.
pub fn compressed_frames(data: &[u8]) {
    let Some((method, mut rest)) = data.split_first() else { return };
    let method = Method::ALL[usize::from(*method) % Method::ALL.len()];
    let (mut sealer, mut opener) = (Sealer::plain(), Opener::plain());
    opener.decompress(method);
    opener.establish(Limits { front_len_max: 1 << 20, middle_len_max: 1 << 10, data_len_max: 2 << 20 });
    while let Some(([tag, flags, lens @ ..], body)) = rest.split_first_chunk::<6>() {
        let (tag, mut body) = (Tag::ALL[usize::from(*tag) % Tag::ALL.len()], body);
        let segments = lens.map(|len| {
            let segment;
            (segment, body) = body.split_at(usize::from(len).min(body.len()));
            match flags & 1 {
                0 => Bytes::copy_from_slice(segment),
                _ => compress(method, segment).map_or(Bytes::new(), Bytes::from),
            }
        });
        rest = body;
        let mut out = OutBuf::new();
        if sealer.seal_compressed(tag, segments, &mut out).is_err() {
            return;
        }
        opener.spare().extend_from_slice(&out.take());
        if drain(|| opener.next()).is_err() {
            return;
        }
    }
}

/// Performs a handshake. `data`: bit 0 of the first byte selects the server's side, bit 1 secure mode,
/// and the other bits where in the list of commands to begin; the rest is as in [`frames`].
pub fn handshake(data: &[u8]) {
    let [flags, piece_len, stream @ ..] = data else { return };
    let local = Local {
        kind: EntityType::OSD,
        peer_addr: EntityAddr::msgr2(([127, 0, 0, 1], 1).into()),
        limits: Limits::default(),
    };
    let mode = if flags & 2 == 0 { ConMode::Crc } else { ConMode::Secure };
    let mut hs = match flags & 1 {
        0 => Handshake::client(local, Box::new(Trusting(mode))),
        _ => Handshake::server(local, Box::new(Trusting(mode))),
    };
    let mut choices = (flags >> 2)..;
    for piece in pieces(stream, *piece_len) {
        hs.spare().extend_from_slice(piece);
        let mut result = hs.receive();
        while let Some(event) = hs.poll_event() {
            result = result.and_then(|()| command(&mut hs, &event, choices.next().unwrap_or(0)));
        }
        while hs.poll_transmit().is_some() {}
        if result.is_err() {
            return;
        }
    }
    if let Ok(mut end) = hs.into_established() {
        let _ = drain(|| end.opener.next());
    }
}

/// Performs a handshake of version 1. `data`: bit 0 of the first byte selects the server's side, bit 1 a
/// monitor (else an OSD), and the other bits where in the list of commands to begin; the rest is as in
/// [`frames`]. What follows the handshake is read as messages.
pub fn v1_handshake(data: &[u8]) {
    let [flags, piece_len, stream @ ..] = data else { return };
    let server = if flags & 2 == 0 { EntityType::OSD } else { EntityType::MON };
    let addr = EntityAddr::legacy(([127, 0, 0, 1], 1).into());
    let local = |kind| Local { kind, peer_addr: addr, limits: Limits::default() };
    let auth = Trusting(ConMode::Crc);
    let features = loligo_wire::features::SUPPORTED;
    let mut hs = match flags & 1 {
        0 => v1::Handshake::client(local(EntityType::CLIENT), server, Box::new(auth)),
        _ => {
            let offer = v1::Offer { addr, features, num: 0, global_seq: 1 };
            v1::Handshake::server(local(server), offer, Box::new(auth))
        }
    };
    let mut choices = (flags >> 2)..;
    for piece in pieces(stream, *piece_len) {
        hs.spare().extend_from_slice(piece);
        let mut result = hs.receive();
        while let Some(event) = hs.poll_event() {
            result = result.and_then(|()| v1_command(&mut hs, &event, choices.next().unwrap_or(0)));
        }
        while hs.poll_transmit().is_some() {}
        if result.is_err() {
            return;
        }
    }
    if let Ok(mut end) = hs.into_established() {
        let _ = drain(|| end.opener.next());
    }
}

/// Issues one of the commands that the event allows, selected by `choice`.
fn v1_command(hs: &mut v1::Handshake, event: &Event, choice: u8) -> Result<(), ProtoError> {
    match event {
        Event::Introduced { .. } | Event::Retry { .. } | Event::RetryGlobal { .. } | Event::Reset { .. } => {
            let features = loligo_wire::features::SUPPORTED;
            hs.connect(v1::Connect { features, ..v1::Connect::default() })
        }
        Event::Connect(_) => match choice % 6 {
            0 | 1 => hs.accept(v1::Accept { fresh: choice.is_multiple_of(4), ..v1::Accept::default() }),
            2 => hs.retry(u64::from(choice)),
            3 => hs.retry_global(1),
            4 => hs.reset(),
            _ => hs.wait(),
        },
        _ => Ok(()),
    }
}

fn pieces(stream: &[u8], len: u8) -> impl Iterator<Item = &[u8]> {
    stream.chunks(if len == 0 { stream.len().max(1) } else { len.into() })
}

/// Opens all frames; seals messages again and checks that the result opens to the same message.
fn drain(mut next: impl FnMut() -> Result<Option<Frame>, ProtoError>) -> Result<(), ProtoError> {
    while let Some(frame) = next()? {
        let Frame::Message(msg) = frame else { continue };
        let (mut sealer, mut again) = (Sealer::plain(), Opener::plain());
        again.establish(Limits::default());
        let mut out = OutBuf::new();
        sealer.message(&msg, &mut out)?;
        again.spare().extend_from_slice(&out.take());
        let Some(Frame::Message(same)) = again.next()? else { panic!("a message became none") };
        assert_eq!(same.header, msg.header);
        assert_eq!((same.front, same.middle, same.data), (msg.front, msg.middle, msg.data));
    }
    Ok(())
}

/// Issues one of the commands that the event allows, selected by `choice`.
fn command(hs: &mut Handshake, event: &Event, choice: u8) -> Result<(), ProtoError> {
    match event {
        Event::Authenticated { identity: None, .. } | Event::Retry { .. } | Event::RetryGlobal { .. }
            if choice.is_multiple_of(2) =>
        {
            hs.reconnect(Reconnect::default())
        }
        Event::Authenticated { identity: None, .. } | Event::Reset { .. } => {
            hs.identify(ClientIdent::default())
        }
        Event::ClientIdent(_) => match choice % 4 {
            0 | 1 => hs.accept(ServerIdent::default()),
            2 => hs.missing_features(1),
            _ => hs.wait(),
        },
        Event::Reconnect(_) => match choice % 5 {
            0 => hs.reconnect_ok(7),
            1 => hs.retry(1),
            2 => hs.retry_global(1),
            3 => hs.reset(true),
            _ => hs.wait(),
        },
        _ => Ok(()),
    }
}

/// Authentication that accepts every peer after one more round.
struct Trusting(ConMode);

impl Trusting {
    fn keys(&self) -> AuthKeys {
        let secret = if self.0 == ConMode::Secure { vec![7; 64] } else { Vec::new() };
        AuthKeys { session_key: Vec::new().into(), connection_secret: secret.into() }
    }
}

impl ClientAuth for Trusting {
    fn request(&mut self) -> Result<AuthRequest, AuthError> {
        Ok(AuthRequest { method: AuthMethod::CEPHX, modes: vec![self.0], payload: Bytes::new() })
    }

    fn bad_method(
        &mut self,
        _: AuthMethod,
        _: Errno,
        _: &[u32],
        _: &[u32],
    ) -> Result<AuthRequest, AuthError> {
        ClientAuth::request(self)
    }

    fn more(&mut self, payload: &[u8]) -> Result<Bytes, AuthError> {
        Ok(Bytes::copy_from_slice(payload))
    }

    fn done(&mut self, _: GlobalId, _: ConMode, _: &[u8]) -> Result<AuthKeys, AuthError> {
        Ok(self.keys())
    }
}

impl ServerAuth for Trusting {
    fn request(&mut self, _: EntityType, method: AuthMethod, modes: &[u32], payload: &[u8]) -> ServerStep {
        match method {
            AuthMethod::CEPHX => ServerStep::More(Bytes::copy_from_slice(payload)),
            _ => ServerStep::Bad { errno: Errno::EOPNOTSUPP, methods: vec![2], modes: modes.to_vec() },
        }
    }

    fn more(&mut self, payload: &[u8]) -> ServerStep {
        let name = EntityName::client("fuzz");
        ServerStep::Done {
            identity: Identity { name, global_id: GlobalId(1), caps: String::new(), challenge: 0 },
            mode: self.0,
            payload: Bytes::copy_from_slice(payload),
            keys: self.keys(),
        }
    }
}
