//! Real files, with direct I/O where the file system supports it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loligo_lockstat::blocking_point;
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};
use rustix::process::geteuid;

use super::fjall::FjallKv;
use super::{Backend, BackendFile, Kv};

/// The files of a directory that no other store has open.
#[derive(Debug)]
pub(crate) struct Files {
    dir: PathBuf,
    /// Locked while it is open.
    _lock: File,
}

impl Files {
    /// Whether any file of a store exists; creates none.
    pub(crate) fn has_any(dir: &Path) -> bool {
        ["super", "super.copy", "journal", "data", "kv"].iter().any(|name| dir.join(name).exists())
    }

    /// Opens a directory, and creates it if necessary. Fails with [`io::ErrorKind::WouldBlock`] if another
    /// store uses it.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        DirBuilder::new().mode(0o700).recursive(true).create(dir)?;
        let lock = options().open(dir.join("lock"))?;
        lock.try_lock().map_err(io::Error::from)?;
        Ok(Self { dir: dir.to_owned(), _lock: lock })
    }
}

impl Backend for Files {
    fn open(&self, name: &'static str) -> io::Result<Arc<dyn BackendFile>> {
        blocking_point("opening a file of the store");
        let path = self.dir.join(name);
        let is_new = !path.exists();
        let direct =
            options().custom_flags((OFlags::DIRECT | OFlags::NOFOLLOW).bits().cast_signed()).open(&path);
        let file = match direct {
            // Some file systems have no direct I/O. Writes then go through the page cache and are equally
            // safe after a sync.
            Err(e) if e.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => options().open(&path)?,
            opened => opened?,
        };
        let owner = file.metadata()?.uid();
        if owner != geteuid().as_raw() {
            let what = format!("`{name}` belongs to user {owner}: it is not used");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
        }
        if is_new {
            // The directory entry itself must survive.
            File::open(&self.dir)?.sync_all()?;
        }
        Ok(Arc::new(RealFile(file)))
    }

    fn kv(&self) -> io::Result<Arc<dyn Kv>> {
        blocking_point("opening the store's key-value map");
        Ok(Arc::new(FjallKv::open(&self.dir.join("kv"))?))
    }

    fn traces(&self) -> io::Result<Vec<String>> {
        blocking_point("looking at the files of the store");
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let found = entry.metadata()?;
            let is_empty = match found.is_dir() {
                true => fs::read_dir(entry.path())?.next().is_none(),
                false => found.len() == 0,
            };
            if !is_empty {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(&self.dir)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

fn options() -> OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    // A symbolic link might lead to a file of another user.
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}

#[derive(Debug)]
struct RealFile(File);

impl BackendFile for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        blocking_point("setting the length of a file of the store");
        self.0.set_len(len)
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        blocking_point("reserving room for a file of the store");
        match fallocate(&self.0, FallocateFlags::KEEP_SIZE, 0, len) {
            Err(Errno::OPNOTSUPP) => Ok(()),
            done => Ok(done?),
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        blocking_point("reading a file of the store");
        self.0.read_exact_at(buffer, offset)
    }

    fn write(&self, offset: u64, buffer: &[u8]) -> io::Result<()> {
        blocking_point("writing a file of the store");
        self.0.write_all_at(buffer, offset)
    }

    fn write_and_sync(&self, mut offset: u64, mut buffer: &[u8]) -> io::Result<()> {
        blocking_point("writing and syncing a file of the store");
        // One call, and on disks that support it one request, instead of a write and a flush.
        while !buffer.is_empty() {
            match pwritev2(&self.0, &[IoSlice::new(buffer)], offset, ReadWriteFlags::DSYNC) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    offset += written as u64;
                    buffer = &buffer[written..];
                }
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    self.write(offset, buffer)?;
                    return self.sync();
                }
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        blocking_point("syncing a file of the store");
        self.0.sync_data()
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        blocking_point("discarding a part of a file of the store");
        match fallocate(&self.0, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len) {
            Err(Errno::OPNOTSUPP) => Ok(()),
            done => Ok(done?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Buffer;
    use super::*;

    #[test]
    fn a_directory_is_opened_once() {
        let dir = std::env::temp_dir().join(format!("loligo-store-lock-{}", std::process::id()));
        let files = Files::open(&dir).expect("a new directory");
        let again = Files::open(&dir).map(|_| ()).map_err(|e| e.kind());
        assert_eq!(again, Err(io::ErrorKind::WouldBlock));
        let file = files.open("f").expect("a new file");
        let mut buffer = Buffer::zeroed(1);
        buffer[17] = 5;
        file.set_len(1 << 20).expect("room");
        file.write(4096, &buffer).expect("room");
        file.sync().expect("a disk that works");
        file.write_and_sync(8192, &buffer).expect("room");
        buffer[17] = 0;
        file.read(8192, &mut buffer).expect("what was written");
        assert_eq!(buffer[17], 5);
        buffer[17] = 0;
        file.read(4096, &mut buffer).expect("what was written");
        assert_eq!((buffer[17], buffer.len(), file.len().expect("a file")), (5, 4096, 1 << 20));
        file.discard(0, 8192).expect("allowed");
        drop((file, files));
        Files::open(&dir).expect("nobody has it any more");
        fs::remove_dir_all(&dir).expect("ours");
    }
}
