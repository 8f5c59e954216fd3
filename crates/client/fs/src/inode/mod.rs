//! Inodes: what this client knows of files and directories, and the table of them.

mod attrs;
mod check;
mod entries;
mod failures;
mod hot;
mod id;
mod known;
mod lease;
pub(crate) mod mode;
mod names;
mod path;
mod table;
mod trust;

pub(crate) use self::attrs::{Attrs, Held};
pub(crate) use self::check::{regular_file, writable};
pub(crate) use self::id::InodeId;
pub(crate) use self::known::{Clock, Grasp, Inode, Known};
pub(crate) use self::lease::Lease;
pub(crate) use self::names::{Entry, Named};
pub(crate) use self::path::DataView;
pub(crate) use self::table::{PARTS, Table};
pub(crate) use self::trust::Trust;
