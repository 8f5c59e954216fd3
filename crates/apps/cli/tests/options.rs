//! Goal: options of the configuration on the command line and in `CEPH_ARGS` are accepted, refused, and
//! ignored with a warning as by the stock `rbd`. Method: both programs list the pool `p` of a stock
//! cluster, whose ceph.conf LOLIGO_STOCK_CONF names.

use std::process::{Command, Output, Stdio};

/// Options, one a line.
const OPTIONS: &str = "\
--rbd-cache=maybe
--rbd_cache=false
--rbd-cache=2
--rbd-cache=TRUE
--rbd-cache=1
--rbd-cache=
--rbd-cache --rbd-cache-size 5M
--no-rbd-cache
--no-rbd_cache
--no-rbd-cache=true
--no-rbd-cache-size
--rbd-cache-size 1k
--rbd__cache=false
--RBD-cache=false
--rados-osd-op-timeout=-1
--rados-osd-op-timeout=5s
--rados-osd-op-timeout
--objecter-inflight-ops=1x
--objecter_inflight_op_bytes 1Z
--client-mount-timeout x
--debug-ms=x
--debug-ms
--debug-ms 0/0
--debug-ms 100
--debug_nosuch 3
--debug-nosuch=3
--log-to-stderr
--log_to_stderr=true
--no-log-to-stderr
--err-to-stderr
--log-file=/dev/null
--log-file
-d
-f
--foreground
--daemonize
--setuser root
--setgroup root
--setuser nosuch-user
--setgroup nosuch-group
--setuser
--nosuch-option=3
--nosuch-option
--no-nosuch
--fsid zz
--osd-max-backfills=-5
--osd-op-queue=zz
--public-addr=zz
--bind 1.2.3.4
--default-mon-host zz
--default-rbd-cache=false
--default-rbd-cache-size=x
--default-rbd-cache
--default-log-level 3
--rbd-default-order 20
--rbd-default-order
--rbd-default-order=
--rbd-default-clone-format=9
--rbd-default-features nosuch
--rbd-default-features 9999
--mon-dns-srv-name=
--mon-host
--keyring
-c
--no-mon-config
--mon-config
--mon-client-hunt-interval x
--erasure-code-dir /x
--ms-crc-data=x
-n client.admin
--name client.admin
--id admin
-r /
-i
--usage
--yes";

fn run(program: &str, words: &[&str], ceph_args: &str) -> Output {
    let mut command = Command::new(program);
    command
        .env("CEPH_CONF", std::env::var("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a ceph.conf"));
    command.env("CEPH_ARGS", ceph_args).args(words).stdin(Stdio::null());
    command.output().expect("it is installed")
}

/// Returns the status, and the option whose value was refused.
fn outcome(output: &Output) -> (Option<i32>, Option<String>) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let option = said.split("parse error setting '").nth(1).and_then(|rest| rest.split('\'').next());
    (output.status.code(), option.map(str::to_owned))
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn options_are_taken_and_refused_as_by_rbd() {
    for line in OPTIONS.lines() {
        let said: Vec<_> = line.split(' ').collect();
        let stock = run("rbd", &[&["ls", "p"], &said[..]].concat(), "");
        let ours = run(env!("CARGO_BIN_EXE_loligo"), &[&["rbd", "ls", "p"], &said[..]].concat(), "");
        assert_eq!(outcome(&ours), outcome(&stock), "{line}: {ours:?}; {stock:?}");
        assert_eq!(ours.stdout, stock.stdout, "{line}");
        let lines = String::from_utf8_lossy(&ours.stderr).into_owned();
        let is_log = |line: &str| line.starts_with("20");
        assert!(lines.lines().all(|line| line.starts_with("loligo: ") || is_log(line)), "{line}: {lines}");
    }
    // Complete options only: in `CEPH_ARGS` of the stock program, an option without its value takes the
    // command's name as one.
    let whole =
        |line: &&str| line.starts_with("--rbd") && line.contains(['=', ' ']) || line.starts_with("--no-rbd");
    for line in OPTIONS.lines().filter(whole) {
        let stock = run("rbd", &["ls", "p"], line);
        let ours = run(env!("CARGO_BIN_EXE_loligo"), &["rbd", "ls", "p"], line);
        assert_eq!(outcome(&ours), outcome(&stock), "CEPH_ARGS={line}: {ours:?}; {stock:?}");
    }
}

/// To `rados` an unknown option is an additional word, which it refuses if it counts the words. Our
/// program always refuses it.
#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn unknown_options_are_no_names_of_objects() {
    for words in [["--nosuch-option=3", "stat", "o"], ["stat", "--nosuch-option=3", "o"]] {
        let words = [&["-p", "p"], &words[..]].concat();
        let (ours, stock) = (run(env!("CARGO_BIN_EXE_loligo"), &words, ""), run("rados", &words, ""));
        assert_eq!(ours.status.code(), stock.status.code(), "{words:?}");
    }
}

#[test]
fn options_tell_what_they_do() {
    let loligo = |words: &[&str]| Command::new(env!("CARGO_BIN_EXE_loligo")).args(words).output().unwrap();
    let shown = loligo(&["config", "help", "rbd-cache"]);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.contains("rbd_cache") && text.contains("without effect in loligo"), "{text}");
    let shown = loligo(&["config", "help", "rados_osd_op_timeout", "--format", "json"]);
    let value: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(
        (&value["type"], &value["default"], &value["min"]),
        (&"secs".into(), &"0".into(), &"0".into())
    );
    assert_eq!((&value["acts"], &value["level"]), (&true.into(), &"advanced".into()));
    let unknown = loligo(&["config", "help", "rados_osd_op_timout"]);
    assert_eq!(unknown.status.code(), Some(2));
    let why = String::from_utf8(unknown.stderr).unwrap();
    assert!(why.contains("did you mean rados_osd_op_timeout"), "{why}");
}

/// Each option that is listed as acting is read somewhere, and each option that is read is listed as
/// acting.
#[test]
fn options_that_act_are_those_that_are_read() {
    let shown = Command::new(env!("CARGO_BIN_EXE_loligo")).args(["config", "ls"]).output().unwrap();
    let acting: Vec<String> = String::from_utf8(shown.stdout).unwrap().lines().map(str::to_owned).collect();
    assert!(acting.len() > 40, "{acting:?}");
    let mut sources = String::new();
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let mut folders = vec![crates.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let is_list = path.ends_with("conf/acts.rs") || path.ends_with("tests");
            if path.is_dir() && !is_list {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") && !is_list {
                let source = std::fs::read_to_string(path).unwrap();
                sources.push_str(source.split("#[cfg(test)]").next().unwrap());
            }
        }
    }
    for name in acting.iter().filter(|name| !name.starts_with("debug_")) {
        assert!(sources.contains(&format!("\"{name}\"")), "{name} is read nowhere");
    }
    for call in ["conf.text(\"", "conf.bool(\"", "conf.u64(\"", "conf.size(\"", "conf.duration(\""] {
        for name in sources.split(call).skip(1).filter_map(|rest| rest.split('"').next()) {
            let known = loligo_conf::table::known(name);
            assert!(known.is_none_or(|known| known.acts().is_some()), "{name} is read, but said to be idle");
        }
    }
}
