//! Requests: decoding and checking them.

use az::SaturatingAs as _;
use bytes::{Buf as _, Bytes, BytesMut};

use super::words::{EXTENDED_REQUEST_MAGIC, REQUEST_MAGIC, command, flag};
use super::{Broken, Can, Fault, PAYLOAD_MAX, Style};

/// Bytes of a request's head.
const HEAD: usize = 28;
const EXTENDED_HEAD: usize = 32;

/// Reads requests from what a client has sent.
#[derive(Clone, Copy, Debug)]
pub struct Decoder {
    style: Style,
}

/// A request as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Repeated in the reply.
    pub cookie: u64,
    /// Start, in bytes.
    pub offset: u64,
    flags: u16,
    command: u16,
    len: u64,
    payload: Bytes,
}

/// The order that a valid request gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// I/O.
    Io(Io),
    /// Ends the connection once all requests in flight are answered.
    Disconnect,
}

/// An I/O on an export. Ranges lie within the export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Io {
    /// Reads.
    Read {
        /// Start, in bytes.
        offset: u64,
        /// Length in bytes; at most [`PAYLOAD_MAX`].
        len: u32,
        /// The reply must be one piece.
        whole: bool,
    },
    /// Writes.
    Write {
        /// Start, in bytes.
        offset: u64,
        /// The data.
        data: Bytes,
        /// The data must be durable before the reply.
        fua: bool,
    },
    /// Makes all acknowledged writes durable.
    Flush,
    /// Discards the range.
    Trim {
        /// Start, in bytes.
        offset: u64,
        /// Length in bytes.
        len: u64,
        /// As in a write.
        fua: bool,
    },
    /// Announces that the range will be read soon.
    Cache {
        /// Start, in bytes.
        offset: u64,
        /// Length in bytes.
        len: u64,
    },
    /// Makes the range read as zeros.
    WriteZeroes {
        /// Start, in bytes.
        offset: u64,
        /// Length in bytes.
        len: u64,
        /// The range must stay allocated.
        no_hole: bool,
        /// It must be refused if it is not faster than a write.
        fast: bool,
        /// As in a write.
        fua: bool,
    },
    /// Asks which parts of a range are holes.
    Status {
        /// Start, in bytes.
        offset: u64,
        /// Length in bytes; not 0.
        len: u64,
        /// Only one extent is wanted.
        one: bool,
    },
}

impl Io {
    /// The end of the range.
    pub fn end(&self) -> u64 {
        match self {
            Self::Flush => 0,
            Self::Read { offset, len, .. } => offset + u64::from(*len),
            Self::Write { offset, data, .. } => offset + data.len() as u64,
            Self::Trim { offset, len, .. }
            | Self::Cache { offset, len }
            | Self::WriteZeroes { offset, len, .. }
            | Self::Status { offset, len, .. } => offset + len,
        }
    }
}

impl Decoder {
    /// Creates a decoder for requests in this style.
    pub fn new(style: Style) -> Self {
        Self { style }
    }

    /// Takes the next whole request out of the received bytes, without a copy.
    ///
    /// # Errors
    /// The bytes are no request, or one with too much data. The connection must be ended.
    pub fn next(&self, from: &mut BytesMut) -> Result<Option<Request>, Broken> {
        let Some(head) = self.head(from)? else { return Ok(None) };
        let payload = head.payload();
        if payload > u64::from(PAYLOAD_MAX) {
            return Err(Broken::Payload(payload));
        }
        let (head_len, payload) = (self.head_len(), payload.saturating_as::<usize>());
        if from.len() < head_len + payload {
            return Ok(None);
        }
        from.advance(head_len);
        let payload = if payload == 0 { Bytes::new() } else { from.split_to(payload).freeze() };
        Ok(Some(Request { payload, ..head.request }))
    }

    /// Number of bytes that the next request still lacks, as far as known; at least one.
    pub fn lacks(&self, from: &BytesMut) -> usize {
        match self.head(from) {
            Ok(Some(head)) if head.payload() <= u64::from(PAYLOAD_MAX) => {
                (self.head_len() + head.payload().saturating_as::<usize>()).saturating_sub(from.len()).max(1)
            }
            _ => self.head_len().saturating_sub(from.len()).max(1),
        }
    }

    fn head_len(&self) -> usize {
        if self.style == Style::Extended { EXTENDED_HEAD } else { HEAD }
    }

    fn head(&self, from: &BytesMut) -> Result<Option<Head>, Broken> {
        let is_extended = self.style == Style::Extended;
        let Some(mut head) = from.get(..self.head_len()) else { return Ok(None) };
        let magic = head.get_u32();
        if magic != if is_extended { EXTENDED_REQUEST_MAGIC } else { REQUEST_MAGIC } {
            return Err(Broken::RequestMagic(magic));
        }
        let (flags, command) = (head.get_u16(), head.get_u16());
        let (cookie, offset) = (head.get_u64(), head.get_u64());
        let len = if is_extended { head.get_u64() } else { u64::from(head.get_u32()) };
        let request = Request { cookie, offset, flags, command, len, payload: Bytes::new() };
        Ok(Some(Head { request, is_extended }))
    }
}

/// The head of a request.
struct Head {
    request: Request,
    is_extended: bool,
}

impl Head {
    /// Bytes of data that follow the head.
    fn payload(&self) -> u64 {
        let Request { flags, command, len, .. } = self.request;
        let has_payload =
            if self.is_extended { flags & flag::PAYLOAD_LEN != 0 } else { command == command::WRITE };
        if has_payload { len } else { 0 }
    }
}

impl Request {
    /// Translates the request into an order on an export of this size.
    ///
    /// `status` tells whether the client has selected the context that BLOCK_STATUS reports.
    ///
    /// # Errors
    /// The fault to reply with.
    pub fn check(self, size: u64, can: Can, style: Style, status: bool) -> Result<Order, Fault> {
        let allowed = self.allowed(can, style).ok_or(Fault::Invalid)?;
        if self.flags & !allowed != 0 {
            return Err(Fault::Invalid);
        }
        let is = |flag| self.flags & flag != 0;
        if style == Style::Extended && is(flag::PAYLOAD_LEN) != (self.command == command::WRITE) {
            return Err(Fault::Invalid);
        }
        let (offset, len, fua) = (self.offset, self.len, is(flag::FUA));
        self.check_range(size, can)?;
        Ok(Order::Io(match self.command {
            command::READ => {
                let len = u32::try_from(len).ok().filter(|len| *len <= PAYLOAD_MAX);
                Io::Read { offset, len: len.ok_or(Fault::Overflow)?, whole: is(flag::DF) }
            }
            command::WRITE => Io::Write { offset, data: self.payload, fua },
            command::FLUSH => Io::Flush,
            command::TRIM => Io::Trim { offset, len, fua },
            command::CACHE => Io::Cache { offset, len },
            command::WRITE_ZEROES => {
                Io::WriteZeroes { offset, len, no_hole: is(flag::NO_HOLE), fast: is(flag::FAST_ZERO), fua }
            }
            command::BLOCK_STATUS if status && len > 0 => Io::Status { offset, len, one: is(flag::REQ_ONE) },
            command::DISC => return Ok(Order::Disconnect),
            _ => return Err(Fault::Invalid),
        }))
    }

    /// Returns whether the client ends the connection.
    pub fn is_disconnect(&self) -> bool {
        self.command == command::DISC
    }

    /// Returns whether an error reply must have the form of a reply with data.
    pub fn is_read(&self) -> bool {
        self.command == command::READ
    }

    /// The flags that the command may have; `None` for an unknown command.
    fn allowed(&self, can: Can, style: Style) -> Option<u16> {
        let structured = style != Style::Simple;
        // FUA is allowed with every command.
        Some(flag::FUA)
            .map(|always| match self.command {
                command::READ if structured => always | flag::DF,
                command::WRITE if style == Style::Extended => always | flag::PAYLOAD_LEN,
                command::WRITE_ZEROES if can.fast_zero => always | flag::NO_HOLE | flag::FAST_ZERO,
                command::WRITE_ZEROES => always | flag::NO_HOLE,
                command::BLOCK_STATUS => always | flag::REQ_ONE,
                _ => always,
            })
            .filter(|_| self.command <= command::BLOCK_STATUS)
    }

    /// Checks the range and the right to write. The fault depends on the command.
    fn check_range(&self, size: u64, can: Can) -> Result<(), Fault> {
        let writes = matches!(self.command, command::WRITE | command::TRIM | command::WRITE_ZEROES);
        if writes && !can.write {
            return Err(Fault::Perm);
        }
        if matches!(self.command, command::FLUSH | command::DISC) {
            return if self.command == command::FLUSH && (self.offset, self.len) != (0, 0) {
                Err(Fault::Invalid)
            } else {
                Ok(())
            };
        }
        match self.offset.checked_add(self.len) {
            Some(end) if end <= size => Ok(()),
            _ if matches!(self.command, command::WRITE | command::WRITE_ZEROES) => Err(Fault::NoSpace),
            _ => Err(Fault::Invalid),
        }
    }
}
