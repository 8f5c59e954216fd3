//! Messages: the envelope that every message travels in, and the message bodies, one file for each
//! family.
//!
//! A message has four parts: a fixed [`Header`], a `front` (the body's fields), a `middle` (rarely used)
//! and `data` (bulk bytes, never copied here). [`Msg`] holds the encoded parts; a type that implements
//! [`Message`] is a decoded body.

mod macros;
pub mod mds;
pub mod mgr;
pub mod mon;
pub mod osd;

use az::SaturatingAs as _;
use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;

use crate::{DecodeError, Reader, Tid, Writer};

/// Bulk bytes of a message, in order, possibly in several buffers.
pub type Data = SmallVec<[Bytes; 1]>;

/// The fields of a message's header that matter above the messenger (`ceph_msg_header2` in
/// `src/include/msgr.h`). The messenger adds sequence and acknowledgement numbers when it sends the
/// message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The sequence number in the connection, assigned when the message leaves the queue; 0 before.
    pub seq: u64,
    /// The number that the sender assigned to the request; a reply carries the request's number.
    pub tid: Tid,
    /// The message type (`CEPH_MSG_*`, `MSG_*`).
    pub kind: u16,
    /// A higher value is more urgent; see [`Header::PRIORITY_DEFAULT`].
    pub priority: u16,
    /// The body's version.
    pub version: u16,
    /// The oldest version whose readers can decode this body.
    pub compat_version: u16,
    /// Offset of the data in its object modulo the page size: a hint for alignment.
    pub data_off: u16,
    /// The newest sequence number that the sender has seen from its peer.
    pub ack_seq: u64,
    /// Flags (`CEPH_MSG_FLAG_*`).
    pub flags: u8,
}

impl Header {
    /// `CEPH_MSG_PRIO_DEFAULT`.
    pub const PRIORITY_DEFAULT: u16 = 127;
    /// `CEPH_MSG_PRIO_HIGH`.
    pub const PRIORITY_HIGH: u16 = 196;
}

/// A message in its encoded form.
#[derive(Clone, Debug, Default)]
pub struct Msg {
    /// The header.
    pub header: Header,
    /// The encoded body.
    pub front: Bytes,
    /// The second part of the body; empty except in a few messages of metadata servers.
    pub middle: Bytes,
    /// Bulk bytes. A received message has at most one buffer.
    pub data: Data,
    /// The CRC-32C of all of `data`, seeded with −1 as in frames, if it is already known. On a message
    /// received in crc mode it is the sender's checksum, which the messenger has verified. The messenger
    /// does not recompute the checksum of a message that has one. A checksum thus accompanies the bytes
    /// from the client that wrote them, through the server's memory, to the client that reads them.
    pub data_crc: Option<u32>,
}

impl Msg {
    /// Encodes a body.
    pub fn new<M: Message>(body: &M) -> Self {
        let mut w = Writer::with_capacity(body.front_len_hint());
        body.encode_front(&mut w);
        let header = Header {
            kind: M::KIND,
            version: body.version(),
            compat_version: M::COMPAT,
            priority: M::PRIORITY,
            ..Header::default()
        };
        Self { header, front: w.into_bytes(), middle: body.middle(), data: body.data(), data_crc: None }
    }

    /// The same message with the request number `tid`.
    pub fn with_tid(mut self, tid: Tid) -> Self {
        self.header.tid = tid;
        self
    }

    /// Decodes the body as an `M`. The caller has already matched the message's kind.
    pub fn open<M: Message>(&self) -> Result<M, DecodeError> {
        if self.header.kind != M::KIND {
            return Err(DecodeError::Invalid { what: "message kind", value: u64::from(self.header.kind) });
        }
        if self.header.compat_version > M::VERSION {
            return Err(DecodeError::TooNew {
                what: M::NAME,
                compat: self.header.compat_version.min(255) as u8,
                supported: M::VERSION.saturating_as::<u8>(),
            });
        }
        let mut body = M::decode(&self.header, &mut Reader::new(&self.front), &self.data)?;
        body.set_middle(&self.middle);
        Ok(body)
    }

    /// The total bytes of all parts, which is the amount that throttles count.
    pub fn len(&self) -> usize {
        self.front.len() + self.middle.len() + self.data_len()
    }

    /// Whether all parts are empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of bulk data.
    pub fn data_len(&self) -> usize {
        self.data.iter().map(Bytes::len).sum()
    }
}

/// A message body.
pub trait Message: Sized {
    /// Ceph's name of the message, such as `osd_op`.
    const NAME: &'static str;
    /// The message's number.
    const KIND: u16;
    /// The version that the encoder writes, and the newest that the decoder reads.
    const VERSION: u16;
    /// The oldest version whose readers can decode the encoder's output.
    const COMPAT: u16;
    /// The priority that the message is sent with.
    const PRIORITY: u16 = Header::PRIORITY_DEFAULT;

    /// Encodes the body's fields.
    fn encode_front(&self, w: &mut Writer);

    /// The version that this body is written in. It is below [`Message::VERSION`] if the body has none of
    /// the fields that later versions added.
    fn version(&self) -> u16 {
        Self::VERSION
    }

    /// The second part of the body.
    fn middle(&self) -> Bytes {
        Bytes::new()
    }

    /// Stores the second part of the body in a body whose front was decoded.
    fn set_middle(&mut self, _middle: &Bytes) {}

    /// The bulk bytes that accompany the body, in order.
    fn data(&self) -> Data {
        Data::new()
    }

    /// The approximate length of the front in bytes; a good estimate avoids growing the buffer.
    fn front_len_hint(&self) -> usize {
        128
    }

    /// Decodes the body. `header.version` may be newer than [`Message::VERSION`]: appended fields are
    /// left unread.
    fn decode(header: &Header, front: &mut Reader<'_>, data: &Data) -> Result<Self, DecodeError>;
}

/// Returns the bulk bytes as one buffer. Received data is already one buffer and is not copied.
pub(crate) fn concat(data: &Data) -> Bytes {
    match data.as_slice() {
        [] => Bytes::new(),
        [only] => only.clone(),
        several => {
            let mut all = BytesMut::with_capacity(several.iter().map(Bytes::len).sum());
            several.iter().for_each(|piece| all.extend_from_slice(piece));
            all.freeze()
        }
    }
}

/// Length in bytes of a trace's three ids (`blkin_trace_info`), which some messages carry and no sender
/// fills.
const TRACE_LEN: usize = 24;

/// Writes blank trace ids, which mean "not traced".
pub(crate) fn write_no_trace(w: &mut Writer) {
    w.zeros(TRACE_LEN);
}

/// Skips the trace ids.
pub(crate) fn skip_trace(r: &mut Reader<'_>) -> Result<(), DecodeError> {
    r.skip(TRACE_LEN)
}
