//! pjdfstest: each call of POSIX, and what it must refuse.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::list::Pjdfstest;
use super::{Found, Mounted};
use crate::Result;
use crate::suites::program;

/// A test that says nothing for so long is hung.
const SILENCE: Duration = Duration::from_secs(120);

/// What the tests may rely on: only what CephFS has on Linux. Two users and their groups are on every
/// machine.
const CONF: &str = "\
[features]
rename_ctime = {}
utime_now = {}
utimensat = {}

[settings]
naptime = 0.01
allow_remount = false

[dummy_auth]
entries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"]]
";

pub(super) fn run(suite: &Pjdfstest, tool: &Path, mounted: &Mounted, found: &mut Found) -> Result<()> {
    let folder = mounted.folder("pjdfstest")?;
    let conf = tool.with_extension("toml");
    fs::write(&conf, CONF)?;
    let mut output = Output::default();
    let mut command = Command::new(tool);
    command.arg("-c").arg(&conf).arg("-p").arg(&folder).env("NO_COLOR", "1");
    let ended = program::run(&mut command, SILENCE, |line| output.line(line))?;
    let outcomes = output.outcomes;
    if outcomes.is_empty() {
        return Err(format!("pjdfstest ran no test: {}", ended.how).into());
    }
    if !ended.is_success && !outcomes.iter().any(|test| test.outcome == Outcome::Failed) {
        found.fail("pjdfstest".to_owned(), &ended.how);
    }
    for Test { name, outcome, said } in outcomes {
        let is_left_out =
            suite.left_out.iter().any(|group| group.is_of(mounted.release()) && group.tests.contains(&name));
        let shown = format!("pjdfstest {name}");
        match outcome {
            Outcome::Passed if is_left_out => found.passing.push(shown),
            Outcome::Passed => found.pass(),
            // What this machine or the file system does not have.
            Outcome::Skipped => found.left_out += 1,
            Outcome::Failed if is_left_out => found.left_out += 1,
            Outcome::Failed => found.fail(shown, &said),
        }
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Skipped,
    Failed,
}

#[derive(Debug, PartialEq, Eq)]
struct Test {
    name: String,
    outcome: Outcome,
    said: String,
}

/// The parser of the output: a line with each test's name and outcome, and indented ones with reasons.
#[derive(Default)]
struct Output {
    outcomes: Vec<Test>,
}

impl Output {
    fn line(&mut self, line: &str) {
        if let Some(reason) = line.strip_prefix('\t') {
            if let Some(test) = self.outcomes.last_mut() {
                test.said.push_str(reason);
                test.said.push('\n');
            }
            return;
        }
        let mut words = line.split_whitespace();
        let (Some(name), Some(outcome), None) = (words.next(), words.next(), words.next()) else { return };
        let outcome = match outcome {
            "ok" => Outcome::Passed,
            "skipped" => Outcome::Skipped,
            "FAILED" => Outcome::Failed,
            _ => return,
        };
        self.outcomes.push(Test { name: name.to_owned(), outcome, said: String::new() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_test_has_an_outcome_and_its_reasons() {
        let mut output = Output::default();
        let text = "chmod::eperm      ok\nopen::sockets    FAILED\n\tassertion failed\n\tleft: 1\n\
            chflags::a   skipped\n\trequires features: chflags\n\nSummary: 1 failed, 1 skipped";
        text.lines().for_each(|line| output.line(line));
        let test =
            |name: &str, outcome, said: &str| Test { name: name.to_owned(), outcome, said: said.to_owned() };
        let expected = [
            test("chmod::eperm", Outcome::Passed, ""),
            test("open::sockets", Outcome::Failed, "assertion failed\nleft: 1\n"),
            test("chflags::a", Outcome::Skipped, "requires features: chflags\n"),
        ];
        assert_eq!(output.outcomes, expected);
    }
}
