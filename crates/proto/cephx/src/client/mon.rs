//! Authentication to a monitor.

use std::sync::Arc;

use bytes::Bytes;
use loligo_wire::{Decode as _, Encode as _, EntityType, Errno, GlobalId, Reader};
use zeroize::Zeroizing;

use super::{AuthClient, offered_modes};
use crate::handshake::{AuthError, AuthKeys, AuthMethod, AuthRequest, ClientAuth, ConMode};
use crate::key::{CryptoKey, Usage};
use crate::wire::{Challenge, MonOpening, TicketBlob};

/// One handshake with a monitor: request, challenge, proof, tickets.
pub(super) struct MonAuth {
    client: Arc<AuthClient>,
    /// The method being tried: an index into the configured methods.
    method: usize,
    /// The global id to keep, with the ticket that proves its ownership.
    reclaim: Option<(GlobalId, TicketBlob)>,
    /// The number of successful handshakes when this one began.
    begun: u64,
    server_challenge: u64,
}

impl MonAuth {
    pub(super) fn new(client: Arc<AuthClient>) -> Self {
        let held = client.held.load();
        let reclaim = held.ticket(EntityType::AUTH).map(|t| (held.global_id, t.blob.clone()));
        let begun = held.handshakes;
        drop(held);
        Self { client, method: 0, reclaim, begun, server_challenge: 0 }
    }

    fn opening(&self, method: AuthMethod) -> Result<AuthRequest, AuthError> {
        let config = &self.client.config;
        if method == AuthMethod::CEPHX {
            self.client.key()?;
        }
        let global_id = match (&self.reclaim, method) {
            (Some((id, _)), AuthMethod::CEPHX) => *id,
            (None, AuthMethod::CEPHX) => GlobalId(0),
            _ => self.client.global_id(), // without cephx the id needs no proof
        };
        let opening = MonOpening { name: config.name.clone(), global_id };
        Ok(AuthRequest {
            method,
            modes: offered_modes(method, &config.mon_modes),
            payload: opening.to_bytes(),
        })
    }

    fn current_method(&self) -> AuthMethod {
        self.client.config.methods.get(self.method).copied().unwrap_or(AuthMethod::NONE)
    }
}

impl ClientAuth for MonAuth {
    fn request(&mut self) -> Result<AuthRequest, AuthError> {
        self.opening(self.current_method())
    }

    /// Tries another configured method that the monitor accepts. If the monitor no longer knows the old
    /// ticket, tries the same method with a new global id: a monitor that has lost its secrets must not
    /// lock its clients out for good.
    fn bad_method(
        &mut self,
        method: AuthMethod,
        errno: Errno,
        methods: &[u32],
        _modes: &[u32],
    ) -> Result<AuthRequest, AuthError> {
        if errno == Errno::EACCES && method == AuthMethod::CEPHX && self.reclaim.take().is_some() {
            return self.opening(method);
        }
        let configured = &self.client.config.methods;
        let next = (self.method + 1..configured.len()).find(|i| methods.contains(&configured[*i].0));
        match next {
            Some(i) => {
                self.method = i;
                self.opening(configured[i])
            }
            None => Err(AuthError::Refused { errno, methods: methods.to_vec() }),
        }
    }

    fn more(&mut self, payload: &[u8]) -> Result<Bytes, AuthError> {
        if self.current_method() != AuthMethod::CEPHX {
            return Err(AuthError::PeerUnproven("a challenge without cephx"));
        }
        self.server_challenge = Challenge::from_bytes(payload)?.0;
        let services = self.client.services();
        let old_ticket = self.reclaim.as_ref().map(|(_, blob)| blob.clone()).unwrap_or_default();
        self.client.authenticate(self.server_challenge, &old_ticket, services)
    }

    fn done(&mut self, global_id: GlobalId, mode: ConMode, payload: &[u8]) -> Result<AuthKeys, AuthError> {
        let method = self.current_method();
        let server_challenge = self.server_challenge;
        let begun = self.begun;
        if method != AuthMethod::CEPHX {
            self.client.settle(|held| {
                held.end_handshake(begun)?;
                (held.method, held.global_id) = (method, global_id);
                Ok(())
            })?;
            return Ok(AuthKeys::default());
        }
        let reply = self.client.take_reply(payload, |held| {
            held.end_handshake(begun)?;
            (held.method, held.global_id) = (method, global_id);
            held.server_challenge = server_challenge;
            Ok(())
        })?;
        Ok(AuthKeys {
            session_key: Zeroizing::new(reply.session_key.secret().to_vec()),
            connection_secret: open_secret(mode, &reply.sealed_secret, &reply.session_key)?,
        })
    }
}

/// Decrypts the connection secret, which is an encrypted string with a length in front.
fn open_secret(
    mode: ConMode,
    sealed: &[u8],
    session_key: &CryptoKey,
) -> Result<Zeroizing<Vec<u8>>, AuthError> {
    if mode != ConMode::Secure {
        return Ok(Zeroizing::default());
    }
    let sealed = Reader::new(sealed).blob()?;
    let secret = session_key
        .open(Usage::AuthConnectionSecret, sealed, |r| r.blob().map(|b| Zeroizing::new(b.to_vec())));
    secret.map_err(|_| AuthError::PeerUnproven("the connection secret is not for us"))
}
