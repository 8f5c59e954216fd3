//! Goal: a server uses nothing that another user could have placed there: no directory of another user
//! or within one, no link, and no file of another user. Method: changes the owner of files and
//! directories, which only root may do; under another user the test is reported as skipped.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, chown, symlink};
use std::path::Path;

use loligo_server::{Server, StartError};

use crate::common::Scratch;

const OTHER: u32 = 12_345;

fn start(dir: &Path) -> Result<(), StartError> {
    Server::disk(dir).capacity_bytes(16 << 20).threads(1).start().map(drop)
}

fn refused(dir: &Path, word: &str) {
    let said = start(dir).expect_err("it must not start").to_string();
    assert!(said.contains(word), "{said}");
}

#[test]
fn what_belongs_to_another_user_is_not_used() {
    let scratch = Scratch::new("owners");
    let dir = scratch.0.join("above/dir");
    start(&dir).expect("a new directory");
    if fs::metadata("/proc/self").map(|us| us.uid()).ok() != Some(0) {
        return skipped("only root can give files away");
    }
    let above = scratch.0.join("above");
    let us = |path: &Path| chown(path, Some(0), None).expect("root may");
    let other = |path: &Path| chown(path, Some(OTHER), None).expect("root may");
    let user = OTHER.to_string();
    for (path, names) in [(dir.clone(), "belongs to user"), (above.clone(), "above it belongs to user")] {
        other(&path);
        refused(&dir, names);
        us(&path);
    }
    for path in [&dir, &above] {
        let before = fs::metadata(path).expect("there").permissions();
        fs::set_permissions(path, PermissionsExt::from_mode(0o777)).expect("ours");
        refused(&dir, "everybody may");
        fs::set_permissions(path, before).expect("ours");
    }
    for name in ["mon.json", "mon.json.copy", "store/super", "store/journal", "store/data"] {
        other(&dir.join(name));
        refused(&dir, &user);
        us(&dir.join(name));
    }
    start(&dir).expect("all is ours again");
    // Another user's link to a directory of ours.
    let link = scratch.0.join("link");
    symlink(&dir, &link).expect("a link");
    std::os::unix::fs::lchown(&link, Some(OTHER), None).expect("root may");
    refused(&link, "link of user");
}

#[test]
fn links_are_not_written_or_read_through() {
    let scratch = Scratch::new("links");
    let dir = scratch.0.join("dir");
    start(&dir).expect("a new directory");
    let victim = scratch.0.join("victim");
    for name in
        ["mon.json", "mon.json.copy", "store/super", "store/journal", "store/data", "lock", "store/lock"]
    {
        let path = dir.join(name);
        let aside = scratch.0.join("aside");
        fs::rename(&path, &aside).expect("ours");
        fs::write(&victim, "untouched").expect("ours");
        symlink(&victim, &path).expect("a link");
        assert!(start(&dir).is_err(), "{name}");
        assert_eq!(fs::read(&victim).expect("ours"), b"untouched", "{name}");
        fs::remove_file(&path).expect("ours");
        fs::rename(&aside, &path).expect("ours");
    }
    // A file written under a temporary name replaces a link; a link at the temporary name is removed.
    let temporary = ["mon.json.new", "ceph.conf.new", "mon.json.copy.new"];
    for name in ["ceph.conf", "keyring"].into_iter().chain(temporary) {
        let path = dir.join(name);
        let _ = fs::remove_file(&path);
        symlink(&victim, &path).expect("a link");
    }
    start(&dir).expect("links are replaced");
    assert_eq!(fs::read(&victim).expect("ours"), b"untouched");
    assert!(!fs::symlink_metadata(dir.join("keyring")).expect("written").is_symlink());
}

/// Reports why a test was skipped. Not with `eprintln!`, whose output is hidden for passing tests:
/// `cargo xtask test` counts such lines.
fn skipped(why: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("skipped: {why}\n").as_bytes());
}
