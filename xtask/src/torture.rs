//! `cargo xtask torture`: the tests that prove that nothing acknowledged is lost, for long.

use crate::Result;
use crate::process::{cargo, succeed};

/// What `cargo xtask torture` takes.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often the server is killed.
    #[arg(long, default_value_t = 200)]
    kills: u64,
    /// Simulated disks whose power is cut, or which fail.
    #[arg(long, default_value_t = 10_000)]
    disks: u64,
    /// The first seed: another one, another torture.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let Options { kills, disks, seed } = options;
    println!("== {kills} kills");
    let mut killing = cargo();
    killing.args(["test", "--release", "--package", "loligo", "--test", "torture", "--", "--nocapture"]);
    killing.env("LOLIGO_TORTURE_KILLS", kills.to_string()).env("LOLIGO_TORTURE_SEED", seed.to_string());
    succeed(&mut killing)?;
    println!("== {disks} simulated disks");
    let mut failing = cargo();
    failing.args(["test", "--release", "--package", "loligo-store", "disk::"]);
    failing.env("LOLIGO_STORE_SEEDS", disks.to_string()).env("LOLIGO_STORE_SEED", seed.to_string());
    succeed(&mut failing)
}
