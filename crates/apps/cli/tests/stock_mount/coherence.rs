//! What other clients change is seen, whatever the kernel keeps.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::support::{Ours, PATIENCE, Place, done, ended, pattern};

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn what_another_client_changes_is_seen_at_once() {
    let place = Place::new("seen");
    fs::write(place.theirs("f"), b"first").expect("written");
    for round in 0..40_u8 {
        // Whatever the kernel has kept of names, attributes and data is out of date now.
        let (data, name) = (pattern(10 + usize::from(round), round), format!("n{}", round % 3));
        fs::write(place.theirs("f"), &data).expect("written");
        assert_eq!(fs::metadata(place.ours("f")).expect("there").len(), data.len() as u64, "round {round}");
        assert!(fs::read(place.ours("f")).expect("read") == data, "round {round}");
        fs::write(place.theirs(&name), [round]).expect("written");
        assert_eq!(fs::read(place.ours(&name)).expect("read"), [round]);
        fs::remove_file(place.theirs(&name)).expect("removed");
        assert!(!place.ours(&name).exists(), "round {round}: a name that is gone");
        let mode = 0o600 | u32::from(round % 8);
        let permissions = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(mode);
        fs::set_permissions(place.theirs("f"), permissions).expect("changed");
        assert_eq!(fs::metadata(place.ours("f")).expect("there").mode() & 0o777, mode);
    }
    // The other way round. ceph-fuse leaves data in its kernel while a file is open anywhere, so it is
    // closed.
    for round in 0..20_u8 {
        fs::write(place.ours("f"), [round; 8]).expect("written");
        assert_eq!(fs::read(place.theirs("f")).expect("read"), [round; 8]);
    }
    place.ours.umount();
}

const PAGE: usize = 4096;
const PAGES: usize = 24;

/// A file of pages: each has one number, many times. A writer notes the number before and after it is
/// written, so that a reader knows what it may find.
struct Numbers {
    begun: [AtomicU64; PAGES],
    ended: [AtomicU64; PAGES],
}

impl Numbers {
    fn new() -> Arc<Self> {
        let zeros = || std::array::from_fn(|_| AtomicU64::new(0));
        Arc::new(Self { begun: zeros(), ended: zeros() })
    }

    fn write(&self, file: &File, page: usize) {
        let number = self.begun[page].load(Ordering::SeqCst) + 1;
        self.begun[page].store(number, Ordering::SeqCst);
        file.write_all_at(&number.to_le_bytes().repeat(PAGE / 8), (page * PAGE) as u64).expect("written");
        self.ended[page].store(number, Ordering::SeqCst);
    }

    /// What was written before the read began is read, or something newer.
    #[track_caller]
    fn check(&self, file: &File, page: usize) {
        let mut data = [0; PAGE];
        let oldest = self.ended[page].load(Ordering::SeqCst);
        file.read_exact_at(&mut data, (page * PAGE) as u64).expect("read");
        let newest = self.begun[page].load(Ordering::SeqCst);
        for number in data.chunks(8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("8 bytes"))) {
            assert!(
                (oldest..=newest).contains(&number),
                "page {page}: {number} is not in {oldest}..={newest}"
            );
        }
    }
}

/// Runs each on a thread of its own, until all have ended.
fn at_once(all: Vec<Box<dyn FnOnce() + Send>>) {
    let (tell, ended) = mpsc::channel();
    let count = all.len();
    for work in all {
        let tell = tell.clone();
        // Not joined: one that waits for ever must not keep the test from saying so.
        thread::spawn(move || {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            let _ = tell.send(done.is_ok());
        });
    }
    for _ in 0..count {
        assert!(ended.recv_timeout(PATIENCE).expect("every call ends"), "see above");
    }
}

/// A writer through one mount and readers through others: with files that stay open, and with new ones.
fn written_and_read(writer: PathBuf, readers: &[PathBuf]) {
    const ROUNDS: usize = 150;
    fs::write(&writer, [0; PAGE * PAGES]).expect("written");
    let (numbers, is_over) = (Numbers::new(), Arc::new(AtomicBool::new(false)));
    let mut all: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    for path in readers.iter().flat_map(|path| [path.clone(), path.clone()]) {
        let (numbers, is_over) = (Arc::clone(&numbers), Arc::clone(&is_over));
        all.push(Box::new(move || {
            let mut file = File::open(&path).expect("opened");
            for n in (0..).take_while(|_| !is_over.load(Ordering::SeqCst)) {
                numbers.check(&file, n * 7 % PAGES);
                if n % 50 == 49 {
                    file = File::open(&path).expect("opened");
                }
            }
            (0..PAGES).for_each(|page| numbers.check(&file, page));
        }));
    }
    all.push(Box::new(move || {
        for round in 0..ROUNDS {
            // While nobody has it open to write, readers may keep what they have read.
            let file = OpenOptions::new().write(true).open(&writer).expect("opened");
            (0..3).for_each(|n| numbers.write(&file, (round * 5 + n) % PAGES));
            if round % 10 == 0 {
                let tail = (round % 7) as u64;
                file.set_len((PAGE * PAGES) as u64 + tail).expect("cut");
            }
            drop(file);
            thread::sleep(Duration::from_millis(round as u64 % 5));
        }
        is_over.store(true, Ordering::SeqCst);
    }));
    at_once(all);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn reads_are_never_older_than_another_client_s_write() {
    let place = Place::new("newest");
    let second = Ours::mount("newest-second", &format!(":/{}", place.name), &[]);
    written_and_read(place.theirs("f"), &[place.ours("f"), second.path("f")]);
    written_and_read(place.ours("g"), &[second.path("g"), place.ours("g")]);
    second.umount();
    place.ours.umount();
}

/// What a program has mapped is seen by others once it is synced, and shows what they write.
const MAPPED: &str = "import mmap, os, sys, time\n\
    ours, other = sys.argv[1:3]\n\
    N = 16 * 4096\n\
    with open(ours, 'wb') as f: f.write(b'a' * N)\n\
    m = mmap.mmap(os.open(ours, os.O_RDWR), 0)\n\
    a = os.open(ours, os.O_RDWR | os.O_APPEND); n = mmap.mmap(a, 0)\n\
    r = os.open(other, os.O_RDONLY); w = os.open(other, os.O_RDWR)\n\
    for i in range(60):\n\
    \x20   at = i * 5 % 15 * 4096 + i; mark = b'%07d' % i\n\
    \x20   (m if i % 2 else n)[at:at + 7] = mark; (m if i % 2 else n).flush()\n\
    \x20   assert os.pread(r, 7, at) == mark, (i, os.pread(r, 7, at))\n\
    \x20   assert os.fstat(r).st_size == N, os.fstat(r).st_size\n\
    \x20   os.pwrite(w, mark[::-1], at + 10)\n\
    \x20   until = time.time() + 60\n\
    \x20   while m[at + 10:at + 17] != mark[::-1]:\n\
    \x20       assert time.time() < until, (i, m[at + 10:at + 17])\n";

/// Maps a file to read and looks at all of it until another client has written the last number.
const WATCHES: &str = "import mmap, os, sys, time\n\
    m = mmap.mmap(os.open(sys.argv[1], os.O_RDONLY), 0, prot=mmap.PROT_READ)\n\
    print('mapped', flush=True)\n\
    until = time.time() + 100\n\
    while any(m[at] != 255 for at in range(0, len(m), 4096)):\n\
    \x20   assert time.time() < until, [m[at] for at in range(0, len(m), 4096)]\n";

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn mapped_files_follow_other_clients() {
    let place = Place::new("mapped");
    let second = Ours::mount("mapped-second", &format!(":/{}", place.name), &[]);
    for (ours, other) in [(place.ours("f"), second.path("f")), (second.path("g"), place.ours("g"))] {
        done(Command::new("python3").args(["-c", MAPPED]).arg(ours).arg(other));
    }
    // Programs that look at a mapping all the time, while a stock client and another mount of ours write.
    fs::write(place.ours("h"), [0; PAGE * PAGES]).expect("written");
    let watch = |path: &Path| {
        let mut command = Command::new("python3");
        command.args(["-c", WATCHES]).arg(path).stdout(Stdio::null()).spawn().expect("it starts")
    };
    let mut watchers = [watch(&place.ours("h")), watch(&second.path("h"))];
    for number in 1..=40_u8 {
        for path in [place.theirs("h"), second.path("h"), place.ours("h")] {
            let file = OpenOptions::new().write(true).open(path).expect("opened");
            let page = usize::from(number) % PAGES;
            file.write_all_at(&[number; PAGE], (page * PAGE) as u64).expect("written");
        }
    }
    let file = OpenOptions::new().write(true).open(place.theirs("h")).expect("opened");
    file.write_all_at(&[255; PAGE * PAGES], 0).expect("written");
    for watcher in &mut watchers {
        assert!(ended(watcher).expect("it ends").success());
    }
    second.umount();
    place.ours.umount();
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn what_was_read_is_read_again_without_the_mount_s_process() {
    let place = Place::new("warm");
    let data = Arc::new(pattern(1 << 20, 5));
    // Not by ceph-fuse: the file may stay open there for a while, and nobody else may then keep what it
    // reads.
    fs::write(place.ours("f"), &**data).expect("written");
    // A process that begins later would close its copy of the file, which the stopped mount would hear.
    let script = "read a; kill -STOP $0; echo stopped; read b; kill -CONT $0";
    let mut command = Command::new("bash");
    command.args(["-c", script]).arg(place.ours.process.id().to_string());
    let mut signals = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut tell_signals = signals.stdin.take().expect("a pipe");
    let file = Arc::new(File::open(place.ours("f")).expect("opened"));
    let read = |file: &File| {
        let mut found = vec![0; 1 << 20];
        file.read_exact_at(&mut found, 0).expect("read");
        found
    };
    assert!(read(&file) == *data);
    tell_signals.write_all(b"\n").expect("told");
    signals.stdout.as_mut().expect("a pipe").read_exact(&mut [0; 7]).expect("stopped");
    let (tell, told) = mpsc::channel();
    let (warm, expected) = (Arc::clone(&file), Arc::clone(&data));
    thread::spawn(move || tell.send(read(&warm) == *expected));
    let found = told.recv_timeout(PATIENCE / 3);
    tell_signals.write_all(b"\n").expect("told");
    assert!(ended(&mut signals).expect("it ends").success());
    assert_eq!(found, Ok(true), "the kernel has it");
    // Another client's write ends that.
    let theirs = OpenOptions::new().write(true).open(place.theirs("f")).expect("opened");
    theirs.write_all_at(b"new", 70_000).expect("written");
    assert!(read(&file)[70_000..70_003] == *b"new");
    drop((file, theirs));
    place.ours.umount();
}
