//! The format of `rados export`: a sequence of sections (src/tools/RadosDump.h in Ceph's repository).
//!
//! A file begins with 16 bytes: magic, version, the lengths of a section's header and footer. A section
//! has a header with its type and length, its bytes, and a footer. A section without bytes has no
//! footer. The input is untrusted: memory is allocated only for bytes that were read.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use bytes::Bytes;
use loligo_wire::message::osd::HObject;
use loligo_wire::{DecodeError, Reader, SnapId, Writer};

const MAGIC: u32 = 0xffce_ffce;
const END_MAGIC: u32 = 0xecff_ffce;
const VERSION: u32 = 2;
/// Length of a section's header; the next constant is that of its footer.
const HEADER_LEN: usize = 18;
const FOOTER_LEN: usize = 10;
/// Maximum length of a header or footer of another version.
const EDGE_MAX: u32 = 4096;

/// The content of a section.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Section {
    PoolBegin,
    PoolEnd,
    /// Begins an object.
    Object(HObject),
    Data {
        offset: u64,
        bytes: Bytes,
    },
    /// Names have the underscore that stores put before users' names.
    Xattrs(BTreeMap<Bytes, Bytes>),
    OmapHeader(Bytes),
    Omap(BTreeMap<Bytes, Bytes>),
    ObjectEnd,
    /// A section type that import ignores.
    Other(u8),
}

/// Section types.
mod kind {
    pub(super) const OBJECT_BEGIN: u8 = 3;
    pub(super) const OBJECT_END: u8 = 4;
    pub(super) const DATA: u8 = 5;
    pub(super) const ATTRS: u8 = 6;
    pub(super) const OMAP_HDR: u8 = 7;
    pub(super) const OMAP: u8 = 8;
    pub(super) const POOL_BEGIN: u8 = 10;
    pub(super) const POOL_END: u8 = 11;
}

/// Reasons why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DumpError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("section {number}: {source}")]
    Decode { number: u64, source: DecodeError },
    #[error("it ends in the midst of section {0}")]
    Short(u64),
    #[error("it is no export: it begins with {0:#010x}")]
    Magic(u32),
    #[error("its version is {0}, and 2 is the newest that is known")]
    Version(u32),
    #[error("section {0} does not end as sections do")]
    Footer(u64),
}

/// Writes an export.
pub(crate) struct DumpWriter<W>(W);

impl<W: Write> DumpWriter<W> {
    pub(crate) fn new(mut out: W) -> io::Result<Self> {
        let mut w = Writer::with_capacity(16);
        w.u32(MAGIC);
        w.u32(VERSION);
        w.u32(HEADER_LEN as u32);
        w.u32(FOOTER_LEN as u32);
        out.write_all(w.as_slice())?;
        Ok(Self(out))
    }

    pub(crate) fn write(&mut self, section: &Section) -> io::Result<()> {
        let mut w = Writer::with_capacity(256);
        let kind = match section {
            Section::PoolBegin => kind::POOL_BEGIN,
            Section::PoolEnd => kind::POOL_END,
            Section::ObjectEnd => kind::OBJECT_END,
            Section::Other(kind) => *kind,
            Section::Object(object) => {
                // Written as version 2. Version 3 adds a store's own data about the object, which
                // importers ignore.
                w.versioned(2, 1, |w| {
                    w.put(object);
                    w.u64(u64::MAX);
                    w.u8(u8::MAX);
                });
                kind::OBJECT_BEGIN
            }
            Section::Data { offset, bytes } => {
                w.versioned(1, 1, |w| {
                    w.u64(*offset);
                    w.u64(bytes.len() as u64);
                    w.blob(bytes);
                });
                kind::DATA
            }
            Section::Xattrs(pairs) => {
                w.versioned(1, 1, |w| w.put(pairs));
                kind::ATTRS
            }
            Section::OmapHeader(header) => {
                w.versioned(1, 1, |w| w.blob(header));
                kind::OMAP_HDR
            }
            Section::Omap(pairs) => {
                w.versioned(1, 1, |w| w.put(pairs));
                kind::OMAP
            }
        };
        let mut header = Writer::with_capacity(HEADER_LEN);
        header.versioned(1, 1, |header| {
            header.u32(u32::from(kind) << 24 | u32::from(kind) << 16 | MAGIC & 0xffff);
            header.i64(w.len() as i64);
        });
        self.0.write_all(header.as_slice())?;
        if !w.is_empty() {
            let mut footer = Writer::with_capacity(FOOTER_LEN);
            footer.versioned(1, 1, |footer| footer.u32(END_MAGIC));
            self.0.write_all(w.as_slice())?;
            self.0.write_all(footer.as_slice())?;
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Reads an export.
pub(crate) struct DumpReader<R> {
    from: R,
    header_len: u32,
    footer_len: u32,
    /// Number of sections read.
    number: u64,
}

impl<R: Read> DumpReader<R> {
    pub(crate) fn new(mut from: R) -> Result<Self, DumpError> {
        let bytes = take(&mut from, 16)?.ok_or(DumpError::Short(0))?;
        let mut r = Reader::new(&bytes);
        let mut next = || r.u32().map_err(|source| DumpError::Decode { number: 0, source });
        let (magic, version, header_len, footer_len) = (next()?, next()?, next()?, next()?);
        if magic != MAGIC {
            return Err(DumpError::Magic(magic));
        }
        if version > VERSION {
            return Err(DumpError::Version(version));
        }
        if header_len.max(footer_len) > EDGE_MAX {
            return Err(DumpError::Footer(0));
        }
        Ok(Self { from, header_len, footer_len, number: 0 })
    }

    pub(crate) fn read(&mut self) -> Result<Section, DumpError> {
        self.number += 1;
        let number = self.number;
        let failed = |source| DumpError::Decode { number, source };
        let header = self.take(u64::from(self.header_len))?;
        let (kind, len) = Reader::new(&header)
            .versioned("header", 1, 1, |r, _| Ok(((r.u32()? >> 24) as u8, r.i64()?)))
            .map_err(failed)?;
        let len = u64::try_from(len).map_err(|_| DumpError::Footer(number))?;
        let bytes = self.take(len)?;
        if len > 0 {
            let footer = self.take(u64::from(self.footer_len))?;
            let magic = Reader::new(&footer).versioned("footer", 1, 1, |r, _| r.u32()).map_err(failed)?;
            if magic != END_MAGIC {
                return Err(DumpError::Footer(number));
            }
        }
        section(kind, &bytes).map_err(failed)
    }

    fn take(&mut self, len: u64) -> Result<Bytes, DumpError> {
        take(&mut self.from, len)?.ok_or(DumpError::Short(self.number))
    }
}

/// Reads `len` bytes; returns `None` if fewer remain.
fn take(from: &mut impl Read, len: u64) -> io::Result<Option<Bytes>> {
    let mut bytes = Vec::new();
    from.take(len).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 == len).then(|| bytes.into()))
}

fn section(kind: u8, bytes: &Bytes) -> Result<Section, DecodeError> {
    let mut r = Reader::new(bytes);
    let slice = |part: &[u8]| bytes.slice_ref(part);
    let pairs = |r: &mut Reader<'_>| {
        let count = r.count(8)?;
        (0..count).map(|_| Ok((slice(r.blob()?), slice(r.blob()?)))).collect()
    };
    Ok(match kind {
        kind::POOL_BEGIN => Section::PoolBegin,
        kind::POOL_END => Section::PoolEnd,
        kind::OBJECT_BEGIN => Section::Object(r.versioned("object_begin", 1, 3, |r, _| r.get())?),
        kind::OBJECT_END => Section::ObjectEnd,
        kind::DATA => r.versioned("data_section", 1, 1, |r, _| {
            let (offset, _) = (r.u64()?, r.u64()?);
            Ok(Section::Data { offset, bytes: slice(r.blob()?) })
        })?,
        kind::ATTRS => Section::Xattrs(r.versioned("attr_section", 1, 1, |r, _| pairs(r))?),
        kind::OMAP_HDR => {
            Section::OmapHeader(r.versioned("omap_hdr_section", 1, 1, |r, _| Ok(slice(r.blob()?)))?)
        }
        kind::OMAP => Section::Omap(r.versioned("omap_section", 1, 1, |r, _| pairs(r))?),
        kind => Section::Other(kind),
    })
}

/// Returns the name of an object in an export.
pub(crate) fn head_of(nspace: &[u8], name: &[u8], key: &[u8]) -> HObject {
    let (nspace, oid, key) = (nspace.to_vec(), name.to_vec(), key.to_vec());
    HObject { key, oid, snap: SnapId::HEAD, hash: 0, max: false, nspace, pool: -1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Vec<Section> {
        let pairs = BTreeMap::from([(Bytes::from("k"), Bytes::from("v")), (Bytes::from("l"), Bytes::new())]);
        vec![
            Section::PoolBegin,
            Section::Object(head_of(b"n", b"o", b"")),
            Section::Data { offset: 4096, bytes: Bytes::from(vec![7; 5000]) },
            Section::Xattrs(pairs.clone()),
            Section::OmapHeader(Bytes::from("h")),
            Section::Omap(pairs),
            Section::ObjectEnd,
            Section::PoolEnd,
        ]
    }

    fn written() -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = DumpWriter::new(&mut out).expect("memory");
        some().iter().for_each(|section| writer.write(section).expect("memory"));
        writer.finish().expect("memory");
        out
    }

    fn read_all(bytes: &[u8]) -> Result<Vec<Section>, DumpError> {
        let mut reader = DumpReader::new(bytes)?;
        let mut found = Vec::new();
        while found.last() != Some(&Section::PoolEnd) {
            found.push(reader.read()?);
        }
        Ok(found)
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(read_all(&written()).expect("whole"), some());
    }

    #[test]
    fn what_is_cut_off_or_damaged_is_an_error_or_something_else_but_no_panic() {
        let whole = written();
        for len in 0..whole.len() {
            assert!(read_all(&whole[..len]).is_err(), "{len} bytes");
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << bit;
                let _ = read_all(&damaged);
            }
        }
        // A length that is only claimed is not allocated.
        let mut claims = whole;
        claims[16 + 10..16 + 18].copy_from_slice(&i64::MAX.to_le_bytes());
        assert!(matches!(read_all(&claims), Err(DumpError::Short(1))));
    }
}
