//! Goal: scripts by which Ceph's developers test the kernel's client of images pass on our server. Method:
//! those of the list `scripts.txt` run unchanged. CEPH_SOURCE names a folder that has them: a checkout of
//! ceph/ceph, or a part of it with `qa/rbd` and `qa/workunits/rbd`.

use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::MODULES;
use crate::cram::Session;
use crate::machine::{Linux, Machine, found_on_path, skipped};

/// The scripts read devices byte by byte, in an emulated machine: with two idle cores they take half an hour.
const SECONDS_MAX: u32 = 5400;

/// The scripts, and those that are left out, with the reasons.
const LIST: &str = include_str!("scripts.txt");

/// The programs that they call, besides `rbd` and what busybox has.
const PROGRAMS: [&str; 7] = ["bash", "blkdiscard", "blockdev", "dd", "fallocate", "hexdump", "xfs_io"];

/// Maps and unmaps images as `rbd` does; everything else is `loligo`.
const RBD: &str = r#"#!/bin/sh
case $1 in
map)
  shift
  more=
  if [ "$1" = -o ]; then more=,$2; shift 2; fi
  image=${1%@*}
  snap=-
  [ "$image" = "$1" ] || snap=${1#*@}
  before=" $(ls /sys/bus/rbd/devices | tr '\n' ' ')"
  key=$(sed -n 's/^[[:space:]]*key = //p' /d/serve/keyring)
  echo "127.0.0.1:3300 name=admin,secret=$key,ms_mode=crc$more rbd $image $snap" >/sys/bus/rbd/add_single_major || exit 1
  for id in $(ls /sys/bus/rbd/devices); do
    case $before in *" $id "*) ;; *) echo "/dev/rbd$id" ;; esac
  done
  ;;
unmap) echo "${2#/dev/rbd}" >/sys/bus/rbd/remove_single_major || exit 16 ;;
*) exec /called/rbd "$@" ;;
esac
"#;

const SUDO: &str = "#!/bin/sh\nexec \"$@\"\n";

/// Reads the file `scripts` with names of files. Those in the form of cram have what they must print beside
/// them.
const SCRIPT: &str = r#"
for module in $(cat /modules); do try insmod /$module.ko; done
mkdir /d /called; mount -t tmpfs d /d
ln -s /bin/loligo /called/rbd
ln -s /proc/self/fd /dev/fd
loligo serve --data /d/serve --store memory --mon-addr 127.0.0.1:3300 --pool rbd >/ready 2>/said &
server=$!
while ! grep -q ready /ready; do kill -0 $server || { cat /said; fail serve; }; sleep 0.1; done
export CEPH_CONF=/d/serve/ceph.conf
for name in $(cat /scripts); do
  echo "== $name"
  bash /$name >/got 2>&1 </dev/null
  status=$?
  if [ -f /$name.expected ]; then
    diff -u /$name.expected /got || fail "$name"
  elif [ $status != 0 ]; then
    tail -n 40 /got
    fail "$name: status $status"
  fi
done
"#;

#[test]
#[ignore = "needs qemu-system-x86, busybox-static, xfsprogs, bsdextrautils, apt to fetch a kernel, and scripts; \
            run by cargo xtask torture"]
fn scripts_of_ceph_in_torture() {
    let Some(source) = env::var_os("CEPH_SOURCE").map(|source| PathBuf::from(source).join("qa")) else {
        return skipped("CEPH_SOURCE names no folder with Ceph's scripts for the kernel's client of images");
    };
    if let Some(missing) = PROGRAMS.into_iter().find(|program| found_on_path(program).is_none()) {
        return skipped(&format!("{missing} is not installed, for Ceph's scripts"));
    }
    let Some(machine) = Machine::new("krbd-scripts", Linux::Here, SCRIPT) else { return };
    for program in PROGRAMS {
        machine.add_program(program);
    }
    machine.add_script("rbd", RBD);
    machine.add_script("sudo", SUDO);
    machine.add_modules(&MODULES);
    let names: Vec<&str> = chosen().filter_map(|script| added(&machine, &source, script)).collect();
    machine.add("scripts", names.join(" "));
    let said = machine.run(SECONDS_MAX);
    assert_eq!(said.matches("== ").count(), names.len(), "{said}");
    println!("passed: {}", names.join(" "));
    assert!(!names.is_empty(), "{} has none of the scripts", source.display());
}

/// The scripts that are not left out.
fn chosen() -> impl Iterator<Item = &'static str> {
    LIST.lines().filter(|line| !line.starts_with('#') && !line.contains(':'))
}

/// Adds a script to the machine. Returns its name, or says that it is not there.
fn added(machine: &Machine, source: &Path, script: &'static str) -> Option<&'static str> {
    let path = source.join(script);
    let Ok(text) = fs::read_to_string(&path) else {
        skipped(&format!("{} is not there", path.display()));
        return None;
    };
    let name = script.rsplit_once('/').map_or(script, |(_, name)| name);
    if name.ends_with(".t") {
        let session = Session::of(&text);
        machine.add(name, session.script);
        machine.add(&format!("{name}.expected"), session.expected);
    } else {
        machine.add(name, text);
    }
    Some(name)
}

#[test]
fn the_list_names_each_script_once() {
    let lines: Vec<&str> = LIST.lines().filter(|line| !line.starts_with('#')).collect();
    let mut names: Vec<&str> = lines.iter().map(|line| line.split(':').next().unwrap_or(line)).collect();
    assert!(
        names.iter().all(|name| name.contains("krbd_") && (name.ends_with(".t") || name.ends_with(".sh")))
    );
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), lines.len());
    assert!(chosen().count() >= 9);
}
