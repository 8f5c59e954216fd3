//! Debian's small kernels, which have the clients as modules.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package that depends on the newest one of a release.
const PACKAGE: &str = "linux-image-cloud-amd64";

/// Whose signature the lists of other releases have.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The kernels.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Linux {
    /// That of this machine's Debian.
    Here,
    /// That of Debian 13: Linux 6.12.
    #[allow(dead_code, reason = "not each test needs several")]
    Trixie,
}

impl Linux {
    /// Returns the folder of the unpacked package, which is kept for the next run.
    pub(super) fn folder(self) -> Result<PathBuf, String> {
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let dir = kept.join(if self == Self::Here { "kernel" } else { "kernel-trixie" });
        if dir.join("boot").exists() {
            return Ok(dir);
        }
        let fetched = dir.with_extension(format!("fetched.{}", std::process::id()));
        let _ = fs::remove_dir_all(&fetched);
        fs::create_dir_all(&fetched).map_err(|e| format!("{}: {e}", fetched.display()))?;
        let unpacked = self.fetch(&fetched);
        // Another test may have been faster.
        if unpacked.is_err() || fs::rename(&fetched, &dir).is_err() {
            let _ = fs::remove_dir_all(&fetched);
        }
        unpacked.map(|()| dir)
    }

    /// Unpacks the package into an empty folder.
    fn fetch(self, into: &Path) -> Result<(), String> {
        let lists = self.lists(into)?;
        let apt = |program: &str, args: &[&str]| {
            said(Command::new(program).args(&lists).args(args).current_dir(into))
        };
        // The local package lists may be older than the mirror.
        apt("apt-get", &["update", "-qq"])?;
        let depends = apt("apt-cache", &["depends", PACKAGE])?;
        let newest = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
        let newest = newest.ok_or_else(|| format!("{PACKAGE} depends on no kernel"))?;
        apt("apt-get", &["download", "-qq", newest])?;
        let unpack = "dpkg -x ./*.deb . && rm -r ./*.deb apt";
        said(Command::new("sh").args(["-c", unpack]).current_dir(into)).map(drop)
    }

    /// Options of apt for the release. Lists of another release lie apart from those of this machine.
    fn lists(self, into: &Path) -> Result<Vec<String>, String> {
        let apt = into.join("apt");
        for folder in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(apt.join(folder)).map_err(|e| format!("{}: {e}", apt.display()))?;
        }
        let mut options = vec!["Acquire::Check-Valid-Until=false".to_owned()];
        if self == Self::Trixie {
            let sources = apt.join("sources.list");
            let line = format!("deb [signed-by={KEYRING}] http://deb.debian.org/debian trixie main\n");
            fs::write(&sources, line).map_err(|e| format!("{}: {e}", sources.display()))?;
            options.push(format!("Dir::Etc::sourcelist={}", sources.display()));
            options.push("Dir::Etc::sourceparts=-".to_owned());
            options.push(format!("Dir::State::lists={}", apt.join("lists").display()));
            options.push(format!("Dir::Cache={}", apt.join("cache").display()));
        }
        Ok(options.into_iter().flat_map(|option| ["-o".to_owned(), option]).collect())
    }
}

/// Finds the file whose name begins with `name`.
pub(super) fn found(dir: &Path, name: &str) -> Option<PathBuf> {
    let pattern = format!("{name}*");
    let all = said(Command::new("find").arg(dir).args(["-type", "f", "-name", &pattern])).ok()?;
    all.lines().next().map(PathBuf::from)
}

fn said(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
