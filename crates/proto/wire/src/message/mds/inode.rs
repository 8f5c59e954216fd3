//! An inode as replies describe it (`InodeStat` in `src/messages/MClientReply.h`), and its parts.

use std::collections::BTreeMap;

use az::SaturatingAs as _;
use bytes::Bytes;

use super::{FragTree, Quota};
use crate::{CapId, Caps, Decode, DecodeError, Encode, Ino, Name, PoolId, Reader, SnapId, UTime, Writer};

/// The distribution of a file's data over objects (`ceph_file_layout_legacy`). The pool's namespace
/// travels apart from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileLayout {
    /// Bytes in each object before the next object's turn.
    pub stripe_unit: u32,
    /// The number of objects that take turns.
    pub stripe_count: u32,
    /// Bytes in each object.
    pub object_size: u32,
    /// The pool; −1 in a request: the server chooses.
    pub pool: PoolId,
}

impl FileLayout {
    /// The length of the encoding, in bytes.
    pub const ENCODED_LEN: usize = 28;
}

impl Encode for FileLayout {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.stripe_unit);
        w.u32(self.stripe_count);
        w.u32(self.object_size);
        w.zeros(12); // three fields that were never used
        w.i32(self.pool.0.saturating_as::<i32>());
    }
}

impl Decode for FileLayout {
    const MIN_LEN: usize = Self::ENCODED_LEN;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (stripe_unit, stripe_count, object_size) = (r.u32()?, r.u32()?, r.u32()?);
        r.skip(12)?;
        Ok(Self { stripe_unit, stripe_count, object_size, pool: PoolId(r.i32()?.into()) })
    }
}

/// The capability that accompanies an inode in a reply (`ceph_mds_reply_cap`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyCap {
    /// The capabilities issued; none if the server gave no capability.
    pub caps: Caps,
    /// The capabilities that the server believes the client wants.
    pub wanted: Caps,
    /// The capability's number.
    pub cap_id: CapId,
    /// The number of the issue.
    pub seq: u32,
    /// The number of the capability's migrations between servers.
    pub mseq: u32,
    /// The inode's snapshot realm.
    pub realm: Ino,
    /// [`ReplyCap::AUTH`], [`ReplyCap::RELEASE`].
    pub flags: u8,
}

impl ReplyCap {
    /// The sender is the authority for the inode.
    pub const AUTH: u8 = 1;
    /// The client's previous capability was released.
    pub const RELEASE: u8 = 2;

    /// Whether the sender is the authority for the inode.
    pub fn is_auth(&self) -> bool {
        self.flags & Self::AUTH != 0
    }
}

impl Encode for ReplyCap {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.caps);
        w.put(&self.wanted);
        w.put(&self.cap_id);
        w.u32(self.seq);
        w.u32(self.mseq);
        w.put(&self.realm);
        w.u8(self.flags);
    }
}

impl Decode for ReplyCap {
    const MIN_LEN: usize = 33;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            caps: r.get()?,
            wanted: r.get()?,
            cap_id: r.get()?,
            seq: r.u32()?,
            mseq: r.u32()?,
            realm: r.get()?,
            flags: r.u8()?,
        })
    }
}

/// The extended attributes of an inode, as the blob in replies and in capability messages holds them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Xattrs(pub BTreeMap<Name, Bytes>);

impl Xattrs {
    /// Decodes a blob. An empty blob means that the sender sent no attributes; a blob of no attributes
    /// has a count.
    pub fn from_blob(blob: &[u8]) -> Result<Option<Self>, DecodeError> {
        if blob.is_empty() { Ok(None) } else { Self::from_bytes(blob).map(Some) }
    }
}

impl Encode for Xattrs {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.0);
    }
}

impl Decode for Xattrs {
    const MIN_LEN: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.get().map(Self)
    }
}

/// The state of an inode.
///
/// | version | adds | newest of release |
/// |---|---|---|
/// | 2 | `dir_pin` | |
/// | 3 | `snap_btime` | |
/// | 4 | `rsnaps` | |
/// | 5 | `snap_metadata` | |
/// | 6 | `fscrypt` | 16 |
/// | 7 | `fscrypt_auth`, `fscrypt_file` | 18 |
/// | 8 | `optmetadata` | 20 |
/// | 9 | `subvolume_id` | |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InodeStat {
    /// The version of the encoding, 1 to [`InodeStat::NEWEST`]; fields of later versions are not written.
    pub encoding: u8,
    /// The inode's number.
    pub ino: Ino,
    /// The snapshot; [`SnapId::HEAD`] for the current state.
    pub snapid: SnapId,
    /// The device number of a device file.
    pub rdev: u32,
    /// Increases with each change of the inode. Odd while a change is not yet durable.
    pub version: u64,
    /// Increases with each change of the extended attributes.
    pub xattr_version: u64,
    /// The capability.
    pub cap: ReplyCap,
    /// The layout of the file; of a directory, the layout of new files in it.
    pub layout: FileLayout,
    /// The namespace of the layout's pool.
    pub pool_ns: Name,
    /// The time of the last change of anything.
    pub ctime: UTime,
    /// The time of the last change of the data.
    pub mtime: UTime,
    /// The time of the last access.
    pub atime: UTime,
    /// Counts the changes that set times back.
    pub time_warp_seq: u32,
    /// The size in bytes.
    pub size: u64,
    /// The size up to which a client may write without asking.
    pub max_size: u64,
    /// The size of the last truncation.
    pub truncate_size: u64,
    /// The number of the last truncation.
    pub truncate_seq: u32,
    /// File type and permissions.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The number of links.
    pub nlink: u32,
    /// The number of files in a directory.
    pub nfiles: i64,
    /// The number of directories in a directory.
    pub nsubdirs: i64,
    /// Recursive statistics of a directory.
    pub recursive: RecursiveStat,
    /// The division of a directory into fragments.
    pub fragtree: FragTree,
    /// The target of a symbolic link.
    pub symlink: Vec<u8>,
    /// The hash function of a directory's names (`CEPH_STR_HASH_*`).
    pub dir_hash: u8,
    /// The extended attributes, to be decoded with [`Xattrs::from_blob`].
    pub xattrs: Bytes,
    /// The version of inline data; [`InodeStat::NOT_INLINE`] for none.
    pub inline_version: u64,
    /// The inline data.
    pub inline_data: Bytes,
    /// The quota that is set on this directory.
    pub quota: Quota,
    /// The time of creation.
    pub btime: UTime,
    /// Counts changes (for NFS).
    pub change_attr: u64,
    /// The rank that a directory is pinned to; −1 for none.
    pub dir_pin: i32,
    /// The time of creation of the snapshot.
    pub snap_btime: UTime,
    /// What was stored with the snapshot.
    pub snap_metadata: BTreeMap<Name, Name>,
    /// Whether the inode is encrypted.
    pub fscrypt: bool,
    /// The context of the encryption.
    pub fscrypt_auth: Bytes,
    /// The encrypted size.
    pub fscrypt_file: Bytes,
    /// Optional metadata, in its encoded form.
    pub optmetadata: Bytes,
    /// The subvolume that contains the inode.
    pub subvolume_id: u64,
}

/// Statistics of a directory and everything below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecursiveStat {
    /// Bytes in files.
    pub rbytes: i64,
    /// Files.
    pub rfiles: i64,
    /// Directories, with this one.
    pub rsubdirs: i64,
    /// Snapshots (version 4 and up).
    pub rsnaps: i64,
    /// The newest change.
    pub rctime: UTime,
}

/// Optional metadata of an inode without any: a versioned struct with an empty list.
const NO_OPTMETADATA: &[u8] = &[1, 1, 4, 0, 0, 0, 0, 0, 0, 0];

impl Default for InodeStat {
    fn default() -> Self {
        Self {
            encoding: 7,
            ino: Ino(0),
            snapid: SnapId::HEAD,
            rdev: 0,
            version: 0,
            xattr_version: 0,
            cap: ReplyCap::default(),
            layout: FileLayout::default(),
            pool_ns: Name::default(),
            ctime: UTime::default(),
            mtime: UTime::default(),
            atime: UTime::default(),
            time_warp_seq: 0,
            size: 0,
            max_size: 0,
            truncate_size: u64::MAX,
            truncate_seq: 0,
            mode: 0,
            uid: 0,
            gid: 0,
            nlink: 0,
            nfiles: 0,
            nsubdirs: 0,
            recursive: RecursiveStat::default(),
            fragtree: FragTree::default(),
            symlink: Vec::new(),
            dir_hash: 0,
            xattrs: Bytes::new(),
            inline_version: Self::NOT_INLINE,
            inline_data: Bytes::new(),
            quota: Quota::default(),
            btime: UTime::default(),
            change_attr: 0,
            dir_pin: -1,
            snap_btime: UTime::default(),
            snap_metadata: BTreeMap::new(),
            fscrypt: false,
            fscrypt_auth: Bytes::new(),
            fscrypt_file: Bytes::new(),
            optmetadata: Bytes::from_static(NO_OPTMETADATA),
            subvolume_id: 0,
        }
    }
}

impl InodeStat {
    /// The newest version of the encoding.
    pub const NEWEST: u8 = 9;
    /// The version of inline data that a file without them has.
    pub const NOT_INLINE: u64 = u64::MAX;

    /// Writes the numbers up to the link count.
    fn encode_numbers(&self, w: &mut Writer) {
        w.put(&self.ino);
        w.put(&self.snapid);
        w.u32(self.rdev);
        w.u64(self.version);
        w.u64(self.xattr_version);
        w.put(&self.cap);
        w.put(&self.layout);
        w.put(&self.ctime);
        w.put(&self.mtime);
        w.put(&self.atime);
        w.u32(self.time_warp_seq);
        w.u64(self.size);
        w.u64(self.max_size);
        w.u64(self.truncate_size);
        w.u32(self.truncate_seq);
        w.u32(self.mode);
        w.u32(self.uid);
        w.u32(self.gid);
        w.u32(self.nlink);
    }

    /// Writes the rest of version 1.
    fn encode_contents(&self, w: &mut Writer) {
        w.i64(self.nfiles);
        w.i64(self.nsubdirs);
        w.i64(self.recursive.rbytes);
        w.i64(self.recursive.rfiles);
        w.i64(self.recursive.rsubdirs);
        w.put(&self.recursive.rctime);
        w.put(&self.fragtree);
        w.blob(&self.symlink);
        w.u8(self.dir_hash);
        w.zeros(7); // the rest of the directory's layout, unused
        w.put(&self.xattrs);
        w.u64(self.inline_version);
        w.put(&self.inline_data);
        w.put(&self.quota);
        w.put(&self.pool_ns);
        w.put(&self.btime);
        w.u64(self.change_attr);
    }

    /// Writes what versions 2 to `version` added.
    fn encode_additions(&self, version: u8, w: &mut Writer) {
        if version >= 2 {
            w.i32(self.dir_pin);
        }
        if version >= 3 {
            w.put(&self.snap_btime);
        }
        if version >= 4 {
            w.i64(self.recursive.rsnaps);
        }
        if version >= 5 {
            w.put(&self.snap_metadata);
        }
        if version >= 6 {
            w.bool(self.fscrypt);
        }
        if version >= 7 {
            w.put(&self.fscrypt_auth);
            w.put(&self.fscrypt_file);
        }
        if version >= 8 {
            w.raw(&self.optmetadata);
        }
        if version >= 9 {
            w.u64(self.subvolume_id);
        }
    }

    fn decode_numbers(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        self.ino = r.get()?;
        self.snapid = r.get()?;
        self.rdev = r.u32()?;
        self.version = r.u64()?;
        self.xattr_version = r.u64()?;
        self.cap = r.get()?;
        self.layout = r.get()?;
        self.ctime = r.get()?;
        self.mtime = r.get()?;
        self.atime = r.get()?;
        self.time_warp_seq = r.u32()?;
        self.size = r.u64()?;
        self.max_size = r.u64()?;
        self.truncate_size = r.u64()?;
        self.truncate_seq = r.u32()?;
        self.mode = r.u32()?;
        self.uid = r.u32()?;
        self.gid = r.u32()?;
        self.nlink = r.u32()?;
        Ok(())
    }

    fn decode_contents(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        self.nfiles = r.i64()?;
        self.nsubdirs = r.i64()?;
        self.recursive.rbytes = r.i64()?;
        self.recursive.rfiles = r.i64()?;
        self.recursive.rsubdirs = r.i64()?;
        self.recursive.rctime = r.get()?;
        self.fragtree = r.get()?;
        self.symlink = r.blob()?.to_vec();
        self.dir_hash = r.u8()?;
        r.skip(7)?;
        self.xattrs = r.get()?;
        self.inline_version = r.u64()?;
        self.inline_data = r.get()?;
        self.quota = r.get()?;
        self.pool_ns = r.get()?;
        self.btime = r.get()?;
        self.change_attr = r.u64()?;
        Ok(())
    }

    fn decode_additions(&mut self, version: u8, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        if version >= 2 {
            self.dir_pin = r.i32()?;
        }
        if version >= 3 {
            self.snap_btime = r.get()?;
        }
        if version >= 4 {
            self.recursive.rsnaps = r.i64()?;
        }
        if version >= 5 {
            self.snap_metadata = r.get()?;
        }
        if version >= 6 {
            self.fscrypt = r.bool()?;
        }
        if version >= 7 {
            self.fscrypt_auth = r.get()?;
            self.fscrypt_file = r.get()?;
        }
        if version >= 8 {
            self.optmetadata = take_struct(r)?;
        }
        if version >= 9 {
            self.subvolume_id = r.u64()?;
        }
        Ok(())
    }
}

/// Reads a versioned struct and returns its encoded form.
fn take_struct(r: &mut Reader<'_>) -> Result<Bytes, DecodeError> {
    let start = r.rest();
    r.skip(2)?;
    r.blob()?;
    Ok(Bytes::copy_from_slice(&start[..start.len() - r.remaining()]))
}

impl Encode for InodeStat {
    fn encode(&self, w: &mut Writer) {
        let version = self.encoding.clamp(1, Self::NEWEST);
        w.versioned(version, 1, |w| {
            self.encode_numbers(w);
            self.encode_contents(w);
            self.encode_additions(version, w);
        });
    }
}

impl Decode for InodeStat {
    const MIN_LEN: usize = 297;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("InodeStat", 1, Self::NEWEST, |r, version| {
            let mut stat = Self { encoding: version.min(Self::NEWEST), ..Self::default() };
            stat.decode_numbers(r)?;
            stat.decode_contents(r)?;
            stat.decode_additions(version, r)?;
            Ok(stat)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(encoding: u8) -> InodeStat {
        let mut fragtree = FragTree::default();
        fragtree.split(super::super::Frag::ROOT, 1);
        let xattrs = Xattrs(BTreeMap::from([("user.a".into(), Bytes::from_static(b"\xff"))])).to_bytes();
        InodeStat {
            encoding,
            ino: Ino(0x100_0000_0001),
            version: 7,
            cap: ReplyCap {
                caps: "pAsLsXsFscr".parse().expect("capabilities"),
                cap_id: CapId(9),
                realm: Ino::ROOT,
                flags: ReplyCap::AUTH,
                ..ReplyCap::default()
            },
            layout: FileLayout {
                stripe_unit: 1 << 22,
                stripe_count: 1,
                object_size: 1 << 22,
                pool: PoolId(2),
            },
            mode: 0o100_644,
            symlink: b"\xfe".to_vec(),
            fragtree,
            xattrs,
            ..InodeStat::default()
        }
    }

    #[test]
    fn each_version_is_read_back() {
        for encoding in 1..=InodeStat::NEWEST {
            let stat = sample(encoding);
            let bytes = stat.to_bytes();
            assert_eq!((bytes[0], bytes[1]), (encoding, 1));
            assert!(bytes.len() >= InodeStat::MIN_LEN, "{}", bytes.len());
            assert_eq!(InodeStat::from_bytes(&bytes), Ok(stat));
        }
    }

    /// Goal: the shortest encoding is not longer than the bound that limits what a count can claim.
    #[test]
    fn the_shortest_encoding_is_not_below_the_bound() {
        let shortest = InodeStat { encoding: 1, ..InodeStat::default() };
        assert!(shortest.to_bytes().len() >= InodeStat::MIN_LEN, "{}", shortest.to_bytes().len());
    }

    #[test]
    fn what_a_newer_server_adds_is_skipped() {
        let mut w = Writer::new();
        w.versioned(11, 1, |w| {
            let stat = InodeStat { encoding: 9, ino: Ino(5), ..InodeStat::default() };
            w.raw(&stat.to_bytes()[6..]);
            w.raw(b"more");
        });
        let stat = InodeStat::from_bytes(&w.into_bytes()).expect("an inode");
        assert_eq!((stat.ino, stat.encoding), (Ino(5), 9));
    }

    #[test]
    fn attributes_are_told_from_none() {
        assert_eq!(Xattrs::from_blob(b""), Ok(None));
        assert_eq!(Xattrs::from_blob(&[0; 4]), Ok(Some(Xattrs::default())));
        let some = Xattrs::from_blob(&sample(7).xattrs).expect("attributes").expect("some");
        assert_eq!(some.0.get(&b"user.a"[..]), Some(&Bytes::from_static(b"\xff")));
    }

    proptest! {
        #[test]
        fn a_cut_encoding_is_an_error(encoding in 1..=InodeStat::NEWEST, at in any::<prop::sample::Index>()) {
            let bytes = sample(encoding).to_bytes();
            prop_assert!(InodeStat::from_bytes(&bytes[..at.index(bytes.len())]).is_err());
        }
    }
}
