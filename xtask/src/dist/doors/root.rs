//! A clean Debian root: what a stranger's machine has before anything is installed.
//!
//! debootstrap makes one, which is kept, and each door gets a copy. Programs run in it with mounts and
//! processes of their own, so that neither outlives the door.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::process::{installed, output_of, succeed};
use crate::stock::debootstrap;

/// The release whose Ceph (16.2) is the oldest that clients are tested with.
const SUITE: &str = "bookworm";

/// A copy of the clean root, which is removed with this.
pub(super) struct CleanRoot(PathBuf);

impl CleanRoot {
    /// Makes a copy. The error says what is missing on this machine.
    pub(super) fn new(name: &str) -> Result<Self> {
        let clean = clean()?;
        let root = Self(folder().join(format!("{name}.{}", std::process::id())));
        succeed(Command::new("cp").args(["-a", "--reflink=auto"]).arg(&clean).arg(&root.0))?;
        Ok(root)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// A command of the root. It sees its own processes only, and they end with it.
    pub(super) fn command(&self, words: &[&str]) -> Command {
        enter(&self.0, &[], words)
    }

    /// All that is in the root, except for what dpkg and apt note of their own work.
    pub(super) fn listing(&self) -> Result<BTreeMap<PathBuf, Entry>> {
        let mut found = BTreeMap::new();
        list(&self.0, Path::new(""), &mut found)?;
        Ok(found)
    }
}

impl Drop for CleanRoot {
    fn drop(&mut self) {
        // What is left is in the way of nothing.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a path is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    mode: u32,
    owner: (u32, u32),
    /// Of files and links; folders grow and shrink as file systems like it.
    len: u64,
}

/// Where dpkg and apt note what they have done.
const NOTES: [&str; 4] = ["var/lib/dpkg", "var/lib/apt", "var/log", "var/cache"];

fn list(root: &Path, within: &Path, found: &mut BTreeMap<PathBuf, Entry>) -> Result<()> {
    for entry in fs::read_dir(root.join(within))? {
        let path = within.join(entry?.file_name());
        if NOTES.iter().any(|notes| path == Path::new(notes)) {
            continue;
        }
        let about = fs::symlink_metadata(root.join(&path))?;
        let len = if about.is_dir() { 0 } else { about.len() };
        if about.is_dir() {
            list(root, &path, found)?;
        }
        found.insert(path, Entry { mode: about.mode(), owner: (about.uid(), about.gid()), len });
    }
    Ok(())
}

/// A command in a root, with mounts and processes of its own. `options` are those of chroot.
pub(super) fn enter(root: &Path, options: &[&str], words: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "--", "sh", "-c"]);
    // The shell stays: the kernel ends it with `unshare`, and with it, as the first process, all others. It
    // would not end a chroot in its place: a process that changes its user is no longer tied to another.
    command
        .arg("root=$1; shift; mount -t proc proc \"$root/proc\" || exit; chroot \"$@\"; exit $?")
        .arg("sh");
    command.arg(root).args(options).arg(root).args(words);
    command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command.env("HOME", "/root").env("LANG", "C.UTF-8").env("DEBIAN_FRONTEND", "noninteractive");
    // The way to the mirror.
    for name in ["http_proxy", "https_proxy", "no_proxy"] {
        command.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    command
}

fn folder() -> PathBuf {
    std::env::var_os("LOLIGO_DOORS").map_or("/var/tmp/loligo-doors".into(), PathBuf::from)
}

/// The root that is copied.
fn clean() -> Result<PathBuf> {
    for program in ["debootstrap", "unshare", "chroot"] {
        if !installed(program) {
            return Err(format!("{program} is not installed").into());
        }
    }
    output_of(Command::new("unshare").args(["--mount", "--pid", "--fork", "true"]))?;
    let clean = folder().join(SUITE);
    if !clean.exists() {
        // Renamed when it is complete: an interrupted one is made again.
        let unfinished = folder().join(format!("{SUITE}.unfinished"));
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished)?;
        }
        debootstrap(SUITE, &unfinished)?;
        fs::rename(&unfinished, &clean)?;
    }
    Ok(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_tells_files_apart_and_leaves_notes_out() {
        let root = std::env::temp_dir().join(format!("loligo-listing.{}", std::process::id()));
        fs::create_dir_all(root.join("var/lib/dpkg/info")).expect("a folder");
        fs::create_dir_all(root.join("usr/bin")).expect("a folder");
        fs::write(root.join("usr/bin/a"), "a").expect("written");
        let root = CleanRoot(root);
        let before = root.listing().expect("a listing");
        assert!(before.contains_key(Path::new("usr/bin/a")));
        assert!(!before.contains_key(Path::new("var/lib/dpkg/info")));
        assert_eq!(before, root.listing().expect("a listing"));
        fs::write(root.path().join("usr/bin/a"), "longer").expect("written");
        assert_ne!(before, root.listing().expect("a listing"));
    }
}
