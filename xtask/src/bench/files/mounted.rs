//! Directories that a client has mounted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{PATIENCE, Side};
use crate::Result;
use crate::process::output_of;
use crate::stock::Cluster;

/// A mounted directory; it is unmounted when this is dropped.
pub(super) struct MountedDir {
    pub(super) child: Child,
    pub(super) dir: PathBuf,
}

impl MountedDir {
    /// Mounts the root of the file system, with a new process.
    pub(super) fn of(side: Side, stock: &Cluster, loligo: &Path) -> Result<Self> {
        let dir = stock.dir().join("mounted");
        fs::create_dir_all(&dir)?;
        let mut c = if side == Side::CephFuse {
            let mut c = Command::new("ceph-fuse");
            c.arg("-f");
            c
        } else {
            let mut c = Command::new(loligo);
            c.args(["mount", "-f", "fs:/"]);
            c
        };
        c.arg("-c").arg(stock.conf()).arg(&dir).env("CEPH_CONF", stock.conf());
        Self::new(&mut c, dir)
    }

    fn new(command: &mut Command, dir: PathBuf) -> Result<Self> {
        let log = dir.with_extension("log");
        let child = command.stdout(Stdio::null()).stderr(fs::File::create(&log)?).spawn()?;
        let mut mounted = Self { child, dir };
        let deadline = Instant::now() + PATIENCE;
        while !is_mounted(&mounted.dir)? {
            if let Some(status) = mounted.child.try_wait()? {
                let told = fs::read_to_string(&log).unwrap_or_default();
                return Err(format!("{command:?} ended: {status}: {}", told.trim()).into());
            }
            if Instant::now() > deadline {
                return Err(format!("{command:?} mounts nothing").into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(mounted)
    }
}

fn is_mounted(dir: &Path) -> Result<bool> {
    let dir = dir.display().to_string();
    Ok(fs::read_to_string("/proc/self/mounts")?.lines().any(|line| line.split(' ').nth(1) == Some(&dir)))
}

impl Drop for MountedDir {
    fn drop(&mut self) {
        // A client that has failed is unmounted by force.
        if output_of(Command::new("umount").arg(&self.dir)).is_err() {
            let _ = output_of(Command::new("umount").arg("-l").arg(&self.dir));
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
