//! Goal: `loligo fs` carries files and directories into a CephFS and out of it, and says what, where and
//! why when it cannot. Method: a stock metadata server; what was carried in and out again is compared.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn loligo(args: &[&str]) -> Output {
    let program = std::env::var_os("LOLIGO_BIN").expect("LOLIGO_BIN names the program");
    let conf = std::env::var_os("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a ceph.conf");
    Command::new(program).arg("-c").arg(conf).arg("fs").args(args).output().expect("it starts")
}

#[track_caller]
fn done(args: &[&str]) -> String {
    let output = loligo(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[track_caller]
fn failed(args: &[&str]) -> String {
    let output = loligo(args);
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    let text = String::from_utf8(output.stderr).expect("text");
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().to_owned()
}

/// A local folder, removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("loligo-fs-cli-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder");
        Self(dir)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).into_os_string().into_string().expect("text")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8 ^ (at >> 16) as u8).collect()
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn files_are_carried_in_and_out() {
    let local = Folder::new("files");
    let data = pattern((21 << 20) + 5);
    fs::write(local.path("in"), &data).expect("written");
    done(&["mkdir", "--parents", "/cli/files"]);
    done(&["put", "--verify", &local.path("in"), "/cli/files/f"]);
    assert_eq!(done(&["ls", "/cli/files"]), "f\n");
    let shown: Value =
        serde_json::from_str(&done(&["stat", "/cli/files/f", "--format", "json"])).expect("json");
    assert_eq!((&shown[0]["size"], &shown[0]["type"]), (&data.len().into(), &"file".into()));
    done(&["get", "--verify", "/cli/files/f", &local.path("out")]);
    assert!(fs::read(local.path("out")).expect("there") == data);
    done(&["cp", "/cli/files/f", "/cli/files/g"]);
    let output = loligo(&["cat", "/cli/files/g"]);
    assert!(output.stdout == data);
    done(&["truncate", "/cli/files/g", "4K"]);
    assert!(loligo(&["cat", "/cli/files/g"]).stdout == data[..4096]);
    done(&["mv", "/cli/files/g", "/cli/files/h"]);
    done(&["ln", "--symbolic", "h", "/cli/files/link"]);
    done(&["chmod", "600", "/cli/files/h"]);
    let long = done(&["ls", "-l", "/cli/files"]);
    assert!(long.lines().any(|line| line.starts_with("-rw-------") && line.ends_with(" h")), "{long}");
    assert!(long.lines().any(|line| line.starts_with("lrwx") && line.ends_with(" link")), "{long}");
    done(&["setxattr", "/cli/files/h", "user.colour", "red"]);
    assert_eq!(done(&["getxattr", "/cli/files/h", "user.colour"]), "red\n");
    assert_eq!(done(&["listxattr", "/cli/files/h"]), "user.colour\n");
    done(&["mkdir", "/cli/files/.snap/before"]);
    done(&["rm", "/cli/files/h"]);
    assert!(loligo(&["cat", "/cli/files/.snap/before/h"]).stdout == data[..4096]);
    done(&["rmdir", "/cli/files/.snap/before"]);
    done(&["rm", "-r", "/cli/files"]);
    assert_eq!(
        failed(&["stat", "/cli/files"]),
        "loligo: stat /cli/files: No such file or directory (ENOENT)"
    );
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn directories_are_carried_in_and_out() {
    let local = Folder::new("dirs");
    let tree = ["a/one.log", "a/b/two.log", "a/b/three", "four"];
    for (at, name) in tree.iter().enumerate() {
        let path = PathBuf::from(local.path("in")).join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, pattern(at * 3_000_000)).expect("written");
    }
    std::os::unix::fs::symlink("b/two.log", Path::new(&local.path("in")).join("a/link")).expect("made");
    done(&["put", "-r", "--parallel", "8", &local.path("in"), "/cli/dirs"]);
    let mut found: Vec<String> =
        done(&["find", "/cli/dirs", "--name", "*.log", "--type", "f"]).lines().map(str::to_owned).collect();
    found.sort();
    assert_eq!(found, ["/cli/dirs/a/b/two.log", "/cli/dirs/a/one.log"]);
    let copied = done(&["get", "-r", "/cli/dirs", &local.path("out"), "--format", "json"]);
    let copied: Value = serde_json::from_str(&copied).expect("json");
    assert_eq!((&copied["files"], &copied["bytes"]), (&4.into(), &18_000_000.into()));
    for name in tree {
        let [before, after] =
            ["in", "out"].map(|side| fs::read(Path::new(&local.path(side)).join(name)).expect("there"));
        assert!(before == after, "{name}");
    }
    let link = fs::read_link(Path::new(&local.path("out")).join("a/link")).expect("a link");
    assert_eq!(link, Path::new("b/two.log"));
    assert!(done(&["du", "/cli/dirs"]).ends_with("/cli/dirs\n"));
    assert_eq!(
        failed(&["rm", "/cli/dirs"]),
        "loligo: rm /cli/dirs: is a directory; --recursive removes it with all below"
    );
    done(&["rm", "-r", "/cli/dirs"]);
    let none = failed(&["--fs", "none", "ls"]);
    assert_eq!(none, "loligo: mount: no file system 'none'; there is 'fs'");
}
