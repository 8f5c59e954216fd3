//! The handshake, accepting side.

use bytes::Bytes;
use loligo_cephx::handshake::{AuthMethod, ServerAuth, ServerStep};
use loligo_wire::Encode;

use super::Event;
use super::wire::{Expected, PeerHello, Wire, expect};
use crate::compression::{CompressionDone, CompressionRequest};
use crate::control::{AuthDone, AuthRequestFrame, BadMethod};
use crate::{ClientIdent, Method, Misbehaviour, PeerInfo, ProtoError, Reconnect, ServerIdent, Session, Tag};

/// The accepting side.
pub(super) struct Server {
    auth: Box<dyn ServerAuth>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Banner and HELLO are being exchanged.
    Opening,
    /// AUTH_REQUEST is expected.
    AwaitAuth(PeerHello),
    /// AUTH_REPLY_MORE has been sent; the method is the client's.
    AwaitMore(PeerHello, AuthMethod),
    /// AUTH_DONE and the signature have been sent.
    AwaitSignature(Expected, PeerInfo),
    /// COMPRESSION_REQUEST is expected.
    AwaitCompression(PeerInfo),
    /// CLIENT_IDENT or SESSION_RECONNECT is expected.
    AwaitSession(PeerInfo),
    /// A decision on the client's CLIENT_IDENT is required.
    DecideIdent(ClientIdent, PeerInfo),
    /// A decision on the client's SESSION_RECONNECT is required.
    DecideReconnect(Reconnect, PeerInfo),
    /// The session is open, or an error was returned.
    Over,
}

impl Server {
    pub(super) fn new(auth: Box<dyn ServerAuth>) -> Self {
        Self { auth, state: State::Opening }
    }

    /// Proceeds as far as the received bytes and the commands allow.
    pub(super) fn run(&mut self, wire: &mut Wire) -> Result<(), ProtoError> {
        if matches!(self.state, State::Opening) {
            let Some(peer) = wire.open()? else {
                return Ok(());
            };
            self.state = State::AwaitAuth(peer);
        }
        while !matches!(self.state, State::DecideIdent(..) | State::DecideReconnect(..) | State::Over) {
            let Some((tag, payload)) = wire.receive()? else {
                break;
            };
            // On an error the state stays `Over`, so the handshake cannot be continued by mistake.
            self.state = match std::mem::replace(&mut self.state, State::Over) {
                State::AwaitAuth(peer) => self.on_auth_request(peer, tag, &payload, wire)?,
                State::AwaitMore(peer, method) => self.on_auth_more(peer, method, tag, &payload, wire)?,
                State::AwaitSignature(expected, peer) => on_signature(&expected, peer, tag, &payload, wire)?,
                State::AwaitCompression(peer) => on_compression(peer, tag, &payload, wire)?,
                State::AwaitSession(peer) => on_session(peer, tag, &payload, wire)?,
                state @ (State::Opening
                | State::DecideIdent(..)
                | State::DecideReconnect(..)
                | State::Over) => state,
            };
        }
        Ok(())
    }

    /// Sends SERVER_IDENT. Returns whether the command was possible, as the other commands do.
    pub(super) fn accept(&mut self, server: ServerIdent, wire: &mut Wire) -> Result<bool, ProtoError> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::DecideIdent(client, peer) => {
                wire.send(Tag::ServerIdent, &server.to_bytes())?;
                wire.establish(peer, Session::Opened { client, server });
                Ok(true)
            }
            other => self.not_possible(other),
        }
    }

    /// Sends SESSION_RECONNECT_OK.
    pub(super) fn reconnect_ok(&mut self, server_in_seq: u64, wire: &mut Wire) -> Result<bool, ProtoError> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::DecideReconnect(request, peer) => {
                wire.send(Tag::SessionReconnectOk, &server_in_seq.to_le_bytes())?;
                wire.establish(peer, Session::Resumed { request, server_in_seq });
                Ok(true)
            }
            other => self.not_possible(other),
        }
    }

    /// Answers a CLIENT_IDENT with `tag`; the client may try again.
    pub(super) fn refuse_ident(
        &mut self,
        tag: Tag,
        payload: &[u8],
        wire: &mut Wire,
    ) -> Result<bool, ProtoError> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::DecideIdent(_, peer) => self.refuse(peer, tag, payload, wire),
            other => self.not_possible(other),
        }
    }

    /// Answers a SESSION_RECONNECT with `tag`; the client may try again.
    pub(super) fn refuse_reconnect(
        &mut self,
        tag: Tag,
        payload: &[u8],
        wire: &mut Wire,
    ) -> Result<bool, ProtoError> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::DecideReconnect(_, peer) => self.refuse(peer, tag, payload, wire),
            other => self.not_possible(other),
        }
    }

    /// Answers a CLIENT_IDENT or a SESSION_RECONNECT with WAIT.
    pub(super) fn wait(&mut self, wire: &mut Wire) -> Result<bool, ProtoError> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::DecideIdent(_, peer) | State::DecideReconnect(_, peer) => {
                self.refuse(peer, Tag::Wait, &[], wire)
            }
            other => self.not_possible(other),
        }
    }

    pub(super) fn state_name(&self) -> &'static str {
        match self.state {
            State::Opening => "opening",
            State::AwaitAuth(..) => "awaiting an authentication request",
            State::AwaitMore(..) => "authenticating",
            State::AwaitSignature(..) => "awaiting the signature",
            State::AwaitCompression(..) => "awaiting word about compression",
            State::AwaitSession(..) => "awaiting the session's opening",
            State::DecideIdent(..) | State::DecideReconnect(..) => "awaiting a command",
            State::Over => "over",
        }
    }

    fn refuse(
        &mut self,
        peer: PeerInfo,
        tag: Tag,
        payload: &[u8],
        wire: &mut Wire,
    ) -> Result<bool, ProtoError> {
        wire.send(tag, payload)?;
        self.state = State::AwaitSession(peer);
        Ok(true)
    }

    fn not_possible(&mut self, state: State) -> Result<bool, ProtoError> {
        self.state = state;
        Ok(false)
    }

    fn on_auth_request(
        &mut self,
        peer: PeerHello,
        tag: Tag,
        payload: &[u8],
        wire: &mut Wire,
    ) -> Result<State, ProtoError> {
        let request: AuthRequestFrame = expect(Tag::AuthRequest, tag, payload)?;
        let method = AuthMethod(request.method);
        let step = self.auth.request(peer.kind, method, &request.modes, &request.payload);
        on_step(step, peer, method, wire)
    }

    fn on_auth_more(
        &mut self,
        peer: PeerHello,
        method: AuthMethod,
        tag: Tag,
        payload: &[u8],
        wire: &mut Wire,
    ) -> Result<State, ProtoError> {
        let theirs: Bytes = expect(Tag::AuthRequestMore, tag, payload)?;
        on_step(self.auth.more(&theirs), peer, method, wire)
    }
}

fn on_step(
    step: ServerStep,
    peer: PeerHello,
    method: AuthMethod,
    wire: &mut Wire,
) -> Result<State, ProtoError> {
    match step {
        ServerStep::More(payload) => {
            wire.send(Tag::AuthReplyMore, &payload.to_bytes())?;
            Ok(State::AwaitMore(peer, method))
        }
        ServerStep::Bad { errno, methods, modes } => {
            let bad = BadMethod { method: method.0, result: errno.to_result(), methods, modes };
            wire.send(Tag::AuthBadMethod, &bad.to_bytes())?;
            Ok(State::AwaitAuth(peer))
        }
        ServerStep::Done { identity, mode, payload, keys } => {
            let global_id = identity.global_id;
            let done = AuthDone { global_id, mode: mode.code(), payload };
            wire.send(Tag::AuthDone, &done.to_bytes())?;
            let expected = wire.protect(&keys, mode, |pair| (pair.client_rx, pair.client_tx))?;
            let PeerHello { kind, our_addr } = peer;
            let peer = PeerInfo { kind, identity: Some(identity), global_id, our_addr, mode };
            Ok(State::AwaitSignature(expected, peer))
        }
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
    let PeerInfo { identity, global_id, mode, .. } = peer.clone();
    wire.events.push_back(Event::Authenticated { identity, global_id, mode });
    Ok(if wire.talks_of_compression() { State::AwaitCompression(peer) } else { State::AwaitSession(peer) })
}

/// Chooses the first of the client's methods that this side accepts.
fn on_compression(peer: PeerInfo, tag: Tag, payload: &[u8], wire: &mut Wire) -> Result<State, ProtoError> {
    let request: CompressionRequest = expect(Tag::CompressionRequest, tag, payload)?;
    let ours = wire.methods(peer.mode);
    let common =
        request.methods.iter().filter_map(|code| Method::from_code(*code)).find(|m| ours.contains(m));
    let method = common.filter(|_| request.wanted);
    let done = CompressionDone { wanted: method.is_some(), method: method.map_or(0, Method::code) };
    wire.send(Tag::CompressionDone, &done.to_bytes())?;
    if let Some(method) = method {
        wire.compress(method);
    }
    Ok(State::AwaitSession(peer))
}

fn on_session(peer: PeerInfo, tag: Tag, payload: &[u8], wire: &mut Wire) -> Result<State, ProtoError> {
    if tag == Tag::SessionReconnect {
        let request: Reconnect = expect(tag, tag, payload)?;
        check_addrs(request.addrs.0.len(), tag)?;
        wire.events.push_back(Event::Reconnect(request.clone()));
        return Ok(State::DecideReconnect(request, peer));
    }
    let ident: ClientIdent = expect(Tag::ClientIdent, tag, payload)?;
    check_addrs(ident.addrs.0.len(), tag)?;
    wire.events.push_back(Event::ClientIdent(ident.clone()));
    Ok(State::DecideIdent(ident, peer))
}

/// Sessions are identified by the client's addresses, so there must be one.
fn check_addrs(count: usize, tag: Tag) -> Result<(), Misbehaviour> {
    if count == 0 { Err(Misbehaviour::NoAddress(tag)) } else { Ok(()) }
}
