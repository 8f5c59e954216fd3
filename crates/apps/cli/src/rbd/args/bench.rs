//! The command line of `loligo rbd bench`.

use clap::{Args, ValueEnum};

use super::block;
use crate::args::size;
use crate::name::Name;

#[derive(Args)]
pub(crate) struct Bench {
    pub(crate) image: Name,
    /// The operation to measure.
    #[arg(long, value_enum)]
    pub(crate) io_type: IoType,
    /// Bytes of an I/O.
    #[arg(long, value_parser = size, default_value = "4K")]
    pub(crate) io_size: u64,
    /// I/Os in flight.
    #[arg(long, default_value_t = 16)]
    pub(crate) io_threads: usize,
    /// Bytes in all.
    #[arg(long, value_parser = size, default_value = "1G")]
    pub(crate) io_total: u64,
    /// Where.
    #[arg(long, value_enum, default_value_t = Pattern::Seq)]
    pub(crate) io_pattern: Pattern,
    /// How many in a hundred I/Os read.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) rw_mix_read: u32,
    /// Bytes of memory for a cache, at least 1M: writes are done when they are in it, and what is dirty at
    /// the end is written back within the time that is shown.
    #[arg(long, value_parser = block, value_name = "BYTES")]
    pub(crate) cache: Option<u64>,
    /// With a cache: a write is done when the cluster has it.
    #[arg(long, requires = "cache")]
    pub(crate) cache_writethrough: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IoType {
    Read,
    Write,
    #[value(alias = "rw")]
    Readwrite,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pattern {
    /// Anywhere.
    Rand,
    /// Each I/O in flight goes through a part of the image of its own.
    Seq,
    /// One behind the other.
    FullSeq,
}
