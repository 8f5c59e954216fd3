//! Published contention cases, before and after, measured on the machine this runs on.
//!
//! Engineers working on tail latency have published cases in which one request waited behind another
//! one's lock, and the gain from removing that lock. A [`Case`] makes one such text runnable. Its
//! *before* is the coarse form that the text describes, implemented as well as that form can be. Its
//! *after* is this project's own code path, called through its public interfaces. [`run()`] alternates
//! both for some rounds and returns medians, ratios and the published ratio.
//!
//! | item | where |
//! |---|---|
//! | a case, its settings and metrics | [`Case`], [`Setting`], [`Metric`] |
//! | all cases, one file each | [`cases()`], [`cases_with()`], `cases/` |
//! | rounds, medians, ratios | [`run()`], [`Plan`], [`Outcome`] |
//! | a terminal's table, JSON, a page with charts | [`to_table`], [`to_json`], [`to_html`] |
//! | parts of the charts for other pictures | [`chart`] |
//! | the order of random accesses, for other measurements too | [`scramble()`] |
//! | the operations of one write of either form, for a picture | [`trace_direct_writes`] |
//!
//! A new case is one file in `cases/` and one line in [`cases()`].
//!
//! Rules of this crate:
//! - no "before" in a product crate, and no copy of a product's code in an "after";
//! - no verdict: ratios below one are shown like those above;
//! - no comparison between machines: both forms run on this machine, and the published ratio is shown
//!   beside the measured one, with the number of processors;
//! - one run at a time in a process: a run resets and reads the process's lock counters.
#![forbid(unsafe_code)]

mod case;
mod cases;
mod error;
mod machine;
mod measure;
mod output;
mod run;
mod scramble;
#[cfg(test)]
mod testing;

pub use case::{About, Better, Case, Form, Metric, Sample, Setting, Source, Unit};
pub use cases::{by_name, cases, cases_with, trace_direct_writes};
pub use error::Error;
pub use machine::Machine;
pub use measure::Spread;
pub use output::{chart, to_html, to_json, to_table};
pub use run::{Locks, Outcome, Plan, Row, SettingOutcome, Step, run};
pub use scramble::scramble;
