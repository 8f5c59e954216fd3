//! A job: one program on one store.

use std::time::Instant;

use super::list::{List, Suite};
use super::output::Outcome;
use super::runner::{Report, Runner};
use super::server::Server;
use super::{By, Choice, Extent, Store};
use crate::Result;
use crate::stock::Root;

/// A program, the store of its server, and the choice of its tests.
pub(super) struct Job {
    suite: Suite,
    store: Store,
    /// Patterns of tests that are not expected to pass.
    left_out: Vec<String>,
    is_quick: bool,
    by: By,
}

impl Job {
    pub(super) fn all(list: &List, choice: &Choice<'_>) -> Vec<Self> {
        let suites = list.suites.iter().filter(|suite| {
            let is_chosen = choice.name.is_none_or(|part| suite.name().contains(part));
            let is_within = match choice.extent {
                Extent::All => true,
                Extent::Quick => suite.quick,
                Extent::Short => suite.quick && suite.short,
            };
            suite.is_of(choice.release) && is_chosen && is_within
        });
        let job = |suite: &Suite, store| Self {
            suite: suite.clone(),
            store,
            left_out: list.left_out(suite, |group| group.has(choice.release, store)),
            is_quick: choice.extent != Extent::All,
            by: choice.by,
        };
        suites.flat_map(|suite| Store::ALL.map(|store| job(suite, store))).collect()
    }

    /// The name for people.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.store.name(), self.suite.name())
    }

    /// Runs the program on a new server. A fault of the program or the server counts as a failed test
    /// with the program's name.
    pub(super) fn run(&self, root: &Root) -> Report {
        let begun = Instant::now();
        let mut report = Report::default();
        if let Err(e) = self.try_run(root, &mut report) {
            report.outcomes.insert(self.suite.program.clone(), Outcome::Failed(e.to_string()));
        }
        report.took = begun.elapsed();
        report
    }

    fn try_run(&self, root: &Root, report: &mut Report) -> Result<()> {
        let name = format!("{}.{}", self.suite.name(), self.store.name());
        let mut server = Server::start(root, self.store, self.suite.osds, self.by, &name)?;
        let runner = Runner {
            suite: &self.suite,
            left_out: &self.left_out,
            is_quick: self.is_quick,
            enter: &|program| server.program(program),
            env: &[],
        };
        runner.run(report)?;
        server.still_runs()
    }
}
