//! What a program's output says about its tests, collected line by line.

use std::collections::BTreeMap;

/// The number of lines that are kept of a test: the first ones tell what was expected.
const LINES_MAX: usize = 40;

/// How a test ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Passed,
    /// The test reported that it cannot run here.
    Skipped,
    /// With its output.
    Failed(String),
}

/// What was read so far. The framework's parser calls the methods ([`gtest`](super::gtest),
/// [`pytest`](super::pytest)).
#[derive(Default)]
pub(super) struct Output {
    pub(super) outcomes: BTreeMap<String, Outcome>,
    /// The test that has begun and not ended.
    running: Option<String>,
    said: Vec<String>,
    /// Lines printed outside of any test.
    outside: Vec<String>,
}

impl Output {
    /// A test begins.
    pub(super) fn begin(&mut self, test: &str) {
        self.running = Some(test.to_owned());
        self.said.clear();
    }

    /// Keeps a line that says nothing about the result of a test.
    pub(super) fn say(&mut self, line: &str) {
        let said = if self.running.is_some() { &mut self.said } else { &mut self.outside };
        if said.len() < LINES_MAX {
            said.push(line.to_owned());
        }
    }

    /// Ends the running test, if there is one.
    pub(super) fn end(&mut self, outcome: impl FnOnce(&[String]) -> Outcome) {
        if let Some(test) = self.running.take() {
            self.outcomes.insert(test, outcome(&self.said));
        }
    }

    /// Handles the end of the program: a test that is still running has failed, with the reason `why`.
    /// Returns its name.
    pub(super) fn ended(&mut self, why: &str) -> Option<String> {
        let test = self.running.take()?;
        self.said.push(why.to_owned());
        self.outcomes.insert(test.clone(), Outcome::Failed(self.said.join("\n")));
        Some(test)
    }

    /// The output before the first test and after the last.
    pub(super) fn outside(&self) -> String {
        self.outside.join("\n")
    }
}
