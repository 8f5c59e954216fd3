//! The handshake, accepting side.

use bytes::Bytes;
use loligo_cephx::handshake::{AuthKeys, AuthMethod, ConMode, Identity, ServerAuth, ServerStep};
use loligo_wire::message::mon::MAuth;
use loligo_wire::{EntityAddr, EntityType, Errno, GlobalId, Writer, features};

use super::auth;
use super::wire::{BANNER, CONNECT_LEN, ConnectMsg, ReplyMsg, Source, len_u32, part, protocol_of, tag};
use super::{Accept, Agreed, Offer, Opened, Request, Sealer, Wire, check_banner, count_u32, legacy_addr};
use crate::limits::CONTROL_SEGMENT_MAX;
use crate::{Event, Local, Misbehaviour, PeerInfo, ProtoError};

/// The accepting side.
pub(super) struct Server {
    local: Local,
    offer: Offer,
    auth: Box<dyn ServerAuth>,
    /// The address that the client says it has.
    addr: EntityAddr,
    kind: Option<EntityType>,
    /// The client was sent a challenge.
    is_challenged: bool,
    verified: Option<Verified>,
    state: State,
}

/// An authorizer that was found good on this connection; the client sends it again with each request.
struct Verified {
    method: u32,
    authorizer: Bytes,
    identity: Identity,
    keys: AuthKeys,
    proof: Bytes,
}

enum State {
    AwaitBanner,
    AwaitConnect,
    /// A decision on the client's request is required.
    Decide(ConnectMsg),
    /// The session is accepted; the client says what it has received.
    AwaitSeq(Box<Pending>),
    /// A monitor's client is authenticating with messages; the session is open already.
    Authenticating(Box<Exchange>),
    /// A monitor's client is authenticated. The command `accept` is required.
    Authenticated(Box<Pending>),
    /// The session is open, or an error was returned.
    Over,
}

/// A session that opens next.
struct Pending {
    sealer: Sealer,
    peer: PeerInfo,
    opened: Opened,
    agreed: Agreed,
}

/// An authentication by messages.
struct Exchange {
    sealer: Sealer,
    opened: Opened,
    request: Request,
    kind: EntityType,
    /// The method whose challenge was sent.
    method: Option<AuthMethod>,
    /// The client has said what it has received, if it does.
    is_open: bool,
}

/// Why a session is refused.
#[derive(Clone, Copy, Debug)]
pub(super) enum Refusal {
    Features(u64),
    Retry(u64),
    RetryGlobal(u64),
    Reset,
    Wait,
}

/// A state, and whether it is the result of received bytes: then there may be more to do.
type Step = (State, bool);

impl Server {
    pub(super) fn new(local: Local, offer: Offer, auth: Box<dyn ServerAuth>, wire: &mut Wire) -> Self {
        let mut w = Writer::with_capacity(BANNER.len() + 2 * EntityAddr::LEGACY_LEN);
        w.raw(BANNER);
        offer.addr.encode_legacy(&mut w);
        local.peer_addr.encode_legacy(&mut w);
        wire.out.copy(w.as_slice());
        Self {
            local,
            offer,
            auth,
            addr: EntityAddr::default(),
            kind: None,
            is_challenged: false,
            verified: None,
            state: State::AwaitBanner,
        }
    }

    /// Proceeds as far as the received bytes and the commands allow.
    pub(super) fn run(&mut self, wire: &mut Wire) -> Result<(), ProtoError> {
        loop {
            // On an error the state stays `Over`, so the handshake cannot be continued by mistake.
            let (state, has_moved) = match std::mem::replace(&mut self.state, State::Over) {
                State::AwaitBanner => self.on_banner(wire)?,
                State::AwaitConnect => self.on_connect(wire)?,
                State::AwaitSeq(pending) => on_seq(pending, wire)?,
                State::Authenticating(exchange) => self.on_message(exchange, wire)?,
                state @ (State::Decide(..) | State::Authenticated(..) | State::Over) => (state, false),
            };
            self.state = state;
            if !has_moved {
                return Ok(());
            }
        }
    }

    /// Returns whether the command was possible.
    pub(super) fn accept(&mut self, accept: &Accept, wire: &mut Wire) -> Result<bool, ProtoError> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Decide(msg) => {
                self.state = self.open(&msg, accept, wire);
                Ok(true)
            }
            State::Authenticated(pending) => {
                let Pending { sealer, peer, opened, .. } = *pending;
                wire.establish(sealer, peer, opened);
                Ok(true)
            }
            other => {
                self.state = other;
                Ok(false)
            }
        }
    }

    /// Returns whether the command was possible.
    pub(super) fn refuse(&mut self, refusal: Refusal, wire: &mut Wire) -> bool {
        let State::Decide(msg) = &self.state else { return false };
        let msg = msg.clone();
        let mut reply = ReplyMsg { features: self.features() & msg.features, ..ReplyMsg::default() };
        reply.tag = match refusal {
            Refusal::Features(bits) => {
                reply.features |= bits;
                tag::FEATURES
            }
            Refusal::Retry(count) => {
                // The client uses what it is told as it is.
                reply.connect_seq = count_u32(count.saturating_add(1));
                tag::RETRY_SESSION
            }
            Refusal::RetryGlobal(count) => {
                reply.global_seq = count_u32(count);
                tag::RETRY_GLOBAL
            }
            Refusal::Reset => tag::RESET_SESSION,
            Refusal::Wait => tag::WAIT,
        };
        let proof = self.verified.as_ref().map(|verified| verified.proof.clone()).unwrap_or_default();
        send_reply(reply, &proof, wire);
        self.state = State::AwaitConnect;
        true
    }

    pub(super) fn state_name(&self) -> &'static str {
        match self.state {
            State::AwaitBanner => "opening",
            State::AwaitConnect => "awaiting a request",
            State::Decide(..) | State::Authenticated(..) => "awaiting a command",
            State::AwaitSeq(..) => "accepted",
            State::Authenticating(..) => "awaiting the authentication",
            State::Over => "over",
        }
    }

    /// The features of this side. Without a key that can sign, none are signed.
    fn features(&self) -> u64 {
        let keys = self.verified.as_ref().map(|verified| verified.keys.clone()).unwrap_or_default();
        match (Agreed { features: 0, keys }).cannot_sign() {
            true => self.offer.features & !features::MSG_AUTH,
            false => self.offer.features,
        }
    }

    fn source(&self) -> Source {
        Source { kind: self.local.kind, num: self.offer.num }
    }

    fn on_banner(&mut self, wire: &mut Wire) -> Result<Step, ProtoError> {
        check_banner(wire.opener.peek())?;
        let Some(bytes) = wire.take(BANNER.len() + EntityAddr::LEGACY_LEN)? else {
            return Ok((State::AwaitBanner, false));
        };
        self.addr = legacy_addr(&bytes[BANNER.len()..])?;
        Ok((State::AwaitConnect, true))
    }

    fn on_connect(&mut self, wire: &mut Wire) -> Result<Step, ProtoError> {
        let Some(start) = wire.opener.peek().get(..CONNECT_LEN) else {
            return Ok((State::AwaitConnect, false));
        };
        let msg = ConnectMsg::decode(start).map_err(part("a connect request"))?;
        if msg.auth_len > CONTROL_SEGMENT_MAX {
            let (what, len, max) = ("an authorizer", msg.auth_len, CONTROL_SEGMENT_MAX);
            return Err(Misbehaviour::PartTooLong { what, len, max }.into());
        }
        let Some(mut bytes) = wire.take(CONNECT_LEN + msg.auth_len as usize)? else {
            return Ok((State::AwaitConnect, false));
        };
        let authorizer = bytes.split_off(CONNECT_LEN);
        Ok((self.on_request(msg, authorizer, wire)?, true))
    }

    fn on_request(
        &mut self,
        msg: ConnectMsg,
        authorizer: Bytes,
        wire: &mut Wire,
    ) -> Result<State, ProtoError> {
        let kind = EntityType(msg.host_type);
        if self.kind.replace(kind) != Some(kind) {
            wire.events.push_back(Event::Hello { kind, our_addr: self.offer.addr });
            // What was proven was proven by another kind of peer.
            self.verified = None;
        }
        let protocol = protocol_of(self.local.kind, kind);
        if msg.protocol != protocol {
            let reply = ReplyMsg { tag: tag::BAD_PROTOCOL, protocol, ..self.reply_to(&msg) };
            send_reply(reply, &[], wire);
            return Ok(State::AwaitConnect);
        }
        if self.local.kind == EntityType::MON && kind != EntityType::MON {
            return Ok(self.open_early(&msg, kind, wire));
        }
        let is_cephx = AuthMethod(msg.auth_method) == AuthMethod::CEPHX;
        if is_cephx && !features::has(msg.features, features::CEPHX_V2) {
            let mut reply = ReplyMsg { tag: tag::FEATURES, ..self.reply_to(&msg) };
            reply.features |= features::CEPHX_V2;
            send_reply(reply, &[], wire);
            return Ok(State::AwaitConnect);
        }
        if let Some(refused) = self.verify(&msg, kind, authorizer, wire) {
            return Ok(refused);
        }
        wire.events.push_back(Event::Connect(self.request(&msg)));
        Ok(State::Decide(msg))
    }

    /// Checks the authorizer. Returns the next state if it is not good yet.
    fn verify(
        &mut self,
        msg: &ConnectMsg,
        kind: EntityType,
        authorizer: Bytes,
        wire: &mut Wire,
    ) -> Option<State> {
        let is_same = |known: &Verified| known.method == msg.auth_method && known.authorizer == authorizer;
        if self.verified.as_ref().is_some_and(is_same) {
            return None;
        }
        self.verified = None;
        let step = match std::mem::take(&mut self.is_challenged) {
            true => self.auth.more(&authorizer),
            false => {
                let modes = [ConMode::Crc.code()];
                self.auth.request(kind, AuthMethod(msg.auth_method), &modes, &authorizer)
            }
        };
        let (tag, payload) = match step {
            ServerStep::Done { identity, payload: proof, keys, .. } => {
                let global_id = identity.global_id;
                let event =
                    Event::Authenticated { identity: Some(identity.clone()), global_id, mode: ConMode::Crc };
                wire.events.push_back(event);
                let method = msg.auth_method;
                self.verified = Some(Verified { method, authorizer, identity, keys, proof });
                return None;
            }
            ServerStep::More(challenge) => {
                self.is_challenged = true;
                (tag::CHALLENGE, challenge)
            }
            ServerStep::Bad { .. } => (tag::BAD_AUTHORIZER, Bytes::new()),
        };
        send_reply(ReplyMsg { tag, ..self.reply_to(msg) }, &payload, wire);
        Some(State::AwaitConnect)
    }

    fn request(&self, msg: &ConnectMsg) -> Request {
        Request {
            addr: self.addr,
            features: msg.features,
            global_seq: msg.global_seq.into(),
            connect_seq: msg.connect_seq.into(),
            lossy: msg.lossy,
        }
    }

    /// A reply that does not accept.
    fn reply_to(&self, msg: &ConnectMsg) -> ReplyMsg {
        ReplyMsg { features: self.offer.features & msg.features, ..ReplyMsg::default() }
    }

    /// A reply that accepts.
    fn accepting(&self, msg: &ConnectMsg, lossy: bool, is_fresh: bool) -> ReplyMsg {
        let tells_seq = !is_fresh && features::has(msg.features, features::RECONNECT_SEQ);
        ReplyMsg {
            tag: if tells_seq { tag::SEQ } else { tag::READY },
            features: self.features(),
            global_seq: count_u32(self.offer.global_seq),
            connect_seq: msg.connect_seq.saturating_add(1),
            lossy,
            ..ReplyMsg::default()
        }
    }

    /// Accepts the session of an authenticated client.
    fn open(&mut self, msg: &ConnectMsg, accept: &Accept, wire: &mut Wire) -> State {
        let reply = self.accepting(msg, accept.lossy, accept.fresh);
        let (tag, connect_seq) = (reply.tag, reply.connect_seq.into());
        let agreed_features = reply.features & msg.features;
        let Some(Verified { identity, keys, proof, .. }) = self.verified.take() else { return State::Over };
        send_reply(reply, &proof, wire);
        let agreed = Agreed { features: agreed_features, keys };
        let opened = Opened {
            features: msg.features,
            lossy: accept.lossy,
            global_seq: msg.global_seq.into(),
            connect_seq,
            peer_in_seq: None,
        };
        let sealer = Sealer::new(self.source(), &agreed);
        let peer = self.peer(EntityType(msg.host_type), identity);
        if tag == tag::SEQ {
            wire.out.copy(&accept.in_seq.to_le_bytes());
            return State::AwaitSeq(Box::new(Pending { sealer, peer, opened, agreed }));
        }
        wire.opener.agree(&agreed);
        wire.establish(sealer, peer, opened);
        State::Over
    }

    /// Accepts a monitor's client, which authenticates next.
    fn open_early(&mut self, msg: &ConnectMsg, kind: EntityType, wire: &mut Wire) -> State {
        let reply = self.accepting(msg, true, false);
        let (tag, connect_seq) = (reply.tag, reply.connect_seq.into());
        let agreed = Agreed { features: reply.features & msg.features, keys: AuthKeys::default() };
        send_reply(reply, &[], wire);
        if tag == tag::SEQ {
            wire.out.copy(&0_u64.to_le_bytes());
        }
        wire.opener.agree(&agreed);
        let opened = Opened {
            features: msg.features,
            lossy: true,
            global_seq: msg.global_seq.into(),
            connect_seq,
            peer_in_seq: None,
        };
        State::Authenticating(Box::new(Exchange {
            sealer: Sealer::new(self.source(), &agreed),
            opened,
            request: self.request(msg),
            kind,
            method: None,
            is_open: tag == tag::READY,
        }))
    }

    fn on_message(&mut self, mut exchange: Box<Exchange>, wire: &mut Wire) -> Result<Step, ProtoError> {
        if !exchange.is_open {
            let Some(bytes) = wire.take(8)? else { return Ok((State::Authenticating(exchange), false)) };
            exchange.opened.peer_in_seq = bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
            exchange.is_open = true;
        }
        let Some(asked) = auth::next::<MAuth>(&mut exchange.sealer, wire)? else {
            return Ok((State::Authenticating(exchange), false));
        };
        let (method, step) = self.answer_to(&mut exchange, &asked)?;
        let (result, global_id, payload) = match step {
            ServerStep::More(challenge) => {
                exchange.method = Some(method);
                // Stock clients keep the first id that they are told, and begin anew with another one.
                (0, self.auth.reserve_global_id(), challenge)
            }
            ServerStep::Bad { errno, .. } => (errno.to_result(), GlobalId(0), Bytes::new()),
            ServerStep::Done { identity, payload, .. } => {
                let answer = auth::answer(method, 0, identity.global_id, payload);
                auth::send(answer, &mut exchange.sealer, wire)?;
                return Ok((self.authenticated(*exchange, identity, wire), true));
            }
        };
        auth::send(auth::answer(method, result, global_id, payload), &mut exchange.sealer, wire)?;
        Ok((State::Authenticating(exchange), true))
    }

    /// Passes a message of the exchange to the authentication. Returns the method and the result.
    fn answer_to(
        &mut self,
        exchange: &mut Exchange,
        asked: &MAuth,
    ) -> Result<(AuthMethod, ServerStep), ProtoError> {
        let refused = |errno| ServerStep::Bad { errno, methods: Vec::new(), modes: Vec::new() };
        let method = exchange.method.take();
        if asked.protocol != 0 {
            let known = method.filter(|method| method.0 == asked.protocol);
            let step = known.map_or_else(|| refused(Errno::EINVAL), |_| self.auth.more(&asked.payload));
            return Ok((AuthMethod(asked.protocol), step));
        }
        let (methods, opening) = auth::read_opening(&asked.payload).map_err(part("an auth message"))?;
        for method in [AuthMethod::CEPHX, AuthMethod::NONE] {
            if !methods.contains(&method.0) {
                continue;
            }
            let step = self.auth.request(exchange.kind, method, &[ConMode::Crc.code()], &opening);
            if !matches!(step, ServerStep::Bad { errno: Errno::EOPNOTSUPP, .. }) {
                return Ok((method, step));
            }
        }
        Ok((AuthMethod(0), refused(Errno::EOPNOTSUPP)))
    }

    fn authenticated(&mut self, exchange: Exchange, identity: Identity, wire: &mut Wire) -> State {
        let Exchange { sealer, opened, request, kind, .. } = exchange;
        let global_id = identity.global_id;
        let mode = ConMode::Crc;
        wire.events.push_back(Event::Authenticated { identity: Some(identity.clone()), global_id, mode });
        wire.events.push_back(Event::Connect(request));
        let peer = self.peer(kind, identity);
        State::Authenticated(Box::new(Pending { sealer, peer, opened, agreed: Agreed::default() }))
    }

    fn peer(&self, kind: EntityType, identity: Identity) -> PeerInfo {
        let global_id = identity.global_id;
        PeerInfo { kind, identity: Some(identity), global_id, our_addr: self.offer.addr, mode: ConMode::Crc }
    }
}

fn on_seq(mut pending: Box<Pending>, wire: &mut Wire) -> Result<Step, ProtoError> {
    let Some(bytes) = wire.take(8)? else { return Ok((State::AwaitSeq(pending), false)) };
    pending.opened.peer_in_seq = bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    let Pending { sealer, peer, opened, agreed } = *pending;
    wire.opener.agree(&agreed);
    wire.establish(sealer, peer, opened);
    Ok((State::Over, true))
}

fn send_reply(mut reply: ReplyMsg, payload: &[u8], wire: &mut Wire) {
    reply.auth_len = len_u32(payload);
    let mut w = Writer::with_capacity(64);
    reply.encode(&mut w);
    wire.out.copy(w.as_slice());
    wire.out.copy(payload);
}
