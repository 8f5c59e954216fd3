//! The command line of `loligo bench`, `cleanup` and `load-gen`.

use std::path::PathBuf;

use clap::ValueEnum;

use crate::values::size;

/// How to measure.
#[derive(clap::Args)]
pub(crate) struct Bench {
    /// How long.
    pub(crate) seconds: u64,
    /// What to do: write new objects, read back the objects of the last write run in order or at random.
    #[arg(value_enum)]
    pub(crate) mode: Mode,
    /// Bytes of an operation.
    #[arg(short, long, value_parser = size, default_value = "4M")]
    pub(crate) block_size: u64,
    /// Bytes of an object, if not those of an operation; reads take what the write run had.
    #[arg(short = 'O', long, value_parser = size)]
    pub(crate) object_size: Option<u64>,
    /// Write no more objects than so many; 0 is no limit.
    #[arg(long, default_value_t = 0)]
    pub(crate) max_objects: u64,
    /// Write into the objects' data; the default, if neither of the following is given.
    #[arg(long)]
    pub(crate) write_object: bool,
    /// Write into the objects' maps.
    #[arg(long)]
    pub(crate) write_omap: bool,
    /// Write into the objects' extended attributes.
    #[arg(long)]
    pub(crate) write_xattr: bool,
    /// Operations in flight.
    #[arg(short = 't', long = "concurrent-ios", default_value_t = 16)]
    pub(crate) depth: usize,
    /// Threads that submit them.
    #[arg(long, default_value_t = 1)]
    pub(crate) threads: usize,
    /// Leave the written objects for a later read run.
    #[arg(long)]
    pub(crate) no_cleanup: bool,
    /// Names the run, so that several can be kept apart.
    #[arg(long)]
    pub(crate) run_name: Option<String>,
    /// Write the results into this file. Needs --format json.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// The operation that a bench measures.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    Write,
    Seq,
    Rand,
}

/// Selects the objects to remove.
#[derive(clap::Args)]
pub(crate) struct Cleanup {
    /// The run's name.
    #[arg(long)]
    pub(crate) run_name: Option<String>,
    /// Look for objects whose names begin so, and remove them; it must begin with benchmark_data.
    #[arg(long, conflicts_with = "run_name")]
    pub(crate) prefix: Option<String>,
    /// In all namespaces, where this machine's objects are looked for.
    #[arg(long)]
    pub(crate) all: bool,
}

/// A load of random operations.
#[derive(clap::Args)]
pub(crate) struct LoadGen {
    /// Objects.
    #[arg(long, default_value_t = 200)]
    pub(crate) num_objects: u32,
    /// Bytes of an object at least.
    #[arg(long, value_parser = size, default_value = "1K")]
    pub(crate) min_object_size: u64,
    /// Bytes of an object at most.
    #[arg(long, value_parser = size, default_value = "64M")]
    pub(crate) max_object_size: u64,
    /// Bytes of an operation at least.
    #[arg(long, value_parser = size, default_value = "1K")]
    pub(crate) min_op_len: u64,
    /// Bytes of an operation at most.
    #[arg(long, value_parser = size, default_value = "2M")]
    pub(crate) max_op_len: u64,
    /// Operations under way at most.
    #[arg(long, default_value_t = 16)]
    pub(crate) max_ops: usize,
    /// Bytes under way at most.
    #[arg(long, value_parser = size, default_value = "10M")]
    pub(crate) max_backlog: u64,
    /// How many in a hundred operations read.
    #[arg(long, default_value_t = 50)]
    pub(crate) read_percent: u64,
    /// Bytes a second at most.
    #[arg(long, value_parser = size, default_value = "5M")]
    pub(crate) target_throughput: u64,
    /// Seconds.
    #[arg(long, default_value_t = 60)]
    pub(crate) run_length: u64,
    /// Operations begin at multiples of this.
    #[arg(long, value_parser = size, default_value = "1")]
    pub(crate) offset_align: u64,
}
