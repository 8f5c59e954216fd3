//! `cargo xtask test [PART [NAME]]`: runs all tests, or a part of them.

use std::path::PathBuf;
use std::process::Command;

use crate::against::{self, Kind};
use crate::process::{cargo, workspace};
use crate::stock::Release;
use crate::suites::{self, By, Choice, Extent};
use crate::totals::Totals;
use crate::{Result, tidy};

/// The crates that may have model checks: `tests/loom.rs`, which is empty without `--cfg loom`.
const LOOM_CRATES: [&str; 6] = ["cache", "flight", "fs-core", "lane", "lockstat", "logring"];

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
    /// Runs only the suites that take a few minutes; with `--mount`, fsx with fewer seeds, and with
    /// `--without-msgr2` also a minute of chaos only.
    #[arg(long)]
    quick: bool,
    /// Runs the suites that need a mounted file system (pjdfstest, fsx, Ceph's workunits) instead.
    #[arg(long)]
    mount: bool,
    /// Runs chaos and the suites by version 1 of the messenger.
    #[arg(long)]
    without_msgr2: bool,
    /// Runs the suites without cephx; by version 1 of the messenger no message is then signed.
    #[arg(long)]
    without_cephx: bool,
    /// Runs programs that exist on Loligo's C libraries, instead of Ceph's own test programs.
    #[arg(long)]
    capi: bool,
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
    /// Tests against clusters whose servers are killed.
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
        let Self { without_msgr2, without_cephx, .. } = *self;
        let extent = if self.quick { Extent::Quick } else { Extent::All };
        let by = By { without_msgr2, without_cephx };
        Choice { release: Release::Reef, name: self.name(), extent, by }
    }

    /// The kinds of tests against a release that are chosen.
    fn against(&self, release: Release) -> Vec<Kind> {
        let one = if release == Release::Pacific { Kind::All } else { Kind::Releases };
        let is_here = release == Release::Pacific;
        let three = match (self.without_msgr2, self.quick) {
            (true, true) => Kind::ThreeV1Quick,
            (true, false) => Kind::ThreeV1,
            (false, _) => Kind::Three,
        };
        let all =
            [(Part::Stock, one), (Part::Chaos, three), (Part::Stock, Kind::Fs), (Part::Stock, Kind::V1)];
        let here =
            [(Part::Stock, Kind::Ranks), (Part::Chaos, Kind::ThreeV1Quick), (Part::Chaos, Kind::FsChaos)];
        // With that option the first chaos is by version 1 already, and file systems have none.
        let here =
            here.into_iter().filter(|(part, _)| is_here && !(self.without_msgr2 && *part == Part::Chaos));
        let all = all.into_iter().chain(here);
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
        let kinds = options.against(*release);
        let (alone, shared): (Vec<Kind>, Vec<Kind>) = kinds.into_iter().partition(|kind| kind.is_alone());
        for kinds in std::iter::once(&shared[..]).chain(alone.chunks(1)).filter(|kinds| !kinds.is_empty()) {
            against::run(kinds, *release, options.name(), &mut totals)?;
        }
    }
    match options.part {
        Some(Part::Suites) if options.mount => {
            for release in [Release::Pacific].iter().chain(others) {
                totals.mounted(*release, options.name(), options.quick)?;
            }
        }
        Some(Part::Suites) if options.capi => totals.programs_on_capi(&options.suites()),
        Some(Part::Suites) => {
            totals.suites(&Choice { release: Release::Reef, ..options.suites() });
            if options.all_releases {
                totals.suites(&Choice { release: Release::Tentacle, ..options.suites() });
            }
        }
        None => {
            let quick = Choice { name: None, extent: Extent::Quick, ..options.suites() };
            totals.quick_suites(&quick);
            let by_v1 = By { without_msgr2: true, ..quick.by };
            totals.quick_suites(&Choice { extent: Extent::Short, by: by_v1, ..quick });
            totals.quick_programs_on_capi(&quick);
        }
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
        let of_fs = [Kind::Fs, Kind::V1, Kind::Ranks, Kind::ThreeV1Quick, Kind::FsChaos];
        let all = [Kind::All, Kind::Three];
        assert_eq!(of(None, Release::Pacific), [&all[..], &of_fs].concat());
        assert_eq!(of(None, Release::Reef), [Kind::Releases, Kind::Three, Kind::Fs, Kind::V1]);
        let chaos = [Kind::Three, Kind::ThreeV1Quick, Kind::FsChaos];
        assert_eq!(of(Some(Part::Chaos), Release::Pacific), chaos);
        let by_v1 = |quick| {
            let part = Some(Part::Chaos);
            Options { part, without_msgr2: true, quick, ..Options::default() }.against(Release::Pacific)
        };
        assert_eq!(by_v1(false), [Kind::ThreeV1]);
        assert_eq!(by_v1(true), [Kind::ThreeV1Quick]);
        assert_eq!(of(Some(Part::Unit), Release::Pacific), []);
    }
}
