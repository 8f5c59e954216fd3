//! `loligo run`: runs a program on Loligo's own C libraries.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use loligo_rados::{Builder, Errno};

use crate::failure::Failure;

/// The file that programs load.
const LIBRARY: &str = "librados.so.2";

/// The folders where the libraries may be, seen from the program's own.
const PLACES: [&str; 2] = ["../lib/loligo", "libs"];

#[derive(clap::Args)]
pub(crate) struct Run {
    /// The folder of librados.so.2 and its kin (else LOLIGO_LIBS, or ../lib/loligo or libs beside this
    /// program)
    #[arg(long, value_name = "DIR")]
    libs: Option<PathBuf>,

    /// The program and its arguments, behind `--`
    #[arg(last = true, required = true, num_args = 1.., value_name = "PROGRAM")]
    words: Vec<OsString>,
}

/// Becomes the program. The dynamic loader finds Loligo's libraries before Ceph's, and the configuration is
/// the one that this program would read.
pub(crate) fn run(what: &Run, builder: &Builder) -> Result<(), Failure> {
    let (program, args) = what.words.split_first().ok_or_else(|| Failure::new("run", "what?"))?;
    let libs = folder(what.libs.clone())?;
    let mut command = Command::new(program);
    command.args(args).env("LD_LIBRARY_PATH", before(&libs, env::var_os("LD_LIBRARY_PATH").as_deref()));
    if let Ok(conf) = builder.load()
        && let Some(file) = conf.file()
    {
        command.env("CEPH_CONF", file);
    }
    // Returns only if there is no such program.
    let why = command.exec();
    Err(Failure::new(format!("run {}", program.display()), why))
}

/// The folder of the libraries.
fn folder(given: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let own = env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned)).unwrap_or_default();
    let named = given.or_else(|| env::var_os("LOLIGO_LIBS").map(PathBuf::from));
    let places = match named {
        Some(named) => vec![named],
        None => PLACES.iter().map(|place| own.join(place)).collect(),
    };
    // An absolute path: the program may change its folder.
    let found = places.iter().find(|place| place.join(LIBRARY).exists());
    found.and_then(|place| place.canonicalize().ok()).ok_or_else(|| {
        let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        let why = format!("no {LIBRARY} in {}: give --libs or LOLIGO_LIBS", places.join(" or "));
        Failure::of(Errno::ENOENT, "run", why)
    })
}

/// A path for the loader that begins with a folder.
fn before(folder: &Path, path: Option<&OsStr>) -> OsString {
    let mut all = folder.as_os_str().to_owned();
    // An empty element would be the current folder.
    if let Some(path) = path.filter(|path| !path.is_empty()) {
        all.push(":");
        all.push(path);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libraries_come_first() {
        assert_eq!(before(Path::new("/l"), None), "/l");
        assert_eq!(before(Path::new("/l"), Some(OsStr::new(""))), "/l");
        assert_eq!(before(Path::new("/l"), Some(OsStr::new("/a:/b"))), "/l:/a:/b");
    }

    #[test]
    fn a_folder_without_the_libraries_is_refused() {
        let why = folder(Some("/nonexistent".into())).expect_err("there is none").to_string();
        assert!(why.contains("/nonexistent") && why.contains("--libs"), "{why}");
    }
}
