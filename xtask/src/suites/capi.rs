//! `cargo xtask test suites --capi`: programs that exist, on Loligo's C libraries.
//!
//! `capi.toml` lists the programs of release 18.2.7, and the tests that are left out, with the reasons. Each
//! program runs four times: on Loligo's libraries and on Ceph's own, against Loligo's server and against a
//! stock cluster. So the list tells what is ours to mend. `--quick` runs a part, on Loligo's libraries and
//! server.

use std::num::NonZero;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use super::list::{List, Suite};
use super::output::Outcome;
use super::runner::{Report, Runner};
use super::server::Server;
use super::sides::{Libs, Peer};
use super::{By, Choice, Extent, Store, Tally, sources};
use crate::process::{cargo, succeed, workspace};
use crate::stock::{Cluster, Release, Root, UpOptions};
use crate::{Result, libs};

/// A program, its libraries, and what it talks to.
struct Job {
    suite: Suite,
    libs: Libs,
    peer: Peer,
    left_out: Vec<String>,
    is_quick: bool,
}

/// Runs the chosen programs. Those that talk to the stock cluster run one after another, since they change
/// what they share.
pub(crate) fn run(choice: &Choice<'_>) -> Result<Tally> {
    let list = List::read_capi()?;
    let root = Root::prepare(Release::Reef)?;
    root.install("python3-pytest", "usr/lib/python3/dist-packages/pytest")?;
    sources::prepare(&root)?;
    succeed(cargo().args(["test", "--quiet", "--workspace", "--no-run"]))?;
    let folder = Folder::build(&root)?;
    let jobs = Job::all(&list, choice);
    if jobs.is_empty() {
        return Err(format!("no program is named {:?}", choice.name.unwrap_or("")).into());
    }
    let (of_cluster, of_server): (Vec<Job>, Vec<Job>) =
        jobs.into_iter().partition(|job| job.peer == Peer::Cluster);
    let mut tally = Tally::new("programs on C libraries".to_owned());
    let done = Mutex::new(&mut tally);
    let add = |job: &Job, report| done.lock().expect("no worker panics").add(job.name(), report);
    let waiting = Mutex::new(of_server.into_iter());
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let on_cluster = || run_on_cluster(&folder, &of_cluster, &add).map_err(|e| e.to_string());
        let cluster = scope.spawn(on_cluster);
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().expect("no worker panics").next();
                    let Some(job) = next else { break };
                    add(&job, job.run_on_server(&root, &folder));
                }
            });
        }
        cluster.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    Ok(tally)
}

fn run_on_cluster(folder: &Folder<'_>, jobs: &[Job], add: &impl Fn(&Job, Report)) -> Result<()> {
    if jobs.is_empty() {
        return Ok(());
    }
    let dir = std::env::temp_dir().join(format!("loligo-capi-cluster.{}", std::process::id()));
    // Pools of erasure codes need three OSDs.
    let cluster = Cluster::up(&dir, &UpOptions { osds: 3, release: Release::Reef, ..UpOptions::default() })?;
    succeed(cluster.program("ceph").args(["osd", "pool", "create", "rbd", "8", "8"]))?;
    for job in jobs {
        let enter = |program: &str| cluster.program(program);
        add(job, job.run(folder, &enter, || Ok(())));
    }
    cluster.down()
}

impl Job {
    fn all(list: &List, choice: &Choice<'_>) -> Vec<Self> {
        let mut jobs = Vec::new();
        for (peer, libs) in Peer::ALL.into_iter().flat_map(|peer| Libs::ALL.map(|libs| (peer, libs))) {
            if choice.extent != Extent::All && (peer, libs) != (Peer::Server, Libs::Ours) {
                continue;
            }
            let suites = list.suites.iter().filter(|suite| {
                let is_chosen = choice.name.is_none_or(|part| suite.name().contains(part));
                is_chosen && (suite.quick || choice.extent == Extent::All)
            });
            jobs.extend(suites.map(|suite| Self {
                suite: suite.clone(),
                libs,
                peer,
                left_out:
                    list.left_out(suite, |group| group.libs.contains(&libs) && group.peers.contains(&peer)),
                is_quick: choice.extent != Extent::All,
            }));
        }
        jobs
    }

    /// The name for people.
    fn name(&self) -> String {
        format!("{} on {} against {}", self.suite.name(), self.libs.name(), self.peer.name())
    }

    fn run_on_server(&self, root: &Root, folder: &Folder<'_>) -> Report {
        let name = format!("{}.{:?}", self.suite.name(), self.libs);
        match Server::start(root, Store::Memory, self.suite.osds, By::default(), &name) {
            Ok(server) => {
                let server = Mutex::new(server);
                let lock = || server.lock().expect("no panic");
                self.run(folder, &|program| lock().program(program), || lock().still_runs())
            }
            Err(e) => self.failed(&e.to_string()),
        }
    }

    fn failed(&self, why: &str) -> Report {
        let mut report = Report::default();
        report.outcomes.insert(self.suite.program.clone(), Outcome::Failed(why.to_owned()));
        report
    }

    fn run(
        &self,
        folder: &Folder<'_>,
        enter: &dyn Fn(&str) -> Command,
        check: impl Fn() -> Result<()>,
    ) -> Report {
        let begun = Instant::now();
        let env = match self.libs {
            Libs::Ours => folder.env(),
            Libs::Stock => Vec::new(),
        };
        let runner = Runner {
            suite: &self.suite,
            left_out: &self.left_out,
            is_quick: self.is_quick,
            enter,
            env: &env,
        };
        let mut report = Report::default();
        if let Err(e) = runner.run(&mut report).and_then(|()| check()) {
            report.outcomes.insert(self.suite.program.clone(), Outcome::Failed(e.to_string()));
        }
        report.took = begun.elapsed();
        report
    }
}

/// The folder of the libraries, with the same path inside and outside of the release's folder.
struct Folder<'a> {
    root: &'a Root,
    path: PathBuf,
}

impl<'a> Folder<'a> {
    /// Makes the libraries of what was built for the tests.
    fn build(root: &'a Root) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("loligo-capi-libs.{}", std::process::id()));
        root.make_dir(&path)?;
        let folder = Self { root, path };
        libs::make(&workspace().join("target/debug/deps").join(libs::BUILT), &folder.path)?;
        Ok(folder)
    }

    /// The variables that have a program load them.
    fn env(&self) -> Vec<(String, String)> {
        vec![("LD_LIBRARY_PATH".to_owned(), self.path.display().to_string())]
    }
}

impl Drop for Folder<'_> {
    fn drop(&mut self) {
        if let Err(e) = self.root.remove_dir(&self.path) {
            eprintln!("{} is left behind: {e}", self.path.display());
        }
    }
}
