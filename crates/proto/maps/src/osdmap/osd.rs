//! The state of one OSD in an osdmap.

use bitflags::bitflags;
use loligo_wire::{Decode, DecodeError, Encode, EntityAddrVec, Epoch, Reader, UTime, Uuid, Writer};

bitflags! {
    /// State bits of an OSD (`CEPH_OSD_*` in `src/include/rados.h`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct OsdState: u32 {
        /// The OSD exists.
        const EXISTS = 1;
        /// The OSD is up.
        const UP = 1 << 1;
        /// The OSD was marked out automatically.
        const AUTOOUT = 1 << 2;
        /// The OSD has never been in.
        const NEW = 1 << 3;
        /// The OSD has no space left.
        const FULL = 1 << 4;
        /// The OSD has little space left.
        const NEARFULL = 1 << 5;
        /// The OSD has too little space left for backfill.
        const BACKFILLFULL = 1 << 6;
        /// The OSD's data is lost; its number may be reused.
        const DESTROYED = 1 << 7;
        /// The OSD must not be marked up.
        const NOUP = 1 << 8;
        /// The OSD was stopped on purpose.
        const STOP = 1 << 12;
        // Bits that newer releases may send are kept.
        const _ = !0;
    }
}

impl Encode for OsdState {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.bits());
    }
}

impl Decode for OsdState {
    const MIN_LEN: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.u32().map(Self::from_bits_retain)
    }
}

/// The data of an OSD in a map, except state, weight and affinity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Osd {
    /// Addresses at which clients reach the OSD.
    pub client_addrs: EntityAddrVec,
    /// Addresses at which other OSDs reach the OSD.
    pub cluster_addrs: EntityAddrVec,
    /// Heartbeat addresses on the cluster network.
    pub hb_back_addrs: EntityAddrVec,
    /// Heartbeat addresses on the client network.
    pub hb_front_addrs: EntityAddrVec,
    /// The OSD's UUID.
    pub uuid: Uuid,
    /// The OSD's history.
    pub info: OsdInfo,
    /// The OSD's extended history.
    pub xinfo: OsdXInfo,
}

/// An OSD's history in epochs (`osd_info_t`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OsdInfo {
    /// Start of the last clean interval.
    pub last_clean_begin: Epoch,
    /// End of the last clean interval.
    pub last_clean_end: Epoch,
    /// The epoch in which the OSD last came up.
    pub up_from: Epoch,
    /// The latest epoch through which the OSD is known to have been up.
    pub up_thru: Epoch,
    /// The epoch in which the OSD last went down.
    pub down_at: Epoch,
    /// The epoch in which the OSD was declared lost.
    pub lost_at: Epoch,
}

impl Encode for OsdInfo {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.put(&self.last_clean_begin);
        w.put(&self.last_clean_end);
        w.put(&self.up_from);
        w.put(&self.up_thru);
        w.put(&self.down_at);
        w.put(&self.lost_at);
    }
}

impl Decode for OsdInfo {
    const MIN_LEN: usize = 25;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.skip(1)?; // a version without a length, so the format can never be extended
        Ok(Self {
            last_clean_begin: r.get()?,
            last_clean_end: r.get()?,
            up_from: r.get()?,
            up_thru: r.get()?,
            down_at: r.get()?,
            lost_at: r.get()?,
        })
    }
}

/// An OSD's extended history (`osd_xinfo_t`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OsdXInfo {
    /// The time at which the OSD last went down.
    pub down_stamp: UTime,
    /// The estimated probability that a failure report about the OSD is false, in 1/(2³² − 1).
    pub laggy_probability: u32,
    /// The estimated duration of an unresponsive phase, in seconds.
    pub laggy_interval_s: u32,
    /// The OSD's feature bits when it came up.
    pub features: u64,
    /// The weight before the OSD was marked out automatically.
    pub old_weight: u32,
    /// The time of the OSD's last scrub for purged snapshots.
    pub last_purged_snaps_scrub: UTime,
    /// The epoch in which the OSD was confirmed dead.
    pub dead_epoch: Epoch,
}

impl Encode for OsdXInfo {
    fn encode(&self, w: &mut Writer) {
        w.versioned(4, 1, |w| {
            w.put(&self.down_stamp);
            w.u32(self.laggy_probability);
            w.u32(self.laggy_interval_s);
            w.u64(self.features);
            w.u32(self.old_weight);
            w.put(&self.last_purged_snaps_scrub);
            w.put(&self.dead_epoch);
        });
    }
}

impl Decode for OsdXInfo {
    const MIN_LEN: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("osd_xinfo_t", 4, 4, |r, _| {
            Ok(Self {
                down_stamp: r.get()?,
                laggy_probability: r.u32()?,
                laggy_interval_s: r.u32()?,
                features: r.u64()?,
                old_weight: r.u32()?,
                last_purged_snaps_scrub: r.get()?,
                dead_epoch: r.get()?,
            })
        })
    }
}
