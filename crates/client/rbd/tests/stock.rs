//! Goal: stock librbd and this crate share an image, also a clone, and take over from a killed lock
//! owner; the object map stays correct. Method: `rbd bench` beside writes of this crate, one of the two
//! killed; then `rbd object-map check` and a comparison of the bytes. Runs on our server, and on the
//! stock cluster named by LOLIGO_STOCK_CONF.

#[path = "memory/many.rs"]
mod many;

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use bytes::Bytes;
use loligo_rados::{Builder, IoCtx};
use loligo_rbd::{
    CacheOptions, CloneFormat, Error, Image, ImageCache, Mode, Name, NewClone, NewImage, Shrink,
};
use loligo_server::Server;

const MB: u64 = 1 << 20;

/// Holds the lock of an image for as long as its standard input is open.
const OWNER: &str = "\
import sys, rados, rbd
with rados.Rados(conffile=sys.argv[1]) as cluster, cluster.open_ioctx(sys.argv[2]) as io:
    with rbd.Image(io, 'clone') as image:
        image.lock_acquire(rbd.RBD_LOCK_MODE_EXCLUSIVE)
        image.write(b'theirs', 5)
        print('ready', flush=True)
        sys.stdin.read()
";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn stock_and_we_take_the_lock_from_each_other() {
    let server = Server::memory().start().expect("the server starts");
    Place::new(server.conf(), "turns").await.turns().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn stock_and_we_take_the_lock_from_each_other_on_stock() {
    Place::new(Path::new(&stock()), "turns").await.turns().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn stock_and_we_write_to_a_clone_by_turns() {
    let server = Server::memory().start().expect("the server starts");
    Place::new(server.conf(), "cloned").await.cloned().await.turns().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn stock_and_we_write_to_a_clone_by_turns_on_stock() {
    Place::new(Path::new(&stock()), "cloned").await.cloned().await.turns().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn what_is_cached_goes_to_stock_with_the_lock() {
    let server = Server::memory().start().expect("the server starts");
    Place::new(server.conf(), "handed").await.handed_over().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn what_is_cached_goes_to_stock_with_the_lock_on_stock() {
    Place::new(Path::new(&stock()), "handed").await.handed_over().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn stock_and_we_ask_each_other_s_owner() {
    let server = Server::memory().start().expect("the server starts");
    let place = Place::new(server.conf(), "asked").await.cloned().await;
    place.ours_is_asked().await;
    place.theirs_is_asked().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn stock_and_we_ask_each_other_s_owner_on_stock() {
    let place = Place::new(Path::new(&stock()), "asked").await.cloned().await;
    place.ours_is_asked().await;
    place.theirs_is_asked().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn a_stock_owner_that_was_killed_is_put_out() {
    let server = Server::memory().start().expect("the server starts");
    Place::new(server.conf(), "killed").await.killed().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn a_stock_owner_that_was_killed_is_put_out_on_stock() {
    Place::new(Path::new(&stock()), "killed").await.killed().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn what_stock_froze_is_not_written_to() {
    Place::new(Path::new(&stock()), "frozen").await.frozen().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn stock_and_we_keep_thousands_of_snapshots() {
    let server = Server::memory().start().expect("the server starts");
    Place::new(server.conf(), "many").await.many(10_000).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn stock_and_we_keep_thousands_of_snapshots_on_stock() {
    Place::new(Path::new(&stock()), "many").await.many(10_000).await;
}

fn stock() -> std::ffi::OsString {
    std::env::var_os("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a ceph.conf")
}

struct Place {
    conf: String,
    pool: String,
    io: IoCtx,
}

impl Place {
    async fn new(conf: &Path, what: &str) -> Self {
        let conf = conf.to_str().expect("UTF-8").to_owned();
        let rados = Builder::new().conf_file(&conf).connect().await.expect("connects");
        let pool = format!("rbd-{what}-{}", std::process::id());
        rados.create_pool(&pool).await.expect("a pool");
        let io = rados.ioctx(&pool).await.expect("the pool");
        loligo_rbd::create(&io, "disk", NewImage::of_size(256 * MB)).await.expect("made");
        Self { conf, pool, io }
    }

    /// Makes the image a clone of one that has data in every other object.
    async fn cloned(self) -> Self {
        let io = &self.io;
        loligo_rbd::rename(io, "disk", "base").await.expect("renamed");
        let base = Image::open(io, "base", Mode::ReadWrite).await.expect("opens");
        for n in (0..64u64).step_by(2) {
            base.write(n * 4 * MB, vec![n as u8 + 1; 3 << 20].into()).await.expect("written");
        }
        base.create_snapshot("s").await.expect("made");
        base.close().await.expect("closes");
        let new = NewClone { format: CloneFormat::Second, ..NewClone::default() };
        loligo_rbd::clone(io, "base", "s", io, "disk", new).await.expect("cloned");
        self
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.args(["100", "rbd", "--log-to-stderr=false", "--err-to-stderr=false", "--pool", &self.pool]);
        command.env("CEPH_CONF", &self.conf).args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Returns the output of `rbd`, which must succeed.
    async fn rbd(&self, args: &[&str]) -> Vec<u8> {
        let mut command = self.command(args);
        let run = tokio::task::spawn_blocking(move || command.output());
        let Output { status, stdout, stderr } = run.await.expect("it runs").expect("rbd is installed");
        assert!(status.success(), "{args:?}: {}", String::from_utf8_lossy(&stderr));
        stdout
    }

    fn begin(&self, args: &[&str]) -> Child {
        self.command(args).stdout(Stdio::null()).spawn().expect("rbd is installed")
    }

    /// Both write at the same time, then both check.
    async fn turns(&self) {
        let image = Image::open(&self.io, "disk", Mode::ReadWrite).await.expect("opens");
        let mut stock = self.begin(&[
            "bench",
            "disk",
            "--io-type",
            "write",
            "--io-size",
            "4K",
            "--io-total",
            "4M",
            "--io-pattern",
            "rand",
        ]);
        let (mut taken, mut n) = (0, 0u64);
        while stock.try_wait().expect("it runs").is_none() {
            taken += u64::from(!image.is_lock_owner());
            image.write(n % 256 * MB, vec![n as u8; 4096].into()).await.expect("written");
            n += 1;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert!(stock.wait().expect("ended").success());
        assert!(taken > 0, "the lock was never taken from us in {n} writes");
        // Stock creates a snapshot while this crate has the lock, then this crate creates one.
        image.write(5 * MB, b"ours".to_vec().into()).await.expect("written");
        assert!(image.is_lock_owner());
        self.rbd(&["snap", "create", "disk@theirs"]).await;
        image.write(5 * MB, b"more".to_vec().into()).await.expect("written");
        image.create_snapshot("ours").await.expect("made");
        self.rbd(&["resize", "disk", "--size", "200M", "--allow-shrink"]).await;
        image.write(6 * MB, b"last".to_vec().into()).await.expect("written");
        assert_eq!(image.size(), 200 * MB);
        for (snap, bytes) in [("theirs", b"ours"), ("ours", b"more")] {
            let at = Image::open_snapshot(&self.io, "disk", snap).await.expect("opens");
            assert_eq!(at.read(5 * MB, 4).await.expect("read"), &bytes[..]);
        }
        self.end(image).await;
    }

    /// This crate writes into a cache that is written back only when the lock is handed over, while
    /// stock writes blocks of one repeated byte. Each block has data of one of the two in the end, and
    /// most blocks are ours. This crate reads stock's writes although it had cached the previous data.
    async fn handed_over(&self) {
        let lazy = CacheOptions { dirty_time: Duration::from_secs(3600), ..CacheOptions::of_size(64 << 20) };
        let image = Image::open(&self.io, "disk", Mode::ReadWrite).await.expect("opens");
        let image = image.cached(&ImageCache::new(lazy)).expect("it has the lock's feature");
        let data = |n: u64| -> Bytes { (0..4096u64).map(|at| (at + n * 7) as u8).collect() };
        let bench = |total| {
            [
                "bench",
                "disk",
                "--io-type",
                "write",
                "--io-size",
                "4K",
                "--io-pattern",
                "rand",
                "--io-total",
                total,
            ]
        };
        let mut stock = self.begin(&bench("4M"));
        let (mut taken, mut n) = (0, 0u64);
        let place = |n: u64| n % 4096 * 65536;
        while stock.try_wait().expect("it runs").is_none() {
            taken += u64::from(n > 0 && !image.is_lock_owner());
            image.write(place(n), data(n % 4096)).await.expect("written");
            assert!(image.read(place(n), 4096).await.expect("read").len() == 4096);
            n += 1;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert!(stock.wait().expect("ended").success());
        assert!(taken > 0, "the lock was never taken from us in {n} writes");
        image.flush().await.expect("flushed");
        let mut theirs = 0;
        for n in 0..n.min(4096) {
            let found = image.read(place(n), 4096).await.expect("read");
            if found != data(n) {
                assert!(found.iter().all(|byte| *byte == found[0]), "block {n} is nobody's");
                theirs += 1;
            }
        }
        assert!(theirs <= n / 4, "{theirs} of {n} blocks are not ours");
        // Stock sees data that was dirty here, and this crate sees stock's changes to it.
        image.write(7 * MB, b"ours".to_vec().into()).await.expect("written");
        self.rbd(&["snap", "create", "disk@theirs"]).await;
        image.write(7 * MB, b"lost".to_vec().into()).await.expect("written");
        assert_eq!(image.read(7 * MB, 4).await.expect("read"), &b"lost"[..]);
        image.flush().await.expect("flushed");
        let over = ["bench", "disk", "--io-type", "write", "--io-threads", "1", "--io-total", "8M"];
        self.rbd(&over).await;
        image.acquire_lock().await.expect("taken");
        let found = image.read(7 * MB, 4).await.expect("read");
        assert!(found.iter().all(|byte| *byte == found[0]), "{found:?}");
        let at = Image::open_snapshot(&self.io, "disk", "theirs").await.expect("opens");
        assert_eq!(at.read(7 * MB, 4).await.expect("read"), &b"ours"[..]);
        self.end(image).await;
    }

    /// Stock demotes one image and enables journaling on another, both open here and written before.
    /// Further changes are refused (stock: 30, EROFS).
    async fn frozen(&self) {
        loligo_rbd::create(&self.io, "journaled", NewImage::of_size(8 * MB)).await.expect("made");
        self.rbd(&["mirror", "pool", "enable", "image"]).await;
        self.rbd(&["mirror", "image", "enable", "disk", "snapshot"]).await;
        let freezing: [(&str, &[&str]); 2] = [
            ("disk", &["mirror", "image", "demote", "disk"]),
            ("journaled", &["feature", "enable", "journaled", "journaling"]),
        ];
        for (name, freezing) in freezing {
            let image = Image::open(&self.io, name, Mode::ReadWrite).await.expect("opens");
            image.write(0, b"before".to_vec().into()).await.expect("written");
            self.rbd(freezing).await;
            let refused = [
                image.write(0, b"after!".to_vec().into()).await,
                image.discard(0, MB).await,
                image.set_metadata("key", "value".into()).await,
                image.create_snapshot("late").await,
            ];
            for refused in refused {
                assert_eq!(refused.expect_err("refused").errno().0, 30, "{name}");
            }
            assert!(loligo_rbd::rename(&self.io, name, "other").await.is_err());
            assert_eq!(image.read(0, 6).await.expect("read"), &b"before"[..]);
            assert!(image.metadata().await.expect("a list").is_empty());
            image.close().await.expect("closes");
            assert!(self.rbd(&["export", name, "-"]).await.starts_with(b"before"));
        }
        self.io.rados().delete_pool(&self.pool).await.expect("deleted");
    }

    /// Stock opens an image of `count` snapshots, reads one, and removes one.
    async fn many(&self, count: u64) {
        let new = NewImage { features: loligo_wire::rbd::feature::LAYERING, ..NewImage::of_size(8 * MB) };
        loligo_rbd::create(&self.io, "many", new).await.expect("made");
        many::are_kept(&self.io, "many", count).await;
        let listed = String::from_utf8(self.rbd(&["snap", "ls", "many"]).await).expect("text");
        assert_eq!(listed.lines().count() as u64, count, "a title, and one fewer than were made");
        let then = self.rbd(&["export", "many@s00000001", "-"]).await;
        assert_eq!(then[..4096], [1; 4096]);
        self.rbd(&["snap", "rm", "many@s00000001", "--no-progress"]).await;
        let image = Image::open(&self.io, "many", Mode::ReadOnly).await.expect("opens");
        assert_eq!(image.view().snapshots.len() as u64, count - 2);
    }

    /// `rbd` asks this crate to change the image; this crate writes to it and keeps the lock.
    async fn ours_is_asked(&self) {
        let image = Image::open(&self.io, "disk", Mode::ReadWrite).await.expect("opens");
        image.acquire_lock().await.expect("taken");
        let asked = [
            "snap create disk@a",
            "snap create disk@b",
            "snap rename disk@a disk@c",
            "snap protect disk@c",
            "snap unprotect disk@c",
            "snap rm disk@c --no-progress",
            "resize disk --size 300M --no-progress",
            "resize disk --size 200M --allow-shrink --no-progress",
            "object-map rebuild disk --no-progress",
            "feature disable disk object-map",
            "feature enable disk object-map",
            "object-map rebuild disk --no-progress",
            "sparsify disk --no-progress",
            "image-meta set disk key value",
            "image-meta set disk other value",
            "image-meta remove disk other",
            "flatten disk --no-progress",
        ];
        let mut n = 0u64;
        for asked in asked {
            let mut command = self.command(&asked.split(' ').collect::<Vec<_>>());
            let mut run = tokio::task::spawn_blocking(move || command.output());
            let output = loop {
                tokio::select! {
                    done = &mut run => break done.expect("it runs").expect("rbd is installed"),
                    () = tokio::time::sleep(Duration::from_millis(2)) => {}
                }
                image.write(n % 200 * MB, vec![n as u8; 4096].into()).await.expect("written");
                n += 1;
            };
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{asked}: {said}");
            assert!(image.is_lock_owner(), "{asked}: the lock has gone");
        }
        assert_eq!(image.size(), 200 * MB);
        assert!(image.parent().await.expect("none").is_none());
        let names: Vec<Name> = image.view().snapshots.iter().map(|snap| snap.info.name.clone()).collect();
        assert_eq!(names, ["b"]);
        assert_eq!(image.metadata().await.expect("a list").keys().collect::<Vec<_>>(), ["key"]);
        let mut again = self.command(&["snap", "create", "disk@b"]);
        let again = tokio::task::spawn_blocking(move || again.output());
        assert!(!again.await.expect("it runs").expect("rbd is installed").status.success());
        assert_eq!(image.check_object_map().await.expect("a map"), Vec::<u64>::new());
        image.close().await.expect("closes");
    }

    /// librbd keeps the lock, and changes the image for this crate.
    async fn theirs_is_asked(&self) {
        let new = NewClone { format: CloneFormat::Second, ..NewClone::default() };
        loligo_rbd::clone(&self.io, "disk", "b", &self.io, "clone", new).await.expect("cloned");
        let mut owner = Command::new("timeout");
        owner.args(["100", "/usr/bin/python3", "-c", OWNER, &self.conf, &self.pool]);
        let mut owner =
            owner.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3 is installed");
        let mut ready = [0; 6];
        owner.stdout.as_mut().expect("a pipe").read_exact(&mut ready).expect("it has the lock");
        let image = Image::open(&self.io, "clone", Mode::ReadWrite).await.expect("opens");
        image.create_snapshot("a").await.expect("made");
        assert!(matches!(image.create_snapshot("a").await, Err(Error::SnapshotExists(_))));
        image.rename_snapshot("a", "c").await.expect("renamed");
        image.protect_snapshot("c").await.expect("protected");
        assert!(matches!(image.remove_snapshot("c").await, Err(Error::SnapshotBusy(_))));
        image.unprotect_snapshot("c").await.expect("unprotected");
        image.remove_snapshot("c").await.expect("removed");
        image.resize(300 * MB, Shrink::Refused).await.expect("resized");
        assert_eq!(image.size(), 300 * MB);
        assert!(matches!(image.resize(MB, Shrink::Refused).await, Err(Error::WouldShrink { .. })));
        image.rebuild_object_map(|_, _| {}).await.expect("made");
        image.flatten(|_, _| {}).await.expect("flattened");
        assert!(image.parent().await.expect("none").is_none());
        let refused = image.write(0, b"ours".to_vec().into()).await.expect_err("it keeps the lock");
        assert_eq!(refused.errno().0, 30, "{refused}");
        drop(owner.stdin.take());
        assert!(owner.wait().expect("ended").success());
        image.write(0, b"ours".to_vec().into()).await.expect("written");
        image.close().await.expect("closes");
        self.rbd(&["object-map", "check", "clone"]).await;
        let rados = self.io.rados();
        rados.delete_pool(&self.pool).await.expect("deleted");
        rados.shutdown().await;
    }

    /// Stock is killed while it owns the lock, and this crate takes over. `rbd` must not find a watcher
    /// of this crate afterwards.
    async fn killed(&self) {
        let mut stock = self.begin(&["bench", "disk", "--io-type", "write", "--io-total", "1T"]);
        let header =
            format!("rbd_header.{}", loligo_rbd::list(&self.io).await.expect("a list")[&b"disk"[..]]);
        while self.io.lock_info(&*header, "rbd_lock").await.expect("a lock").holders.is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let children = format!("/proc/{0}/task/{0}/children", stock.id());
        let children = std::fs::read_to_string(children).expect("what timeout runs");
        for pid in children.split_whitespace() {
            let killed = Command::new("kill").args(["-9", pid]).status().expect("kill runs");
            assert!(killed.success());
        }
        stock.wait().expect("ended");
        let image = Image::open(&self.io, "disk", Mode::ReadWrite).await.expect("opens");
        let written = image.write(255 * MB, b"ours".to_vec().into());
        tokio::time::timeout(Duration::from_secs(90), written).await.expect("in time").expect("written");
        self.end(image).await;
    }

    /// Both read the same bytes, and the object map is correct.
    async fn end(&self, image: Image) {
        let ours = image.read(0, 256 * MB).await.expect("read");
        image.close().await.expect("closes");
        let theirs = self.rbd(&["export", "disk", "-"]).await;
        assert!(theirs == ours, "{} and {} bytes", theirs.len(), ours.len());
        self.rbd(&["object-map", "check", "disk"]).await;
        let info = String::from_utf8(self.rbd(&["info", "disk"]).await).expect("text");
        assert!(info.lines().any(|line| line.trim() == "flags:"), "{info}");
        let rados = self.io.rados();
        rados.delete_pool(&self.pool).await.expect("deleted");
        rados.shutdown().await;
    }
}
