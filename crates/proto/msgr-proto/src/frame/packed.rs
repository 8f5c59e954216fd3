//! A completely received compressed message that is decompressed part by part, as memory is allowed.

use bytes::Bytes;
use loligo_wire::message::{Data, Header, Msg};

use super::preamble::Preamble;
use super::preamble::SEGMENTS_MAX;
use crate::Misbehaviour;
use crate::inflate::Inflater;
use crate::{Limits, Method};

/// A verified frame at the start of the buffer.
#[derive(Debug)]
pub(super) struct WholeFrame {
    pub(super) preamble: Preamble,
    /// Where segment 0 starts.
    pub(super) first: usize,
    /// Where segment 1 starts.
    pub(super) second: usize,
    /// The frame's encoded length.
    pub(super) len: usize,
    /// Whether the sender completed the frame; if not, it must be dropped.
    pub(super) complete: bool,
    /// In crc mode the checksum of segment 3, if there is one.
    pub(super) data_crc: Option<u32>,
}

/// The parts of a message after its header.
const PARTS: usize = SEGMENTS_MAX - 1;

#[derive(Debug)]
pub(super) struct Packed {
    pub(super) whole: WholeFrame,
    header: Header,
    method: Method,
    /// For each part: its offset in the buffer, its compressed length, and the bound of its decompressed
    /// length.
    places: [(usize, usize, u32); PARTS],
    parts: [Bytes; PARTS],
    /// The index of the next part.
    index: usize,
    inflater: Option<Inflater>,
    /// The largest amount of memory used at once.
    most: usize,
}

impl Packed {
    /// Wraps the message in the frame; `pad` returns the padded length of a part.
    pub(super) fn new(
        whole: WholeFrame,
        header: Header,
        method: Method,
        limits: &Limits,
        pad: impl Fn(usize) -> usize,
    ) -> Self {
        let mut at = whole.second;
        let max = [limits.front_len_max, limits.middle_len_max, limits.data_len_max];
        let mut places = [(0, 0, 0); PARTS];
        for (i, (place, max)) in places.iter_mut().zip(max).enumerate() {
            let len = whole.preamble.len(i + 1);
            *place = (at, len, max);
            at += pad(len);
        }
        let parts = [const { Bytes::new() }; PARTS];
        Self { whole, header, method, places, parts, index: 0, inflater: None, most: 0 }
    }

    /// Bytes of memory used after the next step, and an upper bound of the bytes used at the end, for
    /// the compressed and the decompressed form together.
    pub(super) fn memory(&self) -> (usize, usize) {
        let done = self.whole.len + self.parts.iter().map(Bytes::len).sum::<usize>();
        let (next, whole) = self.inflater.as_ref().map_or((0, 0), |i| (i.next_len(), i.whole_len()));
        (done + next, done + whole)
    }

    /// Continues as far as `allowed` bytes of memory suffice. Returns `true` once the message is
    /// complete.
    pub(super) fn advance(&mut self, buf: &[u8], allowed: usize) -> Result<bool, Misbehaviour> {
        while let Some(&(at, len, max)) = self.places.get(self.index) {
            let packed = &buf[at..at + len];
            if packed.is_empty() {
                self.index += 1;
                continue;
            }
            if self.inflater.is_none() {
                self.inflater = Some(Inflater::new(self.method, packed, max as usize)?);
            }
            let next = self.memory().0;
            if next > allowed {
                return Ok(false);
            }
            self.most = self.most.max(next);
            let Some(inflater) = &mut self.inflater else { continue };
            if let Some(part) = inflater.step(packed)? {
                self.parts[self.index] = part;
                self.inflater = None;
                self.index += 1;
            }
        }
        Ok(true)
    }

    /// The largest amount of memory used, in bytes.
    pub(super) fn most(&self) -> usize {
        self.most.max(self.whole.len)
    }

    /// Returns the message, once it is complete.
    pub(super) fn into_msg(self) -> Msg {
        let [front, middle, data] = self.parts;
        let data = if data.is_empty() { Data::new() } else { Data::from_buf([data]) };
        Msg { header: self.header, front, middle, data, data_crc: None }
    }
}
