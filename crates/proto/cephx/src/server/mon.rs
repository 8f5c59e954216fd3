//! The monitor's side of a handshake: challenge, verification of the proof, tickets.

use std::sync::Arc;

use bytes::Bytes;
use loligo_wire::{Decode as _, Encode as _, EntityName, EntityType, Errno, GlobalId, Reader, Writer};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::{AuthServer, unproven_identity};
use crate::handshake::{AuthKeys, AuthMethod, ConMode, Identity, ServerAuth, ServerStep};
use crate::key::{CryptoKey, Usage};
use crate::keyring::Entry;
use crate::wire::{
    self, Authenticate, Authorize, AuthorizerHead, Challenge, GET_AUTH_SESSION_KEY,
    GET_PRINCIPAL_SESSION_KEY, MonOpening, TicketBlob,
};
use crate::{CONNECTION_SECRET_LEN, random};

/// The answer to an MAuth: the fields of the MAuthReply.
#[derive(Debug)]
pub struct Renewal {
    /// 0, or a negative errno.
    pub result: i32,
    /// The payload for the client.
    pub payload: Bytes,
}

pub(super) struct MonAcceptor {
    server: Arc<AuthServer>,
    challenged: Option<Challenged>,
}

/// A client that was sent a challenge; valid for one answer.
struct Challenged {
    name: EntityName,
    /// The global id that the client wants to keep. Without one, it is assigned a new id once it has
    /// proved its identity.
    reclaims: Option<GlobalId>,
    /// The new id that was promised to the client.
    promised: Option<GlobalId>,
    mode: ConMode,
    challenge: u64,
}

impl MonAcceptor {
    pub(super) fn new(server: Arc<AuthServer>) -> Self {
        Self { server, challenged: None }
    }

    fn refuse(&self, errno: Errno) -> ServerStep {
        self.server.config.refuse(errno, &self.server.config.mon_modes)
    }
}

impl ServerAuth for MonAcceptor {
    fn request(
        &mut self,
        _peer: EntityType,
        method: AuthMethod,
        modes: &[u32],
        payload: &[u8],
    ) -> ServerStep {
        self.challenged = None;
        let config = &self.server.config;
        let Some(mode) = config.choose(method, modes, &config.mon_modes) else {
            return self.refuse(Errno::EOPNOTSUPP);
        };
        let Ok(MonOpening { name, global_id }) = MonOpening::from_bytes(payload) else {
            return self.refuse(Errno::EACCES);
        };
        let reclaims = Some(global_id).filter(|id| *id != GlobalId(0));
        if method != AuthMethod::CEPHX {
            let Some(global_id) = reclaims.or_else(|| self.server.new_global_id()) else {
                return self.refuse(Errno::EAGAIN);
            };
            let identity = unproven_identity(name, global_id);
            return ServerStep::Done { identity, mode, payload: Bytes::new(), keys: AuthKeys::default() };
        }
        let challenge = random::u64().max(1);
        self.challenged = Some(Challenged { name, reclaims, promised: None, mode, challenge });
        ServerStep::More(Challenge(challenge).to_bytes())
    }

    fn reserve_global_id(&mut self) -> GlobalId {
        let Some(challenged) = &mut self.challenged else { return GlobalId(0) };
        if challenged.reclaims.is_none() && challenged.promised.is_none() {
            challenged.promised = self.server.new_global_id();
        }
        challenged.reclaims.or(challenged.promised).unwrap_or(GlobalId(0))
    }

    fn more(&mut self, payload: &[u8]) -> ServerStep {
        let Some(challenged) = self.challenged.take() else {
            return self.refuse(Errno::EACCES);
        };
        match self.server.authenticate(&challenged, payload) {
            Ok(step) => step,
            Err(errno) => self.refuse(errno),
        }
    }
}

impl AuthServer {
    fn authenticate(&self, client: &Challenged, payload: &[u8]) -> Result<ServerStep, Errno> {
        let mut r = Reader::new(payload);
        if r.u16() != Ok(GET_AUTH_SESSION_KEY) {
            return Err(Errno::EINVAL);
        }
        let request: Authenticate = r.get().map_err(|_| Errno::EACCES)?;
        let entry = self.prove(&client.name, client.challenge, &request)?;
        let caps =
            entry.caps.get(EntityType::MON.as_str()).filter(|c| !c.is_empty()).ok_or(Errno::EACCES)?.clone();
        if client.reclaims.is_none() && !request.old_ticket.blob.is_empty() {
            return Err(Errno::EINVAL);
        }
        let old =
            client.reclaims.map(|id| self.reclaim(&request.old_ticket, &client.name, id)).transpose()?;
        // Assigned only now, so that clients of msgr2 that prove nothing use up no ids.
        let global_id =
            client.reclaims.or(client.promised).or_else(|| self.new_global_id()).ok_or(Errno::EAGAIN)?;
        let mut connection_secret = Zeroizing::new(Vec::new());
        if client.mode == ConMode::Secure {
            connection_secret.resize(CONNECTION_SECRET_LEN, 0);
            random::fill(&mut connection_secret);
        }
        // Without a secret the field is empty, as in stock replies: kernel clients that speak the
        // messenger of version 1 have no place for a secret.
        let secret = (client.mode == ConMode::Secure).then_some(&connection_secret[..]);
        let reply = self
            .tickets_reply(&client.name, &entry, global_id, old.as_ref(), &request, secret)
            .ok_or(Errno::EACCES)?;
        let session_key = Zeroizing::new(reply.session_key.secret().to_vec());
        Ok(ServerStep::Done {
            identity: Identity { name: client.name.clone(), global_id, caps, challenge: client.challenge },
            mode: client.mode,
            payload: reply.payload,
            keys: AuthKeys { session_key, connection_secret },
        })
    }

    /// Answers a connected client's MAuth, which requests new tickets before the old ones expire.
    pub fn renew(&self, client: &Identity, payload: &[u8]) -> Renewal {
        let mut r = Reader::new(payload);
        let reply = match r.u16() {
            Ok(GET_AUTH_SESSION_KEY) => self.renew_all(client, &mut r),
            Ok(GET_PRINCIPAL_SESSION_KEY) => self.renew_services(client, &mut r),
            _ => Err(Errno::EINVAL),
        };
        match reply {
            Ok(payload) => Renewal { result: 0, payload },
            Err(errno) => Renewal { result: errno.to_result(), payload: Bytes::new() },
        }
    }

    /// Renews all tickets: the client proves again that it has its key.
    fn renew_all(&self, client: &Identity, r: &mut Reader<'_>) -> Result<Bytes, Errno> {
        let request: Authenticate = r.get().map_err(|_| Errno::EACCES)?;
        if client.challenge == 0 {
            return Err(Errno::EACCES); // the client was not authenticated by cephx
        }
        let entry = self.prove(&client.name, client.challenge, &request)?;
        let old = self.reclaim(&request.old_ticket, &client.name, client.global_id)?;
        let reply = self.tickets_reply(&client.name, &entry, client.global_id, Some(&old), &request, None);
        Ok(reply.ok_or(Errno::EACCES)?.payload)
    }

    /// Renews service tickets: the client presents the ticket with which other tickets are requested.
    fn renew_services(&self, client: &Identity, r: &mut Reader<'_>) -> Result<Bytes, Errno> {
        let head: AuthorizerHead = r.get().map_err(|_| Errno::EACCES)?;
        if head.service != EntityType::AUTH || head.global_id != client.global_id {
            return Err(Errno::EACCES);
        }
        let info = self.open_ticket(EntityType::AUTH, &head.ticket).map_err(|_| Errno::EACCES)?;
        let ours = info.ticket.global_id == client.global_id && info.ticket.name == client.name;
        if !ours || info.ticket.expires < self.now() {
            return Err(Errno::EACCES);
        }
        let proof = r.blob().map_err(|_| Errno::EACCES)?;
        info.session_key
            .open(Usage::Authorize, proof, |r| r.get::<Authorize>())
            .map_err(|_| Errno::EACCES)?;
        r.u8().map_err(|_| Errno::EACCES)?;
        let services = r.u32().map_err(|_| Errno::EACCES)?;
        let entry = self.entity(&client.name).ok_or(Errno::EACCES)?;
        let tickets = self.grant_services(services, &client.name, &entry, client.global_id);
        let mut w = Writer::with_capacity(1024);
        write_header(GET_PRINCIPAL_SESSION_KEY, &mut w);
        wire::encode_tickets(&tickets, &info.session_key, None, &mut w);
        Ok(w.into_bytes())
    }

    /// Verifies the proof for a name's key. An unknown name takes as long, and gives the same error, as
    /// a wrong key of type `aes`.
    fn prove(&self, name: &EntityName, challenge: u64, request: &Authenticate) -> Result<Entry, Errno> {
        let entry = self.entity(name);
        let nobody = CryptoKey::from_secret(Default::default(), [0; 16]);
        let key = entry.as_ref().map_or(&nobody, |e| &e.key);
        let expected = wire::challenge_proof(key, challenge, request.client_challenge);
        let proven = bool::from(expected.ct_eq(&request.proof));
        entry.filter(|_| proven).ok_or(Errno::EACCES)
    }

    /// Returns the session key of the old ticket, if the ticket proves that the client of this name owns
    /// the global id. An expired ticket still proves it.
    fn reclaim(
        &self,
        old_ticket: &TicketBlob,
        name: &EntityName,
        global_id: GlobalId,
    ) -> Result<CryptoKey, Errno> {
        let info = self.open_ticket(EntityType::AUTH, old_ticket).map_err(|_| Errno::EACCES)?;
        let is_its_own = info.ticket.global_id == global_id && info.ticket.name == *name;
        if is_its_own { Ok(info.session_key) } else { Err(Errno::EACCES) }
    }

    /// Builds the reply to a client that has proved its identity. `None` if a secret is missing, which
    /// does not happen.
    fn tickets_reply(
        &self,
        name: &EntityName,
        entry: &Entry,
        global_id: GlobalId,
        old_session_key: Option<&CryptoKey>,
        request: &Authenticate,
        connection_secret: Option<&[u8]>,
    ) -> Option<TicketsReply> {
        let granted = self.grant_auth(name, entry.key.kind(), global_id)?;
        let session_key = granted.session_key.clone();
        let mut w = Writer::with_capacity(1024);
        write_header(GET_AUTH_SESSION_KEY, &mut w);
        wire::encode_tickets(&[granted], &entry.key, old_session_key, &mut w);
        if request.other_keys != 0 {
            w.sized(|w| {
                if let Some(secret) = connection_secret {
                    w.blob(&session_key.seal(Usage::AuthConnectionSecret, |w| w.blob(secret)));
                }
            });
            let extra = self.grant_services(request.other_keys, name, entry, global_id);
            w.sized(|w| {
                if !extra.is_empty() {
                    wire::encode_tickets(&extra, &session_key, None, w);
                }
            });
        }
        Some(TicketsReply { session_key, payload: w.into_bytes() })
    }
}

struct TicketsReply {
    session_key: CryptoKey,
    payload: Bytes,
}

/// `CephXResponseHeader`: the request's type, and 0 for success.
fn write_header(request: u16, w: &mut Writer) {
    w.u16(request);
    w.i32(0);
}
