//! Seals frames: messages in, bytes out.

use az::SaturatingAs as _;
use bytes::{Bytes, BytesMut};
use loligo_wire::crc::crc32c;
use loligo_wire::message::Msg;
use loligo_wire::{Encode, UTime};

use super::header::{HEADER_LEN, HEADER_LEN_U32, encode_header};
use super::preamble::{Preamble, SEGMENTS_MAX};
use super::{CRC_LEN, EPILOGUE_CRC_LEN, EPILOGUE_SECURE_LEN, INLINE_LEN, STATUS_COMPLETE, padded};
use crate::compression::compress;
use crate::crypto::{Gcm, TAG_LEN};
use crate::{CryptoError, Method, Misuse, OutBuf, ProtoError, Tag};

/// Buffers up to this length are copied into the small bytes. A longer one is written from its place:
/// one more entry in the write's vector, two atomic operations and one free cost about as much as
/// copying a kilobyte.
const COPY_LEN_MAX: usize = 1024;

/// Data of at least this length is summed piece by piece while it is written: if it were summed as a
/// whole, it would leave the processor's caches before the socket copies it.
const SUM_LATE_MIN: usize = 256 << 10;

/// In secure mode, data in one buffer of at least this length is encrypted from its place.
const APART_MIN: usize = 256 << 10;

/// Secure frames up to this length are encrypted among the small bytes; longer ones in their own buffer,
/// so that the small buffer does not grow with them.
const SECURE_INLINE_LEN_MAX: usize = 2 << 10;

/// The sending half of a connection: makes frames.
///
/// It does not number messages: the sender sets `seq` and `ack_seq` when a message leaves its queue. The
/// bytes that it appends to an [`OutBuf`] must reach the socket in the order in which they were made,
/// completely, and without any other bytes in between.
#[derive(Debug)]
pub(crate) struct Sealer {
    /// `None` in crc mode.
    secure: Option<Box<Secure>>,
    /// The compression method, and the length in bytes from which on frames are compressed.
    compression: Option<(Method, usize)>,
}

impl Sealer {
    /// The half of a connection before authentication.
    pub(crate) fn plain() -> Self {
        Self { secure: None, compression: None }
    }

    /// Encrypts all frames from the next one on.
    pub(crate) fn secure(&mut self, gcm: Gcm) {
        self.secure = Some(Box::new(Secure { gcm, spares: Spares::default() }));
    }

    /// Compresses frames of at least `frame_len_min` bytes, from the next one on.
    pub(crate) fn compress(&mut self, method: Method, frame_len_min: usize) {
        self.compression = Some((method, frame_len_min));
    }

    /// Appends a message. Its header is sent unchanged, `seq` and `ack_seq` included.
    ///
    /// In crc mode a long `front`, `middle` or buffer of `data` is not copied; it is kept until it is
    /// written. In secure mode each byte is copied once and encrypted in the copy; if `data` is one long
    /// buffer, it is encrypted directly from there.
    ///
    /// # Errors
    /// [`Misuse::TooLong`] if a part does not fit the format's 32-bit length,
    /// [`CryptoError::NoncesExhausted`]. Nothing has been appended then.
    pub(crate) fn message(&mut self, msg: &Msg, out: &mut OutBuf) -> Result<(), ProtoError> {
        let Msg { header, front, middle, data, data_crc } = msg;
        let data_len = data.iter().map(Bytes::len).sum();
        let lens =
            [HEADER_LEN_U32, segment_len(front.len())?, segment_len(middle.len())?, segment_len(data_len)?];
        let header = encode_header(header);
        if let Some(compressed) = self.compressed([&header, front, middle], data) {
            return self.seal_compressed(Tag::Message, compressed, out);
        }
        let preamble = Preamble::new(Tag::Message, lens);
        match &mut self.secure {
            None => seal_message_crc(&preamble, &header, [front, middle], data, *data_crc, out),
            Some(secure) => {
                let parts = [std::slice::from_ref(front), std::slice::from_ref(middle), data];
                secure.seal(&preamble, &header, parts, out)?;
            }
        }
        Ok(())
    }

    /// The compressed segments of a frame; `None` if the frame is sent uncompressed because it is short
    /// or would not become shorter.
    fn compressed(&self, fields: [&[u8]; 3], data: &[Bytes]) -> Option<[Bytes; SEGMENTS_MAX]> {
        let (method, frame_len_min) = self.compression?;
        let len = |segments: &[&[u8]]| segments.iter().map(|segment| segment.len()).sum::<usize>();
        let plain_len = len(&fields) + data.iter().map(Bytes::len).sum::<usize>();
        if plain_len < frame_len_min {
            return None;
        }
        let data = match data {
            [] => Bytes::new(),
            [one] => one.clone(),
            several => several.concat().into(),
        };
        let [first, second, third] = fields;
        let mut packed = [const { Bytes::new() }; SEGMENTS_MAX];
        for (segment, to) in [first, second, third, &data].into_iter().zip(&mut packed) {
            *to = compress(method, segment)?.into();
        }
        (len(&packed.each_ref().map(|segment| &segment[..])) < plain_len).then_some(packed)
    }

    /// Appends a frame with segments that are compressed already.
    pub(crate) fn seal_compressed(
        &mut self,
        tag: Tag,
        segments: [Bytes; SEGMENTS_MAX],
        out: &mut OutBuf,
    ) -> Result<(), ProtoError> {
        // They are shorter than the uncompressed segments, whose lengths fit.
        let lens = segments.each_ref().map(|segment| segment.len().saturating_as::<u32>());
        let preamble = Preamble::new(tag, lens).compressed();
        match &mut self.secure {
            None => seal_crc(&preamble, &segments, out),
            Some(secure) => {
                let parts = [&segments[1..2], &segments[2..3], &segments[3..4]];
                secure.seal(&preamble, &segments[0], parts, out)?;
            }
        }
        Ok(())
    }

    /// Appends an acknowledgement of all messages up to `seq`.
    ///
    /// # Errors
    /// [`CryptoError::NoncesExhausted`].
    pub(crate) fn ack(&mut self, seq: u64, out: &mut OutBuf) -> Result<(), ProtoError> {
        self.control(Tag::Ack, &seq.to_le_bytes(), out)
    }

    /// Appends a keepalive. `now` is the sender's clock; the peer returns it in its answer.
    ///
    /// # Errors
    /// [`CryptoError::NoncesExhausted`].
    pub(crate) fn keepalive2(&mut self, now: UTime, out: &mut OutBuf) -> Result<(), ProtoError> {
        if let Some(secure) = &mut self.secure {
            secure.spares.age();
        }
        self.control(Tag::Keepalive2, &now.to_bytes(), out)
    }

    /// Appends the answer to a [`Frame::Keepalive2`], with its time `theirs`.
    ///
    /// # Errors
    /// [`CryptoError::NoncesExhausted`].
    ///
    /// [`Frame::Keepalive2`]: crate::Frame::Keepalive2
    pub(crate) fn keepalive2_ack(&mut self, theirs: UTime, out: &mut OutBuf) -> Result<(), ProtoError> {
        if let Some(secure) = &mut self.secure {
            secure.spares.age();
        }
        self.control(Tag::Keepalive2Ack, &theirs.to_bytes(), out)
    }

    /// Appends a secure frame with any tag and any segments, as a malicious peer would.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn any_frame(
        &mut self,
        tag: Tag,
        segments: [Bytes; SEGMENTS_MAX],
        out: &mut OutBuf,
    ) -> Result<(), ProtoError> {
        let secure = self.secure.as_mut().ok_or(Misuse::State("a secure frame"))?;
        let preamble = Preamble::new(tag, segments.each_ref().map(|s| s.len().saturating_as::<u32>()));
        let parts = [&segments[1..2], &segments[2..3], &segments[3..4]];
        Ok(secure.seal(&preamble, &segments[0], parts, out)?)
    }

    /// Appends a frame with one segment.
    pub(crate) fn control(&mut self, tag: Tag, payload: &[u8], out: &mut OutBuf) -> Result<(), ProtoError> {
        if let Some(compressed) = self.compressed([payload, &[], &[]], &[]) {
            return self.seal_compressed(tag, compressed, out);
        }
        let preamble = Preamble::new(tag, [segment_len(payload.len())?, 0, 0, 0]);
        match &mut self.secure {
            None => {
                out.copy(&preamble.encode());
                if !payload.is_empty() {
                    out.copy(payload);
                    out.copy(&crc32c(u32::MAX, payload).to_le_bytes());
                }
            }
            Some(secure) => secure.seal(&preamble, payload, [&[]; 3], out)?,
        }
        Ok(())
    }
}

fn segment_len(len: usize) -> Result<u32, Misuse> {
    u32::try_from(len).map_err(|_| Misuse::TooLong { len: len as u64, max: u32::MAX.into() })
}

fn seal_message_crc(
    preamble: &Preamble,
    header: &[u8; HEADER_LEN],
    fields: [&Bytes; 2],
    data: &[Bytes],
    data_crc: Option<u32>,
    out: &mut OutBuf,
) {
    const HEADER_END: usize = Preamble::LEN + HEADER_LEN;
    let mut start = [0; HEADER_END + CRC_LEN];
    start[..Preamble::LEN].copy_from_slice(&preamble.encode());
    start[Preamble::LEN..HEADER_END].copy_from_slice(header);
    start[HEADER_END..].copy_from_slice(&crc32c(u32::MAX, header).to_le_bytes());
    out.copy(&start);
    if preamble.segments == 1 {
        return;
    }
    let mut epilogue = [0; EPILOGUE_CRC_LEN];
    epilogue[0] = STATUS_COMPLETE;
    // The checksums of segments that the preamble leaves out are zero, as in stock frames.
    for (i, field) in fields.into_iter().enumerate().take(usize::from(preamble.segments) - 1) {
        append(field, out);
        epilogue[crc_at(i)..crc_at(i + 1)].copy_from_slice(&crc32c(u32::MAX, field).to_le_bytes());
    }
    if usize::from(preamble.segments) < SEGMENTS_MAX {
        return out.copy(&epilogue);
    }
    let data_at = crc_at(fields.len());
    if data_crc.is_none() && preamble.len(SEGMENTS_MAX - 1) >= SUM_LATE_MIN {
        return out.push_summed_late(data, &epilogue, data_at);
    }
    let sum = || data.iter().fold(u32::MAX, |crc, buf| crc32c(crc, buf));
    debug_assert!(data_crc.is_none_or(|crc| crc == sum()), "a message's data differs from its checksum");
    data.iter().for_each(|buf| append(buf, out));
    epilogue[data_at..].copy_from_slice(&data_crc.unwrap_or_else(sum).to_le_bytes());
    out.copy(&epilogue);
}

/// Appends a frame with any segments.
fn seal_crc(preamble: &Preamble, segments: &[Bytes; SEGMENTS_MAX], out: &mut OutBuf) {
    out.copy(&preamble.encode());
    let [first, others @ ..] = segments;
    if !first.is_empty() {
        append(first, out);
        out.copy(&crc32c(u32::MAX, first).to_le_bytes());
    }
    if preamble.segments == 1 {
        return;
    }
    let mut epilogue = [0; EPILOGUE_CRC_LEN];
    epilogue[0] = STATUS_COMPLETE;
    for (i, segment) in others.iter().enumerate().take(usize::from(preamble.segments) - 1) {
        append(segment, out);
        epilogue[crc_at(i)..crc_at(i + 1)].copy_from_slice(&crc32c(u32::MAX, segment).to_le_bytes());
    }
    out.copy(&epilogue);
}

/// The offset in the epilogue of the checksum of segment `i + 1`.
const fn crc_at(i: usize) -> usize {
    1 + CRC_LEN * i
}

/// Appends a buffer, copied if it is short.
pub(crate) fn append(buf: &Bytes, out: &mut OutBuf) {
    if buf.len() <= COPY_LEN_MAX { out.copy(buf) } else { out.push(buf.clone()) }
}

/// The state of sealing in secure mode.
#[derive(Debug)]
struct Secure {
    gcm: Gcm,
    spares: Spares,
}

impl Secure {
    /// Seals a frame: segment 0 is `first`, and each of `parts` is one of the other segments.
    fn seal(
        &mut self,
        preamble: &Preamble,
        first: &[u8],
        parts: [&[Bytes]; SEGMENTS_MAX - 1],
        out: &mut OutBuf,
    ) -> Result<(), CryptoError> {
        let gcm = &mut self.gcm;
        let len = secure_frame_len(preamble);
        if len <= SECURE_INLINE_LEN_MAX {
            return out.append_with(|small| {
                let start = small.len();
                fill_secure(gcm, preamble, first, parts, small).inspect_err(|_| small.truncate(start))
            });
        }
        if let [one] = parts[SEGMENTS_MAX - 2]
            && one.len() >= APART_MIN
        {
            return self.seal_apart(preamble, first, parts, one, out);
        }
        let mut own = Vec::with_capacity(len);
        fill_secure(gcm, preamble, first, parts, &mut own)?;
        out.push(own.into());
        Ok(())
    }

    /// Seals a frame with long data, which is encrypted from its place. Copying it first would cost as
    /// much as the cipher.
    fn seal_apart(
        &mut self,
        preamble: &Preamble,
        first: &[u8],
        parts: [&[Bytes]; SEGMENTS_MAX - 1],
        data: &Bytes,
        out: &mut OutBuf,
    ) -> Result<(), CryptoError> {
        let mut head = Vec::new();
        fill_secure_head(&mut self.gcm, preamble, first, &mut head)?;
        let front_len: usize = (1..SEGMENTS_MAX - 1).map(|i| padded(preamble.len(i))).sum();
        let len = front_len + padded(data.len()) + EPILOGUE_SECURE_LEN + TAG_LEN;
        let mut buf = self.spares.take(len);
        let mut at = 0;
        for (i, part) in parts[..SEGMENTS_MAX - 2].iter().enumerate() {
            let end = at + padded(preamble.len(i + 1));
            for bytes in *part {
                buf[at..at + bytes.len()].copy_from_slice(bytes);
                at += bytes.len();
            }
            buf[at..end].fill(0);
            at = end;
        }
        let mut epilogue = [0; EPILOGUE_SECURE_LEN];
        epilogue[0] = STATUS_COMPLETE;
        self.gcm.encrypt_apart(front_len, data, &epilogue, &mut buf[..len])?;
        out.copy(&head);
        out.push(self.spares.keep(buf).slice(..len));
        Ok(())
    }
}

/// Reusable buffers: a new one would be filled with zeros first, which costs as much as the copy that
/// the buffers save.
#[derive(Debug, Default)]
struct Spares {
    /// Whole buffers; a part of each may still wait to be written.
    all: Vec<Bytes>,
    is_used: bool,
}

/// The maximum number of spare buffers: the frames of a batch are written together.
const SPARES_MAX: usize = 4;

/// Longer buffers are not kept: long data is usually an object of 4 MiB.
const SPARE_LEN_MAX: usize = 8 << 20;

/// Lengths are multiples of this, so that a buffer fits frames of slightly different lengths.
const SPARE_UNIT: usize = 64 << 10;

impl Spares {
    /// Returns a buffer of at least `len` bytes with arbitrary contents.
    fn take(&mut self, len: usize) -> BytesMut {
        self.is_used = true;
        let fits = |spare: &Bytes| spare.len() >= len && spare.is_unique();
        let found = self.all.iter().position(fits).map(|at| self.all.remove(at));
        // The conversion succeeds: the buffer was just found to be unique.
        let found = found.and_then(|spare| spare.try_into_mut().ok());
        found.unwrap_or_else(|| BytesMut::zeroed(len.next_multiple_of(SPARE_UNIT)))
    }

    /// Freezes a buffer to be written, and keeps it for reuse; if there are too many, the oldest one is
    /// dropped.
    fn keep(&mut self, buf: BytesMut) -> Bytes {
        let buf = buf.freeze();
        if buf.len() <= SPARE_LEN_MAX {
            self.all.truncate(SPARES_MAX - 1);
            self.all.insert(0, buf.clone());
        }
        buf
    }

    /// Must be called periodically: drops the buffers if none was taken since the last call.
    fn age(&mut self) {
        if !std::mem::take(&mut self.is_used) {
            self.all.clear();
        }
    }
}

fn secure_frame_len(preamble: &Preamble) -> usize {
    let first = padded(preamble.len(0)).max(INLINE_LEN) + 2 * TAG_LEN;
    let others: usize = (1..SEGMENTS_MAX).map(|i| padded(preamble.len(i))).sum();
    Preamble::LEN + first + others + EPILOGUE_SECURE_LEN + TAG_LEN
}

fn fill_secure(
    gcm: &mut Gcm,
    preamble: &Preamble,
    first: &[u8],
    parts: [&[Bytes]; SEGMENTS_MAX - 1],
    to: &mut Vec<u8>,
) -> Result<(), CryptoError> {
    to.reserve(secure_frame_len(preamble));
    fill_secure_head(gcm, preamble, first, to)?;
    if preamble.segments == 1 {
        return Ok(());
    }
    let start = to.len();
    for part in parts {
        part.iter().for_each(|buf| to.extend_from_slice(buf));
        to.resize(start + padded(to.len() - start), 0);
    }
    to.push(STATUS_COMPLETE);
    to.resize(to.len() + EPILOGUE_SECURE_LEN - 1, 0);
    encrypt_from(gcm, start, to)
}

/// Appends the preamble and segment 0, as one GCM message or two.
fn fill_secure_head(
    gcm: &mut Gcm,
    preamble: &Preamble,
    first: &[u8],
    to: &mut Vec<u8>,
) -> Result<(), CryptoError> {
    let (inlined, rest) = first.split_at(first.len().min(INLINE_LEN));
    let start = to.len();
    to.extend_from_slice(&preamble.encode());
    to.extend_from_slice(inlined);
    to.resize(start + Preamble::LEN + INLINE_LEN, 0);
    encrypt_from(gcm, start, to)?;
    if !rest.is_empty() {
        let start = to.len();
        to.extend_from_slice(rest);
        to.resize(start + padded(rest.len()), 0);
        encrypt_from(gcm, start, to)?;
    }
    Ok(())
}

/// Encrypts the bytes of `to` from `start` on, and appends the tag.
fn encrypt_from(gcm: &mut Gcm, start: usize, to: &mut Vec<u8>) -> Result<(), CryptoError> {
    let tag = gcm.encrypt(&mut to[start..])?;
    to.extend_from_slice(&tag);
    Ok(())
}
