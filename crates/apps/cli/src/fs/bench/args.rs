//! The command line of `loligo fs bench`.

use clap::{Args, ValueEnum};

use crate::args::size;
use crate::name::Name;

/// What to measure, and how.
#[derive(Args, Clone)]
pub(crate) struct BenchArgs {
    /// How long at most; what cannot be done twice ends earlier: create and unlink, and unless --warm, stat,
    /// readdir and read.
    pub(crate) seconds: u64,
    /// What to do.
    #[arg(value_enum)]
    pub(crate) mode: BenchMode,
    /// Bytes of a read or write.
    #[arg(short, long, value_parser = size, value_name = "BYTES", default_value = "4M")]
    pub(crate) block_size: u64,
    /// Bytes of the file that is read and written.
    #[arg(long, value_parser = size, value_name = "BYTES", default_value = "256M")]
    pub(crate) file_size: u64,
    /// Files that are made, removed, looked at or listed.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) files: u64,
    /// Operations in flight.
    #[arg(short = 't', long = "concurrent-ios", value_name = "N", default_value_t = 16)]
    pub(crate) depth: usize,
    /// Threads that submit them.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,
    /// Do everything once before, so that the client holds what it may hold; reads, stat and readdir only.
    #[arg(long)]
    pub(crate) warm: bool,
    /// Pass the client's cache by, as O_DIRECT does.
    #[arg(long)]
    pub(crate) direct: bool,
    /// Memory for the client's cache of data.
    #[arg(long, value_parser = size, value_name = "BYTES", default_value = "256M")]
    pub(crate) cache: u64,
    /// Also measure the CPU time of this process, for example of a daemon on this machine; may be repeated.
    #[arg(long, value_name = "PID")]
    pub(crate) server_pid: Vec<u32>,
    /// Where the directory of the measurement is made; it is removed in the end.
    #[arg(long, value_name = "PATH", default_value = "/")]
    pub(crate) dir: Name,
}

/// The operation that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchMode {
    /// Write the file from its beginning, again and again; made durable in the end.
    Write,
    /// Write blocks of the file in a pseudo-random order; made durable in the end.
    Randwrite,
    /// Read the file from its beginning: once, and with --warm or --direct again and again.
    Read,
    /// Read blocks of the file in a pseudo-random order.
    Randread,
    /// Make empty files.
    Create,
    /// Remove files.
    Unlink,
    /// Look at files.
    Stat,
    /// List the directory with what is known of each file; an operation is a whole listing.
    Readdir,
}

impl BenchMode {
    /// Whether it moves data of a file.
    pub(super) fn is_of_data(self) -> bool {
        matches!(self, Self::Write | Self::Randwrite | Self::Read | Self::Randread)
    }

    pub(super) fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Randwrite)
    }

    /// Whether a second time can find something in the client's memory.
    pub(super) fn can_be_warm(self) -> bool {
        matches!(self, Self::Read | Self::Randread | Self::Stat | Self::Readdir)
    }
}
