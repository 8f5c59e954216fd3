//! A job: one program on one store.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::gtest::{self, Outcome, Output};
use super::list::{Judged, List, Suite, matches};
use super::server::Server;
use super::{Choice, Store, program};
use crate::Result;
use crate::stock::Root;

/// A program that prints nothing for this time hangs. The longest test that sleeps takes a minute and a
/// half.
const SILENCE: Duration = Duration::from_secs(240);
/// The same for tests that are left out.
const SILENCE_LEFT_OUT: Duration = Duration::from_secs(60);

/// A program, the store of its server, and the choice of its tests.
pub(super) struct Job {
    pub(super) suite: Suite,
    pub(super) store: Store,
    /// Patterns of tests that are not expected to pass.
    left_out: Vec<String>,
    is_quick: bool,
}

/// The results of a job.
#[derive(Default)]
pub(super) struct Report {
    /// The outcomes of the tests that are expected to pass, by name.
    pub(super) outcomes: BTreeMap<String, Outcome>,
    /// Tests that were not expected to pass, and did.
    pub(super) passing: Vec<String>,
    /// Tests that were not expected to pass, and did not pass or were not tried.
    pub(super) left_out: Vec<String>,
    /// Patterns that match no test.
    pub(super) unused: Vec<String>,
    pub(super) took: Duration,
}

impl Job {
    pub(super) fn all(list: &List, choice: &Choice<'_>) -> Vec<Self> {
        let suites = list.suites.iter().filter(|suite| {
            let is_chosen = choice.name.is_none_or(|part| suite.name().contains(part));
            suite.is_of(choice.release) && is_chosen && (suite.quick || !choice.is_quick)
        });
        let job = |suite: &Suite, store| Self {
            suite: suite.clone(),
            store,
            left_out: list.left_out(suite, choice.release, store).map(str::to_owned).collect(),
            is_quick: choice.is_quick,
        };
        suites.flat_map(|suite| Store::ALL.map(|store| job(suite, store))).collect()
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
        let mut server = Server::start(root, self.store, self.suite.osds, &name)?;
        match self.suite.judged {
            Judged::Status => self.run_once(&server, report)?,
            Judged::Gtest => self.run_tests(&server, report)?,
        }
        match server.ended() {
            None => Ok(()),
            Some(status) => Err(format!("the server ended: {status}: {}", server.log()).into()),
        }
    }

    fn command(&self, server: &Server<'_>) -> std::process::Command {
        // `env` takes the variables between its own options and the program.
        let mut command = server.program("env");
        command.args(self.suite.env.iter().map(|(name, value)| format!("{name}={value}")));
        command.arg(&self.suite.program).args(&self.suite.args);
        command
    }

    /// Runs a program that is one test.
    fn run_once(&self, server: &Server<'_>, report: &mut Report) -> Result<()> {
        let test = self.suite.name().to_owned();
        let is_left_out = self.left_out.iter().any(|pattern| matches(pattern, &test));
        if is_left_out && self.is_quick {
            report.left_out.push(test);
            return Ok(());
        }
        let mut output = Output::default();
        let ended = program::run(&mut self.command(server), SILENCE, |line| output.line(line))?;
        match (ended.is_success, is_left_out) {
            (true, false) => drop(report.outcomes.insert(test, Outcome::Passed)),
            (true, true) => report.passing.push(test),
            (false, true) => report.left_out.push(test),
            (false, false) => {
                let said = format!("{}\n{}", output.outside(), ended.how);
                report.outcomes.insert(test, Outcome::Failed(said));
            }
        }
        Ok(())
    }

    /// Runs a program of many tests: first those that should pass, then, if there is time, each of the
    /// others.
    fn run_tests(&self, server: &Server<'_>, report: &mut Report) -> Result<()> {
        let (text, is_success) = program::output_of(self.command(server).arg("--gtest_list_tests"))?;
        let all = gtest::listed(&text);
        if all.is_empty() || !is_success {
            return Err(format!("it lists no tests: {text}").into());
        }
        let is_any = |patterns: &[String], test: &str| patterns.iter().any(|pattern| matches(pattern, test));
        let unused = self.left_out.iter().filter(|pattern| !all.iter().any(|test| matches(pattern, test)));
        report.unused = unused.cloned().collect();
        let (out, mut wanted): (Vec<String>, Vec<String>) =
            all.into_iter().partition(|test| is_any(&self.left_out, test));
        if self.is_quick {
            wanted.retain(|test| !is_any(&self.suite.slow, test));
        }
        report.outcomes = self.outcomes(server, wanted, SILENCE)?;
        let mut tried = BTreeMap::new();
        if !self.is_quick {
            tried = self.outcomes(server, out.clone(), SILENCE_LEFT_OUT)?;
        }
        for test in out {
            let passes = tried.get(&test) == Some(&Outcome::Passed);
            if passes { report.passing.push(test) } else { report.left_out.push(test) }
        }
        Ok(())
    }

    /// Runs tests, together or each alone.
    fn outcomes(
        &self,
        server: &Server<'_>,
        tests: Vec<String>,
        silence: Duration,
    ) -> Result<BTreeMap<String, Outcome>> {
        if !self.suite.alone {
            return self.outcomes_together(server, tests.into_iter().collect(), silence);
        }
        let mut outcomes = BTreeMap::new();
        for test in tests {
            outcomes.append(&mut self.outcomes_together(server, BTreeSet::from([test]), silence)?);
        }
        Ok(outcomes)
    }

    /// Runs tests in one process or, if a test ends the process, in as many as necessary.
    fn outcomes_together(
        &self,
        server: &Server<'_>,
        mut rest: BTreeSet<String>,
        silence: Duration,
    ) -> Result<BTreeMap<String, Outcome>> {
        let mut outcomes = BTreeMap::new();
        while !rest.is_empty() {
            let mut output = Output::default();
            let filter: Vec<&str> = rest.iter().map(String::as_str).collect();
            let mut command = self.command(server);
            command.arg(format!("--gtest_filter={}", filter.join(":")));
            let ended = program::run(&mut command, silence, |line| output.line(line))?;
            let interrupted = output.ended(&ended.how);
            if output.outcomes.is_empty() {
                // A program that ends before its first test would do so every time.
                let said = format!("{}\n{}", output.outside(), ended.how);
                outcomes.extend(rest.into_iter().map(|test| (test, Outcome::Failed(said.clone()))));
                return Ok(outcomes);
            }
            rest.retain(|test| !output.outcomes.contains_key(test));
            outcomes.append(&mut output.outcomes);
            if interrupted.is_none() && !rest.is_empty() && ended.is_success {
                return Err(format!("tests were not run: {rest:?}").into());
            }
        }
        Ok(outcomes)
    }
}
