//! Which test programs took longest.

use std::time::Duration;

/// How many are shown.
const SHOWN: usize = 10;

/// Times of test programs, from what cargo and they print, and of suites.
#[derive(Default)]
pub(crate) struct Slowest {
    /// The program whose result has not come.
    running: Option<String>,
    times: Vec<(Duration, String)>,
}

impl Slowest {
    /// Takes a line that cargo or a test program printed.
    pub(crate) fn line(&mut self, line: &str) {
        let said = line.trim_start();
        if let Some(program) = said.strip_prefix("Running ").or_else(|| said.strip_prefix("Doc-tests ")) {
            self.running = Some(program.to_owned());
        } else if let Some(result) = line.strip_prefix("test result: ") {
            let seconds =
                result.rsplit_once("finished in ").and_then(|(_, s)| s.trim_end_matches('s').parse().ok());
            if let (Some(seconds), Some(program)) = (seconds, self.running.clone()) {
                self.add(Duration::from_secs_f64(seconds), program);
            }
        }
    }

    pub(crate) fn add(&mut self, took: Duration, what: String) {
        self.times.push((took, what));
    }

    /// Adds the times of tests that ran at the same time.
    pub(crate) fn add_all(&mut self, others: Self) {
        self.times.extend(others.times);
    }

    /// The slowest, one a line; nothing if there are none.
    pub(crate) fn shown(&self) -> String {
        let mut times: Vec<_> = self.times.iter().collect();
        times.sort_by(|a, b| b.cmp(a));
        let lines = times.iter().take(SHOWN);
        let shown: String =
            lines.map(|(took, what)| format!("{:>7.1} s  {what}\n", took.as_secs_f64())).collect();
        if shown.is_empty() { shown } else { format!("== slowest:\n{shown}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_named_with_their_times() {
        let mut slowest = Slowest::default();
        for line in [
            "     Running unittests src/lib.rs (target/debug/deps/loligo_lane-1)",
            "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.50s",
            "     Running tests/power.rs (target/debug/deps/power-2)",
            "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 31.20s",
            "   Doc-tests loligo_types",
            "test result: ok. 1 passed; 0 failed",
        ] {
            slowest.line(line);
        }
        slowest.add(Duration::from_secs(4), "disk api_aio".to_owned());
        assert_eq!(
            slowest.shown(),
            "== slowest:\n   31.2 s  tests/power.rs (target/debug/deps/power-2)\n    4.0 s  disk api_aio\n    0.5 s  \
             unittests src/lib.rs (target/debug/deps/loligo_lane-1)\n"
        );
        assert_eq!(Slowest::default().shown(), "");
    }
}
