//! Measures programs of librados and librbd on one stock server: with stock's libraries, and with Loligo's in
//! their place.

mod ran;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{installed, output_of, succeed};
use crate::stock::Cluster;
use crate::{Result, libs};

use super::programs;
use super::sides::POOL;

pub(super) use ran::{Ran, json, table};

/// Whose libraries a program runs on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Libraries {
    Stock,
    Loligo,
}

impl Libraries {
    pub(super) const BOTH: [Self; 2] = [Self::Stock, Self::Loligo];
}

impl fmt::Display for Libraries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Stock { "stock" } else { "loligo" })
    }
}

/// A row of the table: a program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Row {
    FioObjects,
    FioImages,
    Python,
    Threads,
    Qemu,
    Images,
}

/// What all rows need.
pub(super) struct Bench {
    /// Loligo's libraries.
    libs: PathBuf,
    /// The program of [`Row::Threads`].
    threads: PathBuf,
    writes: PathBuf,
    images: PathBuf,
}

/// The interpreter for which distributions package the modules, whichever comes first in PATH.
const PYTHON: &str = "/usr/bin/python3";
const IMAGES: &str = "300";
/// The requests of qemu-img for each second of a run: stock executes about as many.
const QEMU_REQUESTS_A_SECOND: u32 = 8000;

impl Bench {
    /// Builds the libraries, unless `built` names their folder, and the programs.
    pub(super) fn prepare(built: Option<&Path>, dir: &Path) -> Result<Self> {
        let libs = match built {
            Some(built) => built.canonicalize().map_err(|why| format!("{}: {why}", built.display()))?,
            None => {
                let folder = dir.join("libraries");
                libs::optimised(&folder)?;
                folder
            }
        };
        let (source, threads) = (dir.join("threads.c"), dir.join("threads"));
        std::fs::write(&source, include_str!("threads.c"))?;
        let mut compile = Command::new("cc");
        compile.args(["-O2", "-pthread", "-o"]).arg(&threads).arg(&source);
        compile.arg("-I").arg(libs.join("include")).arg("-L").arg(&libs).arg("-lrados");
        succeed(&mut compile)?;
        let (writes, images) = (dir.join("writes.py"), dir.join("images.py"));
        std::fs::write(&writes, include_str!("writes.py"))?;
        std::fs::write(&images, include_str!("images.py"))?;
        Ok(Self { libs, threads, writes, images })
    }
}

impl Row {
    pub(super) const ALL: [Self; 6] =
        [Self::FioObjects, Self::FioImages, Self::Python, Self::Threads, Self::Qemu, Self::Images];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::FioObjects => "libraries, fio rados: 4 KiB random write, 64 in flight",
            Self::FioImages => "libraries, fio rbd: 4 KiB random read, 8 jobs, 16 in flight each",
            Self::Python => "libraries, python3-rados: 4 KiB write, 64 threads that wait",
            Self::Threads => "libraries, C: 4 KiB write, 1,000 threads that wait",
            Self::Qemu => "libraries, qemu-img bench: 4 KiB write, 32 in flight",
            Self::Images => "libraries, python3-rbd: opening of 300 images in one process",
        }
    }

    /// Returns what the row needs and this machine lacks.
    pub(super) fn lacks(self) -> Option<&'static str> {
        let has_module = |name: &str| {
            let import = format!("import {name}");
            Command::new(PYTHON).args(["-c", &import]).output().is_ok_and(|ran| ran.status.success())
        };
        let (is_there, what) = match self {
            Self::FioObjects | Self::FioImages => (installed("fio"), "fio"),
            Self::Python => (has_module("rados"), "python3-rados"),
            Self::Images => (has_module("rbd"), "python3-rbd"),
            Self::Threads => (installed("cc"), "a C compiler"),
            Self::Qemu => (installed("qemu-img"), "qemu-img"),
        };
        (!is_there).then_some(what)
    }

    /// Stores what the row reads, on a new cluster.
    pub(super) fn prepare(self, bench: &Bench, stock: &Cluster) -> Result<()> {
        match self {
            Self::FioObjects | Self::Python | Self::Threads => Ok(()),
            Self::FioImages | Self::Qemu => programs::prepare_image(&stock.conf(), "read"),
            Self::Images => {
                let mut make = Command::new(PYTHON);
                make.arg(&bench.images).arg(stock.conf()).args([POOL, IMAGES, "make"]);
                output_of(&mut make).map(drop)
            }
        }
    }

    pub(super) fn run(
        self,
        libraries: Libraries,
        seconds: u32,
        bench: &Bench,
        stock: &Cluster,
    ) -> Result<Ran> {
        let mut command = self.command(seconds, bench, &stock.conf());
        command.env("CEPH_CONF", stock.conf());
        if libraries == Libraries::Loligo {
            command.env("LD_LIBRARY_PATH", &bench.libs);
        }
        let watched = ran::run_watched(&mut command)?;
        match self {
            Self::FioObjects => watched.of_fio("write"),
            Self::FioImages => watched.of_fio("read"),
            Self::Qemu => watched.of_qemu(requests(seconds)),
            Self::Python | Self::Threads | Self::Images => watched.of_json(),
        }
    }

    fn command(self, seconds: u32, bench: &Bench, conf: &Path) -> Command {
        let lasts = seconds.to_string();
        match self {
            Self::FioObjects => programs::fio(conf, "randwrite", seconds),
            Self::FioImages => {
                let mut c = Command::new("fio");
                c.args(["--name=bench", "--ioengine=rbd", "--clientname=admin", "--bs=4k", "--iodepth=16"]);
                c.arg(format!("--pool={POOL}")).arg(format!("--rbdname={}", programs::IMAGE));
                c.args(["--rw=randread", "--numjobs=8", "--thread", "--group_reporting", "--time_based"]);
                c.arg("--output-format=json").arg(format!("--runtime={seconds}"));
                c
            }
            Self::Python => {
                let mut c = Command::new(PYTHON);
                c.arg(&bench.writes).arg(conf).args([POOL, "64", &lasts]);
                c
            }
            Self::Threads => {
                let mut c = Command::new(&bench.threads);
                c.arg(conf).args([POOL, "1000", &lasts]);
                c
            }
            Self::Qemu => {
                let mut c = Command::new("qemu-img");
                // Steps of an odd number of blocks: each request is to another place.
                c.args(["bench", "-w", "-f", "raw", "-t", "none", "-d", "32", "-s", "4096", "-S", "1052672"]);
                c.args(["-c", &requests(seconds).to_string()]);
                c.arg(format!("rbd:{POOL}/{}:conf={}", programs::IMAGE, conf.display()));
                c
            }
            Self::Images => {
                let mut c = Command::new(PYTHON);
                c.arg(&bench.images).arg(conf).args([POOL, IMAGES]);
                c
            }
        }
    }
}

fn requests(seconds: u32) -> u32 {
    seconds.saturating_mul(QEMU_REQUESTS_A_SECOND)
}
