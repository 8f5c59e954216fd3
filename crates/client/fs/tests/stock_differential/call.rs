//! The calls, and the form in which the driver reads them.

use std::fmt::{self, Write as _};

/// A path, a name or a value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Text(pub(crate) Vec<u8>);

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('x')?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Text {
    /// Reads the form of `Display`.
    pub(crate) fn read(word: &str) -> Self {
        let digits = word.strip_prefix('x').unwrap_or_else(|| panic!("{word:?} is no byte string"));
        let pair = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
        Self((0..digits.len()).step_by(2).map(pair).collect())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Open {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) create: bool,
    pub(crate) exclusive: bool,
    pub(crate) truncate: bool,
}

/// A call of a file system's interface. A slot is an open file.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Open {
        slot: u8,
        path: Text,
        how: Open,
        mode: u32,
    },
    Close {
        slot: u8,
    },
    Read {
        slot: u8,
        at: u64,
        len: u64,
    },
    Write {
        slot: u8,
        at: u64,
        len: u64,
        seed: u64,
    },
    Append {
        slot: u8,
        len: u64,
        seed: u64,
    },
    TruncateFile {
        slot: u8,
        size: u64,
    },
    Punch {
        slot: u8,
        at: u64,
        len: u64,
    },
    SyncFile {
        slot: u8,
    },
    StatFile {
        slot: u8,
    },
    /// Opens, reads all and closes.
    Content {
        path: Text,
    },
    MakeDir {
        path: Text,
        mode: u32,
    },
    RemoveDir {
        path: Text,
    },
    Unlink {
        path: Text,
    },
    Rename {
        from: Text,
        to: Text,
    },
    Link {
        from: Text,
        to: Text,
    },
    Symlink {
        target: Text,
        path: Text,
    },
    ReadLink {
        path: Text,
    },
    MakeNode {
        path: Text,
        mode: u32,
        rdev: u32,
    },
    Stat {
        path: Text,
    },
    StatLink {
        path: Text,
    },
    /// The inode's number, which is not compared.
    Ino {
        path: Text,
    },
    ReadDir {
        path: Text,
    },
    Chmod {
        path: Text,
        mode: u32,
    },
    Chown {
        path: Text,
        uid: u32,
        gid: u32,
    },
    ChownLink {
        path: Text,
        uid: u32,
        gid: u32,
    },
    SetTimes {
        path: Text,
        atime: u32,
        mtime: u32,
    },
    Truncate {
        path: Text,
        size: u64,
    },
    SetXattr {
        path: Text,
        name: Text,
        value: Text,
        flags: u32,
    },
    GetXattr {
        path: Text,
        name: Text,
    },
    RemoveXattr {
        path: Text,
        name: Text,
    },
    ListXattrs {
        path: Text,
    },
    Sync,
}

impl Call {
    /// Whether it changes nothing.
    pub(crate) fn only_looks(&self) -> bool {
        matches!(
            self,
            Self::StatFile { .. }
                | Self::Stat { .. }
                | Self::StatLink { .. }
                | Self::Ino { .. }
                | Self::ReadDir { .. }
                | Self::ReadLink { .. }
                | Self::GetXattr { .. }
                | Self::ListXattrs { .. }
        )
    }

    /// The paths that it names.
    pub(crate) fn paths(&self) -> Vec<&Text> {
        match self {
            Self::Open { path, .. }
            | Self::Content { path }
            | Self::MakeDir { path, .. }
            | Self::RemoveDir { path }
            | Self::Unlink { path }
            | Self::Symlink { path, .. }
            | Self::ReadLink { path }
            | Self::MakeNode { path, .. }
            | Self::Stat { path }
            | Self::StatLink { path }
            | Self::Ino { path }
            | Self::ReadDir { path }
            | Self::Chmod { path, .. }
            | Self::Chown { path, .. }
            | Self::ChownLink { path, .. }
            | Self::SetTimes { path, .. }
            | Self::Truncate { path, .. }
            | Self::SetXattr { path, .. }
            | Self::GetXattr { path, .. }
            | Self::RemoveXattr { path, .. }
            | Self::ListXattrs { path } => vec![path],
            Self::Rename { from, to } | Self::Link { from, to } => vec![from, to],
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Open { slot, path, how, mode } => format!("open {slot} {path} {how} {mode:o}"),
            Self::Close { slot } => format!("close {slot}"),
            Self::Read { slot, at, len } => format!("read {slot} {at} {len}"),
            Self::Write { slot, at, len, seed } => format!("write {slot} {at} {len} {seed}"),
            Self::Append { slot, len, seed } => format!("append {slot} {len} {seed}"),
            Self::TruncateFile { slot, size } => format!("ftruncate {slot} {size}"),
            Self::Punch { slot, at, len } => format!("punch {slot} {at} {len}"),
            Self::SyncFile { slot } => format!("fsync {slot}"),
            Self::StatFile { slot } => format!("fstat {slot}"),
            Self::Content { path } => format!("content {path}"),
            Self::MakeDir { path, mode } => format!("mkdir {path} {mode:o}"),
            Self::RemoveDir { path } => format!("rmdir {path}"),
            Self::Unlink { path } => format!("unlink {path}"),
            Self::Rename { from, to } => format!("rename {from} {to}"),
            Self::Link { from, to } => format!("link {from} {to}"),
            Self::Symlink { target, path } => format!("symlink {target} {path}"),
            Self::ReadLink { path } => format!("readlink {path}"),
            Self::MakeNode { path, mode, rdev } => format!("mknod {path} {mode:o} {rdev}"),
            Self::Stat { path } => format!("stat {path}"),
            Self::StatLink { path } => format!("lstat {path}"),
            Self::Ino { path } => format!("ino {path}"),
            Self::ReadDir { path } => format!("readdir {path}"),
            Self::Chmod { path, mode } => format!("chmod {path} {mode:o}"),
            Self::Chown { path, uid, gid } => format!("chown {path} {uid} {gid}"),
            Self::ChownLink { path, uid, gid } => format!("lchown {path} {uid} {gid}"),
            Self::SetTimes { path, atime, mtime } => format!("utimens {path} {atime} {mtime}"),
            Self::Truncate { path, size } => format!("truncate {path} {size}"),
            Self::SetXattr { path, name, value, flags } => format!("setxattr {path} {name} {value} {flags}"),
            Self::GetXattr { path, name } => format!("getxattr {path} {name}"),
            Self::RemoveXattr { path, name } => format!("rmxattr {path} {name}"),
            Self::ListXattrs { path } => format!("listxattr {path}"),
            Self::Sync => "sync".to_owned(),
        };
        f.pad(&text)
    }
}

impl fmt::Display for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char(match (self.read, self.write) {
            (true, true) => 'b',
            (_, true) => 'w',
            _ => 'r',
        })?;
        let flags = [(self.create, 'c'), (self.exclusive, 'x'), (self.truncate, 't')];
        flags.into_iter().filter(|(is, _)| *is).try_for_each(|(_, letter)| f.write_char(letter))
    }
}

/// The data of a write: what lies at a wrong offset differs, since the period is a prime.
pub(crate) fn pattern(len: u64, seed: u64) -> Vec<u8> {
    let period: Vec<u8> = (0..251_u64).map(|at| (seed * 31 + at * 7) as u8).collect();
    period.into_iter().cycle().take(len as usize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_strings_are_read_as_they_are_shown() {
        for bytes in [&b""[..], b"a b", b"\xff\0\n"] {
            let text = Text(bytes.to_vec());
            assert_eq!(Text::read(&text.to_string()), text);
        }
    }
}
