//! Entry points of the fuzzers and of the corpus test: any input bytes, and never a panic.
//!
//! Most structs of cephx are sent encrypted, so mutated ciphertext gets no further than the cipher. Here
//! the peer is malicious and has the keys: the input is the plaintext, which is sealed before it is
//! read.

use bytes::Bytes;
use loligo_wire::{Decode, EntityType, Reader, UTime, Writer};

use crate::caps::{MdsCaps, MonCaps, OsdCaps};
use crate::key::{CryptoKey, DecryptError, Usage};
use crate::keyring::Keyring;
use crate::wire::{
    self, Authenticate, Authorize, AuthorizeReply, AuthorizerHead, Challenge, MonOpening, NoneAuthorizer,
    ServiceTicketInfo, TicketBlob,
};

/// The structs of a handshake. `data`: the first byte selects the struct, the rest is its content.
pub fn tickets(data: &[u8]) {
    let Some((which, content)) = data.split_first() else { return };
    let key = CryptoKey::from_secret(UTime::default(), [7; 16]);
    match which % 10 {
        0 => ticket_info(&key, content),
        1 => ticket_reply(&key, content),
        2 => drop(open::<Authorize>(&key, Usage::Authorize, content)),
        3 => drop(open::<AuthorizeReply>(&key, Usage::AuthorizeReply, content)),
        4 => drop(open::<Challenge>(&key, Usage::AuthorizeChallenge, content)),
        5 => drop(MonOpening::from_bytes(content)),
        6 => drop(NoneAuthorizer::from_bytes(content)),
        7 => drop(Authenticate::from_bytes(content)),
        8 => drop(AuthorizerHead::from_bytes(content)),
        // The cipher itself, without an envelope, with any length.
        _ => drop(key.open(Usage::TicketInfo, content, |_| Ok(()))),
    }
}

/// Capabilities and keyrings: texts that a command contains.
pub fn texts(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = OsdCaps::parse(text);
    let _ = MonCaps::parse(text);
    let _ = MdsCaps::parse(text);
    let _ = Keyring::parse(text);
}

fn open<T: Decode>(key: &CryptoKey, usage: Usage, content: &[u8]) -> Result<T, DecryptError> {
    key.open(usage, &key.seal(usage, |w| w.raw(content)), T::decode)
}

/// Opens a ticket as a service does. A readable one is sealed again and must read the same.
fn ticket_info(key: &CryptoKey, content: &[u8]) {
    let sealed = key.seal(Usage::TicketInfo, |w| w.raw(content));
    let Ok(info) = ServiceTicketInfo::open(key, &sealed) else { return };
    let Ok(again) = ServiceTicketInfo::open(key, &info.seal(key)) else { panic!("a ticket became none") };
    assert_eq!(again.ticket.name, info.ticket.name);
    assert_eq!(again.ticket.global_id, info.ticket.global_id);
    assert_eq!(again.ticket.caps, info.ticket.caps);
    assert_eq!(again.session_key.secret(), info.session_key.secret());
}

/// Decodes a monitor's reply with tickets. `content`: a byte whose bit 0 tells whether the tickets are
/// sealed with the client's key, then for each ticket the lengths of its two parts (a byte each) and the
/// parts.
fn ticket_reply(key: &CryptoKey, content: &[u8]) {
    let Some((sealed, mut rest)) = content.split_first() else { return };
    let sealed = sealed & 1 != 0;
    let mut w = Writer::with_capacity(256);
    let mut body = Writer::with_capacity(256);
    let mut count = 0;
    while let Some(([first, second], parts)) = rest.split_first_chunk::<2>() {
        let (session, parts) = parts.split_at(usize::from(*first).min(parts.len()));
        let (ticket, parts) = parts.split_at(usize::from(*second).min(parts.len()));
        rest = parts;
        body.u32(EntityType::OSD.0);
        body.u8(1);
        body.blob(&key.seal(Usage::TicketSessionKey, |w| w.raw(session)));
        body.bool(sealed);
        match sealed {
            true => body.blob(&key.seal(Usage::TicketBlob, |w| w.raw(ticket))),
            false => body.blob(ticket),
        }
        count += 1;
    }
    w.u8(1);
    w.count(count);
    w.raw(body.as_slice());
    let reply = w.into_bytes();
    let _ = wire::decode_tickets(&mut Reader::new(&reply), key, |_| Some(key.clone()));
    // The same without a valid count: the rest may be anything.
    let _ = wire::decode_tickets(&mut Reader::new(content), key, |_| None);
    let _ = TicketBlob::from_bytes(&Bytes::copy_from_slice(content));
}
