//! Goal: what the servers leave to their clients, this client does as a stock client does it: locks,
//! permissions, access control lists, quotas, virtual attributes, and the calls that no other test makes.
//! Method: a stock metadata server; ceph-fuse mounts the same directory, and answers beside this client.

#[path = "support/cluster.rs"]
mod cluster;
#[path = "support/place.rs"]
mod place;

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{
    FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use loligo_fs::{
    Caller, Changes, Errno, FileSystem, Lock, LockKind, MountOptions, OpenOptions, RenameFlags, XattrMode,
};

use cluster::rados;
use place::{Fuse, Place, beside, ceph, failed, getfattr, sum};

/// The flag of `open(2)`, on the architectures that have stock packages.
const O_DIRECT: i32 = if cfg!(target_arch = "aarch64") { 0o200_000 } else { 0o40_000 };

impl Place {
    async fn new(name: &str) -> Self {
        Self::mounted(name, MountOptions::new(), &[]).await
    }

    async fn mounted(name: &str, options: MountOptions, fuse: &[&str]) -> Self {
        Self::with(name, options, |name| Fuse::mount(name, fuse)).await
    }

    /// Mounts a directory of the place for another client.
    async fn mount_again(&self, below: &str) -> FileSystem {
        let options = MountOptions::new().root(format!("/{}{below}", self.name));
        FileSystem::mount(&rados().await, options).await.expect("mounted")
    }
}

fn pattern(len: usize) -> Bytes {
    (0..len).map(|at| (at % 251) as u8 ^ (at >> 16) as u8).collect()
}

/// Reads a file of a stock mount past the cache of its kernel, which hears of changes a little later.
fn read_past_kernel(path: &Path) -> Vec<u8> {
    let mut file = fs::File::options().read(true).custom_flags(O_DIRECT).open(path).expect("opened");
    let mut data = Vec::new();
    file.read_to_end(&mut data).expect("read");
    data
}

/// Runs a script of Python beside the runtime. Returns its output.
async fn python(script: &'static str, path: &Path) -> String {
    let path = path.to_owned();
    beside(move || {
        let done = Command::new("/usr/bin/python3").args(["-c", script]).arg(path).output();
        let done = done.expect("python3 is installed");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).expect("text").trim_end().to_owned()
    })
    .await
}

/// A stock client's answer to a call: what it returns, or the name of its errno.
const ANSWER: &str = "
import errno, fcntl, os, sys
def answer(call):
    try:
        return call()
    except OSError as e:
        return errno.errorcode[e.errno].replace('ENOTSUP', 'EOPNOTSUPP')
path = sys.argv[1]
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn flags_and_calls_do_what_they_do_elsewhere() {
    let place = Place::new("calls").await;
    let ours = &place.fs;
    place.write("f", pattern(100)).await;

    // Two clients append; nothing is overwritten.
    let file = ours.open("f", OpenOptions::new().append()).await.expect("opened");
    let path = place.theirs("f");
    beside(move || {
        use std::io::Write as _;
        let mut theirs = fs::OpenOptions::new().append(true).open(path).expect("opened");
        theirs.write_all(b"theirs").expect("written");
    })
    .await;
    file.write_at(0, &b"ours"[..]).await.expect("appended");
    file.close().await.expect("closed");
    let whole = fs::read(place.theirs("f")).expect("read");
    assert_eq!(whole, [&pattern(100)[..], b"theirsours"].concat());

    let options = OpenOptions::new().write().create_new();
    assert_eq!(failed(ours.open("f", options).await), Errno::EEXIST);
    let synced = ours.open("synced", options.sync().direct()).await.expect("opened");
    synced
        .write_vectored_at(5, &[Bytes::from_static(b"ab"), Bytes::from_static(b"cd")])
        .await
        .expect("written");
    assert_eq!(fs::read(place.theirs("synced")).expect("read"), b"\0\0\0\0\0abcd");
    let read = ours.open("synced", OpenOptions::new().read()).await.expect("opened");
    let parts = read.read_vectored_at(4, &[2, 2, 9, 9]).await.expect("read");
    assert_eq!(parts, [&b"\0a"[..], b"bc", b"d", b""]);
    assert_eq!(failed(read.write_at(0, &b"x"[..]).await), Errno::EBADF);
    assert_eq!(failed(read.truncate(0).await), Errno::EBADF);

    ours.symlink("f", "link").await.expect("made");
    let no_follow = OpenOptions::new().read().no_follow();
    assert_eq!(failed(ours.open("link", no_follow).await), Errno::ELOOP);
    assert_eq!(failed(ours.open("link", no_follow.create()).await), Errno::ELOOP);
    assert_eq!(failed(ours.open("/", OpenOptions::new().write()).await), Errno::EISDIR);

    let file = ours.open("f", OpenOptions::new().read().write()).await.expect("opened");
    assert_eq!(failed(file.fallocate(0, 0, 1000).await), Errno::EOPNOTSUPP);
    assert_eq!(failed(file.fallocate(3, 0, 0).await), Errno::EINVAL);
    file.fallocate(3, 10, 20).await.expect("punched");
    let read = file.read_at(0, 1000).await.expect("read");
    assert_eq!((read.len(), &read[9..31]), (110, &[&[9][..], &[0; 20], &[30]].concat()[..]));
    let seen = read_past_kernel(&place.theirs("f"));
    assert_eq!(
        (seen.len(), &seen[9..31]),
        (110, &[&pattern(10)[9..], &[0; 20], &pattern(31)[30..]].concat()[..])
    );
    let script = "fd = os.open(path, os.O_RDONLY)\nprint(*[answer(lambda: os.lseek(fd, at, how)) for at, how in \
                  ((5, os.SEEK_DATA), (5, os.SEEK_HOLE), (110, os.SEEK_DATA), (110, os.SEEK_HOLE))])";
    let theirs = stock_answers(script, &place.theirs("f")).await;
    let seeks = [
        text(file.seek_data(5).await),
        text(file.seek_hole(5).await),
        text(file.seek_data(110).await),
        text(file.seek_hole(110).await),
    ];
    assert_eq!(theirs, seeks.join(" "));
    place.end().await;
}

/// Returns what a stock client answers to a script.
async fn stock_answers(script: &str, path: &Path) -> String {
    let whole: &'static str = format!("{ANSWER}{script}").leak();
    python(whole, path).await
}

/// Returns an answer as a script of Python shows it.
fn text<T: ToString>(answer: Result<T, loligo_fs::Error>) -> String {
    match answer {
        Ok(value) => value.to_string(),
        Err(e) => e.errno().name().expect("a known errno").to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn paths_that_end_with_dots_are_refused_as_by_the_kernel() {
    let place = Place::new("dots").await;
    let ours = &place.fs;
    ours.create_dir("d", 0o755).await.expect("made");
    ours.create_dir("d/e", 0o755).await.expect("made");
    place.write("f", "f").await;
    let theirs = |done: std::io::Result<()>| done.expect_err("refused").raw_os_error();
    for path in ["d/.", "d/./", "d/e/..", "none/.", "f/."] {
        let there = place.theirs(path);
        let pairs = [
            (ours.create_dir(path, 0o755).await, fs::create_dir(&there)),
            (ours.symlink("x", path).await, std::os::unix::fs::symlink("x", &there)),
            (ours.remove_dir(path).await, fs::remove_dir(&there)),
            (ours.remove_file(path).await, fs::remove_file(&there)),
            (ours.rename(path, "moved").await, fs::rename(&there, place.theirs("moved"))),
            (ours.rename("d", path).await, fs::rename(place.theirs("d"), &there)),
        ];
        for (number, (our, their)) in pairs.into_iter().enumerate() {
            assert_eq!(Some(-failed(our).to_result()), theirs(their), "{path}, call {number}");
        }
    }
    // Another client's request would wait until the servers evict this one.
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn slashes_behind_names_are_refused_as_by_the_kernel() {
    let place = Place::new("slashes").await;
    let ours = &place.fs;
    ours.create_dir("d", 0o755).await.expect("made");
    place.write("f", "f").await;
    ours.symlink("f", "l").await.expect("made");
    let theirs = |done: std::io::Result<()>| done.expect_err("refused").raw_os_error();
    let opened = |path: &Path, options: &fs::OpenOptions| options.open(path).map(drop);
    let (write, make) = (OpenOptions::new().write(), OpenOptions::new().write().create());
    for path in ["f/", "l/", "none/", "d/", "f//"] {
        let (there, file) = (place.theirs(path), place.theirs("f"));
        let mut pairs = vec![
            (ours.symlink("x", path).await, std::os::unix::fs::symlink("x", &there)),
            (ours.link("f", path).await, fs::hard_link(&file, &there)),
            (ours.remove_file(path).await, fs::remove_file(&there)),
            (ours.rename("f", path).await, fs::rename(&file, &there)),
            (ours.open(path, write).await.map(drop), opened(&there, fs::File::options().write(true))),
            (
                ours.open(path, make).await.map(drop),
                opened(&there, fs::File::options().write(true).create(true)),
            ),
        ];
        if path != "d/" {
            let moved = fs::rename(&there, place.theirs("moved"));
            pairs.push((ours.rename(path, "moved").await, moved));
            pairs.push((ours.truncate(path, 0).await, opened(&there, fs::File::options().append(true))));
        }
        for (number, (our, their)) in pairs.into_iter().enumerate() {
            assert_eq!(Some(-failed(our).to_result()), theirs(their), "{path}, call {number}");
        }
    }
    // It says what is a directory anyway.
    ours.rename("d/", "e/").await.expect("renamed");
    ours.create_dir("g/", 0o755).await.expect("made");
    ours.remove_dir("g/").await.expect("removed");
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn nodes_links_and_renames_are_as_stock_clients_have_them() {
    let place = Place::new("nodes").await;
    let (ours, theirs) = (&place.fs, |path: &str| fs::symlink_metadata(place.theirs(path)).expect("there"));
    for (name, mode, rdev, shown) in [
        ("pipe", 0o010_640, 0, 0),
        ("socket", 0o140_600, 0, 0),
        // ceph-fuse keeps devices as Linux has them in memory: twenty bits for the minor number.
        ("char", 0o020_666, 1 << 20 | 3, 0x103),
        ("block", 0o060_660, 8 << 20 | 1, 0x801),
    ] {
        ours.make_node(name, mode, rdev).await.expect(name);
        assert_eq!((theirs(name).mode(), theirs(name).rdev()), (mode, shown), "{name}");
        assert_eq!(ours.stat(name).await.expect("there").rdev, rdev, "{name}");
    }
    assert!(theirs("char").file_type().is_char_device());
    assert_eq!(failed(ours.make_node("dir", 0o040_755, 0).await), Errno::EPERM);

    place.write("a", "a").await;
    place.write("b", "b").await;
    ours.create_dir("d", 0o755).await.expect("made");
    ours.create_dir(".snap/s", 0o755).await.expect("made");
    assert_eq!(failed(ours.link("d", "d2").await), Errno::EPERM);
    assert_eq!(failed(ours.link(".snap/s/a", "a2").await), Errno::EROFS);
    assert_eq!(failed(ours.link("a", "b").await), Errno::EEXIST);
    ours.link("a", "a3").await.expect("linked");
    // Two names of one file: a rename of one over the other does nothing.
    ours.rename("a", "a3").await.expect("renamed");
    assert!(place.theirs("a").exists() && place.theirs("a3").exists());
    assert_eq!(failed(ours.rename("d", "b").await), Errno::ENOTDIR);
    assert_eq!(failed(ours.rename("b", "d").await), Errno::EISDIR);
    ours.create_dir("d/in", 0o755).await.expect("made");
    assert_eq!(failed(ours.rename("b", "d").await), Errno::EISDIR);
    assert_eq!(failed(ours.rename("d/in", "d").await), Errno::ENOTEMPTY);
    ours.remove_dir("d/in").await.expect("removed");
    // Root cuts a file off, which runs as its owner or group all the same.
    ours.change("b", Changes { permissions: Some(0o6755), ..Changes::default() }).await.expect("changed");
    ours.truncate("b", 0).await.expect("cut off");
    assert_eq!(ours.stat("b").await.expect("there").mode & 0o7777, 0o6755);
    assert_eq!(failed(ours.rename("d", "d/e").await), Errno::EINVAL);
    assert_eq!(failed(ours.rename("a", ".snap/s/x").await).0, 18, "EXDEV");
    let root = ours.root().expect("mounted");
    let flags = RenameFlags { no_replace: true, ..RenameFlags::default() };
    assert_eq!(failed(root.rename("a", &root, "b", flags).await), Errno::EEXIST);
    let flags = RenameFlags { exchange: true, ..RenameFlags::default() };
    assert_eq!(failed(root.rename("a", &root, "b", flags).await), Errno::EINVAL);
    let long = vec![b'x'; 255];
    ours.create_dir(&long, 0o755).await.expect("made");
    ours.remove_dir(&long).await.expect("removed");
    for long in [vec![b'x'; 256], [&b"d/"[..], &[b'x'; 256], b"/y"].concat()] {
        assert_eq!(failed(ours.stat(&long).await).0, 36, "ENAMETOOLONG");
        assert_eq!(failed(ours.rename("a", &long).await).0, 36, "ENAMETOOLONG");
    }
    ours.symlink("l2", "l1").await.expect("made");
    ours.symlink("l1", "l2").await.expect("made");
    assert_eq!(failed(ours.open("l1", OpenOptions::new().write().create()).await), Errno::ELOOP);
    ours.remove_dir(".snap/s").await.expect("removed");
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn ranges_are_copied_by_the_osds_where_layouts_let_it() {
    let place = Place::new("copies").await;
    let ours = &place.fs;
    let data = pattern((13 << 20) + 77);
    place.write("source", data.clone()).await;
    let source = ours.open("source", OpenOptions::new().read()).await.expect("opened");
    let options = OpenOptions::new().read().write().create();
    let copied = |name: &str| sum(&read_past_kernel(&place.theirs(name)));
    let target = ours.open("whole", options).await.expect("opened");
    let before = copies();
    assert_eq!(source.copy_range(0, &target, 0, u64::MAX >> 1).await.expect("copied"), data.len() as u64);
    assert_eq!(copied("whole"), sum(&data));
    assert_eq!(copies() - before, 3, "whole objects are copied by the OSD");
    // A part of the same file, and at distances that no object fits.
    let moved = ours.open("moved", options).await.expect("opened");
    assert_eq!(source.copy_range(1000, &moved, 3, 9 << 20).await.expect("copied"), 9 << 20);
    assert_eq!(copied("moved"), sum(&[&[0; 3], &data[1000..1000 + (9 << 20)]].concat()));
    assert_eq!(failed(target.copy_range(0, &target, 5, 10).await), Errno::EINVAL);
    assert_eq!(failed(target.copy_range(0, &source, 0, 10).await), Errno::EBADF);
    assert_eq!(target.copy_range(0, &target, 16 << 20, 8 << 20).await.expect("copied"), 8 << 20);
    let mut expected = data.to_vec();
    expected.resize(16 << 20, 0);
    expected.extend_from_slice(&data[..8 << 20]);
    assert_eq!(copied("whole"), sum(&expected));
    // Holes stay holes, and what was cut off does not come back.
    let holes = ours.open("holes", options).await.expect("opened");
    holes.write_at(9 << 20, &b"end"[..]).await.expect("written");
    let again = ours.open("again", options).await.expect("opened");
    again.write_at(0, data.slice(..9 << 20)).await.expect("written");
    holes.copy_range(0, &again, 0, 9 << 20).await.expect("copied");
    assert_eq!(copied("again"), sum(&vec![0; 9 << 20]));
    again.write_at(0, data.slice(..9 << 20)).await.expect("written");
    again.truncate(100).await.expect("cut off");
    again.truncate(9 << 20).await.expect("extended");
    again.copy_range(0, &moved, 0, 9 << 20).await.expect("copied");
    let mut expected = data[..100].to_vec();
    expected.resize(9 << 20, 0);
    expected.extend_from_slice(&read_past_kernel(&place.theirs("moved"))[9 << 20..]);
    assert_eq!(copied("moved"), sum(&expected));
    drop((source, target, moved, holes, again));
    place.end().await;
}

/// Returns the number of objects that the OSD has copied.
fn copies() -> u64 {
    let dump = ceph(&["tell", "osd.0", "perf", "dump", "osd", "copyfrom"]);
    let number: String = dump.chars().filter(char::is_ascii_digit).collect();
    number.parse().expect("a number")
}

/// A stock program that holds a lock on a file of the other client's until its input ends.
struct Holder(Child);

impl Holder {
    async fn new(script: &'static str, path: PathBuf) -> Self {
        beside(move || {
            use std::io::BufRead as _;
            let mut child = Command::new("/usr/bin/python3")
                .args(["-c", script])
                .arg(path)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("python3 is installed");
            let mut line = String::new();
            let stdout = child.stdout.as_mut().expect("a pipe");
            std::io::BufReader::new(stdout).read_line(&mut line).expect("it answers");
            assert_eq!(line, "held\n");
            Self(child)
        })
        .await
    }

    async fn end(mut self) {
        beside(move || {
            drop(self.0.stdin.take());
            self.0.wait().expect("it ends");
        })
        .await;
    }
}

const FLOCK: &str = "
import fcntl, os, sys
f = open(sys.argv[1], 'r+')
fcntl.flock(f, fcntl.LOCK_EX)
print('held', flush=True)
sys.stdin.read()
";

const FCNTL: &str = "
import fcntl, os, sys
f = open(sys.argv[1], 'r+')
fcntl.lockf(f, fcntl.LOCK_EX, 10, 5)
print('held', flush=True)
sys.stdin.read()
";

const TRY_ALL: &str = "
import fcntl, sys
f = open(sys.argv[1], 'r+')
def locked(call):
    try:
        call()
        return 'free'
    except BlockingIOError:
        return 'locked'
print(locked(lambda: fcntl.flock(f, fcntl.LOCK_SH | fcntl.LOCK_NB)),
      locked(lambda: fcntl.lockf(f, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 0)),
      locked(lambda: fcntl.lockf(f, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 7)))
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn locks_of_either_hold_for_the_other() {
    let place = Place::new("locks").await;
    let ours = &place.fs;
    place.write("f", "data").await;
    let open = || ours.open("f", OpenOptions::new().read().write());
    let file = open().await.expect("opened");
    let lock = |kind, start, length| Lock { kind, start, length, owner: 1, pid: 77 };

    // Theirs, ours.
    let holder = Holder::new(FLOCK, place.theirs("f")).await;
    assert_eq!(failed(file.lock_whole(LockKind::Exclusive, 1, false).await), Errno::EAGAIN);
    assert_eq!(failed(file.lock_whole(LockKind::Shared, 1, false).await), Errno::EAGAIN);
    file.lock(lock(LockKind::Exclusive, 0, 0), false).await.expect("the other kind is free");
    file.unlock_all(1).await.expect("unlocked");
    {
        // Waiting ends when the holder does.
        let waiting = file.lock_whole(LockKind::Exclusive, 1, true);
        tokio::pin!(waiting);
        let early = tokio::time::timeout(Duration::from_millis(300), &mut waiting).await;
        assert!(early.is_err(), "it waits");
        holder.end().await;
        waiting.await.expect("locked");
    }
    assert_eq!(python(TRY_ALL, &place.theirs("f")).await, "locked free free");
    file.lock_whole(LockKind::Unlocked, 1, false).await.expect("unlocked");
    assert_eq!(python(TRY_ALL, &place.theirs("f")).await, "free free free");

    let holder = Holder::new(FCNTL, place.theirs("f")).await;
    file.lock(lock(LockKind::Exclusive, 0, 5), false).await.expect("before it");
    assert_eq!(failed(file.lock(lock(LockKind::Shared, 4, 2), false).await), Errno::EAGAIN);
    let found = file.find_lock(lock(LockKind::Shared, 0, 0)).await.expect("asked").expect("there is one");
    assert_eq!((found.kind, found.start, found.length), (LockKind::Exclusive, 5, 10));
    assert_eq!(found.pid, holder.0.id());
    assert_eq!(file.find_lock(lock(LockKind::Exclusive, 15, 0)).await.expect("asked"), None);

    // A waiting that is given up leaves nothing behind.
    let given_up =
        tokio::time::timeout(Duration::from_millis(300), file.lock(lock(LockKind::Exclusive, 5, 3), true))
            .await;
    assert!(given_up.is_err());
    holder.end().await;
    assert_eq!(python(TRY_ALL, &place.theirs("f")).await, "free locked free");

    // Two owners of one client; a file that is closed gives its locks back.
    let second = open().await.expect("opened");
    let of_second = Lock { owner: 2, ..lock(LockKind::Shared, 0, 0) };
    assert_eq!(failed(second.lock(of_second, false).await), Errno::EAGAIN);
    file.lock(lock(LockKind::Shared, 0, 5), false).await.expect("made shared");
    second.lock(of_second, false).await.expect("locked");
    drop(file);
    second.close().await.expect("closed");
    let third = open().await.expect("opened");
    third.lock(lock(LockKind::Exclusive, 0, 0), true).await.expect("all were given back");
    drop(third);
    place.end().await;
}

/// Goal: a lock survives a restart of the server; one that is lost with the session is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn locks_are_claimed_from_a_restarted_server() {
    let place = Place::new("claimed").await;
    place.write("f", "data").await;
    let file = place.fs.open("f", OpenOptions::new().read().write()).await.expect("opened");
    file.lock_whole(LockKind::Exclusive, 1, false).await.expect("locked");
    let range = Lock { kind: LockKind::Exclusive, start: 5, length: 10, owner: 1, pid: 7 };
    file.lock(range, false).await.expect("locked");
    ceph(&["mds", "fail", "0"]);
    // Answered only by the next server.
    let made = place.fs.create_dir("after", 0o755);
    tokio::time::timeout(Duration::from_secs(120), made).await.expect("it comes back").expect("made");
    assert_eq!(python(TRY_ALL, &place.theirs("f")).await, "locked free locked");
    file.close().await.expect("closed");
    assert_eq!(python(TRY_ALL, &place.theirs("f")).await, "free free free");
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn users_may_what_stock_clients_let_them() {
    let place = Place::new("users").await;
    let root = &place.fs;
    let user = root.as_user(Caller { uid: 1001, gid: 1001, groups: vec![2002] });
    let own = |uid, gid, permissions| Changes {
        uid: Some(uid),
        gid: Some(gid),
        permissions: Some(permissions),
        ..Changes::default()
    };
    root.change("/", own(0, 0, 0o755)).await.expect("changed");
    for (name, uid, gid, permissions) in [
        ("mine", 1001, 1001, 0o600),
        ("group", 0, 2002, 0o660),
        ("others", 0, 0, 0o604),
        ("closed", 0, 0, 0o600),
    ] {
        place.write(name, name).await;
        root.change(name, own(uid, gid, permissions)).await.expect("changed");
    }
    for (name, uid, permissions) in [("open", 0, 0o777), ("sticky", 0, 0o1777), ("shut", 0, 0o700)] {
        root.create_dir(name, 0o755).await.expect("made");
        root.change(name, own(uid, 0, permissions)).await.expect("changed");
    }
    place.write("sticky/theirs", "x").await;
    place.write("shut/x", "x").await;
    let (read, write) = (OpenOptions::new().read(), OpenOptions::new().write());
    let mut ours = Vec::new();
    for name in ["mine", "group", "others", "closed", "shut/x"] {
        ours.push(text(user.open(name, read).await.map(|_| "ok")));
        ours.push(text(user.open(name, write).await.map(|_| "ok")));
    }
    ours.push(text(user.create_dir("here", 0o755).await.map(|()| "ok")));
    ours.push(text(user.create_dir("open/dir", 0o755).await.map(|()| "ok")));
    ours.push(text(user.remove_file("sticky/theirs").await.map(|()| "ok")));
    ours.push(text(user.remove_dir("open/dir").await.map(|()| "ok")));
    ours.push(text(user.change("mine", own(1001, 2002, 0o640)).await.map(|()| "ok")));
    ours.push(text(user.change("mine", own(1001, 3003, 0o640)).await.map(|()| "ok")));
    ours.push(text(user.change("group", own(0, 2002, 0o666)).await.map(|()| "ok")));
    ours.push(text(user.link("others", "open/link").await.map(|()| "ok")));
    ours.push(text(user.link("mine", "open/link").await.map(|()| "ok")));
    ours.push(text(user.set_xattr("others", "user.a", "b", XattrMode::Any).await.map(|()| "ok")));
    let touch = Changes { mtime_now: true, atime_now: true, ..Changes::default() };
    ours.push(text(user.change("group", touch).await.map(|()| "ok")));
    ours.push(text(user.change("others", touch).await.map(|()| "ok")));
    ours.push(text(user.read_dir("shut").await.expect("found").all().await.map(|_| "ok")));
    root.remove_file("open/link").await.expect("removed");
    root.change("mine", own(1001, 1001, 0o600)).await.expect("changed");
    let script = "
import ctypes
os.setgroups([2002]); os.setgid(1001); os.setuid(1001); os.chdir(path)
def ok(call):
    return answer(lambda: (call(), 'ok')[1])
out = []
for name in ('mine', 'group', 'others', 'closed', 'shut/x'):
    out.append(ok(lambda: os.close(os.open(name, os.O_RDONLY))))
    out.append(ok(lambda: os.close(os.open(name, os.O_WRONLY))))
out.append(ok(lambda: os.mkdir('here')))
out.append(ok(lambda: os.mkdir('open/dir')))
out.append(ok(lambda: os.unlink('sticky/theirs')))
out.append(ok(lambda: os.rmdir('open/dir')))
out.append(ok(lambda: os.chown('mine', 1001, 2002)))
out.append(ok(lambda: os.chown('mine', 1001, 3003)))
out.append(ok(lambda: os.chmod('group', 0o666)))
out.append(ok(lambda: os.link('others', 'open/link')))
out.append(ok(lambda: os.link('mine', 'open/link')))
out.append(ok(lambda: os.setxattr('others', 'user.a', b'b')))
out.append(ok(lambda: os.utime('group')))
out.append(ok(lambda: os.utime('others')))
out.append(ok(lambda: os.listdir('shut')))
print(*out)";
    let theirs = stock_answers(script, &place.theirs("")).await;
    assert_eq!(ours.join(" "), theirs);
    let made = root.stat("open").await.expect("there");
    assert_eq!(made.permissions(), 0o777);
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn who_writes_a_file_takes_its_ids_away() {
    let place = Place::new("ids").await;
    let ours = &place.fs;
    let user = ours.as_user(Caller::new(1001, 1001));
    let permissions = |bits| Changes { permissions: Some(bits), ..Changes::default() };
    let runs_as =
        |name: &'static str| fs::metadata(place.theirs(name)).expect("there").permissions().mode() & 0o7777;
    for name in ["written", "cut", "given", "punched", "kept"] {
        place.write(name, "data").await;
        ours.change(name, permissions(0o6777)).await.expect("changed");
        assert_eq!(runs_as(name), 0o6777);
    }
    let file = user.open("written", OpenOptions::new().write()).await.expect("opened");
    file.write_at(0, &b"x"[..]).await.expect("written");
    file.close().await.expect("closed");
    assert_eq!(runs_as("written"), 0o777);
    user.truncate("cut", 1).await.expect("cut off");
    assert_eq!(runs_as("cut"), 0o777);
    ours.change("given", Changes { uid: Some(5), ..Changes::default() }).await.expect("given");
    assert_eq!(runs_as("given"), 0o777);
    let file = user.open("punched", OpenOptions::new().write()).await.expect("opened");
    file.fallocate(3, 0, 2).await.expect("punched");
    drop(file);
    assert_eq!(runs_as("punched"), 0o777);
    // Root may: the file stays what it is, as by system calls.
    let file = ours.open("kept", OpenOptions::new().write()).await.expect("opened");
    file.write_at(0, &b"x"[..]).await.expect("written");
    file.close().await.expect("closed");
    assert_eq!(runs_as("kept"), 0o6777);
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn access_control_lists_are_stored_as_stock_clients_store_them() {
    let acls = ["--client_acl_type=posix_acl", "--fuse_default_permissions=false"];
    let place = Place::mounted("acls", MountOptions::new().acls(true), &acls).await;
    let ours = &place.fs;
    let list = |entries: &[(u16, u16, u32)]| -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0];
        for (tag, permissions, id) in entries {
            bytes.extend_from_slice(&tag.to_le_bytes());
            bytes.extend_from_slice(&permissions.to_le_bytes());
            bytes.extend_from_slice(&id.to_le_bytes());
        }
        bytes
    };
    let none = u32::MAX;
    let named = list(&[(1, 6, none), (2, 6, 1001), (4, 0, none), (16, 6, none), (32, 0, none)]);
    let (access, default) = ("system.posix_acl_access", "system.posix_acl_default");
    place.write("f", "data").await;
    ours.set_xattr("f", access, named.clone(), XattrMode::Any).await.expect("set");
    assert_eq!(ours.stat("f").await.expect("there").permissions(), 0o660);
    let theirs = |path: &str, name: &'static str| {
        let path = place.theirs(path);
        beside(move || getfattr(&path, name))
    };
    assert_eq!(theirs("f", access).await, named);
    let user = ours.as_user(Caller::new(1001, 9));
    let stranger = ours.as_user(Caller::new(1002, 9));
    user.open("f", OpenOptions::new().read().write()).await.expect("the list lets it");
    assert_eq!(failed(stranger.open("f", OpenOptions::new().read()).await), Errno::EACCES);
    ours.change("f", Changes { permissions: Some(0o600), ..Changes::default() }).await.expect("changed");
    assert_eq!(failed(user.open("f", OpenOptions::new().read()).await), Errno::EACCES);
    let masked = list(&[(1, 6, none), (2, 6, 1001), (4, 0, none), (16, 0, none), (32, 0, none)]);
    assert_eq!(theirs("f", access).await, masked, "chmod changes the mask");

    ours.create_dir("d", 0o755).await.expect("made");
    ours.set_xattr("d", default, named.clone(), XattrMode::Any).await.expect("set");
    assert_eq!(failed(ours.set_xattr("f", default, named.clone(), XattrMode::Any).await), Errno::EACCES);
    ours.create_dir("d/ours", 0o777).await.expect("made");
    place.write("d/file", "x").await;
    let path = place.theirs("d/theirs");
    beside(move || fs::create_dir(path).expect("made")).await;
    for name in [access, default] {
        assert_eq!(theirs("d/ours", name).await, theirs("d/theirs", name).await, "{name}");
    }
    assert_eq!(ours.xattr("d/file", access).await.expect("inherited").len(), named.len());
    ours.remove_xattr("d", default).await.expect("removed");
    ours.remove_xattr("d", default).await.expect("removed twice");
    assert_eq!(failed(ours.xattr("d", default).await), Errno::ENODATA);
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn quotas_are_kept_as_stock_clients_keep_them() {
    let place = Place::new("quotas").await;
    let ours = &place.fs;
    for dir in ["a", "b", "free"] {
        ours.create_dir(dir, 0o755).await.expect("made");
    }
    ours.set_xattr("a", "ceph.quota.max_files", "4", XattrMode::Any).await.expect("set");
    ours.set_xattr("b", "ceph.quota.max_bytes", "8388608", XattrMode::Any).await.expect("set");
    assert_eq!(getfattr(&place.theirs("a"), "ceph.quota"), b"max_bytes=0 max_files=4");
    // The directory itself counts; the servers count with a delay.
    until_full(|at| {
        let name = format!("a/{at}");
        async move { ours.make_node(name, 0o644, 0).await }
    })
    .await;
    assert_eq!(failed(ours.create_dir("a/dir", 0o755).await), Errno::EDQUOT);
    assert_eq!(failed(ours.symlink("x", "a/link").await), Errno::EDQUOT);
    place.write("free/f", "x").await;
    assert_eq!(failed(ours.link("free/f", "a/hard").await), Errno::EDQUOT);
    assert_eq!(failed(ours.open("a/new", OpenOptions::new().write().create()).await), Errno::EDQUOT);
    assert_eq!(failed(ours.rename("free/f", "a/f").await).0, 18, "EXDEV");
    ours.rename("free/f", "free/g").await.expect("within one realm");
    let script = "print(answer(lambda: os.mkdir(path + '/a/dir')), \
                  answer(lambda: os.rename(path + '/free/g', path + '/a/g')))";
    assert_eq!(stock_answers(script, &place.theirs("")).await, "EDQUOT EXDEV");

    let file = ours.open("b/f", OpenOptions::new().write().create()).await.expect("opened");
    let piece = pattern(1 << 20);
    until_full(|at| {
        let (file, piece) = (&file, piece.clone());
        async move { file.write_at(at << 20, piece).await }
    })
    .await;
    assert_eq!(failed(file.truncate(1 << 30).await), Errno::EDQUOT);
    file.write_at(0, piece).await.expect("nothing grows");
    drop(file);
    let limited = place.mount_again("/b").await;
    let space = limited.statfs().await.expect("asked");
    assert_eq!(space.block_size * space.blocks, 8 << 20);
    assert!(space.free <= 1, "{space:?}");
    limited.unmount().await.expect("unmounted");
    let whole = ours.statfs().await.expect("asked");
    assert!(whole.block_size * whole.blocks > 8 << 20, "{whole:?}");
    ours.set_xattr("b", "ceph.quota.max_bytes", "0", XattrMode::Any).await.expect("removed");
    assert_eq!(failed(ours.xattr("b", "ceph.quota").await), Errno::ENODATA);
    place.end().await;
}

/// Repeats a change until a quota has no room for it, which the servers tell with a delay.
async fn until_full<F>(change: impl Fn(u64) -> F)
where
    F: Future<Output = Result<(), loligo_fs::Error>>,
{
    for at in 0..400 {
        match change(at).await {
            Ok(()) => tokio::time::sleep(Duration::from_millis(100)).await,
            Err(e) => {
                assert_eq!(e.errno(), Errno::EDQUOT, "{e}");
                assert!(at >= 3, "nothing fitted");
                return;
            }
        }
    }
    panic!("the quota is not kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn virtual_attributes_are_those_of_stock_clients() {
    let place = Place::new("virtual").await;
    let ours = &place.fs;
    ours.create_dir("d", 0o755).await.expect("made");
    ours.create_dir("d/sub", 0o755).await.expect("made");
    place.write("d/f", pattern(70_000)).await;
    place.write("empty", "").await;
    ours.symlink("d", "link").await.expect("made");
    ours.set_xattr("d", "ceph.dir.pin", "0", XattrMode::Any).await.expect("set");
    ours.set_xattr("d", "user.a", "b", XattrMode::Any).await.expect("set");
    ours.create_dir("d/.snap/s", 0o755).await.expect("made");
    let names = [
        "ceph.dir.layout",
        "ceph.dir.layout.pool",
        "ceph.dir.layout.json",
        "ceph.dir.entries",
        "ceph.dir.files",
        "ceph.dir.subdirs",
        "ceph.dir.pin",
        "ceph.dir.pin.random",
        "ceph.dir.pin.distributed",
        "ceph.quota",
        "ceph.quota.max_files",
        "ceph.snap.btime",
        "ceph.file.layout",
        "ceph.file.layout.stripe_unit",
        "ceph.file.layout.stripe_count",
        "ceph.file.layout.object_size",
        "ceph.file.layout.pool",
        "ceph.file.layout.pool_namespace",
        "ceph.file.layout.json",
        "ceph.mirror.info",
        "ceph.nothing",
        "ceph.dir",
        "ceph.cluster_fsid",
        "user.a",
        "user.none",
        "system.posix_acl_access",
        "other.x",
    ];
    let read = "names = sys.argv[2:] if len(sys.argv) > 2 else []\n\
                for name in NAMES: print(answer(lambda: os.getxattr(path, name).decode()))";
    let read = read.replace("NAMES", &format!("{names:?}"));
    for path in ["d", "d/f", "d/.snap/s", "d/.snap/s/f"] {
        let theirs = stock_answers(&read, &place.theirs(path)).await;
        let mut answers = Vec::new();
        for name in names {
            let answer = ours.xattr(path, name).await;
            answers.push(text(answer.map(|value| String::from_utf8_lossy(&value).into_owned())));
        }
        let theirs: Vec<_> = names.iter().zip(theirs.split('\n')).collect();
        let answers: Vec<_> = names.iter().zip(answers.iter().map(String::as_str)).collect();
        assert_eq!(answers, theirs, "{path}");
    }
    let id = ours.xattr("d", "ceph.client_id").await.expect("there");
    assert_eq!(String::from_utf8_lossy(&id), format!("client{}", ours.rados().instance_id()));
    let caps = ours.xattr("d", "ceph.caps").await.expect("there");
    assert!(caps.starts_with(b"p") && caps.windows(3).any(|part| part == b"/0x"), "{caps:?}");
    assert_eq!(ours.xattrs("d").await.expect("listed"), [b"user.a"]);

    let changes = [
        ("d", "ceph.dir.entries", "5"),
        ("d", "ceph.dir.layout.stripe_count", "2"),
        ("d", "ceph.dir.layout", "nonsense"),
        ("d", "ceph.dir.layout", "stripe_unit=7"),
        ("d", "ceph.dir.layout.pool", "no-such-pool"),
        ("d", "ceph.dir.pin", "x"),
        ("d", "ceph.dir.pin.random", "2"),
        ("d", "ceph.dir.pin.distributed", "1"),
        ("d", "ceph.quota.max_bytes", "-1"),
        ("d", "ceph.quota", "max_bytes=x"),
        ("d", "ceph.nothing", "x"),
        ("d", "other.x", "y"),
        ("d", "system.x", "y"),
        ("d/f", "ceph.file.layout.stripe_count", "2"),
        ("empty", "ceph.file.layout", "stripe_unit=65536 stripe_count=2 object_size=131072"),
        ("empty", "ceph.dir.layout", "stripe_count=2"),
        ("d/f", "ceph.quota.max_files", "3"),
        ("d", "ceph.client_id", "1"),
        ("d", "trusted.t", "y"),
        ("d", "security.s", "y"),
    ];
    for (path, name, value) in changes {
        let script =
            format!("print(answer(lambda: (os.setxattr(path, {name:?}, {value:?}.encode()), 'ok')[1]))");
        let theirs = stock_answers(&script, &place.theirs(path)).await;
        let answer = text(ours.set_xattr(path, name, value, XattrMode::Any).await.map(|()| "ok"));
        assert_eq!(answer, theirs, "set {name} of {path} to {value}");
    }
    for name in ["ceph.dir.layout", "ceph.dir.entries", "ceph.dir.pin", "ceph.quota", "user.none", "other.x"]
    {
        let script = format!("print(answer(lambda: (os.removexattr(path, {name:?}), 'ok')[1]))");
        let answer = text(ours.remove_xattr("d", name).await.map(|()| "ok"));
        ours.set_xattr("d", "ceph.dir.layout.stripe_count", "2", XattrMode::Any).await.expect("set");
        assert_eq!(answer, stock_answers(&script, &place.theirs("d")).await, "remove {name}");
    }
    ours.remove_dir("d/.snap/s").await.expect("removed");
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn lazy_files_see_what_others_propagate() {
    let place = Place::new("lazy").await;
    let other = place.mount_again("").await;
    let options = OpenOptions::new().read().write().create().lazy();
    let (a, b) = (place.fs.open("f", options).await.expect("opened"), other.open("f", options).await);
    let b = b.expect("opened");
    a.write_at(0, &b"ours"[..]).await.expect("written");
    a.lazyio_propagate(0, 0).await.expect("propagated");
    b.lazyio_synchronize(0, 0).await.expect("synchronized");
    assert_eq!(b.read_at(0, 100).await.expect("read"), "ours");
    let path = place.theirs("f");
    let theirs = beside(move || {
        let file = fs::File::open(path).expect("opened");
        let mut text = [0; 4];
        file.read_exact_at(&mut text, 0).expect("read");
        text
    });
    assert_eq!(&theirs.await, b"ours");
    drop((a, b));
    other.unmount().await.expect("unmounted");
    place.end().await;
}
