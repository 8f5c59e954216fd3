//! The command line of `loligo file`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::local::Way;
use crate::args::size;
use crate::name::Name;

const PUT: &str = "\
Examples:
  loligo -p data file put film.mkv /srv/film.mkv
  loligo -p data file put --recursive backup /home --parallel 8 --verify
  loligo -p data file put dump.img /srv/dump.img --direct
  tar c /srv | loligo -p data file put srv.tar - --stripe-count 8 --stripe-unit 1M --object-size 8M";

const GET: &str = "\
Examples:
  loligo -p data file get film.mkv /srv/film.mkv --resume --verify
  loligo -p data file get --recursive backup /restored
  loligo -p data file cat srv.tar | tar t";

/// Commands of `loligo file`.
#[derive(Subcommand)]
pub(crate) enum FileCommand {
    /// Write a local file as a striped one. What the striped file held before is gone; its layout stays
    /// unless another is named.
    #[command(after_help = PUT)]
    Put {
        /// The striped file's name.
        name: Name,
        /// The local file; - is standard input; a directory with --recursive.
        file: PathBuf,
        #[command(flatten)]
        layout: LayoutOptions,
        #[command(flatten)]
        transfer: Transfer,
        /// Note in an attribute of the striped file (loligo.put) how far it is written, and go on from there
        /// if such a note of the same local file (same size and time of modification) is there. Without this,
        /// the note only says that the file is not whole yet.
        #[arg(long)]
        resume: bool,
    },
    /// Write a local file at the end of a striped one, which is made if there is none.
    Append {
        /// The striped file's name.
        name: Name,
        /// The local file; - is standard input.
        file: PathBuf,
        #[command(flatten)]
        layout: LayoutOptions,
    },
    /// Read a striped file into a local one. Where it has no objects, the local file has holes.
    #[command(after_help = GET)]
    Get {
        /// The striped file's name.
        name: Name,
        /// The local file; - is standard output; a directory with --recursive.
        file: PathBuf,
        #[command(flatten)]
        transfer: Transfer,
        /// Go on where the local file ends, if what it has is the beginning of the striped file: the OSDs'
        /// checksums say so.
        #[arg(long)]
        resume: bool,
        /// Ask the OSDs for holes within objects, too, which costs them more than to send zeros.
        #[arg(long)]
        sparse: bool,
    },
    /// Write striped files to standard output, one after the other.
    Cat {
        #[arg(required = true)]
        names: Vec<Name>,
        /// Begin at this byte of each.
        #[arg(long, value_parser = size, default_value = "0")]
        offset: u64,
        /// Write so many bytes of each at most.
        #[arg(long, value_parser = size)]
        length: Option<u64>,
    },
    /// Copy a striped file with its attributes; without a layout it gets the source's. Where the source has
    /// no objects, the copy has holes.
    Cp {
        source: Name,
        destination: Name,
        #[command(flatten)]
        layout: LayoutOptions,
        /// Ask the OSDs for holes within objects, too, which costs them more than to send zeros.
        #[arg(long)]
        sparse: bool,
    },
    /// List the striped files.
    Ls {
        /// Those whose names begin so.
        prefix: Option<Name>,
        /// With size, time of modification and layout.
        #[arg(short, long)]
        long: bool,
    },
    /// Show a striped file's size and time of modification; with --format json its layout, too.
    Stat { name: Name },
    /// Remove striped files.
    Rm {
        #[arg(required = true)]
        names: Vec<Name>,
    },
    /// Set a striped file's size: cut it off, or extend it by a hole.
    Truncate {
        name: Name,
        #[arg(value_parser = size)]
        size: u64,
    },
    /// Set an attribute of a striped file; without VALUE it is read from standard input.
    Setxattr { name: Name, attribute: Name, value: Option<Name> },
    /// Print an attribute of a striped file.
    Getxattr { name: Name, attribute: Name },
    /// Remove an attribute of a striped file.
    Rmxattr { name: Name, attribute: Name },
    /// List a striped file's attributes, but for those that say how long it is and how it is laid out.
    Listxattr { name: Name },
    /// Show how a striped file is laid out; with --offset in which objects a part of it lies.
    Layout {
        name: Name,
        /// The part's first byte.
        #[arg(long, value_parser = size)]
        offset: Option<u64>,
        /// Its bytes.
        #[arg(long, value_parser = size, default_value = "1", requires = "offset")]
        length: u64,
    },
}

/// How a new striped file is laid out.
#[derive(Args, Clone, Copy, Default)]
pub(crate) struct LayoutOptions {
    /// Bytes that lie in one object before the next one's turn comes; a multiple of 64K (default: the object
    /// size if the stripe count is 1, else what divides it, 1M at most).
    #[arg(long, value_parser = size, value_name = "BYTES")]
    pub(crate) stripe_unit: Option<u64>,
    /// Objects over which the file is dealt out in turn (default: 1).
    #[arg(long, value_name = "N")]
    pub(crate) stripe_count: Option<u64>,
    /// Bytes of an object at most; a multiple of the stripe unit (default: 4M).
    #[arg(long, value_parser = size, value_name = "BYTES")]
    pub(crate) object_size: Option<u64>,
}

/// Options that `put` and `get` share.
#[derive(Args, Clone, Copy)]
pub(crate) struct Transfer {
    /// A directory and all that is below: local a/b is the striped file NAME/a/b. An empty NAME stands for
    /// all.
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Files of a directory that are under way together.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) parallel: u16,
    /// Compare checksums of the local file with those that the OSDs make of the objects, in the end.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Read or write the local file past the page cache (O_DIRECT): nothing else falls out of it, and
    /// --verify checks what the disk has. Not every file system can.
    #[arg(long)]
    pub(crate) direct: bool,
    /// Bytes of one file under way at most; as few of them as the way to the OSDs needs.
    #[arg(long, value_parser = size, value_name = "BYTES", default_value = "64M")]
    pub(crate) window: u64,
}

impl Transfer {
    pub(super) fn way(&self) -> Way {
        if self.direct { Way::Direct } else { Way::Cached }
    }
}
