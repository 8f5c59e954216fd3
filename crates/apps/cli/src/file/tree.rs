//! Directories: maps local files to striped files.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use crate::failure::{Context, Failure};
use crate::name::Name;

/// A local file below a directory.
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) name: Vec<u8>,
    pub(super) bytes: u64,
}

/// Returns all files below a directory, sorted by name. A symbolic link to a file is a file. Anything
/// that is neither file nor directory is skipped with a warning.
pub(super) fn walk(dir: &Path, name: &Name) -> Result<Vec<Found>, Failure> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(at) = dirs.pop() {
        let what = || format!("read {}", at.display());
        for entry in fs::read_dir(&at).context(what)? {
            let entry = entry.context(what)?;
            let path = entry.path();
            if entry.file_type().context(what)?.is_dir() {
                dirs.push(path);
                continue;
            }
            match fs::metadata(&path) {
                Ok(meta) if meta.is_file() => {
                    let below = path.strip_prefix(dir).unwrap_or(&path);
                    found.push(Found { name: join(name, below), bytes: meta.len(), path });
                }
                Ok(_) => eprintln!("loligo: left out, no file: {}", path.display()),
                Err(e) => return Err(Failure::new(format!("read {}", path.display()), e)),
            }
        }
    }
    found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Strips the trailing slashes of a name.
fn without_slashes(name: &[u8]) -> &[u8] {
    let end = name.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    &name[..end]
}

/// Returns the striped file's name.
fn join(name: &Name, below: &Path) -> Vec<u8> {
    let below = below.as_os_str().as_bytes();
    if name.is_empty() { below.to_vec() } else { [without_slashes(name), b"/", below].concat() }
}

/// Returns the path of a striped file below a directory; `None` if the file is not below `name`, or its
/// path would leave the directory.
pub(super) fn below(name: &Name, file: &[u8]) -> Option<PathBuf> {
    let rest = match without_slashes(name) {
        b"" => file,
        name => file.strip_prefix(name)?.strip_prefix(b"/")?,
    };
    let path = Path::new(OsStr::from_bytes(rest));
    let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    (inside && !rest.is_empty() && !rest.contains(&0) && !rest.ends_with(b"/")).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths_belong_together() {
        for (name, path, file) in
            [("a", "b/c", "a/b/c"), ("", "b", "b"), ("a/", "b", "a/b"), ("a/b", "c", "a/b/c")]
        {
            assert_eq!(join(&name.into(), Path::new(path)), file.as_bytes());
            assert_eq!(below(&name.into(), file.as_bytes()), Some(path.into()));
        }
        for (name, file) in [
            ("a", "ab/c"),
            ("a", "a"),
            ("a", "a/"),
            ("", "../x"),
            ("", "/etc/x"),
            ("a", "a/../../x"),
            ("a", "a//etc/x"),
            ("", "x\0y"),
            ("", "x/"),
        ] {
            assert_eq!(below(&name.into(), file.as_bytes()), None, "{name} {file}");
        }
    }
}
