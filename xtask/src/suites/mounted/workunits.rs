//! Scripts of Ceph's developers that need a mount (`qa/workunits/fs` of ceph/ceph).

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::list::Workunits;
use super::{Found, Mounted};
use crate::Result;
use crate::process::workspace;
use crate::suites::program;

/// A script that says nothing for so long is hung.
const SILENCE: Duration = Duration::from_secs(300);
/// Names a checkout of ceph/ceph.
pub(super) const SOURCE: &str = "CEPH_SOURCE";
/// Lines of a script's output that are shown.
const LINES: usize = 40;

/// What the scripts call by other names: the file system is `cephfs` for them, and Python `python`. A script
/// that copies all of `/usr/lib`, gigabytes of it, gets a part.
const STAND_INS: [(&str, &str); 3] = [
    (
        "ceph",
        "#!/bin/bash\ncase \"$*\" in\n\"fs set cephfs \"*) exec /usr/bin/ceph fs set fs \"${@:4}\";;\n\
         \"mds set \"*) exit 0;;\n*) exec /usr/bin/ceph \"$@\";;\nesac\n",
    ),
    ("python", "#!/bin/sh\nexec python3 \"$@\"\n"),
    (
        "sudo",
        "#!/bin/bash\ncase \"$*\" in\n\"cp -r /usr/lib/ \"*) exec cp -r /usr/lib/python3 \"${@:4}\";;\n\
         *) exec \"$@\";;\nesac\n",
    ),
];

/// Makes the stand-ins. Returns the path by which they are found first.
fn stand_ins(dir: &Path) -> Result<OsString> {
    fs::create_dir_all(dir)?;
    for (name, text) in STAND_INS {
        let program = dir.join(name);
        fs::write(&program, text)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    Ok(std::env::join_paths([dir.to_owned()].into_iter().chain(std::env::split_paths(&path)))?)
}

/// The scripts that are here.
pub(super) struct Scripts<'l> {
    /// The folder that has them.
    source: PathBuf,
    /// Their names in it.
    names: Vec<&'l str>,
    suite: &'l Workunits,
}

impl<'l> Scripts<'l> {
    /// Looks for the scripts in a checkout of ceph/ceph. Those that are not there count as skipped.
    pub(super) fn find(suite: &'l Workunits, checkout: Option<OsString>, found: &mut Found) -> Option<Self> {
        let source = checkout.map(|checkout| PathBuf::from(checkout).join("qa/workunits/fs"));
        let Some(source) = source.filter(|source| source.is_dir()) else {
            let why = |script| format!("workunits {script}: {SOURCE} names no checkout of ceph/ceph");
            found.skipped.extend(suite.scripts.iter().map(why));
            return None;
        };
        let names = suite.scripts.iter().map(String::as_str);
        let (names, missing): (Vec<&str>, Vec<&str>) = names.partition(|name| source.join(name).exists());
        let why = |script| format!("workunits {script}: it is not in {}", source.display());
        found.skipped.extend(missing.into_iter().map(why));
        Some(Self { source, names, suite })
    }

    /// Runs each in a folder of its own.
    pub(super) fn run(&self, mounted: &Mounted, found: &mut Found) -> Result<()> {
        let path = stand_ins(&workspace().join("target/suites/workunits"))?;
        for script in &self.names {
            let folder = mounted.folder(&script.replace('/', "-"))?;
            let mut command = match script.ends_with(".py") {
                true => Command::new("python3"),
                false => Command::new("bash"),
            };
            command.arg(self.source.join(script)).current_dir(&folder);
            command.env("CEPH_MNT", mounted.path()).env("PATH", &path);
            command.envs(mounted.conf().map(|conf| ("CEPH_CONF", conf)));
            let mut said = Vec::new();
            let ended = program::run(&mut command, SILENCE, |line| said.push(line.to_owned()))?;
            let shown = format!("workunits {script}");
            match (ended.is_success, self.suite.may_fail(script, mounted.release())) {
                (true, false) => found.pass(),
                (true, true) => found.passing.push(shown),
                (false, true) => found.left_out += 1,
                (false, false) => {
                    let last = said.len().saturating_sub(LINES);
                    said.push(ended.how);
                    found.fail(shown, &said[last..].join("\n"));
                }
            }
        }
        found.left_out += self.suite.never_run();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_are_not_here_are_skipped_by_name() {
        let scripts = ["misc/a.sh", "b.sh"].map(str::to_owned).to_vec();
        let suite = Workunits { scripts, left_out: Vec::new() };
        let mut found = Found::default();
        assert!(Scripts::find(&suite, None, &mut found).is_none());
        let why = ["misc/a.sh", "b.sh"]
            .map(|name| format!("workunits {name}: CEPH_SOURCE names no checkout of ceph/ceph"));
        assert_eq!(found.skipped, why);
        let checkout = std::env::temp_dir().join(format!("loligo-workunits.{}", std::process::id()));
        fs::create_dir_all(checkout.join("qa/workunits/fs/misc")).expect("a folder");
        fs::write(checkout.join("qa/workunits/fs/misc/a.sh"), "").expect("a file");
        let mut found = Found::default();
        let scripts = Scripts::find(&suite, Some(checkout.clone().into()), &mut found).expect("one is there");
        assert_eq!(scripts.names, ["misc/a.sh"]);
        assert!(found.skipped.len() == 1 && found.skipped[0].contains("b.sh: it is not in"));
        fs::remove_dir_all(checkout).expect("removed");
    }
}
