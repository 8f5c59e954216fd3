//! Requests: reading them, and what they want.

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

/// A request as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What the reply repeats.
    pub cookie: u64,
    /// Where, in bytes.
    pub offset: u64,
    flags: u16,
    command: u16,
    len: u64,
    payload: Bytes,
}

/// What a request wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// I/O.
    Io(Io),
    /// The end of the connection, once all that is under way is answered.
    Disconnect,
}

/// What is to be done with an export's bytes. Ranges lie within the export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Io {
    /// Read.
    Read {
        /// Where.
        offset: u64,
        /// Bytes; at most [`PAYLOAD_MAX`].
        len: u32,
        /// The answer must be one piece.
        whole: bool,
    },
    /// Write.
    Write {
        /// Where.
        offset: u64,
        /// What.
        data: Bytes,
        /// It must be safe before it is answered.
        fua: bool,
    },
    /// All that was answered must be safe.
    Flush,
    /// The range is of no use any more.
    Trim {
        /// Where.
        offset: u64,
        /// Bytes.
        len: u64,
        /// As in a write.
        fua: bool,
    },
    /// The range will be read soon.
    Cache {
        /// Where.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// The range must read as zeros.
    WriteZeroes {
        /// Where.
        offset: u64,
        /// Bytes.
        len: u64,
        /// It must keep its room.
        no_hole: bool,
        /// It must be refused if it is not faster than a write.
        fast: bool,
        /// As in a write.
        fua: bool,
    },
    /// Which parts of a range are holes.
    Status {
        /// Where.
        offset: u64,
        /// Bytes; not 0.
        len: u64,
        /// One extent is wanted.
        one: bool,
    },
}

impl Io {
    /// Where its range ends.
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
    /// For requests in this style.
    pub fn new(style: Style) -> Self {
        Self { style }
    }

    /// Takes the next whole request out of what has come. Nothing of it is copied.
    ///
    /// # Errors
    /// What came is no request, or one with more data than anybody may send. The connection must be ended.
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

    /// How many bytes the next request lacks, if its head is there; at least one.
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

/// What a request begins with.
struct Head {
    request: Request,
    is_extended: bool,
}

impl Head {
    /// Bytes that follow it.
    fn payload(&self) -> u64 {
        let Request { flags, command, len, .. } = self.request;
        let has_payload =
            if self.is_extended { flags & flag::PAYLOAD_LEN != 0 } else { command == command::WRITE };
        if has_payload { len } else { 0 }
    }
}

impl Request {
    /// What the request wants of an export of this size.
    ///
    /// `status` says whether the client has asked for the context of which BLOCK_STATUS tells.
    ///
    /// # Errors
    /// What the reply says.
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

    /// Whether the client ends the connection.
    pub fn is_disconnect(&self) -> bool {
        self.command == command::DISC
    }

    /// Whether the reply to an error must have the form of one with data.
    pub fn is_read(&self) -> bool {
        self.command == command::READ
    }

    /// The flags that the command may have; `None` if there is no such command.
    fn allowed(&self, can: Can, style: Style) -> Option<u16> {
        let structured = style != Style::Simple;
        // FUA is allowed everywhere.
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

    /// Which fault it is depends on what the command would have done.
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
