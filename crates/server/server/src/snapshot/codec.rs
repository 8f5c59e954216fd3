//! The records of a snapshot's file.
//!
//! ```text
//! file     "LOLIGOSN", version u32, records
//! record   kind u8, length u32, body, CRC-32C u32 of kind, length and body
//! ```
//! Numbers are little-endian. A reader takes memory for bytes that it has read, never for a length that a
//! record only claims.

use std::io::{self, Read, Write};

use loligo_wire::crc::crc32c_of;

/// The first bytes of a file.
pub(super) const MAGIC: &[u8; 8] = b"LOLIGOSN";
/// The version that this program writes, and the only one that it reads.
pub(super) const VERSION: u32 = 1;
/// Bytes of a record beside its body.
pub(super) const FRAME_LEN: u64 = 9;

/// What a record holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// The monitor's state, first in the file.
    State = 1,
    /// A collection; its objects follow.
    Collection = 2,
    /// An object without its contents; they follow.
    Object = 3,
    /// Extended attributes: names and values.
    Xattrs = 4,
    /// The omap's header.
    OmapHeader = 5,
    /// Keys and values of the omap.
    Omap = 6,
    /// A part of the data.
    Data = 7,
    /// The number of objects, last in the file.
    End = 8,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::State,
        Self::Collection,
        Self::Object,
        Self::Xattrs,
        Self::OmapHeader,
        Self::Omap,
        Self::Data,
        Self::End,
    ];

    fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

pub(super) fn write_record(to: &mut impl Write, kind: Kind, parts: &[&[u8]]) -> io::Result<()> {
    let len = parts.iter().map(|part| part.len()).sum::<usize>();
    let len = u32::try_from(len).map_err(|_| io::Error::other("a record of 4 GiB or more"))?;
    let len = len.to_le_bytes();
    let head = [kind as u8, len[0], len[1], len[2], len[3]];
    to.write_all(&head)?;
    parts.iter().try_for_each(|part| to.write_all(part))?;
    let crc = crc32c_of(std::iter::once(&head[..]).chain(parts.iter().copied()));
    to.write_all(&crc.to_le_bytes())
}

/// Why a record cannot be read.
#[derive(Debug)]
pub(super) enum Fault {
    Io(io::Error),
    /// The file is damaged.
    Content(&'static str),
}

impl From<io::Error> for Fault {
    fn from(e: io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::UnexpectedEof => Self::Content("the file was cut"),
            _ => Self::Io(e),
        }
    }
}

/// Reads a record and checks it.
pub(super) fn read_record(from: &mut impl Read) -> Result<(Kind, Vec<u8>), Fault> {
    let mut head = [0; 5];
    from.read_exact(&mut head)?;
    let len = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
    let mut body = Vec::new();
    from.take(len.into()).read_to_end(&mut body)?;
    if u64::try_from(body.len()) != Ok(len.into()) {
        return Err(Fault::Content("the file was cut"));
    }
    let mut crc = [0; 4];
    from.read_exact(&mut crc)?;
    if crc32c_of([&head[..], &body]) != u32::from_le_bytes(crc) {
        return Err(Fault::Content("the checksum does not fit"));
    }
    let kind = Kind::of(head[0]).ok_or(Fault::Content("a record of an unknown kind"))?;
    Ok((kind, body))
}
