//! Opens messages and control bytes of version 1.

use bytes::{Buf as _, Bytes, BytesMut};
use loligo_cephx::signature::{MessageSigner, Signed};
use loligo_wire::crc::crc32c;
use loligo_wire::message::{Data, Msg};
use loligo_wire::{Decode as _, UTime};

use super::Agreed;
use super::wire::{Footer, HEADER_LEN, HeaderMsg, check_crc, part, tag};
use crate::limits::CONTROL_SEGMENT_MAX;
use crate::read_len::{ReadLen, begun_len};
use crate::{Frame, Limits, Misbehaviour, ProtoError};

const MESSAGE_START_LEN: usize = 1 + HEADER_LEN;
/// Bytes of a tag with a sequence number or a time.
const CONTROL_LEN: usize = 1 + 8;

/// Bounds of the messages by which a client authenticates to a monitor.
const AUTH_LIMITS: Limits = Limits { front_len_max: CONTROL_SEGMENT_MAX, middle_len_max: 0, data_len_max: 0 };

/// The receiving half of a connection, and the buffer of its handshake.
#[derive(Debug)]
pub(crate) struct Opener {
    buf: BytesMut,
    limits: Limits,
    /// Footers have a place for a signature.
    with_signature: bool,
    signer: Option<MessageSigner>,
    /// The header of the incomplete message, once it has been received.
    begun: Option<HeaderMsg>,
    read_len: ReadLen,
    /// The handshake is over.
    is_open: bool,
}

impl Opener {
    pub(super) fn new() -> Self {
        Self {
            buf: BytesMut::new(),
            limits: AUTH_LIMITS,
            with_signature: false,
            signer: None,
            begun: None,
            read_len: ReadLen::new(),
            is_open: false,
        }
    }

    /// Opens messages from here on, with what the two sides have agreed.
    pub(super) fn agree(&mut self, agreed: &Agreed) {
        self.with_signature = agreed.has_signatures();
        self.signer = agreed.signer();
    }

    /// Accepts messages of any peer that is authenticated.
    pub(super) fn establish(&mut self, limits: Limits) {
        self.limits = limits;
        self.is_open = true;
    }

    /// Returns the next `len` bytes of the handshake, if they have been received.
    pub(super) fn take(&mut self, len: usize) -> Option<Bytes> {
        (self.buf.len() >= len).then(|| self.buf.split_to(len).freeze())
    }

    /// The bytes received and not consumed.
    pub(super) fn peek(&self) -> &[u8] {
        &self.buf
    }

    pub(crate) fn spare(&mut self) -> &mut BytesMut {
        let missing =
            self.begun.as_ref().map_or(0, |header| self.len_of(header).saturating_sub(self.buf.len()));
        if let Some(wanted) = self.read_len.wanted(&self.buf, missing, self.is_open) {
            self.buf.reserve(wanted);
        }
        &mut self.buf
    }

    pub(crate) fn buffered(&self) -> usize {
        self.buf.len()
    }

    pub(crate) fn begun_len(&self) -> Option<(usize, usize)> {
        let whole = self.len_of(self.begun.as_ref()?);
        Some((begun_len(self.buf.len(), whole), whole))
    }

    pub(crate) fn begun_message_len(&self) -> Option<usize> {
        self.begun.as_ref().map(parts_len)
    }

    pub(crate) fn next(&mut self) -> Result<Option<Frame>, ProtoError> {
        while let Some(tag) = self.buf.first().copied() {
            let frame = match tag {
                tag::MSG => return self.next_message(),
                tag::KEEPALIVE => {
                    // From before there were times in them, and there is nothing to answer.
                    self.buf.advance(1);
                    continue;
                }
                tag::CLOSE => {
                    self.buf.advance(1);
                    return Ok(Some(Frame::Close));
                }
                tag::ACK | tag::KEEPALIVE2 | tag::KEEPALIVE2_ACK => {
                    let Some(bytes) = self.take(CONTROL_LEN) else { return Ok(None) };
                    control(tag, &bytes[1..])?
                }
                other => return Err(Misbehaviour::OldTag(other).into()),
            };
            return Ok(Some(frame));
        }
        Ok(None)
    }

    fn next_message(&mut self) -> Result<Option<Frame>, ProtoError> {
        let header = match self.begun {
            Some(header) => header,
            None => {
                let Some(start) = self.buf.get(1..MESSAGE_START_LEN).and_then(|b| b.first_chunk()) else {
                    return Ok(None);
                };
                let header = HeaderMsg::decode(start)?;
                self.check_bounds(&header)?;
                *self.begun.insert(header)
            }
        };
        if self.buf.len() < self.len_of(&header) {
            return Ok(None);
        }
        self.begun = None;
        self.buf.advance(MESSAGE_START_LEN);
        let [front, middle, data] = header.lens.map(|len| take(&mut self.buf, len as usize));
        let footer = self.buf.split_to(Footer::len(self.with_signature));
        let (footer, flags) =
            Footer::decode(&footer, self.with_signature).map_err(part("a message's footer"))?;
        let seq = header.header.seq;
        if !footer.complete {
            return Err(Misbehaviour::NotComplete { seq, flags }.into());
        }
        check_crc("a message's front", footer.crcs[0], crc32c(0, &front))?;
        check_crc("a message's middle", footer.crcs[1], crc32c(0, &middle))?;
        if !footer.no_data_crc {
            check_crc("a message's data", footer.crcs[2], crc32c(0, &data))?;
        }
        self.check_signature(&header, &footer)?;
        let data = Some(data).filter(|data| !data.is_empty()).into_iter().collect::<Data>();
        Ok(Some(Frame::Message(Msg { header: header.header, front, middle, data, data_crc: None })))
    }

    fn check_bounds(&self, header: &HeaderMsg) -> Result<(), Misbehaviour> {
        let Limits { front_len_max, middle_len_max, data_len_max } = self.limits;
        let bounds = [
            ("a message's front", front_len_max),
            ("a message's middle", middle_len_max),
            ("a message's data", data_len_max),
        ];
        for (len, (what, max)) in header.lens.into_iter().zip(bounds) {
            if len > max {
                return Err(Misbehaviour::PartTooLong { what, len, max });
            }
        }
        Ok(())
    }

    /// A peer that has agreed to sign must sign every message.
    fn check_signature(&self, header: &HeaderMsg, footer: &Footer) -> Result<(), Misbehaviour> {
        let Some(signer) = &self.signer else { return Ok(()) };
        let [front, middle, data] = std::array::from_fn(|i| (footer.crcs[i], header.lens[i]));
        let seq = header.header.seq;
        let signed = Signed { header_crc: header.crc, front, middle, data, seq };
        match footer.signature {
            Some(signature) if signer.verify(&signed, signature) => Ok(()),
            _ => Err(Misbehaviour::MessageSignature { seq }),
        }
    }

    /// The encoded length of a message.
    fn len_of(&self, header: &HeaderMsg) -> usize {
        MESSAGE_START_LEN + parts_len(header) + Footer::len(self.with_signature)
    }
}

fn parts_len(header: &HeaderMsg) -> usize {
    header.lens.into_iter().map(|len| len as usize).sum()
}

fn control(tag: u8, payload: &[u8]) -> Result<Frame, ProtoError> {
    let frame = match tag {
        tag::ACK => u64::from_bytes(payload).map(|seq| Frame::Ack { seq }),
        tag::KEEPALIVE2 => UTime::from_bytes(payload).map(Frame::Keepalive2),
        _ => UTime::from_bytes(payload).map(Frame::Keepalive2Ack),
    };
    frame.map_err(part("an acknowledgement or keepalive"))
}

/// Splits off the next `len` bytes; does not touch the buffer's reference count if `len` is 0.
fn take(buf: &mut BytesMut, len: usize) -> Bytes {
    if len == 0 { Bytes::new() } else { buf.split_to(len).freeze() }
}
