//! All file systems of a cluster: [`FsMap`] (`src/mds/FSMap.cc`) for daemons and administrators, and
//! [`FsMapUser`] for clients that know the name of theirs.

use std::collections::BTreeMap;

use bytes::Bytes;
use loligo_wire::{Decode, DecodeError, Encode, Epoch, Fscid, GlobalId, Reader, Writer};

use crate::Name;
use crate::compat::CompatSet;
use crate::mdsmap::{MdsInfo, MdsMap};

/// The names and numbers of file systems.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FsMapUser {
    /// The map's version.
    pub epoch: Epoch,
    /// The file system of clients that name none; [`Fscid::NONE`] if there is none.
    pub legacy_fscid: Fscid,
    /// The file systems.
    pub filesystems: Vec<FsName>,
}

/// The name and number of a file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FsName {
    /// The number.
    pub fscid: Fscid,
    /// The name.
    pub name: Name,
}

impl FsMapUser {
    /// The number of the file system with this name.
    pub fn by_name(&self, name: &[u8]) -> Option<Fscid> {
        self.filesystems.iter().find(|fs| fs.name.as_bytes() == name).map(|fs| fs.fscid)
    }

    /// The name of the file system with this number.
    pub fn name(&self, fscid: Fscid) -> Option<&Name> {
        self.filesystems.iter().find(|fs| fs.fscid == fscid).map(|fs| &fs.name)
    }
}

impl Encode for FsName {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.fscid);
            w.put(&self.name);
        });
    }
}

impl Decode for FsName {
    const MIN_LEN: usize = 14;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("fs_info_t", 1, 1, |r, _| Ok(Self { fscid: r.get()?, name: r.get()? }))
    }
}

impl Encode for FsMapUser {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.epoch);
            w.put(&self.legacy_fscid);
            w.put(&self.filesystems);
        });
    }
}

impl Decode for FsMapUser {
    const MIN_LEN: usize = 18;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("FSMapUser", 1, 1, |r, _| {
            Ok(Self { epoch: r.get()?, legacy_fscid: r.get()?, filesystems: r.get()? })
        })
    }
}

/// All file systems and metadata servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsMap {
    /// The version of the encoding, [`FsMap::OLDEST`] or later.
    pub encoding: u8,
    /// The map's version.
    pub epoch: Epoch,
    /// The number of the next file system.
    pub next_fscid: u64,
    /// The file system of clients that name none; [`Fscid::NONE`] if there is none.
    pub legacy_fscid: Fscid,
    /// The features of the metadata of new file systems.
    pub compat: CompatSet,
    /// Whether several file systems are allowed.
    pub enable_multiple: bool,
    /// The file systems.
    pub filesystems: Vec<Filesystem>,
    /// The file system of each server; [`Fscid::NONE`] for one that stands by.
    pub mds_roles: BTreeMap<GlobalId, Fscid>,
    /// The servers that stand by.
    pub standby: BTreeMap<GlobalId, MdsInfo>,
    /// The epoch in which each of them last changed.
    pub standby_epochs: BTreeMap<GlobalId, Epoch>,
    /// Whether several file systems were ever allowed (version 7).
    pub ever_enabled_multiple: bool,
    /// What later versions add, in its encoded form.
    pub additions: Bytes,
}

/// A file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filesystem {
    /// The number.
    pub fscid: Fscid,
    /// Its metadata servers and settings.
    pub mds_map: MdsMap,
    /// The clusters that it is mirrored to: a struct in its encoded form (version 2).
    pub mirror_info: Option<Bytes>,
}

impl Default for FsMap {
    fn default() -> Self {
        Self {
            encoding: 7,
            epoch: Epoch(0),
            next_fscid: 1,
            legacy_fscid: Fscid::NONE,
            compat: CompatSet::default(),
            enable_multiple: true,
            filesystems: Vec::new(),
            mds_roles: BTreeMap::new(),
            standby: BTreeMap::new(),
            standby_epochs: BTreeMap::new(),
            ever_enabled_multiple: false,
            additions: Bytes::new(),
        }
    }
}

impl FsMap {
    /// The oldest version of the encoding that is read.
    pub const OLDEST: u8 = 6;
    /// The newest version of the encoding that is known.
    pub const NEWEST: u8 = 8;

    /// The file system with this name.
    pub fn by_name(&self, name: &[u8]) -> Option<&Filesystem> {
        self.filesystems.iter().find(|fs| fs.mds_map.fs_name.as_bytes() == name)
    }

    /// The file system with this number.
    pub fn get(&self, fscid: Fscid) -> Option<&Filesystem> {
        self.filesystems.iter().find(|fs| fs.fscid == fscid)
    }

    /// The map for clients.
    pub fn for_users(&self) -> FsMapUser {
        let name = |fs: &Filesystem| FsName { fscid: fs.fscid, name: fs.mds_map.fs_name.clone() };
        FsMapUser {
            epoch: self.epoch,
            legacy_fscid: self.legacy_fscid,
            filesystems: self.filesystems.iter().map(name).collect(),
        }
    }
}

impl Encode for FsMap {
    fn encode(&self, w: &mut Writer) {
        let version = self.encoding.clamp(Self::OLDEST, Self::NEWEST);
        w.versioned(version, 6, |w| {
            w.put(&self.epoch);
            w.u64(self.next_fscid);
            w.put(&self.legacy_fscid);
            w.put(&self.compat);
            w.bool(self.enable_multiple);
            w.put(&self.filesystems);
            w.put(&self.mds_roles);
            w.put(&self.standby);
            w.put(&self.standby_epochs);
            if version >= 7 {
                w.bool(self.ever_enabled_multiple);
                w.raw(&self.additions);
            }
        });
    }
}

impl Decode for FsMap {
    const MIN_LEN: usize = 75;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("FSMap", Self::OLDEST, Self::NEWEST, |r, version| {
            let mut map = Self {
                encoding: version.min(Self::NEWEST),
                epoch: r.get()?,
                next_fscid: r.u64()?,
                legacy_fscid: r.get()?,
                compat: r.get()?,
                enable_multiple: r.bool()?,
                filesystems: r.get()?,
                mds_roles: r.get()?,
                standby: r.get()?,
                standby_epochs: r.get()?,
                ..Self::default()
            };
            if version >= 7 {
                map.ever_enabled_multiple = r.bool()?;
                map.additions = Bytes::copy_from_slice(r.rest());
            }
            Ok(map)
        })
    }
}

impl Encode for Filesystem {
    fn encode(&self, w: &mut Writer) {
        w.versioned(if self.mirror_info.is_some() { 2 } else { 1 }, 1, |w| {
            w.put(&self.fscid);
            w.sized(|w| w.put(&self.mds_map));
            if let Some(mirror_info) = &self.mirror_info {
                w.raw(mirror_info);
            }
        });
    }
}

impl Decode for Filesystem {
    const MIN_LEN: usize = 14;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("Filesystem", 1, 2, |r, version| {
            let fscid = r.get()?;
            let mds_map = r.sized()?.get()?;
            let mirror_info = (version >= 2).then(|| Bytes::copy_from_slice(r.rest()));
            Ok(Self { fscid, mds_map, mirror_info })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filesystem(fscid: i32, name: &str) -> Filesystem {
        let mds_map = MdsMap { fs_name: name.into(), ..MdsMap::default() };
        Filesystem { fscid: Fscid(fscid), mds_map, mirror_info: None }
    }

    #[test]
    fn names_lead_to_numbers() {
        let map = FsMap { filesystems: vec![filesystem(1, "a"), filesystem(2, "b")], ..FsMap::default() };
        let users = map.for_users();
        assert_eq!((users.by_name(b"b"), users.by_name(b"c")), (Some(Fscid(2)), None));
        assert_eq!(users.name(Fscid(1)), Some(&"a".into()));
        assert_eq!(map.by_name(b"a").map(|fs| fs.fscid), Some(Fscid(1)));
        assert_eq!(map.get(Fscid(2)).map(|fs| &fs.mds_map.fs_name), Some(&"b".into()));
        let bytes = users.to_bytes();
        let fs = b"\x01\x01\x09\0\0\0\x01\0\0\0\x01\0\0\0a";
        assert_eq!(&bytes[6..33], [&b"\0\0\0\0\xff\xff\xff\xff\x02\0\0\0"[..], fs].concat());
        assert_eq!(FsMapUser::from_bytes(&bytes), Ok(users));
    }

    #[test]
    fn each_version_is_read_back() {
        for encoding in FsMap::OLDEST..=FsMap::NEWEST {
            let mut second = filesystem(2, "b");
            second.mirror_info = Some(Bytes::from_static(b"\x01\x01\x01\0\0\0\0"));
            let map = FsMap {
                encoding,
                filesystems: vec![filesystem(1, "a"), second],
                mds_roles: [(GlobalId(5), Fscid::NONE)].into(),
                standby: [(GlobalId(5), MdsInfo::default())].into(),
                standby_epochs: [(GlobalId(5), Epoch(3))].into(),
                ..FsMap::default()
            };
            let bytes = map.to_bytes();
            assert_eq!(&bytes[..2], [encoding, 6]);
            assert_eq!(FsMap::from_bytes(&bytes), Ok(map));
            assert!(FsMap::from_bytes(&bytes[..bytes.len() - 1]).is_err());
        }
        let shortest = FsMap { encoding: FsMap::OLDEST, ..FsMap::default() };
        assert!(shortest.to_bytes().len() >= FsMap::MIN_LEN, "{}", shortest.to_bytes().len());
    }
}
