//! A local file or block device. All operations that may wait for the disk run on the blocking pool's
//! threads.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut, SeekFrom as Place};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use rustix::fs::{Advice, FallocateFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};
use tokio::sync::Semaphore;

use super::{Backend, BackendError, Done, Later, Started, Work, add_extent};
use crate::proto::{Can, EXTENTS_MAX, Extent, Fault, Io, Piece};

/// Maximum number of requests of one file at the disk at the same time, each on a thread. A file whose
/// disk hangs occupies only that many of the runtime's 512 blocking threads.
const AT_DISK_MAX: u32 = 8;
/// Maximum bytes read from the page cache on the thread of the request; copying them takes some
/// microseconds.
const INLINE_MAX: u32 = 256 << 10;
/// Bytes per write of zeros, if the file system cannot zero a range itself.
const ZEROS: usize = 1 << 20;

/// Whether a file is opened for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read-only.
    ReadOnly,
    /// Read and write.
    ReadWrite,
}

/// A file that is opened as a device.
pub struct LocalFile(Arc<Inner>);

struct Inner {
    file: File,
    size: AtomicU64,
    is_regular: bool,
    access: Access,
    /// The file system supports reads that fail at once if the data are not in memory.
    can_look: AtomicBool,
    at_disk: Arc<Semaphore>,
}

impl LocalFile {
    /// Opens a file or a block device. May wait for the disk.
    ///
    /// # Errors
    /// The system's error; the path is neither a file nor a block device.
    pub fn open(path: &Path, access: Access) -> Result<Self, BackendError> {
        let named = |e: io::Error| BackendError(format!("{}: {e}", path.display()));
        let writes = access == Access::ReadWrite;
        let file = OpenOptions::new().read(true).write(writes).open(path).map_err(named)?;
        let kind = file.metadata().map_err(named)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(BackendError(format!("{}: neither a file nor a block device", path.display())));
        }
        let size = io::Seek::seek(&mut &file, Place::End(0)).map_err(named)?;
        Ok(Self(Arc::new(Inner {
            file,
            size: size.into(),
            is_regular: kind.is_file(),
            access,
            can_look: AtomicBool::new(true),
            at_disk: Arc::new(Semaphore::new(AT_DISK_MAX as usize)),
        })))
    }

    /// Runs work that may wait for the disk, with `places` of the permits. A caller that takes all
    /// permits runs alone: abandoned requests have ended as well.
    fn at_disk<T: Send + 'static>(
        &self,
        places: u32,
        work: impl FnOnce(&Inner) -> io::Result<T> + Send + 'static,
    ) -> impl Future<Output = io::Result<T>> + Send + 'static {
        let inner = Arc::clone(&self.0);
        async move {
            let at_disk = Arc::clone(&inner.at_disk);
            let place = at_disk.acquire_many_owned(places).await.map_err(io::Error::other)?;
            let done = tokio::task::spawn_blocking(move || {
                // Released when the work is done, even if its future has been dropped.
                let _place = place;
                work(&inner)
            });
            done.await.map_err(io::Error::other)?
        }
    }

    fn later(&self, work: impl FnOnce(&Inner) -> io::Result<Done> + Send + 'static) -> Later {
        let done = self.at_disk(1, work);
        Box::pin(async move { done.await.map_err(|e| fault(&e)) })
    }
}

impl Backend for LocalFile {
    fn kind(&self) -> &'static str {
        "file"
    }

    fn size(&self) -> u64 {
        self.0.size.load(Ordering::Relaxed)
    }

    fn can(&self) -> Can {
        Can { write: self.0.access == Access::ReadWrite, trim: true, fast_zero: true, multi_conn: true }
    }

    fn start(&self, io: Io) -> Started {
        Started::Later(self.later(move |inner| inner.carry_out(io)))
    }

    fn read_now(&self, offset: u64, len: u32, out: &mut BytesMut) -> bool {
        if len > INLINE_MAX || !self.0.can_look.load(Ordering::Relaxed) {
            return false;
        }
        let at = out.len();
        out.resize(at + len as usize, 0);
        let mut into = [IoSliceMut::new(&mut out[at..])];
        let read = rustix::io::preadv2(&self.0.file, &mut into, offset, ReadWriteFlags::NOWAIT);
        if read == Ok(len as usize) {
            return true;
        }
        if read == Err(Errno::OPNOTSUPP) {
            self.0.can_look.store(false, Ordering::Relaxed);
        }
        out.truncate(at);
        false
    }

    fn resize(&self, size: u64) -> Work {
        let done = self.at_disk(AT_DISK_MAX, move |inner| {
            if !inner.is_regular {
                return Err(io::Error::other("a block device keeps its size"));
            }
            inner.file.set_len(size)?;
            inner.file.sync_all()?;
            inner.size.store(size, Ordering::Relaxed);
            Ok(())
        });
        Box::pin(async move { done.await.map_err(BackendError::of) })
    }

    fn close(&self) -> Work {
        let done = self.at_disk(AT_DISK_MAX, |inner| match inner.access {
            Access::ReadOnly => Ok(()),
            Access::ReadWrite => inner.file.sync_data(),
        });
        Box::pin(async move { done.await.map_err(BackendError::of) })
    }
}

impl Inner {
    fn carry_out(&self, io: Io) -> io::Result<Done> {
        loligo_lockstat::blocking_point("a file's disk");
        match io {
            Io::Read { offset, len, .. } => {
                return Ok(Done::Data(vec![Piece::Data(self.read(offset, len)?)]));
            }
            Io::Write { offset, data, fua } => {
                self.file.write_all_at(&data, offset)?;
                self.sync_if(fua)?;
            }
            Io::Flush => self.file.sync_data()?,
            Io::Trim { offset, len, fua } => {
                // A hint: a file system without support ignores it.
                if self.allocate(FallocateFlags::PUNCH_HOLE, offset, len)? {
                    self.sync_if(fua)?;
                }
            }
            Io::WriteZeroes { offset, len, no_hole, fast, fua } => {
                let how = if no_hole { FallocateFlags::ZERO_RANGE } else { FallocateFlags::PUNCH_HOLE };
                if !self.allocate(how, offset, len)? {
                    if fast {
                        return Err(Errno::OPNOTSUPP.into());
                    }
                    self.write_zeros(offset, len)?;
                }
                self.sync_if(fua)?;
            }
            Io::Cache { offset, len } => {
                rustix::fs::fadvise(&self.file, offset, std::num::NonZeroU64::new(len), Advice::WillNeed)?;
            }
            Io::Status { offset, len, one } => return Ok(Done::Extents(self.extents(offset, len, one)?)),
        }
        Ok(Done::Nothing)
    }

    /// Bytes beyond the end of a file that has been truncated by another process read as zeros.
    fn read(&self, offset: u64, len: u32) -> io::Result<Bytes> {
        let mut data = BytesMut::zeroed(len as usize);
        let mut at = 0;
        while at < data.len() {
            match self.file.read_at(&mut data[at..], offset + at as u64) {
                Ok(0) => break,
                Ok(n) => at += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(data.freeze())
    }

    fn sync_if(&self, wanted: bool) -> io::Result<()> {
        if wanted { self.file.sync_data() } else { Ok(()) }
    }

    /// Returns `false` if the file system does not support it.
    fn allocate(&self, how: FallocateFlags, offset: u64, len: u64) -> io::Result<bool> {
        if len == 0 {
            return Ok(true);
        }
        match rustix::fs::fallocate(&self.file, how | FallocateFlags::KEEP_SIZE, offset, len) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    fn write_zeros(&self, offset: u64, len: u64) -> io::Result<()> {
        let zeros = vec![0; ZEROS.min(len as usize)];
        let mut at = 0;
        while at < len {
            let these = (len - at).min(ZEROS as u64) as usize;
            self.file.write_all_at(&zeros[..these], offset + at)?;
            at += these as u64;
        }
        Ok(())
    }

    /// The extents that the file system reports; if it does not support the query, all is data.
    fn extents(&self, offset: u64, len: u64, one: bool) -> io::Result<Vec<Extent>> {
        let (mut at, end) = (offset, offset + len);
        let most = if one { 1 } else { EXTENTS_MAX };
        let mut extents = Vec::new();
        while at < end && extents.len() < most {
            let data = match rustix::fs::seek(&self.file, SeekFrom::Data(at)) {
                Ok(data) => data.clamp(at, end),
                // Only a hole up to the end.
                Err(Errno::NXIO) => end,
                Err(_) => {
                    add_extent(&mut extents, end - at, false);
                    break;
                }
            };
            add_extent(&mut extents, data - at, true);
            if data < end && extents.len() < most {
                let hole = rustix::fs::seek(&self.file, SeekFrom::Hole(data)).unwrap_or(end);
                // Data extents have at least one byte; otherwise the loop might not end.
                let hole = hole.clamp(data + 1, end);
                add_extent(&mut extents, hole - data, false);
                at = hole;
            } else {
                at = data;
            }
        }
        Ok(extents)
    }
}

fn fault(e: &io::Error) -> Fault {
    e.raw_os_error().map_or(Fault::Io, |errno| Fault::of_errno(loligo_rados::Errno(errno)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(file: &LocalFile, io: Io) -> Result<Done, Fault> {
        file.0.carry_out(io).map_err(|e| fault(&e))
    }

    #[test]
    fn holes_are_told_and_made() {
        let path = std::env::temp_dir().join(format!("loligo-nbd-file.{}", std::process::id()));
        std::fs::write(&path, vec![7u8; 1 << 20]).expect("room");
        let file = LocalFile::open(&path, Access::ReadWrite).expect("it is there");
        assert_eq!(file.size(), 1 << 20);
        let status = || now(&file, Io::Status { offset: 0, len: 1 << 20, one: false });
        assert_eq!(status(), Ok(Done::Extents(vec![Extent { len: 1 << 20, hole: false }])));
        let zeroes =
            Io::WriteZeroes { offset: 64 << 10, len: 64 << 10, no_hole: false, fast: false, fua: true };
        assert_eq!(now(&file, zeroes), Ok(Done::Nothing));
        let read = now(&file, Io::Read { offset: (64 << 10) - 1, len: (64 << 10) + 2, whole: false });
        let Ok(Done::Data(pieces)) = read else { panic!("{read:?}") };
        let [Piece::Data(data)] = &pieces[..] else { panic!("{pieces:?}") };
        assert!(data[0] == 7 && data[data.len() - 1] == 7 && data[1..data.len() - 1].iter().all(|b| *b == 0));
        let Ok(Done::Extents(extents)) = status() else { panic!("no extents") };
        assert_eq!(extents.iter().map(|extent| extent.len).sum::<u64>(), 1 << 20);
        std::fs::remove_file(&path).expect("it was there");
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let refused = LocalFile::open(Path::new("/dev/null"), Access::ReadOnly).err().expect("no device");
        assert!(refused.to_string().contains("neither"), "{refused}");
        assert!(LocalFile::open(Path::new("/no such file"), Access::ReadOnly).is_err());
    }
}
