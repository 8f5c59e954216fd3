//! The handshake, connecting side.

use bytes::Bytes;
use loligo_cephx::handshake::{AuthMethod, AuthRequest, ClientAuth, ConMode};
use loligo_wire::{Encode, Errno};

use super::Event;
use super::wire::{Expected, PeerHello, Wire, expect};
use crate::compression::{CompressionDone, CompressionRequest};
use crate::control::{AuthDone, AuthRequestFrame, BadMethod};
use crate::{ClientIdent, Method, PeerInfo, ProtoError, Reconnect, ServerIdent, Session, Tag, Unsupported};

/// The connecting side.
pub(super) struct Client {
    auth: Box<dyn ClientAuth>,
    /// The modes in the last AUTH_REQUEST.
    offered: Vec<ConMode>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Banner and HELLO are being exchanged.
    Opening,
    /// AUTH_REQUEST or AUTH_REQUEST_MORE has been sent.
    Authenticating(PeerHello),
    /// The signature has been sent.
    AwaitSignature(Expected, PeerInfo),
    /// COMPRESSION_REQUEST has been sent.
    AwaitCompression(PeerInfo),
    /// The command `identify` or (unless the session was reset) `reconnect` is required.
    Command { may_reconnect: bool, peer: PeerInfo },
    /// CLIENT_IDENT has been sent.
    Identified(ClientIdent, PeerInfo),
    /// SESSION_RECONNECT has been sent.
    Reconnecting(Reconnect, PeerInfo),
    /// The session is open or refused, or an error was returned.
    Over,
}

impl Client {
    pub(super) fn new(auth: Box<dyn ClientAuth>) -> Self {
        Self { auth, offered: Vec::new(), state: State::Opening }
    }

    /// Proceeds as far as the received bytes and the commands allow.
    pub(super) fn run(&mut self, wire: &mut Wire) -> Result<(), ProtoError> {
        if matches!(self.state, State::Opening) {
            let Some(peer) = wire.open()? else {
                return Ok(());
            };
            let request = self.auth.request()?;
            self.send_request(request, wire)?;
            self.state = State::Authenticating(peer);
        }
        while !matches!(self.state, State::Command { .. } | State::Over) {
            let Some((tag, payload)) = wire.receive()? else {
                break;
            };
            // On an error the state stays `Over`, so the handshake cannot be continued by mistake.
            self.state = match std::mem::replace(&mut self.state, State::Over) {
                State::Authenticating(peer) => self.on_auth(peer, tag, &payload, wire)?,
                State::AwaitSignature(expected, peer) => on_signature(&expected, peer, tag, &payload, wire)?,
                State::AwaitCompression(peer) => on_compression(peer, tag, &payload, wire)?,
                State::Identified(ident, peer) => on_ident_answer(ident, peer, tag, &payload, wire)?,
                State::Reconnecting(request, peer) => {
                    on_reconnect_answer(request, peer, tag, &payload, wire)?
                }
                state @ (State::Opening | State::Command { .. } | State::Over) => state,
            };
        }
        Ok(())
    }

    /// Returns whether the command was possible.
    pub(super) fn identify(&mut self, ident: ClientIdent, wire: &mut Wire) -> Result<bool, ProtoError> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Command { peer, .. } => {
                wire.send(Tag::ClientIdent, &ident.to_bytes())?;
                self.state = State::Identified(ident, peer);
                Ok(true)
            }
            other => {
                self.state = other;
                Ok(false)
            }
        }
    }

    /// Returns whether the command was possible.
    pub(super) fn reconnect(&mut self, request: Reconnect, wire: &mut Wire) -> Result<bool, ProtoError> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Command { may_reconnect: true, peer } => {
                wire.send(Tag::SessionReconnect, &request.to_bytes())?;
                self.state = State::Reconnecting(request, peer);
                Ok(true)
            }
            other => {
                self.state = other;
                Ok(false)
            }
        }
    }

    pub(super) fn state_name(&self) -> &'static str {
        match self.state {
            State::Opening => "opening",
            State::Authenticating(..) => "authenticating",
            State::AwaitSignature(..) => "awaiting the signature",
            State::AwaitCompression(..) => "awaiting word about compression",
            State::Command { .. } => "awaiting a command",
            State::Identified(..) => "identified",
            State::Reconnecting(..) => "reconnecting",
            State::Over => "over",
        }
    }

    fn send_request(&mut self, request: AuthRequest, wire: &mut Wire) -> Result<(), ProtoError> {
        let frame = AuthRequestFrame {
            method: request.method.0,
            modes: request.modes.iter().map(|m| m.code()).collect(),
            payload: request.payload,
        };
        self.offered = request.modes;
        wire.send(Tag::AuthRequest, &frame.to_bytes())
    }

    fn on_auth(
        &mut self,
        peer: PeerHello,
        tag: Tag,
        payload: &[u8],
        wire: &mut Wire,
    ) -> Result<State, ProtoError> {
        match tag {
            Tag::AuthBadMethod => {
                let bad: BadMethod = expect(tag, tag, payload)?;
                let errno = Errno(bad.result.saturating_neg());
                let request =
                    self.auth.bad_method(AuthMethod(bad.method), errno, &bad.methods, &bad.modes)?;
                self.send_request(request, wire)?;
                Ok(State::Authenticating(peer))
            }
            Tag::AuthReplyMore => {
                let theirs: Bytes = expect(tag, tag, payload)?;
                let ours = self.auth.more(&theirs)?;
                wire.send(Tag::AuthRequestMore, &ours.to_bytes())?;
                Ok(State::Authenticating(peer))
            }
            _ => self.on_auth_done(peer, expect(Tag::AuthDone, tag, payload)?, wire),
        }
    }

    fn on_auth_done(
        &mut self,
        peer: PeerHello,
        done: AuthDone,
        wire: &mut Wire,
    ) -> Result<State, ProtoError> {
        let mode = ConMode::from_code(done.mode)
            .filter(|mode| self.offered.contains(mode))
            .ok_or(Unsupported::Mode(done.mode))?;
        let keys = self.auth.done(done.global_id, mode, &done.payload)?;
        let expected = wire.protect(&keys, mode, |pair| (pair.client_tx, pair.client_rx))?;
        let PeerHello { kind, our_addr } = peer;
        let peer = PeerInfo { kind, identity: None, global_id: done.global_id, our_addr, mode };
        Ok(State::AwaitSignature(expected, peer))
    }
}

fn on_signature(
    expected: &Expected,
    peer: PeerInfo,
    tag: Tag,
    payload: &[u8],
    wire: &mut Wire,
) -> Result<State, ProtoError> {
    expected.check(tag, payload)?;
    if !wire.talks_of_compression() {
        return Ok(authenticated(peer, wire));
    }
    let methods: Vec<u32> = wire.methods(peer.mode).iter().map(|method| method.code()).collect();
    let request = CompressionRequest { wanted: !methods.is_empty(), methods };
    wire.send(Tag::CompressionRequest, &request.to_bytes())?;
    Ok(State::AwaitCompression(peer))
}

fn on_compression(peer: PeerInfo, tag: Tag, payload: &[u8], wire: &mut Wire) -> Result<State, ProtoError> {
    let done: CompressionDone = expect(Tag::CompressionDone, tag, payload)?;
    if done.wanted {
        let method = Method::from_code(done.method)
            .filter(|method| wire.methods(peer.mode).contains(method))
            .ok_or(Unsupported::Method(done.method))?;
        wire.compress(method);
    }
    Ok(authenticated(peer, wire))
}

fn authenticated(peer: PeerInfo, wire: &mut Wire) -> State {
    wire.events.push_back(Event::Authenticated {
        identity: None,
        global_id: peer.global_id,
        mode: peer.mode,
    });
    State::Command { may_reconnect: true, peer }
}

fn on_ident_answer(
    client: ClientIdent,
    peer: PeerInfo,
    tag: Tag,
    payload: &[u8],
    wire: &mut Wire,
) -> Result<State, ProtoError> {
    match tag {
        Tag::IdentMissingFeatures => {
            let features = expect(tag, tag, payload)?;
            wire.events.push_back(Event::MissingFeatures { features });
        }
        Tag::Wait => wire.events.push_back(Event::Wait),
        _ => {
            let server: ServerIdent = expect(Tag::ServerIdent, tag, payload)?;
            let missing = client.required_features & !server.supported_features;
            if missing != 0 {
                return Err(Unsupported::Features { missing }.into());
            }
            wire.establish(peer, Session::Opened { client, server });
        }
    }
    Ok(State::Over)
}

fn on_reconnect_answer(
    request: Reconnect,
    peer: PeerInfo,
    tag: Tag,
    payload: &[u8],
    wire: &mut Wire,
) -> Result<State, ProtoError> {
    let (event, may_reconnect) = match tag {
        Tag::SessionRetry => (Event::Retry { connect_seq: expect(tag, tag, payload)? }, true),
        Tag::SessionRetryGlobal => (Event::RetryGlobal { global_seq: expect(tag, tag, payload)? }, true),
        Tag::SessionReset => (Event::Reset { full: expect(tag, tag, payload)? }, false),
        Tag::Wait => {
            wire.events.push_back(Event::Wait);
            return Ok(State::Over);
        }
        _ => {
            let server_in_seq = expect(Tag::SessionReconnectOk, tag, payload)?;
            wire.establish(peer, Session::Resumed { request, server_in_seq });
            return Ok(State::Over);
        }
    };
    wire.events.push_back(event);
    Ok(State::Command { may_reconnect, peer })
}
