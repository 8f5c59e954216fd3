//! Developer commands: `cargo xtask test | lint | cycles | bench | torture | fuzz | miri | ci | dist |
//! python | stock-ceph`.
//!
//! The commands set up what they need. They require a Rust toolchain and, for comparisons with stock
//! Ceph, apt.

mod against;
mod api;
mod audit;
mod bench;
mod compat;
mod cycles;
mod dist;
mod failures;
mod fuzzing;
mod headers;
mod libs;
mod lint;
mod miri;
mod outside;
mod process;
mod programs;
mod pybind;
mod python;
mod slowest;
mod stock;
mod suites;
mod test;
mod tidy;
mod torture;
mod totals;
mod verdicts;
mod watched;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The result of a command. The error is meant for a person.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Developer commands of Loligo")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs all tests: unit and property, loom, and against stock Ceph (installed through apt where
    /// possible).
    Test(test::Options),
    /// Checks formatting, clippy, documentation, and the project's own rules.
    Lint(lint::Options),
    /// Shows the import cycles between the files of a crate, with the imported names.
    Cycles {
        /// Part of the folder of the crates to show.
        #[arg(default_value = "")]
        crates: String,
    },
    /// Compares the public API of the crates that others may build on with its lists in docs/api.
    Api(api::Options),
    /// Measures stock Ceph and Loligo side by side, in one run.
    Bench(bench::Options),
    /// Loads a file system through libcephfs or a mounted directory; for `bench`.
    #[command(hide = true)]
    FsLoad(bench::LoadOptions),
    /// Kills servers and cuts the power of simulated disks, for long; `test` does it briefly.
    Torture(torture::Options),
    /// Runs fuzz targets under libFuzzer, each for a while.
    Fuzz(fuzzing::Options),
    /// Has Miri look for undefined behaviour in the crates with unsafe code of their own; needs a nightly
    /// toolchain.
    Miri,
    /// Runs the checks of CI: test, then lint.
    Ci,
    /// Builds what is handed out.
    Dist(dist::Options),
    /// The Python package.
    Python {
        #[command(subcommand)]
        command: python::Command,
    },
    /// Starts and stops a stock Ceph cluster on loopback.
    StockCeph {
        #[command(subcommand)]
        command: stock::Command,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Test(options) => test::run(&options),
        Command::Lint(options) => lint::run(&options),
        Command::Cycles { crates } => cycles::show(tidy::folders(), &crates),
        Command::Api(options) => api::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::FsLoad(options) => bench::run_load(&options),
        Command::Torture(options) => torture::run(&options),
        Command::Fuzz(options) => fuzzing::run(&options),
        Command::Miri => miri::run(),
        Command::Ci => {
            test::run(&test::Options::default()).and_then(|()| lint::run(&lint::Options::default()))
        }
        Command::Dist(options) => dist::run(&options),
        Command::Python { command } => python::run(&command),
        Command::StockCeph { command } => stock::run(&command),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
