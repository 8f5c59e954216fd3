//! Authentication to a service (OSD, MGR, MDS) with a ticket.

use std::sync::Arc;

use bytes::Bytes;
use loligo_wire::{Decode as _, EntityType, Errno, GlobalId, Reader, Writer};
use zeroize::Zeroizing;

use super::{AuthClient, Held, Ticket, offered_modes, write_authorizer};
use crate::handshake::{AuthError, AuthKeys, AuthMethod, AuthRequest, ClientAuth, ConMode};
use crate::key::Usage;
use crate::random;
use crate::wire::{AuthorizeReply, Challenge, NoneAuthorizer};

/// One handshake with a service: ticket, challenge, answer, proof.
pub(super) struct TicketAuth {
    client: Arc<AuthClient>,
    service: EntityType,
    /// The global id under which the connection was opened: requests sent before must never be sent
    /// under another one.
    global_id: GlobalId,
    shown: Option<Shown>,
}

/// The contents of the first request; the answer to the challenge repeats them.
struct Shown {
    held: Arc<Held>,
    ticket: Ticket,
    nonce: u64,
}

impl TicketAuth {
    pub(super) fn new(client: Arc<AuthClient>, service: EntityType, global_id: GlobalId) -> Self {
        Self { client, service, global_id, shown: None }
    }

    fn ticket(&self, held: &Held) -> Result<Ticket, AuthError> {
        let service = self.service;
        let missing = || AuthError::NoCredentials(format!("no ticket for service {service}"));
        let ticket = held.ticket(service).ok_or_else(missing)?;
        if ticket.is_expired((self.client.config.clock)()) {
            return Err(AuthError::NoCredentials(format!("the ticket for service {service} has expired")));
        }
        Ok(ticket.clone())
    }
}

impl ClientAuth for TicketAuth {
    fn request(&mut self) -> Result<AuthRequest, AuthError> {
        let held = self.client.held.load_full();
        if held.global_id != self.global_id {
            return Err(AuthError::Superseded);
        }
        let config = &self.client.config;
        let method = held.method;
        let mut w = Writer::with_capacity(256);
        if method == AuthMethod::CEPHX {
            let ticket = self.ticket(&held)?;
            let nonce = random::u64();
            write_authorizer(&held.authorizer_head(&ticket), &ticket.session_key, nonce, None, &mut w);
            self.shown = Some(Shown { held, ticket, nonce });
        } else {
            w.put(&NoneAuthorizer { name: config.name.clone(), global_id: held.global_id });
        }
        Ok(AuthRequest {
            method,
            modes: offered_modes(method, &config.service_modes),
            payload: w.into_bytes(),
        })
    }

    /// A service accepts only the method that the monitors granted tickets for, so there is no other one
    /// to try.
    fn bad_method(
        &mut self,
        _method: AuthMethod,
        errno: Errno,
        methods: &[u32],
        _modes: &[u32],
    ) -> Result<AuthRequest, AuthError> {
        Err(AuthError::Refused { errno, methods: methods.to_vec() })
    }

    fn more(&mut self, payload: &[u8]) -> Result<Bytes, AuthError> {
        let shown = self.shown.as_ref().ok_or(AuthError::PeerUnproven("a challenge without cephx"))?;
        let key = &shown.ticket.session_key;
        let challenge = key
            .open(Usage::AuthorizeChallenge, payload, Challenge::decode)
            .map_err(|_| AuthError::PeerUnproven("the service cannot open the ticket"))?;
        let mut w = Writer::with_capacity(256);
        let answer = Some(challenge.0.wrapping_add(1));
        write_authorizer(&shown.held.authorizer_head(&shown.ticket), key, shown.nonce, answer, &mut w);
        Ok(w.into_bytes())
    }

    fn done(&mut self, _global_id: GlobalId, mode: ConMode, payload: &[u8]) -> Result<AuthKeys, AuthError> {
        let Some(shown) = &self.shown else {
            return Ok(AuthKeys::default());
        };
        let key = &shown.ticket.session_key;
        let sealed = Reader::new(payload).blob()?;
        let reply = key.open(Usage::AuthorizeReply, sealed, AuthorizeReply::decode);
        match reply {
            Ok(reply) if reply.nonce_plus_one == shown.nonce.wrapping_add(1) => Ok(AuthKeys {
                session_key: Zeroizing::new(key.secret().to_vec()),
                connection_secret: match mode {
                    ConMode::Secure => Zeroizing::new(reply.connection_secret.to_vec()),
                    ConMode::Crc => Zeroizing::default(),
                },
            }),
            _ => Err(AuthError::PeerUnproven("the service has not proven that it can open the ticket")),
        }
    }
}
