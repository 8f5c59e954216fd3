//! The results of all parts of the tests, added up.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::failures::Failures;
use crate::slowest::Slowest;
use crate::stock::Release;
use crate::suites::{self, Choice};
use crate::{Result, watched};

/// What a test that this machine cannot run says on standard error, before the reason.
const SKIPPED: &str = "skipped: ";

/// Runs a test command to its end, and shows its output at once. At least one test must have run: a command
/// that chooses a test by its name would otherwise pass when the test gets another name.
pub(crate) fn tests_pass(command: &mut Command) -> Result<()> {
    tests_pass_shown(command, &mut std::io::stdout())
}

fn tests_pass_shown(command: &mut Command, shown: &mut impl Write) -> Result<()> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let said = child.stdout.take().ok_or("its output is not piped")?;
    let (mut said, mut line) = (BufReader::new(said), Vec::new());
    let mut ran = 0;
    while said.read_until(b'\n', &mut line)? > 0 {
        shown.write_all(&line)?;
        ran += results(&String::from_utf8_lossy(&line)).map_or(0, |(passed, failed)| passed + failed);
        line.clear();
    }
    let status = child.wait()?;
    match ran {
        _ if !status.success() => Err(format!("{command:?} failed: {status}").into()),
        0 => Err(format!("{command:?} ran no test: is there none of this name any more?").into()),
        _ => Ok(()),
    }
}

/// Returns the numbers of tests that passed and failed from a line such as
/// `test result: ok. 13 passed; 0 failed; 2 ignored; …`.
fn results(line: &str) -> Option<(u64, u64)> {
    let words: Vec<&str> = line.strip_prefix("test result: ")?.split_whitespace().collect();
    let count = |what: &str| {
        let pairs = words.windows(2).filter(|pair| pair[1].trim_end_matches(';') == what);
        pairs.filter_map(|pair| pair[0].parse::<u64>().ok()).sum()
    };
    Some((count("passed"), count("failed")))
}

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
        let what = format!("suites of Ceph {}", choice.release.version());
        if let Err(why) = self.tally(&what, || suites::run(choice)) {
            self.leave_out(format!("{what}: {why}"));
        }
    }

    /// Runs the quick ones of Ceph's own test programs. If the release cannot be installed on this
    /// machine, they are skipped.
    pub(crate) fn quick_suites(&mut self, choice: &Choice<'_>) {
        let what = format!("suites of Ceph {}", choice.release.version());
        if let Err(why) = self.tally(&what, || suites::run(choice)) {
            self.skip(&format!("Ceph's own test programs (suites --quick): {why}"));
        }
    }

    /// Runs suites of other projects through a mount, those whose names contain `name`.
    pub(crate) fn mounted(&mut self, release: Release, name: Option<&str>, is_quick: bool) -> Result<()> {
        println!("== suites through a mount of Ceph {}", release.version());
        let begun = Instant::now();
        let found = suites::mounted::run(release, name, is_quick)?;
        self.passed += found.passed;
        self.failed += found.failed.len() as u64;
        self.found.push(found.shown());
        found.skipped.iter().for_each(|why| self.skip(why));
        println!("== suites through a mount: {} s", begun.elapsed().as_secs());
        Ok(())
    }

    /// Runs programs that exist on the C libraries.
    pub(crate) fn programs_on_capi(&mut self, choice: &Choice<'_>) {
        if let Err(why) = self.tally("programs on C libraries", || suites::run_capi(choice)) {
            self.leave_out(format!("programs on C libraries: {why}"));
        }
    }

    /// Runs the quick ones of the programs on the C libraries. If the release cannot be installed on this
    /// machine, they are skipped.
    pub(crate) fn quick_programs_on_capi(&mut self, choice: &Choice<'_>) {
        if let Err(why) = self.tally("programs on C libraries", || suites::run_capi(choice)) {
            self.skip(&format!("programs on C libraries (suites --capi --quick): {why}"));
        }
    }

    fn tally(&mut self, what: &str, run: impl FnOnce() -> Result<suites::Tally>) -> Result<()> {
        println!("== {what}");
        let begun = Instant::now();
        let tally = run()?;
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
        let (passed, failed) = results(line).unwrap_or_default();
        self.passed += passed;
        self.failed += failed;
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

    fn say(text: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        command
    }

    #[test]
    fn a_command_without_a_test_has_not_passed() {
        // Not to the output of this test: whoever runs it would count what is said there.
        let pass = |text| tests_pass_shown(&mut say(text), &mut Vec::new());
        let none = "echo 'test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 7 filtered out'";
        let told = pass(none).expect_err("nothing was tested").to_string();
        assert!(told.contains("ran no test"), "{told}");
        pass("echo 'test result: ok. 1 passed; 0 failed'").expect("a test has passed");
        let told = pass("echo 'test result: FAILED. 1 passed; 1 failed'; exit 101");
        assert!(told.expect_err("a test has failed").to_string().contains("101"));
    }

    #[test]
    fn programs_that_fail_are_counted_and_named() {
        let mut one = Totals::default();
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
