//! The messages by which a client authenticates to a monitor.

use bytes::Bytes;
use loligo_cephx::handshake::AuthMethod;
use loligo_wire::message::mon::{MAuth, MAuthReply, PaxosHeader};
use loligo_wire::message::{Message, Msg};
use loligo_wire::{DecodeError, GlobalId, Reader, Writer};

use super::wire::part;
use super::{Sealer, Wire};
use crate::{Frame, Misbehaviour, ProtoError};

/// The version of the payload that begins an exchange.
const OPENING_VERSION: u8 = 1;
/// What msgr2's first request has in its place (`AUTH_MODE_MON`); name and global id follow in both.
const MODE_MON: u8 = 10;

/// The message that begins an exchange: the methods that the client would use (here always one), and what
/// [`ClientAuth::request`](loligo_cephx::handshake::ClientAuth::request) says about the client.
pub(super) fn opening(method: AuthMethod, request: &[u8]) -> Msg {
    let mut w = Writer::with_capacity(64);
    w.u8(OPENING_VERSION);
    w.seq([&method.0]);
    w.raw(request.get(1..).unwrap_or_default());
    question(AuthMethod(0), w.into_bytes())
}

/// A later message of the client.
pub(super) fn question(method: AuthMethod, payload: Bytes) -> Msg {
    Msg::new(&MAuth { paxos: PaxosHeader::default(), protocol: method.0, payload, monmap_epoch: 0 })
}

/// Splits what [`opening`] has put together: the methods, and the request in the form of msgr2.
pub(super) fn read_opening(payload: &[u8]) -> Result<(Vec<u32>, Bytes), DecodeError> {
    let mut r = Reader::new(payload);
    r.u8()?;
    let methods = r.get()?;
    let mut w = Writer::with_capacity(64);
    w.u8(MODE_MON);
    w.raw(r.rest());
    Ok((methods, w.into_bytes()))
}

/// A monitor's answer.
pub(super) fn answer(method: AuthMethod, result: i32, global_id: GlobalId, payload: Bytes) -> Msg {
    Msg::new(&MAuthReply { protocol: method.0, result, global_id, payload, message: String::new() })
}

/// Sends a message of the exchange.
pub(super) fn send(mut msg: Msg, sealer: &mut Sealer, wire: &mut Wire) -> Result<(), ProtoError> {
    wire.sent += 1;
    msg.header.seq = wire.sent;
    sealer.message(&msg, &mut wire.out)
}

/// Returns the next message of type `M`. Answers keepalives; ignores other messages, which a client may
/// not send before it is authenticated and which a monitor sends again. All that is consumed counts, so that
/// nobody can send what is ignored for ever.
pub(super) fn next<M: Message>(sealer: &mut Sealer, wire: &mut Wire) -> Result<Option<M>, ProtoError> {
    loop {
        let before = wire.opener.buffered();
        let frame = wire.opener.next()?;
        wire.count(before.saturating_sub(wire.opener.buffered()))?;
        match frame {
            Some(Frame::Message(msg)) => {
                wire.received = msg.header.seq;
                if msg.header.kind == M::KIND {
                    return msg.open().map(Some).map_err(part(M::NAME));
                }
            }
            Some(Frame::Keepalive2(theirs)) => sealer.keepalive2_ack(theirs, &mut wire.out),
            Some(Frame::Ack { .. } | Frame::Keepalive2Ack(_)) => {}
            Some(Frame::Close) => return Err(Misbehaviour::OldTag(super::wire::tag::CLOSE).into()),
            None => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use loligo_wire::{Decode as _, Encode as _, EntityName};

    use super::*;

    #[test]
    fn an_opening_is_what_the_request_says() {
        let mut w = Writer::new();
        w.u8(MODE_MON);
        w.put(&EntityName::client("admin"));
        w.put(&GlobalId(7));
        let request = w.into_bytes();
        let msg = opening(AuthMethod::CEPHX, &request);
        let sent: MAuth = msg.open().expect("the message");
        assert_eq!(sent.protocol, 0);
        assert_eq!(&sent.payload[..9], [1, 1, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(EntityName::from_bytes(&sent.payload[9..]), Ok(EntityName::client("admin")));
        assert!(sent.payload.ends_with(&GlobalId(7).to_bytes()));
        assert_eq!(read_opening(&sent.payload), Ok((vec![2], request)));
        assert!(read_opening(&[1, 255, 255, 255, 255]).is_err(), "a count without what it counts");
    }
}
