//! Compression on the wire: its settings and negotiation, and the compression of a frame's segments.
//!
//! Both sides announce support in their banners. After authentication the client sends the methods that
//! it accepts (COMPRESSION_REQUEST), and the server chooses one or none (COMPRESSION_DONE). From then on
//! a frame may be compressed, which a flag in its preamble indicates. Each of its segments, the header
//! included, is then compressed separately; checksums, padding and encryption apply to the compressed
//! segments. Empty segments stay empty.
//!
//! The format of a compressed segment:
//!
//! - snappy: the raw format, which begins with the decompressed length
//! - zlib: a byte without meaning, then raw DEFLATE
//! - zstd: the decompressed length in 32 bits, then one frame
//! - lz4: the number of blocks in 32 bits; for each block its decompressed and its compressed length;
//!   then the blocks; each block uses the previous ones as dictionary
//!
//! A peer's claims are not trusted: a segment never becomes longer than the bound of an uncompressed
//! one, and memory is allocated only for what the format could produce from the bytes received; for
//! messages, only when the caller [allows](crate::Opener::allow) it.
//!
//! Sources: `src/msg/async/compression_onwire.cc`, `src/msg/async/frames_v2.cc`, `src/compressor/*`.

use std::io::Write;

use bytes::Bytes;
use flate2::write::DeflateEncoder;
use loligo_wire::{Decode, DecodeError, Encode, Reader, Writer};

use crate::Misbehaviour;
use crate::inflate::Inflater;
use crate::method::Method;

/// The compression that a side wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compression {
    /// Accepted methods, the best first. The client's order decides.
    pub methods: Vec<Method>,
    /// Frames with fewer bytes in total are not compressed (`ms_osd_compress_min_size`).
    pub frame_len_min: usize,
    /// Whether encrypted connections are compressed too (`ms_compress_secure`): the length of the
    /// ciphertext then reveals something about the plaintext.
    pub secure: bool,
}

impl Compression {
    /// Ceph's default of `frame_len_min`.
    pub const FRAME_LEN_MIN: usize = 1024;
}

/// COMPRESSION_REQUEST.
#[derive(Clone, Debug)]
pub(crate) struct CompressionRequest {
    pub(crate) wanted: bool,
    pub(crate) methods: Vec<u32>,
}

impl Encode for CompressionRequest {
    fn encode(&self, w: &mut Writer) {
        w.bool(self.wanted);
        w.put(&self.methods);
    }
}

impl Decode for CompressionRequest {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { wanted: r.bool()?, methods: r.get()? })
    }
}

/// COMPRESSION_DONE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompressionDone {
    pub(crate) wanted: bool,
    /// 0: none.
    pub(crate) method: u32,
}

impl Encode for CompressionDone {
    fn encode(&self, w: &mut Writer) {
        w.bool(self.wanted);
        w.u32(self.method);
    }
}

impl Decode for CompressionDone {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { wanted: r.bool()?, method: r.u32()? })
    }
}

/// The default levels of stock Ceph (`compressor_zlib_level`, `compressor_zstd_level`).
const ZLIB_LEVEL: u32 = 5;
const ZSTD_LEVEL: i32 = 1;
/// The byte in front of a DEFLATE stream: it identifies the compressor and is ignored by readers.
const ZLIB_MARK: u8 = 0;

/// Compresses a segment; `None` if that is impossible, and the frame is sent uncompressed.
pub(crate) fn compress(method: Method, plain: &[u8]) -> Option<Vec<u8>> {
    if plain.is_empty() {
        return Some(Vec::new());
    }
    let len = u32::try_from(plain.len()).ok()?;
    match method {
        Method::Snappy => snap::raw::Encoder::new().compress_vec(plain).ok(),
        Method::Zlib => {
            let out = Vec::from([ZLIB_MARK]);
            let mut encoder = DeflateEncoder::new(out, flate2::Compression::new(ZLIB_LEVEL));
            encoder.write_all(plain).ok()?;
            encoder.finish().ok()
        }
        Method::Zstd => {
            let frame = zstd::bulk::compress(plain, ZSTD_LEVEL).ok()?;
            Some([&len.to_le_bytes()[..], &frame].concat())
        }
        Method::Lz4 => {
            let block = lz4_flex::block::compress(plain);
            let mut w = Writer::with_capacity(12 + block.len());
            w.u32(1);
            w.u32(len);
            w.u32(u32::try_from(block.len()).ok()?);
            w.raw(&block);
            Some(w.into_bytes().into())
        }
    }
}

/// An upper bound of the compressed form of a segment of `len` bytes that is incompressible.
pub(crate) fn len_max(len: u32) -> u32 {
    (len / 4).saturating_add(len).saturating_add(1024)
}

/// Decompresses a segment to at most `max` bytes.
pub(crate) fn decompress(method: Method, packed: &[u8], max: usize) -> Result<Bytes, Misbehaviour> {
    if packed.is_empty() {
        return Ok(Bytes::new());
    }
    let mut inflater = Inflater::new(method, packed, max)?;
    loop {
        if let Some(plain) = inflater.step(packed)? {
            return Ok(plain);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAX: usize = 1 << 20;

    fn text(len: usize) -> Vec<u8> {
        b"what is said again and again ".iter().copied().cycle().take(len).collect()
    }

    #[test]
    fn what_repeats_gets_shorter_and_comes_back() {
        for method in Method::ALL {
            for len in [1, 41, 4096, 300_000, MAX] {
                let plain = text(len);
                let packed = compress(method, &plain).expect("it can be");
                assert!(packed.len() <= len_max(len as u32) as usize);
                assert!(len < 4096 || packed.len() < len / 8, "{method:?}: {len} became {}", packed.len());
                assert_eq!(decompress(method, &packed, MAX).expect("it is good"), plain, "{method:?}");
            }
            assert_eq!(compress(method, &[]), Some(Vec::new()));
            assert_eq!(decompress(method, &[], 0), Ok(Bytes::new()));
        }
    }

    #[test]
    fn nothing_becomes_longer_than_its_bound() {
        for method in Method::ALL {
            let packed = compress(method, &text(5000)).expect("it can be");
            assert!(decompress(method, &packed, 5000).is_ok());
            assert!(decompress(method, &packed, 4999).is_err(), "{method:?}");
        }
    }

    /// Claims of gigabytes in a few bytes are refused, and no memory is allocated for them.
    #[test]
    fn claims_are_not_believed() {
        let huge = usize::MAX >> 1;
        let snappy = [0xff, 0xff, 0xff, 0xff, 0x0f, 0, b'x'];
        assert!(decompress(Method::Snappy, &snappy, huge).is_err());
        let mut zstd = compress(Method::Zstd, &text(5000)).expect("it can be");
        zstd[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(decompress(Method::Zstd, &zstd, huge).is_err());
        let block = |count: u32, plain: u32, packed: u32| {
            [count, plain, packed]
                .map(u32::to_le_bytes)
                .concat()
                .into_iter()
                .chain([0; 8])
                .collect::<Vec<_>>()
        };
        assert!(decompress(Method::Lz4, &block(1, u32::MAX, 8), huge).is_err());
        assert!(decompress(Method::Lz4, &block(1, u32::MAX, u32::MAX), huge).is_err());
        assert!(decompress(Method::Lz4, &block(u32::MAX, 1, 1), huge).is_err());
    }

    /// Stock programs compress each buffer of a list separately, with the previous ones as dictionary.
    #[test]
    fn lz4_blocks_refer_to_those_before() {
        let parts = [text(1000), text(2000), text(70_000)];
        let mut all = Vec::new();
        let (mut lens, mut blocks) = (Vec::new(), Vec::new());
        for part in &parts {
            let block = lz4_flex::block::compress_with_dict(part, &all);
            lens.push((part.len() as u32, block.len() as u32));
            blocks.extend_from_slice(&block);
            all.extend_from_slice(part);
        }
        let mut w = Writer::new();
        w.put(&lens);
        w.raw(&blocks);
        assert_eq!(decompress(Method::Lz4, w.as_slice(), MAX).expect("it is good"), all);
    }

    #[test]
    fn methods_have_names_and_numbers() {
        for method in Method::ALL {
            assert_eq!(Method::by_name(method.name()), Some(method));
            assert_eq!(Method::from_code(method.code()), Some(method));
        }
        assert_eq!(
            (Method::by_name("brotli"), Method::from_code(0), Method::from_code(5)),
            (None, None, None)
        );
    }

    proptest! {
        /// Noise and damaged segments yield an error or no more bytes than allowed.
        #[test]
        fn damage_does_no_harm(
            method in prop::sample::select(&Method::ALL[..]),
            noise in prop::collection::vec(any::<u8>(), 1..200),
            at in any::<prop::sample::Index>(),
            max in 0..10_000_usize,
        ) {
            let mut packed = compress(method, &text(3000)).expect("it can be");
            let at = at.index(packed.len());
            let end = packed.len().min(at + noise.len());
            packed[at..end].copy_from_slice(&noise[..end - at]);
            for bytes in [&packed, &noise] {
                if let Ok(plain) = decompress(method, bytes, max) {
                    prop_assert!(plain.len() <= max);
                }
            }
        }

        #[test]
        fn anything_comes_back(
            method in prop::sample::select(&Method::ALL[..]),
            plain in prop::collection::vec(any::<u8>(), 0..5000),
        ) {
            let packed = compress(method, &plain).expect("it can be");
            prop_assert!(packed.len() <= len_max(plain.len() as u32) as usize);
            prop_assert_eq!(decompress(method, &packed, plain.len()).expect("it is good"), plain);
        }
    }
}
