//! Requests' operations and their arguments (`CEPH_MDS_OP_*`, `ceph_mds_request_args` in
//! `src/include/ceph_fs.h`).

use super::{FileLayout, Frag};
use crate::{Caps, DecodeError, Ino, Reader, SnapId, UTime, Writer};

/// The length of the arguments on the wire, in bytes; an operation's own are followed by zeros.
pub(super) const ARGS_LEN: usize = 56;

/// Attributes to change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// The permissions.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The time of the last change of the data.
    pub mtime: UTime,
    /// The time of the last access.
    pub atime: UTime,
    /// The size.
    pub size: u64,
    /// The size that the client believes the file has.
    pub old_size: u64,
    /// The attributes to change; see this type's constants.
    pub mask: u32,
    /// The time of creation.
    pub btime: UTime,
}

impl SetAttr {
    /// Change the permissions.
    pub const MODE: u32 = 1;
    /// Change the owner.
    pub const UID: u32 = 1 << 1;
    /// Change the group.
    pub const GID: u32 = 1 << 2;
    /// Change the time of the last change of the data.
    pub const MTIME: u32 = 1 << 3;
    /// Change the time of the last access.
    pub const ATIME: u32 = 1 << 4;
    /// Change the size.
    pub const SIZE: u32 = 1 << 5;
    /// Change the time of the last change of anything.
    pub const CTIME: u32 = 1 << 6;
    /// `mtime` is the present time.
    pub const MTIME_NOW: u32 = 1 << 7;
    /// `atime` is the present time.
    pub const ATIME_NOW: u32 = 1 << 8;
    /// Change the time of creation.
    pub const BTIME: u32 = 1 << 9;
    /// Clear set-user-id and set-group-id.
    pub const KILL_SGUID: u32 = 1 << 10;
    /// Change the context of the encryption.
    pub const FSCRYPT_AUTH: u32 = 1 << 11;
    /// Change the encrypted size.
    pub const FSCRYPT_FILE: u32 = 1 << 12;
    /// Clear set-user-id.
    pub const KILL_SUID: u32 = 1 << 13;
    /// Clear set-group-id.
    pub const KILL_SGID: u32 = 1 << 14;
}

/// How a file is opened or created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenArgs {
    /// See this type's constants.
    pub flags: u32,
    /// The permissions of a new file.
    pub mode: u32,
    /// The layout of a new file; 0 leaves each part to the server.
    pub stripe_unit: u32,
    /// As `stripe_unit`.
    pub stripe_count: u32,
    /// As `stripe_unit`.
    pub object_size: u32,
    /// The pool of a new file; −1 leaves it to the server.
    pub pool: i32,
    /// The parts of the inode that the client wants to cache.
    pub mask: Caps,
    /// With [`OpenArgs::TRUNC`]: the size that the client believes the file has.
    pub old_size: u64,
}

impl OpenArgs {
    /// Open for writing only.
    pub const WRONLY: u32 = 1;
    /// Open for reading and writing.
    pub const RDWR: u32 = 2;
    /// Create the file if it does not exist.
    pub const CREAT: u32 = 0o100;
    /// Fail if the file exists.
    pub const EXCL: u32 = 0o200;
    /// Set the size to 0.
    pub const TRUNC: u32 = 0o1000;
    /// Lazy I/O.
    pub const LAZY: u32 = 0o20_000;
    /// Fail unless it is a directory.
    pub const DIRECTORY: u32 = 0o200_000;
    /// Fail if it is a symbolic link.
    pub const NOFOLLOW: u32 = 0o400_000;
}

/// Which part of a directory is listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadDirArgs {
    /// The fragment.
    pub frag: Frag,
    /// The maximum number of entries; 0 leaves it to the server.
    pub max_entries: u32,
    /// The maximum size of the reply; 0 leaves it to the server.
    pub max_bytes: u32,
    /// [`ReadDirArgs::WANT_FLAGS`].
    pub flags: u16,
    /// The hash to begin at, if no name is given.
    pub offset_hash: u32,
}

impl ReadDirArgs {
    /// The reply is to say more than whether the end was reached.
    pub const WANT_FLAGS: u16 = 1;

    fn encode(&self, w: &mut Writer) {
        w.put(&self.frag);
        w.u32(self.max_entries);
        w.u32(self.max_bytes);
        w.u16(self.flags);
        w.u32(self.offset_hash);
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            frag: r.get()?,
            max_entries: r.u32()?,
            max_bytes: r.u32()?,
            flags: r.u16()?,
            offset_hash: r.u32()?,
        })
    }
}

/// A lock on a range of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileLock {
    /// The kind of lock; see this type's constants.
    pub rule: u8,
    /// What to do; see this type's constants.
    pub kind: u8,
    /// The owner on the client.
    pub owner: u64,
    /// The owner's process.
    pub pid: u64,
    /// The first byte.
    pub start: u64,
    /// The number of bytes; 0 reaches to the end of any file.
    pub length: u64,
    /// Whether the request waits for the lock.
    pub wait: bool,
}

impl FileLock {
    /// A rule: `fcntl`.
    pub const FCNTL: u8 = 1;
    /// A rule: `flock`.
    pub const FLOCK: u8 = 2;
    /// A rule: end the waiting of an `fcntl` request.
    pub const FCNTL_INTERRUPT: u8 = 3;
    /// A rule: end the waiting of a `flock` request.
    pub const FLOCK_INTERRUPT: u8 = 4;
    /// A kind: a shared lock.
    pub const SHARED: u8 = 1;
    /// A kind: an exclusive lock.
    pub const EXCLUSIVE: u8 = 2;
    /// A kind: unlock.
    pub const UNLOCK: u8 = 4;

    fn encode(&self, w: &mut Writer) {
        w.u8(self.rule);
        w.u8(self.kind);
        w.u64(self.owner);
        w.u64(self.pid);
        w.u64(self.start);
        w.u64(self.length);
        w.bool(self.wait);
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            rule: r.u8()?,
            kind: r.u8()?,
            owner: r.u64()?,
            pid: r.u64()?,
            start: r.u64()?,
            length: r.u64()?,
            wait: r.bool()?,
        })
    }
}

/// Arguments of LOOKUPINO and LOOKUPHASH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookupIno {
    /// The parts of the inode that are wanted.
    pub mask: Caps,
    /// The snapshot.
    pub snapid: SnapId,
    /// LOOKUPHASH: the directory.
    pub parent: Ino,
    /// LOOKUPHASH: the hash of the name.
    pub hash: u32,
}

impl LookupIno {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.mask);
        w.put(&self.snapid);
        w.put(&self.parent);
        w.u32(self.hash);
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { mask: r.get()?, snapid: r.get()?, parent: r.get()?, hash: r.u32()? })
    }
}

/// An operation and its arguments. `mask`: the parts of the inode that the client wants to be told of, as
/// shared capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOp {
    /// Finds a name in a directory.
    Lookup {
        /// The wanted parts.
        mask: Caps,
    },
    /// Describes an inode.
    GetAttr {
        /// The wanted parts.
        mask: Caps,
    },
    /// Finds an inode by its directory and the hash of its name.
    LookupHash(LookupIno),
    /// Finds the parent of a directory.
    LookupParent {
        /// The wanted parts.
        mask: Caps,
    },
    /// Finds an inode by its number.
    LookupIno(LookupIno),
    /// Finds the name of an inode.
    LookupName {
        /// The wanted parts.
        mask: Caps,
    },
    /// Returns the virtual extended attribute that `path2` names.
    GetVxattr,
    /// Only its releases of capabilities have an effect.
    Dummy,
    /// Sets the extended attribute that `path2` names to the request's data.
    SetXattr {
        /// See [`RequestOp::XATTR_CREATE`] and the constants after it.
        flags: u32,
        /// The osdmap in which the client has found the layout's pool.
        osdmap_epoch: u32,
    },
    /// Removes the extended attribute that `path2` names.
    RmXattr,
    /// Sets the layout of an empty file (used by kernels).
    SetLayout(FileLayout),
    /// Sets attributes.
    SetAttr(SetAttr),
    /// Sets or removes a lock.
    SetFileLock(FileLock),
    /// Finds a lock that conflicts with this one.
    GetFileLock(FileLock),
    /// Sets the layout of a directory (used by kernels).
    SetDirLayout(FileLayout),
    /// Creates a file that is not opened, or a device, a pipe or a socket.
    MkNod {
        /// The type and permissions.
        mode: u32,
        /// The device.
        rdev: u32,
    },
    /// Creates a second name for the inode `path2`.
    Link,
    /// Removes a name of a file.
    Unlink,
    /// Renames `path2` to `path`.
    Rename,
    /// Creates a directory.
    MkDir {
        /// The permissions.
        mode: u32,
    },
    /// Removes a directory.
    RmDir,
    /// Creates a symbolic link to `path2`.
    SymLink,
    /// Creates and opens a file.
    Create(OpenArgs),
    /// Opens a file.
    Open(OpenArgs),
    /// Lists a directory, from behind the name in `path2` on.
    ReadDir(ReadDirArgs),
    /// Finds a snapshot of a directory.
    LookupSnap {
        /// The wanted parts.
        mask: Caps,
    },
    /// Creates a snapshot; the request's data is a [`SnapPayload`](super::SnapPayload).
    MkSnap {
        /// Not used.
        mode: u32,
    },
    /// Removes a snapshot.
    RmSnap,
    /// Lists the snapshots of a directory.
    LsSnap(ReadDirArgs),
    /// Renames a snapshot.
    RenameSnap,
    /// Lists the names of a directory that differ between two snapshots.
    ReadDirSnapDiff {
        /// The part to list.
        args: ReadDirArgs,
        /// The other snapshot.
        other: SnapId,
    },
    /// Lists the blocks of a file that differ between two snapshots.
    FileBlockDiff {
        /// The object to begin at.
        scan_idx: u64,
        /// The maximum number of objects to compare.
        max_objects: u64,
    },
    /// A number that this version does not know.
    Other {
        /// The number.
        code: u32,
        /// The arguments.
        args: [u8; ARGS_LEN],
    },
}

impl Default for RequestOp {
    fn default() -> Self {
        Self::GetAttr { mask: Caps::NONE }
    }
}

/// The bit that numbers of changing operations have.
const WRITE: u32 = 0x1000;

impl RequestOp {
    /// SETXATTR: fail if the attribute exists.
    pub const XATTR_CREATE: u32 = 1;
    /// SETXATTR: fail if the attribute does not exist.
    pub const XATTR_REPLACE: u32 = 2;
    /// SETXATTR: remove the attribute.
    pub const XATTR_REMOVE: u32 = 1 << 31;

    /// The operation's number.
    pub fn code(&self) -> u32 {
        match self {
            Self::Lookup { .. } => 0x100,
            Self::GetAttr { .. } => 0x101,
            Self::LookupHash(_) => 0x102,
            Self::LookupParent { .. } => 0x103,
            Self::LookupIno(_) => 0x104,
            Self::LookupName { .. } => 0x105,
            Self::GetVxattr => 0x106,
            Self::Dummy => 0x107,
            Self::SetXattr { .. } => 0x1105,
            Self::RmXattr => 0x1106,
            Self::SetLayout(_) => 0x1107,
            Self::SetAttr(_) => 0x1108,
            Self::SetFileLock(_) => 0x1109,
            Self::GetFileLock(_) => 0x110,
            Self::SetDirLayout(_) => 0x110a,
            Self::MkNod { .. } => 0x1201,
            Self::Link => 0x1202,
            Self::Unlink => 0x1203,
            Self::Rename => 0x1204,
            Self::MkDir { .. } => 0x1220,
            Self::RmDir => 0x1221,
            Self::SymLink => 0x1222,
            Self::Create(_) => 0x1301,
            Self::Open(_) => 0x302,
            Self::ReadDir(_) => 0x305,
            Self::LookupSnap { .. } => 0x400,
            Self::MkSnap { .. } => 0x1400,
            Self::RmSnap => 0x1401,
            Self::LsSnap(_) => 0x402,
            Self::RenameSnap => 0x1403,
            Self::ReadDirSnapDiff { .. } => 0x1404,
            Self::FileBlockDiff { .. } => 0x1405,
            Self::Other { code, .. } => *code,
        }
    }

    /// Whether the operation counts as a change: it goes to the authority for the inode, and has an unsafe
    /// and a safe reply. Opening a file is a change if it truncates it. Listing the differences between
    /// snapshots has the number of a change.
    pub fn is_write(&self) -> bool {
        let truncates = matches!(self, Self::Open(open) if open.flags & OpenArgs::TRUNC != 0);
        truncates || self.code() & WRITE != 0
    }

    /// Writes the arguments, filled with zeros to their fixed length.
    pub(super) fn encode_args(&self, w: &mut Writer) {
        let start = w.len();
        match self {
            Self::Lookup { mask }
            | Self::GetAttr { mask }
            | Self::LookupParent { mask }
            | Self::LookupName { mask }
            | Self::LookupSnap { mask } => w.put(mask),
            Self::LookupHash(args) | Self::LookupIno(args) => args.encode(w),
            Self::SetXattr { flags, osdmap_epoch } => {
                w.u32(*flags);
                w.u32(*osdmap_epoch);
            }
            Self::SetLayout(layout) | Self::SetDirLayout(layout) => w.put(layout),
            Self::SetAttr(args) => args.encode(w),
            Self::SetFileLock(args) | Self::GetFileLock(args) => args.encode(w),
            Self::MkNod { mode, rdev } => {
                w.u32(*mode);
                w.u32(*rdev);
            }
            Self::MkDir { mode } | Self::MkSnap { mode } => w.u32(*mode),
            Self::Create(args) | Self::Open(args) => args.encode(w),
            Self::ReadDir(args) | Self::LsSnap(args) => args.encode(w),
            Self::ReadDirSnapDiff { args, other } => {
                args.encode(w);
                w.put(other);
            }
            Self::FileBlockDiff { scan_idx, max_objects } => {
                w.u64(*scan_idx);
                w.u64(*max_objects);
            }
            Self::Other { args, .. } => w.raw(args),
            _ => {}
        }
        w.zeros((start + ARGS_LEN).saturating_sub(w.len()));
    }

    /// Reads the arguments of the operation `code`.
    pub(super) fn decode_args(code: u32, args: [u8; ARGS_LEN]) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(&args);
        Ok(match code {
            0x100 => Self::Lookup { mask: r.get()? },
            0x101 => Self::GetAttr { mask: r.get()? },
            0x102 => Self::LookupHash(LookupIno::decode(r)?),
            0x103 => Self::LookupParent { mask: r.get()? },
            0x104 => Self::LookupIno(LookupIno::decode(r)?),
            0x105 => Self::LookupName { mask: r.get()? },
            0x106 => Self::GetVxattr,
            0x107 => Self::Dummy,
            0x110 => Self::GetFileLock(FileLock::decode(r)?),
            0x302 => Self::Open(OpenArgs::decode(r)?),
            0x305 => Self::ReadDir(ReadDirArgs::decode(r)?),
            0x400 => Self::LookupSnap { mask: r.get()? },
            0x402 => Self::LsSnap(ReadDirArgs::decode(r)?),
            0x1105 => Self::SetXattr { flags: r.u32()?, osdmap_epoch: r.u32()? },
            0x1106 => Self::RmXattr,
            0x1107 => Self::SetLayout(r.get()?),
            0x1108 => Self::SetAttr(SetAttr::decode(r)?),
            0x1109 => Self::SetFileLock(FileLock::decode(r)?),
            0x110a => Self::SetDirLayout(r.get()?),
            0x1201 => Self::MkNod { mode: r.u32()?, rdev: r.u32()? },
            0x1202 => Self::Link,
            0x1203 => Self::Unlink,
            0x1204 => Self::Rename,
            0x1220 => Self::MkDir { mode: r.u32()? },
            0x1221 => Self::RmDir,
            0x1222 => Self::SymLink,
            0x1301 => Self::Create(OpenArgs::decode(r)?),
            0x1400 => Self::MkSnap { mode: r.u32()? },
            0x1401 => Self::RmSnap,
            0x1403 => Self::RenameSnap,
            0x1404 => Self::ReadDirSnapDiff { args: ReadDirArgs::decode(r)?, other: r.get()? },
            0x1405 => Self::FileBlockDiff { scan_idx: r.u64()?, max_objects: r.u64()? },
            _ => Self::Other { code, args },
        })
    }
}

impl SetAttr {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.mode);
        w.u32(self.uid);
        w.u32(self.gid);
        w.put(&self.mtime);
        w.put(&self.atime);
        w.u64(self.size);
        w.u64(self.old_size);
        w.u32(self.mask);
        w.put(&self.btime);
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            mode: r.u32()?,
            uid: r.u32()?,
            gid: r.u32()?,
            mtime: r.get()?,
            atime: r.get()?,
            size: r.u64()?,
            old_size: r.u64()?,
            mask: r.u32()?,
            btime: r.get()?,
        })
    }
}

impl OpenArgs {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.flags);
        w.u32(self.mode);
        w.u32(self.stripe_unit);
        w.u32(self.stripe_count);
        w.u32(self.object_size);
        w.i32(self.pool);
        w.put(&self.mask);
        w.u64(self.old_size);
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            flags: r.u32()?,
            mode: r.u32()?,
            stripe_unit: r.u32()?,
            stripe_count: r.u32()?,
            object_size: r.u32()?,
            pool: r.i32()?,
            mask: r.get()?,
            old_size: r.u64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(op: RequestOp) -> [u8; ARGS_LEN] {
        let mut w = Writer::new();
        op.encode_args(&mut w);
        let args: [u8; ARGS_LEN] = w.as_slice().try_into().expect("the arguments' length");
        assert_eq!(RequestOp::decode_args(op.code(), args), Ok(op));
        args
    }

    /// Goal: each number that is known has arguments that are read back, and an unknown number keeps its
    /// bytes.
    #[test]
    fn each_operation_is_read_back() {
        let mut known = 0;
        for code in 0..0x2000 {
            // Fragments must be possible ones.
            let args = std::array::from_fn(|at| if at < 4 { 0 } else { at as u8 });
            let op = RequestOp::decode_args(code, args).expect("an operation");
            assert_eq!(op.code(), code);
            known += usize::from(!matches!(op, RequestOp::Other { .. }));
            let written = again(op);
            if matches!(op, RequestOp::Other { .. }) {
                assert_eq!(written, args);
            }
        }
        assert_eq!(known, 32);
    }

    #[test]
    fn arguments_are_where_ceph_has_them() {
        let args = again(RequestOp::SetAttr(SetAttr {
            uid: 1,
            size: 2,
            mask: SetAttr::SIZE | SetAttr::KILL_SGID,
            btime: UTime { sec: 3, nsec: 4 },
            ..SetAttr::default()
        }));
        assert_eq!((args[4], args[28], args[44], args[48], args[52]), (1, 2, 0x20, 3, 4));
        let args = again(RequestOp::Create(OpenArgs {
            flags: OpenArgs::CREAT | OpenArgs::RDWR,
            pool: -1,
            mask: Caps::AUTH_SHARED,
            old_size: 5,
            ..OpenArgs::default()
        }));
        assert_eq!((&args[..4], &args[20..29]), (&b"\x42\0\0\0"[..], &b"\xff\xff\xff\xff\x04\0\0\0\x05"[..]));
        let readdir =
            ReadDirArgs { flags: ReadDirArgs::WANT_FLAGS, offset_hash: 6, ..ReadDirArgs::default() };
        let args = again(RequestOp::ReadDirSnapDiff { args: readdir, other: SnapId(7) });
        assert_eq!((args[12], args[14], args[18]), (1, 6, 7));
        let args =
            again(RequestOp::SetFileLock(FileLock { rule: 1, owner: 8, wait: true, ..FileLock::default() }));
        assert_eq!((args[0], args[2], args[34], args[35]), (1, 8, 1, 0));
    }

    #[test]
    fn what_changes_something_is_known() {
        assert!(RequestOp::Unlink.is_write() && !RequestOp::Lookup { mask: Caps::NONE }.is_write());
        let open = |flags| RequestOp::Open(OpenArgs { flags, ..OpenArgs::default() });
        assert!(open(OpenArgs::TRUNC).is_write() && !open(OpenArgs::RDWR).is_write());
        assert!(!RequestOp::GetFileLock(FileLock::default()).is_write());
    }

    #[test]
    fn an_impossible_fragment_is_refused() {
        assert!(RequestOp::decode_args(0x305, [0xff; ARGS_LEN]).is_err());
    }
}
