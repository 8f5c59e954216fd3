//! Parses the output of pytest, called with `-v`.

use super::output::{Outcome, Output};

/// Takes a line that pytest printed. Tests are named without the name of their file.
pub(super) fn line(output: &mut Output, line: &str) {
    // At the end, a line for each test that failed tells why.
    if let Some((test, why)) = summary(line) {
        output.outcomes.insert(test.to_owned(), Outcome::Failed(why.to_owned()));
        return;
    }
    let Some((test, rest)) = named(line) else {
        output.say(line);
        return;
    };
    // Warnings are told at the end, each below the name of its test.
    if output.outcomes.contains_key(test) {
        return;
    }
    output.begin(test);
    let rest = rest.trim_start();
    match rest.split_whitespace().next() {
        Some("PASSED") => output.end(|_| Outcome::Passed),
        Some("SKIPPED") => output.end(|_| Outcome::Skipped),
        Some("FAILED" | "ERROR") => output.end(|_| Outcome::Failed("without a reason".to_owned())),
        // The process has ended within the test, and the rest of the line is its last word.
        _ => output.say(rest),
    }
}

/// Takes `file.py::Class::test …` apart.
fn named(line: &str) -> Option<(&str, &str)> {
    let (file, test) = line.split_once(".py::")?;
    if file.contains(char::is_whitespace) {
        return None;
    }
    Some(test.split_at(test.find(char::is_whitespace).unwrap_or(test.len())))
}

/// Takes `FAILED file.py::Class::test - why` apart.
fn summary(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR "))?;
    let (test, why) = named(rest)?;
    Some((test, why.strip_prefix(" - ").unwrap_or(why)))
}

/// Parses the output of `--collect-only -q`.
pub(super) fn listed(output: &str) -> Vec<String> {
    output.lines().filter_map(named).map(|(test, _)| test.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn results_are_read() {
        let mut output = Output::default();
        let text = "collecting ... collected 5 items\n\
            test_a.py::test_one PASSED                    [ 20%]\n\
            test_a.py::TestB::test_two SKIPPED (not here) [ 40%]\n\
            test_a.py::TestB::test_three FAILED           [ 60%]\n\
            test_a.py::test_one\n\
            FAILED test_a.py::TestB::test_three - assert 1 == 2\n\
            test_a.py::test_four Fatal Python error: Segmentation fault\n\
            Current thread";
        text.lines().for_each(|text| line(&mut output, text));
        assert_eq!(output.ended("killed by signal 11").as_deref(), Some("test_four"));
        let failed = |why: &str| Outcome::Failed(why.to_owned());
        let expected = [
            ("test_one", Outcome::Passed),
            ("TestB::test_two", Outcome::Skipped),
            ("TestB::test_three", failed("assert 1 == 2")),
            (
                "test_four",
                failed("Fatal Python error: Segmentation fault\nCurrent thread\nkilled by signal 11"),
            ),
        ];
        assert_eq!(
            output.outcomes,
            BTreeMap::from(expected.map(|(test, outcome)| (test.to_owned(), outcome)))
        );
    }

    #[test]
    fn tests_are_listed() {
        let text = "test_a.py::test_one\ntest_a.py::TestB::test_two\n\n2 tests collected in 0.1s\n";
        assert_eq!(listed(text), ["test_one", "TestB::test_two"]);
    }
}
