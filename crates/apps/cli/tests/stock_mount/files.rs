//! The calls of programs on files and directories.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, symlink};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{Place, done, errno, names, pattern, shell};

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn a_tree_is_the_same_through_both() {
    let place = Place::new("tree");
    let data = pattern(9 << 20, 1);
    fs::create_dir(place.ours("d")).expect("made");
    fs::write(place.ours("d/file"), &data).expect("written");
    symlink("d/file", place.ours("link")).expect("made");
    fs::hard_link(place.ours("d/file"), place.ours("second")).expect("made");
    assert!(fs::read(place.theirs("link")).expect("read") == data);
    assert_eq!(fs::metadata(place.theirs("second")).expect("there").nlink(), 2);
    assert_eq!(fs::metadata(place.ours("second")).expect("there").nlink(), 2);
    let (ours, theirs) = (place.ours("d/file"), place.theirs("d/file"));
    let (ours, theirs) = (fs::metadata(ours).expect("there"), fs::metadata(theirs).expect("there"));
    let of = |meta: &fs::Metadata| (meta.ino(), meta.mode(), meta.size(), meta.mtime(), meta.mtime_nsec());
    assert_eq!(of(&ours), of(&theirs));
    let theirs = pattern(300_000, 2);
    fs::write(place.theirs("d/theirs"), &theirs).expect("written");
    assert!(fs::read(place.ours("d/theirs")).expect("read") == theirs);
    assert_eq!(names(&place.ours("d")), ["file", "theirs"]);
    fs::rename(place.ours("d/theirs"), place.ours("d/file")).expect("over it");
    assert!(fs::read(place.theirs("d/file")).expect("read") == theirs);
    assert_eq!(fs::metadata(place.ours("second")).expect("there").nlink(), 1);
    assert_eq!(errno(fs::remove_dir(place.ours("d"))), 39, "ENOTEMPTY");
    assert_eq!(errno(fs::remove_file(place.ours("nothing"))), 2, "ENOENT");
    assert_eq!(errno(File::open(place.ours("second/x"))), 20, "ENOTDIR");
    assert_eq!(errno(fs::create_dir(place.ours(&"n".repeat(256)))), 36, "ENAMETOOLONG");
    fs::remove_dir_all(place.ours("d")).expect("removed");
    fs::create_dir_all(place.ours("from/moved")).expect("made");
    fs::create_dir(place.ours("to")).expect("made");
    let links = |name: &str| fs::metadata(place.ours(name)).expect("there").nlink();
    assert_eq!((links("from"), links("to")), (3, 2));
    fs::rename(place.ours("from/moved"), place.ours("to/moved")).expect("moved");
    assert_eq!((links("from"), links("to")), (2, 3), "of `..`");
    shell(&place.ours(""), "rm -r from to");
    assert_eq!(names(&place.theirs("")), ["link", "second"]);
    place.ours.umount();
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn open_files_outlive_their_names() {
    let place = Place::new("unlinked");
    let options = || {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        options
    };
    let file = options().open(place.ours("f")).expect("made");
    file.write_all_at(b"hello", 0).expect("written");
    fs::remove_file(place.ours("f")).expect("removed");
    file.write_all_at(b" world", 5).expect("written");
    let mut data = [0; 11];
    file.read_exact_at(&mut data, 0).expect("read");
    assert_eq!(&data, b"hello world");
    assert_eq!(file.metadata().expect("known").nlink(), 0);
    assert_eq!(errno(fs::metadata(place.ours("f"))), 2);
    drop(file);
    // A name that comes over an open file's.
    let file = options().open(place.ours("a")).expect("made");
    file.write_all_at(b"old", 0).expect("written");
    fs::write(place.ours("b"), b"new").expect("written");
    fs::rename(place.ours("b"), place.ours("a")).expect("over it");
    file.read_exact_at(&mut data[..3], 0).expect("read");
    assert_eq!(&data[..3], b"old");
    assert_eq!(fs::read(place.theirs("a")).expect("read"), b"new");
    // Appends go to the end, wherever that is by then.
    let mut append = OpenOptions::new().append(true).open(place.ours("a")).expect("opened");
    append.write_all(b"er").expect("written");
    let mut theirs = OpenOptions::new().append(true).open(place.theirs("a")).expect("opened");
    // The kernel in front of ceph-fuse decides where an append goes. It hears of a new end a little later.
    let began = Instant::now();
    while theirs.metadata().expect("known").len() != 5 && began.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(1));
    }
    theirs.write_all(b" than").expect("written");
    theirs.sync_all().expect("durable");
    append.write_all(b" old").expect("written");
    append.sync_all().expect("durable");
    assert_eq!(fs::read(place.theirs("a")).expect("read"), b"newer than old");
    drop((file, append, theirs));
    place.ours.umount();
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn large_directories_are_listed_whole_and_from_the_middle() {
    const COUNT: usize = 3000;
    let place = Place::new("large");
    fs::create_dir(place.theirs("d")).expect("made");
    let expected: Vec<String> = (0..COUNT).map(|n| format!("file-{n:05}")).collect();
    for name in &expected {
        File::create(place.theirs("d").join(name)).expect("made");
    }
    assert_eq!(names(&place.ours("d")), expected);
    let script = "import os, sys\n\
        d = sys.argv[1]\n\
        a = sorted(os.listdir(d)); b = sorted(e.name for e in os.scandir(d) if e.stat().st_size == 0)\n\
        assert a == b, (len(a), len(b))\n\
        import ctypes\n\
        c = ctypes.CDLL(None, use_errno=True)\n\
        c.opendir.restype = c.readdir64.restype = ctypes.c_void_p\n\
        c.telldir.restype = ctypes.c_long\n\
        p = ctypes.c_void_p(c.opendir(d.encode()))\n\
        name = lambda e: ctypes.string_at(e + 19)\n\
        seen = []\n\
        while True:\n\
        \x20   at = c.telldir(p)\n\
        \x20   e = c.readdir64(p)\n\
        \x20   if not e: break\n\
        \x20   seen.append((at, name(e)))\n\
        for at, n in seen[::97][::-1]:\n\
        \x20   c.seekdir(p, ctypes.c_long(at))\n\
        \x20   assert name(c.readdir64(p)) == n, (at, n)\n\
        print(len(seen))\n";
    let listed = done(Command::new("python3").arg("-c").arg(script).arg(place.ours("d")));
    assert_eq!(String::from_utf8_lossy(&listed.stdout).trim(), (COUNT + 2).to_string());
    // Names go while they are listed.
    for entry in fs::read_dir(place.ours("d")).expect("a directory") {
        fs::remove_file(entry.expect("an entry").path()).expect("removed");
    }
    assert!(names(&place.theirs("d")).is_empty());
    place.ours.umount();
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn snapshots_are_directories_that_nobody_changes() {
    let place = Place::new("snapshots");
    fs::create_dir(place.ours("d")).expect("made");
    fs::write(place.ours("d/f"), b"before").expect("written");
    done(Command::new("sync").arg("-f").arg(place.ours("d")));
    fs::create_dir(place.ours("d/.snap/monday")).expect("taken");
    fs::write(place.ours("d/f"), b"afterwards").expect("written");
    let kept = place.ours("d/.snap/monday/f");
    assert_eq!(fs::read(&kept).expect("read"), b"before");
    assert_eq!(fs::read(place.theirs("d/.snap/monday/f")).expect("read"), b"before");
    let (kept_meta, now) =
        (fs::metadata(&kept).expect("there"), fs::metadata(place.ours("d/f")).expect("there"));
    assert_ne!(kept_meta.ino(), now.ino(), "another file for the kernel");
    assert_eq!((kept_meta.len(), now.len()), (6, 10));
    assert_eq!(errno(fs::write(&kept, b"x")), 30, "EROFS");
    assert_eq!(errno(fs::remove_file(&kept)), 30, "EROFS");
    assert_eq!(names(&place.ours("d/.snap")), ["monday"]);
    fs::remove_dir(place.ours("d/.snap/monday")).expect("removed");
    assert!(names(&place.theirs("d/.snap")).is_empty());
    place.ours.umount();
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn times_modes_owners_and_attributes_are_kept() {
    let place = Place::new("attributes");
    fs::write(place.ours("f"), b"x").expect("written");
    shell(
        &place.ours(""),
        "chmod 4750 f && test $(stat -c %a f) = 4750 && chown 1234:4321 f && \
         test $(stat -c %u:%g f) = 1234:4321 && test $(stat -c %a f) = 750 && \
         touch -d '2001-02-03 04:05:06.789' f && test \"$(stat -c %y f | cut -c1-23)\" = '2001-02-03 04:05:06.789' && \
         mkfifo p && test -p p && mknod n c 259 70000 && test $(stat -c %t:%T n) = 103:11170 && \
         python3 -c \"import os; os.setxattr('f', 'user.a', b'b'); \
           assert os.getxattr('f', 'user.a') == b'b' and 'user.a' in os.listxattr('f'); \
           os.removexattr('f', 'user.a'); assert os.listxattr('f') == []\" && \
         truncate -s 1M f && fallocate -p -o 4096 -l 8192 f && test $(stat -c %s f) = 1048576 && \
         umask 027 && mkdir d && test $(stat -c %a d) = 750",
    );
    let theirs = fs::metadata(place.theirs("f")).expect("there");
    assert_eq!((theirs.uid(), theirs.gid(), theirs.mode() & 0o7777), (1234, 4321, 0o750));
    let theirs = fs::metadata(place.theirs("n")).expect("there");
    let ours = fs::metadata(place.ours("n")).expect("there");
    assert_eq!(ours.rdev(), theirs.rdev());
    let direct = OpenOptions::new().write(true).custom_flags(0o40_000).open(place.ours("f"));
    drop(direct.expect("opened past the cache"));
    place.ours.umount();
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn a_hole_may_reach_to_the_end_of_a_file_that_was_cut() {
    let place = Place::new("holes");
    let data = pattern(100_000, 9);
    fs::write(place.ours("f"), &data).expect("written");
    shell(
        &place.ours(""),
        "truncate -s 50000 f && fallocate -p -o 40000 -l 20000 f && test $(stat -c %s f) = 50000",
    );
    let mut expected = data[..40_000].to_vec();
    expected.resize(50_000, 0);
    assert!(fs::read(place.ours("f")).expect("read") == expected);
    assert!(fs::read(place.theirs("f")).expect("read") == expected);
    place.ours.umount();
}
