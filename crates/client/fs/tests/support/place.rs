//! A directory that this client and ceph-fuse see, and what tests do with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use loligo_fs::{Errno, FileSystem, MountOptions, OpenOptions};
use sha2::{Digest as _, Sha256};

use crate::cluster::{rados, stock};

/// How often a program is started again while no server serves, a second apart.
const STARTS_MAX: u32 = 120;

/// A mount of ceph-fuse; it ends when this is dropped.
pub(crate) struct Fuse(PathBuf);

/// The folder of the cluster. It has the same path where the programs of its release are.
fn stock_dir() -> PathBuf {
    std::env::var_os("LOLIGO_STOCK_DIR").expect("LOLIGO_STOCK_DIR names a cluster").into()
}

/// A program of the cluster's release.
pub(crate) fn program(name: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg(stock_dir().join("exec")).arg(name);
    command
}

/// Runs the program `ceph` of the cluster's release. Returns its output.
pub(crate) fn ceph(args: &[&str]) -> String {
    let run = || program("ceph").args(args).output().expect("ceph is installed");
    let mut done = run();
    for _ in 0..STARTS_MAX {
        // Another test restarts the server: nobody hears a command meanwhile.
        if done.status.success() || args.first() != Some(&"tell") {
            break;
        }
        std::thread::sleep(Duration::from_secs(1));
        done = run();
    }
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

impl Fuse {
    /// Mounts the file system with the cluster's release of ceph-fuse.
    pub(crate) fn mount(name: &str, options: &[&str]) -> Self {
        let dir = stock_dir().join(format!("mount-{name}"));
        fs::create_dir_all(&dir).expect("a folder");
        let mounts = || {
            let mut command = program("ceph-fuse");
            command.arg("-c").arg(stock()).arg(&dir).args(["--client_mount_timeout", "60"]).args(options);
            // Each in a file of its own: the tests run at once, and the program of an earlier mount may
            // still be ending.
            command.arg(format!("--pid_file={}.pid", dir.display()));
            command.output().expect("ceph-fuse is installed")
        };
        let mut done = mounts();
        for _ in 0..STARTS_MAX {
            // Another test restarts the server: a stock client does not wait for one.
            if !String::from_utf8_lossy(&done.stderr).contains("no MDS server") {
                break;
            }
            std::thread::sleep(Duration::from_secs(1));
            done = mounts();
        }
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Self(dir)
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        let _ = fs::remove_dir(&self.0);
        let _ = fs::remove_file(self.0.with_extension("pid"));
    }
}

/// A directory of the stock file system, seen by both clients.
pub(crate) struct Place {
    pub(crate) fs: FileSystem,
    fuse: Fuse,
    pub(crate) name: String,
}

impl Place {
    /// Makes the directory and mounts it here. `mount` mounts the whole file system with ceph-fuse, for the
    /// place of this name.
    pub(crate) async fn with(name: &str, options: MountOptions, mount: impl FnOnce(&str) -> Fuse) -> Self {
        // A name of this run's own: a cluster may be used twice.
        let name = format!("{name}-{}", std::process::id());
        let rados = rados().await;
        let whole = FileSystem::mount(&rados, MountOptions::new()).await.expect("mounted");
        whole.create_dir(&name, 0o777).await.expect("made");
        whole.unmount().await.expect("unmounted");
        let root = format!("/{name}");
        let fs = FileSystem::mount(&rados, options.root(&root)).await.expect("mounted");
        Self { fs, fuse: mount(&name), name }
    }

    /// The path by which the stock client finds something.
    pub(crate) fn theirs(&self, path: &str) -> PathBuf {
        self.fuse.0.join(&self.name).join(path)
    }

    pub(crate) async fn write(&self, path: &str, data: impl AsRef<[u8]>) {
        let options = OpenOptions::new().write().create().truncate();
        let file = self.fs.open(path, options).await.unwrap_or_else(|e| panic!("open {path}: {e}"));
        let data = Bytes::copy_from_slice(data.as_ref());
        file.write_at(0, data).await.unwrap_or_else(|e| panic!("write {path}: {e}"));
        file.close().await.expect("closed");
    }

    pub(crate) async fn end(self) {
        let Self { fs, fuse, .. } = self;
        fs.unmount().await.expect("unmounted");
        drop(fuse);
    }
}

pub(crate) fn sum(data: &[u8]) -> Vec<u8> {
    Sha256::digest(data).to_vec()
}

/// Runs blocking work beside the runtime, which serves the other client's wishes meanwhile.
pub(crate) async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("it does not panic")
}

/// The value of an extended attribute, as the stock client shows it.
pub(crate) fn getfattr(path: &Path, name: &str) -> Vec<u8> {
    let done = Command::new("/usr/bin/python3")
        .args(["-c", "import os, sys; sys.stdout.buffer.write(os.getxattr(sys.argv[1], sys.argv[2]))"])
        .arg(path)
        .arg(name)
        .output()
        .expect("python3 is installed");
    assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
    done.stdout
}

pub(crate) fn failed<T: std::fmt::Debug>(done: Result<T, loligo_fs::Error>) -> Errno {
    done.expect_err("it fails").errno()
}
