//! Inodes: what this client knows of files and directories, and the table of them.

mod attrs;
mod caps;
mod known;
mod table;

pub(crate) use self::attrs::{Attrs, Held};
pub(crate) use self::caps::{Due, Grant, Trust};
pub(crate) use self::known::{Entry, Inode, InodeId, Known, Lease, mode};
pub(crate) use self::table::Table;
