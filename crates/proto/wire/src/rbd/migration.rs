//! Migration records, which the headers of both images hold while an image is moved.

use std::collections::BTreeMap;

use crate::{Decode, DecodeError, Encode, Name, Reader, Writer};

/// The other end of a migration (`MigrationSpec`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The owner of this header: [source](Migration::SOURCE) or [destination](Migration::DESTINATION).
    pub header: u8,
    /// The pool of the other image; −1 if the source is not an image.
    pub pool: i64,
    /// The namespace of the other image.
    pub nspace: Name,
    /// The name of the other image.
    pub name: Name,
    /// The id of the other image; empty for an image of format 1.
    pub image: String,
    /// A description of the source, if the source is not an image (release 16 and later).
    pub source: String,
    /// In the destination's header: maps the ids of the source's snapshots to those of the destination.
    pub snap_seqs: BTreeMap<u64, u64>,
    /// In the destination's header: the size of the source, in bytes.
    pub overlap: u64,
    /// Whether the destination is flattened, although the source is a clone.
    pub flatten: bool,
    /// Whether the source was mirrored.
    pub mirroring: bool,
    /// The mirror mode of the source.
    pub mirror_mode: u8,
    /// The state of the migration.
    pub state: u8,
    /// A description of the progress, for people.
    pub description: String,
}

impl Migration {
    /// The header is the source's.
    pub const SOURCE: u8 = 1;
    /// The header is the destination's.
    pub const DESTINATION: u8 = 2;

    /// The migration failed.
    pub const ERROR: u8 = 0;
    /// The destination is being created.
    pub const PREPARING: u8 = 1;
    /// The destination is usable; data that it does not hold is read from the source.
    pub const PREPARED: u8 = 2;
    /// The data that the destination does not hold is being copied.
    pub const EXECUTING: u8 = 3;
    /// The destination holds all data.
    pub const EXECUTED: u8 = 4;
    /// The destination is being removed.
    pub const ABORTING: u8 = 5;
}

impl Encode for Migration {
    fn encode(&self, w: &mut Writer) {
        // A reader that does not know non-image sources must reject a record that has one.
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
