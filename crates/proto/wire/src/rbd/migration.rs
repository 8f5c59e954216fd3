//! What the headers of an image's two places say while it is moved from one to the other.

use std::collections::BTreeMap;

use crate::{Decode, DecodeError, Encode, Name, Reader, Writer};

/// Where an image is being moved to or from (`MigrationSpec`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Whether the header is the [source's](Migration::SOURCE) or the
    /// [destination's](Migration::DESTINATION).
    pub header: u8,
    /// The other one's pool; −1: the source is no image.
    pub pool: i64,
    /// Its namespace.
    pub nspace: Name,
    /// Its name.
    pub name: Name,
    /// Its id; none if it is of the first format.
    pub image: String,
    /// The source, if that is no image (release 16 and later).
    pub source: String,
    /// In the destination's header: ids of the source's snapshots, and what they are there.
    pub snap_seqs: BTreeMap<u64, u64>,
    /// In the destination's header: bytes that the source had.
    pub overlap: u64,
    /// Whether the destination shall be no clone, though the source is one.
    pub flatten: bool,
    /// Whether the source was mirrored.
    pub mirroring: bool,
    /// How it was.
    pub mirror_mode: u8,
    /// What is being done.
    pub state: u8,
    /// How far it is, for people.
    pub description: String,
}

impl Migration {
    /// The header is the source's.
    pub const SOURCE: u8 = 1;
    /// The header is the destination's.
    pub const DESTINATION: u8 = 2;

    /// Something has failed.
    pub const ERROR: u8 = 0;
    /// The destination is being made.
    pub const PREPARING: u8 = 1;
    /// The destination can be used; what it does not have is read from the source.
    pub const PREPARED: u8 = 2;
    /// What it does not have is being copied.
    pub const EXECUTING: u8 = 3;
    /// It has all.
    pub const EXECUTED: u8 = 4;
    /// The destination is being removed.
    pub const ABORTING: u8 = 5;
}

impl Encode for Migration {
    fn encode(&self, w: &mut Writer) {
        // Readers that do not know a source of another kind must not read of one.
        w.versioned(3, if self.source.is_empty() { 1 } else { 3 }, |w| {
            w.u8(self.header);
            w.i64(self.pool);
            w.put(&self.nspace);
            w.put(&self.name);
            w.put(&self.image);
            w.put(&self.snap_seqs);
            w.u64(self.overlap);
            w.bool(self.flatten);
            w.bool(self.mirroring);
            w.u8(self.state);
            w.put(&self.description);
            w.u8(self.mirror_mode);
            w.put(&self.source);
        });
    }
}

impl Decode for Migration {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("MigrationSpec", 1, 3, |r, version| {
            let mut spec = Self {
                header: r.u8()?,
                pool: r.i64()?,
                nspace: r.get()?,
                name: r.get()?,
                image: r.get()?,
                snap_seqs: r.get()?,
                overlap: r.u64()?,
                flatten: r.bool()?,
                mirroring: r.bool()?,
                state: r.u8()?,
                description: r.get()?,
                mirror_mode: 0,
                source: String::new(),
            };
            if version >= 2 {
                spec.mirror_mode = r.u8()?;
            }
            if version >= 3 {
                spec.source = r.get()?;
            }
            Ok(spec)
        })
    }
}
