//! Changing attributes, by paths.

use loligo_wire::UTime;

use crate::error::Error;
use crate::mount::FileSystem;

/// Attributes to change; the others stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The permissions.
    pub permissions: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The size.
    pub size: Option<u64>,
    /// The time of the data's last change.
    pub mtime: Option<UTime>,
    /// The time of the last read.
    pub atime: Option<UTime>,
    /// `mtime` becomes the present time. Users that may write the file may set that, too.
    pub mtime_now: bool,
    /// `atime` becomes the present time.
    pub atime_now: bool,
}

impl Changes {
    /// Fills in the present time where it is asked for.
    pub(crate) fn at(self, now: UTime) -> Self {
        let mtime = if self.mtime_now { Some(now) } else { self.mtime };
        let atime = if self.atime_now { Some(now) } else { self.atime };
        Self { mtime, atime, ..self }
    }
}

impl FileSystem {
    /// Changes attributes of a file or directory. Symbolic links are followed.
    pub async fn change(&self, path: impl AsRef<[u8]>, changes: Changes) -> Result<(), Error> {
        self.find(path).await?.set(&changes).await
    }

    /// Like [`change`](Self::change), but changes a symbolic link itself.
    pub async fn change_link(&self, path: impl AsRef<[u8]>, changes: Changes) -> Result<(), Error> {
        self.find_link(path).await?.set(&changes).await
    }

    /// Sets a file's size.
    ///
    /// # Errors
    /// EISDIR for a directory.
    pub async fn truncate(&self, path: impl AsRef<[u8]>, size: u64) -> Result<(), Error> {
        self.find(path).await?.truncate(size).await
    }
}

/// How an extended attribute is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XattrMode {
    /// Made, or replaced.
    #[default]
    Any,
    /// Made: EEXIST if there is one.
    Create,
    /// Replaced: ENODATA if there is none.
    Replace,
}
