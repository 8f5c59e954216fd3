//! CHECKSUM: computes checksums of parts of an object at the OSD.

use az::SaturatingAs as _;
use bytes::Bytes;
use loligo_wire::crc::crc32c;
use loligo_wire::message::osd::{ChecksumArgs, OsdOp};
use loligo_wire::{Errno, Reader, Writer};
use xxhash_rust::{xxh32::xxh32, xxh64::xxh64};

use super::execution::{DONE, Execution, Output};

/// The cost of a checksum beside its input bytes.
const SUM_COST: u64 = 32;

impl Execution<'_> {
    pub(super) fn checksum(&mut self, op: &OsdOp) -> Output {
        let args = op.checksum_args();
        let chunk = u64::from(args.chunk_size);
        if chunk > 0 && (args.length == 0 || !args.length.is_multiple_of(chunk)) {
            return Err(Errno::EINVAL);
        }
        let mut len = args.length;
        if args.offset == 0 && args.length == 0 {
            len = self.size;
        } else if args.offset >= self.size {
            return DONE; // without an output
        } else if args.offset.saturating_add(args.length) > self.size {
            len = self.size - args.offset;
            if chunk > 0 && !len.is_multiple_of(chunk) {
                return Err(Errno::EINVAL);
            }
        }
        // With many small parts the checksums themselves are the cost.
        self.context.spend(len.checked_div(chunk).unwrap_or(1).saturating_mul(SUM_COST))?;
        let sum = sum_of(args.kind, &mut Reader::new(&op.data))?;
        let data = if len > 0 {
            self.stored()?;
            self.bytes(args.offset, len)?
        } else {
            Bytes::new()
        };
        if data.len() as u64 != len {
            return Err(Errno::EINVAL); // the request has changed the size, and reads see the old one
        }
        let chunk = (if chunk > 0 { chunk } else { len.max(1) }).saturating_as::<usize>();
        let mut w = Writer::new();
        w.count(data.len() / chunk);
        data.chunks_exact(chunk).for_each(|part| sum(part, &mut w));
        Ok((0, w.into_bytes()))
    }
}

/// Appends the checksum of some bytes.
type Sum = Box<dyn Fn(&[u8], &mut Writer)>;

/// Returns a function that appends checksums, seeded with the value from the request.
fn sum_of(kind: u8, seed: &mut Reader<'_>) -> Result<Sum, Errno> {
    Ok(match kind {
        ChecksumArgs::XXHASH32 => {
            let seed = seed.u32()?;
            Box::new(move |data, w| w.u32(xxh32(data, seed)))
        }
        ChecksumArgs::XXHASH64 => {
            let seed = seed.u64()?;
            Box::new(move |data, w| w.u64(xxh64(data, seed)))
        }
        ChecksumArgs::CRC32C => {
            let seed = seed.u32()?;
            Box::new(move |data, w| w.u32(crc32c(seed, data)))
        }
        _ => return Err(Errno::EINVAL),
    })
}
