//! `cargo xtask test [PART [NAME]]`: runs all tests, or a part of them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use clap::ValueEnum as _;

use crate::Result;
use crate::failures::Failures;
use crate::process::{cargo, workspace};
use crate::slowest::Slowest;
use crate::stock::{Cluster, NoLink, Release, Store, UpOptions};
use crate::suites::{self, Choice};
use crate::{tidy, watched};

/// The crates that may have model checks: `tests/loom.rs`, which is empty without `--cfg loom`.
const LOOM_CRATES: [&str; 5] = ["cache", "fs-core", "lane", "lockstat", "logring"];

/// The number of simulated disks that lose power or fail: the disk store's tests take half a minute with
/// it on two cores.
const STORE_SEEDS: &str = "350";

/// The number of modelled clusters, whose behaviour is chosen by their seeds: three quarters of a minute
/// on two cores.
const CLIENT_SEEDS: &str = "1500";

/// What a test that this machine cannot run says on standard error, before the reason.
const SKIPPED: &str = "skipped: ";

#[derive(Default)]
struct Totals {
    passed: u64,
    failed: u64,
    failures: Failures,
    left_out: Vec<String>,
    /// Why tests did nothing, which this machine need not be able to run, and how many for each reason.
    skipped: BTreeMap<String, u64>,
    /// Tests that are among those that passed, since they ended well, and did nothing.
    did_nothing: u64,
    slowest: Slowest,
    /// What suites found, for the end.
    found: Vec<String>,
}

/// The arguments of `cargo xtask test`.
#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// Runs only this part.
    #[arg(value_enum)]
    part: Option<Part>,
    /// Runs only tests, or suite programs, whose names contain this.
    #[arg(requires = "part")]
    name: Option<String>,
    /// Also tests against Ceph 18.2 and 20.2, which debootstrap fetches the first time.
    #[arg(long)]
    all_releases: bool,
    /// Runs only the suites that take a few minutes.
    #[arg(long)]
    quick: bool,
    /// Writes docs/compatibility.md from the list of suites, stock's names and the sources, and runs nothing.
    #[arg(long)]
    write_page: bool,
}

/// A part of the tests that can run by itself.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Unit and property tests.
    Unit,
    /// Loom models.
    Loom,
    /// Tests against one stock cluster.
    Stock,
    /// Tests against three monitors and three OSDs.
    Chaos,
    /// Ceph's own test programs against Loligo's server.
    Suites,
}

impl Options {
    fn has(&self, part: Part) -> bool {
        self.part.is_none_or(|chosen| chosen == part)
    }

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn suites(&self) -> Choice<'_> {
        Choice { release: Release::Reef, name: self.name(), is_quick: self.quick }
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    if options.write_page {
        return suites::write_page();
    }
    let mut totals = Totals::default();
    if options.has(Part::Unit) {
        totals.cargo_test(&mut units(options), "unit and property tests")?;
    }
    if options.has(Part::Loom) && LOOM_CRATES.iter().any(|name| models_of(name).exists()) {
        totals.cargo_test(loom().args(options.name()), "loom models")?;
    }
    for against in AGAINST.iter().filter(|against| against.is_chosen(options)) {
        match (against.cluster)() {
            Ok(cluster) => {
                totals.cargo_test((against.command)(&cluster)?.args(options.name()), against.what)?;
                cluster.down()?;
            }
            Err(why) => totals.left_out.push(format!("{}: {why}", against.what)),
        }
    }
    match options.part {
        Some(Part::Suites) => {
            totals.suites(&Choice { release: Release::Reef, ..options.suites() });
            if options.all_releases {
                totals.suites(&Choice { release: Release::Tentacle, ..options.suites() });
            }
        }
        None => totals.quick_suites(),
        Some(_) => {}
    }
    totals.verdict()
}

/// Tests against a cluster of one release.
struct Against {
    what: &'static str,
    part: Part,
    /// Runs only with `--all-releases`.
    is_other_release: bool,
    cluster: fn() -> Result<Cluster>,
    command: fn(&Cluster) -> Result<Command>,
}

const AGAINST: [Against; 6] = [
    Against {
        what: "tests against stock Ceph",
        part: Part::Stock,
        is_other_release: false,
        cluster: stock_cluster,
        command: interop,
    },
    Against {
        what: "three monitors and three OSDs of stock Ceph",
        part: Part::Chaos,
        is_other_release: false,
        cluster: || chaos_cluster(Release::Pacific),
        command: chaos,
    },
    Against {
        what: "Ceph 18.2",
        part: Part::Stock,
        is_other_release: true,
        cluster: || cluster_of(Release::Reef),
        command: releases,
    },
    Against {
        what: "three monitors and three OSDs of Ceph 18.2",
        part: Part::Chaos,
        is_other_release: true,
        cluster: || chaos_cluster(Release::Reef),
        command: chaos,
    },
    Against {
        what: "Ceph 20.2",
        part: Part::Stock,
        is_other_release: true,
        cluster: || cluster_of(Release::Tentacle),
        command: releases,
    },
    Against {
        what: "three monitors and three OSDs of Ceph 20.2",
        part: Part::Chaos,
        is_other_release: true,
        cluster: || chaos_cluster(Release::Tentacle),
        command: chaos,
    },
];

impl Against {
    fn is_chosen(&self, options: &Options) -> bool {
        options.has(self.part) && (options.all_releases || !self.is_other_release)
    }
}

fn units(options: &Options) -> Command {
    let mut units = cargo();
    units.args(["test", "--workspace", "--no-fail-fast"]).args(options.name());
    units.env("LOLIGO_STORE_SEEDS", STORE_SEEDS).env("LOLIGO_CLIENT_SEEDS", CLIENT_SEEDS);
    units
}

/// The loom models. They have a target folder of their own: otherwise cargo would rebuild everything
/// whenever the flag changes.
fn loom() -> Command {
    let mut command = cargo();
    command.args(["test", "--release", "--test", "loom", "--target-dir", "target/loom"]);
    for name in LOOM_CRATES.iter().filter(|name| models_of(name).exists()) {
        command.args(["-p", &format!("loligo-{name}")]);
    }
    command.env("RUSTFLAGS", "--cfg loom");
    command
}

fn models_of(name: &str) -> PathBuf {
    workspace().join(tidy::folder_of(name).unwrap_or("crates")).join("tests/loom.rs")
}

/// The ignored tests, with environment variables for the cluster and for the program, which has been
/// built with the tests.
fn interop(cluster: &Cluster) -> Result<Command> {
    let mut command = cargo();
    // One test at a time in each binary: several restart servers or count the contents of a pool.
    command.args(["test", "--workspace", "--no-fail-fast", "--", "--ignored", "--test-threads=1"]);
    command.args(["--skip", THREE_OSDS]);
    // Ceph's own programs, and tests that replace one, read CEPH_CONF.
    command
        .env("CEPH_CONF", cluster.conf())
        .env("LOLIGO_STOCK_CONF", cluster.conf())
        .env("LOLIGO_STOCK_DIR", cluster.dir());
    command.env("LOLIGO_BIN", workspace().join("target/debug/loligo"));
    Ok(command)
}

/// The part of their names that marks tests for three OSDs.
const THREE_OSDS: &str = "in_chaos";

/// The ignored tests that need three OSDs. Tests the whole workspace: for a single package cargo would
/// rebuild much of it.
fn chaos(cluster: &Cluster) -> Result<Command> {
    let mut command = cargo();
    command.args(["test", "--workspace", "--test", "chaos", "--", "--ignored", "--nocapture"]);
    command.env("LOLIGO_STOCK3_DIR", cluster.dir());
    Ok(command)
}

/// The tests of programs and clusters of another release.
fn releases(cluster: &Cluster) -> Result<Command> {
    let mut command = cargo();
    command.args(["test", "--workspace", "--test", "releases", "--", "--ignored", "--test-threads=1"]);
    command.env("LOLIGO_STOCK_DIR", cluster.dir());
    Ok(command)
}

/// Starts a cluster of Ceph 16.2 in a temporary directory.
pub(crate) fn stock_cluster() -> Result<Cluster> {
    cluster_of(Release::Pacific)
}

fn cluster_of(release: Release) -> Result<Cluster> {
    Cluster::up(&dir_of(release, "one"), &UpOptions { release, ..UpOptions::default() })
}

/// Starts a cluster whose parts can fail: its OSDs keep acknowledged data, and, if possible, it has a
/// network of its own.
pub(crate) fn chaos_cluster(release: Release) -> Result<Cluster> {
    let options = UpOptions { release, osds: 3, mons: 3, store: Store::Bluestore, ..UpOptions::default() };
    let dir = dir_of(release, "three");
    match Cluster::up(&dir, &UpOptions { apart: true, ..options.clone() }) {
        Err(e) if e.is::<NoLink>() => {
            println!("the network is not cut: {e}");
            Cluster::up(&dir, &options)
        }
        done => done,
    }
}

fn dir_of(release: Release, what: &str) -> PathBuf {
    let name = release.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    std::env::temp_dir().join(format!("loligo-stock.{}.{name}.{what}", std::process::id()))
}

impl Totals {
    /// Runs a test command, shows its output and adds up its results; a test program that hangs counts
    /// as failed. If the command fails without a failed test (a build error), this is an error.
    fn cargo_test(&mut self, command: &mut Command, what: &str) -> Result<()> {
        println!("== {what}");
        let begun = Instant::now();
        let failed_before = self.failed;
        let ended = watched::run(command, |line| {
            self.failures.line(line);
            self.slowest.line(line);
            self.count(line);
        })?;
        self.failed += ended.hung;
        if !ended.is_success && self.failed == failed_before {
            return Err(format!("{what}: cargo failed, and no test did").into());
        }
        println!("== {what}: {} s", begun.elapsed().as_secs());
        Ok(())
    }

    /// Runs Ceph's own test programs of a release.
    fn suites(&mut self, choice: &Choice<'_>) {
        if let Err(why) = self.try_suites(choice) {
            self.left_out.push(format!("suites of Ceph {}: {why}", choice.release.version()));
        }
    }

    /// Runs the quick ones of Ceph's own test programs. If the release cannot be installed on this
    /// machine, they are skipped.
    fn quick_suites(&mut self) {
        let choice = Choice { release: Release::Reef, name: None, is_quick: true };
        if let Err(why) = self.try_suites(&choice) {
            self.skip(&format!("Ceph's own test programs (suites --quick): {why}"));
        }
    }

    fn try_suites(&mut self, choice: &Choice<'_>) -> Result<()> {
        let what = format!("suites of Ceph {}", choice.release.version());
        println!("== {what}");
        let begun = Instant::now();
        let tally = suites::run(choice)?;
        self.passed += tally.passed;
        self.failed += tally.failures();
        self.found.push(tally.shown());
        tally.times().for_each(|(took, suite)| self.slowest.add(took, suite));
        println!("== {what}: {} s", begun.elapsed().as_secs());
        Ok(())
    }

    fn verdict(&self) -> Result<()> {
        print!("{}", self.failures.repeated());
        for text in &self.found {
            print!("{text}");
        }
        for suite in &self.left_out {
            println!("left out: {suite}");
        }
        print!("{}", self.slowest.shown());
        for (why, count) in &self.skipped {
            println!("{count} skipped: {why}");
        }
        let skipped: u64 = self.skipped.values().sum();
        println!("{} passed, {} failed, {skipped} skipped", self.passed(), self.failed);
        if self.failed > 0 {
            return Err(format!("{} tests failed", self.failed).into());
        }
        if !self.left_out.is_empty() && std::env::var_os("CI").is_some() {
            return Err("in CI no suite may be left out".into());
        }
        Ok(())
    }

    fn passed(&self) -> u64 {
        self.passed.saturating_sub(self.did_nothing)
    }

    fn skip(&mut self, why: &str) {
        *self.skipped.entry(why.to_owned()).or_default() += 1;
    }

    /// Adds a line such as `test result: ok. 13 passed; 0 failed; 2 ignored; …`, or `skipped: why` of a test
    /// that does nothing on this machine. Such a test has passed for its program.
    fn count(&mut self, line: &str) {
        // Its name may stand before it.
        if let Some((_, why)) = line.split_once(SKIPPED) {
            self.skip(why);
            self.did_nothing += 1;
        }
        let Some(result) = line.strip_prefix("test result: ") else {
            return;
        };
        let words: Vec<&str> = result.split_whitespace().collect();
        for pair in words.windows(2) {
            match (pair[0].parse::<u64>(), pair[1].trim_end_matches(';')) {
                (Ok(n), "passed") => self.passed += n,
                (Ok(n), "failed") => self.failed += n,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_added_up() {
        let mut totals = Totals::default();
        totals.count(
            "test result: ok. 13 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.1s",
        );
        totals.count("test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out");
        totals.count("test other::passed ... ok");
        assert_eq!((totals.passed, totals.failed), (14, 2));
        totals.count("skipped: no /dev/fuse");
        totals.count("test power ... skipped: no /dev/fuse");
        assert_eq!(totals.passed(), 12, "what was skipped has not passed");
        assert_eq!(totals.skipped, BTreeMap::from([("no /dev/fuse".to_owned(), 2)]));
    }
}
