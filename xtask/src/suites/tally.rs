//! The combined results of all jobs.

use std::time::Duration;

use super::output::Outcome;
use super::runner::Report;

/// The counts, and the names of tests where a count is not enough.
pub(crate) struct Tally {
    /// What was run, for people.
    of: String,
    pub(crate) passed: u64,
    /// The failed tests, with their output.
    failed: Vec<(String, String)>,
    skipped: Vec<String>,
    passing: Vec<String>,
    times: Vec<(Duration, String)>,
    left_out: u64,
    unused: Vec<String>,
    /// Programs that the list does not mention.
    pub(super) unlisted: Vec<String>,
}

impl Tally {
    pub(super) fn new(of: String) -> Self {
        Self {
            of,
            passed: 0,
            failed: Vec::new(),
            skipped: Vec::new(),
            passing: Vec::new(),
            times: Vec::new(),
            left_out: 0,
            unused: Vec::new(),
            unlisted: Vec::new(),
        }
    }

    /// Adds the results of a program, and prints a line about it.
    pub(super) fn add(&mut self, suite: String, report: Report) {
        let (passed, failed) = (self.passed, self.failed.len());
        for (test, outcome) in report.outcomes {
            match outcome {
                Outcome::Passed => self.passed += 1,
                Outcome::Skipped => self.skipped.push(format!("{suite} {test}")),
                Outcome::Failed(said) => self.failed.push((format!("{suite} {test}"), said)),
            }
        }
        println!(
            "{suite}: {} passed, {} failed, {} left out, {} of them pass; {} s",
            self.passed - passed,
            self.failed.len() - failed,
            report.left_out.len() + report.passing.len(),
            report.passing.len(),
            report.took.as_secs()
        );
        self.left_out += report.left_out.len() as u64;
        self.passing.extend(report.passing.iter().map(|test| format!("{suite} {test}")));
        self.unused.extend(report.unused.iter().map(|pattern| format!("{suite} {pattern}")));
        self.times.push((report.took, suite));
    }

    /// The number of failed tests and of programs that the list does not mention.
    pub(crate) fn failures(&self) -> u64 {
        (self.failed.len() + self.unlisted.len()) as u64
    }

    /// How long each suite took.
    pub(crate) fn times(&self) -> impl Iterator<Item = (Duration, String)> {
        self.times.iter().cloned()
    }

    /// All that a person has to know, the worst last.
    pub(crate) fn shown(&self) -> String {
        let mut text = String::new();
        let mut say = |what: &str, name: &str| text.push_str(&format!("{what}: {name}\n"));
        self.skipped.iter().for_each(|test| say("skipped by itself", test));
        self.unused.iter().for_each(|pattern| say("the list leaves out what is not there", pattern));
        self.passing.iter().for_each(|test| say("left out, and passes now", test));
        self.unlisted.iter().for_each(|name| say("on no list", name));
        for (test, said) in &self.failed {
            say("failed", test);
            said.lines().for_each(|line| say("  ", line));
        }
        text + &format!(
            "{}: {} passed, {} failed, {} skipped, {} left out ({} of them pass)\n",
            self.of,
            self.passed,
            self.failed.len(),
            self.skipped.len(),
            self.left_out + self.passing.len() as u64,
            self.passing.len()
        )
    }
}
