//! `cargo xtask torture`: long runs of the tests that prove that no acknowledged data is lost and no
//! reply is wrong.

use crate::against::{self, chaos_cluster, chaos_cluster_v1, fs_chaos_cluster, fs_cluster, stock_cluster};
use crate::process::{cargo, succeed, workspace};
use crate::stock::{Cluster, Release};
use crate::suites::{self, By, Choice, Extent};
use crate::totals::tests_pass;
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
    /// Number of seeds of lossless sessions over a simulated network, for each version of the messenger.
    #[arg(long, default_value_t = 20_000)]
    sessions: u64,
    /// Number of modelled file systems, in which capabilities must keep their promises.
    #[arg(long, default_value_t = 50_000)]
    file_systems: u64,
    /// Seconds for which a client works at full load, and must not grow.
    #[arg(long, default_value_t = 600)]
    endurance: u64,
    /// Seconds of faults in a stock cluster of three monitors and three OSDs with a client, for each version
    /// of the messenger.
    #[arg(long, default_value_t = 1800)]
    chaos: u64,
    /// Seconds of faults in a stock cluster of two ranks and three OSDs with a client of its file system.
    #[arg(long, default_value_t = 1800)]
    fs_chaos: u64,
    /// Seconds for which 64 stock clients use a server, while they and the server are killed.
    #[arg(long, default_value_t = 600)]
    crowd: u64,
    /// Steps of random scripts that also run on a stock cluster, for each of three kinds.
    #[arg(long, default_value_t = 200_000)]
    steps: u64,
    /// Random calls of a file system that also go through libcephfs, to the first difference. No other
    /// command runs them.
    #[arg(long, default_value_t = 0)]
    calls: u64,
    /// How often Ceph's random models run against the server, each with every store.
    #[arg(long, default_value_t = 20)]
    models: u64,
    /// Whether kernels' clients run in all modes of the messenger, and the quick suites by its version 1.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    versions: bool,
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
        tests_pass(&mut killing)?;
    }
    if options.cuts > 0 {
        println!("== {} cuts of the power", options.cuts);
        let mut cutting = cargo();
        cutting.args(["test", "--release", "--package", "loligo", "--test", "power", "--", "--nocapture"]);
        cutting.env("LOLIGO_POWER_CUTS", options.cuts.to_string()).env("LOLIGO_POWER_SEED", &seed);
        tests_pass(&mut cutting)?;
    }
    if options.siege > 0 {
        println!("== a siege of {} s", options.siege);
        let mut siege = cargo();
        siege.args(["test", "--release", "--package", "loligo", "--test", "siege", "--", "--nocapture"]);
        siege.env("LOLIGO_SIEGE_SECONDS", options.siege.to_string()).env("LOLIGO_SIEGE_SEED", &seed);
        tests_pass(siege.env("LOLIGO_SIEGE_RATIO", SIEGE_RATIO))?;
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
        tests_pass(&mut failing)?;
    }
    if options.clusters > 0 {
        println!("== {} modelled clusters", options.clusters);
        let mut simulated = cargo();
        simulated.args(["test", "--release", "--package", "loligo-rados", "--test", "simulated"]);
        simulated.args(["--", "--nocapture"]);
        simulated.env("LOLIGO_CLIENT_SEEDS", options.clusters.to_string()).env("LOLIGO_CLIENT_SEED", &seed);
        tests_pass(&mut simulated)?;
    }
    if options.sessions > 0 {
        println!("== {} simulated networks, with both versions of the messenger", options.sessions);
        let mut simulated = cargo();
        simulated.args(["test", "--release", "--package", "loligo-msgr", "--lib"]);
        simulated.args(["lossless_sessions_of", "--", "--nocapture"]);
        simulated.env("LOLIGO_SESSION_SEEDS", options.sessions.to_string()).env("LOLIGO_SESSION_SEED", &seed);
        tests_pass(&mut simulated)?;
    }
    if options.file_systems > 0 {
        println!("== {} modelled file systems", options.file_systems);
        let mut simulated = cargo();
        simulated.args(["test", "--release", "--package", "loligo-fs-core", "--test", "simulated"]);
        simulated.args(["--", "--nocapture"]);
        simulated.env("LOLIGO_FS_SEEDS", options.file_systems.to_string()).env("LOLIGO_FS_SEED", &seed);
        tests_pass(&mut simulated)?;
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
        tests_pass(long.env("LOLIGO_ENDURANCE_SECONDS", options.endurance.to_string()))?;
    }
    for (version, start) in [("msgr2", chaos_cluster as fn(Release) -> _), ("version 1", chaos_cluster_v1)] {
        if options.chaos == 0 {
            break;
        }
        println!("== chaos for {} s, by {version} of the messenger", options.chaos);
        let cluster = start(Release::Pacific)?;
        let mut chaos = cargo();
        chaos.args(["test", "--release", "--package", "loligo-rados", "--test", "chaos", "--"]);
        chaos.args(["--ignored", "--nocapture"]).env("LOLIGO_STOCK3_DIR", cluster.dir());
        chaos.env("LOLIGO_CHAOS_SEED", &seed).env("LOLIGO_CHAOS_SECONDS", options.chaos.to_string());
        tests_pass(&mut chaos)?;
        cluster.down()?;
    }
    if options.fs_chaos > 0 {
        println!("== chaos in a file system for {} s", options.fs_chaos);
        let cluster = fs_chaos_cluster(Release::Pacific)?;
        let mut chaos = cargo();
        chaos.args(["test", "--release", "--package", "loligo-fs", "--test", "stock_chaos", "--"]);
        chaos.args(["--ignored", "--nocapture"]).env("LOLIGO_STOCK_DIR", cluster.dir());
        chaos.env("LOLIGO_CHAOS_SEED", &seed).env("LOLIGO_CHAOS_SECONDS", options.fs_chaos.to_string());
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
    if options.calls > 0 {
        println!("== {} calls through libcephfs and here", options.calls);
        file_systems_alike(options)?;
    }
    for run in 1..=options.models {
        println!("== Ceph's random models, {run} of {}", options.models);
        let name = Some("rados_model");
        let choice = Choice { release: Release::Tentacle, name, extent: Extent::All, by: By::default() };
        suites_pass(&choice)?;
    }
    if options.versions {
        kernels()?;
        suites_by_version_1()?;
    }
    Ok(())
}

/// Linux's client of images in all modes, with each kernel.
fn kernels() -> Result<()> {
    println!("== kernels' clients of images, in every mode");
    let mut kernels = cargo();
    kernels.args(["test", "--release", "--package", "loligo", "--test", "krbd_kernel", "--"]);
    tests_pass(kernels.args(["--ignored", "--nocapture", "--test-threads=1", "in_torture"]))
}

/// The quick suites of both releases, with messages that are signed and not signed.
fn suites_by_version_1() -> Result<()> {
    for release in [Release::Reef, Release::Tentacle] {
        for without_cephx in [false, true] {
            let signed = if without_cephx { "not signed" } else { "signed" };
            println!("== suites of {} by version 1 of the messenger, {signed}", release.version());
            let by = By { without_msgr2: true, without_cephx };
            suites_pass(&Choice { release, name: None, extent: Extent::Quick, by })?;
        }
    }
    Ok(())
}

fn suites_pass(choice: &Choice<'_>) -> Result<()> {
    let tally = suites::run(choice)?;
    print!("{}", tally.shown());
    match tally.failures() {
        0 => Ok(()),
        failures => Err(format!("{failures} tests failed").into()),
    }
}

fn crowd(options: &Options) -> Result<()> {
    succeed(cargo().args(["build", "--release", "--package", "loligo"]))?;
    let mut crowd = cargo();
    crowd.args(["test", "--release", "--package", "loligo-server", "--test", "upheaval", "--"]);
    crowd.args(["--ignored", "--nocapture", "a_crowd_of_stock_clients"]);
    crowd.env("LOLIGO_BIN", workspace().join("target/release/loligo"));
    crowd.env("LOLIGO_CROWD_SECONDS", options.crowd.to_string()).env("LOLIGO_CROWD_CLIENTS", "64");
    tests_pass(crowd.env("LOLIGO_CROWD_SEED", options.seed.to_string()))
}

fn gateways(options: &Options, cluster: &Cluster) -> Result<()> {
    let mut stopping = cargo();
    stopping.args(["test", "--release", "--package", "loligo", "--test", "nbd_blocklist", "--"]);
    stopping.args(["--ignored", "--nocapture", "a_gateway_that_was_stopped"]);
    stopping.env("CEPH_CONF", cluster.conf()).env("LOLIGO_STOCK_CONF", cluster.conf());
    // The ordinary tests have the seed 1, with which they always wait equally long.
    stopping.env("LOLIGO_GATEWAY_SEED", (options.seed + 1).to_string());
    tests_pass(stopping.env("LOLIGO_GATEWAY_STOPS", options.gateway_stops.to_string()))
}

fn differential(options: &Options, cluster: &Cluster) -> Result<()> {
    let mut scripts = cargo();
    scripts.args(["test", "--release", "--package", "loligo-server", "--test", "differential", "--"]);
    scripts.args(["--ignored", "--nocapture", "--test-threads=1"]);
    scripts.env("CEPH_CONF", cluster.conf()).env("LOLIGO_STOCK_CONF", cluster.conf());
    scripts.env("LOLIGO_DIFFERENTIAL_SEED", options.seed.to_string());
    scripts.env("LOLIGO_DIFFERENTIAL_STEPS", SCRIPT_STEPS.to_string());
    scripts.env("LOLIGO_DIFFERENTIAL_SEEDS", options.steps.div_ceil(SCRIPT_STEPS).to_string());
    tests_pass(&mut scripts)
}

fn file_systems_alike(options: &Options) -> Result<()> {
    let cluster = fs_cluster(Release::Pacific)?;
    let mut calls = cargo();
    calls.args(["test", "--release", "--package", "loligo-fs", "--test", "stock_differential", "--"]);
    calls.args(["--ignored", "--nocapture"]).envs(against::variables_of_fs(&cluster));
    calls.env("LOLIGO_DIFFERENTIAL_SEED", options.seed.to_string());
    tests_pass(calls.env("LOLIGO_DIFFERENTIAL_CALLS", options.calls.to_string()))?;
    cluster.down()
}
