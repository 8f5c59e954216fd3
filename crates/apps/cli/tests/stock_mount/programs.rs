//! Programs that know what a file system must do.

use std::fs;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{Place, done, ended, shell};

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn programs_that_know_file_systems_work_in_it() {
    let place = Place::new("programs");
    let dir = place.ours("");
    shell(
        &dir,
        "git init -q repo && cd repo && git config user.email a@b && git config user.name a && \
         mkdir -p a/b && for i in $(seq 60); do echo $i > a/b/$i; done && \
         git add . && git commit -qm first && git gc -q && echo more >> a/b/1 && git commit -qam second && \
         git fsck --strict && test -z \"$(git status --porcelain)\"",
    );
    shell(
        &dir,
        "python3 - <<'END'\n\
         import sqlite3\n\
         for mode in ('delete', 'truncate', 'persist'):\n\
         \x20   c = sqlite3.connect('db'); c.execute('pragma journal_mode=' + mode)\n\
         \x20   c.execute('create table if not exists t (a integer primary key, b text)')\n\
         \x20   for i in range(30):\n\
         \x20       with c: c.execute('insert into t (b) values (?)', ('x' * 3000,))\n\
         \x20   assert c.execute('pragma integrity_check').fetchone() == ('ok',)\n\
         \x20   c.close()\n\
         END",
    );
    shell(
        &dir,
        "cargo init -q --vcs none --bin tiny && cd tiny && cargo build -q --offline && ./target/debug/tiny",
    );
    place.ours.umount();
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn locks_hold_between_processes_and_clients() {
    let place = Place::new("locks");
    fs::write(place.ours("counter"), b"0").expect("written");
    let script = "import fcntl, os, sys\n\
        for i in range(25):\n\
        \x20   with open(sys.argv[1], 'r+') as f:\n\
        \x20       (fcntl.flock if sys.argv[2] == 'flock' else fcntl.lockf)(f, fcntl.LOCK_EX)\n\
        \x20       n = int(f.read()); f.seek(0); f.truncate(); f.write(str(n + 1)); f.flush(); os.fsync(f.fileno())\n";
    for how in ["flock", "fcntl"] {
        fs::write(place.ours("counter"), b"0").expect("written");
        let start = |_| {
            let mut command = Command::new("python3");
            command.arg("-c").arg(script).arg(place.ours("counter")).arg(how).spawn().expect("it starts")
        };
        let all: Vec<Child> = (0..8).map(start).collect();
        for mut process in all {
            let status = ended(&mut process).expect("it ends");
            assert!(status.success(), "{how}: {status}");
        }
        assert_eq!(fs::read_to_string(place.ours("counter")).expect("read"), "200", "{how}");
    }
    // A process that waits for a lock can be killed.
    let hold = "flock -x 9 && echo held && cat";
    let mut command = Command::new("bash");
    command.arg("-c").arg(format!("exec 9<{}; {hold}", place.theirs("counter").display()));
    let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = [0; 5];
    holder.stdout.as_mut().expect("a pipe").read_exact(&mut line).expect("held");
    let mut waiter = Command::new("flock").arg(place.ours("counter")).arg("true").spawn().expect("it starts");
    std::thread::sleep(Duration::from_millis(500));
    assert!(waiter.try_wait().expect("a child").is_none(), "the lock is the other client's");
    waiter.kill().expect("killed");
    assert!(ended(&mut waiter).is_some(), "a signal ends the waiting");
    drop(holder.stdin.take());
    ended(&mut holder).expect("it ends");
    done(Command::new("flock").arg(place.ours("counter")).arg("true"));
    place.ours.umount();
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn mapped_files_and_reads_are_one() {
    let place = Place::new("mmap");
    let script = "import mmap, os, sys\n\
        p = sys.argv[1]\n\
        f = open(p, 'w+b'); f.write(b'a' * 100000); f.flush()\n\
        m = mmap.mmap(f.fileno(), 0)\n\
        assert m[50000:50003] == b'aaa'\n\
        m[50000:50003] = b'xyz'; m.flush()\n\
        f.seek(50000); assert f.read(3) == b'xyz'\n\
        f.seek(70000); f.write(b'123'); f.flush()\n\
        assert m[70000:70003] == b'123', m[70000:70003]\n\
        r = mmap.mmap(os.open(p, os.O_RDONLY), 0, prot=mmap.PROT_READ)\n\
        assert r[50000:50003] == b'xyz' and r[70000:70003] == b'123'\n\
        m.close(); r.close(); f.close()\n";
    done(Command::new("python3").arg("-c").arg(script).arg(place.ours("f")));
    let data = fs::read(place.theirs("f")).expect("read");
    assert_eq!(
        (data.len(), &data[50_000..50_003], &data[70_000..70_003]),
        (100_000, &b"xyz"[..], &b"123"[..])
    );
    // Programs are mapped files.
    fs::copy("/bin/true", place.ours("true")).expect("copied");
    done(&mut Command::new(place.ours("true")));
    place.ours.umount();
}

/// Returns `true` if a program is here. Otherwise a line says that the test did nothing.
fn is_here(program: &str) -> bool {
    let found = Command::new("which").arg(program).stdout(Stdio::null()).status().expect("it starts");
    if !found.success() {
        eprintln!("skipped: {program} is not installed");
    }
    found.success()
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn what_fio_writes_it_finds_again() {
    if !is_here("fio") {
        return;
    }
    let place = Place::new("fio");
    for (name, how) in [
        ("buffered", "--ioengine=psync --numjobs=2 --bssplit=4k/50:12k/30:129k/20 --fsync=64"),
        ("direct", "--ioengine=libaio --iodepth=8 --direct=1 --bs=64k"),
        ("mapped", "--ioengine=mmap --bs=4k"),
    ] {
        let script = format!(
            "fio --name={name} --directory=. --rw=randrw --size=6m --verify=crc32c --verify_fatal=1 \
             --verify_backlog=64 --end_fsync=1 --group_reporting --output=/dev/null {how}"
        );
        shell(&place.ours(""), &script);
        // Written by one client, read by the other.
        let again = "fio --name=buffered --directory=. --rw=read --size=6m --bs=128k --output=/dev/null";
        shell(&place.theirs(""), again);
    }
    place.ours.umount();
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn copies_of_trees_are_whole() {
    let place = Place::new("copies");
    let dir = place.ours("");
    shell(
        &dir,
        "git init -q repo && cd repo && git config user.email a@b && git config user.name a && \
         mkdir -p a/b && for i in $(seq 40); do seq $((i * 50)) > a/b/$i; done && ln -s a/b link && \
         ln a/b/1 second && chmod 640 a/b/2 && setfattr -n user.note -v text a/b/3 && \
         git add . && git commit -qm first && git repack -qad && cd .. && \
         git clone -q --no-local repo clone && git -C clone fsck --strict && \
         git clone -q repo linked && git -C linked fsck --strict && diff -r repo/a clone/a",
    );
    if is_here("rsync") {
        shell(
            &dir,
            "rsync -aHX repo/ copy && test -z \"$(rsync -aHXi --delete repo/ copy)\" && diff -r repo copy && \
             test $(stat -c %h copy/second) = 2 && getfattr -n user.note copy/a/b/3 > /dev/null && \
             echo more >> repo/a/b/5 && rm repo/a/b/6 && \
             test $(rsync -aHXi --delete repo/ copy | grep -c a/b/[56]$) = 2 && \
             test -z \"$(rsync -aHXic --delete repo/ copy)\"",
        );
    }
    place.ours.umount();
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn a_file_that_others_change_runs_as_its_owner_no_more() {
    let place = Place::new("suid");
    let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups bash -euc";
    for change in [": > f", "truncate -s 3 f", "echo x >> f", "printf y | dd of=f conv=notrunc status=none"] {
        let script = format!(
            "rm -f f && echo old > f && chmod 4777 f && test $(stat -c %a f) = 4777 && \
             {nobody} '{change}' && test $(stat -c %a f) = 777"
        );
        shell(&place.ours(""), &script);
    }
    let theirs = fs::metadata(place.theirs("f")).expect("there");
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&theirs.permissions()) & 0o7777, 0o777);
    place.ours.umount();
}
