//! The results of all parts of the tests, added up.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Instant;

use crate::failures::Failures;
use crate::slowest::Slowest;
use crate::suites::{self, Choice};
use crate::{Result, watched};

/// What a test that this machine cannot run says on standard error, before the reason.
const SKIPPED: &str = "skipped: ";

#[derive(Default)]
pub(crate) struct Totals {
    passed: u64,
    failed: u64,
    failures: Failures,
    left_out: Vec<String>,
    /// Why tests did nothing, which this machine need not be able to run, and how many for each reason.
    skipped: BTreeMap<String, u64>,
    /// Tests that are among those that passed, since they ended well, and did nothing.
    did_nothing: u64,
    slowest: Slowest,
    /// What suites found, for the end.
    found: Vec<String>,
}

impl Totals {
    /// Runs a test command, shows its output and adds up its results; a test program that hangs counts
    /// as failed. If the command fails without a failed test (a build error), this is an error.
    pub(crate) fn cargo_test(&mut self, command: &mut Command, what: &str) -> Result<()> {
        println!("== {what}");
        let begun = Instant::now();
        let failed_before = self.failed;
        let ended = watched::run(command, |line| self.line(line))?;
        self.failed += ended.hung;
        if !ended.is_success && self.failed == failed_before {
            return Err(format!("{what}: cargo failed, and no test did").into());
        }
        println!("== {what}: {} s", begun.elapsed().as_secs());
        Ok(())
    }

    /// Runs one test program and adds up its results. Its output is shown when it has ended, because other
    /// programs may run at the same time.
    pub(crate) fn program(&mut self, command: &mut Command, name: &str) -> Result<()> {
        let begun = Instant::now();
        let failed_before = self.failed;
        let ended = watched::run_apart(command, name, |line| self.line(line))?;
        self.failed += ended.hung;
        if !ended.is_success && self.failed == failed_before {
            self.failed += 1;
            self.found.push(format!("{name} ended without a result\n"));
        }
        self.slowest.add(begun.elapsed(), name.to_owned());
        Ok(())
    }

    /// Runs Ceph's own test programs of a release.
    pub(crate) fn suites(&mut self, choice: &Choice<'_>) {
        if let Err(why) = self.try_suites(choice) {
            self.leave_out(format!("suites of Ceph {}: {why}", choice.release.version()));
        }
    }

    /// Runs the quick ones of Ceph's own test programs. If the release cannot be installed on this
    /// machine, they are skipped.
    pub(crate) fn quick_suites(&mut self, choice: &Choice<'_>) {
        if let Err(why) = self.try_suites(choice) {
            self.skip(&format!("Ceph's own test programs (suites --quick): {why}"));
        }
    }

    fn try_suites(&mut self, choice: &Choice<'_>) -> Result<()> {
        let what = format!("suites of Ceph {}", choice.release.version());
        println!("== {what}");
        let begun = Instant::now();
        let tally = suites::run(choice)?;
        self.passed += tally.passed;
        self.failed += tally.failures();
        self.found.push(tally.shown());
        tally.times().for_each(|(took, suite)| self.slowest.add(took, suite));
        println!("== {what}: {} s", begun.elapsed().as_secs());
        Ok(())
    }

    /// Records tests that could not run.
    pub(crate) fn leave_out(&mut self, what: String) {
        self.left_out.push(what);
    }

    /// Adds the results of tests that ran at the same time.
    pub(crate) fn add(&mut self, others: Self) {
        self.passed += others.passed;
        self.failed += others.failed;
        self.did_nothing += others.did_nothing;
        self.failures.add(others.failures);
        self.slowest.add_all(others.slowest);
        self.left_out.extend(others.left_out);
        self.found.extend(others.found);
        for (why, count) in others.skipped {
            *self.skipped.entry(why).or_default() += count;
        }
    }

    /// Prints the results.
    ///
    /// # Errors
    /// A test has failed, or in CI something was left out.
    pub(crate) fn verdict(&self) -> Result<()> {
        print!("{}", self.failures.repeated());
        for text in &self.found {
            print!("{text}");
        }
        for suite in &self.left_out {
            println!("left out: {suite}");
        }
        print!("{}", self.slowest.shown());
        for (why, count) in &self.skipped {
            println!("{count} skipped: {why}");
        }
        let skipped: u64 = self.skipped.values().sum();
        println!("{} passed, {} failed, {skipped} skipped", self.passed(), self.failed);
        if self.failed > 0 {
            return Err(format!("{} tests failed", self.failed).into());
        }
        if !self.left_out.is_empty() && std::env::var_os("CI").is_some() {
            return Err("in CI no suite may be left out".into());
        }
        Ok(())
    }

    fn passed(&self) -> u64 {
        self.passed.saturating_sub(self.did_nothing)
    }

    fn skip(&mut self, why: &str) {
        *self.skipped.entry(why.to_owned()).or_default() += 1;
    }

    /// Takes a line that cargo or a test program printed.
    fn line(&mut self, line: &str) {
        self.failures.line(line);
        self.slowest.line(line);
        self.count(line);
    }

    /// Adds a line such as `test result: ok. 13 passed; 0 failed; 2 ignored; …`, or `skipped: why` of a test
    /// that does nothing on this machine. Such a test has passed for its program.
    fn count(&mut self, line: &str) {
        // Its name may stand before it.
        if let Some((_, why)) = line.split_once(SKIPPED) {
            self.skip(why);
            self.did_nothing += 1;
        }
        let Some(result) = line.strip_prefix("test result: ") else {
            return;
        };
        let words: Vec<&str> = result.split_whitespace().collect();
        for pair in words.windows(2) {
            match (pair[0].parse::<u64>(), pair[1].trim_end_matches(';')) {
                (Ok(n), "passed") => self.passed += n,
                (Ok(n), "failed") => self.failed += n,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_added_up() {
        let mut totals = Totals::default();
        totals.count(
            "test result: ok. 13 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.1s",
        );
        totals.count("test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out");
        totals.count("test other::passed ... ok");
        assert_eq!((totals.passed, totals.failed), (14, 2));
        totals.count("skipped: no /dev/fuse");
        totals.count("test power ... skipped: no /dev/fuse");
        assert_eq!(totals.passed(), 12, "what was skipped has not passed");
        assert_eq!(totals.skipped, BTreeMap::from([("no /dev/fuse".to_owned(), 2)]));
    }

    #[test]
    fn programs_that_fail_are_counted_and_named() {
        let mut one = Totals::default();
        let say = |text: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", text]);
            command
        };
        one.program(&mut say("echo 'test result: FAILED. 2 passed; 1 failed'; exit 101"), "a").expect("runs");
        assert_eq!((one.passed, one.failed), (2, 1), "the test that failed is counted once");
        let mut other = Totals::default();
        other.program(&mut say("kill -9 $$"), "b").expect("runs");
        other.program(&mut say("echo 'test result: ok. 4 passed; 0 failed'"), "c").expect("runs");
        one.add(other);
        assert_eq!((one.passed, one.failed), (6, 2));
        assert_eq!(one.found, ["b ended without a result\n"]);
        assert!(one.verdict().is_err());
    }
}
