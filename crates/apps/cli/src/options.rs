//! Options that many commands share.

use std::path::PathBuf;

use crate::format::FormatName;
use crate::name::Name;

/// Options that may appear before or after a command's name. `groups.rs` lists which command accepts
/// which.
#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// The pool; `serve` makes it, and takes several.
    #[arg(short, long, global = true, value_name = "NAME")]
    pub(crate) pool: Vec<String>,

    /// The namespace within the pool.
    #[arg(short = 'N', long, global = true, default_value = "", hide_default_value = true)]
    pub(crate) namespace: Name,

    /// Read objects as they were at this snapshot of the pool.
    #[arg(short, long, global = true, value_name = "NAME")]
    pub(crate) snap: Option<Name>,

    /// Read objects as they were at the snapshot of this number.
    #[arg(long, global = true, value_name = "NUMBER", conflicts_with = "snap")]
    pub(crate) snapid: Option<u64>,

    /// Make the pool first, which must not be there.
    #[arg(long, global = true)]
    pub(crate) create: bool,

    /// Objects lie where this name would: what `ls` shows behind an object's. For commands on objects.
    #[arg(long, global = true, alias = "object_locator", value_name = "NAME")]
    pub(crate) object_locator: Option<Name>,

    /// How results are printed.
    #[arg(long, global = true, value_enum, default_value_t = FormatName::Plain)]
    pub(crate) format: FormatName,

    /// Values for programs over several lines.
    #[arg(long, global = true)]
    pub(crate) pretty_format: bool,

    /// Write when each operation was new, queued, acked and done into this file, for `loligo trace`, Perfetto
    /// and Chrome.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}
