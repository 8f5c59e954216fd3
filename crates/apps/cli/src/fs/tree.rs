//! Walks through directories, of the file system and local ones.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use loligo_fs::{FileType, Metadata};

use super::Mount;
use crate::failure::{Context, Failure};
use crate::name::Name;

/// Something below a directory of the file system.
pub(super) struct Found {
    /// The whole path.
    pub(super) path: Vec<u8>,
    /// The path below the directory.
    pub(super) below: Vec<u8>,
    pub(super) metadata: Metadata,
}

/// Appends a name to a path.
pub(super) fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    match path {
        b"" => name.to_vec(),
        path if path.ends_with(b"/") => [path, name].concat(),
        path => [path, b"/", name].concat(),
    }
}

/// Returns all that is below a directory: a directory before what is in it.
pub(super) async fn below(mount: &Mount, dir: &[u8]) -> Result<Vec<Found>, Failure> {
    let (mut found, mut dirs) = (Vec::new(), VecDeque::from([Vec::new()]));
    while let Some(at) = dirs.pop_front() {
        let path = if at.is_empty() { dir.to_vec() } else { join(dir, &at) };
        let what = || format!("list {}", Name::from(&path));
        let mut entries = mount.fs.read_dir(&path).await.context(what)?;
        while let Some(entry) = entries.next().await.context(what)? {
            let below = join(&at, &entry.name);
            if entry.metadata.is_dir() {
                dirs.push_back(below.clone());
            }
            found.push(Found { path: join(dir, &below), below, metadata: entry.metadata });
        }
    }
    Ok(found)
}

/// Something below a local directory.
pub(super) struct Local {
    pub(super) path: PathBuf,
    /// The path below the directory.
    pub(super) below: Vec<u8>,
    pub(super) kind: FileType,
    pub(super) bytes: u64,
}

/// Returns all that is below a local directory: a directory before what is in it. What is neither a file,
/// a directory nor a symbolic link is left out with a warning.
pub(super) fn local(dir: &Path) -> Result<Vec<Local>, Failure> {
    use std::os::unix::ffi::OsStrExt as _;
    let (mut found, mut dirs) = (Vec::new(), VecDeque::from([dir.to_owned()]));
    while let Some(at) = dirs.pop_front() {
        let what = || format!("read {}", at.display());
        for entry in fs::read_dir(&at).context(what)? {
            let entry = entry.context(what)?;
            let (path, meta) = (entry.path(), entry.metadata().context(what)?);
            let kind = match meta.file_type() {
                kind if kind.is_dir() => FileType::Directory,
                kind if kind.is_file() => FileType::Regular,
                kind if kind.is_symlink() => FileType::Symlink,
                _ => {
                    eprintln!("loligo: left out, no file: {}", path.display());
                    continue;
                }
            };
            if kind == FileType::Directory {
                dirs.push_back(path.clone());
            }
            let below = path.strip_prefix(dir).unwrap_or(&path).as_os_str().as_bytes().to_vec();
            let bytes = if kind == FileType::Regular { meta.len() } else { 0 };
            found.push(Local { path, below, kind, bytes });
        }
    }
    Ok(found)
}

/// Whether a name matches a pattern with `*` and `?`.
pub(super) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            // The last star takes one byte more.
            _ => match &mut star {
                Some((at, from)) => {
                    *from += 1;
                    (p, n) = (*at + 1, *from);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, is) in [
            ("*", "", true),
            ("*.log", "a.log", true),
            ("*.log", "a.log.1", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*b*d*", "abcde", true),
            ("*ab", "aab", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), is, "{pattern} {name}");
        }
    }

    #[test]
    fn paths_are_joined_with_one_slash() {
        for (path, joined) in [("", "x"), ("/", "/x"), ("/a", "/a/x"), ("a/", "a/x")] {
            assert_eq!(join(path.as_bytes(), b"x"), joined.as_bytes());
        }
    }
}
