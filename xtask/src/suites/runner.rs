//! Runs the tests of one program and finds out how each ended.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

use super::list::{Judged, Suite, matches};
use super::output::{Outcome, Output};
use super::{gtest, program, pytest, sources};
use crate::Result;

/// A program that prints nothing for this time hangs. One test derives keys for more than two minutes, and
/// others run beside it.
const SILENCE: Duration = Duration::from_secs(600);
/// The same for tests that are left out.
const SILENCE_LEFT_OUT: Duration = Duration::from_secs(60);

/// The results of a program.
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

/// A program, the choice of its tests, and where it runs.
pub(super) struct Runner<'a> {
    pub(super) suite: &'a Suite,
    /// Patterns of tests that are not expected to pass.
    pub(super) left_out: &'a [String],
    pub(super) is_quick: bool,
    /// Returns a command for a program of the release, with the configuration of what it talks to.
    pub(super) enter: &'a dyn Fn(&str) -> Command,
    /// Variables of the environment, besides those of the list.
    pub(super) env: &'a [(String, String)],
}

impl Runner<'_> {
    pub(super) fn run(&self, report: &mut Report) -> Result<()> {
        match self.suite.judged {
            Judged::Status => self.run_once(report),
            Judged::Gtest | Judged::Pytest => self.run_tests(report),
        }
    }

    /// The command without arguments that choose tests.
    fn command(&self) -> Command {
        // `env` takes the variables between its own options and the program.
        let mut command = (self.enter)("env");
        let env = self.suite.env.iter().chain(self.env);
        command.args(env.map(|(name, value)| format!("{name}={value}")));
        match self.suite.judged {
            Judged::Pytest => {
                // Reasons of failures are not cut at the width of a terminal.
                command.args(["COLUMNS=1000", "python3", "-m", "pytest", "-p", "no:cacheprovider"]);
            }
            Judged::Gtest | Judged::Status => {
                command.arg(&self.suite.program).args(&self.suite.args);
            }
        }
        command
    }

    /// The command that lists the tests.
    fn listing(&self) -> Command {
        let mut command = self.command();
        match self.suite.judged {
            Judged::Pytest => {
                command.args(["--collect-only", "-q"]).arg(sources::file(&self.suite.program));
            }
            Judged::Gtest | Judged::Status => {
                command.arg("--gtest_list_tests");
            }
        }
        command
    }

    /// The command that runs some tests.
    fn choosing(&self, tests: &BTreeSet<String>) -> Command {
        let mut command = self.command();
        match self.suite.judged {
            Judged::Pytest => {
                let file = sources::file(&self.suite.program);
                command.args(["-v", "--tb=no", "-rfE"]);
                command.args(tests.iter().map(|test| format!("{file}::{test}")));
            }
            Judged::Gtest | Judged::Status => {
                let filter: Vec<&str> = tests.iter().map(String::as_str).collect();
                command.arg(format!("--gtest_filter={}", filter.join(":")));
            }
        }
        command
    }

    fn line(&self, output: &mut Output, line: &str) {
        match self.suite.judged {
            Judged::Gtest => gtest::line(output, line),
            Judged::Pytest => pytest::line(output, line),
            Judged::Status => output.say(line),
        }
    }

    /// Runs a program that is one test.
    fn run_once(&self, report: &mut Report) -> Result<()> {
        let test = self.suite.name().to_owned();
        let is_left_out = self.left_out.iter().any(|pattern| matches(pattern, &test));
        if is_left_out && self.is_quick {
            report.left_out.push(test);
            return Ok(());
        }
        let mut output = Output::default();
        let ended = program::run(&mut self.command(), SILENCE, |line| output.say(line))?;
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
    fn run_tests(&self, report: &mut Report) -> Result<()> {
        let (text, is_success) = program::output_of(&mut self.listing())?;
        let all = match self.suite.judged {
            Judged::Pytest => pytest::listed(&text),
            Judged::Gtest | Judged::Status => gtest::listed(&text),
        };
        if all.is_empty() || !is_success {
            return Err(format!("it lists no tests: {text}").into());
        }
        let is_any = |patterns: &[String], test: &str| patterns.iter().any(|pattern| matches(pattern, test));
        let unused = self.left_out.iter().filter(|pattern| !all.iter().any(|test| matches(pattern, test)));
        report.unused = unused.cloned().collect();
        let (out, mut wanted): (Vec<String>, Vec<String>) =
            all.into_iter().partition(|test| is_any(self.left_out, test));
        if self.is_quick {
            wanted.retain(|test| !is_any(&self.suite.slow, test));
        }
        report.outcomes = self.outcomes(wanted, SILENCE)?;
        let mut tried = BTreeMap::new();
        if !self.is_quick {
            tried = self.outcomes(out.clone(), SILENCE_LEFT_OUT)?;
        }
        for test in out {
            let passes = tried.get(&test) == Some(&Outcome::Passed);
            if passes { report.passing.push(test) } else { report.left_out.push(test) }
        }
        Ok(())
    }

    /// Runs tests, together or each alone.
    fn outcomes(&self, tests: Vec<String>, silence: Duration) -> Result<BTreeMap<String, Outcome>> {
        if !self.suite.alone {
            return self.outcomes_together(tests.into_iter().collect(), silence);
        }
        let mut outcomes = BTreeMap::new();
        for test in tests {
            outcomes.append(&mut self.outcomes_together(BTreeSet::from([test]), silence)?);
        }
        Ok(outcomes)
    }

    /// Runs tests in one process or, if a test ends the process, in as many as necessary.
    fn outcomes_together(
        &self,
        mut rest: BTreeSet<String>,
        silence: Duration,
    ) -> Result<BTreeMap<String, Outcome>> {
        let mut outcomes = BTreeMap::new();
        while !rest.is_empty() {
            let mut output = Output::default();
            let ended =
                program::run(&mut self.choosing(&rest), silence, |line| self.line(&mut output, line))?;
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
