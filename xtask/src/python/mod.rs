//! `cargo xtask python`: the Python package as a wheel, and the public tests of Ceph's Python modules on it.

mod suites;
mod wheel;

use std::path::PathBuf;

use crate::Result;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Builds the wheel, with maturin, which pip fetches.
    Wheel {
        /// The folder for the wheel.
        dir: PathBuf,
        /// Builds without optimisation, in the time of a debug build.
        #[arg(long)]
        debug: bool,
        /// Installs the wheel in a new virtual environment, and tells how long a first test takes there.
        #[arg(long)]
        first_use: bool,
    },
    /// Runs the public tests of python3-rados and python3-rbd on the package, against Loligo's server and
    /// against a stock cluster.
    Suites {
        /// Runs only tests whose names match this expression of pytest's.
        #[arg(default_value = "")]
        name: String,
        /// Leaves the stock cluster out.
        #[arg(long)]
        only_ours: bool,
    },
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Wheel { dir, debug, first_use } => {
            let wheel = wheel::build(dir, *debug)?;
            if *first_use { wheel::first_use(&wheel) } else { Ok(()) }
        }
        Command::Suites { name, only_ours } => suites::run(name, *only_ours),
    }
}
