//! A file system that two metadata servers share, and a directory in it for a test.
#![allow(dead_code, reason = "no test uses all of it")]

use std::process::Command;
use std::time::Duration;

use loligo_fs::{Errno, FileSystem, MountOptions, OpenOptions, XattrMode};
use serde_json::Value;

use crate::cluster::{rados, stock};

pub(crate) fn ceph(args: &[&str]) -> String {
    let done = Command::new("ceph").args(args).env("CEPH_CONF", stock()).output().expect("ceph is installed");
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Waits for a condition of the cluster.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..240 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    panic!("never: {what}; {}", ceph(&["fs", "status"]));
}

pub(crate) fn active() -> usize {
    ceph(&["mds", "stat"]).matches("=up:active").count()
}

pub(crate) async fn set_ranks(count: usize) {
    ceph(&["fs", "set", "fs", "max_mds", &count.to_string()]);
    let standby = format!("{} up:standby", 3 - count);
    until("so many ranks", || active() == count && ceph(&["mds", "stat"]).contains(&standby)).await;
}

/// A mount with a directory of its own, on two ranks.
pub(crate) struct Place {
    pub(crate) fs: FileSystem,
    dir: String,
}

impl Place {
    pub(crate) async fn new(name: &str) -> Self {
        set_ranks(2).await;
        let fs = FileSystem::mount(&rados().await, MountOptions::new()).await.expect("mounted");
        let dir = format!("{name}-{}", std::process::id());
        fs.create_dir(&dir, 0o777).await.expect("made");
        Self { fs, dir }
    }

    pub(crate) fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.dir)
    }

    /// Makes a directory that a rank has.
    pub(crate) async fn pinned(&self, name: &str, rank: u32) -> String {
        let path = self.at(name);
        self.fs.create_dir(&path, 0o777).await.expect("made");
        // Servers move no empty directory.
        self.fs.make_node(format!("{path}/first"), 0o644, 0).await.expect("made");
        self.pin(&path, rank).await;
        self.fs.remove_file(format!("{path}/first")).await.expect("removed");
        path
    }

    pub(crate) async fn pin(&self, path: &str, rank: u32) {
        let text = rank.to_string();
        self.fs.set_xattr(path, "ceph.dir.pin", text, XattrMode::Any).await.expect("pinned");
        let path = format!("/{path}");
        let daemon = format!("mds.{rank}");
        until("the directory has moved", || {
            let subtrees = ceph(&["tell", &daemon, "get", "subtrees", "-f", "json"]);
            let subtrees: Value = serde_json::from_str(&subtrees).expect("JSON");
            let is_it = |tree: &Value| tree["auth_first"] == rank && tree["dir"]["path"] == path.as_str();
            subtrees.as_array().expect("a list").iter().any(is_it)
        })
        .await;
    }

    /// Writes a file and makes it durable.
    pub(crate) async fn put(&self, path: &str, text: &str) {
        let file = self.fs.open(path, OpenOptions::new().write().create().truncate()).await;
        let file = file.unwrap_or_else(|e| panic!("open {path}: {e}"));
        file.write_at(0, text.to_owned()).await.expect("written");
        file.sync().await.expect("durable");
        file.close().await.expect("closed");
    }

    pub(crate) async fn get(&self, path: &str) -> String {
        let file = self.fs.open(path, OpenOptions::new().read()).await;
        let file = file.unwrap_or_else(|e| panic!("open {path}: {e}"));
        let data = file.read_at(0, 1 << 20).await.expect("read");
        file.close().await.expect("closed");
        String::from_utf8(data.to_vec()).expect("text")
    }

    /// Another client sees the directory like this: names and what is in the files.
    pub(crate) async fn seen_by_another(&self, path: &str) -> Vec<(String, String)> {
        let fs = FileSystem::mount(&rados().await, MountOptions::new()).await.expect("mounted");
        let mut seen = Vec::new();
        for entry in fs.read_dir(path).await.expect("a directory").all().await.expect("listed") {
            let name = String::from_utf8(entry.name).expect("text");
            let mut text = String::new();
            if entry.metadata.is_file() {
                let file = fs.open(format!("{path}/{name}"), OpenOptions::new().read()).await.expect("there");
                let data = file.read_at(0, 1 << 20).await.expect("read");
                text = String::from_utf8(data.to_vec()).expect("text");
            }
            seen.push((name, text));
        }
        fs.unmount().await.expect("unmounted");
        seen.sort();
        seen
    }

    pub(crate) async fn end(self) {
        self.fs.unmount().await.expect("unmounted");
    }
}

pub(crate) fn failed<T: std::fmt::Debug>(done: Result<T, loligo_fs::Error>) -> Errno {
    done.expect_err("it fails").errno()
}
