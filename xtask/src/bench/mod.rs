//! `cargo xtask bench`: measures stock Ceph and Loligo side by side, in one run, on one machine.
//!
//! Each workload runs in rounds. Within a round the sides alternate, so that a machine that slows down
//! does so for all. A figure is the median of its rounds; a ratio is the quotient of two medians. CPU
//! time is measured, not reported by the programs: it is read from `/proc` for servers and from the
//! finished child for clients.

mod disk;
mod figures;
mod files;
mod images;
mod kernels;
mod libraries;
mod measure;
mod memory;
mod nbd;
mod outqueue;
mod programs;
mod report;
mod sides;
mod transfers;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::process::{cargo, output_of, succeed, workspace};
use crate::stock::{Cluster, Store, UpOptions};

use disk::{MIXED, Mixed, Written};
use figures::Figures;
use images::{ImageLoad, Together};
use libraries::{Libraries, Ran};
use measure::median;
use programs::Program;
use report::Report;
use sides::{Client, Our, Server, Workload};
use transfers::{Rate, Transfer};

pub(crate) use files::{LoadOptions, run_load};

/// The arguments of `cargo xtask bench`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Seconds for each run of a workload.
    #[arg(long, default_value_t = 4)]
    seconds: u32,
    /// Number of rounds; each figure is their median.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Runs only workloads whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// The stock OSD's store; if it is on disk, so is Loligo's.
    #[arg(long, value_enum, default_value_t = Store::Memstore)]
    store: Store,
    /// Files of the rows about names in CephFS.
    #[arg(long, default_value_t = 5000)]
    files: u64,
    /// With the row of CephFS about 16 objects of 20 ms each: draws the operations of such a write into
    /// this file.
    #[arg(long, value_name = "SVG")]
    picture: Option<PathBuf>,
    /// Writes the rows of CephFS into this file, as a page of the documentation.
    #[arg(long, value_name = "MD")]
    page: Option<PathBuf>,
    /// Memory to touch first, in MiB; otherwise three quarters of what is free, 12 GiB at most.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(..1 << 30))]
    warm_memory: Option<u64>,
    /// Leaves out the mounts of CephFS, and what needs them: without FUSE there are none.
    #[arg(long)]
    without_mounts: bool,
    /// Measures this program, instead of building one.
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Runs programs on the libraries in this folder (`cargo xtask dist --libs DIR`), instead of building
    /// some.
    #[arg(long, value_name = "DIR")]
    libs: Option<PathBuf>,
    /// Has servers and clients of both sides speak version 1 of the messenger alone.
    #[arg(long)]
    without_msgr2: bool,
    /// The file for the figures as JSON.
    #[arg(long, default_value = "target/bench.json")]
    json: PathBuf,
}

/// The pairs of client and server that are compared.
const PAIRS: [(Client, Server); 4] = [
    (Client::Stock, Server::Stock),
    (Client::Loligo, Server::Loligo),
    (Client::Stock, Server::Loligo),
    (Client::Loligo, Server::Stock),
];

/// The servers for a stock program.
const SERVERS: [(Client, Server); 2] = [(Client::Stock, Server::Stock), (Client::Stock, Server::Loligo)];

pub(crate) fn run(options: &Options) -> Result<()> {
    let loligo = options.program.clone().map_or_else(build_release, Ok)?;
    let (on_disk, msgr2) = (options.store != Store::Memstore, !options.without_msgr2);
    let our = Our { program: &loligo, on_disk, msgr2 };
    let dir = tempdir()?;
    let mut report = Report::new(&release()?, options.store, msgr2, options.seconds, options.rounds);
    measure::warm_memory(options.warm_memory)?;
    println!("{}\n", report.heading());
    let bench = Bench { options, our, dir: &dir };
    let measured = bench.all(&mut report);
    // Of a run that fails half-way the rows that have come are kept.
    let json = workspace().join(&options.json);
    let kept = std::fs::write(&json, report.json());
    println!("figures of {} rows: {}", report.rows(), json.display());
    if let Some(page) = options.page.as_ref().filter(|_| measured.is_ok()) {
        std::fs::write(page, report.cephfs_page())?;
    }
    let cleared = std::fs::remove_dir_all(&dir);
    // The first failure is told: the others may follow from it.
    measured?;
    kept?;
    Ok(cleared?)
}

/// One run of all chosen measurements.
struct Bench<'a> {
    options: &'a Options,
    our: Our<'a>,
    dir: &'a Path,
}

impl Bench<'_> {
    fn all(&self, report: &mut Report) -> Result<()> {
        let Options { rounds, seconds, .. } = *self.options;
        self.workloads(report)?;
        self.programs(report)?;
        self.transfers(report)?;
        self.images(report)?;
        self.libraries(report)?;
        self.file_systems(report)?;
        if self.our.on_disk {
            self.disk(report)?;
        }
        if wanted(self.options, "serve") {
            report.serve(memory::startup_and_idle(&self.our, self.dir, rounds)?);
        }
        if wanted(self.options, nbd::NAME) {
            report.nbd(nbd::compare(self.our.program, self.dir, rounds, seconds)?);
        }
        if wanted(self.options, "out-queue") {
            report.out_queue(outqueue::compare(self.our.program, rounds)?);
        }
        if self.options.only.is_some() && wanted(self.options, kernels::NAME) {
            kernels::print(self.our.program)?;
        }
        Ok(())
    }

    fn workloads(&self, report: &mut Report) -> Result<()> {
        let others = if self.our.on_disk { Workload::ON_DISK } else { Workload::COLD };
        for workload in Workload::ALL.iter().chain(&others).filter(|w| wanted(self.options, w.name())) {
            let rounds = self.rounds(workload.name(), PAIRS, |pair, stock| {
                sides::run(pair, *workload, self.options.seconds, stock, &self.our, self.dir)
            })?;
            report.workload(*workload, rounds.map(|r| Figures::median(&r)));
        }
        Ok(())
    }

    fn programs(&self, report: &mut Report) -> Result<()> {
        for program in Program::ALL.iter().filter(|p| wanted(self.options, p.name())) {
            let rounds = self.rounds(program.name(), SERVERS, |(_, server), stock| {
                program.run(server, self.options.seconds, stock, &self.our, self.dir)
            })?;
            report.program(program.name(), rounds.map(|r| Figures::median(&r)));
        }
        Ok(())
    }

    fn transfers(&self, report: &mut Report) -> Result<()> {
        for transfer in Transfer::ALL.into_iter().filter(|t| wanted(self.options, t.name())) {
            let rounds = self.rounds(transfer.name(), transfers::SIDES, |side, stock| {
                transfer.run(side, stock, &self.our, self.dir)
            })?;
            report.transfer(transfer, rounds.map(|r| Rate::median(&r)));
        }
        Ok(())
    }

    fn images(&self, report: &mut Report) -> Result<()> {
        for load in ImageLoad::ALL.into_iter().filter(|load| wanted(self.options, load.name())) {
            let rounds = self.rounds(load.name(), images::SIDES, |side, stock| {
                load.run(side, self.options.seconds, stock, &self.our, self.dir)
            })?;
            report.image(load, rounds.map(|r| Figures::median(&r)));
        }
        if wanted(self.options, images::TOGETHER) {
            let Options { rounds, seconds, .. } = *self.options;
            report.together(Together::compare(&self.our, self.dir, rounds, seconds)?);
        }
        Ok(())
    }

    fn libraries(&self, report: &mut Report) -> Result<()> {
        let rows: Vec<_> =
            libraries::Row::ALL.into_iter().filter(|row| wanted(self.options, row.name())).collect();
        if rows.is_empty() {
            return Ok(());
        }
        let bench = libraries::Bench::prepare(self.options.libs.as_deref(), self.dir)?;
        for row in rows {
            if let Some(what) = row.lacks() {
                println!("{}: not measured: {what} is not installed", row.name());
                continue;
            }
            let mut rounds = [(); 2].map(|()| Vec::new());
            for round in 0..self.options.rounds {
                for (libraries, ran) in Libraries::BOTH.into_iter().zip(&mut rounds) {
                    eprintln!("{} round {}: {libraries}", row.name(), round + 1);
                    // A new cluster for each run: an OSD that has stored much is slower.
                    let stock = Cluster::up(&self.dir.join("stock.libraries"), &self.stock())?;
                    row.prepare(&bench, &stock)?;
                    ran.push(row.run(libraries, self.options.seconds, &bench, &stock)?);
                    stock.down()?;
                }
            }
            report.libraries(row.name(), rounds.map(|rounds| Ran::median(&rounds)));
        }
        Ok(())
    }

    fn file_systems(&self, report: &mut Report) -> Result<()> {
        let Options { rounds, seconds, files, without_mounts, .. } = *self.options;
        let picture = self.options.picture.as_deref();
        let plan = files::Plan { rounds, seconds, files, mounts: !without_mounts, picture };
        let rows: Vec<files::Row> =
            files::Row::ALL.into_iter().filter(|row| wanted(self.options, row.name())).collect();
        let (loligo, up) = (self.our.program, self.stock());
        files::compare(&rows, loligo, self.dir, &up, plan, |measured| report.files(measured))?;
        if plan.mounts
            && wanted(self.options, files::IDLE)
            && let Some(idle) = files::idle(loligo, self.dir, &up, rounds)?
        {
            report.idle_mounts(idle);
        }
        Ok(())
    }

    fn disk(&self, report: &mut Report) -> Result<()> {
        if wanted(self.options, "4 KiB write, 1 in flight") {
            report.own_write(disk::own_write_us(self.dir)?);
        }
        for (workload, writes) in [(Workload::LARGE_WRITES, true), (Workload::LARGE_READS, false)] {
            if wanted(self.options, workload.name()) {
                report.own_large(disk::OwnLarge::measure(self.dir, workload.name(), writes)?);
            }
        }
        for written in Written::ALL.into_iter().filter(|w| wanted(self.options, w.name())) {
            let rounds = self.rounds(written.name(), SERVERS, |(_, server), stock| {
                written.run(server, self.options.seconds, stock, &self.our, self.dir)
            })?;
            report.written(written, rounds.map(|r| median(r.into_iter())));
        }
        if wanted(self.options, MIXED) {
            let rounds = self.rounds(MIXED, SERVERS, |(_, server), stock| {
                Mixed::run(server, self.options.seconds, stock, &self.our, self.dir)
            })?;
            report.mixed(rounds.map(|r| Mixed::median(&r)));
        }
        Ok(())
    }

    /// The kind of stock cluster that is measured.
    fn stock(&self) -> UpOptions {
        let Options { store, without_msgr2, .. } = *self.options;
        UpOptions { store, without_msgr2, ..UpOptions::default() }
    }

    /// Runs all pairs in turn, in each round.
    fn rounds<T, C: Copy + fmt::Display, const N: usize>(
        &self,
        name: &str,
        pairs: [(C, Server); N],
        run: impl Fn((C, Server), &Cluster) -> Result<T>,
    ) -> Result<[Vec<T>; N]> {
        let mut rounds = [(); N].map(|()| Vec::new());
        for round in 0..self.options.rounds {
            // A new cluster each time: a memstore that has removed many objects miscounts its free space
            // and reports that it is full.
            let stock = Cluster::up(&self.dir.join(format!("stock.{round}")), &self.stock())?;
            for (pair, figures) in pairs.into_iter().zip(&mut rounds) {
                eprintln!("{name} round {}: {} client, {} server", round + 1, pair.0, pair.1);
                figures.push(run(pair, &stock)?);
            }
            stock.down()?;
        }
        Ok(rounds)
    }
}

fn wanted(options: &Options, name: &str) -> bool {
    options.only.as_deref().is_none_or(|word| name.contains(word))
}

/// Builds the optimised program.
fn build_release() -> Result<PathBuf> {
    succeed(cargo().args(["build", "--release", "--package", "loligo"]))?;
    Ok(workspace().join("target/release/loligo"))
}

/// Returns for example `ceph version 16.2.15`.
fn release() -> Result<String> {
    let text = output_of(Command::new("ceph-osd").arg("--version"))?;
    Ok(text.split_whitespace().take(3).collect::<Vec<_>>().join(" "))
}

fn tempdir() -> Result<PathBuf> {
    let dir = std::env::temp_dir().join(format!("loligo-bench.{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

impl Mixed {
    fn median(rounds: &[Mixed]) -> Self {
        let of = |field: fn(&Mixed) -> f64| median(rounds.iter().map(field));
        Self { writes_per_s: of(|m| m.writes_per_s), p50_us: of(|m| m.p50_us), p999_us: of(|m| m.p999_us) }
    }
}
