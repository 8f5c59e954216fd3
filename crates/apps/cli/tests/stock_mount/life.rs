//! Mounts begin, end and are killed.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{
    Folder, Ours, PATIENCE, Place, conf, done, ended, errno, loligo, pattern, stock, stock_dir,
};

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn what_was_synced_outlives_the_process() {
    let place = Place::new("killed");
    let data = pattern(5 << 20, 7);
    let mut file = File::create(place.ours("f")).expect("made");
    file.write_all(&data).expect("written");
    file.sync_all().expect("durable");
    File::open(place.ours("")).expect("opened").sync_all().expect("durable");
    let Place { mut ours, theirs, name } = place;
    ours.process.kill().expect("killed");
    ours.process.wait().expect("a child");
    assert_eq!(errno(fs::metadata(ours.path("f"))), 107, "ENOTCONN: nobody serves the mount");
    drop(file);
    drop(ours);
    // The metadata server waits for the dead client's session to end before it lets others at the file.
    let seen = theirs.0.join(&name).join("f");
    assert!(fs::read(seen).expect("read") == data);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn the_daemon_serves_until_it_is_unmounted() {
    let place = Place::new("daemon");
    let folder = Folder::new("daemon-second");
    let source = format!(":/{}", place.name);
    done(loligo().arg("mount").arg(&source).arg(&folder.0).args(["-o", "norbytes,_netdev"]));
    let data = pattern(3 << 20, 3);
    fs::write(folder.0.join("f"), &data).expect("written");
    let mounts = fs::read_to_string("/proc/mounts").expect("read");
    let line = mounts.lines().find(|line| line.contains(folder.0.to_str().expect("text"))).expect("mounted");
    assert!(line.starts_with(&format!("{source} ")) && line.contains(" fuse.loligo "), "{line}");
    done(Command::new("umount").arg(&folder.0));
    assert!(fs::read(place.theirs("f")).expect("read") == data);
    // Signals unmount, too.
    let ours = Ours::mount("daemon-third", &source, &["-o", "ro"]);
    assert_eq!(errno(fs::write(ours.path("f"), b"x")), 30, "EROFS");
    let mut ours = ours;
    done(Command::new("kill").arg("-TERM").arg(ours.process.id().to_string()));
    assert!(ended(&mut ours.process).expect("it ends").success());
    assert!(!ours.path("f").exists());
    for (words, why) in [
        (&["mount", "nosuchfs:/", "/tmp"][..], "no file system 'nosuchfs'"),
        (&["mount", "/nosuchdir", "/tmp"], "No such file"),
        (&["mount", ":/", "/nosuchdir"], "No such file"),
        (&["mount", ":/", "/tmp", "-o", "wsize=5"], "-o wsize: has no effect"),
        (&["mount", ":/", "/tmp", "-o", "ceph.client_oc=maybe"], "client_oc"),
        (&["mount", ":/", "/tmp", "-o", "ceph.client_oc_size=much"], "client_oc_size"),
        (&["mount", ":/", "/tmp", "-o", "ceph.client_permissions=5x"], "client_permissions"),
    ] {
        let output = loligo().args(words).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        assert!(said.lines().count() == 1 && said.contains(why), "{words:?}: {said}");
    }
    place.ours.umount();
}

/// Runs a script in mounts of its own: with helpers of mount(8), and with a device for all users, as a
/// machine has them.
#[track_caller]
fn apart(folder: &Folder, name: &str, script: &str) {
    let prepared = format!(
        "mount --make-rprivate / && mkdir -p $T/sbin $T/up && cd $T && \
         ln -sf $LOLIGO_BIN sbin/mount.fuse.loligo && mknod fuse c 10 229 && chmod 666 fuse && \
         mount --bind fuse /dev/fuse && \
         mount -t overlay overlay -o lowerdir=$T/sbin:/usr/sbin /usr/sbin && cd / && {script}"
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "bash", "-euc", &prepared]);
    // The release's own programs: a program of 16.2 cannot read all keys of 20.2.
    command.env("EXEC", stock_dir().join("exec"));
    let output = done(command.env("T", &folder.0).env("CONF", conf()).env("NAME", name));
    drop(output);
    fs::remove_dir_all(&folder.0).expect("removed");
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn a_line_of_fstab_mounts_it() {
    let place = Place::new("fstab");
    let folder = Folder::new("fstab-apart");
    apart(
        &folder,
        &place.name,
        "mkdir $T/d && echo \":/$NAME $T/d fuse.loligo conf=$CONF,noatime,_netdev 0 0\" > $T/fstab && \
         mount -T $T/fstab $T/d && grep -q \" $T/d fuse.loligo .*noatime\" /proc/mounts && \
         echo text > $T/d/f && umount $T/d && test ! -e $T/d/f",
    );
    assert_eq!(fs::read(place.theirs("f")).expect("read"), b"text\n");
    place.ours.umount();
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn a_user_mounts_for_itself() {
    if !Path::new("/usr/bin/fusermount3").exists() {
        eprintln!("skipped: fusermount3 is not installed");
        return;
    }
    let place = Place::new("user");
    fs::set_permissions(place.theirs(""), fs::Permissions::from_mode(0o777)).expect("changed");
    let folder = Folder::new("user-apart");
    apart(
        &folder,
        &place.name,
        "cp $LOLIGO_BIN $T/loligo && (echo [global] && grep -E \"mon host|auth .*required\" $CONF) > $T/ceph.conf && mkdir $T/d && \
         sh $EXEC ceph auth get-key client.admin > $T/key && chown -R 65534 $T/d $T/key && chmod 755 $T && \
         as='setpriv --reuid=65534 --regid=65534 --clear-groups' && \
         $as $T/loligo -c $T/ceph.conf mount -o secretfile=$T/key :/$NAME $T/d && \
         $as bash -euc \"echo text > $T/d/f && test \\$(stat -c %u $T/d/f) = 65534\" && \
         ! ls $T/d 2> /dev/null && $as fusermount3 -u $T/d && test ! -e $T/d/f",
    );
    let theirs = fs::metadata(place.theirs("f")).expect("there");
    assert_eq!((theirs.uid(), theirs.len()), (65534, 5));
    place.ours.umount();
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn a_key_on_the_command_line_is_not_seen() {
    let place = Place::new("secret");
    let key = done(stock("ceph").args(["auth", "get-key", "client.admin"]));
    let key = String::from_utf8(key.stdout).expect("text");
    let options = format!("ro,secret={},name=admin", key.trim());
    let mount = Ours::mount("secret-second", &format!(":/{}", place.name), &["-o", &options]);
    let line = fs::read(format!("/proc/{}/cmdline", mount.process.id())).expect("a process");
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    assert!(line.contains("mount -o ro,defaults,name=admin") && !line.contains(key.trim()), "{line}");
    mount.umount();
    place.ours.umount();
}

/// What a mount may have in memory that has written and read a file of 1 MiB.
const IDLE_KIB_MAX: u64 = 32 << 10;

/// The memory of a process, without pages of its program, which all its processes share.
fn anonymous_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn an_idle_mount_takes_little_and_tells_of_itself() {
    let place = Place::new("idle");
    let folder = Folder::new("idle-socket");
    let socket = folder.0.join("asok");
    let asok = socket.to_str().expect("text");
    let mount = Ours::mount_with(&["--admin-socket", asok], "idle-second", &format!(":/{}", place.name), &[]);
    fs::write(mount.path("f"), pattern(1 << 20, 1)).expect("written");
    assert!(fs::read(mount.path("f")).expect("read") == pattern(1 << 20, 1));
    let pid = mount.process.id();
    let threads = || fs::read_dir(format!("/proc/{pid}/task")).expect("a process").count();
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // One for each processor, and the first; here also the log's and the socket's. There is one that takes
    // requests and one of the client on a single processor, too. Threads that may block go when they have had
    // nothing to do for a while.
    let allowed = cores.max(2) + 3;
    let begun = Instant::now();
    while threads() > allowed {
        assert!(begun.elapsed() < PATIENCE, "{} threads, not {allowed}", threads());
        thread::sleep(Duration::from_millis(100));
    }
    let anonymous = anonymous_kib(pid);
    assert!(anonymous < IDLE_KIB_MAX, "{anonymous} KiB of memory");
    let shown =
        |words: &[&str]| String::from_utf8(done(loligo().args(words).arg(asok)).stdout).expect("text");
    assert!(shown(&["ops", "--format", "json"]).contains("\"kind\":\"client\""));
    let locks = shown(&["lockstat", "--format", "json"]);
    assert!(locks.contains("fs.inode"), "{locks}");
    mount.umount();
    place.ours.umount();
    fs::remove_dir_all(&folder.0).expect("removed");
}
