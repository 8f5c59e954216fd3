//! Published contention cases, before and after, measured on the machine this runs on.
//!
//! Engineers who fought for tail latency have published where one request waited behind another one's lock,
//! and what it brought to take that lock out. A [`Case`] is one such text made runnable: its *before* is the
//! coarse form that the text describes, written as well as that form can be; its *after* is this project's
//! own code path, called through the interfaces that everybody calls. [`run()`] lets both alternate for some
//! rounds and gives medians, ratios, and the ratio that the text published.
//!
//! | what | where |
//! |---|---|
//! | a case, its settings and metrics | [`Case`], [`Setting`], [`Metric`] |
//! | all cases; one file for each | [`cases()`], `cases/` |
//! | rounds, medians, ratios | [`run()`], [`Plan`], [`Outcome`] |
//! | a terminal's table, JSON, a page with charts | [`to_table`], [`to_json`], [`to_html`] |
//! | what other pictures share with these charts | [`chart`] |
//!
//! A new case is one file in `cases/` and one line in [`cases()`].
//!
//! What this crate refuses to do:
//! - no "before" in a product crate, and no copy of a product's code in an "after";
//! - no verdict: it shows ratios below one as readily as those above;
//! - no comparison between machines: both forms run here and now, and the published ratio stands beside ours
//!   with the number of processors it needs to be read with;
//! - one run at a time in a process: the lock counters that it resets and reads are the process's.
#![forbid(unsafe_code)]

mod case;
mod cases;
mod error;
mod machine;
mod measure;
mod output;
mod run;
#[cfg(test)]
mod testing;

pub use case::{About, Better, Case, Form, Metric, Sample, Setting, Source, Unit};
pub use cases::{by_name, cases};
pub use error::Error;
pub use machine::Machine;
pub use measure::Spread;
pub use output::{chart, to_html, to_json, to_table};
pub use run::{Locks, Outcome, Plan, Row, SettingOutcome, Step, run};
