//! Mounting: the kernel's directory, the threads that take its requests, and the end.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use fuser::{Config, Filesystem, InitFlags, KernelConfig, MountOption, Request, Session, SessionACL};
use loligo_fs::FileSystem;
use loligo_lockstat::{Class, Mutex};
use rustix::mount::{UnmountFlags, unmount};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::attributes::Shown;
use crate::error::MountError;
use crate::invalidate::{Invalidations, Watch};
use crate::kernel::{Device, Form, Inbox, Kernel};
use crate::nodes::Nodes;
use crate::options::MountOptions;
use crate::read_ahead;
use crate::serve::{Policy, Server};

/// What is asked of the kernel, as far as it has it.
const WANTED: [InitFlags; 13] = [
    InitFlags::FUSE_POSIX_LOCKS,
    InitFlags::FUSE_FLOCK_LOCKS,
    InitFlags::FUSE_ATOMIC_O_TRUNC,
    InitFlags::FUSE_EXPORT_SUPPORT,
    InitFlags::FUSE_AUTO_INVAL_DATA,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    InitFlags::FUSE_CACHE_SYMLINKS,
    InitFlags::FUSE_HAS_EXPIRE_ONLY,
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
];

/// Pages of one request, if the kernel does not say how many it allows.
const PAGES_USUAL: u64 = 256;
/// Bytes of one write at most.
const WRITE_MAX: u64 = 16 << 20;
/// Requests that the kernel sends without a process that waits for each: read-ahead, and the parts of large
/// direct reads and writes.
const BACKGROUND_MAX: u16 = 256;

/// A file system in a directory. It stays until the directory is unmounted, by anybody.
pub struct Mount {
    session: Session<Handshake>,
    server: Arc<Server>,
    end: Arc<End>,
    dir: PathBuf,
}

/// Unmounts a [`Mount`], from any thread.
#[derive(Debug)]
pub struct Unmounter {
    dir: PathBuf,
    session: fuser::SessionUnmounter,
}

impl Unmounter {
    /// Takes the directory back at once. Programs that use files of it lose them when the mount's threads
    /// end; until then they go on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn detach(&mut self) -> Result<(), MountError> {
        let refused = |source| MountError::Refused { dir: self.dir.clone(), source };
        match unmount(&self.dir, UnmountFlags::DETACH) {
            Ok(()) => Ok(()),
            // For users other than root `fusermount3` does it. What is unmounted already is fine, too.
            Err(_) => self.session.unmount().map_err(refused),
        }
    }
}

/// What the kernel and this program agreed on.
#[derive(Clone, Copy, Debug)]
struct Agreed {
    form: Form,
    masks: bool,
}

/// Speaks with the kernel until it is mounted. After that the requests are taken by [`Server`].
#[derive(Debug)]
struct Handshake {
    wants_acls: bool,
    agreed: Arc<OnceLock<Agreed>>,
}

impl Filesystem for Handshake {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let mut has = |flag| config.add_capabilities(flag).is_ok();
        for flag in WANTED {
            has(flag);
        }
        let has_long_setxattr = has(InitFlags::FUSE_SETXATTR_EXT);
        let masks = self.wants_acls && has(InitFlags::FUSE_POSIX_ACL) && has(InitFlags::FUSE_DONT_MASK);
        let write_max = (pages_max() * rustix::param::page_size() as u64).min(WRITE_MAX) as u32;
        let write_max = match config.set_max_write(write_max) {
            Ok(_) => write_max,
            Err(max) => max,
        };
        let _ = config.set_max_background(BACKGROUND_MAX);
        let _ = self.agreed.set(Agreed { form: Form { has_long_setxattr, write_max }, masks });
        Ok(())
    }
}

/// Returns the pages that the kernel allows in one request; an administrator may have raised it.
fn pages_max() -> u64 {
    let limit = fs::read_to_string("/proc/sys/fs/fuse/max_pages_limit");
    limit.ok().and_then(|limit| limit.trim().parse().ok()).unwrap_or(PAGES_USUAL)
}

impl Mount {
    /// Mounts a file system. `runtime` is the one that it runs on. The calling thread may block, and is
    /// none of that runtime's.
    ///
    /// # Errors
    /// There is no FUSE, or the directory cannot be mounted on.
    pub fn new(fs: &FileSystem, runtime: &Handle, options: &MountOptions) -> Result<Self, MountError> {
        let dir = usable(&options.dir)?;
        let agreed = Arc::new(OnceLock::new());
        let handshake = Handshake { wants_acls: options.acls, agreed: Arc::clone(&agreed) };
        let refused = |source| MountError::Refused { dir: dir.clone(), source };
        let session = Session::new(handshake, &dir, &config(options)).map_err(refused)?;
        let agreed = agreed.get().copied().ok_or_else(|| refused(io::ErrorKind::InvalidData.into()))?;
        let device = session.as_fd().try_clone_to_owned().map(Device::new).map_err(refused)?;
        let root = fs.root().map_err(|e| refused(e.into()))?;
        let nodes = Arc::new(Nodes::new(root));
        let kernel = Kernel::new(device.for_notifications().map_err(refused)?);
        let keeps_names = options.kernel_cache && kernel.has_epochs();
        let invalidations = Invalidations::new(kernel, &nodes, runtime.clone());
        fs.watch_invalidations(Watch(Arc::clone(&invalidations)));
        let policy = Policy {
            shown: Shown { recursive: options.dir_sizes_recursive },
            keeps_attrs: options.kernel_cache,
            keeps_names,
            masks: agreed.masks,
            checks: !options.default_permissions,
            form: agreed.form,
        };
        let server = Server::new(fs.clone(), nodes, invalidations, policy, runtime.clone());
        let mount = Self { session, server, end: End::new(), dir };
        mount.start(device, agreed.form.write_max, options.threads)?;
        read_ahead::raise(&mount.dir);
        Ok(mount)
    }

    /// Starts the threads that take requests, each with a queue of its own in the kernel.
    fn start(&self, first: Device, write_max: u32, threads: usize) -> Result<(), MountError> {
        let refused = |source| MountError::Refused { dir: self.dir.clone(), source };
        let others = (1..threads).map(|_| first.another()).collect::<io::Result<Vec<_>>>();
        let devices = others.map_err(refused)?.into_iter().chain([first]);
        let devices: Vec<Arc<Device>> = devices.map(Arc::new).collect();
        self.server.comes_by(devices.clone());
        for (number, device) in devices.into_iter().enumerate() {
            let server = Arc::clone(&self.server);
            let taker = Taker::of(&self.end);
            let work = move || taker.note(take_requests(&server, &device, write_max));
            let thread = thread::Builder::new().name(format!("fuse-{number}")).spawn(work);
            thread.map(drop).map_err(refused)?;
        }
        Ok(())
    }

    /// Returns what unmounts the directory.
    pub fn unmounter(&mut self) -> Unmounter {
        Unmounter { dir: self.dir.clone(), session: self.session.unmount_callable() }
    }

    /// Waits until the directory is unmounted and nobody uses it any more.
    ///
    /// # Errors
    /// The kernel's device failed.
    pub async fn ended(&self) -> Result<(), MountError> {
        loop {
            let changed = self.end.changed.notified();
            tokio::pin!(changed);
            // Enlisted before the check, so that a change between the two is not missed.
            changed.as_mut().enable();
            if self.end.threads.load(Ordering::Acquire) == 0 {
                break;
            }
            changed.await;
        }
        let failed = self.end.failed.lock().take();
        failed.map_or(Ok(()), |source| Err(MountError::Ended { dir: self.dir.clone(), source }))
    }

    /// Closes the files that the kernel still had open.
    pub fn close(self) {
        self.server.clear();
    }
}

/// Held to note why a thread has ended.
static END: Class = Class::new("fuse.end");

/// The end of the threads that take requests.
struct End {
    threads: AtomicUsize,
    failed: Mutex<Option<io::Error>>,
    changed: Notify,
}

impl End {
    fn new() -> Arc<Self> {
        let failed = Mutex::new(&END, None);
        Arc::new(Self { threads: AtomicUsize::new(0), failed, changed: Notify::new() })
    }
}

/// A thread that takes requests; it counts until this is dropped, also by a panic.
struct Taker(Arc<End>);

impl Taker {
    fn of(end: &Arc<End>) -> Self {
        end.threads.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(end))
    }

    fn note(&self, ended: io::Result<()>) {
        if let Err(e) = ended {
            *self.0.failed.lock() = Some(e);
        }
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        self.0.threads.fetch_sub(1, Ordering::AcqRel);
        self.0.changed.notify_waiters();
    }
}

impl fmt::Debug for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mount at {}", self.dir.display())
    }
}

/// Takes requests until the mount has ended.
fn take_requests(server: &Arc<Server>, device: &Arc<Device>, write_max: u32) -> io::Result<()> {
    let mut inbox = Inbox::new(write_max);
    while let Some(request) = device.receive(&mut inbox)? {
        if !server.take(device, &request) {
            break;
        }
        inbox.take_back(request);
    }
    Ok(())
}

/// Checks beforehand what can be checked here: the kernel's errors say less.
fn usable(dir: &Path) -> Result<PathBuf, MountError> {
    let wrong = |source| MountError::Directory { dir: dir.to_owned(), source };
    let path = dir.canonicalize().map_err(wrong)?;
    if !fs::metadata(&path).map_err(wrong)?.is_dir() {
        return Err(wrong(io::ErrorKind::NotADirectory.into()));
    }
    let device = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    device.map(drop).map_err(MountError::NoDevice)?;
    Ok(path)
}

fn config(options: &MountOptions) -> Config {
    let chosen = [
        (options.read_only, MountOption::RO),
        (options.no_atime, MountOption::NoAtime),
        (options.no_exec, MountOption::NoExec),
        (options.devices, MountOption::Dev),
        (options.suid, MountOption::Suid),
        (options.default_permissions, MountOption::DefaultPermissions),
    ];
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(options.source.clone()),
        // `mount` shows the type as `fuse.loligo`. This name tells it how to remount and unmount.
        MountOption::CUSTOM("subtype=loligo".to_owned()),
    ];
    config.mount_options.extend(chosen.into_iter().filter(|(is, _)| *is).map(|(_, option)| option));
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config
}
