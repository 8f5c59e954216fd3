//! How long 1,000 threads wait for the lock of one connection's queue, against a connection with one mutex for everything:
//! the example `out_queue_lock` of `loligo-msgr`, which runs both.

use std::fmt::Write;

use serde_json::{Value, json};

use super::measure::median;
use crate::Result;
use crate::process::{cargo, output_of};

/// Medians of both forms.
pub(super) struct OutQueue {
    before: Waits,
    after: Waits,
}

#[derive(Clone, Copy)]
struct Waits {
    ops_per_s: f64,
    contentions: f64,
    longest_us: f64,
    total_ms: f64,
}

pub(super) fn compare(rounds: usize) -> Result<OutQueue> {
    let mut before = Vec::new();
    let mut after = Vec::new();
    for _ in 0..rounds {
        let example = ["-p", "loligo-msgr", "--features", "testing", "--example", "out_queue_lock"];
        let text = output_of(cargo().args(["run", "--quiet", "--release"]).args(example))?;
        before.push(row(&text, "one mutex")?);
        after.push(row(&text, "out-queue")?);
    }
    Ok(OutQueue { before: Waits::median(&before), after: Waits::median(&after) })
}

/// A row of the example's table: requests, per second, contentions, average and longest wait, total wait.
fn row(text: &str, form: &str) -> Result<Waits> {
    let numbers = text.lines().find_map(|line| {
        let rest = line.strip_prefix(form)?;
        let numbers: Vec<f64> = rest.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        (numbers.len() == 6).then_some(numbers)
    });
    let n = numbers.ok_or_else(|| format!("out_queue_lock printed no row '{form}':\n{text}"))?;
    Ok(Waits { ops_per_s: n[1], contentions: n[2], longest_us: n[4], total_ms: n[5] })
}

impl Waits {
    fn median(rounds: &[Self]) -> Self {
        let of = |field: fn(&Self) -> f64| median(rounds.iter().map(field));
        Self {
            ops_per_s: of(|w| w.ops_per_s),
            contentions: of(|w| w.contentions),
            longest_us: of(|w| w.longest_us),
            total_ms: of(|w| w.total_ms),
        }
    }

    fn json(&self) -> Value {
        json!({"ops_per_s": self.ops_per_s, "contentions": self.contentions,
               "longest_wait_us": self.longest_us, "total_wait_ms": self.total_ms})
    }
}

impl OutQueue {
    pub(super) fn table(&self) -> String {
        let mut t = format!(
            "\n{:<34} {:>10} {:>12} {:>12} {:>14}\n",
            "1,000 threads on one connection", "ops/s", "contentions", "longest µs", "total wait ms"
        );
        for (name, w) in [("one mutex", &self.before), ("out-queue", &self.after)] {
            let _ = writeln!(
                t,
                "  {name:<32} {:>10.0} {:>12.0} {:>12.1} {:>14.2}",
                w.ops_per_s, w.contentions, w.longest_us, w.total_ms
            );
        }
        t
    }

    pub(super) fn json(&self) -> Value {
        json!({"one_mutex": self.before.json(), "out_queue": self.after.json()})
    }
}
