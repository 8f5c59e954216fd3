//! Looks whether what a server's directory has beside its store is whole.

use std::path::Path;

use loligo_mon::StateFile;

use crate::StartError;
use crate::dir::DataDir;

/// What was found in a server's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirChecked {
    /// What is wrong. For people.
    pub wrong: Vec<String>,
    /// What was done about it.
    pub done: Vec<String>,
}

/// Looks at the files of a directory that no server uses, its store apart, and with `mends` brings back what
/// can be; what is replaced is kept in that directory. A directory without such files is no server's, and
/// nothing is wrong with it.
pub fn check_dir(dir: &Path, mends: Option<&Path>) -> Result<DirChecked, StartError> {
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    if !StateFile::new(dir.join("mon.json")).paths().iter().any(|path| is_there(path)) {
        return Ok(DirChecked::default());
    }
    let locked = DataDir::open(dir)?;
    let Some(file) = locked.state_file() else { return Ok(DirChecked::default()) };
    let fsid = loligo_store_disk::fsid(&locked.store());
    let (mut wrong, done) = file.check(fsid, mends)?;
    // What is still wrong with the files themselves was said.
    if let Ok(Some(state)) = file.load()
        && state.store().is_some()
        && !is_there(&locked.store())
    {
        wrong.push(format!("{} is lost", locked.store().display()));
    }
    Ok(DirChecked { wrong, done })
}
