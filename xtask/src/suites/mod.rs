//! `cargo xtask test suites`: runs Ceph's own test programs (Debian's package `ceph-test`) against
//! Loligo's server.
//!
//! `list.toml` lists the programs to run, and the tests that are left out, with the reasons; the page
//! `docs/compatibility.md` is made from the same list. Each program of the list runs on a new server
//! with each store. A program of a release that the list does not name is an error, so that nothing is
//! left out without a reason.
//!
//! `--capi` runs programs that exist on Loligo's C libraries instead (`capi.rs`).

mod capi;
mod gtest;
mod job;
mod list;
pub(crate) mod mounted;
mod output;
mod page;
mod program;
mod pytest;
mod runner;
mod server;
mod sides;
mod sources;
mod tally;

use std::collections::BTreeSet;
use std::num::NonZero;
use std::sync::Mutex;
use std::thread;

use crate::Result;
use crate::process::{cargo, succeed};
use crate::stock::{Release, Root};
pub(crate) use capi::run as run_capi;
use job::Job;
use list::List;
pub(crate) use page::write as write_page;
pub(crate) use tally::Tally;

/// The object store of the server: `serve --store`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Store {
    Memory,
    Disk,
}

impl Store {
    const ALL: [Self; 2] = [Self::Memory, Self::Disk];

    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Disk => "disk",
        }
    }
}

/// The choice of programs and tests to run.
#[derive(Clone, Copy)]
pub(crate) struct Choice<'a> {
    pub(crate) release: Release,
    /// Runs only programs whose names contain this.
    pub(crate) name: Option<&'a str>,
    pub(crate) extent: Extent,
    pub(crate) by: By,
}

/// How much of the list runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Everything, also what is left out: it may have begun to pass.
    All,
    /// The programs and tests that take a few minutes, and none that are left out.
    Quick,
    /// Of these, the few programs that are marked as short.
    Short,
}

/// How the server speaks.
#[derive(Clone, Copy, Default)]
pub(crate) struct By {
    /// By version 1 of the messenger alone.
    pub(crate) without_msgr2: bool,
    /// Without cephx. By version 1 messages are then not signed.
    pub(crate) without_cephx: bool,
}

/// Runs the chosen programs, several at a time: they sleep most of the time.
pub(crate) fn run(choice: &Choice<'_>) -> Result<Tally> {
    let list = List::read()?;
    let root = Root::prepare(choice.release)?;
    // Built as for the tests: by itself it would have other features, and much would be compiled twice.
    succeed(cargo().args(["test", "--quiet", "--workspace", "--no-run"]))?;
    let mut tally = Tally::new(format!("suites of {}", choice.release.version()));
    tally.unlisted = unlisted(&list, &root, choice.release)?;
    let jobs = Job::all(&list, choice);
    if jobs.is_empty() {
        return Err(format!("no suite of this release is named {:?}", choice.name.unwrap_or("")).into());
    }
    let waiting = Mutex::new(jobs.into_iter());
    let done = Mutex::new(&mut tally);
    let workers = 2 * thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().expect("no worker panics").next();
                    let Some(job) = next else { break };
                    let report = job.run(&root);
                    done.lock().expect("no worker panics").add(job.name(), report);
                }
            });
        }
    });
    Ok(tally)
}

/// Returns the release's test programs that the list does not mention.
fn unlisted(list: &List, root: &Root, release: Release) -> Result<Vec<String>> {
    let known: BTreeSet<&str> = list.programs(release).collect();
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root.path().join("usr/bin"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with("ceph_test_") && !known.contains(name.as_str()) {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}
