//! Compares how long 1,000 threads wait for the lock of one connection's queue with a connection that
//! has one mutex for everything: `loligo contend out-queue`, which runs both.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::Result;
use crate::process::output_of;

/// The setting in the table.
const SETTING: &str = "1000 threads";

/// The medians of both forms.
pub(super) struct OutQueue {
    before: Waits,
    after: Waits,
}

struct Waits {
    ops_per_s: f64,
    contentions_per_million: f64,
    longest_us: f64,
    total_ms_per_million: f64,
}

pub(super) fn compare(loligo: &Path, rounds: usize) -> Result<OutQueue> {
    let rounds = rounds.to_string();
    let mut contend = Command::new(loligo);
    contend.args(["contend", "out-queue", "--format", "json", "--rounds", &rounds]);
    let rows: Vec<Value> = serde_json::from_str(&output_of(&mut contend)?)?;
    Ok(OutQueue { before: Waits::read(&rows, "before")?, after: Waits::read(&rows, "after")? })
}

impl Waits {
    fn read(rows: &[Value], form: &str) -> Result<Self> {
        let of = |name: &str| {
            let metric = format!("{name}, {SETTING}");
            let row = rows.iter().find(|row| row["metric"] == metric.as_str());
            row.and_then(|row| row[form].as_f64()).ok_or_else(|| format!("contend printed no '{metric}'"))
        };
        Ok(Self {
            ops_per_s: of("requests")?,
            contentions_per_million: of("waits per million requests")?,
            longest_us: of("longest wait")?,
            total_ms_per_million: of("total wait per million requests")?,
        })
    }

    fn json(&self) -> Value {
        json!({"ops_per_s": self.ops_per_s, "contentions_per_million": self.contentions_per_million,
               "longest_wait_us": self.longest_us, "total_wait_ms_per_million": self.total_ms_per_million})
    }
}

impl OutQueue {
    pub(super) fn table(&self) -> String {
        let mut t = format!(
            "\n{:<34} {:>10} {:>12} {:>12} {:>14}\n",
            "1,000 threads on one connection", "ops/s", "waits/M ops", "longest µs", "total ms/M ops"
        );
        for (name, w) in [("one mutex", &self.before), ("out-queue", &self.after)] {
            let _ = writeln!(
                t,
                "  {name:<32} {:>10.0} {:>12.0} {:>12.1} {:>14.2}",
                w.ops_per_s, w.contentions_per_million, w.longest_us, w.total_ms_per_million
            );
        }
        t
    }

    pub(super) fn json(&self) -> Value {
        json!({"one_mutex": self.before.json(), "out_queue": self.after.json()})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_metric_and_a_missing_one_is_named() {
        let row = |metric: &str, before: f64| json!({"metric": format!("{metric}, 1000 threads"), "before": before});
        let mut rows = vec![
            row("requests", 1.0),
            row("waits per million requests", 2.0),
            row("longest wait", 3.0),
            row("total wait per million requests", 4.0),
        ];
        let waits = Waits::read(&rows, "before").unwrap();
        assert_eq!((waits.ops_per_s, waits.longest_us, waits.total_ms_per_million), (1.0, 3.0, 4.0));
        rows.remove(2);
        let missing = Waits::read(&rows, "before").err().unwrap().to_string();
        assert!(missing.contains("longest wait"), "{missing}");
    }
}
