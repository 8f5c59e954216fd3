//! The location of a release's programs: this machine, or a folder that is entered with chroot.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Release;
use crate::Result;
use crate::process::{installed, output_of, succeed};

/// The daemons and their clients. fio has engines for objects and images; those of qemu are in a package
/// of their own. Also NBD clients and servers, and tools that make images and certificates for them.
const PACKAGES: [&str; 18] = [
    "ceph-mon",
    "ceph-osd",
    "ceph-mgr",
    "ceph-mds",
    "ceph-fuse",
    "ceph-common",
    "python3-rados",
    "python3-rbd",
    "python3-cephfs",
    "fio",
    "qemu-utils",
    "qemu-block-extra",
    "ca-certificates",
    "iproute2",
    "libnbd-bin",
    "nbdkit",
    "squashfs-tools",
    "gnutls-bin",
];

/// The programs that run a kernel with an NBD client, and those that use a mounted file system, with a
/// library that a suite of its tests needs. They are installed only on this machine.
const MACHINE: [&str; 6] = ["qemu-system-x86", "busybox-static", "fuse3", "rsync", "attr", "libacl1-dev"];

/// Ceph's own test programs. They are run only from releases in folders.
const TESTS: [&str; 1] = ["ceph-test"];

/// The programs that show whether a release in a folder is complete.
const CHROOT_PROGRAMS: [&str; 4] = ["ceph-osd", "ceph-mds", "ceph-fuse", "ceph_test_rados"];

/// Names a folder that need not exist in a release's folder: programs there use their own.
const TMPDIR: &str = "TMPDIR";

/// The programs that show whether all packages are installed.
const PROGRAMS: [&str; 15] = [
    "ceph-osd",
    "ceph-mds",
    "ceph-fuse",
    "rados",
    "fio",
    "qemu-img",
    "nbdinfo",
    "nbdkit",
    "mksquashfs",
    "certtool",
    "qemu-system-x86_64",
    "busybox",
    "fusermount3",
    "rsync",
    "setfattr",
];

/// The folder that contains a release's `/usr`.
pub(crate) struct Root(PathBuf);

impl Root {
    /// Installs a release if necessary.
    pub(crate) fn prepare(release: Release) -> Result<Self> {
        match release {
            Release::Pacific => {
                if !PROGRAMS.into_iter().all(installed) {
                    install(Path::new("/"))?;
                }
                Ok(Self("/".into()))
            }
            Release::Reef => Self::chroot("trixie"),
            Release::Tentacle => Self::chroot("sid"),
        }
    }

    pub(super) fn at(path: PathBuf) -> Self {
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    fn is_here(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// The words that enter the release's folder.
    pub(super) fn enter(&self) -> String {
        if self.is_here() {
            return String::new();
        }
        format!("chroot '{}' env --unset={TMPDIR} ", self.0.display())
    }

    /// Returns a command for a program of the release. It inherits the environment.
    pub(crate) fn program(&self, name: &str) -> Command {
        if self.is_here() {
            return Command::new(name);
        }
        let mut command = Command::new("chroot");
        command.arg(&self.0).arg(name).env_remove(TMPDIR);
        command
    }

    /// Installs another package, unless the file is there that shows it.
    pub(crate) fn install(&self, package: &str, file: &str) -> Result<()> {
        if self.0.join(file).exists() {
            return Ok(());
        }
        may_install()?;
        apt(&self.0, &["-o", "Acquire::Check-Valid-Until=false", "update", "-qq"])?;
        apt(&self.0, &["install", "-qq", "-y", "--no-install-recommends", package])
    }

    /// Creates a folder that has the same path inside and outside.
    pub(crate) fn make_dir(&self, dir: &Path) -> Result<()> {
        if self.is_here() {
            return Ok(fs::create_dir_all(dir)?);
        }
        let inside = self.inside(dir)?;
        fs::create_dir_all(&inside)?;
        if let Some(parent) = dir.parent() {
            fs::create_dir_all(parent)?;
        }
        Ok(symlink(inside, dir)?)
    }

    /// Removes a folder made by `make_dir`.
    pub(crate) fn remove_dir(&self, dir: &Path) -> Result<()> {
        if self.is_here() {
            return Ok(fs::remove_dir_all(dir)?);
        }
        fs::remove_dir_all(self.inside(dir)?)?;
        Ok(fs::remove_file(dir)?)
    }

    fn inside(&self, dir: &Path) -> Result<PathBuf> {
        let relative = dir.strip_prefix("/").map_err(|_| "the cluster's folder must be an absolute path")?;
        Ok(self.0.join(relative))
    }

    fn chroot(suite: &str) -> Result<Self> {
        let roots = std::env::var_os("STOCK_CEPH_ROOTS").map_or("/var/tmp/stock-ceph".into(), PathBuf::from);
        let root = roots.join(suite);
        if !root.join("usr/bin").exists() {
            fs::create_dir_all(&roots)?;
            // Renamed when it is complete: an interrupted one is made again.
            let unfinished = roots.join(format!("{suite}.unfinished"));
            if unfinished.exists() {
                fs::remove_dir_all(&unfinished)?;
            }
            debootstrap(suite, &unfinished)?;
            fs::rename(&unfinished, &root)?;
        }
        mount_all(&root)?;
        if !CHROOT_PROGRAMS.into_iter().all(|program| root.join("usr/bin").join(program).exists()) {
            install(&root)?;
        }
        Ok(Self(root))
    }
}

/// Installs a minimal Debian in a folder, from the mirror of this machine.
pub(crate) fn debootstrap(suite: &str, root: &Path) -> Result<()> {
    may_install()?;
    if !installed("debootstrap") {
        apt(Path::new("/"), &["update", "-qq"])?;
        apt(Path::new("/"), &["install", "-qq", "-y", "--no-install-recommends", "debootstrap"])?;
    }
    fs::create_dir_all(root)?;
    // The mirror that this machine uses itself, since it is reachable.
    let sources = fs::read_to_string("/etc/apt/sources.list.d/debian.sources").unwrap_or_default();
    let mirror = sources.lines().find_map(|line| line.strip_prefix("URIs:")).map(str::trim);
    let mut command = Command::new("debootstrap");
    command.args(["--variant=minbase", "--no-check-gpg", suite]).arg(root);
    command.args(mirror).env_remove(TMPDIR);
    output_of(&mut command).map(drop)
}

/// Mounts the file systems that package scripts need.
fn mount_all(root: &Path) -> Result<()> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    for (name, args) in
        [("proc", ["-t", "proc", "proc"]), ("dev", ["--bind", "/dev", ""]), ("sys", ["--bind", "/sys", ""])]
    {
        let target = root.join(name);
        let target_text = target.display().to_string();
        if mounts.lines().any(|line| line.split(' ').nth(1) == Some(&target_text)) {
            continue;
        }
        succeed(Command::new("mount").args(args.iter().filter(|a| !a.is_empty())).arg(&target))?;
    }
    Ok(())
}

/// Returns an error if packages cannot be installed.
fn may_install() -> Result<()> {
    if !installed("apt-get") {
        return Err("stock Ceph is not installed, and there is no apt to install it with".into());
    }
    // SAFETY: geteuid only returns a number.
    if unsafe { libc::geteuid() } != 0 {
        return Err("stock Ceph is not installed, and only root may install it with apt".into());
    }
    Ok(())
}

fn install(root: &Path) -> Result<()> {
    may_install()?;
    eprintln!("installing stock Ceph: {}", PACKAGES.join(" "));
    apt(root, &["-o", "Acquire::Check-Valid-Until=false", "update", "-qq"])?;
    let mut args = vec!["install", "-qq", "-y", "--no-install-recommends"];
    args.extend(PACKAGES);
    if root == Path::new("/") {
        args.extend(MACHINE);
    } else {
        args.extend(TESTS);
    }
    apt(root, &args).or_else(|e| {
        // A package's last script may fail on a system without services, as that of 20.2.4's monitors
        // does. The programs are installed nevertheless.
        let mut daemon = Command::new("chroot");
        daemon.arg(root).args(["ceph-mon", "--version"]);
        output_of(&mut daemon).map(drop).map_err(|_| e)
    })
}

fn apt(root: &Path, args: &[&str]) -> Result<()> {
    let mut command = Command::new("chroot");
    command.env_remove(TMPDIR);
    command.arg(root).args(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]).args(args);
    output_of(&mut command).map(drop)
}
