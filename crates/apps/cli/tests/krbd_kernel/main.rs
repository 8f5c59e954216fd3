//! Goal: Linux's own client of images (`rbd.ko`) works with the server, in each mode of the messenger
//! (`legacy` is version 1), and shares images with our client. Method: kernels of Debian's run in qemu
//! without a disk. Their init is a script that serves, maps images, writes, compares, and unmaps.
//!
//! Each mode goes through the first part of the script; those that a test names go through the thorough part
//! too. `cargo xtask torture` runs the tests `…in_torture`.

mod cram;
mod figures;
#[path = "../machine/mod.rs"]
mod machine;
mod scripts;

use machine::{Linux, Machine};

/// With two idle cores the short test takes a minute, and a thorough one five.
const SECONDS_MAX: u32 = 1200;

const MODES: &str = "legacy crc secure prefer-crc";

/// What the kernel's client and its modes need, in this order; some kernels have some of it built in.
const MODULES: [&str; 8] =
    ["libcrc32c", "libceph", "rbd", "gf128mul", "ghash-generic", "ctr", "crypto_null", "gcm"];

/// Reads the files `modes` and `thorough`, each with names of modes between spaces.
const SCRIPT: &str = r#"
for module in $(cat /modules); do try insmod /$module.ko; done
mkdir /d /m; mount -t tmpfs d /d
for name in a b c; do dd if=/dev/urandom of=/$name bs=1M count=8 2>/dev/null; done
dd if=/dev/zero of=/zeros bs=1M count=4 2>/dev/null
serve() {
  rm -f /ready
  loligo serve --data /d/serve --mon-addr 127.0.0.1:3300 --mon-addr-v1 127.0.0.1:6789 --pool p --capacity 600M >/ready 2>/said &
  server=$!
  while ! grep -q ready /ready; do kill -0 $server || { cat /said; fail serve; }; sleep 0.1; done
}
serve
export CEPH_CONF=/d/serve/ceph.conf
key=$(sed -n 's/^[[:space:]]*key = //p' /d/serve/keyring)
# Maps an image, or a snapshot of it, and sets `device`.
map() {
  port=3300; [ $mode = legacy ] && port=6789
  echo "try: map $1 $2"
  echo "127.0.0.1:$port name=admin,secret=$key,ms_mode=$mode p $1 $2" > /sys/bus/rbd/add_single_major || fail "map $1 $2"
  for one in /sys/bus/rbd/devices/*; do
    [ "$(cat $one/name) $(cat $one/current_snap)" = "$1 $2" ] && device=/dev/rbd${one##*/}
  done
  try test -b $device
}
unmap() { echo "try: unmap $1"; echo ${1#/dev/rbd} > /sys/bus/rbd/remove_single_major || fail "unmap $1"; }
same() { forget; dd if=$1 bs=1M count=8 2>/dev/null | cmp - $2; }
write() { dd if=$2 of=$1 bs=1M seek=${3:-0} conv=fsync 2>/dev/null; }
# The image is what our own client reads.
ours() { loligo rbd export p/$1 - 2>/dev/null | head -c 8388608 | cmp - $2; }
becomes() { for i in $(seq 1200); do [ "$(blockdev --getsize64 $1)" = $2 ] && return 0; sleep 0.1; done; return 1; }
is_owned() { loligo rbd lock ls p/$1 | grep -q auto; }
until_owned() { for i in $(seq 1200); do is_owned $1 && return 0; sleep 0.1; done; return 1; }

first_part() {
  image=img-$mode
  try loligo rbd create p/$image --size 64M
  map $image -; head=$device
  try test "$(blockdev --getsize64 $head)" = 67108864
  try write $head /a
  try same $head /a
  try ours $image /a
  try loligo rbd snap create p/$image@s
  try write $head /b
  try is_owned $image
  map $image s; old=$device
  try test "$(cat /sys/block/${old#/dev/}/ro)" = 1
  try same $old /a
  try same $head /b
  unmap $old
  unmap $head
  try ours $image /b
  try ours $image@s /a
}

thorough_part() {
  map $image -; head=$device
  echo "another size is seen, and freed space reads as zeros"
  try loligo rbd resize p/$image --size 96M
  try becomes $head 100663296
  try blkdiscard -o 4194304 -l 4194304 $head
  forget
  dd if=$head bs=1M skip=4 count=4 2>/dev/null | cmp - /zeros || fail "discarded"
  echo "the exclusive lock goes to our client and back, while both write"
  loligo rbd bench p/$image --io-type write --io-size 4K --io-threads 1 --io-total 1M >/bench 2>&1 & bench=$!
  for turn in 1 2 3; do try write $head /c 16; done
  try wait $bench
  try write $head /c
  try same $head /c
  dd if=$head bs=1M skip=16 count=8 2>/dev/null | cmp - /c || fail "written by turns"
  try ours $image /c
  echo "an owner of the lock that dies is put out"
  try loligo rbd create p/dead-$mode --size 16M
  loligo rbd bench p/dead-$mode --io-type write --io-size 4K --io-threads 1 --io-total 64G >/bench 2>&1 & bench=$!
  try until_owned dead-$mode
  kill -9 $bench; wait $bench
  map dead-$mode -; dead=$device
  try write $dead /a
  try same $dead /a
  unmap $dead
  try ours dead-$mode /a
  echo "a clone reads its parent, and writes a part of an object"
  try loligo rbd snap protect p/$image@s
  try loligo rbd clone p/$image@s p/clone-$mode
  map clone-$mode -; clone=$device
  try same $clone /a
  cp /a /changed
  try dd if=/b of=/changed bs=4096 count=1 seek=100 conv=notrunc
  try dd if=/b of=$clone bs=4096 count=1 seek=100 conv=fsync
  try same $clone /changed
  unmap $clone
  try ours clone-$mode /changed
  echo "a file system"
  try loligo rbd create p/fs-$mode --size 32M
  map fs-$mode -; fs=$device
  try mke2fs $fs
  try mount -t ext4 $fs /m
  try cp /a /b /m
  try umount /m
  unmap $fs
  map fs-$mode -; fs=$device
  try mount -t ext4 $fs /m
  try cmp /m/a /a
  try cmp /m/b /b
  try umount /m
  unmap $fs
  echo "a server that dies and comes back"
  dd if=/a of=$head bs=64k conv=fsync 2>/dev/null & writer=$!
  kill -9 $server; wait $server
  serve
  try wait $writer
  try same $head /a
  unmap $head
  try ours $image /a
  for name in $image clone-$mode dead-$mode fs-$mode; do try loligo rbd object-map check p/$name; done
  for name in $image clone-$mode dead-$mode fs-$mode; do loligo rbd info p/$name | grep invalid && fail "object map"; done
}

for mode in $(cat /modes); do
  echo "== $mode"
  first_part
  if grep -q " $mode " /thorough; then thorough_part; fi
done
"#;

/// Runs the script with a kernel in all modes.
fn maps_images(name: &str, linux: Linux, thorough: &str) {
    let Some(machine) = Machine::new(name, linux, SCRIPT) else { return };
    machine.add("modes", MODES);
    machine.add("thorough", format!(" {thorough} "));
    machine.add_modules(&MODULES);
    let said = machine.run(SECONDS_MAX);
    assert_eq!(said.matches("== ").count(), MODES.split(' ').count(), "{said}");
}

#[test]
#[ignore = "needs qemu-system-x86, busybox-static, and apt to fetch a kernel"]
fn the_kernels_client_maps_images_in_every_mode() {
    maps_images("krbd", Linux::Here, "");
}

#[test]
#[ignore = "needs qemu-system-x86, busybox-static, and apt to fetch a kernel; run by cargo xtask torture"]
fn the_kernels_client_shares_images_in_torture() {
    maps_images("krbd-all", Linux::Here, MODES);
}

#[test]
#[ignore = "needs qemu-system-x86, busybox-static, and apt to fetch a kernel; run by cargo xtask torture"]
fn a_newer_kernels_client_shares_images_in_torture() {
    maps_images("krbd-newer", Linux::Trixie, MODES);
}
