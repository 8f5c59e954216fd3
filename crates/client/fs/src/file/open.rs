//! Opening files.

use loligo_fs_core::caps::OpenMode;
use loligo_rados::Errno;
use loligo_wire::Caps;
use loligo_wire::message::mds::OpenArgs;

use super::File;
use crate::error::Error;
use crate::metadata::FileType;
use crate::mount::FileSystem;
use crate::walk::Last;

/// Symbolic links to names that do not exist, one after another, at most: as on Linux.
const LINKS_MAX: u32 = 40;

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    pub(super) read: bool,
    pub(super) write: bool,
    create: bool,
    exclusive: bool,
    truncate: bool,
    pub(super) append: bool,
    direct: bool,
    pub(super) sync: bool,
    lazy: bool,
    is_link_refused: bool,
    mode: Option<u32>,
}

/// The flags of `open(2)` on Linux, of all its architectures that this client is built for.
mod flags {
    pub(super) const ACCESS: i32 = 0o3;
    pub(super) const WRONLY: i32 = 0o1;
    pub(super) const RDWR: i32 = 0o2;
    pub(super) const CREAT: i32 = 0o100;
    pub(super) const EXCL: i32 = 0o200;
    pub(super) const TRUNC: i32 = 0o1000;
    pub(super) const APPEND: i32 = 0o2000;
    pub(super) const DSYNC: i32 = 0o10_000;
    pub(super) const DIRECT: i32 = if cfg!(target_arch = "aarch64") { 0o200_000 } else { 0o40_000 };
    pub(super) const DIRECTORY: i32 = if cfg!(target_arch = "aarch64") { 0o40_000 } else { 0o200_000 };
    pub(super) const NOFOLLOW: i32 = if cfg!(target_arch = "aarch64") { 0o100_000 } else { 0o400_000 };
    pub(super) const TMPFILE: i32 = 0o20_000_000;
}

impl OpenOptions {
    /// Neither to read nor to write: at least one of both must be asked for.
    pub fn new() -> Self {
        Self::default()
    }

    /// To read.
    pub fn read(self) -> Self {
        Self { read: true, ..self }
    }

    /// To write.
    pub fn write(self) -> Self {
        Self { write: true, ..self }
    }

    /// Makes the file if there is none.
    pub fn create(self) -> Self {
        Self { create: true, ..self }
    }

    /// Makes the file, and fails with EEXIST if there is one.
    pub fn create_new(self) -> Self {
        Self { create: true, exclusive: true, ..self }
    }

    /// Makes the file empty.
    pub fn truncate(self) -> Self {
        Self { truncate: true, ..self }
    }

    /// To write, and each write at the file's end, wherever that is then.
    pub fn append(self) -> Self {
        Self { write: true, append: true, ..self }
    }

    /// Reads and writes pass every cache by.
    pub fn direct(self) -> Self {
        Self { direct: true, ..self }
    }

    /// Each write ends when it is durable, with the attributes that are needed to read it back.
    pub fn sync(self) -> Self {
        Self { sync: true, ..self }
    }

    /// Asks the server for what lets clients see others' writes late, and tell own ones late: the program
    /// itself says when ([`File::lazyio_propagate`], [`File::lazyio_synchronize`]). This client makes no use
    /// of it and keeps the file as coherent as any other; other clients' lazy files need not wait for it.
    pub fn lazy(self) -> Self {
        Self { lazy: true, ..self }
    }

    /// Fails with ELOOP if the path's last name is a symbolic link.
    pub fn no_follow(self) -> Self {
        Self { is_link_refused: true, ..self }
    }

    /// The options that flags of `open(2)` mean. Flags without a meaning for files here are ignored, as
    /// Linux does.
    ///
    /// # Errors
    /// EOPNOTSUPP for `O_TMPFILE`, which no client of CephFS has; EISDIR for `O_DIRECTORY`, since only
    /// files are opened; EINVAL for an access that is none.
    pub fn from_flags(flags: i32) -> Result<Self, Errno> {
        let has = |flag: i32| flags & flag != 0;
        if has(flags::TMPFILE) {
            return Err(Errno::EOPNOTSUPP);
        }
        if has(flags::DIRECTORY) {
            return Err(Errno::EISDIR);
        }
        let (read, write) = match flags & flags::ACCESS {
            0 => (true, false),
            flags::WRONLY => (false, true),
            flags::RDWR => (true, true),
            _ => return Err(Errno::EINVAL),
        };
        let create = has(flags::CREAT);
        Ok(Self {
            read,
            write,
            create,
            exclusive: create && has(flags::EXCL),
            truncate: has(flags::TRUNC),
            append: write && has(flags::APPEND),
            direct: has(flags::DIRECT),
            // O_SYNC has the bit of O_DSYNC.
            sync: has(flags::DSYNC),
            lazy: false,
            is_link_refused: has(flags::NOFOLLOW),
            mode: None,
        })
    }

    /// The permissions of a new file; 0644 otherwise.
    pub fn mode(self, permissions: u32) -> Self {
        Self { mode: Some(permissions), ..self }
    }

    /// Returns whether a symbolic link at a path's end is followed.
    fn last(self) -> Last {
        if self.is_link_refused { Last::Keep } else { Last::Follow }
    }

    /// Returns how the open file counts.
    pub(crate) fn open_mode(self) -> OpenMode {
        OpenMode { reads: self.read, writes: self.write, is_lazy: self.lazy }
    }

    /// Returns `true` if the file is opened to read.
    pub(crate) fn reads(self) -> bool {
        self.read
    }

    /// Returns `true` if the file is opened to write.
    pub(crate) fn writes(self) -> bool {
        self.write
    }

    /// Returns `true` if opening makes the file empty.
    pub(crate) fn truncates(self) -> bool {
        self.truncate
    }

    /// Returns `true` if the file must not be there.
    pub(crate) fn is_exclusive(self) -> bool {
        self.exclusive
    }

    /// Returns `true` if reads and writes pass every cache by.
    pub fn is_direct(self) -> bool {
        self.direct
    }

    /// Returns `true` if writes end when they are durable.
    pub(crate) fn is_sync(self) -> bool {
        self.sync
    }

    /// Returns the permissions of a new file.
    pub(crate) fn permissions(self) -> u32 {
        self.mode.unwrap_or(0o644)
    }

    /// Returns the arguments of the request that opens the file.
    pub(crate) fn args(self) -> OpenArgs {
        let access = match (self.read, self.write) {
            (true, true) => OpenArgs::RDWR,
            (false, true) => OpenArgs::WRONLY,
            _ => 0,
        };
        let flag = |is: bool, flag: u32| if is { flag } else { 0 };
        let flags = access
            | flag(self.create, OpenArgs::CREAT)
            | flag(self.exclusive, OpenArgs::EXCL)
            | flag(self.truncate, OpenArgs::TRUNC)
            | flag(self.lazy, OpenArgs::LAZY)
            | flag(self.is_link_refused, OpenArgs::NOFOLLOW);
        OpenArgs {
            flags,
            mode: crate::inode::mode::regular(self.permissions()),
            pool: -1,
            mask: Caps::STAT,
            ..OpenArgs::default()
        }
    }
}

impl FileSystem {
    /// Opens a file. Symbolic links are followed.
    ///
    /// # Errors
    /// EISDIR for a directory; EINVAL for what has no data, or if neither reading nor writing is asked
    /// for.
    pub async fn open(&self, path: impl AsRef<[u8]>, options: OpenOptions) -> Result<File, Error> {
        let path = path.as_ref();
        if !options.read && !options.write {
            return Err(Errno::EINVAL.into());
        }
        match options.create {
            true => self.open_or_create(path, options).await,
            false => self.found(path, options.last()).await?.open(options).await,
        }
    }

    /// Makes and opens a file, or opens the existing one.
    async fn open_or_create(&self, path: &[u8], options: OpenOptions) -> Result<File, Error> {
        let mut path = path.to_vec();
        // A link may lead to a name that does not exist.
        for _ in 0..LINKS_MAX {
            let (dir, name) = self.dir_of(&path).await.map_err(|e| match e {
                // The root, and what ends with `..`, are directories.
                Error::Os(Errno::EEXIST) => Error::Os(Errno::EISDIR),
                other => other,
            })?;
            if crate::path::ends_with_slash(&path) {
                return Err(Errno::EISDIR.into());
            }
            if options.exclusive {
                // The server looks at the name.
                return dir.create(&name, options).await.map(|(_, file, _)| file);
            }
            match dir.lookup(&name).await {
                Ok(link) if link.file_type() == FileType::Symlink => {
                    if options.is_link_refused {
                        return Err(Errno::ELOOP.into());
                    }
                    let target = link.read_link().await?;
                    path = match target.first() {
                        Some(b'/') => target,
                        _ => [
                            crate::path::parent_and_name(&path).map_or(&b""[..], |(dir, _)| dir),
                            b"/",
                            &target,
                        ]
                        .concat(),
                    };
                    continue;
                }
                Ok(found) => return found.open(options).await,
                Err(e) if e.is_not_found() => {}
                Err(e) => return Err(e),
            }
            return dir.create(&name, options).await.map(|(_, file, _)| file);
        }
        Err(Errno::ELOOP.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_programs_are_options() {
        let options = OpenOptions::from_flags(0o2 | 0o100 | 0o2000 | 0o4_010_000).expect("flags");
        assert!(options.reads() && options.writes() && options.append && options.is_sync());
        assert!(!options.is_exclusive() && !options.truncates());
        assert_eq!(options.args().flags, OpenArgs::RDWR | OpenArgs::CREAT);
        let excl = OpenOptions::from_flags(0o1 | 0o200).expect("flags");
        assert!(!excl.is_exclusive(), "without O_CREAT it means nothing");
        for (flags, errno) in
            [(3, Errno::EINVAL), (0o20_200_002, Errno::EOPNOTSUPP), (flags::DIRECTORY, Errno::EISDIR)]
        {
            assert_eq!(OpenOptions::from_flags(flags).expect_err("refused"), errno);
        }
    }
}
