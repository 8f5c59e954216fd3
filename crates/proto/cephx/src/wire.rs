//! The encodings of cephx's structs (`src/auth/cephx/CephxProtocol.h`, `src/auth/Auth.h` in Ceph). Their
//! versions are single bytes without a length, so only known layouts can be read; newer peers keep them.

use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use loligo_wire::{Decode, DecodeError, Encode, EntityName, EntityType, GlobalId, Reader, UTime, Writer};
use sha2::Sha256;

use crate::key::{CryptoKey, DecryptError, KeyType, Usage};

/// `AUTH_MODE_AUTHORIZER`: the first request of a client that presents a ticket to a service.
pub(crate) const MODE_AUTHORIZER: u8 = 1;
/// `AUTH_MODE_MON`: the first request of a client to a monitor.
pub(crate) const MODE_MON: u8 = 10;

/// `CEPHX_GET_AUTH_SESSION_KEY`: proves the client's identity and requests the ticket with which other
/// tickets are requested.
pub(crate) const GET_AUTH_SESSION_KEY: u16 = 0x0100;
/// `CEPHX_GET_PRINCIPAL_SESSION_KEY`: requests tickets for services.
pub(crate) const GET_PRINCIPAL_SESSION_KEY: u16 = 0x0200;

/// The payload of the first request to a monitor: mode, name, and the global id to keep (0 for a new
/// one).
pub(crate) struct MonOpening {
    pub(crate) name: EntityName,
    pub(crate) global_id: GlobalId,
}

impl Encode for MonOpening {
    fn encode(&self, w: &mut Writer) {
        w.u8(MODE_MON);
        w.put(&self.name);
        w.put(&self.global_id);
    }
}

impl Decode for MonOpening {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        expect_version(r, "authentication mode", MODE_MON..=MODE_MON)?;
        Ok(Self { name: r.get()?, global_id: r.get()? })
    }
}

/// `AuthNoneAuthorizer`: the client's name, without proof.
pub(crate) struct NoneAuthorizer {
    pub(crate) name: EntityName,
    pub(crate) global_id: GlobalId,
}

impl Encode for NoneAuthorizer {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.put(&self.name);
        w.put(&self.global_id);
    }
}

impl Decode for NoneAuthorizer {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        expect_version(r, "AuthNoneAuthorizer", 1..=u8::MAX)?;
        Ok(Self { name: r.get()?, global_id: r.get()? })
    }
}

/// `CephXServerChallenge` and `CephXAuthorizeChallenge`, which have the same encoding.
pub(crate) struct Challenge(pub(crate) u64);

impl Encode for Challenge {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.u64(self.0);
    }
}

impl Decode for Challenge {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        expect_version(r, "cephx challenge", 1..=u8::MAX)?;
        r.u64().map(Self)
    }
}

/// `CephXTicketBlob`: a ciphertext that only the service can decrypt, and the id of the service's secret
/// for it.
#[derive(Clone, Default)]
pub(crate) struct TicketBlob {
    pub(crate) secret_id: u64,
    pub(crate) blob: Bytes,
}

impl Encode for TicketBlob {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.u64(self.secret_id);
        w.put(&self.blob);
    }
}

impl Decode for TicketBlob {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        expect_version(r, "CephXTicketBlob", 1..=u8::MAX)?;
        Ok(Self { secret_id: r.u64()?, blob: r.get()? })
    }
}

/// `CephXAuthenticate`: the answer to a monitor's challenge.
pub(crate) struct Authenticate {
    pub(crate) client_challenge: u64,
    pub(crate) proof: u64,
    pub(crate) old_ticket: TicketBlob,
    /// Services for which tickets are requested in the same exchange: a set of entity types.
    pub(crate) other_keys: u32,
}

impl Encode for Authenticate {
    fn encode(&self, w: &mut Writer) {
        w.u8(3); // version 3: a client that keeps its global id presents the old ticket
        w.u64(self.client_challenge);
        w.u64(self.proof);
        w.put(&self.old_ticket);
        w.u32(self.other_keys);
    }
}

impl Decode for Authenticate {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        expect_version(r, "CephXAuthenticate", 2..=u8::MAX)?;
        Ok(Self { client_challenge: r.u64()?, proof: r.u64()?, old_ticket: r.get()?, other_keys: r.u32()? })
    }
}

/// Proves to the monitor that the client has `key`: both challenges, encrypted or hashed with the key
/// and folded into 64 bits (`cephx_calc_client_server_challenge`).
pub(crate) fn challenge_proof(key: &CryptoKey, server_challenge: u64, client_challenge: u64) -> u64 {
    let challenges = |w: &mut Writer| {
        w.u64(server_challenge);
        w.u64(client_challenge);
    };
    let mut w = Writer::with_capacity(64);
    match key.kind() {
        // Ceph folds the encoded buffer: a length, then the ciphertext.
        KeyType::Aes => w.blob(&key.seal(Usage::Challenge, challenges)),
        KeyType::Aes256k => {
            let mut plain = Writer::with_capacity(16);
            challenges(&mut plain);
            let mut mac =
                Hmac::<Sha256>::new_from_slice(key.secret()).expect("HMAC takes keys of any length");
            mac.update(plain.as_slice());
            w.raw(&mac.finalize().into_bytes());
        }
    }
    // An incomplete last word is ignored.
    let (words, _rest) = w.as_slice().as_chunks::<8>();
    words.iter().fold(0, |hash, word| hash ^ u64::from_le_bytes(*word))
}

/// The start of an authorizer: global id, service and ticket; the sealed [`Authorize`] follows.
pub(crate) struct AuthorizerHead {
    pub(crate) global_id: GlobalId,
    pub(crate) service: EntityType,
    pub(crate) ticket: TicketBlob,
}

impl Encode for AuthorizerHead {
    fn encode(&self, w: &mut Writer) {
        w.u8(MODE_AUTHORIZER); // the authorizer's version is also the mode of the request
        w.put(&self.global_id);
        w.u32(self.service.0);
        w.put(&self.ticket);
    }
}

impl Decode for AuthorizerHead {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        expect_version(r, "authentication mode", MODE_AUTHORIZER..=MODE_AUTHORIZER)?;
        Ok(Self { global_id: r.get()?, service: EntityType(r.u32()?), ticket: r.get()? })
    }
}

/// `CephXAuthorize`: proves possession of a ticket's session key; with the answer to the server's
/// challenge the proof is fresh.
pub(crate) struct Authorize {
    pub(crate) nonce: u64,
    /// The server's challenge plus one, in the second round.
    pub(crate) answer: Option<u64>,
}

impl Encode for Authorize {
    fn encode(&self, w: &mut Writer) {
        w.u8(2);
        w.u64(self.nonce);
        w.bool(self.answer.is_some());
        w.u64(self.answer.unwrap_or(0));
    }
}

impl Decode for Authorize {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        expect_version(r, "CephXAuthorize", 2..=u8::MAX)?;
        let nonce = r.u64()?;
        let have_challenge = r.bool()?;
        let answer = r.u64()?;
        Ok(Self { nonce, answer: have_challenge.then_some(answer) })
    }
}

/// `CephXAuthorizeReply`: proves that the service has opened the ticket.
pub(crate) struct AuthorizeReply {
    pub(crate) nonce_plus_one: u64,
    pub(crate) connection_secret: Bytes,
}

impl Encode for AuthorizeReply {
    fn encode(&self, w: &mut Writer) {
        let has_secret = !self.connection_secret.is_empty();
        w.u8(if has_secret { 2 } else { 1 });
        w.u64(self.nonce_plus_one);
        if has_secret {
            w.put(&self.connection_secret);
        }
    }
}

impl Decode for AuthorizeReply {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let version = expect_version(r, "CephXAuthorizeReply", 1..=u8::MAX)?;
        let nonce_plus_one = r.u64()?;
        let connection_secret = if version >= 2 { r.get()? } else { Bytes::new() };
        Ok(Self { nonce_plus_one, connection_secret })
    }
}

/// `AuthTicket`: the ticket's statements about its holder.
#[derive(Clone)]
pub(crate) struct AuthTicket {
    pub(crate) name: EntityName,
    pub(crate) global_id: GlobalId,
    pub(crate) created: UTime,
    pub(crate) expires: UTime,
    /// The capabilities for the service, as text.
    pub(crate) caps: String,
}

impl Encode for AuthTicket {
    fn encode(&self, w: &mut Writer) {
        w.u8(2);
        w.put(&self.name);
        w.put(&self.global_id);
        w.u64(u64::MAX); // formerly a user id
        w.put(&self.created);
        w.put(&self.expires);
        w.u8(1); // AuthCapsInfo
        w.bool(false); // allow_all: contained in the text
        w.sized(|w| w.put(&self.caps));
        w.u32(0); // flags
    }
}

impl Decode for AuthTicket {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        expect_version(r, "AuthTicket", 2..=u8::MAX)?;
        let name = r.get()?;
        let global_id = r.get()?;
        r.skip(8)?;
        let created = r.get()?;
        let expires = r.get()?;
        expect_version(r, "AuthCapsInfo", 1..=u8::MAX)?;
        let allow_all = r.bool()?;
        let mut text = r.sized()?;
        let caps = match (allow_all, text.is_empty()) {
            (true, _) => "allow *".to_owned(),
            (false, true) => String::new(),
            (false, false) => text.get()?,
        };
        r.skip(4)?; // flags
        Ok(Self { name, global_id, created, expires, caps })
    }
}

/// `CephXServiceTicketInfo`: the contents of a ticket, sealed with the service's secret.
pub(crate) struct ServiceTicketInfo {
    pub(crate) ticket: AuthTicket,
    pub(crate) session_key: CryptoKey,
}

impl ServiceTicketInfo {
    pub(crate) fn seal(&self, service_secret: &CryptoKey) -> Bytes {
        let sealed = service_secret.seal(Usage::TicketInfo, |w| {
            w.u8(1);
            w.put(&self.ticket);
            w.put(&self.session_key);
        });
        Bytes::from(sealed)
    }

    pub(crate) fn open(service_secret: &CryptoKey, sealed: &[u8]) -> Result<Self, DecryptError> {
        service_secret.open(Usage::TicketInfo, sealed, |r| {
            expect_version(r, "CephXServiceTicketInfo", 1..=u8::MAX)?;
            Ok(Self { ticket: r.get()?, session_key: r.get()? })
        })
    }
}

/// One ticket in a monitor's reply, and its validity.
pub(crate) struct GrantedTicket {
    pub(crate) service: EntityType,
    pub(crate) session_key: CryptoKey,
    /// The validity of the ticket, as seconds and nanoseconds; zero: unlimited.
    pub(crate) validity: UTime,
    pub(crate) blob: TicketBlob,
}

/// Encodes a reply with tickets. `client_secret` seals the session keys. `old_session_key`, if given,
/// seals the tickets: a client that reclaims a global id must have the session key of the ticket that it
/// presented.
pub(crate) fn encode_tickets(
    tickets: &[GrantedTicket],
    client_secret: &CryptoKey,
    old_session_key: Option<&CryptoKey>,
    w: &mut Writer,
) {
    w.u8(1);
    w.count(tickets.len());
    for granted in tickets {
        w.u32(granted.service.0);
        w.u8(1);
        w.blob(&client_secret.seal(Usage::TicketSessionKey, |w| {
            w.u8(1);
            w.put(&granted.session_key);
            w.put(&granted.validity);
        }));
        w.bool(old_session_key.is_some());
        match old_session_key {
            Some(key) => w.blob(&key.seal(Usage::TicketBlob, |w| w.sized(|w| w.put(&granted.blob)))),
            None => w.sized(|w| w.put(&granted.blob)),
        }
    }
}

/// Decodes what [`encode_tickets`] wrote. `old_session_key` returns the client's session key for a
/// service.
pub(crate) fn decode_tickets(
    r: &mut Reader<'_>,
    client_secret: &CryptoKey,
    old_session_key: impl Fn(EntityType) -> Option<CryptoKey>,
) -> Result<Vec<GrantedTicket>, TicketsError> {
    expect_version(r, "cephx ticket reply", 1..=u8::MAX)?;
    let n = r.count(14)?;
    let mut tickets = Vec::with_capacity(n);
    for _ in 0..n {
        let service = EntityType(r.u32()?);
        expect_version(r, "cephx service ticket", 1..=u8::MAX)?;
        let (session_key, validity) = client_secret.open(Usage::TicketSessionKey, r.blob()?, |r| {
            expect_version(r, "CephXServiceTicket", 1..=u8::MAX)?;
            Ok((r.get()?, r.get()?))
        })?;
        let encrypted = r.bool()?;
        let bytes = r.blob()?;
        let blob = match encrypted {
            true => {
                let key = old_session_key(service).ok_or(DecryptError)?;
                key.open(Usage::TicketBlob, bytes, |r| r.sized()?.get())?
            }
            false => TicketBlob::from_bytes(bytes)?,
        };
        tickets.push(GrantedTicket { service, session_key, validity, blob });
    }
    Ok(tickets)
}

/// Why a reply with tickets cannot be decoded.
pub(crate) enum TicketsError {
    Decode(DecodeError),
    /// The reply was not encrypted with this client's key.
    Decrypt,
}

impl From<DecodeError> for TicketsError {
    fn from(e: DecodeError) -> Self {
        Self::Decode(e)
    }
}

impl From<DecryptError> for TicketsError {
    fn from(DecryptError: DecryptError) -> Self {
        Self::Decrypt
    }
}

/// Decodes a version byte that must be in `known`.
fn expect_version(
    r: &mut Reader<'_>,
    what: &'static str,
    known: std::ops::RangeInclusive<u8>,
) -> Result<u8, DecodeError> {
    let version = r.u8()?;
    if known.contains(&version) {
        return Ok(version);
    }
    Err(DecodeError::Invalid { what, value: u64::from(version) })
}
