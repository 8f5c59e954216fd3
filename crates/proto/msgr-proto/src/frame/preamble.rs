//! A frame's preamble.

use az::SaturatingAs as _;
use loligo_wire::crc::crc32c;

use crate::tag::Tag;
use crate::{Misbehaviour, ProtoError};

/// The maximum number of segments of a frame.
pub(super) const SEGMENTS_MAX: usize = 4;

/// The flag of a frame whose segments are compressed (`FRAME_EARLY_DATA_COMPRESSED`).
pub(super) const FLAG_COMPRESSED: u8 = 1;

/// The alignments that stock peers give to segments of fields and of bulk data. They are hints for the
/// receiver's buffers; this crate sends the same ones, and only checks that received ones are powers of
/// two.
const ALIGN_FIELDS: u16 = 8;
const ALIGN_DATA: u16 = 4096;

/// The fixed start of a frame.
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 1 | tag |
/// | 1 | 1 | number of segments |
/// | 2 + 6 i | 4 | length of segment i |
/// | 6 + 6 i | 2 | alignment of segment i |
/// | 26 | 1 | flags (1: compressed) |
/// | 27 | 1 | reserved, zero |
/// | 28 | 4 | crc of the 28 bytes before |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Preamble {
    pub(super) tag: Tag,
    /// 1 to 4.
    pub(super) segments: u8,
    /// Lengths in bytes; 0 from `segments` on.
    pub(super) lens: [u32; SEGMENTS_MAX],
    /// Each segment is compressed.
    pub(super) compressed: bool,
}

impl Preamble {
    pub(super) const LEN: usize = 32;
    const FLAGS_AT: usize = 26;
    const CRC_AT: usize = 28;

    /// The preamble of a frame with segments of these lengths. Empty segments at the end are left out,
    /// as the format requires.
    pub(super) fn new(tag: Tag, lens: [u32; SEGMENTS_MAX]) -> Self {
        let segments = lens.iter().rposition(|len| *len > 0).map_or(1, |last| last.saturating_as::<u8>() + 1);
        Self { tag, segments, lens, compressed: false }
    }

    /// Marks the segments as compressed.
    pub(super) fn compressed(self) -> Self {
        Self { compressed: true, ..self }
    }

    pub(super) fn encode(&self) -> [u8; Self::LEN] {
        let mut b = [0; Self::LEN];
        b[0] = self.tag as u8;
        b[1] = self.segments;
        for (i, len) in self.lens.iter().enumerate().take(self.segments.into()) {
            let align = if i == 3 { ALIGN_DATA } else { ALIGN_FIELDS };
            b[2 + 6 * i..6 + 6 * i].copy_from_slice(&len.to_le_bytes());
            b[6 + 6 * i..8 + 6 * i].copy_from_slice(&align.to_le_bytes());
        }
        b[Self::FLAGS_AT] = if self.compressed { FLAG_COMPRESSED } else { 0 };
        let crc = crc32c(0, &b[..Self::CRC_AT]);
        b[Self::CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        b
    }

    /// Decodes a preamble and performs all checks that do not depend on the connection's state.
    pub(super) fn decode(b: &[u8; Self::LEN]) -> Result<Self, ProtoError> {
        let expected = u32::from_le_bytes([b[28], b[29], b[30], b[31]]);
        check_crc("a preamble", expected, crc32c(0, &b[..Self::CRC_AT]))?;
        let tag = Tag::from_code(b[0]).ok_or(Misbehaviour::UnknownTag(b[0]))?;
        let segments = b[1];
        if !(1..=SEGMENTS_MAX).contains(&segments.into()) {
            return Err(Misbehaviour::Segments { tag, segments }.into());
        }
        let mut lens = [0; SEGMENTS_MAX];
        for (i, len) in lens.iter_mut().enumerate().take(segments.into()) {
            let d = &b[2 + 6 * i..8 + 6 * i];
            *len = u32::from_le_bytes([d[0], d[1], d[2], d[3]]);
            let align = u16::from_le_bytes([d[4], d[5]]);
            if align & align.wrapping_sub(1) != 0 {
                return Err(Misbehaviour::Alignment(align).into());
            }
        }
        if segments > 1 && lens[usize::from(segments) - 1] == 0 {
            return Err(Misbehaviour::LastSegmentEmpty(tag).into());
        }
        let flags = b[Self::FLAGS_AT];
        if flags & !FLAG_COMPRESSED != 0 {
            return Err(Misbehaviour::Flags(flags).into());
        }
        Ok(Self { tag, segments, lens, compressed: flags == FLAG_COMPRESSED })
    }

    /// The length of segment `i`.
    pub(super) fn len(&self, i: usize) -> usize {
        self.lens[i] as usize
    }
}

/// Compares two checksums of the part `what`.
pub(super) fn check_crc(what: &'static str, expected: u32, actual: u32) -> Result<(), Misbehaviour> {
    if expected == actual { Ok(()) } else { Err(Misbehaviour::Crc { what, expected, actual }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_have_their_numbers() {
        for (i, tag) in Tag::ALL.into_iter().enumerate() {
            assert_eq!(tag as usize, i + 1);
        }
        assert_eq!(Tag::from_code(0), None);
        assert_eq!(Tag::from_code(23), None);
    }

    #[test]
    fn trailing_empty_segments_are_left_out() {
        let of = |lens| Preamble::new(Tag::Message, lens).segments;
        assert_eq!(of([0, 0, 0, 0]), 1);
        assert_eq!(of([41, 0, 0, 0]), 1);
        assert_eq!(of([41, 7, 0, 0]), 2);
        assert_eq!(of([41, 0, 0, 9]), 4);
    }

    #[test]
    fn damage_is_seen() {
        let good = Preamble::new(Tag::Message, [41, 100, 0, 4096]);
        assert_eq!(Preamble::decode(&good.encode()), Ok(good));
        for bit in 0..8 * Preamble::LEN {
            let mut bad = good.encode();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Preamble::decode(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn nonsense_with_a_right_checksum_is_refused() {
        let with = |change: fn(&mut [u8; 32])| {
            let mut b = Preamble::new(Tag::Message, [41, 100, 0, 4096]).encode();
            change(&mut b);
            let crc = crc32c(0, &b[..28]).to_le_bytes();
            b[28..].copy_from_slice(&crc);
            Preamble::decode(&b).map_err(|e| match e {
                ProtoError::Misbehaving(m) => m,
                other => panic!("{other}"),
            })
        };
        let tag = Tag::Message;
        assert_eq!(with(|b| b[0] = 99), Err(Misbehaviour::UnknownTag(99)));
        assert_eq!(with(|b| b[1] = 0), Err(Misbehaviour::Segments { tag, segments: 0 }));
        assert_eq!(with(|b| b[1] = 5), Err(Misbehaviour::Segments { tag, segments: 5 }));
        assert_eq!(with(|b| b[1] = 3), Err(Misbehaviour::LastSegmentEmpty(tag)));
        assert_eq!(with(|b| b[6] = 3), Err(Misbehaviour::Alignment(3)));
        assert_eq!(with(|b| b[26] = 2), Err(Misbehaviour::Flags(2)));
        assert!(with(|b| b[26] = 1).expect("a known flag").compressed);
    }
}
