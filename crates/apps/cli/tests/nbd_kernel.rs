//! Goal: a `/dev/nbdN` of the kernel's client has the export's content. Method: Debian's kernel runs in
//! qemu without a disk. Its init is a script that serves, attaches, writes, compares, detaches and
//! powers off.

mod partitions;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const LOLIGO: &str = env!("CARGO_BIN_EXE_loligo");

/// The package that depends on Debian's newest small kernel, which has the client as a module.
const KERNEL: &str = "linux-image-cloud-amd64";

/// Time limit of the machine in seconds. It is emulated, so that it is the same everywhere; with two
/// idle cores it takes 15.
const MACHINE_SECONDS_MAX: &str = "300";

/// Each step prints its command first, so that the last line names the failed one.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
try() { echo "try: $*"; "$@" || { echo "FAILED: $*"; poweroff -f; }; }
refused() { said=$(loligo "$@" 2>&1) && { echo "FAILED, was not refused: $*"; poweroff -f; }; echo "refused: $said"; }
same() { dd if=$1 bs=1M count=8 2>/dev/null | cmp - /data; }
forget() { sync; echo 3 > /proc/sys/vm/drop_caches; }
clients() { loligo nbd ls /c | grep "^$1" | grep -q " $2 clients\|	$2 clients"; }
ip link set lo up
refused nbd attach auto --unix /s m
try insmod /nbd.ko max_part=8
dd if=/dev/urandom of=/data bs=1M count=8 2>/dev/null
cp /data /file
loligo nbd serve --unix /s --listen 127.0.0.1:10809 --control /c --export m=memory:64M --export f=file:/file,ro --export odd=memory:1000001 \
  --export mbr=file:/mbr --export gpt=file:/gpt --export gpt4k=file:/gpt4k &
server=$!
while ! loligo nbd ls /c >/dev/null 2>&1; do sleep 0.1; done
refused nbd attach auto --unix /s absent
device=$(loligo nbd attach auto --unix /s m) || echo FAILED
echo "attached: $device"
try test -b "$device"
try test "$(blockdev --getsize64 $device)" = 67108864
try test "$(cat /sys/block/${device#/dev/}/ro)" = 0
try clients m 4
try dd if=/data of=$device bs=1M conv=fsync
forget
try same $device
refused nbd attach $device --unix /s m
try mkswap $device
try swapon $device
refused nbd detach $device
try swapoff $device
try dd if=/data of=$device bs=1M count=1
try loligo nbd detach $device
try test "$(blockdev --getsize64 $device)" = 0
refused nbd detach $device
try clients m 0
echo "what was written last has been written, and over TCP it is the same"
try loligo nbd attach /dev/nbd7 nbd://127.0.0.1/m --connections 2
try clients m 2
try same /dev/nbd7
try loligo nbd attach /dev/nbd3 --unix /s f
try test "$(cat /sys/block/nbd3/ro)" = 1
try same /dev/nbd3
try loligo nbd detach /dev/nbd3
try loligo nbd attach /dev/nbd3 --unix /s odd
try test "$(blockdev --getsize64 /dev/nbd3)" = 999936
try loligo nbd detach /dev/nbd3
echo "disks of virtual machines: tables are found where sectors of 512 bytes put them, also if the size divides by 4096"
disk() { try loligo nbd attach /dev/nbd4 --unix /s "$@"; try dd if=/dev/nbd4 of=/dev/null bs=512 count=1; }
part() { try test "$(cat /sys/block/nbd4/nbd4p$1/start) $(cat /sys/block/nbd4/nbd4p$1/size)" = "$2"; }
sectors() { for kind in logical physical; do try test "$(cat /sys/block/nbd4/queue/${kind}_block_size)" = $1; done; }
disk mbr; sectors 512; part 1 "256 1024"; part 2 "1280 4096"; try loligo nbd detach /dev/nbd4
disk gpt; sectors 512; part 1 "256 1024"; part 2 "1280 4096"; try loligo nbd detach /dev/nbd4
echo "a table that was made with sectors of 4096 bytes"
disk gpt4k --block-size 4096; sectors 4096; part 1 "2048 256"; part 2 "2304 256"; try loligo nbd detach /dev/nbd4
disk gpt4k; sectors 512; try test ! -e /sys/block/nbd4/nbd4p2; try loligo nbd detach /dev/nbd4
refused nbd attach /dev/nbd4 --unix /s odd --block-size 4096
refused nbd attach /dev/nbd4 --unix /s mbr --block-size 8192
echo "a server that is gone"
kill -9 $server
forget
dd if=/dev/nbd7 of=/dev/null bs=1M count=1 2>/dev/null && { echo "FAILED: a read without a server"; poweroff -f; }
try loligo nbd detach /dev/nbd7 --force
echo "all is well"
poweroff -f
"#;

#[test]
#[ignore = "needs qemu-system-x86, busybox-static, and apt to fetch a kernel"]
fn the_kernel_attaches_writes_reads_and_detaches() {
    let dir = env::temp_dir().join(format!("loligo-nbd-kernel.{}", std::process::id()));
    let root = dir.join("root");
    fs::create_dir_all(root.join("bin")).expect("room");
    for folder in ["dev", "proc", "sys", "tmp"] {
        fs::create_dir_all(root.join(folder)).expect("room");
    }
    let kernel = kernel();
    fs::write(root.join("init"), INIT).expect("room");
    fs::write(root.join("mbr"), partitions::mbr([256..1280, 1280..5376])).expect("room");
    fs::write(root.join("gpt"), partitions::gpt(512, [256..1280, 1280..5376])).expect("room");
    fs::write(root.join("gpt4k"), partitions::gpt(4096, [256..288, 288..320])).expect("room");
    fs::copy(found(&kernel, "nbd.ko"), root.join("nbd.ko")).expect("it is part of the package");
    done(Command::new("strip").arg("-o").arg(root.join("bin/loligo")).arg(LOLIGO));
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| Path::new(path).exists());
    fs::copy(busybox.expect("it is installed"), root.join("bin/busybox")).expect("room");
    for library in libraries(&["bin/loligo", "bin/busybox"].map(|program| root.join(program))) {
        let inside = root.join(library.strip_prefix("/").expect("it is absolute"));
        fs::create_dir_all(inside.parent().expect("it lies in a folder")).expect("room");
        fs::copy(&library, inside).expect("it was found");
    }
    done(Command::new("chmod").arg("755").arg(root.join("init")));
    let pack = "find . | busybox cpio -o -H newc > ../initramfs 2>/dev/null";
    done(Command::new("sh").args(["-c", pack]).current_dir(&root));
    let mut machine = Command::new("timeout");
    machine.args([MACHINE_SECONDS_MAX, "qemu-system-x86_64", "-machine", "q35,accel=tcg", "-cpu", "max"]);
    machine.args(["-m", "1G", "-smp", "2", "-nographic", "-no-reboot", "-nodefaults", "-serial", "stdio"]);
    machine.arg("-kernel").arg(found(&kernel, "vmlinuz-")).arg("-initrd").arg(dir.join("initramfs"));
    machine.args(["-append", "console=ttyS0 quiet panic=-1"]);
    let output = machine.output().expect("it is installed");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("all is well") && !said.contains("FAILED"), "{said}");
    assert!(said.contains("modprobe nbd"), "before its module is there, it says what to do: {said}");
    assert!(
        said.contains("give --block-size 512") && said.contains("is not 512, 1024, 2048 or 4096"),
        "{said}"
    );
    assert!(said.contains("in use") && said.contains("is attached already"), "{said}");
    fs::remove_dir_all(&dir).expect("it is ours");
}

/// Unpacks the package of a kernel, and keeps it for the next run.
fn kernel() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernel");
    if dir.join("boot").exists() {
        return dir;
    }
    // The local package lists may be older than the mirror.
    done(Command::new("apt-get").args(["-o", "Acquire::Check-Valid-Until=false", "update", "-qq"]));
    let depends = done(Command::new("apt-cache").args(["depends", KERNEL]));
    let package = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
    let package = package.expect("it stands for the newest one");
    let fetched = dir.with_extension("fetched");
    let _ = fs::remove_dir_all(&fetched);
    fs::create_dir_all(&fetched).expect("room");
    done(Command::new("apt-get").args(["download", "-qq", package]).current_dir(&fetched));
    done(Command::new("sh").args(["-c", "dpkg -x ./*.deb . && rm ./*.deb"]).current_dir(&fetched));
    fs::rename(&fetched, &dir).expect("it is ours");
    dir
}

/// Finds the file whose name begins with `name`.
fn found(dir: &Path, name: &str) -> PathBuf {
    let pattern = format!("{name}*");
    let all = done(Command::new("find").arg(dir).args(["-type", "f", "-name", &pattern]));
    PathBuf::from(all.lines().next().unwrap_or_else(|| panic!("{name} is part of the package")))
}

/// Returns the shared libraries of programs, and the loader.
fn libraries(programs: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut libraries = BTreeSet::new();
    for program in programs {
        // `ldd` fails for a statically linked program, which needs no library.
        let output = Command::new("ldd").arg(program).output().expect("it is part of the C library");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        libraries.extend(said.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from));
    }
    libraries
}

fn done(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}
