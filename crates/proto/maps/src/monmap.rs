//! The monitor map (`MonMap` in `src/mon/MonMap.h`).
//!
//! | version | written by | adds |
//! |---|---|---|
//! | 6 | 14 | ranks |
//! | 7 | 14 | the oldest release |
//! | 8 | 16 | removed ranks, election strategy |
//! | 9 | 16 to 19 | stretch mode |
//! | 10 | 20 | kinds of keys |

use std::collections::{BTreeMap, BTreeSet};

use loligo_wire::{
    Decode, DecodeError, Encode, EntityAddr, EntityAddrVec, Epoch, Reader, UTime, Uuid, Writer,
};

use crate::Name;

/// The monitors of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonMap {
    /// The cluster.
    pub fsid: Uuid,
    /// The map's version; 0 before the first quorum.
    pub epoch: Epoch,
    /// The time at which this epoch was created.
    pub last_changed: UTime,
    /// The time at which the cluster was created.
    pub created: UTime,
    /// Features that every monitor has, permanently (`mon_feature_t`).
    pub persistent_features: u64,
    /// Features that every monitor has at present.
    pub optional_features: u64,
    /// The monitors, by name.
    pub mons: BTreeMap<Name, MonInfo>,
    /// The monitors' names by rank. Connections and quorums identify monitors by rank.
    pub ranks: Vec<Name>,
    /// The oldest release that a monitor may run.
    pub min_mon_release: u8,
    /// Ranks removed since the last election.
    pub removed_ranks: BTreeSet<u32>,
    /// The election strategy: 1 classic, 2 excludes `disallowed_leaders`, 3 by connectivity.
    pub strategy: u8,
    /// Monitors that must not become leader.
    pub disallowed_leaders: BTreeSet<Name>,
    /// Whether stretch mode, for clusters on two sites, is enabled.
    pub stretch_mode_enabled: bool,
    /// The monitor that breaks ties between the sites.
    pub tiebreaker_mon: Name,
    /// Monitors of a site that is marked down.
    pub stretch_marked_down_mons: BTreeSet<Name>,
    /// The ciphers of keys; `None` before release 20, which introduced a second cipher.
    pub auth: Option<MonAuth>,
}

/// The ciphers of a cluster's keys: 1 is `aes`, 2 is `aes256k` (release 20).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonAuth {
    /// The number of times that all keys were renewed.
    pub epoch: Epoch,
    /// The cipher of the services' own keys.
    pub service_cipher: u32,
    /// The ciphers that the cluster accepts.
    pub allowed_ciphers: Vec<u32>,
    /// The cipher of new keys.
    pub preferred_cipher: u32,
}

/// One monitor (`mon_info_t`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonInfo {
    /// The monitor's addresses.
    pub public_addrs: EntityAddrVec,
    /// Clients prefer monitors with a lower number.
    pub priority: u16,
    /// The relative frequency with which clients choose this monitor among those of the same priority.
    /// Monitors of weight 0 are chosen with equal frequency.
    pub weight: u16,
    /// The monitor's location, as CRUSH types and bucket names.
    pub crush_location: BTreeMap<Name, Name>,
    /// The time at which the monitor was added (release 20).
    pub time_added: UTime,
}

impl MonMap {
    /// Creates a map for a new cluster: epoch 1, ranks in the given order, the features of release 16.
    pub fn new(fsid: Uuid, created: UTime, mons: impl IntoIterator<Item = (Name, EntityAddrVec)>) -> Self {
        /// kraken, luminous, mimic, osdmap-prune, nautilus, octopus, pacific, elector-pinging.
        const PACIFIC_FEATURES: u64 = 0xff;
        const PACIFIC: u8 = 16;
        let mut map = Self {
            fsid,
            epoch: Epoch(1),
            last_changed: created,
            created,
            persistent_features: PACIFIC_FEATURES,
            min_mon_release: PACIFIC,
            strategy: 1,
            ..Self::default()
        };
        for (name, public_addrs) in mons {
            map.ranks.push(name.clone());
            map.mons.insert(name, MonInfo { public_addrs, ..MonInfo::default() });
        }
        map
    }

    /// The number of monitors.
    pub fn len(&self) -> usize {
        self.ranks.len()
    }

    /// Whether there are no monitors.
    pub fn is_empty(&self) -> bool {
        self.ranks.is_empty()
    }

    /// The monitor with this rank.
    pub fn mon(&self, rank: usize) -> Option<(&Name, &MonInfo)> {
        self.mons.get_key_value(self.ranks.get(rank)?)
    }

    /// The rank of the monitor with this name.
    pub fn rank_by_name(&self, name: &[u8]) -> Option<usize> {
        self.ranks.iter().position(|n| n.as_bytes() == name)
    }

    /// The rank of the monitor with this address.
    pub fn rank_by_addr(&self, addr: &EntityAddr) -> Option<usize> {
        let is_it = |info: &MonInfo| info.public_addrs.0.contains(addr);
        self.ranks.iter().position(|name| self.mons.get(name).is_some_and(is_it))
    }

    /// The monitors' msgr2 addresses, by rank.
    pub fn msgr2_addrs(&self) -> impl Iterator<Item = (usize, EntityAddr)> {
        let addr = |(rank, name)| Some((rank, *self.mons.get(name)?.public_addrs.msgr2()?));
        self.ranks.iter().enumerate().filter_map(addr)
    }

    fn encode_body(&self, w: &mut Writer) {
        w.put(&self.fsid);
        w.put(&self.epoch);
        w.put(&self.last_changed);
        w.put(&self.created);
        encode_features(self.persistent_features, w);
        encode_features(self.optional_features, w);
        w.count(self.mons.len());
        for (name, info) in &self.mons {
            w.put(name);
            info.encode(name, self.auth.is_some() || !info.time_added.is_zero(), w);
        }
        w.put(&self.ranks);
        w.u8(self.min_mon_release);
        w.put(&self.removed_ranks);
        w.u8(self.strategy);
        w.put(&self.disallowed_leaders);
        w.bool(self.stretch_mode_enabled);
        w.put(&self.tiebreaker_mon);
        w.put(&self.stretch_marked_down_mons);
        if let Some(auth) = &self.auth {
            w.put(&auth.epoch);
            w.u32(auth.service_cipher);
            w.put(&auth.allowed_ciphers);
            w.u32(auth.preferred_cipher);
        }
    }

    fn decode_body(r: &mut Reader<'_>, version: u8) -> Result<Self, DecodeError> {
        let mut map = Self {
            fsid: r.get()?,
            epoch: r.get()?,
            last_changed: r.get()?,
            created: r.get()?,
            persistent_features: decode_features(r)?,
            optional_features: decode_features(r)?,
            strategy: 1,
            ..Self::default()
        };
        let n = r.count(10)?;
        map.mons = (0..n).map(|_| Ok((r.get()?, MonInfo::decode(r)?))).collect::<Result<_, _>>()?;
        map.ranks = r.get()?;
        if version >= 7 {
            map.min_mon_release = r.u8()?;
        }
        if version >= 8 {
            map.removed_ranks = r.get()?;
            map.strategy = r.u8()?;
            map.disallowed_leaders = r.get()?;
        }
        if version >= 9 {
            map.stretch_mode_enabled = r.bool()?;
            map.tiebreaker_mon = r.get()?;
            map.stretch_marked_down_mons = r.get()?;
        }
        if version >= 10 {
            map.auth = Some(MonAuth {
                epoch: r.get()?,
                service_cipher: r.u32()?,
                allowed_ciphers: r.get()?,
                preferred_cipher: r.u32()?,
            });
        }
        match map.ranks.iter().find(|name| !map.mons.contains_key(*name)) {
            Some(_) => Err(DecodeError::Invalid { what: "monitor's rank", value: map.ranks.len() as u64 }),
            None => Ok(map),
        }
    }
}

/// The encoding of release 16 (version 9), or, with [`MonMap::auth`], that of release 20. All releases
/// decode both.
impl Encode for MonMap {
    fn encode(&self, w: &mut Writer) {
        w.versioned(if self.auth.is_some() { 10 } else { 9 }, 6, |w| self.encode_body(w));
    }
}

impl Decode for MonMap {
    const MIN_LEN: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("MonMap", 6, 10, Self::decode_body)
    }
}

impl MonInfo {
    fn encode(&self, name: &Name, with_time: bool, w: &mut Writer) {
        // A map may combine an older form of its own with newer forms of its monitors.
        let with_time = with_time || self.time_added != UTime::default();
        w.versioned(if with_time { 6 } else { 5 }, 1, |w| {
            w.put(name);
            w.put(&self.public_addrs);
            w.u16(self.priority);
            w.u16(self.weight);
            w.put(&self.crush_location);
            if with_time {
                w.put(&self.time_added);
            }
        });
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("mon_info_t", 3, 6, |r, version| {
            r.get::<Name>()?; // equal to the key of `mons`
            let mut info = Self { public_addrs: r.get()?, priority: r.u16()?, ..Self::default() };
            if version >= 4 {
                info.weight = r.u16()?;
            }
            if version >= 5 {
                info.crush_location = r.get()?;
            }
            if version >= 6 {
                info.time_added = r.get()?;
            }
            Ok(info)
        })
    }
}

/// `mon_feature_t`: a versioned struct around the bits.
fn encode_features(features: u64, w: &mut Writer) {
    w.versioned(1, 1, |w| w.u64(features));
}

fn decode_features(r: &mut Reader<'_>) -> Result<u64, DecodeError> {
    r.versioned("mon_feature_t", 1, 1, |r, _| r.u64())
}
