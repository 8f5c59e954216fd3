//! Decompression in steps: the memory that the next step uses is known before it is allocated.
//!
//! | method | the decompressed length is known from | decompressed bytes per byte, at most |
//! |---|---|---|
//! | snappy | the beginning | 32: the longest copy takes 3 bytes for 64 |
//! | zlib | the end only: the buffer is doubled as it fills | 1032: a match takes two bits for 258 |
//! | zstd | the beginning | 32,768: a block takes 4 bytes for 128 KiB |
//! | lz4 | the beginning | 256: lengths grow by 255 with each byte |
//!
//! A claim above these ratios cannot come from a valid sender, and is refused before memory is
//! allocated.

use std::fmt;
use std::io;

use az::SaturatingAs as _;
use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};
use loligo_wire::Reader;
use zstd::stream::raw::{Decoder, InBuffer, Operation as _, OutBuffer};

use crate::{Method, Misbehaviour};

/// The most bytes that one step produces, for methods that can be interrupted.
const STEP_MAX: usize = 4 << 20;
/// The first buffer size for a method that does not state the decompressed length.
const ROOM_MIN: usize = 64 << 10;
/// How far back a zstd frame may refer, as a power of two in bytes: enough for all levels but the three
/// slowest. A decoder allocates that much memory for a frame that claims it.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

impl Method {
    /// An upper bound of the bytes that one compressed byte can represent.
    const fn ratio_max(self) -> u64 {
        match self {
            Self::Snappy => 32,
            Self::Zlib => 1032,
            Self::Zstd => 32_768,
            Self::Lz4 => 256,
        }
    }
}

/// A segment that is being decompressed.
pub(crate) struct Inflater {
    method: Method,
    work: Work,
    packed_len: usize,
    max: usize,
    /// The decompressed length; for zlib, its upper bound.
    len: usize,
    /// Compressed bytes consumed so far.
    read: usize,
    /// Bytes produced so far.
    made: usize,
    plain: Vec<u8>,
}

enum Work {
    /// Decompressed in one step.
    Whole,
    Deflate(Box<Decompress>),
    Zstd(Box<Decoder<'static>>),
    Done,
}

impl Inflater {
    /// Begins with a segment that may be decompressed to at most `max` bytes.
    pub(crate) fn new(method: Method, packed: &[u8], max: usize) -> Result<Self, Misbehaviour> {
        let refused = Misbehaviour::Compressed { method, len: packed.len(), max };
        let (len, read, work) = begin(method, packed, max).ok_or(refused)?;
        Ok(Self { method, work, packed_len: packed.len(), max, len, read, made: 0, plain: Vec::new() })
    }

    /// Bytes of memory used after the next step.
    pub(crate) fn next_len(&self) -> usize {
        self.with_window(self.room())
    }

    /// An upper bound of the bytes of memory used at the end.
    pub(crate) fn whole_len(&self) -> usize {
        self.with_window(self.len)
    }

    /// Adds the zstd decoder's copy of the window that may be referred to.
    fn with_window(&self, room: usize) -> usize {
        match self.work {
            Work::Zstd(_) => room + room.min(1 << ZSTD_WINDOW_LOG_MAX),
            _ => room,
        }
    }

    /// The length of `plain` in the next step. If only the bytes show where the end is, one more than
    /// the decompressed length.
    fn room(&self) -> usize {
        match self.work {
            Work::Done | Work::Whole => self.len,
            Work::Zstd(_) => self.len + 1,
            Work::Deflate(_) if self.made < self.plain.len() => self.plain.len(),
            Work::Deflate(_) => (2 * self.plain.len()).max(ROOM_MIN).min(self.len + 1),
        }
    }

    /// Performs one step, within [`Inflater::next_len`]; `packed` is the same segment as in `new`.
    /// Returns the bytes once they are complete.
    pub(crate) fn step(&mut self, packed: &[u8]) -> Result<Option<Bytes>, Misbehaviour> {
        self.try_step(packed).ok_or(Misbehaviour::Compressed {
            method: self.method,
            len: self.packed_len,
            max: self.max,
        })
    }

    fn try_step(&mut self, packed: &[u8]) -> Option<Option<Bytes>> {
        let room = self.room();
        if matches!(self.work, Work::Whole) {
            self.work = Work::Done;
            return match self.method {
                Method::Snappy => snap::raw::Decoder::new().decompress_vec(packed).ok(),
                _ => unpack_lz4(packed, self.len),
            }
            .map(|plain| Some(plain.into()));
        }
        if self.plain.is_empty() {
            // Zeroed memory that has not been touched is not resident yet.
            self.plain = vec![0; room];
        } else {
            self.plain.resize(room, 0);
        }
        let end = room.min(self.made + STEP_MAX);
        let target = &mut self.plain[self.made..end];
        let (read, made, ended) = match &mut self.work {
            Work::Deflate(inflate) => deflate(inflate, &packed[self.read..], target).ok()?,
            Work::Zstd(decoder) => unzstd(decoder, &packed[self.read..], target).ok()?,
            Work::Whole | Work::Done => return None,
        };
        self.read += read;
        self.made += made;
        if self.made > self.len || (!ended && (read, made) == (0, 0)) {
            return None;
        }
        if !ended {
            return Some(None);
        }
        let says_len = self.method == Method::Zstd;
        if says_len && self.made != self.len {
            return None;
        }
        self.work = Work::Done;
        let mut plain = std::mem::take(&mut self.plain);
        plain.truncate(self.made);
        Some(Some(plain.into()))
    }
}

/// The decompressed length (or its upper bound), the offset of the compressed bytes, and the decoder.
fn begin(method: Method, packed: &[u8], max: usize) -> Option<(usize, usize, Work)> {
    let most = packed.len() as u64 * method.ratio_max();
    let (len, read, work) = match method {
        Method::Snappy => (snap::raw::decompress_len(packed).ok()? as u64, 0, Work::Whole),
        Method::Zlib => {
            packed.first()?;
            (most.min(max as u64), 1, Work::Deflate(Box::new(Decompress::new(false))))
        }
        Method::Zstd => {
            let (len, _) = packed.split_first_chunk()?;
            let mut decoder = Decoder::new().ok()?;
            let window = zstd::zstd_safe::DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX);
            decoder.set_parameter(window).ok()?;
            (u64::from(u32::from_le_bytes(*len)), len.len(), Work::Zstd(Box::new(decoder)))
        }
        Method::Lz4 => (lz4_len(packed)?, 0, Work::Whole),
    };
    let len = usize::try_from(len).ok().filter(|len| *len <= max && *len as u64 <= most)?;
    Some((len, read, work))
}

fn deflate(inflate: &mut Decompress, packed: &[u8], target: &mut [u8]) -> io::Result<(usize, usize, bool)> {
    let before = (inflate.total_in(), inflate.total_out());
    let status = inflate.decompress(packed, target, FlushDecompress::None)?;
    // Both fit `usize`: they are lengths of parts of slices.
    let read = (inflate.total_in() - before.0).saturating_as::<usize>();
    let made = (inflate.total_out() - before.1).saturating_as::<usize>();
    Ok((read, made, status == Status::StreamEnd))
}

fn unzstd(decoder: &mut Decoder<'_>, packed: &[u8], target: &mut [u8]) -> io::Result<(usize, usize, bool)> {
    let mut from = InBuffer::around(packed);
    let mut to = OutBuffer::around(target);
    let missing = decoder.run(&mut from, &mut to)?;
    Ok((from.pos(), to.pos(), missing == 0))
}

/// The sum of the blocks' decompressed lengths, if each length is possible.
fn lz4_len(packed: &[u8]) -> Option<u64> {
    let lens: Vec<(u32, u32)> = Reader::new(packed).get().ok()?;
    let can =
        |(plain, packed): &(u32, u32)| u64::from(*plain) <= u64::from(*packed) * Method::Lz4.ratio_max();
    let packed_total: u64 = lens.iter().map(|(_, packed)| u64::from(*packed)).sum();
    let all_can = lens.iter().all(can) && packed_total <= packed.len() as u64;
    all_can.then(|| lens.iter().map(|(plain, _)| u64::from(*plain)).sum())
}

fn unpack_lz4(packed: &[u8], total: usize) -> Option<Vec<u8>> {
    let mut r = Reader::new(packed);
    let lens: Vec<(u32, u32)> = r.get().ok()?;
    let mut plain = vec![0; total];
    let mut at = 0;
    for (len, packed_len) in lens {
        let block = r.raw(packed_len as usize).ok()?;
        let (before, rest) = plain.split_at_mut(at);
        let target = rest.get_mut(..len as usize)?;
        let made = lz4_flex::block::decompress_into_with_dict(block, target, before).ok()?;
        if made != target.len() {
            return None;
        }
        at += made;
    }
    Some(plain)
}

impl fmt::Debug for Inflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, read, made, len, .. } = self;
        write!(f, "Inflater({method:?}, {read} read, {made} of {len} made)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::compress;

    /// Zeros, which compress best, are accepted with every method.
    #[test]
    fn the_most_that_a_sender_makes_is_taken() {
        let plain = vec![0; 8 << 20];
        for method in Method::ALL {
            let packed = compress(method, &plain).expect("it can be");
            let mut inflater = Inflater::new(method, &packed, plain.len()).expect("it is good");
            let (mut steps, mut before) = (0, 0);
            let got = loop {
                let next = inflater.next_len();
                assert!(before <= next && next <= inflater.whole_len() + 2, "{inflater:?}: {next}");
                before = next;
                steps += 1;
                if let Some(got) = inflater.step(&packed).expect("it is good") {
                    break got;
                }
                assert!(inflater.plain.len() <= next);
            };
            assert!(got == plain, "{method:?}");
            let stops = matches!(method, Method::Zlib | Method::Zstd);
            assert_eq!(steps > 1, stops, "{method:?}: {steps} steps");
        }
    }

    #[test]
    fn claims_beyond_what_a_format_can_are_refused_at_once() {
        let beyond = |method: Method, packed: &[u8]| Inflater::new(method, packed, usize::MAX >> 1).is_err();
        let mut zstd = compress(Method::Zstd, &[0; 100]).expect("it can be");
        let most = u32::try_from(zstd.len() as u64 * Method::Zstd.ratio_max()).expect("short");
        zstd[..4].copy_from_slice(&(most + 1).to_le_bytes());
        assert!(beyond(Method::Zstd, &zstd));
        zstd[..4].copy_from_slice(&most.to_le_bytes());
        assert!(!beyond(Method::Zstd, &zstd));
        assert!(beyond(Method::Snappy, &[0x80, 0x80, 0x80, 0x80, 0x01, 0, b'x']));
        let mut inflater = Inflater::new(Method::Zstd, &zstd, usize::MAX >> 1).expect("it could be");
        assert!(inflater.step(&zstd).is_err(), "it becomes less than it says");
    }

    #[test]
    fn what_ends_too_early_is_refused() {
        for method in Method::ALL {
            let packed = compress(method, &[7; 10_000]).expect("it can be");
            let cut = &packed[..packed.len() - 1];
            let Ok(mut inflater) = Inflater::new(method, cut, 10_000) else { continue };
            let end = loop {
                match inflater.step(cut) {
                    Ok(None) => {}
                    end => break end,
                }
            };
            assert!(end.is_err(), "{method:?}");
        }
    }
}
