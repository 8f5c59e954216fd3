//! Parses the output of Google's test framework.

use super::output::{Outcome, Output};

/// Takes a line that the program printed.
pub(super) fn line(output: &mut Output, line: &str) {
    // A test may have printed text without a newline before this.
    if let Some((_, test)) = line.split_once("[ RUN      ] ") {
        output.begin(test.trim());
    } else if line.contains("[       OK ] ") {
        output.end(|_| Outcome::Passed);
    } else if line.contains("[  SKIPPED ] ") {
        output.end(|_| Outcome::Skipped);
    } else if line.contains("[  FAILED  ] ") {
        // The lists at the end of the output name tests as well, while none is running.
        output.end(|said| Outcome::Failed(said.join("\n")));
    } else {
        output.say(line);
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
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn results_are_read_also_behind_other_text() {
        let mut output = Output::default();
        let text = "Running main() from gmock_main.cc\n[ RUN      ] A.a\nx[       OK ] A.a (3 ms)\n[ RUN      ] A.b/0\n\
            file.cc:3: Failure\n[  FAILED  ] A.b/0, where GetParam() = 3 (1 ms)\n[ RUN      ] A.c\nno room\n[  SKIPPED ] A.c (0 ms)\n\
            [ RUN      ] A.d\nbang";
        text.lines().for_each(|text| line(&mut output, text));
        assert_eq!(output.ended("killed by signal 11").as_deref(), Some("A.d"));
        for text in ["[  FAILED  ] A.b/0, where GetParam() = 3", "[  SKIPPED ] A.c"] {
            line(&mut output, text);
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
