//! The encoding of full maps (`OSDMap::encode` in `src/osd/OSDMap.cc`): a part for clients and a part
//! for OSDs.
//!
//! | part | version | written by | adds |
//! |---|---|---|---|
//! | clients | 9 | 16, 17 | |
//! | | 10 | 18 to 20 | explicit primaries |
//! | OSDs | 9 | 16 to 20 | |
//! | | 10 | with stretch mode | stretch mode |
//! | | 11 | with blocked networks | blocked networks |
//! | | 12 | with Crimson OSDs allowed | whether Crimson OSDs are allowed |

use std::collections::BTreeMap;
use std::sync::Arc;

use az::SaturatingAs as _;
use loligo_wire::{Decode, DecodeError, Encode, EntityAddrVec, PoolId, Reader, Uuid, Writer, features};

use super::{EncodedOsdMap, MapFlags, Osd, OsdInfo, OsdMap, OsdXInfo, StretchMode, sealed};
use crate::crush::CrushMap;
use crate::{Features, PgPool};

impl OsdMap {
    /// Encodes the map in the form that a monitor with these features writes. All clients decode the
    /// form of [`Features::PACIFIC`].
    pub fn encode(&self, writer: Features) -> EncodedOsdMap {
        let front = |w: &mut Writer| {
            self.encode_for_clients(writer, w);
            self.encode_for_osds(w);
        };
        let (bytes, crc) = sealed::seal(front, |_| {});
        EncodedOsdMap { bytes, crc }
    }

    /// Decodes a map and verifies its checksum.
    ///
    /// # Errors
    /// Malformed bytes, a map in a form older than release 16, or a map whose parts are inconsistent.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (map, _, _) = sealed::open("OSDMap", bytes, |r| {
            let mut map = r.versioned("OSDMap client data", 9, 10, Self::decode_for_clients)?;
            r.versioned("OSDMap osd data", 9, 12, |r, version| map.decode_for_osds(r, version))?;
            Ok(map)
        })?;
        Ok(map)
    }

    fn encode_for_clients(&self, writer: Features, w: &mut Writer) {
        let has_primaries = writer.has(features::SERVER_REEF);
        w.versioned(if has_primaries { 10 } else { 9 }, 1, |w| {
            w.put(&self.fsid);
            w.put(&self.epoch);
            w.put(&self.created);
            w.put(&self.modified);
            encode_pools(&self.pools, writer, w);
            w.put(&self.pool_names);
            w.i32(self.pool_max.0.saturating_as::<i32>()); // this field is narrower than other pool ids
            w.u32(self.flags.bits());
            w.count(self.max_osd());
            w.put(&self.osd_state);
            w.put(&self.osd_weight);
            self.encode_each(w, |osd| &osd.client_addrs);
            w.put(&self.pg_temp);
            w.put(&self.primary_temp);
            w.seq(self.primary_affinity.as_deref().unwrap_or_default());
            w.sized(|w| self.crush.encode(writer, w));
            w.put(&self.erasure_code_profiles);
            w.put(&self.pg_upmap);
            w.put(&self.pg_upmap_items);
            w.u32(self.crush_version);
            w.put(&self.new_removed_snaps);
            w.put(&self.new_purged_snaps);
            w.put(&self.last_up_change);
            w.put(&self.last_in_change);
            if has_primaries {
                w.put(&self.pg_upmap_primaries);
            }
        });
    }

    fn encode_for_osds(&self, w: &mut Writer) {
        let version = match self {
            _ if self.allow_crimson => 12,
            _ if !self.blocklist.ranges.is_empty() => 11,
            _ if self.stretch.enabled => 10,
            _ => 9,
        };
        w.versioned(version, 1, |w| {
            self.encode_each(w, |osd| &osd.hb_back_addrs);
            self.encode_each(w, |osd| &osd.info);
            w.put(&self.blocklist.addrs);
            self.encode_each(w, |osd| &osd.cluster_addrs);
            w.put(&self.cluster_snapshot_epoch);
            w.put(&self.cluster_snapshot);
            self.encode_each(w, |osd| &osd.uuid);
            self.encode_each(w, |osd| &osd.xinfo);
            self.encode_each(w, |osd| &osd.hb_front_addrs);
            for ratio in [self.nearfull_ratio, self.full_ratio, self.backfillfull_ratio] {
                w.u32(ratio.to_bits());
            }
            w.u8(self.require_min_compat_client);
            w.u8(self.require_osd_release);
            w.put(&self.removed_snaps_queue);
            w.put(&self.crush_node_flags);
            w.put(&self.device_class_flags);
            if version >= 10 {
                w.put(&self.stretch);
            }
            if version >= 11 {
                w.put(&self.blocklist.ranges);
            }
            if version >= 12 {
                w.bool(self.allow_crimson);
            }
        });
    }

    /// Appends one field of each OSD, as a container.
    fn encode_each<'a, T: Encode + 'a>(&'a self, w: &mut Writer, part: impl Fn(&'a Osd) -> &'a T) {
        w.seq(self.osds.iter().map(part));
    }

    fn decode_for_clients(r: &mut Reader<'_>, version: u8) -> Result<Self, DecodeError> {
        let mut map = Self {
            fsid: r.get()?,
            epoch: r.get()?,
            created: r.get()?,
            modified: r.get()?,
            pools: r.get::<BTreeMap<PoolId, PgPool>>()?,
            pool_names: r.get()?,
            pool_max: PoolId(i64::from(r.i32()?)),
            flags: MapFlags::from_bits_retain(r.u32()?),
            ..Self::default()
        };
        let max_osd = r.u32()?;
        map.osd_state = decode_per_osd(r, max_osd)?;
        map.osd_weight = decode_per_osd(r, max_osd)?;
        let client_addrs: Vec<EntityAddrVec> = decode_per_osd(r, max_osd)?;
        map.osds =
            client_addrs.into_iter().map(|client_addrs| Osd { client_addrs, ..Osd::default() }).collect();
        map.pg_temp = r.get()?;
        map.primary_temp = r.get()?;
        map.primary_affinity = decode_affinities(r, max_osd)?;
        map.crush = Arc::new(CrushMap::decode(&mut r.sized()?)?);
        map.erasure_code_profiles = r.get()?;
        map.pg_upmap = r.get()?;
        map.pg_upmap_items = r.get()?;
        map.crush_version = r.u32()?;
        map.new_removed_snaps = r.get()?;
        map.new_purged_snaps = r.get()?;
        map.last_up_change = r.get()?;
        map.last_in_change = r.get()?;
        if version >= 10 {
            map.pg_upmap_primaries = r.get()?;
        }
        Ok(map)
    }

    fn decode_for_osds(&mut self, r: &mut Reader<'_>, version: u8) -> Result<(), DecodeError> {
        self.decode_each(r, |osd, addrs| osd.hb_back_addrs = addrs)?;
        self.decode_each(r, |osd, info: OsdInfo| osd.info = info)?;
        self.blocklist.addrs = r.get()?;
        self.decode_each(r, |osd, addrs| osd.cluster_addrs = addrs)?;
        self.cluster_snapshot_epoch = r.get()?;
        self.cluster_snapshot = r.get()?;
        self.decode_each(r, |osd, uuid: Uuid| osd.uuid = uuid)?;
        self.decode_each(r, |osd, xinfo: OsdXInfo| osd.xinfo = xinfo)?;
        self.decode_each(r, |osd, addrs| osd.hb_front_addrs = addrs)?;
        self.nearfull_ratio = decode_ratio(r)?;
        self.full_ratio = decode_ratio(r)?;
        self.backfillfull_ratio = decode_ratio(r)?;
        self.require_min_compat_client = r.u8()?;
        self.require_osd_release = r.u8()?;
        self.flags = self.flags.implied_by_release(self.require_osd_release);
        self.removed_snaps_queue = r.get()?;
        self.crush_node_flags = r.get()?;
        self.device_class_flags = r.get()?;
        if version >= 10 {
            self.stretch = r.get()?;
        }
        if version >= 11 {
            self.blocklist.ranges = r.get()?;
        }
        if version >= 12 {
            self.allow_crimson = r.bool()?;
        }
        Ok(())
    }

    /// Decodes one field of each OSD.
    fn decode_each<T: Decode>(
        &mut self,
        r: &mut Reader<'_>,
        set: impl Fn(&mut Osd, T),
    ) -> Result<(), DecodeError> {
        let parts: Vec<T> = decode_per_osd(r, self.max_osd().saturating_as::<u32>())?;
        self.osds.iter_mut().zip(parts).for_each(|(osd, part)| set(osd, part));
        Ok(())
    }
}

/// Appends the pools in the order of their numbers.
pub(super) fn encode_pools(pools: &BTreeMap<PoolId, PgPool>, writer: Features, w: &mut Writer) {
    w.count(pools.len());
    for (id, pool) in pools {
        w.put(id);
        pool.encode(writer, w);
    }
}

pub(super) fn decode_ratio(r: &mut Reader<'_>) -> Result<f32, DecodeError> {
    r.u32().map(f32::from_bits)
}

/// Decodes a table with one entry per OSD.
fn decode_per_osd<T: Decode>(r: &mut Reader<'_>, max_osd: u32) -> Result<Vec<T>, DecodeError> {
    let table: Vec<T> = r.get()?;
    if table.len() != max_osd as usize {
        return Err(DecodeError::Invalid { what: "length of a table of OSDs", value: table.len() as u64 });
    }
    Ok(table)
}

/// Decodes the table of primary affinities, which is empty while all have the default value.
fn decode_affinities(r: &mut Reader<'_>, max_osd: u32) -> Result<Option<Vec<u32>>, DecodeError> {
    if r.rest().starts_with(&[0; 4]) {
        r.skip(4)?;
        return Ok(None);
    }
    decode_per_osd(r, max_osd).map(Some)
}

impl Encode for StretchMode {
    fn encode(&self, w: &mut Writer) {
        w.bool(self.enabled);
        w.u32(self.bucket_count);
        w.u32(self.degraded);
        w.u32(self.recovering);
        w.i32(self.bucket);
    }
}

impl Decode for StretchMode {
    const MIN_LEN: usize = 17;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            enabled: r.bool()?,
            bucket_count: r.u32()?,
            degraded: r.u32()?,
            recovering: r.u32()?,
            bucket: r.i32()?,
        })
    }
}
