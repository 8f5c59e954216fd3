//! Goal: a `/dev/nbdN` of the kernel's client has the export's content. Method: Debian's kernel runs in
//! qemu without a disk. Its init is a script that serves, attaches, writes, compares, detaches and
//! powers off.

mod machine;
mod partitions;

use machine::{Linux, Machine};

/// With two idle cores it takes 15 seconds.
const SECONDS_MAX: u32 = 300;

const SCRIPT: &str = r#"
same() { dd if=$1 bs=1M count=8 2>/dev/null | cmp - /data; }
clients() { loligo nbd ls /c | grep "^$1" | grep -q " $2 clients\|	$2 clients"; }
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
dd if=/dev/nbd7 of=/dev/null bs=1M count=1 2>/dev/null && fail "a read without a server"
try loligo nbd detach /dev/nbd7 --force
"#;

#[test]
#[ignore = "needs qemu-system-x86, busybox-static, and apt to fetch a kernel"]
fn the_kernel_attaches_writes_reads_and_detaches() {
    let Some(machine) = Machine::new("nbd-kernel", Linux::Here, SCRIPT) else { return };
    machine.add("mbr", partitions::mbr([256..1280, 1280..5376]));
    machine.add("gpt", partitions::gpt(512, [256..1280, 1280..5376]));
    machine.add("gpt4k", partitions::gpt(4096, [256..288, 288..320]));
    machine.add_modules(&["nbd"]);
    let said = machine.run(SECONDS_MAX);
    assert!(said.contains("modprobe nbd"), "before its module is there, it says what to do: {said}");
    assert!(
        said.contains("give --block-size 512") && said.contains("is not 512, 1024, 2048 or 4096"),
        "{said}"
    );
    assert!(said.contains("in use") && said.contains("is attached already"), "{said}");
}
