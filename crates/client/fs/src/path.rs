//! Paths: bytes, in components.

use std::collections::VecDeque;

use loligo_rados::Errno;

/// Bytes of a name at most (`NAME_MAX`).
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// Symbolic links that one path may lead through, as on Linux.
const LINKS_MAX: usize = 40;

/// What is left to walk of a path: names, and where a symbolic link was met, the names of its target.
#[derive(Debug)]
pub(crate) struct Rest {
    names: VecDeque<Vec<u8>>,
    links: usize,
    /// The path ends with a slash: its last name is a directory.
    is_dir: bool,
}

impl Rest {
    /// Splits a path. A leading slash, doubled slashes and `.` mean nothing: all paths begin at the root
    /// of the mount.
    pub(crate) fn of(path: &[u8]) -> Result<Self, Errno> {
        let names = names(path)?;
        Ok(Self { names, links: 0, is_dir: ends_as_dir(path) })
    }

    /// Takes the next name.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        self.names.pop_front()
    }

    /// Returns `true` if no name is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns `true` if the path says that what it names is a directory.
    pub(crate) fn is_dir(&self) -> bool {
        self.is_dir
    }

    /// Puts a symbolic link's target in front of the rest. Returns `true` if the target is absolute: the
    /// walk goes on at the root.
    pub(crate) fn follow(&mut self, target: &[u8]) -> Result<bool, Errno> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(Errno::ELOOP);
        }
        if target.is_empty() {
            return Err(Errno::ENOENT);
        }
        self.is_dir |= self.names.is_empty() && ends_as_dir(target);
        for name in names(target)?.into_iter().rev() {
            self.names.push_front(name);
        }
        Ok(target.first() == Some(&b'/'))
    }
}

fn ends_as_dir(path: &[u8]) -> bool {
    path.ends_with(b"/") || path.ends_with(b"/.") || path == b"."
}

fn names(path: &[u8]) -> Result<VecDeque<Vec<u8>>, Errno> {
    let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".");
    names.map(|name| checked(name).map(<[u8]>::to_vec)).collect()
}

/// Returns the name if a directory can have an entry of this name.
pub(crate) fn checked(name: &[u8]) -> Result<&[u8], Errno> {
    if name.len() > NAME_BYTES_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    if name.contains(&0) {
        return Err(Errno::EINVAL);
    }
    Ok(name)
}

/// Splits a path into the directory's and the last name. `None` for the root, and for paths that end with
/// `.` or `..`: what they name is there already, and has its name elsewhere.
pub(crate) fn parent_and_name(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let (dir, name) = split(path);
    let is_name = !matches!(name, b"" | b"." | b"..");
    is_name.then_some((dir, name))
}

/// Returns what `rmdir(2)` says of a path that [`parent_and_name`] does not split.
pub(crate) fn why_not_removed(path: &[u8]) -> Errno {
    match split(path).1 {
        b"." => Errno::EINVAL,
        b".." => Errno::ENOTEMPTY,
        _ => Errno::EBUSY,
    }
}

/// Whether a slash is behind a path's last name, which says that it is a directory.
pub(crate) fn ends_with_slash(path: &[u8]) -> bool {
    path.ends_with(b"/")
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
    let begin = path[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    (&path[..begin], &path[begin..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut rest: Rest) -> Vec<String> {
        let mut names = Vec::new();
        while let Some(name) = rest.next() {
            names.push(String::from_utf8(name).expect("text"));
        }
        names
    }

    #[test]
    fn paths_are_split() {
        for (path, names, is_dir) in [
            (&b"/"[..], &[][..], true),
            (b"", &[], false),
            (b"a/b", &["a", "b"], false),
            (b"//a/./b//", &["a", "b"], true),
            (b"a/../b", &["a", "..", "b"], false),
            (b"a/.", &["a"], true),
        ] {
            let rest = Rest::of(path).expect("a path");
            assert_eq!(rest.is_dir(), is_dir, "{path:?}");
            assert_eq!(all(rest), names, "{path:?}");
        }
        assert_eq!(Rest::of(&[b'x'; 256]).expect_err("long"), Errno::ENAMETOOLONG);
        assert!(Rest::of(&[b'x'; 255]).is_ok());
        assert_eq!(Rest::of(b"a\0b").expect_err("a zero"), Errno::EINVAL);
    }

    #[test]
    fn links_are_put_in_front_and_counted() {
        let mut rest = Rest::of(b"link/c").expect("a path");
        rest.next();
        assert_eq!(rest.follow(b"a/b"), Ok(false));
        assert_eq!(all(rest), ["a", "b", "c"]);
        let mut rest = Rest::of(b"link").expect("a path");
        rest.next();
        assert_eq!(rest.follow(b"/x/"), Ok(true));
        assert!(rest.is_dir());
        assert_eq!(rest.follow(b""), Err(Errno::ENOENT));
        while rest.follow(b"x").is_ok() {}
        assert_eq!(rest.links, LINKS_MAX + 1);
    }

    #[test]
    fn the_last_name_is_found() {
        for (path, split) in [
            (&b"a"[..], Some((&b""[..], &b"a"[..]))),
            (b"/a/b", Some((b"/a/", b"b"))),
            (b"a/b//", Some((b"a/", b"b"))),
            (b"a/./", None),
            (b"a/.", None),
            (b".", None),
            (b"/", None),
            (b"", None),
            (b"a/..", None),
        ] {
            assert_eq!(parent_and_name(path), split, "{path:?}");
        }
        for (path, errno) in [
            (&b"a/."[..], Errno::EINVAL),
            (b"./", Errno::EINVAL),
            (b"a/..", Errno::ENOTEMPTY),
            (b"//", Errno::EBUSY),
        ] {
            assert_eq!(why_not_removed(path), errno, "{path:?}");
        }
    }
}
