//! `cargo xtask test [PART [NAME]]`: runs all tests, or a part of them.

use std::path::PathBuf;
use std::process::Command;

use crate::against::{self, Kind};
use crate::process::{cargo, workspace};
use crate::stock::Release;
use crate::suites::{self, Choice};
use crate::totals::Totals;
use crate::{Result, tidy};

/// The crates that may have model checks: `tests/loom.rs`, which is empty without `--cfg loom`.
const LOOM_CRATES: [&str; 5] = ["cache", "fs-core", "lane", "lockstat", "logring"];

/// The number of simulated disks that lose power or fail: the disk store's tests take half a minute with
/// it on two cores.
const STORE_SEEDS: &str = "350";

/// The number of modelled clusters, whose behaviour is chosen by their seeds: three quarters of a minute
/// on two cores.
const CLIENT_SEEDS: &str = "1500";

/// For how long each of the sixteen fuzz targets gets mutations of its corpus (`fuzz/mutations.rs`): a minute
/// in all.
const FUZZ_SECONDS: &str = "4";

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

    /// The kinds of tests against a release that are chosen.
    fn against(&self, release: Release) -> Vec<Kind> {
        let one = if release == Release::Pacific { Kind::All } else { Kind::Releases };
        // The stock client that shares the file system with ours is the one that is installed here.
        let fs = (release == Release::Pacific).then_some((Part::Stock, Kind::Fs));
        let all = [(Part::Stock, one), (Part::Chaos, Kind::Three)].into_iter().chain(fs);
        all.filter(|(part, _)| self.has(*part)).map(|(_, kind)| kind).collect()
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
    let others: &[Release] = if options.all_releases { &[Release::Reef, Release::Tentacle] } else { &[] };
    for release in [Release::Pacific].iter().chain(others) {
        // Chaos has the machine for itself: its servers are killed, and must be found dead in time.
        let kinds = options.against(*release);
        let (alone, shared): (Vec<Kind>, Vec<Kind>) =
            kinds.into_iter().partition(|kind| *kind == Kind::Three);
        for kinds in [shared, alone].iter().filter(|kinds| !kinds.is_empty()) {
            against::run(kinds, *release, options.name(), &mut totals)?;
        }
    }
    match options.part {
        Some(Part::Suites) => {
            totals.suites(&Choice { release: Release::Reef, ..options.suites() });
            if options.all_releases {
                totals.suites(&Choice { release: Release::Tentacle, ..options.suites() });
            }
        }
        None => totals.quick_suites(&Choice { release: Release::Reef, name: None, is_quick: true }),
        Some(_) => {}
    }
    totals.verdict()
}

fn units(options: &Options) -> Command {
    let mut units = cargo();
    units.args(["test", "--workspace", "--no-fail-fast"]).args(options.name());
    units.env("LOLIGO_STORE_SEEDS", STORE_SEEDS).env("LOLIGO_CLIENT_SEEDS", CLIENT_SEEDS);
    // The same mutations each time, unless LOLIGO_FUZZ_SEED says otherwise: no change is refused for a fault
    // that it did not bring. `torture` tries others.
    units.env("LOLIGO_FUZZ_SECONDS", FUZZ_SECONDS);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_chosen_with_its_kinds() {
        let of = |part, release| Options { part, ..Options::default() }.against(release);
        assert_eq!(of(None, Release::Pacific), [Kind::All, Kind::Three, Kind::Fs]);
        assert_eq!(of(None, Release::Reef), [Kind::Releases, Kind::Three]);
        assert_eq!(of(Some(Part::Chaos), Release::Pacific), [Kind::Three]);
        assert_eq!(of(Some(Part::Unit), Release::Pacific), []);
    }
}
