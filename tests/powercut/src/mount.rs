//! Mounts a disk as a directory of this machine.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fastrand::Rng;
use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};

use crate::disk::{Disk, DiskError, Ino, Kind, ROOT};
use crate::image::PAGE_BYTES;

/// Zero: the kernel caches no entries or attributes.
const TTL: Duration = Duration::ZERO;
const FIRST: Generation = Generation(0);
const NO_HANDLE: FileHandle = FileHandle(0);
/// Reported size of the disk, in pages: 1 TiB.
const DISK_PAGES: u64 = 1 << 28;
const NAME_BYTES_MAX: u32 = 255;

/// Why a mount or an unmount failed.
#[derive(Debug, thiserror::Error)]
#[error("{what} {}: {source}", dir.display())]
pub struct MountError {
    what: &'static str,
    dir: PathBuf,
    source: io::Error,
}

/// Returns whether this process may mount: root may, if the kernel has FUSE.
pub fn is_available() -> bool {
    OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok()
}

/// A mounted disk; dropping it unmounts it.
#[derive(Debug)]
pub struct Mount {
    shared: Shared,
    dir: PathBuf,
    session: Option<BackgroundSession>,
}

impl Mount {
    /// Mounts a disk at an empty directory.
    ///
    /// # Errors
    /// The system's error; [`is_available`] tells whether mounting is possible.
    pub fn new(disk: Disk, dir: &Path) -> Result<Self, MountError> {
        let shared = Shared(Arc::new(Mutex::new(disk)));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("powercut".into()), MountOption::DefaultPermissions];
        let session = fuser::spawn_mount(Files(shared.clone()), dir, &config)
            .map_err(|source| MountError { what: "cannot mount at", dir: dir.into(), source })?;
        Ok(Self { shared, dir: dir.into(), session: Some(session) })
    }

    /// Returns the disk as a power failure at this moment could leave it; the mounted disk goes on. Stop
    /// the programs that use the mount first: writes that they acknowledge later are not on the returned
    /// disk.
    pub fn after_power_cut(&self, rng: &mut Rng) -> Disk {
        let disk = self.shared.lock().clone();
        disk.after_power_cut(rng)
    }

    /// From now on until the power cut, syncs report success without effect. A test uses it to show that
    /// it would detect a program that does not sync.
    pub fn ignore_syncs(&self) {
        self.shared.lock().ignore_syncs();
    }

    /// Unmounts. No program may use the directory any more.
    ///
    /// # Errors
    /// The system's error, for instance if a program still uses the directory.
    pub fn end(mut self) -> Result<(), MountError> {
        let ended = self.session.take().map_or(Ok(()), BackgroundSession::umount_and_join);
        match ended {
            // The kernel reports the unmount to the session's thread with this error.
            Err(error) if error.raw_os_error() == Some(libc::ECONNABORTED) => Ok(()),
            Err(source) => Err(MountError { what: "cannot unmount", dir: self.dir.clone(), source }),
            Ok(()) => Ok(()),
        }
    }
}

#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<Disk>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attributes(&self, ino: Ino) -> Result<FileAttr, DiskError> {
        let disk = self.lock();
        let inode = disk.inode(ino)?;
        Ok(FileAttr {
            ino: INodeNo(ino),
            size: inode.now.len(),
            blocks: inode.now.pages() * (PAGE_BYTES / 512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: file_type(inode.kind),
            perm: inode.mode,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn enter(&self, parent: INodeNo, name: &OsStr, kind: Kind, mode: u32) -> Result<FileAttr, DiskError> {
        let permissions = (mode & 0o7777) as u16;
        let ino = self.lock().create(parent.0, name, kind, permissions)?;
        self.attributes(ino)
    }
}

struct Files(Shared);

impl Files {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock()
    }
}

impl Filesystem for Files {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.disk().lookup(parent.0, name);
        entry(reply, found.and_then(|ino| self.0.attributes(ino)));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        attributes(reply, self.0.attributes(ino.0));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = || {
            let mut disk = self.disk();
            if let Some(len) = size {
                disk.set_len(ino.0, len)?;
            }
            if let Some(mode) = mode {
                disk.inode_mut(ino.0)?.mode = (mode & 0o7777) as u16;
            }
            drop(disk);
            self.0.attributes(ino.0)
        };
        attributes(reply, change());
    }

    fn mknod(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let kind = match mode & libc::S_IFMT {
            libc::S_IFREG => Kind::File,
            libc::S_IFSOCK => Kind::Socket,
            _ => return reply.error(Errno::EPERM),
        };
        entry(reply, self.0.enter(parent, name, kind, mode & !umask));
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        entry(reply, self.0.enter(parent, name, Kind::Directory, mode & !umask));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.disk().remove(parent.0, name, false);
        empty(reply, removed);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.disk().remove(parent.0, name, true);
        empty(reply, removed);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if flags.intersects(RenameFlags::RENAME_EXCHANGE | RenameFlags::RENAME_WHITEOUT) {
            return reply.error(Errno::EINVAL);
        }
        let may_replace = !flags.contains(RenameFlags::RENAME_NOREPLACE);
        let renamed = self.disk().rename((parent.0, name), (newparent.0, newname), may_replace);
        empty(reply, renamed);
    }

    fn link(&self, _: &Request, ino: INodeNo, newparent: INodeNo, newname: &OsStr, reply: ReplyEntry) {
        let linked = self.disk().link(ino.0, newparent.0, newname);
        entry(reply, linked.and_then(|()| self.0.attributes(ino.0)));
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let mut disk = self.disk();
        let opened = match flags.0 & libc::O_TRUNC {
            0 => disk.inode(ino.0).map(drop),
            _ => disk.set_len(ino.0, 0),
        };
        drop(disk);
        match opened {
            Ok(()) => reply.opened(NO_HANDLE, FopenFlags::empty()),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        match self.0.enter(parent, name, Kind::File, mode & !umask) {
            Ok(attr) => reply.created(&TTL, &attr, FIRST, NO_HANDLE, FopenFlags::empty()),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = self.disk().inode(ino.0).map(|inode| inode.now.read(offset, size as usize));
        match read {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // `O_SYNC` contains `O_DSYNC`'s bit.
        let is_synced = flags.0 & libc::O_DSYNC != 0;
        match self.disk().write(ino.0, offset, data, is_synced) {
            // A request holds at most the session's buffer, a few MiB.
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let synced = self.disk().sync(ino.0);
        empty(reply, synced);
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let synced = self.disk().sync_names(ino.0);
        empty(reply, synced);
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let disk = self.disk();
        let Ok(inode) = disk.inode(ino.0) else { return reply.error(Errno::ENOENT) };
        let own = [(ino.0, OsStr::new(".")), (ROOT, OsStr::new(".."))];
        let names = inode.names.iter().map(|(name, ino)| (*ino, name.as_os_str()));
        for (at, (ino, name)) in (1..).zip(own.into_iter().chain(names)).skip(offset as usize) {
            let kind = disk.inode(ino).map_or(FileType::RegularFile, |inode| file_type(inode.kind));
            if reply.add(INodeNo(ino), at, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let page = PAGE_BYTES as u32;
        reply.statfs(DISK_PAGES, DISK_PAGES, DISK_PAGES, DISK_PAGES, DISK_PAGES, page, NAME_BYTES_MAX, page);
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let zeroes = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE;
        if mode & !(zeroes | libc::FALLOC_FL_KEEP_SIZE) != 0 {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let Some(end) = offset.checked_add(length) else { return reply.error(Errno::EFBIG) };
        let allocate = || {
            let mut disk = self.disk();
            let len = disk.inode(ino.0)?.now.len();
            if mode & zeroes != 0 {
                disk.zero(ino.0, offset.min(len), end.min(len))?;
            }
            if mode & libc::FALLOC_FL_KEEP_SIZE == 0 && end > len {
                disk.set_len(ino.0, end)?;
            }
            Ok(())
        };
        empty(reply, allocate());
    }
}

fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Socket => FileType::Socket,
    }
}

fn errno(error: DiskError) -> Errno {
    match error {
        DiskError::NotFound => Errno::ENOENT,
        DiskError::Exists => Errno::EEXIST,
        DiskError::NotADirectory => Errno::ENOTDIR,
        DiskError::IsADirectory => Errno::EISDIR,
        DiskError::NotEmpty => Errno::ENOTEMPTY,
    }
}

fn entry(reply: ReplyEntry, result: Result<FileAttr, DiskError>) {
    match result {
        Ok(attr) => reply.entry(&TTL, &attr, FIRST),
        Err(error) => reply.error(errno(error)),
    }
}

fn attributes(reply: ReplyAttr, result: Result<FileAttr, DiskError>) {
    match result {
        Ok(attr) => reply.attr(&TTL, &attr),
        Err(error) => reply.error(errno(error)),
    }
}

fn empty(reply: ReplyEmpty, result: Result<(), DiskError>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write as _;

    use super::*;

    #[test]
    fn programs_use_it_as_a_directory_and_find_what_survives() {
        if !is_available() {
            // `eprintln!` is not shown of tests that pass, and `cargo xtask test` counts such lines.
            let _ = std::io::stderr().write_all(b"skipped: /dev/fuse cannot be opened here\n");
            return;
        }
        let dir = std::env::temp_dir().join(format!("loligo-powercut.{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        let mount = Mount::new(Disk::new(), &dir).expect("mounted");
        fs::create_dir(dir.join("d")).expect("created");
        let mut file = File::create(dir.join("d/new")).expect("created");
        file.write_all(b"safe").expect("written");
        file.sync_all().expect("synced");
        fs::rename(dir.join("d/new"), dir.join("d/a")).expect("renamed");
        File::open(dir.join("d")).and_then(|dir| dir.sync_all()).expect("synced");
        File::open(&dir).and_then(|dir| dir.sync_all()).expect("synced");
        file.write_all(b", this not").expect("written");
        fs::write(dir.join("b"), "nor this").expect("written");
        assert_eq!(fs::read(dir.join("d/a")).expect("there"), b"safe, this not");
        drop(file);

        let mut found = Vec::new();
        let cuts: Vec<Disk> = (0..40).map(|seed| mount.after_power_cut(&mut Rng::with_seed(seed))).collect();
        mount.end().expect("unmounted");
        for disk in cuts {
            let mount = Mount::new(disk, &dir).expect("mounted");
            let text = fs::read_to_string(dir.join("d/a")).expect("there");
            assert!(text.starts_with("safe"), "{text}");
            found.push((text.len(), dir.join("b").exists()));
            mount.end().expect("unmounted");
        }
        found.sort_unstable();
        found.dedup();
        assert!(found.len() > 2, "{found:?}");
        fs::remove_dir(&dir).expect("nothing is left in it");
    }
}
