//! The two ways of stock's to a file system that are measured: libcephfs, and the calls of the kernel on a
//! mounted directory.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::io;

use crate::Result;

/// The attributes that `stat(2)` asks for (`CEPH_STATX_BASIC_STATS`).
const BASIC_STATS: c_uint = 0x7ff;
/// More than a `struct ceph_statx` of any release.
const STATX_BYTES: usize = 512;

/// A way to a file system. File descriptors are its own.
pub(super) trait Through: Sync {
    fn open(&self, path: &str, flags: c_int) -> io::Result<c_int>;
    fn close(&self, file: c_int) -> io::Result<()>;
    fn read(&self, file: c_int, buffer: &mut [u8], at: i64) -> io::Result<usize>;
    fn write(&self, file: c_int, data: &[u8], at: i64) -> io::Result<usize>;
    fn sync(&self, file: c_int) -> io::Result<()>;
    fn unlink(&self, path: &str) -> io::Result<()>;
    fn make_dir(&self, path: &str) -> io::Result<()>;
    fn remove_dir(&self, path: &str) -> io::Result<()>;
    fn stat(&self, path: &str) -> io::Result<()>;
    /// Lists a directory with each file's attributes; returns the number of entries.
    fn list(&self, path: &str) -> io::Result<u64>;
}

fn text(path: &str) -> io::Result<CString> {
    CString::new(path).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// A directory that is mounted.
pub(super) struct Mounted;

fn told(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

impl Through for Mounted {
    fn open(&self, path: &str, flags: c_int) -> io::Result<c_int> {
        let path = text(path)?;
        // SAFETY: the path ends with a zero, and the mode is the third argument that O_CREAT needs.
        let file = unsafe { libc::open(path.as_ptr(), flags, 0o644) };
        told(file as isize).map(|_| file)
    }

    fn close(&self, file: c_int) -> io::Result<()> {
        // SAFETY: the descriptor is one that `open` returned, and is not used afterwards.
        told(unsafe { libc::close(file) } as isize).map(drop)
    }

    fn read(&self, file: c_int, buffer: &mut [u8], at: i64) -> io::Result<usize> {
        // SAFETY: the buffer is writable, and as long as is said.
        told(unsafe { libc::pread(file, buffer.as_mut_ptr().cast(), buffer.len(), at) })
    }

    fn write(&self, file: c_int, data: &[u8], at: i64) -> io::Result<usize> {
        // SAFETY: the data is readable, and as long as is said.
        told(unsafe { libc::pwrite(file, data.as_ptr().cast(), data.len(), at) })
    }

    fn sync(&self, file: c_int) -> io::Result<()> {
        // SAFETY: fsync takes a number and accesses no memory of this process.
        told(unsafe { libc::fsync(file) } as isize).map(drop)
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn make_dir(&self, path: &str) -> io::Result<()> {
        std::fs::create_dir(path)
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        std::fs::remove_dir(path)
    }

    fn stat(&self, path: &str) -> io::Result<()> {
        std::fs::symlink_metadata(path).map(drop)
    }

    fn list(&self, path: &str) -> io::Result<u64> {
        let mut count = 0;
        for entry in std::fs::read_dir(path)? {
            entry?.metadata()?;
            count += 1;
        }
        Ok(count)
    }
}

/// The functions of libcephfs, by its C interface.
struct Functions {
    open: unsafe extern "C" fn(*mut c_void, *const c_char, c_int, c_uint) -> c_int,
    close: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    read: unsafe extern "C" fn(*mut c_void, c_int, *mut c_char, i64, i64) -> c_int,
    write: unsafe extern "C" fn(*mut c_void, c_int, *const c_char, i64, i64) -> c_int,
    fsync: unsafe extern "C" fn(*mut c_void, c_int, c_int) -> c_int,
    unlink: unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int,
    mkdir: unsafe extern "C" fn(*mut c_void, *const c_char, c_uint) -> c_int,
    rmdir: unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int,
    statx: unsafe extern "C" fn(*mut c_void, *const c_char, *mut c_void, c_uint, c_uint) -> c_int,
    opendir: unsafe extern "C" fn(*mut c_void, *const c_char, *mut *mut c_void) -> c_int,
    closedir: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
    #[allow(clippy::type_complexity, reason = "it is that of the C interface")]
    readdirplus: unsafe extern "C" fn(
        *mut c_void,
        *mut c_void,
        *mut libc::dirent64,
        *mut c_void,
        c_uint,
        c_uint,
        *mut *mut c_void,
    ) -> c_int,
    shutdown: unsafe extern "C" fn(*mut c_void),
}

/// A mount of libcephfs, which is loaded when it is asked for: xtask does not depend on it.
pub(super) struct LibCephFs {
    mount: *mut c_void,
    call: Functions,
}

// SAFETY: a mount of libcephfs may be used by several threads, says its header.
unsafe impl Sync for LibCephFs {}

/// Finds a function.
///
/// # Safety
/// `T` must be the type of the function of this name.
unsafe fn found<T: Copy>(library: *mut c_void, name: &CStr) -> Result<T> {
    // SAFETY: the library is open, and the name ends with a zero.
    let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
    if symbol.is_null() || size_of::<T>() != size_of::<*mut c_void>() {
        return Err(format!("libcephfs has no {}", name.to_string_lossy()).into());
    }
    // SAFETY: the caller says that it is of this type, and the sizes are equal.
    Ok(unsafe { std::mem::transmute_copy(&symbol) })
}

impl LibCephFs {
    /// Mounts the root of the default file system, with stock's defaults.
    pub(super) fn mount(conf: &str) -> Result<Self> {
        type Create = unsafe extern "C" fn(*mut *mut c_void, *const c_char) -> c_int;
        type WithText = unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int;
        // SAFETY: dlopen takes a name that ends with a zero; libcephfs runs nothing when it is loaded.
        let library = unsafe { libc::dlopen(c"libcephfs.so.2".as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return Err("libcephfs.so.2 is not installed".into());
        }
        let done = |what: &str, result: c_int| match result {
            0.. => Ok(()),
            errno => Err(format!("libcephfs: {what}: {}", io::Error::from_raw_os_error(-errno))),
        };
        // SAFETY: the types are those of libcephfs.h, which are the same in all releases.
        unsafe {
            let (create, read_conf, mount) = (
                found::<Create>(library, c"ceph_create")?,
                found::<WithText>(library, c"ceph_conf_read_file")?,
                found::<WithText>(library, c"ceph_mount")?,
            );
            let call = Functions {
                open: found(library, c"ceph_open")?,
                close: found(library, c"ceph_close")?,
                read: found(library, c"ceph_read")?,
                write: found(library, c"ceph_write")?,
                fsync: found(library, c"ceph_fsync")?,
                unlink: found(library, c"ceph_unlink")?,
                mkdir: found(library, c"ceph_mkdir")?,
                rmdir: found(library, c"ceph_rmdir")?,
                statx: found(library, c"ceph_statx")?,
                opendir: found(library, c"ceph_opendir")?,
                closedir: found(library, c"ceph_closedir")?,
                readdirplus: found(library, c"ceph_readdirplus_r")?,
                shutdown: found(library, c"ceph_shutdown")?,
            };
            let mut this = Self { mount: std::ptr::null_mut(), call };
            done("create", create(&raw mut this.mount, std::ptr::null()))?;
            let conf = text(conf)?;
            done("read the configuration", read_conf(this.mount, conf.as_ptr()))?;
            done("mount", mount(this.mount, c"/".as_ptr()))?;
            Ok(this)
        }
    }
}

impl Drop for LibCephFs {
    fn drop(&mut self) {
        if !self.mount.is_null() {
            // SAFETY: nothing uses the mount afterwards.
            unsafe { (self.call.shutdown)(self.mount) };
        }
    }
}

/// libcephfs returns negative errnos.
fn answered(result: c_int) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

// SAFETY of all calls below: the mount is one that `ceph_mount` has mounted; paths end with a zero; buffers
// are as long as is said.
#[allow(clippy::undocumented_unsafe_blocks, reason = "it is said above for all")]
impl Through for LibCephFs {
    fn open(&self, path: &str, flags: c_int) -> io::Result<c_int> {
        let path = text(path)?;
        let file = unsafe { (self.call.open)(self.mount, path.as_ptr(), flags, 0o644) };
        answered(file).map(|_| file)
    }

    fn close(&self, file: c_int) -> io::Result<()> {
        answered(unsafe { (self.call.close)(self.mount, file) }).map(drop)
    }

    fn read(&self, file: c_int, buffer: &mut [u8], at: i64) -> io::Result<usize> {
        let len = buffer.len() as i64;
        answered(unsafe { (self.call.read)(self.mount, file, buffer.as_mut_ptr().cast(), len, at) })
    }

    fn write(&self, file: c_int, data: &[u8], at: i64) -> io::Result<usize> {
        let len = data.len() as i64;
        answered(unsafe { (self.call.write)(self.mount, file, data.as_ptr().cast(), len, at) })
    }

    fn sync(&self, file: c_int) -> io::Result<()> {
        answered(unsafe { (self.call.fsync)(self.mount, file, 0) }).map(drop)
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        let path = text(path)?;
        answered(unsafe { (self.call.unlink)(self.mount, path.as_ptr()) }).map(drop)
    }

    fn make_dir(&self, path: &str) -> io::Result<()> {
        let path = text(path)?;
        answered(unsafe { (self.call.mkdir)(self.mount, path.as_ptr(), 0o755) }).map(drop)
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        let path = text(path)?;
        answered(unsafe { (self.call.rmdir)(self.mount, path.as_ptr()) }).map(drop)
    }

    fn stat(&self, path: &str) -> io::Result<()> {
        let path = text(path)?;
        let mut found = [0_u64; STATX_BYTES / 8];
        let nofollow = libc::AT_SYMLINK_NOFOLLOW.cast_unsigned();
        answered(unsafe {
            (self.call.statx)(self.mount, path.as_ptr(), found.as_mut_ptr().cast(), BASIC_STATS, nofollow)
        })
        .map(drop)
    }

    fn list(&self, path: &str) -> io::Result<u64> {
        let path = text(path)?;
        let mut dir = std::ptr::null_mut();
        answered(unsafe { (self.call.opendir)(self.mount, path.as_ptr(), &raw mut dir) })?;
        let mut count = 0;
        let ended = loop {
            let mut entry = std::mem::MaybeUninit::<libc::dirent64>::zeroed();
            let mut found = [0_u64; STATX_BYTES / 8];
            let more = answered(unsafe {
                (self.call.readdirplus)(
                    self.mount,
                    dir,
                    entry.as_mut_ptr(),
                    found.as_mut_ptr().cast(),
                    BASIC_STATS,
                    0,
                    std::ptr::null_mut(),
                )
            });
            match more {
                Ok(0) => break Ok(()),
                Ok(_) => count += 1,
                Err(e) => break Err(e),
            }
        };
        answered(unsafe { (self.call.closedir)(self.mount, dir) })?;
        ended.map(|()| count)
    }
}
