//! Parses the output of Google's test framework.

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

/// The parser of a program's output, line by line.
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
    pub(super) fn line(&mut self, line: &str) {
        // A test may have printed text without a newline before this.
        if let Some((_, test)) = line.split_once("[ RUN      ] ") {
            self.running = Some(test.trim().to_owned());
            self.said.clear();
        } else if line.contains("[       OK ] ") {
            self.end(|_| Outcome::Passed);
        } else if line.contains("[  SKIPPED ] ") {
            self.end(|_| Outcome::Skipped);
        } else if line.contains("[  FAILED  ] ") {
            self.end(|said| Outcome::Failed(said.join("\n")));
        } else {
            let said = if self.running.is_some() { &mut self.said } else { &mut self.outside };
            if said.len() < LINES_MAX {
                said.push(line.to_owned());
            }
        }
    }

    /// Ends the running test. The lists at the end of the output name tests as well, while none is
    /// running.
    fn end(&mut self, outcome: impl FnOnce(&[String]) -> Outcome) {
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

/// Parses the output of `--gtest_list_tests`. Disabled tests are left out.
pub(super) fn listed(output: &str) -> Vec<String> {
    let (mut case, mut tests) = ("", Vec::new());
    for line in output.lines() {
        let name = line.split('#').next().unwrap_or_default().trim_end();
        match name.strip_prefix("  ") {
            Some(test) if !case.is_empty() => tests.push(format!("{case}{test}")),
            _ => case = if name.ends_with('.') && !name.contains(' ') { name } else { "" },
        }
    }
    tests.retain(|test| !test.contains("DISABLED_"));
    tests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_also_behind_other_text() {
        let mut output = Output::default();
        let text = "Running main() from gmock_main.cc\n[ RUN      ] A.a\nx[       OK ] A.a (3 ms)\n[ RUN      ] A.b/0\n\
            file.cc:3: Failure\n[  FAILED  ] A.b/0, where GetParam() = 3 (1 ms)\n[ RUN      ] A.c\nno room\n[  SKIPPED ] A.c (0 ms)\n\
            [ RUN      ] A.d\nbang";
        text.lines().for_each(|line| output.line(line));
        assert_eq!(output.ended("killed by signal 11").as_deref(), Some("A.d"));
        for line in ["[  FAILED  ] A.b/0, where GetParam() = 3", "[  SKIPPED ] A.c"] {
            output.line(line);
        }
        let expected = [
            ("A.a", Outcome::Passed),
            ("A.b/0", Outcome::Failed("file.cc:3: Failure".to_owned())),
            ("A.c", Outcome::Skipped),
            ("A.d", Outcome::Failed("bang\nkilled by signal 11".to_owned())),
        ];
        assert_eq!(
            output.outcomes,
            BTreeMap::from(expected.map(|(test, outcome)| (test.to_owned(), outcome)))
        );
        assert_eq!(output.outside(), "Running main() from gmock_main.cc");
    }

    #[test]
    fn tests_are_listed() {
        let text = "setting up\nA.\n  a\n  DISABLED_b\nB/0.  # TypeParam = int\n  c  # GetParam() = 4\n";
        assert_eq!(listed(text), ["A.a", "B/0.c"]);
    }
}
