//! The server's files in a directory that others may write to.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::process::geteuid;

pub(crate) fn no_follow() -> i32 {
    OFlags::NOFOLLOW.bits().cast_signed()
}

/// Writes a new file, as [`create_new`] creates it.
pub(crate) fn write_new(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    create_new(path, mode)?.write_all(content)
}

/// Creates a file. An existing file, left by a crash, is removed first; a link is removed, not followed.
pub(crate) fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

/// Reads a file of this user. Refuses links and files of other users.
pub(crate) fn read_own(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = OpenOptions::new().read(true).custom_flags(no_follow()).open(path)?;
    let owner = file.metadata()?.uid();
    if owner != geteuid().as_raw() {
        let what = format!("it belongs to user {owner}: it is not read");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    Ok(content)
}
