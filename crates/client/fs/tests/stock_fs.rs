//! Goal: what this client does to a file system, a stock client sees, and the other way round, both at
//! the same time on the same tree. Method: a stock metadata server; ceph-fuse mounts the same directory.
//! Data is compared by its SHA-256.

#[path = "support/cluster.rs"]
mod cluster;
#[path = "support/place.rs"]
mod place;
mod stock_cache;
mod stock_names;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use loligo_fs::{Changes, Errno, FileSystem, MountOptions, OpenOptions, UTime, XattrMode};

use cluster::rados;
use place::{Fuse, Place, beside, ceph, failed, getfattr, program, sum};

impl Place {
    async fn new(name: &str) -> Self {
        Self::with(name, MountOptions::new(), |name| {
            // It returns a capability before the kernel has dropped the pages that it allowed: what the
            // kernel has cached would be older than what this client has written since.
            let options = ["--fuse_disable_pagecache=true"];
            Fuse::mount(name, &options)
        })
        .await
    }

    async fn read(&self, path: &str) -> Bytes {
        let file = self
            .fs
            .open(path, OpenOptions::new().read())
            .await
            .unwrap_or_else(|e| panic!("open {path}: {e}"));
        let data = file.read_at(0, 1 << 30).await.unwrap_or_else(|e| panic!("read {path}: {e}"));
        file.close().await.expect("closed");
        data
    }
}

fn pattern(len: usize, seed: u64) -> Bytes {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

async fn theirs_reads(path: PathBuf) -> Vec<u8> {
    beside(move || fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn files_of_either_are_read_by_the_other() {
    let place = Place::new("data").await;
    for (name, len) in [("empty", 0), ("small", 1000), ("object", 4 << 20), ("several", (9 << 20) + 17)] {
        let data = pattern(len, len as u64);
        place.write(name, &data).await;
        assert_eq!(sum(&theirs_reads(place.theirs(name)).await), sum(&data), "{name}, ours");
        let theirs = pattern(len, 7 + len as u64);
        let (path, copy) = (place.theirs(&format!("{name}-theirs")), theirs.clone());
        beside(move || fs::write(path, copy).expect("written")).await;
        assert_eq!(sum(&place.read(&format!("{name}-theirs")).await), sum(&theirs), "{name}, theirs");
    }
    // A file that both have open: each sees at once what the other writes.
    let path = place.theirs("shared");
    let file = place.fs.open("shared", OpenOptions::new().read().write().create()).await.expect("opened");
    file.write_at(0, &b"one"[..]).await.expect("written");
    let theirs = beside(move || {
        use std::io::{Read as _, Write as _};
        let mut theirs = fs::OpenOptions::new().read(true).append(true).open(path).expect("opened");
        let mut text = String::new();
        theirs.read_to_string(&mut text).expect("read");
        assert_eq!(text, "one");
        theirs.write_all(b"two").expect("written");
        theirs
    })
    .await;
    assert_eq!(file.read_at(0, 100).await.expect("read"), "onetwo");
    file.write_at(6, &b"three"[..]).await.expect("written");
    let theirs = beside(move || {
        use std::os::unix::fs::FileExt as _;
        let mut text = [0; 5];
        theirs.read_exact_at(&mut text, 6).expect("read");
        assert_eq!(&text, b"three");
        assert_eq!(theirs.metadata().expect("there").len(), 11);
        theirs
    })
    .await;
    drop(theirs);
    file.truncate(4).await.expect("truncated");
    assert_eq!(theirs_reads(place.theirs("shared")).await, b"onet");
    file.write_at(8, &b"x"[..]).await.expect("written");
    assert_eq!(theirs_reads(place.theirs("shared")).await, b"onet\0\0\0\0x", "what was cut off is zeros");
    file.close().await.expect("closed");
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn names_of_either_are_seen_by_the_other() {
    let place = Place::new("names").await;
    let (ours, theirs) = (&place.fs, |path: &str| place.theirs(path));
    ours.create_dir_all("a/b/c", 0o750).await.expect("made");
    assert_eq!(fs::metadata(theirs("a/b/c")).expect("there").permissions().mode() & 0o7777, 0o750);
    assert_eq!(failed(ours.create_dir("a/b", 0o755).await), Errno::EEXIST);
    ours.symlink("b/c", "a/link").await.expect("made");
    assert_eq!(fs::read_link(theirs("a/link")).expect("a link"), Path::new("b/c"));
    place.write("a/link/file", &pattern(10, 1)).await;
    assert_eq!(fs::metadata(theirs("a/b/c/file")).expect("there").len(), 10);
    ours.link("a/b/c/file", "second").await.expect("made");
    assert_eq!(fs::metadata(theirs("second")).expect("there").nlink(), 2);
    fs::remove_file(theirs("a/b/c/file")).expect("removed");
    assert_eq!(failed(ours.stat("a/b/c/file").await), Errno::ENOENT);
    assert_eq!(ours.stat("second").await.expect("there").nlink, 1);
    fs::rename(theirs("second"), theirs("a/moved")).expect("moved");
    assert_eq!(failed(ours.stat("second").await), Errno::ENOENT);
    assert_eq!(ours.stat("a/moved").await.expect("there").size, 10);
    ours.rename("a/moved", "back").await.expect("moved");
    assert!(theirs("back").exists() && !theirs("a/moved").exists());
    place.write("over", &pattern(5, 2)).await;
    ours.rename("over", "back").await.expect("moved over");
    assert_eq!(fs::metadata(theirs("back")).expect("there").len(), 5);
    symlink("/names", theirs("round")).expect("made");
    assert_eq!(ours.read_link("round").await.expect("a link"), b"/names");
    assert_eq!(failed(ours.remove_dir("a/b").await).0, 39, "ENOTEMPTY");
    assert_eq!(failed(ours.remove_file("a/b").await).0, 21, "EISDIR");
    assert_eq!(failed(ours.remove_dir("back").await).0, 20, "ENOTDIR");
    assert_eq!(failed(ours.stat("back/x").await).0, 20, "ENOTDIR");
    assert_eq!(failed(ours.create_dir(vec![b'x'; 256], 0o755).await).0, 36, "ENAMETOOLONG");
    ours.make_node("pipe", 0o010_644, 0).await.expect("made");
    assert_eq!(fs::metadata(theirs("pipe")).expect("there").mode() & 0o170_000, 0o010_000);
    ours.symlink("loop", "loop").await.expect("made");
    assert_eq!(failed(ours.stat("loop").await).0, 40, "ELOOP");
    ours.create_dir(b"any \xff bytes", 0o755).await.expect("made");
    let listed = ours.read_dir("/").await.expect("a directory").all().await.expect("listed");
    let mut listed: Vec<_> = listed.into_iter().map(|entry| entry.name).collect();
    listed.sort();
    let theirs_listed = fs::read_dir(theirs("")).expect("a directory");
    let mut theirs_listed: Vec<_> = theirs_listed
        .map(|entry| std::os::unix::ffi::OsStringExt::into_vec(entry.expect("an entry").file_name()))
        .collect();
    theirs_listed.sort();
    assert_eq!(listed, theirs_listed);
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn attributes_of_either_are_seen_by_the_other() {
    let place = Place::new("attributes").await;
    let (ours, theirs) = (&place.fs, |path: &str| place.theirs(path));
    place.write("f", &pattern(100, 1)).await;
    let when = UTime { sec: 1_000_000_000, nsec: 5_000 };
    let changes = Changes {
        permissions: Some(0o640),
        uid: Some(12),
        gid: Some(34),
        mtime: Some(when),
        ..Changes::default()
    };
    ours.change("f", changes).await.expect("changed");
    let seen = fs::metadata(theirs("f")).expect("there");
    assert_eq!((seen.permissions().mode() & 0o7777, seen.uid(), seen.gid()), (0o640, 12, 34));
    assert_eq!((seen.mtime(), seen.mtime_nsec()), (1_000_000_000, 5_000));
    fs::set_permissions(theirs("f"), fs::Permissions::from_mode(0o600)).expect("set");
    assert_eq!(ours.stat("f").await.expect("there").permissions(), 0o600);
    fs::File::options().write(true).open(theirs("f")).and_then(|f| f.set_len(3)).expect("truncated");
    assert_eq!(ours.stat("f").await.expect("there").size, 3);
    ours.truncate("f", 70_000).await.expect("extended");
    assert_eq!(fs::metadata(theirs("f")).expect("there").len(), 70_000);
    assert_eq!(place.read("f").await, [&pattern(100, 1)[..3], &vec![0; 69_997]].concat());

    ours.set_xattr("f", "user.ours", "red", XattrMode::Create).await.expect("set");
    assert_eq!(failed(ours.set_xattr("f", "user.ours", "x", XattrMode::Create).await), Errno::EEXIST);
    assert_eq!(failed(ours.set_xattr("f", "user.none", "x", XattrMode::Replace).await), Errno::ENODATA);
    assert_eq!(getfattr(&theirs("f"), "user.ours"), b"red");
    setfattr(&theirs("f"), "user.theirs", "blue");
    assert_eq!(ours.xattr("f", "user.theirs").await.expect("there"), "blue");
    let mut names = ours.xattrs("f").await.expect("listed");
    names.sort();
    assert_eq!(names, [&b"user.ours"[..], b"user.theirs"]);
    ours.remove_xattr("f", "user.ours").await.expect("removed");
    assert_eq!(failed(ours.xattr("f", "user.ours").await), Errno::ENODATA);

    ours.create_dir("d", 0o755).await.expect("made");
    for name in ["ceph.dir.entries", "ceph.dir.rfiles", "ceph.dir.files", "ceph.dir.subdirs"] {
        let value = ours.xattr("/", name).await.expect("there");
        assert_eq!(getfattr(&theirs(""), name), &value[..], "{name}");
    }
    let layout = ours.xattr("f", "ceph.file.layout").await.expect("there");
    assert_eq!(getfattr(&theirs("f"), "ceph.file.layout"), &layout[..]);
    let striped = "stripe_unit=65536 stripe_count=4 object_size=262144";
    ours.set_xattr("d", "ceph.dir.layout", striped, XattrMode::Any).await.expect("set");
    let data = pattern(3_000_001, 3);
    place.write("d/striped", &data).await;
    assert!(getfattr(&theirs("d/striped"), "ceph.file.layout").starts_with(striped.as_bytes()));
    assert_eq!(sum(&theirs_reads(theirs("d/striped")).await), sum(&data));
    setfattr(&theirs("d"), "ceph.quota.max_bytes", "100000000");
    assert_eq!(ours.xattr("d", "ceph.quota.max_bytes").await.expect("there"), "100000000");
    place.end().await;
}

fn setfattr(path: &Path, name: &str, value: &str) {
    let done = Command::new("python3")
        .args(["-c", "import os, sys; os.setxattr(sys.argv[1], sys.argv[2], sys.argv[3].encode())"])
        .arg(path)
        .args([name, value])
        .status()
        .expect("python3 is installed");
    assert!(done.success(), "{name}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn a_large_directory_is_listed_once_each() {
    let place = Place::new("large").await;
    let ours = &place.fs;
    let count = 6000;
    let make = |at: usize| async move { ours.make_node(format!("file-{at}"), 0o644, 0).await };
    for from in (0..count).step_by(200) {
        let made = futures_util::future::join_all((from..from + 200).map(make)).await;
        made.into_iter().for_each(|made| made.expect("made"));
    }
    let mut dir = ours.read_dir("").await.expect("a directory");
    let mut names = std::collections::BTreeSet::new();
    while let Some(entry) = dir.next().await.expect("listed") {
        assert!(entry.metadata.is_file());
        assert!(names.insert(entry.name), "twice");
    }
    assert_eq!(names.len(), count);
    assert_eq!(fs::read_dir(place.theirs("")).expect("a directory").count(), count);
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn snapshots_of_either_are_read_by_the_other() {
    let place = Place::new("snapshots").await;
    let (ours, theirs) = (&place.fs, |path: &str| place.theirs(path));
    let (old, new) = (pattern(5 << 20, 1), pattern(5 << 20, 2));
    place.write("f", &old).await;
    ours.create_dir(".snap/first", 0o755).await.expect("made");
    place.write("f", &new).await;
    assert_eq!(sum(&theirs_reads(theirs(".snap/first/f")).await), sum(&old));
    assert_eq!(sum(&place.read(".snap/first/f").await), sum(&old));
    assert_eq!(sum(&theirs_reads(theirs("f")).await), sum(&new));
    beside({
        let path = theirs(".snap/second");
        move || fs::create_dir(path).expect("made")
    })
    .await;
    place.write("f", &old).await;
    assert_eq!(sum(&place.read(".snap/second/f").await), sum(&new));
    let listed = ours.read_dir(".snap").await.expect("snapshots").all().await.expect("listed");
    let mut listed: Vec<_> = listed.into_iter().map(|entry| entry.name).collect();
    listed.sort();
    assert_eq!(listed, [&b"first"[..], b"second"]);
    assert_eq!(failed(ours.create_dir(".snap/first/x", 0o755).await), Errno::EROFS);
    ours.rename(".snap/second", ".snap/third").await.expect("renamed");
    assert_eq!(sum(&place.read(".snap/third/f").await), sum(&new), "renamed by us");
    beside({
        let (from, to) = (theirs(".snap/third"), theirs(".snap/fourth"));
        move || fs::rename(from, to).expect("renamed")
    })
    .await;
    assert_eq!(sum(&place.read(".snap/fourth/f").await), sum(&new), "renamed by the other");
    let listed = ours.read_dir(".snap/fourth").await.expect("opened").all().await.expect("listed");
    assert_eq!(listed.len(), 1);
    ours.remove_dir(".snap/fourth").await.expect("removed");
    ours.remove_dir(".snap/first").await.expect("removed");
    place.end().await;
}

/// Goal: what this client has found in a snapshot stays what it is, whatever happens to the head. Method:
/// names and attributes of a snapshot are asked for, so that replies tell of its directories again; then the
/// head's directories are changed and removed, and the snapshot's are looked at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn a_snapshot_stays_when_the_head_is_gone() {
    let place = Place::new("past").await;
    let ours = &place.fs;
    ours.create_dir_all("d/e", 0o755).await.expect("made");
    for name in ["d/f", "d/e/g", "d/e/h"] {
        place.write(name, name.as_bytes()).await;
    }
    for path in ["d/e", "d/e/g"] {
        ours.set_xattr(path, "user.a", path, XattrMode::Any).await.expect("set");
    }
    ours.create_dir(".snap/s", 0o755).await.expect("made");
    for path in ["d", "d/f", "d/e", "d/e/g"] {
        ours.stat(format!(".snap/s/{path}")).await.expect("there");
    }
    for path in ["d/e", "d/e/g"] {
        let there = format!(".snap/s/{path}");
        assert_eq!(ours.xattrs(&there).await.expect("listed"), [b"user.a"], "{path}");
        assert_eq!(ours.xattr(&there, "user.a").await.expect("found"), path.as_bytes(), "{path}");
    }
    ours.statistics(".snap/s/d").await.expect("told");
    ours.statistics(".snap/s/d/e").await.expect("told");
    let listed = async |path: &str| -> Vec<Vec<u8>> {
        let entries = ours.read_dir(path).await.expect("opened").all().await.expect("listed");
        let mut names: Vec<_> = entries.into_iter().map(|entry| entry.name).collect();
        names.sort();
        names
    };
    place.write("d/new", b"new").await;
    ours.remove_file("d/e/h").await.expect("removed");
    assert_eq!(listed(".snap/s/d").await, [&b"e"[..], b"f"]);
    assert_eq!(place.read(".snap/s/d/e/h").await, b"d/e/h"[..]);
    for name in ["d/e/g", "d/f", "d/new"] {
        ours.remove_file(name).await.expect("removed");
    }
    ours.remove_dir("d/e").await.expect("removed");
    ours.remove_dir("d").await.expect("removed");
    assert_eq!(listed(".snap/s/d/e").await, [&b"g"[..], b"h"]);
    assert_eq!(place.read(".snap/s/d/f").await, b"d/f"[..]);
    let options = OpenOptions::new().write().create_new();
    assert_eq!(failed(ours.open(".snap/s/d/e", options).await), Errno::EEXIST, "a directory");
    assert_eq!(failed(ours.open(".snap/s/d/f", options).await), Errno::EEXIST, "a file");
    assert_eq!(failed(ours.open(".snap/s/d/new", options).await), Errno::EROFS);
    ours.remove_dir(".snap/s").await.expect("removed");
    place.end().await;
}

/// Goal: the server shows the clients that have mounted, and no session once it is unmounted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn a_mount_ends_without_a_trace() {
    let rados = rados().await;
    let options = MountOptions::new().named("fs").metadata("purpose", "test");
    let fs = FileSystem::mount(&rados, options).await.expect("mounted");
    assert_eq!(fs.name(), "fs");
    let ours = format!("client.{}", rados.instance_id());
    let sessions = || {
        let done =
            program("ceph").args(["tell", "mds.*", "session", "ls"]).output().expect("ceph is installed");
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    let shown = sessions();
    assert!(shown.contains(&ours), "{shown}");
    assert!(shown.contains("\"purpose\": \"test\"") && shown.contains("loligo_version"), "{shown}");
    fs.unmount().await.expect("unmounted");
    assert!(!sessions().contains(&ours));
    let missing =
        FileSystem::mount(&rados, MountOptions::new().named("none")).await.expect_err("no such one");
    assert_eq!(missing.errno(), Errno::ENOENT);
    assert!(missing.to_string().contains("'fs'"), "{missing}");
    let missing = FileSystem::mount(&rados, MountOptions::new().root("/no/such")).await;
    assert_eq!(failed(missing), Errno::ENOENT);
}

/// Goal: a restart of the metadata server loses nothing that was answered, and open files go on. Method: the
/// server fails while files are being made and one is being written; it starts again by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn a_restart_of_the_server_is_survived() {
    let rados = rados().await;
    let fs = FileSystem::mount(&rados, MountOptions::new()).await.expect("mounted");
    let dir = &format!("restart-{}", std::process::id());
    fs.create_dir(dir, 0o777).await.expect("made");
    let fs = &fs;
    let file =
        &fs.open(format!("{dir}/open"), OpenOptions::new().read().write().create()).await.expect("opened");
    let data = pattern(4000, 9);
    let part = |at: usize| data.slice(at * 10..at * 10 + 10);
    let work = async {
        for at in 0..400 {
            fs.make_node(format!("{dir}/{at}"), 0o644, 0).await.expect("made");
            file.write_at(at as u64 * 10, part(at)).await.expect("written");
            if at == 100 {
                ceph(&["mds", "fail", "0"]);
            }
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(120), work).await.expect("the server comes back");
    file.sync().await.expect("durable");
    let names = fs.read_dir(dir).await.expect("a directory").all().await.expect("listed");
    assert_eq!(names.len(), 401);
    assert_eq!(sum(&file.read_at(0, 1 << 20).await.expect("read")), sum(&data));
    let another =
        FileSystem::mount(&self::rados().await, MountOptions::new().root(dir)).await.expect("mounted");
    let seen = another.open("open", OpenOptions::new().read()).await.expect("opened");
    assert_eq!(sum(&seen.read_at(0, 1 << 20).await.expect("read")), sum(&data));
    drop(seen);
    another.unmount().await.expect("unmounted");
    fs.clone().unmount().await.expect("unmounted");
}

/// Goal: an evicted client is told so, with a clear error, instead of waiting for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn an_evicted_client_is_told() {
    let rados = rados().await;
    let fs = FileSystem::mount(&rados, MountOptions::new()).await.expect("mounted");
    fs.stat("/").await.expect("there");
    ceph(&["tell", "mds.0", "session", "evict", &format!("id={}", rados.instance_id())]);
    let work = async {
        loop {
            if let Err(e) = fs.create_dir("evicted", 0o755).await {
                break e;
            }
            fs.remove_dir("evicted").await.unwrap_or_default();
        }
    };
    let told = tokio::time::timeout(std::time::Duration::from_secs(90), work).await.expect("it is told");
    assert!(told.to_string().contains("evicted this client"), "{told}");
}
