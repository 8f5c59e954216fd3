//! Reads and writes the state files on disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::process::geteuid;
use zeroize::Zeroizing;

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Opens a file of the current user. Refuses symbolic links and files that another user owns.
fn open_ours(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)?;
    let (owner, us) = (file.metadata()?.uid(), geteuid().as_raw());
    if owner != us {
        let what = format!("it belongs to user {owner}, and this is user {us}: it is not read");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    Ok(file)
}

/// Reads a file of the current user; `None` if it does not exist.
pub(super) fn read(path: &Path) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
    let mut file = match open_ours(path, OpenOptions::new().read(true)) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let mut content = Zeroizing::new(Vec::new());
    file.read_to_end(&mut content)?;
    Ok(Some(content))
}

/// Replaces a file atomically.
pub(super) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = with_suffix(path, ".new");
    match fs::remove_file(&temporary) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    // The rename is durable only once the directory is synced.
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

/// Overwrites a part of a file of the current user. The file does not grow.
pub(super) fn overwrite(path: &Path, at: u64, bytes: &[u8]) -> io::Result<()> {
    let file = open_ours(path, OpenOptions::new().write(true))?;
    file.write_all_at(bytes, at)?;
    file.sync_data()
}
