//! How a file system is mounted.

use std::path::PathBuf;

/// Where a file system is mounted, and how.
#[derive(Clone, Debug)]
pub struct MountOptions {
    pub(crate) dir: PathBuf,
    pub(crate) source: String,
    pub(crate) read_only: bool,
    pub(crate) no_atime: bool,
    pub(crate) no_exec: bool,
    pub(crate) devices: bool,
    pub(crate) suid: bool,
    pub(crate) allow_other: bool,
    pub(crate) default_permissions: bool,
    pub(crate) dir_sizes_recursive: bool,
    pub(crate) kernel_cache: bool,
    pub(crate) acls: bool,
    pub(crate) threads: usize,
}

impl MountOptions {
    /// Mounts at a directory, for the user that runs this program.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            source: "loligo".to_owned(),
            read_only: false,
            no_atime: false,
            no_exec: false,
            devices: false,
            suid: false,
            allow_other: false,
            default_permissions: true,
            dir_sizes_recursive: true,
            kernel_cache: true,
            acls: false,
            threads: 2,
        }
    }

    /// What `mount` and `df` show as the source.
    pub fn source(self, source: &str) -> Self {
        Self { source: source.to_owned(), ..self }
    }

    /// Refuses changes.
    pub fn read_only(self, is: bool) -> Self {
        Self { read_only: is, ..self }
    }

    /// Notes no reads. CephFS notes none by itself; this is what `mount` shows.
    pub fn no_atime(self, is: bool) -> Self {
        Self { no_atime: is, ..self }
    }

    /// Refuses to run programs.
    pub fn no_exec(self, is: bool) -> Self {
        Self { no_exec: is, ..self }
    }

    /// Lets device files work. Only root can ask for it.
    pub fn devices(self, is: bool) -> Self {
        Self { devices: is, ..self }
    }

    /// Lets set-user-id programs work. Only root can ask for it.
    pub fn suid(self, is: bool) -> Self {
        Self { suid: is, ..self }
    }

    /// Lets other users in; otherwise only the user that runs this program gets an answer.
    pub fn allow_other(self, is: bool) -> Self {
        Self { allow_other: is, ..self }
    }

    /// Lets the kernel check permissions, by the owner and the mode of files.
    pub fn default_permissions(self, is: bool) -> Self {
        Self { default_permissions: is, ..self }
    }

    /// Shows a directory's size as the bytes of all files below it, instead of the number of its entries.
    pub fn dir_sizes_recursive(self, is: bool) -> Self {
        Self { dir_sizes_recursive: is, ..self }
    }

    /// Lets the kernel keep names and attributes, as far as the servers' capabilities allow.
    pub fn kernel_cache(self, is: bool) -> Self {
        Self { kernel_cache: is, ..self }
    }

    /// Lets access control lists count, in the kernel too.
    pub fn acls(self, count: bool) -> Self {
        Self { acls: count, ..self }
    }

    /// The threads that take requests from the kernel.
    pub fn threads(self, threads: usize) -> Self {
        Self { threads: threads.max(1), ..self }
    }
}
