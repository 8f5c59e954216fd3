//! Tests against clusters of stock Ceph.
//!
//! Such a test mostly waits: for stock programs to start, for a cluster to notice a death. Therefore several
//! *lanes* run at the same time. Each lane has a cluster of its own, and runs one test at a time on it:
//! several tests restart servers or count the contents of a pool.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use clap::ValueEnum as _;

use crate::Result;
use crate::process::workspace;
use crate::programs::Program;
use crate::stock::{Cluster, NoLink, Release, Store, UpOptions};
use crate::totals::Totals;

/// The part of their names that marks tests for three OSDs.
const THREE_OSDS: &str = "in_chaos";

/// The name of programs whose tests need a metadata server.
const OF_FS: &str = "stock_fs";

/// The lanes that share the tests against one OSD. A single program takes half of their time.
const LANES: usize = 2;

/// The source of the program that takes longest; it begins first.
const LONGEST: &str = "crates/apps/cli/tests/rbd/main.rs";

/// A kind of tests against clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All tests against a cluster of one OSD.
    All,
    /// The tests of programs and clusters of another release.
    Releases,
    /// The tests against a file system with a metadata server.
    Fs,
    /// The tests against three monitors and three OSDs.
    Three,
}

/// Tests of one kind against clusters of one release.
struct Group<'a> {
    kind: Kind,
    release: Release,
    /// The programs that no lane has begun.
    waiting: Mutex<VecDeque<&'a Program>>,
}

/// A lane that could not do its work.
struct Stuck {
    why: String,
    /// Whether it was for want of a cluster, and not by a fault of the tests.
    is_without_cluster: bool,
}

/// Runs tests of these kinds against a release, all at the same time. A part of their names may choose tests.
pub(crate) fn run(kinds: &[Kind], release: Release, name: Option<&str>, totals: &mut Totals) -> Result<()> {
    let programs = Program::all()?;
    let groups: Vec<Group<'_>> = kinds.iter().map(|kind| Group::new(*kind, release, &programs)).collect();
    println!("== tests against stock Ceph {}", release.version());
    let begun = Instant::now();
    let ended: Vec<(&Group<'_>, Totals, Option<Stuck>)> = thread::scope(|scope| {
        let lanes = groups.iter().flat_map(|group| (0..group.lanes(name)).map(move |lane| (group, lane)));
        let lanes: Vec<_> = lanes
            .map(|(group, lane)| {
                let run = move || {
                    let mut totals = Totals::default();
                    let stuck = group.run(lane, name, &mut totals).err();
                    (totals, stuck)
                };
                (group, scope.spawn(run))
            })
            .collect();
        let join = |(group, lane): (_, thread::ScopedJoinHandle<'_, (Totals, Option<Stuck>)>)| {
            let (totals, stuck) = lane.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (group, totals, stuck)
        };
        lanes.into_iter().map(join).collect()
    });
    for (group, of_lane, stuck) in ended {
        totals.add(of_lane);
        match stuck {
            Some(stuck) if !stuck.is_without_cluster => return Err(stuck.why.into()),
            Some(stuck) if group.is_left() => totals.leave_out(format!("{}: {}", group.shown(), stuck.why)),
            Some(stuck) => println!("one cluster less, whose tests the others ran: {}", stuck.why),
            None => {}
        }
    }
    println!("== tests against stock Ceph {}: {} s", release.version(), begun.elapsed().as_secs());
    Ok(())
}

impl<'a> Group<'a> {
    fn new(kind: Kind, release: Release, programs: &'a [Program]) -> Self {
        let mut waiting: VecDeque<&Program> = programs.iter().filter(|program| kind.has(program)).collect();
        if let Some(at) = waiting.iter().position(|program| program.is_at(LONGEST))
            && let Some(longest) = waiting.remove(at)
        {
            waiting.push_front(longest);
        }
        Self { kind, release, waiting: Mutex::new(waiting) }
    }

    fn lanes(&self, name: Option<&str>) -> usize {
        if self.kind == Kind::All && name.is_none() { LANES } else { 1 }
    }

    fn shown(&self) -> String {
        let what = match self.kind {
            Kind::All | Kind::Releases => "tests against",
            Kind::Fs => "tests against metadata servers of",
            Kind::Three => "three monitors and three OSDs of",
        };
        format!("{what} Ceph {}", self.release.version())
    }

    fn next(&self) -> Option<&'a Program> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn is_left(&self) -> bool {
        !self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Runs programs until none is left.
    fn run(&self, lane: usize, name: Option<&str>, totals: &mut Totals) -> std::result::Result<(), Stuck> {
        let failed =
            |error: Box<dyn std::error::Error>| Stuck { why: error.to_string(), is_without_cluster: false };
        let cluster = self.start(lane)?;
        while let Some(program) = self.next() {
            let mut command = program.command();
            command.args(name).args(self.kind.arguments()).envs(self.kind.variables(&cluster));
            totals.program(&mut command, &program.name).map_err(failed)?;
        }
        cluster.down().map_err(failed)
    }

    /// Starts a cluster. One at a time: what is missing is installed first, and free ports are chosen.
    fn start(&self, lane: usize) -> std::result::Result<Cluster, Stuck> {
        static STARTING: Mutex<()> = Mutex::new(());
        let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        let cluster = match self.kind {
            Kind::Three => chaos_cluster(self.release),
            Kind::All | Kind::Releases => cluster_of(self.release, lane),
            Kind::Fs => fs_cluster(self.release),
        };
        cluster.map_err(|error| Stuck { why: error.to_string(), is_without_cluster: true })
    }
}

impl Kind {
    fn has(self, program: &Program) -> bool {
        match self {
            Self::All => program.target != OF_FS,
            Self::Fs => program.target == OF_FS,
            Self::Releases => program.target == "releases",
            Self::Three => program.target == "chaos",
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::All => &["--ignored", "--test-threads=1", "--skip", THREE_OSDS],
            Self::Releases | Self::Fs => &["--ignored", "--test-threads=1"],
            Self::Three => &["--ignored", "--nocapture"],
        }
    }

    /// The variables that name the cluster, and the program that was built with the tests.
    fn variables(self, cluster: &Cluster) -> Vec<(&'static str, OsString)> {
        let dir = || cluster.dir().as_os_str().to_owned();
        let conf = || cluster.conf().into_os_string();
        match self {
            Self::All | Self::Fs => vec![
                // Ceph's own programs, and tests that replace one, read CEPH_CONF.
                ("CEPH_CONF", conf()),
                ("LOLIGO_STOCK_CONF", conf()),
                ("LOLIGO_STOCK_DIR", dir()),
                ("LOLIGO_BIN", workspace().join("target/debug/loligo").into_os_string()),
            ],
            Self::Releases => vec![("LOLIGO_STOCK_DIR", dir())],
            Self::Three => vec![("LOLIGO_STOCK3_DIR", dir())],
        }
    }
}

/// Starts a cluster of Ceph 16.2 in a temporary directory.
pub(crate) fn stock_cluster() -> Result<Cluster> {
    cluster_of(Release::Pacific, 0)
}

fn cluster_of(release: Release, lane: usize) -> Result<Cluster> {
    let dir = dir_of(release, &format!("one.{lane}"));
    Cluster::up(&dir, &UpOptions { release, ..UpOptions::default() })
}

/// Starts a cluster with a metadata server and a file system.
fn fs_cluster(release: Release) -> Result<Cluster> {
    Cluster::up(&dir_of(release, "fs"), &UpOptions { release, mds: 1, ..UpOptions::default() })
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
