//! Opens frames: bytes in, messages and control frames out.

use az::SaturatingAs as _;
use bytes::{Buf, Bytes, BytesMut};
use loligo_wire::crc::crc32c;
use loligo_wire::message::{Data, Header, Msg};
use loligo_wire::{Decode, UTime};

use super::header::{HEADER_LEN, HEADER_LEN_U32, decode_header};
use super::packed::{Packed, WholeFrame};
use super::preamble::{FLAG_COMPRESSED, Preamble, SEGMENTS_MAX, check_crc};
use super::{
    CRC_LEN, EPILOGUE_CRC_LEN, EPILOGUE_SECURE_LEN, INLINE_LEN, STATUS_ABORTED, STATUS_COMPLETE, STATUS_MASK,
    padded,
};
use crate::compression::{decompress, len_max};
use crate::crypto::{Gcm, TAG_LEN};
use crate::error::bad_payload;
use crate::limits::CONTROL_SEGMENT_MAX;
use crate::read_len::{READ_LEN_MAX, ReadLen, begun_len};
use crate::{Limits, Method, Misbehaviour, ProtoError, Tag};

/// The receiving half of a connection: opens frames.
///
/// Call order: read the socket into [`Opener::spare`], call [`Opener::next`] until it returns `None`,
/// then read again.
///
/// ```text
/// buffer:  │ whole frame │ whole frame │ begun frame … │ spare …… │
///            next()        next()        next(): None    spare()
/// ```
///
/// The parts of a message are slices of the receive buffer. A part that is kept for long keeps up to 256
/// KiB allocated: copy it instead.
#[derive(Debug)]
pub(crate) struct Opener {
    buf: BytesMut,
    /// `None` in crc mode.
    gcm: Option<Box<Gcm>>,
    /// The method of compressed frames; `None`: compressed frames are refused.
    compression: Option<Method>,
    /// The preamble of the incomplete frame, once it has been received (and decrypted).
    begun: Option<Preamble>,
    /// The checksum of the incomplete frame's data received so far.
    summed: Summed,
    /// A verified compressed message at the start of the buffer, which is being decompressed.
    packed: Option<Box<Packed>>,
    /// Memory that compressed messages may use, in bytes; `None`: no bound.
    allowed: Option<usize>,
    /// Bounds for messages; `None` during the handshake, when messages are refused.
    limits: Option<Limits>,
    read_len: ReadLen,
}

/// Data segments of at least this length are summed as they arrive, while the bytes that the socket's
/// read has copied are still in the processor's caches.
const SUM_EARLY_MIN: usize = 64 << 10;

/// The alignment of a long frame's data in memory, so that a store can write it to disk without a copy.
const DATA_ALIGN: usize = 4096;

/// The checksum of the received part of a data segment.
#[derive(Clone, Copy, Debug)]
struct Summed {
    len: usize,
    crc: u32,
}

impl Summed {
    const NOTHING: Self = Self { len: 0, crc: u32::MAX };

    /// Continues the checksum to the end of `segment`, whose beginning is summed already.
    fn with(self, segment: &[u8]) -> Self {
        Self { len: segment.len(), crc: crc32c(self.crc, &segment[self.len..]) }
    }
}

/// A frame received on an established connection.
#[derive(Clone, Debug)]
pub enum Frame {
    /// A message; `header.seq` and `header.ack_seq` are set.
    Message(Msg),
    /// The peer has received all messages up to `seq`.
    Ack {
        /// The sequence number.
        seq: u64,
    },
    /// A keepalive. Answer with [`Sealer::keepalive2_ack`](crate::Sealer::keepalive2_ack) and the same
    /// time.
    Keepalive2(UTime),
    /// The answer to a keepalive, with the keepalive's time.
    Keepalive2Ack(UTime),
    /// The peer closes the connection. Only in the messenger of version 1.
    Close,
}

impl Opener {
    /// The half of a connection before authentication.
    pub(crate) fn plain() -> Self {
        Self {
            buf: BytesMut::new(),
            gcm: None,
            compression: None,
            begun: None,
            summed: Summed::NOTHING,
            packed: None,
            allowed: None,
            limits: None,
            read_len: ReadLen::new(),
        }
    }

    /// Decrypts all frames from the next one on.
    pub(crate) fn secure(&mut self, gcm: Gcm) {
        self.gcm = Some(Box::new(gcm));
    }

    /// Accepts compressed frames from the next one on.
    pub(crate) fn decompress(&mut self, method: Method) {
        self.compression = Some(method);
    }

    /// Accepts messages from the next frame on.
    pub(crate) fn establish(&mut self, limits: Limits) {
        self.limits = Some(limits);
    }

    /// Returns the buffer to append received bytes to, with room for a read of reasonable size: the rest
    /// of the incomplete frame, but at most as much as has arrived of it or 8 MiB, whichever is more.
    pub(crate) fn spare(&mut self) -> &mut BytesMut {
        let missing = self.missing();
        if let Some(wanted) = self.read_len.wanted(&self.buf, missing, self.limits.is_some()) {
            match self.begun.as_ref().and_then(|preamble| self.long_data_start(preamble)) {
                Some(start) if wanted > READ_LEN_MAX => self.align(start, wanted),
                _ => self.buf.reserve(wanted),
            }
        }
        &mut self.buf
    }

    /// Moves the received bytes to a buffer in which the data, which begins at `start`, has the
    /// alignment for direct I/O.
    fn align(&mut self, start: usize, missing: usize) {
        let mut aligned = BytesMut::with_capacity(self.buf.len() + missing + DATA_ALIGN);
        let pad = aligned.as_ptr().wrapping_add(start).align_offset(DATA_ALIGN) % DATA_ALIGN;
        aligned.resize(pad, 0);
        aligned.advance(pad);
        aligned.extend_from_slice(&self.buf);
        self.buf = aligned;
    }

    /// The offset of the data in an incomplete frame, if the data is long and not encrypted.
    fn long_data_start(&self, preamble: &Preamble) -> Option<usize> {
        if self.gcm.is_some() || preamble.len(SEGMENTS_MAX - 1) < SUM_EARLY_MIN {
            return None;
        }
        let before: usize = (0..SEGMENTS_MAX - 1).map(|i| preamble.len(i)).sum();
        Some(Preamble::LEN + before + if preamble.lens[0] > 0 { CRC_LEN } else { 0 })
    }

    /// Bytes received and not yet consumed.
    pub(crate) fn buffered(&self) -> usize {
        self.buf.len()
    }

    /// Bytes of memory that the incomplete frame uses after the next call of [`Opener::spare`] (what has
    /// arrived and as much again, or `RESERVE_MAX`, but not more than the frame's length), and the
    /// frame's length. `None` if no frame is incomplete.
    pub(crate) fn begun_len(&self) -> Option<(usize, usize)> {
        let whole = self.frame_len(self.begun.as_ref()?);
        Some((begun_len(self.buf.len(), whole), whole))
    }

    /// Allows `bytes` bytes of memory for the next compressed messages, for the compressed and the
    /// decompressed form together. When they are used up [`Opener::next`] returns `None`, and
    /// [`Opener::packed_len`] returns the memory needed. Without a call there is no bound.
    pub(crate) fn allow(&mut self, bytes: usize) {
        self.allowed = Some(bytes);
    }

    /// Bytes of memory needed by a received compressed message that waits for an allowance: for its next
    /// step, and an upper bound for all of it. `None` if no message waits: then read on.
    pub(crate) fn packed_len(&self) -> Option<(usize, usize)> {
        self.packed.as_ref().map(|packed| packed.memory())
    }

    /// The length of the incomplete message's parts, once its preamble has been received, so that a
    /// throttle can wait before the rest is read.
    pub(crate) fn begun_message_len(&self) -> Option<usize> {
        let preamble = self.begun.as_ref().filter(|p| p.tag == Tag::Message)?;
        Some((1..SEGMENTS_MAX).map(|i| preamble.len(i)).sum())
    }

    /// Returns the next frame; `None` if no complete frame has been received, or if it is compressed and
    /// needs more memory than [allowed](Opener::allow).
    ///
    /// # Errors
    /// [`Misbehaving`](ProtoError::Misbehaving) and [`Crypto`](ProtoError::Crypto). The connection
    /// cannot be used any more then.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, ProtoError> {
        loop {
            if self.packed.is_some() {
                match self.unpack()? {
                    Some((frame, true)) => return Ok(Some(frame)),
                    Some(_) => continue,
                    None => return Ok(None),
                }
            }
            let Some(whole) = self.whole_frame()? else { return Ok(None) };
            let frame = match whole.preamble.tag {
                Tag::Message if whole.preamble.compressed => {
                    self.packed = Some(self.packed(whole)?);
                    continue;
                }
                Tag::Message => self.take_message(&whole)?,
                tag @ (Tag::Ack | Tag::Keepalive2 | Tag::Keepalive2Ack) => self.take_small(tag, &whole)?,
                other => return Err(Misbehaviour::Unexpected(other).into()),
            };
            if whole.complete {
                return Ok(Some(frame));
            }
        }
    }

    /// Returns the tag and payload of the next frame of the handshake. Appends the frame's bytes to
    /// `transcript`.
    pub(crate) fn next_control(
        &mut self,
        transcript: Option<&mut Vec<u8>>,
    ) -> Result<Option<(Tag, Bytes)>, ProtoError> {
        let Some(whole) = self.whole_frame()? else {
            return Ok(None);
        };
        if let Some(transcript) = transcript {
            transcript.extend_from_slice(&self.buf[..whole.len]);
        }
        if let Some(method) = self.compression.filter(|_| whole.preamble.compressed) {
            let packed = &self.buf[whole.first..whole.first + whole.preamble.len(0)];
            let payload = decompress(method, packed, CONTROL_SEGMENT_MAX as usize)?;
            self.buf.advance(whole.len);
            return Ok(Some((whole.preamble.tag, payload)));
        }
        self.buf.advance(whole.first);
        let payload = self.buf.split_to(whole.preamble.len(0)).freeze();
        self.buf.advance(whole.len - whole.first - payload.len());
        Ok(Some((whole.preamble.tag, payload)))
    }

    /// Returns the banner, if it has been received completely: `len` determines its length from the
    /// first bytes.
    pub(crate) fn next_raw(
        &mut self,
        len: impl FnOnce(&[u8]) -> Result<Option<usize>, ProtoError>,
    ) -> Result<Option<Bytes>, ProtoError> {
        let len = len(&self.buf)?.filter(|len| *len <= self.buf.len());
        Ok(len.map(|len| self.buf.split_to(len).freeze()))
    }

    /// Bytes of the incomplete frame that have not arrived; 0 if no frame is incomplete.
    fn missing(&self) -> usize {
        self.begun.as_ref().map_or(0, |p| self.frame_len(p).saturating_sub(self.buf.len()))
    }

    /// Finds the next frame if it has been received completely, and verifies (and in secure mode
    /// decrypts) it in place.
    fn whole_frame(&mut self) -> Result<Option<WholeFrame>, ProtoError> {
        let Some(preamble) = self.begin()? else {
            return Ok(None);
        };
        let len = self.frame_len(&preamble);
        if self.buf.len() < len {
            self.sum_early(&preamble);
            return Ok(None);
        }
        self.begun = None;
        let summed = std::mem::replace(&mut self.summed, Summed::NOTHING);
        match &mut self.gcm {
            None => check_frame(&preamble, &self.buf[..len], summed),
            Some(gcm) => decrypt_frame(gcm, &preamble, &mut self.buf[..len]),
        }
        .map(Some)
    }

    /// Updates the checksum with the received part of the incomplete frame's data, if the data is long.
    fn sum_early(&mut self, preamble: &Preamble) {
        let data_len = preamble.len(SEGMENTS_MAX - 1);
        let Some(start) = self.long_data_start(preamble) else { return };
        let end = self.buf.len().min(start + data_len);
        if start + self.summed.len < end {
            self.summed = self.summed.with(&self.buf[start..end]);
        }
    }

    /// Returns the next frame's preamble, if it has been received.
    fn begin(&mut self) -> Result<Option<Preamble>, ProtoError> {
        if self.begun.is_some() {
            return Ok(self.begun);
        }
        if let Some(gcm) = &mut self.gcm {
            let Some(block) = self.buf.get_mut(..Preamble::LEN + INLINE_LEN + TAG_LEN) else {
                return Ok(None);
            };
            gcm.decrypt(block)?;
        }
        let Some(bytes) = self.buf.first_chunk::<{ Preamble::LEN }>() else {
            return Ok(None);
        };
        let preamble = Preamble::decode(bytes)?;
        self.check_bounds(&preamble)?;
        self.begun = Some(preamble);
        Ok(self.begun)
    }

    /// Checks whether such a frame is acceptable in this state.
    fn check_bounds(&self, preamble: &Preamble) -> Result<(), Misbehaviour> {
        let tag = preamble.tag;
        if preamble.compressed && self.compression.is_none() {
            return Err(Misbehaviour::Flags(FLAG_COMPRESSED));
        }
        let mut max = match (tag, self.limits) {
            (Tag::Message, Some(l)) => [HEADER_LEN_U32, l.front_len_max, l.middle_len_max, l.data_len_max],
            (Tag::Message, None) => return Err(Misbehaviour::Unexpected(tag)),
            _ if preamble.segments > 1 => {
                return Err(Misbehaviour::Segments { tag, segments: preamble.segments });
            }
            _ => [CONTROL_SEGMENT_MAX, 0, 0, 0],
        };
        if preamble.compressed {
            max = max.map(len_max);
        } else if tag == Tag::Message && preamble.lens[0] != HEADER_LEN_U32 {
            return Err(Misbehaviour::HeaderLen(preamble.lens[0]));
        }
        for (index, (len, max)) in preamble.lens.into_iter().zip(max).enumerate() {
            if len > max {
                return Err(Misbehaviour::TooLong { tag, index: index.saturating_as::<u8>(), len, max });
            }
        }
        Ok(())
    }

    /// The encoded length of a frame.
    fn frame_len(&self, preamble: &Preamble) -> usize {
        let first = preamble.len(0);
        if self.gcm.is_none() {
            let others: usize = (1..SEGMENTS_MAX).map(|i| preamble.len(i)).sum();
            let epilogue = if preamble.segments > 1 { EPILOGUE_CRC_LEN } else { 0 };
            let crc = if first > 0 { CRC_LEN } else { 0 };
            return Preamble::LEN + first + crc + others + epilogue;
        }
        let rest = if first > INLINE_LEN { padded(first) - INLINE_LEN + TAG_LEN } else { 0 };
        let others: usize = (1..SEGMENTS_MAX).map(|i| padded(preamble.len(i))).sum();
        let epilogue = if preamble.segments > 1 { EPILOGUE_SECURE_LEN + TAG_LEN } else { 0 };
        Preamble::LEN + INLINE_LEN + TAG_LEN + rest + others + epilogue
    }

    fn take_message(&mut self, whole: &WholeFrame) -> Result<Frame, ProtoError> {
        let at = whole.first;
        let header: Header =
            decode_header(&self.buf[at..at + HEADER_LEN]).map_err(bad_payload(Tag::Message))?;
        let [_, front, middle, data] = std::array::from_fn(|i| whole.preamble.len(i));
        let pad = |len: usize| if self.gcm.is_some() { padded(len) - len } else { 0 };
        let pads = [pad(front), pad(middle)];
        self.buf.advance(whole.second);
        let front = take(&mut self.buf, front);
        self.buf.advance(pads[0]);
        let middle = take(&mut self.buf, middle);
        self.buf.advance(pads[1]);
        let mut bulk = Data::new();
        let data = take(&mut self.buf, data);
        let taken = whole.second + front.len() + middle.len() + data.len() + pads[0] + pads[1];
        self.buf.advance(whole.len - taken);
        if !data.is_empty() {
            bulk.push(data);
        }
        Ok(Frame::Message(Msg { header, front, middle, data: bulk, data_crc: whole.data_crc }))
    }

    /// Prepares a message with compressed segments; decompresses only its header.
    fn packed(&self, whole: WholeFrame) -> Result<Box<Packed>, ProtoError> {
        let (Some(method), Some(limits)) = (self.compression, self.limits) else {
            return Err(Misbehaviour::Flags(FLAG_COMPRESSED).into());
        };
        let first = &self.buf[whole.first..whole.first + whole.preamble.len(0)];
        let header = decompress(method, first, HEADER_LEN)?;
        if header.len() != HEADER_LEN {
            return Err(Misbehaviour::HeaderLen(header.len().saturating_as::<u32>()).into());
        }
        let header = decode_header(&header).map_err(bad_payload(Tag::Message))?;
        let is_padded = self.gcm.is_some();
        let pad = |len| if is_padded { padded(len) } else { len };
        Ok(Box::new(Packed::new(whole, header, method, &limits, pad)))
    }

    /// Continues with the compressed message. Returns the frame and whether its sender completed it, or
    /// `None` if it needs more memory than allowed.
    fn unpack(&mut self) -> Result<Option<(Frame, bool)>, ProtoError> {
        let Some(mut packed) = self.packed.take() else { return Ok(None) };
        if !packed.advance(&self.buf, self.allowed.unwrap_or(usize::MAX))? {
            self.packed = Some(packed);
            return Ok(None);
        }
        if let Some(allowed) = &mut self.allowed {
            *allowed = allowed.saturating_sub(packed.most());
        }
        self.buf.advance(packed.whole.len);
        let complete = packed.whole.complete;
        Ok(Some((Frame::Message(packed.into_msg()), complete)))
    }

    fn take_small(&mut self, tag: Tag, whole: &WholeFrame) -> Result<Frame, ProtoError> {
        let payload = &self.buf[whole.first..whole.first + whole.preamble.len(0)];
        let plain;
        let payload = match self.compression {
            Some(method) if whole.preamble.compressed => {
                plain = decompress(method, payload, CONTROL_SEGMENT_MAX as usize)?;
                &plain
            }
            _ => payload,
        };
        let frame = match tag {
            Tag::Ack => u64::from_bytes(payload).map(|seq| Frame::Ack { seq }),
            Tag::Keepalive2 => UTime::from_bytes(payload).map(Frame::Keepalive2),
            _ => UTime::from_bytes(payload).map(Frame::Keepalive2Ack),
        };
        self.buf.advance(whole.len);
        frame.map_err(bad_payload(tag))
    }
}

/// Splits off the next `len` bytes; does not touch the buffer's reference count if `len` is 0.
fn take(buf: &mut BytesMut, len: usize) -> Bytes {
    if len == 0 { Bytes::new() } else { buf.split_to(len).freeze() }
}

/// Verifies a frame in crc mode; `summed` covers the part of its data that is summed already.
fn check_frame(preamble: &Preamble, frame: &[u8], summed: Summed) -> Result<WholeFrame, ProtoError> {
    const WHAT: [&str; SEGMENTS_MAX - 1] = ["a second segment", "a third segment", "a fourth segment"];
    let mut at = Preamble::LEN;
    if preamble.lens[0] > 0 {
        let segment = &frame[at..at + preamble.len(0)];
        at += segment.len();
        check_crc("a first segment", le_u32(&frame[at..]), crc32c(u32::MAX, segment))?;
        at += CRC_LEN;
    }
    let mut whole = WholeFrame {
        preamble: *preamble,
        first: Preamble::LEN,
        second: at,
        len: frame.len(),
        complete: true,
        data_crc: None,
    };
    if preamble.segments > 1 {
        let (segments, epilogue) = frame[at..].split_at(frame.len() - EPILOGUE_CRC_LEN - at);
        let mut rest = segments;
        for (i, what) in WHAT.into_iter().enumerate().take(usize::from(preamble.segments) - 1) {
            let segment;
            (segment, rest) = rest.split_at(preamble.len(i + 1));
            let is_data = i + 2 == SEGMENTS_MAX;
            let crc = if is_data { summed } else { Summed::NOTHING }.with(segment).crc;
            check_crc(what, le_u32(&epilogue[1 + CRC_LEN * i..]), crc)?;
            whole.data_crc = (is_data && !segment.is_empty()).then_some(crc);
        }
        whole.complete = is_complete(epilogue[0])?;
    }
    Ok(whole)
}

/// Decrypts a frame whose first GCM message (with the preamble) has been decrypted already.
fn decrypt_frame(gcm: &mut Gcm, preamble: &Preamble, frame: &mut [u8]) -> Result<WholeFrame, ProtoError> {
    let len = frame.len();
    let mut first = Preamble::LEN;
    let mut at = Preamble::LEN + INLINE_LEN + TAG_LEN;
    if preamble.len(0) > INLINE_LEN {
        let rest = padded(preamble.len(0)) - INLINE_LEN + TAG_LEN;
        gcm.decrypt(&mut frame[at..at + rest])?;
        // Moves the inlined bytes over the tag that separates them from the rest.
        frame.copy_within(first..first + INLINE_LEN, first + TAG_LEN);
        first += TAG_LEN;
        at += rest;
    }
    let mut complete = true;
    if preamble.segments > 1 {
        gcm.decrypt(&mut frame[at..])?;
        complete = is_complete(frame[len - TAG_LEN - EPILOGUE_SECURE_LEN])?;
    }
    Ok(WholeFrame { preamble: *preamble, first, second: at, len, complete, data_crc: None })
}

fn is_complete(status: u8) -> Result<bool, Misbehaviour> {
    match status & STATUS_MASK {
        STATUS_COMPLETE => Ok(true),
        STATUS_ABORTED => Ok(false),
        _ => Err(Misbehaviour::LateStatus(status)),
    }
}

fn le_u32(b: &[u8]) -> u32 {
    u32::from_le_bytes([b[0], b[1], b[2], b[3]])
}
