//! Checks the files of a server's directory, except for its store.

use std::path::Path;

use loligo_mon::StateFile;

use crate::StartError;
use crate::dir::DataDir;

/// The result of checking a server's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirChecked {
    /// The problems found, as text for people.
    pub wrong: Vec<String>,
    /// The repairs made.
    pub done: Vec<String>,
}

/// Checks the files of a directory that no server uses, except for its store. If `mends` names a
/// directory, repairs what can be repaired and keeps the replaced files in that directory. A directory
/// without such files belongs to no server: no problem is reported.
pub fn check_dir(dir: &Path, mends: Option<&Path>) -> Result<DirChecked, StartError> {
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    if !StateFile::new(dir.join("mon.json")).paths().iter().any(|path| is_there(path)) {
        return Ok(DirChecked::default());
    }
    let locked = DataDir::open(dir)?;
    let Some(file) = locked.state_file() else { return Ok(DirChecked::default()) };
    let fsid = loligo_store_disk::fsid(&locked.store());
    let (mut wrong, done) = file.check(fsid, mends)?;
    // Problems of the files themselves are in `wrong` already.
    if let Ok(Some(state)) = file.load()
        && state.store().is_some()
        && !is_there(&locked.store())
    {
        wrong.push(format!("{} is lost", locked.store().display()));
    }
    Ok(DirChecked { wrong, done })
}
