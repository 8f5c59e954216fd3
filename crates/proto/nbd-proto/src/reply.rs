//! Encoding of replies.

use az::SaturatingAs as _;
use bytes::{BufMut as _, Bytes, BytesMut};

use super::words::{
    ALLOCATION_ID, EXTENDED_REPLY_MAGIC, REPLY_DONE, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, chunk,
};
use super::{Extent, Fault, Style};

/// Destination of replies.
pub trait Sink {
    /// The end of the output; short data are written there.
    fn tail(&mut self) -> &mut BytesMut;
    /// Appends data, without a copy if they are long.
    fn put(&mut self, data: Bytes);
    /// Appends zeros.
    fn put_zeros(&mut self, len: u64);
}

/// A piece of the data read. Pieces are contiguous and in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Data bytes.
    Data(Bytes),
    /// This many zeros, unallocated.
    Hole(u64),
}

impl Piece {
    /// Returns whether the piece has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Data(data) => data.len() as u64,
            Self::Hole(len) => *len,
        }
    }
}

/// Encodes replies.
#[derive(Clone, Copy, Debug)]
pub struct Encoder {
    style: Style,
}

/// The request that is replied to.
#[derive(Clone, Copy, Debug)]
pub struct To {
    /// Its cookie.
    pub cookie: u64,
    /// Its offset.
    pub offset: u64,
}

impl Encoder {
    /// Creates an encoder for replies in this style.
    pub fn new(style: Style) -> Self {
        Self { style }
    }

    /// Replies that the request has been carried out.
    pub fn done(&self, to: To, out: &mut impl Sink) {
        match self.style {
            Style::Simple => simple(to, 0, out),
            // Shorter than a chunk, and allowed in replies without data.
            Style::Structured => simple(to, 0, out),
            Style::Extended => self.chunk(to, REPLY_DONE, chunk::NONE, 0, out),
        }
    }

    /// Replies that the request has failed.
    pub fn fault(&self, to: To, fault: Fault, out: &mut impl Sink) {
        if self.style == Style::Simple {
            return simple(to, fault.code(), out);
        }
        let message = fault.to_string();
        self.chunk(to, REPLY_DONE, chunk::ERROR, 6 + message.len() as u64, out);
        let tail = out.tail();
        tail.put_u32(fault.code());
        tail.put_u16(message.len().saturating_as::<u16>());
        tail.put_slice(message.as_bytes());
    }

    /// Writes the head of a reply with `len` bytes of data, which the caller appends as one piece.
    pub fn data_head(&self, to: To, len: u32, out: &mut impl Sink) {
        match (self.style, len) {
            (Style::Simple, _) => simple(to, 0, out),
            // A chunk of data must have at least one byte.
            (_, 0) => self.chunk(to, REPLY_DONE, chunk::NONE, 0, out),
            (_, len) => {
                self.chunk(to, REPLY_DONE, chunk::OFFSET_DATA, 8 + u64::from(len), out);
                out.tail().put_u64(to.offset);
            }
        }
    }

    /// Replies with the data read. With `whole`, in one piece.
    pub fn data(&self, to: To, pieces: Vec<Piece>, whole: bool, out: &mut impl Sink) {
        let len: u64 = pieces.iter().map(Piece::len).sum();
        if self.style == Style::Simple || whole || len == 0 {
            self.data_head(to, len.saturating_as::<u32>(), out);
            for piece in pieces {
                match piece {
                    Piece::Data(data) => out.put(data),
                    Piece::Hole(len) => out.put_zeros(len),
                }
            }
            return;
        }
        let mut offset = to.offset;
        let mut left = pieces.iter().filter(|piece| !piece.is_empty()).count();
        for piece in pieces.into_iter().filter(|piece| !piece.is_empty()) {
            left -= 1;
            let (len, done) = (piece.len(), if left == 0 { REPLY_DONE } else { 0 });
            match piece {
                Piece::Data(data) => {
                    self.chunk(to, done, chunk::OFFSET_DATA, 8 + len, out);
                    out.tail().put_u64(offset);
                    out.put(data);
                }
                Piece::Hole(len) => {
                    self.chunk(to, done, chunk::OFFSET_HOLE, 12, out);
                    out.tail().put_u64(offset);
                    out.tail().put_u32(len.saturating_as::<u32>());
                }
            }
            offset += len;
        }
    }

    /// Replies which parts are holes. `extents` must not be empty.
    pub fn extents(&self, to: To, extents: &[Extent], out: &mut impl Sink) {
        const HOLE_AND_ZERO: u32 = 3;
        let count = extents.len() as u64;
        let flags = |extent: &Extent| if extent.hole { HOLE_AND_ZERO } else { 0 };
        if self.style == Style::Extended {
            self.chunk(to, REPLY_DONE, chunk::BLOCK_STATUS_EXT, 8 + 16 * count, out);
            out.tail().put_u32(ALLOCATION_ID);
            out.tail().put_u32(count.saturating_as::<u32>());
            for extent in extents {
                out.tail().put_u64(extent.len);
                out.tail().put_u64(flags(extent).into());
            }
            return;
        }
        self.chunk(to, REPLY_DONE, chunk::BLOCK_STATUS, 4 + 8 * count, out);
        out.tail().put_u32(ALLOCATION_ID);
        for extent in extents {
            // The request's length has 32 bits, and no extent is longer.
            out.tail().put_u32(extent.len.min(u32::MAX.into()).saturating_as::<u32>());
            out.tail().put_u32(flags(extent));
        }
    }

    fn chunk(&self, to: To, flags: u16, kind: u16, len: u64, out: &mut impl Sink) {
        let tail = out.tail();
        let is_extended = self.style == Style::Extended;
        tail.put_u32(if is_extended { EXTENDED_REPLY_MAGIC } else { STRUCTURED_REPLY_MAGIC });
        tail.put_u16(flags);
        tail.put_u16(kind);
        tail.put_u64(to.cookie);
        if is_extended {
            tail.put_u64(to.offset);
            tail.put_u64(len);
        } else {
            tail.put_u32(len.saturating_as::<u32>());
        }
    }
}

fn simple(to: To, error: u32, out: &mut impl Sink) {
    let tail = out.tail();
    tail.put_u32(SIMPLE_REPLY_MAGIC);
    tail.put_u32(error);
    tail.put_u64(to.cookie);
}
