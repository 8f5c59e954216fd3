//! A stock cluster with a file system, mounted by `loligo mount`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::Result;
use crate::process::{succeed, workspace};
use crate::stock::{Cluster, Release, UpOptions};

/// The mount. Dropping it unmounts, and ends the cluster.
pub(super) struct Mounted {
    cluster: Option<Cluster>,
    release: Release,
    process: Child,
    dir: PathBuf,
}

impl Mounted {
    /// Starts a cluster of a release, and mounts its file system.
    pub(super) fn new(release: Release) -> Result<Self> {
        let dir = std::env::temp_dir().join(format!("loligo-mounted.{}", std::process::id()));
        let cluster = Cluster::up(
            &dir.with_extension("cluster"),
            &UpOptions { release, mds: 1, ..UpOptions::default() },
        )?;
        fs::create_dir_all(&dir)?;
        let mut command = Command::new(workspace().join("target/debug/loligo"));
        command.arg("-c").arg(cluster.conf()).args(["mount", "-f", "-o", "dev,suid", ":/"]).arg(&dir);
        let process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut mounted = Self { cluster: Some(cluster), release, process, dir };
        let mut line = String::new();
        let out = mounted.process.stdout.take().ok_or("no pipe to the mount's process")?;
        BufReader::new(out).read_line(&mut line)?;
        match line.starts_with("ready ") {
            true => Ok(mounted),
            false => Err(format!("the mount is not ready: {line:?}").into()),
        }
    }

    /// Makes a new folder in the file system.
    pub(super) fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.path().join(name);
        fs::create_dir(&folder)?;
        Ok(folder)
    }

    /// The release of the servers.
    pub(super) fn release(&self) -> Release {
        self.release
    }

    pub(super) fn path(&self) -> &Path {
        &self.dir
    }

    /// The cluster's ceph.conf.
    pub(super) fn conf(&self) -> Option<PathBuf> {
        self.cluster.as_ref().map(Cluster::conf)
    }

    /// Unmounts, waits until all is durable, and takes the cluster down.
    pub(super) fn end(mut self) -> Result<()> {
        succeed(Command::new("umount").arg(&self.dir))?;
        let status = self.process.wait()?;
        if !status.success() {
            return Err(format!("the mount's process ended: {status}").into());
        }
        self.cluster.take().map_or(Ok(()), Cluster::down)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.cluster.is_some() {
            let _ = Command::new("umount").arg("-l").arg(&self.dir).status();
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
        // Never what is mounted there.
        let _ = fs::remove_dir(&self.dir);
    }
}
