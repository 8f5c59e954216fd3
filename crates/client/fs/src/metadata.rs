//! What `stat` shows of a file.

use std::time::SystemTime;

use loligo_layout::{Layout, LayoutError};
use loligo_wire::message::mds::RecursiveStat;
use loligo_wire::{Ino, PoolId, SnapId, UTime};

use crate::inode::{Attrs, InodeId, mode};

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileType {
    /// A file with data.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A device that is read and written in blocks.
    BlockDevice,
    /// A device that is read and written as a stream.
    CharDevice,
}

impl FileType {
    /// Returns the type that a mode names; a regular file if it names none.
    pub fn of_mode(mode: u32) -> Self {
        match mode & mode::TYPE {
            mode::DIRECTORY => Self::Directory,
            mode::SYMLINK => Self::Symlink,
            0o010_000 => Self::Fifo,
            0o140_000 => Self::Socket,
            0o060_000 => Self::BlockDevice,
            0o020_000 => Self::CharDevice,
            _ => Self::Regular,
        }
    }

    /// Returns the letter with which `ls -l` and `find -type` show it.
    pub fn letter(self) -> char {
        match self {
            Self::Regular => '-',
            Self::Directory => 'd',
            Self::Symlink => 'l',
            Self::Fifo => 'p',
            Self::Socket => 's',
            Self::BlockDevice => 'b',
            Self::CharDevice => 'c',
        }
    }
}

/// Statistics of a directory with everything below it. The servers carry them upwards when they have
/// time: they are some seconds behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recursive {
    /// Bytes of all files.
    pub bytes: u64,
    /// Number of files.
    pub files: u64,
    /// Number of directories, this one included.
    pub subdirs: u64,
    /// The latest change.
    pub ctime: UTime,
}

/// How a file's data is laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLayout {
    /// Bytes in one object before the next one's turn comes.
    pub stripe_unit: u32,
    /// Objects over which a stripe goes.
    pub stripe_count: u32,
    /// Bytes of an object at most.
    pub object_size: u32,
    /// The pool of the objects.
    pub pool: PoolId,
    /// The namespace in the pool.
    pub namespace: Vec<u8>,
}

impl FileLayout {
    /// Returns the mapping of the file's bytes to objects.
    ///
    /// # Errors
    /// The layout is none: a directory without a layout of its own has zeros.
    pub fn striping(&self) -> Result<Layout, LayoutError> {
        Layout::new(self.stripe_unit.into(), self.stripe_count.into(), self.object_size.into())
    }
}

/// What is known of a file, directory or link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// The inode's number.
    pub ino: Ino,
    /// The snapshot that it is of, or [`SnapId::HEAD`].
    pub snap: SnapId,
    /// Type and permissions, as `st_mode` has them.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The number of names; of a directory the number of its subdirectories and two.
    pub nlink: u32,
    /// Bytes; of a directory the bytes of all files below it.
    pub size: u64,
    /// The device, if it is one.
    pub rdev: u32,
    /// The last change of the data.
    pub mtime: UTime,
    /// The last change of the data or the attributes.
    pub ctime: UTime,
    /// The last read that was noted: CephFS notes none by itself.
    pub atime: UTime,
    /// The creation.
    pub btime: UTime,
    /// Grows with each change.
    pub change: u64,
    /// A directory's files and directories.
    pub entries: u64,
    /// A directory's statistics.
    pub recursive: Recursive,
    /// How the data is laid out.
    pub layout: FileLayout,
}

impl Metadata {
    /// Collects the attributes of an inode.
    pub(crate) fn of(id: InodeId, attrs: &Attrs) -> Self {
        let number = |n: i64| u64::try_from(n).unwrap_or(0);
        let RecursiveStat { rbytes, rfiles, rsubdirs, rctime, .. } = attrs.recursive;
        let is_dir = attrs.mode & mode::TYPE == mode::DIRECTORY;
        let raw = attrs.layout;
        Self {
            ino: id.ino,
            snap: id.snap,
            mode: attrs.mode,
            uid: attrs.uid,
            gid: attrs.gid,
            nlink: if is_dir {
                u32::try_from(attrs.subdirs).unwrap_or(0).saturating_add(2)
            } else {
                attrs.nlink
            },
            size: if is_dir { number(rbytes) } else { attrs.size },
            rdev: attrs.rdev,
            mtime: attrs.mtime,
            ctime: attrs.ctime,
            atime: attrs.atime,
            btime: attrs.btime,
            change: attrs.change_attr,
            entries: number(attrs.files) + number(attrs.subdirs),
            recursive: Recursive {
                bytes: number(rbytes),
                files: number(rfiles),
                subdirs: number(rsubdirs),
                ctime: rctime,
            },
            layout: FileLayout {
                stripe_unit: raw.stripe_unit,
                stripe_count: raw.stripe_count,
                object_size: raw.object_size,
                pool: raw.pool,
                namespace: attrs.pool_ns.as_bytes().to_vec(),
            },
        }
    }

    /// Returns what it is.
    pub fn file_type(&self) -> FileType {
        FileType::of_mode(self.mode)
    }

    /// Returns `true` for a directory.
    pub fn is_dir(&self) -> bool {
        self.file_type() == FileType::Directory
    }

    /// Returns `true` for a file with data.
    pub fn is_file(&self) -> bool {
        self.file_type() == FileType::Regular
    }

    /// Returns `true` for a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.file_type() == FileType::Symlink
    }

    /// Returns the permission bits.
    pub fn permissions(&self) -> u32 {
        self.mode & mode::PERMISSIONS
    }

    /// Returns the last change of the data.
    pub fn modified(&self) -> SystemTime {
        self.mtime.to_system()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_count_their_subdirectories_as_links() {
        let attrs = Attrs { mode: 0o040_755, files: 3, subdirs: 2, nlink: 1, ..Attrs::default() };
        let attrs = Attrs { recursive: RecursiveStat { rbytes: 70, ..RecursiveStat::default() }, ..attrs };
        let shown = Metadata::of(InodeId::head(Ino(1)), &attrs);
        assert_eq!((shown.nlink, shown.size, shown.entries), (4, 70, 5));
        assert!(shown.is_dir() && !shown.is_file());
        assert_eq!((shown.permissions(), shown.file_type().letter()), (0o755, 'd'));
    }

    #[test]
    fn each_type_has_its_bits() {
        for (bits, is) in [
            (0o100_644, FileType::Regular),
            (0o120_777, FileType::Symlink),
            (0o010_644, FileType::Fifo),
            (0o140_644, FileType::Socket),
            (0o060_644, FileType::BlockDevice),
            (0o020_644, FileType::CharDevice),
        ] {
            assert_eq!(FileType::of_mode(bits), is);
        }
    }
}
