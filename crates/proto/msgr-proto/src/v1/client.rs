//! The handshake, connecting side.

use bytes::Bytes;
use loligo_cephx::handshake::{AuthKeys, AuthMethod, AuthRequest, ClientAuth, ConMode};
use loligo_wire::message::mon::MAuthReply;
use loligo_wire::{EntityAddr, EntityType, Errno, GlobalId, Writer};

use super::auth;
use super::wire::{BANNER, ConnectMsg, REPLY_LEN, ReplyMsg, Source, len_u32, part, protocol_of, tag};
use super::{Agreed, Connect, Opened, Sealer, Wire, check_banner, count_u32, legacy_addr};
use crate::limits::CONTROL_SEGMENT_MAX;
use crate::{Event, Local, Misbehaviour, PeerInfo, ProtoError, Unsupported};

/// The connecting side.
pub(super) struct Client {
    local: Local,
    server: EntityType,
    auth: Box<dyn ClientAuth>,
    /// The authorizer that the next request carries.
    request: Option<AuthRequest>,
    /// Set when the server has proven that it knows the ticket.
    keys: Option<AuthKeys>,
    our_addr: EntityAddr,
    has_sent_addr: bool,
    state: State,
}

enum State {
    /// The banner has been sent.
    AwaitBanner,
    /// The command `connect` is required.
    Command,
    /// A connect request has been sent.
    AwaitReply(Connect),
    /// The server has accepted, and says next what it has received.
    AwaitSeq(Connect, ReplyMsg),
    /// The session is open; MAuth has been sent to the monitor.
    Authenticating(Box<Exchange>),
    /// The session is open or refused, or an error was returned.
    Over,
}

/// An authentication by messages.
struct Exchange {
    sealer: Sealer,
    opened: Opened,
    method: AuthMethod,
    /// The monitor has sent its challenge.
    is_challenged: bool,
}

/// A state, and whether it is the result of received bytes: then there may be more to do.
type Step = (State, bool);

impl Client {
    pub(super) fn new(local: Local, server: EntityType, auth: Box<dyn ClientAuth>, wire: &mut Wire) -> Self {
        wire.out.copy(BANNER);
        Self {
            local,
            server,
            auth,
            request: None,
            keys: None,
            our_addr: EntityAddr::default(),
            has_sent_addr: false,
            state: State::AwaitBanner,
        }
    }

    /// Proceeds as far as the received bytes and the commands allow.
    pub(super) fn run(&mut self, wire: &mut Wire) -> Result<(), ProtoError> {
        loop {
            // On an error the state stays `Over`, so the handshake cannot be continued by mistake.
            let (state, has_moved) = match std::mem::replace(&mut self.state, State::Over) {
                State::AwaitBanner => self.on_banner(wire)?,
                State::AwaitReply(connect) => self.on_reply(connect, wire)?,
                State::AwaitSeq(connect, reply) => self.on_seq(connect, reply, wire)?,
                State::Authenticating(exchange) => self.on_message(exchange, wire)?,
                state @ (State::Command | State::Over) => (state, false),
            };
            self.state = state;
            if !has_moved {
                return Ok(());
            }
        }
    }

    /// Returns whether the command was possible.
    pub(super) fn connect(&mut self, connect: Connect, wire: &mut Wire) -> Result<bool, ProtoError> {
        if !matches!(self.state, State::Command) {
            return Ok(false);
        }
        self.state = State::Over;
        if !self.has_sent_addr {
            self.has_sent_addr = true;
            let mut w = Writer::with_capacity(EntityAddr::LEGACY_LEN);
            connect.addr.encode_legacy(&mut w);
            wire.out.copy(w.as_slice());
        }
        if !self.is_by_messages() && self.request.is_none() {
            self.request = Some(self.auth.request()?);
        }
        self.send_connect(&connect, wire);
        self.state = State::AwaitReply(connect);
        Ok(true)
    }

    pub(super) fn state_name(&self) -> &'static str {
        match self.state {
            State::AwaitBanner => "opening",
            State::Command => "awaiting a command",
            State::AwaitReply(..) => "connecting",
            State::AwaitSeq(..) => "accepted",
            State::Authenticating(..) => "authenticating",
            State::Over => "over",
        }
    }

    /// Whether this side authenticates with messages after the session is open.
    fn is_by_messages(&self) -> bool {
        self.server == EntityType::MON && self.local.kind != EntityType::MON
    }

    fn send_connect(&self, connect: &Connect, wire: &mut Wire) {
        let (method, authorizer) = match &self.request {
            Some(request) => (request.method.0, request.payload.clone()),
            None => (0, Bytes::new()),
        };
        let msg = ConnectMsg {
            features: connect.features,
            host_type: self.local.kind.0,
            global_seq: count_u32(connect.global_seq),
            connect_seq: count_u32(connect.connect_seq),
            protocol: protocol_of(self.server, self.local.kind),
            auth_method: method,
            auth_len: len_u32(&authorizer),
            lossy: connect.lossy,
        };
        let mut w = Writer::with_capacity(64);
        msg.encode(&mut w);
        wire.out.copy(w.as_slice());
        wire.out.copy(&authorizer);
    }

    fn on_banner(&mut self, wire: &mut Wire) -> Result<Step, ProtoError> {
        check_banner(wire.opener.peek())?;
        let Some(bytes) = wire.take(BANNER.len() + 2 * EntityAddr::LEGACY_LEN)? else {
            return Ok((State::AwaitBanner, false));
        };
        let (theirs, ours) = bytes[BANNER.len()..].split_at(EntityAddr::LEGACY_LEN);
        let addr = legacy_addr(theirs)?;
        self.our_addr = legacy_addr(ours)?;
        wire.events.push_back(Event::Hello { kind: self.server, our_addr: self.our_addr });
        wire.events.push_back(Event::Introduced { addr });
        Ok((State::Command, true))
    }

    fn on_reply(&mut self, connect: Connect, wire: &mut Wire) -> Result<Step, ProtoError> {
        let Some(start) = wire.opener.peek().get(..REPLY_LEN) else {
            return Ok((State::AwaitReply(connect), false));
        };
        let reply = ReplyMsg::decode(start).map_err(part("a connect reply"))?;
        if reply.auth_len > CONTROL_SEGMENT_MAX {
            let (what, len, max) = ("an authorizer's reply", reply.auth_len, CONTROL_SEGMENT_MAX);
            return Err(Misbehaviour::PartTooLong { what, len, max }.into());
        }
        let Some(bytes) = wire.take(REPLY_LEN + reply.auth_len as usize)? else {
            return Ok((State::AwaitReply(connect), false));
        };
        let state = match reply.tag {
            tag::CHALLENGE => self.answer_challenge(connect, &bytes[REPLY_LEN..], wire)?,
            tag::BAD_AUTHORIZER => self.try_another(connect, wire)?,
            tag::BAD_PROTOCOL => {
                let ours = protocol_of(self.server, self.local.kind);
                return Err(Unsupported::Protocol { theirs: reply.protocol, ours }.into());
            }
            tag::FEATURES => {
                let features = reply.features & !connect.features;
                wire.events.push_back(Event::MissingFeatures { features });
                State::Over
            }
            _ => self.on_verdict(connect, reply, &bytes[REPLY_LEN..], wire)?,
        };
        Ok((state, true))
    }

    fn answer_challenge(
        &mut self,
        connect: Connect,
        challenge: &[u8],
        wire: &mut Wire,
    ) -> Result<State, ProtoError> {
        let Some(request) = &mut self.request else {
            return Err(Misbehaviour::OldTag(tag::CHALLENGE).into());
        };
        request.payload = self.auth.more(challenge)?;
        self.send_connect(&connect, wire);
        Ok(State::AwaitReply(connect))
    }

    fn try_another(&mut self, connect: Connect, wire: &mut Wire) -> Result<State, ProtoError> {
        let method = self.request.as_ref().map_or(AuthMethod(0), |request| request.method);
        self.request = Some(self.auth.bad_method(method, Errno::EACCES, &[], &[])?);
        self.keys = None;
        self.send_connect(&connect, wire);
        Ok(State::AwaitReply(connect))
    }

    /// The server has authenticated this side and says what becomes of the session.
    fn on_verdict(
        &mut self,
        connect: Connect,
        reply: ReplyMsg,
        proof: &[u8],
        wire: &mut Wire,
    ) -> Result<State, ProtoError> {
        let is_accepted = matches!(reply.tag, tag::READY | tag::SEQ);
        if self.request.is_some() && self.keys.is_none() && (is_accepted || !proof.is_empty()) {
            self.keys = Some(self.auth.done(GlobalId(0), ConMode::Crc, proof)?);
        }
        let event = match reply.tag {
            tag::READY => return self.ready(&connect, &reply, None, wire),
            tag::SEQ => return Ok(State::AwaitSeq(connect, reply)),
            tag::RESET_SESSION => Event::Reset { full: true },
            // The server asks for its own count and one more.
            tag::RETRY_SESSION => {
                Event::Retry { connect_seq: u64::from(reply.connect_seq.saturating_sub(1)) }
            }
            tag::RETRY_GLOBAL => Event::RetryGlobal { global_seq: reply.global_seq.into() },
            tag::WAIT => {
                wire.events.push_back(Event::Wait);
                return Ok(State::Over);
            }
            other => return Err(Misbehaviour::OldTag(other).into()),
        };
        wire.events.push_back(event);
        Ok(State::Command)
    }

    fn on_seq(&mut self, connect: Connect, reply: ReplyMsg, wire: &mut Wire) -> Result<Step, ProtoError> {
        let Some(bytes) = wire.take(8)? else { return Ok((State::AwaitSeq(connect, reply), false)) };
        wire.out.copy(&connect.in_seq.to_le_bytes());
        let peer_in_seq = bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        Ok((self.ready(&connect, &reply, peer_in_seq, wire)?, true))
    }

    /// The session is open.
    fn ready(
        &mut self,
        connect: &Connect,
        reply: &ReplyMsg,
        peer_in_seq: Option<u64>,
        wire: &mut Wire,
    ) -> Result<State, ProtoError> {
        let missing = connect.required_features & !reply.features;
        if missing != 0 {
            return Err(Unsupported::Features { missing }.into());
        }
        let keys = self.keys.clone().unwrap_or_default();
        let agreed = Agreed { features: connect.features & reply.features, keys };
        if agreed.has_signatures() && agreed.cannot_sign() {
            return Err(Unsupported::SigningKey.into());
        }
        wire.opener.agree(&agreed);
        let sealer = Sealer::new(Source { kind: self.local.kind, num: connect.num }, &agreed);
        let opened = Opened {
            features: reply.features,
            lossy: reply.lossy,
            global_seq: reply.global_seq.into(),
            connect_seq: reply.connect_seq.into(),
            peer_in_seq,
        };
        if self.is_by_messages() {
            let request = self.auth.request()?;
            let mut exchange = Exchange { sealer, opened, method: request.method, is_challenged: false };
            auth::send(auth::opening(request.method, &request.payload), &mut exchange.sealer, wire)?;
            return Ok(State::Authenticating(Box::new(exchange)));
        }
        let peer = self.peer(GlobalId(0));
        wire.establish(sealer, peer, opened);
        Ok(State::Over)
    }

    fn on_message(&mut self, mut exchange: Box<Exchange>, wire: &mut Wire) -> Result<Step, ProtoError> {
        let Some(reply) = auth::next::<MAuthReply>(&mut exchange.sealer, wire)? else {
            return Ok((State::Authenticating(exchange), false));
        };
        if reply.result < 0 {
            let errno = Errno(reply.result.saturating_neg());
            let request =
                self.auth.bad_method(exchange.method, errno, others(exchange.method, errno), &[])?;
            (exchange.method, exchange.is_challenged) = (request.method, false);
            auth::send(auth::opening(request.method, &request.payload), &mut exchange.sealer, wire)?;
            return Ok((State::Authenticating(exchange), true));
        }
        if exchange.method == AuthMethod::CEPHX && !exchange.is_challenged {
            exchange.is_challenged = true;
            let answer = self.auth.more(&reply.payload)?;
            auth::send(auth::question(exchange.method, answer), &mut exchange.sealer, wire)?;
            return Ok((State::Authenticating(exchange), true));
        }
        self.auth.done(reply.global_id, ConMode::Crc, &reply.payload)?;
        let Exchange { mut sealer, opened, .. } = *exchange;
        sealer.set_num(reply.global_id.0.cast_signed());
        wire.establish(sealer, self.peer(reply.global_id), opened);
        Ok((State::Over, true))
    }

    fn peer(&self, global_id: GlobalId) -> PeerInfo {
        PeerInfo { kind: self.server, identity: None, global_id, our_addr: self.our_addr, mode: ConMode::Crc }
    }
}

/// The methods that a monitor may accept instead of the refused one. It does not say which it accepts, but
/// one that does not know a method knows the other.
fn others(refused: AuthMethod, errno: Errno) -> &'static [u32] {
    match (errno, refused) {
        (Errno::EOPNOTSUPP, AuthMethod::CEPHX) => &[AuthMethod::NONE.0],
        (Errno::EOPNOTSUPP, _) => &[AuthMethod::CEPHX.0],
        _ => &[],
    }
}
