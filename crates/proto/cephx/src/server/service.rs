//! A service's side of a handshake: open the ticket, challenge the client, prove that the ticket was
//! opened.

use std::sync::Arc;

use bytes::Bytes;
use loligo_wire::{Decode as _, EntityType, Errno, Reader, Writer};
use zeroize::Zeroizing;

use super::{AuthServer, unproven_identity};
use crate::handshake::{AuthKeys, AuthMethod, ConMode, Identity, ServerAuth, ServerStep};
use crate::key::Usage;
use crate::wire::{Authorize, AuthorizeReply, AuthorizerHead, Challenge, NoneAuthorizer, ServiceTicketInfo};
use crate::{CONNECTION_SECRET_LEN, random};

pub(super) struct ServiceAcceptor {
    server: Arc<AuthServer>,
    service: EntityType,
    challenged: Option<Challenged>,
}

/// A client that was sent a challenge; valid for one answer.
struct Challenged {
    mode: ConMode,
    challenge: u64,
}

impl ServiceAcceptor {
    pub(super) fn new(server: Arc<AuthServer>, service: EntityType) -> Self {
        Self { server, service, challenged: None }
    }

    fn refuse(&self, errno: Errno) -> ServerStep {
        self.server.config.refuse(errno, &self.server.config.service_modes)
    }

    /// Opens an authorizer; `None` if it was not made by this cluster's monitor for this service, or if
    /// its parts do not match.
    fn open(&self, payload: &[u8]) -> Option<(ServiceTicketInfo, Authorize)> {
        let mut r = Reader::new(payload);
        let head: AuthorizerHead = r.get().ok()?;
        if head.service != self.service {
            return None;
        }
        let info = self.server.open_ticket(self.service, &head.ticket).ok()?;
        if info.ticket.global_id != head.global_id || info.ticket.expires < self.server.now() {
            return None;
        }
        let proof = info.session_key.open(Usage::Authorize, r.blob().ok()?, Authorize::decode).ok()?;
        Some((info, proof))
    }

    fn accept_unproven(&self, mode: ConMode, payload: &[u8]) -> ServerStep {
        match NoneAuthorizer::from_bytes(payload) {
            Ok(NoneAuthorizer { name, global_id }) => ServerStep::Done {
                identity: unproven_identity(name, global_id),
                mode,
                payload: Bytes::new(),
                keys: AuthKeys::default(),
            },
            Err(_) => self.refuse(Errno::EACCES),
        }
    }
}

impl ServerAuth for ServiceAcceptor {
    fn request(
        &mut self,
        _peer: EntityType,
        method: AuthMethod,
        modes: &[u32],
        payload: &[u8],
    ) -> ServerStep {
        self.challenged = None;
        let config = &self.server.config;
        let Some(mode) = config.choose(method, modes, &config.service_modes) else {
            return self.refuse(Errno::EOPNOTSUPP);
        };
        if method != AuthMethod::CEPHX {
            return self.accept_unproven(mode, payload);
        }
        let Some((info, _)) = self.open(payload) else {
            return self.refuse(Errno::EACCES);
        };
        let challenge = random::u64();
        self.challenged = Some(Challenged { mode, challenge });
        ServerStep::More(Bytes::from(
            info.session_key.seal(Usage::AuthorizeChallenge, |w| w.put(&Challenge(challenge))),
        ))
    }

    fn more(&mut self, payload: &[u8]) -> ServerStep {
        let Some(Challenged { mode, challenge }) = self.challenged.take() else {
            return self.refuse(Errno::EACCES);
        };
        let Some((info, proof)) = self.open(payload) else {
            return self.refuse(Errno::EACCES);
        };
        if proof.answer != Some(challenge.wrapping_add(1)) {
            return self.refuse(Errno::EACCES);
        }
        let mut connection_secret = Zeroizing::new(Vec::new());
        if mode == ConMode::Secure {
            connection_secret.resize(CONNECTION_SECRET_LEN, 0);
            random::fill(&mut connection_secret);
        }
        let reply = AuthorizeReply {
            nonce_plus_one: proof.nonce.wrapping_add(1),
            connection_secret: Bytes::copy_from_slice(&connection_secret),
        };
        let mut w = Writer::with_capacity(128);
        w.blob(&info.session_key.seal(Usage::AuthorizeReply, |w| w.put(&reply)));
        let session_key = Zeroizing::new(info.session_key.secret().to_vec());
        let ticket = info.ticket;
        ServerStep::Done {
            identity: Identity {
                name: ticket.name,
                global_id: ticket.global_id,
                caps: ticket.caps,
                challenge: 0,
            },
            mode,
            payload: w.into_bytes(),
            keys: AuthKeys { session_key, connection_secret },
        }
    }
}
