//! The state of one OSD in an osdmap.

use loligo_wire::{Decode, DecodeError, Encode, EntityAddrVec, Epoch, Reader, UTime, Uuid, Writer};

/// What an OSD is doing (`CEPH_OSD_*` in `src/include/rados.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OsdState(pub u32);

impl OsdState {
    /// It exists.
    pub const EXISTS: Self = Self(1);
    /// It runs.
    pub const UP: Self = Self(1 << 1);
    /// It was taken out automatically.
    pub const AUTOOUT: Self = Self(1 << 2);
    /// It has never been in.
    pub const NEW: Self = Self(1 << 3);
    /// It has no space left.
    pub const FULL: Self = Self(1 << 4);
    /// It has little space left.
    pub const NEARFULL: Self = Self(1 << 5);
    /// It has too little space left to be backfilled.
    pub const BACKFILLFULL: Self = Self(1 << 6);
    /// Its data is lost and its number may be used again.
    pub const DESTROYED: Self = Self(1 << 7);
    /// It shall not come up.
    pub const NOUP: Self = Self(1 << 8);
    /// It was stopped on purpose.
    pub const STOP: Self = Self(1 << 12);

    /// Whether all of `other` is set.
    #[inline]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// With `other` set too.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// With `other` cleared.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// With `other` turned over, as incrementals change states.
    pub const fn toggled(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }
}

impl Encode for OsdState {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.0);
    }
}

impl Decode for OsdState {
    const MIN_LEN: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.u32().map(Self)
    }
}

/// What a map knows of an OSD besides state, weight and affinity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Osd {
    /// Where clients reach it.
    pub client_addrs: EntityAddrVec,
    /// Where other OSDs reach it.
    pub cluster_addrs: EntityAddrVec,
    /// Where it listens for heartbeats on the cluster's network.
    pub hb_back_addrs: EntityAddrVec,
    /// Where it listens for heartbeats on the clients' network.
    pub hb_front_addrs: EntityAddrVec,
    /// What it calls itself.
    pub uuid: Uuid,
    /// Since when it has been doing what.
    pub info: OsdInfo,
    /// More of that.
    pub xinfo: OsdXInfo,
}

/// An OSD's history in epochs (`osd_info_t`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OsdInfo {
    /// Start of the last interval that ended cleanly.
    pub last_clean_begin: Epoch,
    /// Its end.
    pub last_clean_end: Epoch,
    /// When it last came up.
    pub up_from: Epoch,
    /// The last epoch that it is known to have been up through.
    pub up_thru: Epoch,
    /// When it last went down.
    pub down_at: Epoch,
    /// When it was declared lost.
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
        r.skip(1)?; // a version without a length, which can never be raised
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

/// More of an OSD's history (`osd_xinfo_t`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OsdXInfo {
    /// When it last went down.
    pub down_stamp: UTime,
    /// How probable it is that a failure report is a false one, in 1/(2³² − 1).
    pub laggy_probability: u32,
    /// How long it is unresponsive then, in seconds.
    pub laggy_interval_s: u32,
    /// The feature bits it came up with.
    pub features: u64,
    /// Its weight before it was taken out automatically.
    pub old_weight: u32,
    /// When it last looked for snapshots that were not purged.
    pub last_purged_snaps_scrub: UTime,
    /// When it was confirmed dead.
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
