//! Goal: what an image costs under 64 jobs by the kernel's client, by the kernel's NBD client in front of
//! `loligo nbd serve`, and by our client without a kernel; all on one server, in one machine. Method: fio and
//! `loligo rbd bench`, one after the other, each with 4 KiB at random places. A publication about the
//! kernel's messenger says that senders wait there for each other (`loligo contend out-queue`); what a job
//! waits shows in fio's latencies.

use crate::machine::{Linux, Machine};
use crate::{MODULES, SECONDS_MAX};

/// The kernel's clients in two modes, NBD, and ours, each with its name in the table.
const WAYS: [(&str, &str); 4] = [
    ("legacy", "kernel's client of images, `ms_mode=legacy`"),
    ("crc", "kernel's client of images, `ms_mode=crc`"),
    ("nbd", "kernel's NBD client, `loligo nbd serve`"),
    ("native", "`loligo rbd bench`"),
];

const SCRIPT: &str = r#"
for module in $(cat /modules); do try insmod /$module.ko; done
mkdir /d /dev/shm; mount -t tmpfs d /d; mount -t tmpfs s /dev/shm
loligo serve --data /d/serve --store memory --mon-addr 127.0.0.1:3300 --mon-addr-v1 127.0.0.1:6789 --pool p >/ready 2>/said &
server=$!
while ! grep -q ready /ready; do kill -0 $server || { cat /said; fail serve; }; sleep 0.1; done
export CEPH_CONF=/d/serve/ceph.conf
key=$(sed -n 's/^[[:space:]]*key = //p' /d/serve/keyring)
for name in legacy crc nbd native; do
  try loligo rbd create p/$name --size 64M
  try loligo rbd bench p/$name --io-type write --io-size 1M --io-total 64M
done
for mode in legacy crc; do
  port=3300; [ $mode = legacy ] && port=6789
  echo "127.0.0.1:$port name=admin,secret=$key,ms_mode=$mode p $mode -" > /sys/bus/rbd/add_single_major || fail "map $mode"
done
loligo nbd serve --unix /s --control /c --export n=rbd:p/nbd >/nbd 2>&1 &
while ! loligo nbd ls /c >/dev/null 2>&1; do sleep 0.1; done
nbd=$(loligo nbd attach auto --unix /s n) || fail attach
# Prints I/Os a second, and the median and the 99th percentile of completion in µs.
device() {
  for kind in randwrite randread; do
    try fio --eta=never --name=$1 --filename=$2 --direct=1 --rw=$kind --bs=4k --thread --numjobs=64 --ioengine=psync --time_based \
      --runtime=$(cat /seconds) --group_reporting --output-format=terse --terse-version=3 --output=/out
    fields=8,24,30; [ $kind = randwrite ] && fields=49,65,71
    echo "figure: $1 $kind $(cut -d';' -f$fields /out | tr ';' ' ' | sed 's/[0-9.]*%=//g')"
  done
}
native() {
  for kind in write read; do
    loligo --format json rbd bench p/native --io-type $kind --io-size 4K --io-threads 64 --io-pattern rand \
      --io-total $(cat /native) >/out 2>&1 || { cat /out; fail bench; }
    field() { sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" /out; }
    echo "figure: native rand$kind $(field iops) $(field p50) $(field p99)"
  done
}
for round in 1 2 3; do
  device legacy /dev/rbd0
  device crc /dev/rbd1
  device nbd $nbd
  native
done
"#;

/// Prints the rows of a table for `docs/measurements`. They are no verdict: the machine is emulated, so what
/// counts is how the ways compare.
#[test]
#[ignore = "needs qemu-system-x86, busybox-static, fio, and apt to fetch a kernel; run by cargo xtask torture"]
fn figures_of_64_jobs_in_torture() {
    let Some(machine) = Machine::new("krbd-figures", Linux::Here, SCRIPT) else { return };
    machine.add_program("fio");
    machine.add("seconds", "10");
    machine.add("native", "64M");
    machine.add_modules(&[&MODULES[..], &["nbd"]].concat());
    let said = machine.run(SECONDS_MAX);
    let rows = WAYS.map(|(way, shown)| {
        let [write, read] = ["randwrite", "randread"].map(|kind| {
            let [iops, p50, p99] = medians(&said, way, kind);
            assert!(iops > 0 && p50 > 0 && p99 >= p50, "{way} {kind}: {said}");
            format!("{} /s | {}, {} µs", grouped(iops), grouped(p50), grouped(p99))
        });
        format!("| {shown} | {write} | {read} |")
    });
    println!(
        "| 4 KiB, 64 jobs | write | p50, p99 | read | p50, p99 |\n|---|---|---|---|---|\n{}",
        rows.join("\n")
    );
}

/// A number with commas between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[test]
fn digits_are_grouped() {
    let all = [(0, "0"), (999, "999"), (1000, "1,000"), (12345, "12,345"), (1_234_567, "1,234,567")];
    for (number, shown) in all {
        assert_eq!(grouped(number), shown);
    }
}

/// The medians of the rounds' figures.
fn medians(said: &str, way: &str, kind: &str) -> [u64; 3] {
    let prefix = format!("figure: {way} {kind} ");
    let lines = said.lines().filter_map(|line| line.trim().strip_prefix(prefix.as_str()));
    let rounds: Vec<Vec<u64>> =
        lines.map(|line| line.split(' ').map(|n| n.parse().expect("a number")).collect()).collect();
    assert!(rounds.len() == 3 && rounds.iter().all(|round| round.len() == 3), "{way} {kind}: {said}");
    [0, 1, 2].map(|at| {
        let mut of: Vec<u64> = rounds.iter().map(|round| round[at]).collect();
        of.sort_unstable();
        of[1]
    })
}
