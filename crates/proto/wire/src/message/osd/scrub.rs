//! Inconsistencies that scrubs found, as SCRUBLS lists them.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::{Decode, DecodeError, Encode, Epoch, Reader, SnapId, Writer};

/// The request (`scrub_ls_arg_t`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubLs {
    /// The interval from the previous reply; zero in the first request. If that interval is over, the
    /// listing must start again.
    pub interval: Epoch,
    /// Whether to list damaged snapshot sets instead of damaged objects.
    pub snapsets: bool,
    /// The last object listed; without a name in the first request. Its locator is not sent.
    pub after: ScrubbedId,
    /// The maximum number of entries.
    pub max: u64,
}

/// The reply (`scrub_ls_result_t`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubLsResult {
    /// The epoch since which the same OSDs serve the placement group.
    pub interval: Epoch,
    /// The entries, each an encoded [`DamagedObject`] or [`DamagedSnaps`].
    pub found: Vec<Bytes>,
}

/// The identity of an object in scrub results (`librados::object_id_t`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubbedId {
    /// The object's name.
    pub name: Bytes,
    /// The object's namespace.
    pub nspace: Bytes,
    /// The locator key, if it differs from the name.
    pub locator: Bytes,
    /// The clone.
    pub snap: SnapId,
}

/// Bits that tell how the copies of an object differ.
pub mod object_error {
    /// The object info differs.
    pub const INFO: u64 = 1 << 1;
    /// The checksums of the data differ.
    pub const DATA_DIGEST: u64 = 1 << 4;
    /// The checksums of the omap differ.
    pub const OMAP_DIGEST: u64 = 1 << 5;
    /// The sizes differ.
    pub const SIZE: u64 = 1 << 6;
    /// The values of attributes differ.
    pub const ATTR_VALUE: u64 = 1 << 7;
    /// The names of attributes differ.
    pub const ATTR_NAME: u64 = 1 << 8;
    /// The snapshot sets differ.
    pub const SNAPSET: u64 = 1 << 9;
    /// The checksums of the erasure code differ.
    pub const HINFO: u64 = 1 << 10;
    /// All bits with the names that stock tools print, in their order.
    pub const NAMES: [(u64, &str); 8] = [
        (INFO, "object_info_inconsistency"),
        (DATA_DIGEST, "data_digest_mismatch"),
        (OMAP_DIGEST, "omap_digest_mismatch"),
        (SIZE, "size_mismatch"),
        (ATTR_VALUE, "attr_value_mismatch"),
        (ATTR_NAME, "attr_name_mismatch"),
        (SNAPSET, "snapset_inconsistency"),
        (HINFO, "hinfo_inconsistency"),
    ];
}

/// Bits that tell the errors of one copy.
pub mod shard_error {
    /// The copy is missing.
    pub const MISSING: u64 = 1 << 1;
    /// The copy's metadata cannot be read from the store.
    pub const STAT: u64 = 1 << 2;
    /// The copy's data cannot be read.
    pub const READ: u64 = 1 << 3;
    /// The data does not match the recorded checksum.
    pub const DATA_DIGEST: u64 = 1 << 9;
    /// The omap does not match the recorded checksum.
    pub const OMAP_DIGEST: u64 = 1 << 10;
    /// The size differs from the recorded size.
    pub const SIZE: u64 = 1 << 11;
    /// All bits that tools print without the object's attributes, with the names that stock tools print,
    /// in their order.
    pub const NAMES: [(u64, &str); 13] = [
        (MISSING, "missing"),
        (STAT, "stat_error"),
        (READ, "read_error"),
        (DATA_DIGEST, "data_digest_mismatch_info"),
        (OMAP_DIGEST, "omap_digest_mismatch_info"),
        (SIZE, "size_mismatch_info"),
        (1 << 12, "ec_hash_error"),
        (1 << 13, "ec_size_error"),
        (1 << 14, "info_missing"),
        (1 << 15, "info_corrupted"),
        (1 << 16, "snapset_missing"),
        (1 << 17, "snapset_corrupted"),
        (1 << 18, "obj_size_info_mismatch"),
    ];
}

/// Bits that tell the errors of an object's snapshot set.
pub mod snaps_error {
    /// All bits with the names that stock tools print, in their order.
    pub const NAMES: [(u64, &str); 9] = [
        (1 << 0, "snapset_missing"),
        (1 << 1, "snapset_corrupted"),
        (1 << 7, "info_missing"),
        (1 << 8, "info_corrupted"),
        (1 << 3, "snapset_error"),
        (1 << 5, "headless"),
        (1 << 6, "size_mismatch"),
        (1 << 9, "extra_clones"),
        (1 << 2, "clone_missing"),
    ];
}

/// One copy of a damaged object (`shard_info_t`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shard {
    /// The copy's errors.
    pub errors: ShardErrors,
    /// Whether this is the primary's copy, which serves clients.
    pub primary: bool,
    /// The object's attributes, with the prefixes of a stock store.
    pub attrs: BTreeMap<Bytes, Bytes>,
    /// The size in bytes.
    pub size: u64,
    /// The checksum of the omap, if one was computed.
    pub omap_digest: Option<u32>,
    /// The checksum of the data, if one was computed.
    pub data_digest: Option<u32>,
    /// Whether the object info was taken from this copy.
    pub has_selected_info: bool,
}

/// A set of the bits in [`shard_error`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardErrors(pub u64);

/// A damaged object (`inconsistent_obj_t`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DamagedObject {
    /// See [`object_error`].
    pub errors: u64,
    /// The object.
    pub object: ScrubbedId,
    /// The object's user version.
    pub version: u64,
    /// The copies, by OSD and shard; the shard is -1 for a copy of the whole object.
    pub shards: BTreeMap<(i32, i8), Shard>,
    /// The union of the errors of all copies.
    pub shard_errors: ShardErrors,
}

/// A damaged snapshot set (`inconsistent_snapset_t`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DamagedSnaps {
    /// See [`snaps_error`].
    pub errors: u64,
    /// The object.
    pub object: ScrubbedId,
    /// Clones that exist but should not.
    pub clones: Vec<u64>,
    /// Clones that are missing.
    pub missing: Vec<u64>,
    /// The encoded snapshot set.
    pub snapset: Bytes,
}

impl Encode for ScrubLs {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.interval);
            w.u32(self.snapsets.into());
            w.put(&self.after.name);
            w.put(&self.after.nspace);
            w.put(&self.after.snap);
            w.u64(self.max);
        });
    }
}

impl Decode for ScrubLs {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("scrub_ls_arg_t", 1, 1, |r, _| {
            let (interval, snapsets) = (r.get()?, r.u32()? != 0);
            let (name, nspace, snap) = (r.get()?, r.get()?, r.get()?);
            let after = ScrubbedId { name, nspace, snap, locator: Bytes::new() };
            Ok(Self { interval, snapsets, after, max: r.u64()? })
        })
    }
}

impl Encode for ScrubLsResult {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.interval);
            w.put(&self.found);
        });
    }
}

impl Decode for ScrubLsResult {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("scrub_ls_result_t", 1, 1, |r, _| Ok(Self { interval: r.get()?, found: r.get()? }))
    }
}

impl Encode for ScrubbedId {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.name);
            w.put(&self.nspace);
            w.put(&self.locator);
            w.put(&self.snap);
        });
    }
}

impl Decode for ScrubbedId {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("object_id_t", 1, 1, |r, _| {
            Ok(Self { name: r.get()?, nspace: r.get()?, locator: r.get()?, snap: r.get()? })
        })
    }
}

impl Encode for Shard {
    fn encode(&self, w: &mut Writer) {
        w.versioned(3, 3, |w| {
            w.u64(self.errors.0);
            w.bool(self.primary);
            // The encoding of a missing copy ends here.
            if self.errors.0 & shard_error::MISSING != 0 {
                return;
            }
            w.put(&self.attrs);
            w.u64(self.size);
            for digest in [self.omap_digest, self.data_digest] {
                w.bool(digest.is_some());
                w.u32(digest.unwrap_or_default());
            }
            w.bool(self.has_selected_info);
        });
    }
}

impl Decode for Shard {
    const MIN_LEN: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("shard_info_t", 3, 3, |r, _| {
            let (errors, primary) = (ShardErrors(r.u64()?), r.bool()?);
            if errors.0 & shard_error::MISSING != 0 {
                return Ok(Self { errors, primary, ..Self::default() });
            }
            let (attrs, size) = (r.get()?, r.u64()?);
            let mut digest = || {
                let is_there = r.bool()?;
                let value = r.u32()?;
                Ok::<_, DecodeError>(is_there.then_some(value))
            };
            let (omap_digest, data_digest) = (digest()?, digest()?);
            Ok(Self { errors, primary, attrs, size, omap_digest, data_digest, has_selected_info: r.bool()? })
        })
    }
}

impl Encode for DamagedObject {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 2, |w| {
            w.u64(self.errors);
            w.put(&self.object);
            w.u64(self.version);
            w.count(self.shards.len());
            for ((osd, shard), of) in &self.shards {
                w.versioned(1, 1, |w| {
                    w.i32(*osd);
                    w.u8(shard.cast_unsigned());
                });
                w.put(of);
            }
            w.u64(self.shard_errors.0);
        });
    }
}

impl Decode for DamagedObject {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("inconsistent_obj_t", 2, 2, |r, _| {
            let (errors, object, version) = (r.u64()?, r.get()?, r.u64()?);
            let mut shards = BTreeMap::new();
            for _ in 0..r.count(Shard::MIN_LEN)? {
                let place = r.versioned("osd_shard_t", 1, 1, |r, _| Ok((r.i32()?, r.u8()?.cast_signed())))?;
                shards.insert(place, r.get()?);
            }
            Ok(Self { errors, object, version, shards, shard_errors: ShardErrors(r.u64()?) })
        })
    }
}

impl Encode for DamagedSnaps {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.u64(self.errors);
            w.put(&self.object);
            w.put(&self.clones);
            w.put(&self.missing);
            w.put(&self.snapset);
        });
    }
}

impl Decode for DamagedSnaps {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("inconsistent_snapset_t", 2, 2, |r, _| {
            Ok(Self {
                errors: r.u64()?,
                object: r.get()?,
                clones: r.get()?,
                missing: r.get()?,
                snapset: r.get()?,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_read_as_it_was_written() {
        let object =
            ScrubbedId { name: "o".into(), nspace: "n".into(), locator: "l".into(), snap: SnapId(4) };
        let missing = Shard { errors: ShardErrors(shard_error::MISSING), ..Shard::default() };
        let shard = Shard {
            errors: ShardErrors(shard_error::READ),
            primary: true,
            attrs: [("_".into(), "info".into())].into(),
            size: 7,
            data_digest: Some(5),
            ..Shard::default()
        };
        let damaged = DamagedObject {
            errors: object_error::SIZE,
            object: object.clone(),
            version: 9,
            shards: [((0, -1), shard), ((3, 1), missing)].into(),
            shard_errors: ShardErrors(shard_error::READ | shard_error::MISSING),
        };
        assert_eq!(DamagedObject::from_bytes(&damaged.to_bytes()), Ok(damaged.clone()));
        let snaps = DamagedSnaps { errors: 4, object, missing: vec![7], ..DamagedSnaps::default() };
        assert_eq!(DamagedSnaps::from_bytes(&snaps.to_bytes()), Ok(snaps));
        let found = vec![damaged.to_bytes()];
        let result = ScrubLsResult { interval: Epoch(7), found };
        assert_eq!(ScrubLsResult::from_bytes(&result.to_bytes()), Ok(result));
        // The locator of the last object is not sent, so it is left empty here.
        let after = ScrubbedId { name: "o".into(), snap: SnapId(4), ..ScrubbedId::default() };
        let ask = ScrubLs { interval: Epoch(7), snapsets: true, after, max: 3 };
        assert_eq!(ScrubLs::from_bytes(&ask.to_bytes()), Ok(ask));
    }
}
