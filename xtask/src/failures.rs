//! Collects the failures, to repeat them at the end of the output, where they are read.

use std::collections::VecDeque;

/// The number of lines kept of one test program's failures: the first ones name the test, the last ones
/// its finding.
const FIRST_LINES: usize = 20;
const LAST_LINES: usize = 60;

/// The number of programs whose failures are kept.
const PROGRAMS_MAX: usize = 10;

/// The number of lines kept of a panic that a program reports while it runs, and of such panics.
const PANIC_LINES: usize = 8;
const PANICS_MAX: usize = 3;

/// Collects the lines of failing test programs between `failures:` and their result, and the panics before
/// them: where output is not captured, nothing else tells what was found. Backtraces are left out.
#[derive(Default)]
pub(crate) struct Failures {
    reports: Vec<Report>,
    /// The report that is being collected.
    open: Option<Report>,
    /// The panics of the program that is running.
    panics: Vec<Vec<String>>,
    /// The lines belong to a panic.
    in_panic: bool,
    /// The lines belong to a backtrace.
    in_backtrace: bool,
}

#[derive(Default)]
struct Report {
    first: Vec<String>,
    last: VecDeque<String>,
    left_out: usize,
}

impl Failures {
    /// Processes a line printed by a test program.
    pub(crate) fn line(&mut self, line: &str) {
        if self.is_of_backtrace(line) {
            self.in_panic = false;
            return;
        }
        if line.starts_with("running ") {
            self.panics.clear();
            self.in_panic = false;
        }
        if line.starts_with("test result: ") {
            if let Some(mut report) = self.open.take()
                && self.reports.len() < PROGRAMS_MAX
            {
                report.add(line);
                self.reports.push(report);
            }
        } else if line == "failures:" {
            let report = self.open.get_or_insert_default();
            self.panics.drain(..).flatten().for_each(|line| report.add(&line));
        } else if let Some(report) = &mut self.open {
            report.add(line);
        } else {
            self.keep_panic(line);
        }
    }

    /// A backtrace lasts from its title to its note or an empty line.
    fn is_of_backtrace(&mut self, line: &str) -> bool {
        let was_in_it = self.in_backtrace;
        let is_end = line.is_empty() || line.starts_with("note: ");
        self.in_backtrace = line == "stack backtrace:" || (was_in_it && !is_end);
        self.in_backtrace || (was_in_it && is_end)
    }

    fn keep_panic(&mut self, line: &str) {
        if line.starts_with("thread '") && line.contains(" panicked at ") && self.panics.len() < PANICS_MAX {
            self.panics.push(Vec::new());
            self.in_panic = true;
        }
        self.in_panic &= !line.is_empty() && !line.starts_with("note: ");
        if let Some(panic) = self.panics.last_mut().filter(|panic| self.in_panic && panic.len() < PANIC_LINES)
        {
            panic.push(line.to_owned());
        }
    }

    /// Adds the failures of programs that ran at the same time.
    pub(crate) fn add(&mut self, others: Self) {
        self.reports.extend(others.reports);
    }

    /// Returns all failures, shortened; empty if there are none.
    pub(crate) fn repeated(&self) -> String {
        self.reports.iter().map(Report::shown).collect()
    }
}

impl Report {
    fn add(&mut self, line: &str) {
        if self.first.len() < FIRST_LINES {
            self.first.push(line.to_owned());
            return;
        }
        if self.last.len() == LAST_LINES {
            self.last.pop_front();
            self.left_out += 1;
        }
        self.last.push_back(line.to_owned());
    }

    fn shown(&self) -> String {
        let left_out = (self.left_out > 0).then(|| format!("[{} lines are above only]", self.left_out));
        let lines = self.first.iter().chain(&left_out).chain(&self.last);
        lines.fold("== failed:\n".to_owned(), |all, line| all + line + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(output: &str) -> String {
        let mut failures = Failures::default();
        output.lines().for_each(|line| failures.line(line));
        failures.repeated()
    }

    #[test]
    fn what_failed_is_said_again_and_nothing_else() {
        let output = "running 2 tests\ntest a ... ok\ntest b ... FAILED\n\nfailures:\n\n---- b stdout ----\nleft: 1\n\n\
            failures:\n    b\n\ntest result: FAILED. 1 passed; 1 failed\nrunning 1 test\ntest result: ok. 1 passed; 0 failed";
        let repeated = said(output);
        assert!(repeated.starts_with("== failed:\n\n---- b stdout ----\nleft: 1\n"), "{repeated}");
        assert!(repeated.ends_with("    b\n\ntest result: FAILED. 1 passed; 1 failed\n"), "{repeated}");
        assert_eq!(said("running 1 test\ntest a ... ok\ntest result: ok. 1 passed; 0 failed"), "");
    }

    #[test]
    fn a_panic_that_was_not_captured_is_said_too_and_no_backtrace() {
        let output = "running 1 test\nthread 'main' (7) panicked at a.rs:1:2:\nstuck\nstack backtrace:\n   \
            0: f\n             at ./src/a.rs\nnote: Some details are omitted\nother output\ntest a ... FAILED\n\n\
            failures:\n\nfailures:\n    a\n\ntest result: FAILED. 0 passed; 1 failed";
        let expected = "== failed:\nthread 'main' (7) panicked at a.rs:1:2:\nstuck\n\n    a\n\ntest result";
        assert!(said(output).starts_with(expected), "{}", said(output));
        let passed = "thread 'main' (7) panicked at a.rs:1:2:\nexpected\ntest a ... ok\ntest result: ok.";
        assert_eq!(said(passed), "");
        assert!(!said(&format!("{passed}\n{output}")).contains("expected"));
    }

    #[test]
    fn of_much_the_beginning_and_the_end_are_kept() {
        let lines: Vec<String> = (0..1000).map(|number| format!("line {number}")).collect();
        let repeated = said(&format!("failures:\n{}\ntest result: FAILED.", lines.join("\n")));
        assert!(
            repeated.contains("line 0\n")
                && repeated.contains("line 999\n")
                && !repeated.contains("line 500\n")
        );
        assert_eq!(repeated.lines().count(), 1 + FIRST_LINES + 1 + LAST_LINES);
        assert!(repeated.contains("[921 lines are above only]"), "{repeated}");
    }
}
