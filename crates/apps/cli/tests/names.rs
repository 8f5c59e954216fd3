//! Goal: any byte string is a name: of an object, a striped file, a namespace, a locator, an attribute,
//! a key, a lock. Method: one program creates the names and the other finds them. LOLIGO_STOCK_CONF
//! names a stock cluster's ceph.conf, whose pool `p` is used.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::process::{Command, Output};

use loligo_server::Server;

/// Unusual names, which file systems and other programs create.
const NAMES: [&[u8]; 3] = [b"\xff", b"a\xc3b\xfe\n\t\x01 \"\\xff/\xed\xa0\x80", "\u{10ffff}ä日".as_bytes()];

/// A small file.
const FILE: &[u8] = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml").as_bytes();
const OURS: &str = env!("CARGO_BIN_EXE_loligo");

fn output(conf: &OsStr, program: &str, words: &[&[u8]]) -> Output {
    let mut command = Command::new(program);
    command.env("CEPH_CONF", conf).env_remove("CEPH_ARGS").args(["-p", "p"]);
    command.args(words.iter().map(|word| OsStr::from_bytes(word))).output().expect("it is installed")
}

fn run(conf: &OsStr, program: &str, words: &[&[u8]]) -> Vec<u8> {
    let output = output(conf, program, words);
    let said = String::from_utf8_lossy(&output.stderr);
    let shown: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
    assert!(output.status.success(), "{program} {shown:?}: {said}");
    output.stdout
}

/// Creates all kinds of names with these bytes, in a namespace of that name.
fn fill(conf: &OsStr, program: &str, name: &[u8]) {
    let does = |words: &[&[u8]]| drop(run(conf, program, &[&[b"-N", name], words].concat()));
    does(&[b"put", name, FILE]);
    does(&[b"setxattr", name, name, name]);
    does(&[b"setomapval", name, name, name]);
    does(&[b"--object-locator", name, b"put", b"located", b"/dev/null"]);
}

/// Returns the output of the commands that stock programs have too.
fn shown(conf: &OsStr, program: &str, name: &[u8]) -> Vec<Vec<u8>> {
    let shows = |words: &[&[u8]]| run(conf, program, &[&[b"-N", name], words].concat());
    let mut listed: Vec<_> = shows(&[b"ls"]).split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    listed.sort_unstable();
    vec![
        listed.join(&b'\n'),
        shows(&[b"get", name, b"-"]),
        shows(&[b"listxattr", name]),
        shows(&[b"getxattr", name, name]),
        shows(&[b"listomapkeys", name]),
        shows(&[b"listomapvals", name]),
        shows(&[b"getomapval", name, name]),
        shows(&[b"--object-locator", name, b"get", b"located", b"-"]),
    ]
}

fn remove(conf: &OsStr, program: &str, name: &[u8]) {
    let does = |words: &[&[u8]]| drop(run(conf, program, &[&[b"-N", name], words].concat()));
    does(&[b"rmomapkey", name, name]);
    does(&[b"rmxattr", name, name]);
    does(&[b"rm", name]);
    does(&[b"--object-locator", name, b"rm", b"located"]);
    assert_eq!(run(conf, program, &[b"-N", name, b"ls"]), b"");
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn what_one_program_names_the_other_finds() {
    let conf = std::env::var_os("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a ceph.conf");
    for name in NAMES {
        for (writer, reader) in [(OURS, "rados"), ("rados", OURS)] {
            fill(&conf, writer, name);
            assert_eq!(shown(&conf, writer, name), shown(&conf, reader, name), "{name:?}");
            remove(&conf, reader, name);
        }
    }
}

#[test]
fn names_are_any_bytes() {
    let server = Server::memory().pool("p").start().expect("the server starts");
    let conf = OsString::from_vec(server.conf().as_os_str().as_bytes().to_vec());
    for name in NAMES {
        fill(&conf, OURS, name);
        assert_eq!(shown(&conf, OURS, name)[3], name);
        let run = |words: &[&[u8]]| run(&conf, OURS, &[&[b"-N", name], words].concat());
        let stat = run(&[b"stat", name]);
        assert!(stat.starts_with(&[b"p/", name, b" mtime "].concat()), "{stat:?}");
        for words in [
            &[b"append", name, b"/dev/null"][..],
            &[b"truncate", name, b"5"],
            &[b"touch", name],
            &[b"cp", name, b"located"],
            &[b"listwatchers", name],
            &[
                b"lock",
                b"get",
                name,
                name,
                b"--lock-cookie",
                name,
                b"--lock-tag",
                name,
                b"--lock-type",
                b"shared",
            ],
            &[b"rm", b"located"],
            &[b"--object-locator", name, b"stat", b"located"],
        ] {
            run(words);
        }
        assert_eq!(run(&[b"lock", b"list", name]), [name, b"\n"].concat());
        let info = run(&[b"lock", b"info", name, name]);
        assert!(info.starts_with(&[name, b": shared, tag '", name, b"', 1 hold it\n"].concat()), "{info:?}");
        remove(&conf, OURS, name);
        // The error for a missing object has one line, with every byte of the name.
        let missing = output(&conf, OURS, &[b"stat", name]);
        let said = String::from_utf8(missing.stderr).expect("text");
        assert!(missing.status.code() == Some(1) && said.lines().count() == 1, "{said:?}");
    }
}

#[test]
fn striped_files_may_have_any_name() {
    let server = Server::memory().pool("p").start().expect("the server starts");
    let conf = OsString::from_vec(server.conf().as_os_str().as_bytes().to_vec());
    let content = std::fs::read(OsStr::from_bytes(FILE)).expect("there");
    for name in NAMES {
        let run = |words: &[&[u8]]| run(&conf, OURS, &[&[&b"file"[..]], words].concat());
        let copy = [name, b"2"].concat();
        run(&[b"put", name, FILE]);
        assert!(run(&[b"cat", name]) == content);
        run(&[b"append", name, FILE]);
        assert!(run(&[b"get", name, b"-"]) == content.repeat(2));
        run(&[b"setxattr", name, name, name]);
        assert_eq!(run(&[b"getxattr", name, name]), name);
        assert_eq!(run(&[b"listxattr", name]), [name, b"\n"].concat());
        run(&[b"cp", name, &copy]);
        assert_eq!(run(&[b"ls", &copy]), [&copy, &b"\n"[..]].concat());
        assert!(run(&[b"ls", b"-l", &copy]).ends_with(&[b"  ", &copy[..], b"\n"].concat()));
        assert!(run(&[b"stat", &copy]).starts_with(&[b"p/", &copy[..], b" mtime "].concat()));
        assert!(run(&[b"layout", name, b"--offset", b"0"]).windows(name.len()).any(|part| part == name));
        run(&[b"truncate", name, b"5"]);
        run(&[b"rmxattr", name, name]);
        run(&[b"rm", name, &copy]);
        assert_eq!(run(&[b"ls"]), b"");
        let missing = output(&conf, OURS, &[b"file", b"stat", name]);
        let said = String::from_utf8(missing.stderr).expect("text");
        assert!(missing.status.code() == Some(1) && said.lines().count() == 1, "{said:?}");
    }
    run(&conf, OURS, &[b"file", b"put", b"f\xff", FILE]);
    let listed = run(&conf, OURS, &[b"--format", b"json", b"file", b"ls"]);
    assert_eq!(listed, b"[{\"name\":\"f\\udcff\"}]\n");
}

/// JSON has no bytes: `\udcNN` is the byte NN, as in Python's `surrogateescape`.
#[test]
fn json_has_names_that_can_be_read_back() {
    let server = Server::memory().pool("p").start().expect("the server starts");
    let conf = OsString::from_vec(server.conf().as_os_str().as_bytes().to_vec());
    let run = |words: &[&[u8]]| {
        String::from_utf8(run(&conf, OURS, &[&[&b"--format"[..], b"json"], words].concat()))
            .expect("JSON is text")
    };
    run(&[b"put", b"o\xff", b"/dev/null"]);
    run(&[b"setxattr", b"o\xff", b"x\xc3", b"v"]);
    run(&[b"setomapval", b"o\xff", b"k\x80", b"v"]);
    let object = r#"{"locator":"","name":"o\udcff","namespace":""}"#;
    assert_eq!(run(&[b"ls"]), format!("{object}\n"));
    assert_eq!(run(&[b"listxattr", b"o\xff"]), "[\"x\\udcc3\"]\n");
    assert_eq!(run(&[b"listomapkeys", b"o\xff"]), "[\"k\\udc80\"]\n");
    assert!(run(&[b"stat", b"o\xff"]).contains(r#""object":"o\udcff""#));
}
