//! `cargo xtask torture`: long runs of the tests that prove that no acknowledged data is lost and no
//! reply is wrong.

use crate::against::{chaos_cluster, stock_cluster};
use crate::process::{cargo, succeed, workspace};
use crate::stock::{Cluster, Release};
use crate::suites::{self, Choice};
use crate::{Result, fuzzing};

/// Steps of one random script: many scripts find more than a long one, and are minimised faster.
const SCRIPT_STEPS: u64 = 5000;

/// The maximum ratio of an honest client's p99 latency for small reads with attackers to that without.
const SIEGE_RATIO: &str = "10";

/// The arguments of `cargo xtask torture`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often the server is killed.
    #[arg(long, default_value_t = 200)]
    kills: u64,
    /// How often the power of a server's disk fails, if FUSE can be mounted.
    #[arg(long, default_value_t = 200)]
    cuts: u64,
    /// Seconds for which a server is attacked in all known ways, beside clients that verify.
    #[arg(long, default_value_t = 600)]
    siege: u64,
    /// Number of simulated disks whose power is cut, or which fail.
    #[arg(long, default_value_t = 10_000)]
    disks: u64,
    /// Number of modelled clusters, whose behaviour is chosen by their seeds.
    #[arg(long, default_value_t = 100_000)]
    clusters: u64,
    /// Number of modelled file systems, in which capabilities must keep their promises.
    #[arg(long, default_value_t = 50_000)]
    file_systems: u64,
    /// Seconds for which a client works at full load, and must not grow.
    #[arg(long, default_value_t = 600)]
    endurance: u64,
    /// Seconds of faults in a stock cluster of three monitors and three OSDs with a client.
    #[arg(long, default_value_t = 1800)]
    chaos: u64,
    /// Seconds for which 64 stock clients use a server, while they and the server are killed.
    #[arg(long, default_value_t = 600)]
    crowd: u64,
    /// Steps of random scripts that also run on a stock cluster, for each of three kinds.
    #[arg(long, default_value_t = 200_000)]
    steps: u64,
    /// How often Ceph's random models run against the server, each with every store.
    #[arg(long, default_value_t = 20)]
    models: u64,
    /// How often gateways are stopped until their watches expire, while stock clients take the locks of
    /// their images.
    #[arg(long, default_value_t = 10)]
    gateway_stops: u64,
    /// For how long each fuzz target runs, in seconds.
    #[arg(long, default_value_t = 60)]
    fuzz: u64,
    /// The first seed: another one, another torture.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let seed = options.seed.to_string();
    if options.kills > 0 {
        println!("== {} kills", options.kills);
        let mut killing = cargo();
        killing.args(["test", "--release", "--package", "loligo", "--test", "torture", "--", "--nocapture"]);
        killing.env("LOLIGO_TORTURE_KILLS", options.kills.to_string()).env("LOLIGO_TORTURE_SEED", &seed);
        succeed(&mut killing)?;
    }
    if options.cuts > 0 {
        println!("== {} cuts of the power", options.cuts);
        let mut cutting = cargo();
        cutting.args(["test", "--release", "--package", "loligo", "--test", "power", "--", "--nocapture"]);
        cutting.env("LOLIGO_POWER_CUTS", options.cuts.to_string()).env("LOLIGO_POWER_SEED", &seed);
        succeed(&mut cutting)?;
    }
    if options.siege > 0 {
        println!("== a siege of {} s", options.siege);
        let mut siege = cargo();
        siege.args(["test", "--release", "--package", "loligo", "--test", "siege", "--", "--nocapture"]);
        siege.env("LOLIGO_SIEGE_SECONDS", options.siege.to_string()).env("LOLIGO_SIEGE_SEED", &seed);
        succeed(siege.env("LOLIGO_SIEGE_RATIO", SIEGE_RATIO))?;
    }
    if options.fuzz > 0 {
        println!("== fuzz targets, {} s each", options.fuzz);
        fuzzing::run(&fuzzing::Options::all(options.fuzz))?;
    }
    if options.disks > 0 {
        println!("== {} simulated disks", options.disks);
        let mut failing = cargo();
        failing.args(["test", "--release", "--package", "loligo-store-disk", "--lib"]);
        failing.env("LOLIGO_STORE_SEEDS", options.disks.to_string()).env("LOLIGO_STORE_SEED", &seed);
        succeed(&mut failing)?;
    }
    if options.clusters > 0 {
        println!("== {} modelled clusters", options.clusters);
        let mut simulated = cargo();
        simulated.args(["test", "--release", "--package", "loligo-rados", "--test", "simulated"]);
        simulated.args(["--", "--nocapture"]);
        simulated.env("LOLIGO_CLIENT_SEEDS", options.clusters.to_string()).env("LOLIGO_CLIENT_SEED", &seed);
        succeed(&mut simulated)?;
    }
    if options.file_systems > 0 {
        println!("== {} modelled file systems", options.file_systems);
        let mut simulated = cargo();
        simulated.args(["test", "--release", "--package", "loligo-fs-core", "--test", "simulated"]);
        simulated.args(["--", "--nocapture"]);
        simulated.env("LOLIGO_FS_SEEDS", options.file_systems.to_string()).env("LOLIGO_FS_SEED", &seed);
        succeed(&mut simulated)?;
    }
    if options.endurance > 0 {
        println!("== a client at full load for {} s", options.endurance);
        let mut long = cargo();
        long.args([
            "test",
            "--release",
            "--package",
            "loligo-server",
            "--test",
            "endurance",
            "--",
            "--nocapture",
        ]);
        succeed(long.env("LOLIGO_ENDURANCE_SECONDS", options.endurance.to_string()))?;
    }
    if options.chaos > 0 {
        println!("== chaos for {} s", options.chaos);
        let cluster = chaos_cluster(Release::Pacific)?;
        let mut chaos = cargo();
        chaos.args(["test", "--release", "--package", "loligo-rados", "--test", "chaos", "--"]);
        chaos.args(["--ignored", "--nocapture"]).env("LOLIGO_STOCK3_DIR", cluster.dir());
        chaos.env("LOLIGO_CHAOS_SEED", &seed).env("LOLIGO_CHAOS_SECONDS", options.chaos.to_string());
        succeed(&mut chaos)?;
        cluster.down()?;
    }
    if options.crowd > 0 || options.steps > 0 || options.gateway_stops > 0 {
        // This also installs the stock programs.
        let cluster = stock_cluster()?;
        if options.crowd > 0 {
            println!("== 64 stock clients for {} s", options.crowd);
            crowd(options)?;
        }
        if options.steps > 0 {
            println!("== {} steps on a stock cluster and here", options.steps);
            differential(options, &cluster)?;
        }
        if options.gateway_stops > 0 {
            println!("== gateways are stopped {} times", options.gateway_stops);
            gateways(options, &cluster)?;
        }
        cluster.down()?;
    }
    for run in 1..=options.models {
        println!("== Ceph's random models, {run} of {}", options.models);
        let choice = Choice { release: Release::Tentacle, name: Some("rados_model"), is_quick: false };
        let tally = suites::run(&choice)?;
        print!("{}", tally.shown());
        if tally.failures() > 0 {
            return Err(format!("{} models failed", tally.failures()).into());
        }
    }
    Ok(())
}

fn crowd(options: &Options) -> Result<()> {
    succeed(cargo().args(["build", "--release", "--package", "loligo"]))?;
    let mut crowd = cargo();
    crowd.args(["test", "--release", "--package", "loligo-server", "--test", "upheaval", "--"]);
    crowd.args(["--ignored", "--nocapture", "a_crowd_of_stock_clients"]);
    crowd.env("LOLIGO_BIN", workspace().join("target/release/loligo"));
    crowd.env("LOLIGO_CROWD_SECONDS", options.crowd.to_string()).env("LOLIGO_CROWD_CLIENTS", "64");
    succeed(crowd.env("LOLIGO_CROWD_SEED", options.seed.to_string()))
}

fn gateways(options: &Options, cluster: &Cluster) -> Result<()> {
    let mut stopping = cargo();
    stopping.args(["test", "--release", "--package", "loligo", "--test", "nbd_blocklist", "--"]);
    stopping.args(["--ignored", "--nocapture", "a_gateway_that_was_stopped"]);
    stopping.env("CEPH_CONF", cluster.conf()).env("LOLIGO_STOCK_CONF", cluster.conf());
    // The ordinary tests have the seed 1, with which they always wait equally long.
    stopping.env("LOLIGO_GATEWAY_SEED", (options.seed + 1).to_string());
    succeed(stopping.env("LOLIGO_GATEWAY_STOPS", options.gateway_stops.to_string()))
}

fn differential(options: &Options, cluster: &Cluster) -> Result<()> {
    let mut scripts = cargo();
    scripts.args(["test", "--release", "--package", "loligo-server", "--test", "differential", "--"]);
    scripts.args(["--ignored", "--nocapture", "--test-threads=1"]);
    scripts.env("CEPH_CONF", cluster.conf()).env("LOLIGO_STOCK_CONF", cluster.conf());
    scripts.env("LOLIGO_DIFFERENTIAL_SEED", options.seed.to_string());
    scripts.env("LOLIGO_DIFFERENTIAL_STEPS", SCRIPT_STEPS.to_string());
    scripts.env("LOLIGO_DIFFERENTIAL_SEEDS", options.steps.div_ceil(SCRIPT_STEPS).to_string());
    succeed(&mut scripts)
}
