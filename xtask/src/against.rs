//! Tests against clusters of stock Ceph.
//!
//! Such a test mostly waits: for stock programs to start, for a cluster to notice a death. Therefore several
//! *lanes* run at the same time. Each lane has a cluster of its own, and runs one test at a time on it:
//! several tests restart servers or count the contents of a pool.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
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

/// The part of their names that marks tests that `torture` alone runs.
const IN_TORTURE: &str = "in_torture";

/// The names of programs whose tests need a metadata server.
const OF_FS: [&str; 4] = ["stock_fs", "stock_cache", "stock_posix", "stock_mount"];

/// The name of a program that `torture` alone runs, against a file system.
const OF_TORTURE: &str = "stock_differential";

/// The names of programs whose tests need several metadata servers that serve.
const OF_RANKS: [&str; 2] = ["stock_ranks", "stock_moves"];

/// The name of a program that kills metadata servers and OSDs.
const OF_FS_CHAOS: &str = "stock_chaos";

/// The name of programs whose tests need a cluster without msgr2.
const OF_V1: &str = "stock_v1";

/// A program that also runs against a cluster without msgr2: its daemons are restarted.
const RESTARTS: &str = "crates/client/rados/tests/upheaval.rs";

/// The lanes that share the tests against one OSD. A single program takes half of their time.
const LANES: usize = 2;

/// The source of the program that takes longest. It begins first, and two of its tests run at a time: each
/// has pools of its own.
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
    /// The tests against a file system with two metadata servers that serve and one that stands by.
    Ranks,
    /// The tests against a cluster whose daemons speak version 1 of the messenger alone.
    V1,
    /// The tests against three monitors and three OSDs.
    Three,
    /// The same by version 1 of the messenger.
    ThreeV1,
    /// The same, and no more than sockets that OSDs close and OSDs that are killed.
    ThreeV1Quick,
    /// The tests against a file system whose metadata servers and OSDs are killed.
    FsChaos,
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
            Kind::Ranks => "tests against two ranks of",
            Kind::V1 => "tests by version 1 of the messenger against",
            Kind::Three => "three monitors and three OSDs of",
            Kind::ThreeV1 | Kind::ThreeV1Quick => {
                "by version 1 of the messenger, three monitors and three OSDs of"
            }
            Kind::FsChaos => "failing metadata servers of",
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
            command.args(name).args(self.kind.arguments(program)).envs(self.kind.variables(&cluster));
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
            Kind::ThreeV1 | Kind::ThreeV1Quick => chaos_cluster_v1(self.release),
            Kind::V1 => v1_cluster(self.release),
            Kind::All | Kind::Releases => cluster_of(self.release, lane),
            Kind::Fs => fs_cluster(self.release),
            Kind::Ranks => ranks_cluster(self.release),
            Kind::FsChaos => fs_chaos_cluster(self.release),
        };
        cluster.map_err(|error| Stuck { why: error.to_string(), is_without_cluster: true })
    }
}

impl Kind {
    fn has(self, program: &Program) -> bool {
        let target = program.target.as_str();
        let is_of_fs = OF_FS.contains(&target);
        let is_of_ranks = OF_RANKS.contains(&target);
        match self {
            Self::All => !is_of_fs && !is_of_ranks && ![OF_TORTURE, OF_FS_CHAOS, OF_V1].contains(&target),
            Self::Ranks => is_of_ranks,
            Self::Fs => is_of_fs,
            Self::Releases => target == "releases",
            Self::V1 => target == OF_V1 || program.is_at(RESTARTS),
            Self::Three | Self::ThreeV1 | Self::ThreeV1Quick => target == "chaos",
            Self::FsChaos => target == OF_FS_CHAOS,
        }
    }

    /// Whether tests of this kind have the machine for themselves: servers are killed, and must be found dead
    /// in time.
    pub(crate) fn is_alone(self) -> bool {
        matches!(self, Self::Three | Self::ThreeV1 | Self::ThreeV1Quick | Self::FsChaos)
    }

    fn arguments(self, program: &Program) -> &'static [&'static str] {
        match self {
            Self::All if program.is_at(LONGEST) => &["--ignored", "--test-threads=2", "--skip", THREE_OSDS],
            Self::All => &["--ignored", "--test-threads=1", "--skip", THREE_OSDS, "--skip", IN_TORTURE],
            Self::Releases | Self::Fs | Self::Ranks | Self::V1 => &["--ignored", "--test-threads=1"],
            Self::Three | Self::ThreeV1 | Self::ThreeV1Quick | Self::FsChaos => &["--ignored", "--nocapture"],
        }
    }

    /// The variables that name the cluster, and the program that was built with the tests.
    fn variables(self, cluster: &Cluster) -> Vec<(&'static str, OsString)> {
        let dir = || cluster.dir().as_os_str().to_owned();
        let conf = || cluster.conf().into_os_string();
        match self {
            Self::All | Self::Fs | Self::Ranks | Self::V1 => vec![
                // Ceph's own programs, and tests that replace one, read CEPH_CONF.
                ("CEPH_CONF", conf()),
                ("LOLIGO_STOCK_CONF", conf()),
                ("LOLIGO_STOCK_DIR", dir()),
                ("LOLIGO_BIN", workspace().join("target/debug/loligo").into_os_string()),
            ],
            Self::Releases | Self::FsChaos => vec![("LOLIGO_STOCK_DIR", dir())],
            Self::Three | Self::ThreeV1 => vec![("LOLIGO_STOCK3_DIR", dir())],
            Self::ThreeV1Quick => vec![("LOLIGO_STOCK3_DIR", dir()), ("LOLIGO_CHAOS_QUICK", "1".into())],
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

/// The variables that tests against a file system read.
pub(crate) fn variables_of_fs(cluster: &Cluster) -> Vec<(&'static str, OsString)> {
    Kind::Fs.variables(cluster)
}

/// Starts a cluster with a metadata server and a file system.
pub(crate) fn fs_cluster(release: Release) -> Result<Cluster> {
    Cluster::up(&dir_of(release, "fs"), &UpOptions { release, mds: 1, ..UpOptions::default() })
}

/// Starts a file system with two ranks and a server that stands by.
fn ranks_cluster(release: Release) -> Result<Cluster> {
    let options = UpOptions { release, mds: 3, max_mds: 2, ..UpOptions::default() };
    Cluster::up(&dir_of(release, "ranks"), &options)
}

/// Starts a cluster without msgr2.
fn v1_cluster(release: Release) -> Result<Cluster> {
    let options = UpOptions { release, without_msgr2: true, ..UpOptions::default() };
    Cluster::up(&dir_of(release, "v1"), &options)
}

/// Starts a file system with two ranks, a server that stands by, and OSDs that keep acknowledged data.
pub(crate) fn fs_chaos_cluster(release: Release) -> Result<Cluster> {
    let store = Store::Bluestore;
    let options = UpOptions { release, store, osds: 3, mds: 3, max_mds: 2, ..UpOptions::default() };
    Cluster::up(&dir_of(release, "fs-chaos"), &options)
}

/// Starts a cluster whose parts can fail: its OSDs keep acknowledged data, and, if possible, it has a
/// network of its own.
pub(crate) fn chaos_cluster(release: Release) -> Result<Cluster> {
    apart_if_possible(&dir_of(release, "three"), &three(release))
}

/// The same without msgr2.
pub(crate) fn chaos_cluster_v1(release: Release) -> Result<Cluster> {
    let options = UpOptions { without_msgr2: true, ..three(release) };
    apart_if_possible(&dir_of(release, "three-v1"), &options)
}

fn three(release: Release) -> UpOptions {
    UpOptions { release, osds: 3, mons: 3, store: Store::Bluestore, ..UpOptions::default() }
}

fn apart_if_possible(dir: &Path, options: &UpOptions) -> Result<Cluster> {
    match Cluster::up(dir, &UpOptions { apart: true, ..options.clone() }) {
        Err(e) if e.is::<NoLink>() => {
            println!("the network is not cut: {e}");
            Cluster::up(dir, options)
        }
        done => done,
    }
}

fn dir_of(release: Release, what: &str) -> PathBuf {
    let name = release.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    std::env::temp_dir().join(format!("loligo-stock.{}.{name}.{what}", std::process::id()))
}
