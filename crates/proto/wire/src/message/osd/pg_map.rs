//! Reports of placement groups and OSDs in the form that a manager stores them (`PGMap` and its parts).
//! `ceph pg getmap` returns the encoded map.

use std::collections::BTreeMap;

use az::WrappingAs as _;

use super::stats::ObjectStatCollection;
use super::{ObjectStatSum, StoreStatfs};
use crate::{Decode, DecodeError, Encode, Epoch, Eversion, PgId, PoolId, Reader, UTime, Writer};

/// The reports of all placement groups and OSDs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PgMap {
    /// Counts the map's changes.
    pub version: u64,
    /// Reports of placement groups, in any order.
    pub pgs: Vec<(PgId, PgStat)>,
    /// Reports of OSDs, by their numbers, in any order.
    pub osds: Vec<(i32, OsdStat)>,
    /// The epoch of the newest osdmap that the manager has processed.
    pub last_osdmap: Epoch,
    /// The epoch of the osdmap in which the manager last scanned for placement groups.
    pub last_scan: Epoch,
    /// When it last changed.
    pub stamp: UTime,
    /// Space that each pool uses on each OSD, where the object store reports it.
    pub pool_statfs: BTreeMap<(PoolId, i32), StoreStatfs>,
}

impl Encode for PgMap {
    fn encode(&self, w: &mut Writer) {
        w.versioned(8, 8, |w| {
            w.u64(self.version);
            w.put(&self.pgs);
            w.put(&self.osds);
            w.put(&self.last_osdmap);
            w.put(&self.last_scan);
            w.put(&self.stamp);
            w.put(&self.pool_statfs);
        });
    }
}

impl Decode for PgMap {
    const MIN_LEN: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("PGMap", 8, 8, |r, _| {
            Ok(Self {
                version: r.u64()?,
                pgs: r.get()?,
                osds: r.get()?,
                last_osdmap: r.get()?,
                last_scan: r.get()?,
                stamp: r.get()?,
                pool_statfs: r.get()?,
            })
        })
    }
}

/// Bits of a placement group's state (`PG_STATE_*`), limited to those that occur in a group without
/// replicas.
pub mod pg_state {
    /// The group serves requests.
    pub const ACTIVE: u64 = 1 << 1;
    /// All copies are on the intended OSDs.
    pub const CLEAN: u64 = 1 << 2;
    /// A scrub is running.
    pub const SCRUBBING: u64 = 1 << 8;
    /// Scrubs have found inconsistencies.
    pub const INCONSISTENT: u64 = 1 << 11;
    /// A repair is running.
    pub const REPAIR: u64 = 1 << 13;
    /// The running scrub reads data (a deep scrub).
    pub const DEEP_SCRUB: u64 = 1 << 19;
}

/// A placement group's report (`pg_stat_t`). Statistics of cache tiers, recovery and merges are left
/// out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PgStat {
    /// The newest change.
    pub version: Eversion,
    /// Counts the group's reports.
    pub reported_seq: u64,
    /// The osdmap epoch of the last report.
    pub reported_epoch: Epoch,
    /// See [`pg_state`].
    pub state: u64,
    /// The start of the log.
    pub log_start: Eversion,
    /// The start of the log on disk.
    pub ondisk_log_start: Eversion,
    /// The osdmap epoch in which the group was created.
    pub created: Epoch,
    /// The osdmap epoch in which the group was last clean.
    pub last_epoch_clean: Epoch,
    /// The group that this group was split from.
    pub parent: PgId,
    /// The number of hash bits used for the split.
    pub parent_split_bits: u32,
    /// The newest change at the last scrub.
    pub last_scrub: Eversion,
    /// The time of the last scrub.
    pub last_scrub_stamp: UTime,
    /// Counts of the group's objects.
    pub sum: ObjectStatSum,
    /// Entries in the log.
    pub log_size: i64,
    /// Entries in the log on disk.
    pub ondisk_log_size: i64,
    /// The OSDs that the map assigns to the group.
    pub up: Vec<i32>,
    /// The OSDs that serve the group.
    pub acting: Vec<i32>,
    /// The time of the last report.
    pub last_fresh: UTime,
    /// The time of the last state change.
    pub last_change: UTime,
    /// The last time the group was active.
    pub last_active: UTime,
    /// The last time the group was clean.
    pub last_clean: UTime,
    /// The last time the group was not stale.
    pub last_unstale: UTime,
    /// The osdmap epoch since which the same OSDs serve the group.
    pub mapping_epoch: Epoch,
    /// The newest change at the last deep scrub.
    pub last_deep_scrub: Eversion,
    /// The time of the last deep scrub.
    pub last_deep_scrub_stamp: UTime,
    /// The time of the last scrub that found no errors.
    pub last_clean_scrub_stamp: UTime,
    /// The time at which the group became active.
    pub last_became_active: UTime,
    /// The first OSD of `up`, or -1.
    pub up_primary: i32,
    /// The first OSD of `acting`, or -1.
    pub acting_primary: i32,
    /// The OSDs that the group waits for.
    pub blocked_by: Vec<i32>,
    /// The last time that no copies were missing.
    pub last_undegraded: UTime,
    /// The last time that the group had its full number of OSDs.
    pub last_fullsized: UTime,
    /// The last time that the group was peered.
    pub last_peered: UTime,
    /// The time at which the group became peered.
    pub last_became_peered: UTime,
    /// The number of snapshots that wait for removal.
    pub snaptrimq_len: u32,
    /// Ranges of removed snapshots: the first id and the count.
    pub purged_snaps: Vec<(u64, u64)>,
}

impl Encode for PgStat {
    fn encode(&self, w: &mut Writer) {
        w.versioned(26, 22, |w| {
            self.encode_front(w);
            self.encode_rest(w);
        });
    }
}

impl PgStat {
    fn encode_front(&self, w: &mut Writer) {
        w.put(&self.version);
        w.u64(self.reported_seq);
        w.put(&self.reported_epoch);
        w.u32(self.state.wrapping_as::<u32>()); // the low half; the high half follows in `encode_rest`
        w.put(&self.log_start);
        w.put(&self.ondisk_log_start);
        w.put(&self.created);
        w.put(&self.last_epoch_clean);
        w.put(&self.parent);
        w.u32(self.parent_split_bits);
        w.put(&self.last_scrub);
        w.put(&self.last_scrub_stamp);
        w.put(&ObjectStatCollection { sum: self.sum });
        w.i64(self.log_size);
        w.i64(self.ondisk_log_size);
        w.put(&self.up);
        w.put(&self.acting);
        for moment in
            [&self.last_fresh, &self.last_change, &self.last_active, &self.last_clean, &self.last_unstale]
        {
            w.put(moment);
        }
        w.put(&self.mapping_epoch);
        w.put(&self.last_deep_scrub);
        w.put(&self.last_deep_scrub_stamp);
    }

    fn encode_rest(&self, w: &mut Writer) {
        w.bool(false); // "stats invalid"; false: the sums are valid
        w.put(&self.last_clean_scrub_stamp);
        w.put(&self.last_became_active);
        w.bool(false); // "dirty stats invalid"
        w.i32(self.up_primary);
        w.i32(self.acting_primary);
        w.bool(false); // "omap stats invalid"
        w.bool(false); // "hitset stats invalid"
        w.put(&self.blocked_by);
        w.put(&self.last_undegraded);
        w.put(&self.last_fullsized);
        w.bool(false); // "hitset bytes stats invalid"
        w.put(&self.last_peered);
        w.put(&self.last_became_peered);
        w.bool(false); // "pin stats invalid"
        w.u32(self.snaptrimq_len);
        w.u32((self.state >> 32).wrapping_as::<u32>());
        w.put(&self.purged_snaps);
        w.bool(false); // "manifest stats invalid"
        w.u32(0); // available, not missing, by shard: empty
        w.u32(0); // object location counts: empty
    }
}

impl Decode for PgStat {
    const MIN_LEN: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("pg_stat_t", 26, 26, |r, _| {
            let mut stat = Self {
                version: r.get()?,
                reported_seq: r.u64()?,
                reported_epoch: r.get()?,
                state: r.u32()?.into(),
                log_start: r.get()?,
                ondisk_log_start: r.get()?,
                created: r.get()?,
                last_epoch_clean: r.get()?,
                parent: r.get()?,
                parent_split_bits: r.u32()?,
                last_scrub: r.get()?,
                last_scrub_stamp: r.get()?,
                sum: r.get::<ObjectStatCollection>()?.sum,
                log_size: r.i64()?,
                ondisk_log_size: r.i64()?,
                up: r.get()?,
                acting: r.get()?,
                last_fresh: r.get()?,
                last_change: r.get()?,
                last_active: r.get()?,
                last_clean: r.get()?,
                last_unstale: r.get()?,
                mapping_epoch: r.get()?,
                last_deep_scrub: r.get()?,
                last_deep_scrub_stamp: r.get()?,
                ..Self::default()
            };
            stat.decode_rest(r)?;
            Ok(stat)
        })
    }
}

impl PgStat {
    fn decode_rest(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        r.bool()?;
        (self.last_clean_scrub_stamp, self.last_became_active) = r.get()?;
        r.bool()?;
        (self.up_primary, self.acting_primary) = (r.i32()?, r.i32()?);
        r.bool()?;
        r.bool()?;
        self.blocked_by = r.get()?;
        (self.last_undegraded, self.last_fullsized) = r.get()?;
        r.bool()?;
        (self.last_peered, self.last_became_peered) = r.get()?;
        r.bool()?;
        self.snaptrimq_len = r.u32()?;
        self.state |= u64::from(r.u32()?) << 32;
        self.purged_snaps = r.get()?;
        r.bool()?;
        for what in ["number of shards that lack nothing", "number of places of objects"] {
            let count = r.u32()?;
            if count != 0 {
                return Err(DecodeError::Invalid { what, value: count.into() });
            }
        }
        Ok(())
    }
}

/// An OSD's report (`osd_stat_t`). Statistics of networks and queues are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OsdStat {
    /// The OSD's space usage.
    pub statfs: StoreStatfs,
    /// The osdmap epoch since which the OSD is up.
    pub up_from: Epoch,
    /// Counts the OSD's reports.
    pub seq: u64,
    /// The number of placement groups.
    pub num_pgs: u32,
    /// The number of OSDs: 1, except in a sum.
    pub num_osds: u32,
    /// Alerts of the object store, by category. Always empty here.
    pub alerts: BTreeMap<i32, BTreeMap<String, String>>,
}

impl Encode for OsdStat {
    fn encode(&self, w: &mut Writer) {
        let StoreStatfs { total, available, .. } = self.statfs;
        let kb = |bytes: u64| bytes >> 10;
        w.versioned(14, 2, |w| {
            w.u64(kb(total));
            w.u64(kb(total.saturating_sub(available)));
            w.u64(kb(available));
            w.zeros(4 * 4); // snapshots to trim, snapshots in trim, heartbeat peers, silent ones
            w.versioned(1, 1, |w| w.u32(0)); // ages of requests
            w.versioned(2, 2, |w| w.zeros(2 * 8)); // latencies
            w.put(&self.up_from);
            w.u64(self.seq);
            w.u32(self.num_pgs);
            for used in [self.statfs.allocated, self.statfs.omap_allocated, self.statfs.internal_metadata] {
                w.i64(used >> 10);
            }
            w.put(&self.statfs);
            w.put(&self.alerts);
            w.u64(0); // repaired shards
            w.u32(self.num_osds);
            w.zeros(2 * 4); // OSDs that report data per pool, and omaps per pool
            w.u32(0); // heartbeat ping times
        });
    }
}

impl Decode for OsdStat {
    const MIN_LEN: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("osd_stat_t", 14, 14, |r, _| {
            r.skip(3 * 8 + 2 * 4)?;
            r.get::<Vec<i32>>()?;
            r.get::<Vec<i32>>()?;
            r.versioned("pow2_hist_t", 1, 1, |r, _| r.get::<Vec<i32>>())?;
            r.versioned("objectstore_perf_stat_t", 2, 2, |r, _| r.skip(2 * 8))?;
            let (up_from, seq, num_pgs) = (r.get()?, r.u64()?, r.u32()?);
            r.skip(3 * 8)?;
            let (statfs, alerts) = (r.get()?, r.get()?);
            r.u64()?;
            // The rest, the heartbeat ping times, is not read.
            Ok(Self { statfs, up_from, seq, num_pgs, num_osds: r.u32()?, alerts })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_read_as_it_was_written() {
        let pg = PgId { pool: PoolId(2), seed: 27 };
        let stat = PgStat {
            state: pg_state::ACTIVE | pg_state::CLEAN | 1 << 40,
            up: vec![0, 3],
            acting: vec![3],
            last_peered: UTime { sec: 7, nsec: 8 },
            purged_snaps: vec![(1, 4)],
            ..PgStat::default()
        };
        let statfs = StoreStatfs { total: 8 << 30, available: 5 << 30, ..StoreStatfs::default() };
        let osd = OsdStat { statfs, seq: 9, num_osds: 1, ..OsdStat::default() };
        let map = PgMap {
            version: 5,
            pgs: vec![(pg, stat)],
            osds: vec![(3, osd)],
            pool_statfs: [((PoolId(2), 3), statfs)].into(),
            ..PgMap::default()
        };
        let bytes = map.to_bytes();
        assert_eq!(PgMap::from_bytes(&bytes), Ok(map));
        for len in 0..bytes.len() {
            PgMap::from_bytes(&bytes[..len]).expect_err("cut off");
        }
    }
}
