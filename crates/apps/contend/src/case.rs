//! The trait of a contention case, and its metrics.

use std::time::Duration;

use loligo_lockstat::ClassReport;

use crate::{Error, Spread};

/// One published case of contention that can be run in both forms.
pub trait Case: Sync {
    /// The name on the command line and in JSON; it does not change.
    fn name(&self) -> &'static str;

    /// What it is about, for people.
    fn about(&self) -> About;

    /// The settings in which it is measured, and what is measured in each.
    fn settings(&self) -> Vec<Setting>;

    /// Runs one form in the setting of this index for about `time`, and leaves nothing running.
    ///
    /// # Errors
    /// If the system refuses something, or `time` is too short.
    fn measure(&self, setting: usize, form: Form, time: Duration) -> Result<Sample, Error>;
}

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The coarse form that the published text describes.
    Before,
    /// This project's own code path.
    After,
}

impl Form {
    /// Before, then after: also the order of pairs in results.
    pub const BOTH: [Form; 2] = [Form::Before, Form::After];

    /// `before` or `after`.
    pub fn name(self) -> &'static str {
        match self {
            Form::Before => "before",
            Form::After => "after",
        }
    }
}

/// What people read about a case.
#[derive(Clone, Debug)]
pub struct About {
    /// What goes wrong, in some words.
    pub title: &'static str,
    /// What the measured "before" does.
    pub before: &'static str,
    /// What the measured "after" does, and which crate does it.
    pub after: &'static str,
    /// What must be known to read the figures; may be empty.
    pub note: &'static str,
    /// Where it was published.
    pub source: Source,
}

/// A public text.
#[derive(Clone, Debug)]
pub struct Source {
    /// Who wrote it.
    pub author: &'static str,
    /// What it is called.
    pub title: &'static str,
    /// When it appeared, as precisely as is known.
    pub date: &'static str,
    /// Where it can be read.
    pub url: &'static str,
}

/// One way of running a case.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Such as `256 threads`.
    pub name: String,
    /// What is measured, the most telling first.
    pub metrics: Vec<Metric>,
    /// What the distribution shows, such as `time in the send call`; empty if there is none.
    pub spread_of: &'static str,
}

/// One figure of a setting.
#[derive(Clone, Debug)]
pub struct Metric {
    /// Such as `average wait`.
    pub name: &'static str,
    /// What it is counted in.
    pub unit: Unit,
    /// Which direction is good.
    pub better: Better,
    /// How many times better the published "after" was than its "before"; `None` if it was not published.
    pub reference_ratio: Option<f64>,
}

impl Metric {
    /// A metric of which less is better.
    pub(crate) fn lower(name: &'static str, unit: Unit) -> Self {
        Self { name, unit, better: Better::Lower, reference_ratio: None }
    }

    /// A metric of which more is better.
    pub(crate) fn higher(name: &'static str, unit: Unit) -> Self {
        Self { name, unit, better: Better::Higher, reference_ratio: None }
    }

    /// The same metric with the published ratio.
    pub(crate) fn published(self, reference_ratio: f64) -> Self {
        Self { reference_ratio: Some(reference_ratio), ..self }
    }

    /// How many times better `after` is: above one is a gain. `None` if one of them is nothing, as the waits
    /// of a lock are that nobody ever waited for.
    pub fn ratio(&self, before: f64, after: f64) -> Option<f64> {
        let (worse, better) = match self.better {
            Better::Lower => (before, after),
            Better::Higher => (after, before),
        };
        (worse > 0.0 && better > 0.0).then(|| worse / better).filter(|ratio| ratio.is_finite())
    }
}

/// Which direction is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
}

/// What a figure is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// Seconds.
    S,
    /// Events a second.
    PerS,
    /// A number of events.
    Count,
    /// Multiples of something that the metric's name names.
    Times,
}

impl Unit {
    /// As it stands in JSON.
    pub fn symbol(self) -> &'static str {
        match self {
            Unit::Ns => "ns",
            Unit::Us => "us",
            Unit::Ms => "ms",
            Unit::S => "s",
            Unit::PerS => "1/s",
            Unit::Count => "count",
            Unit::Times => "x",
        }
    }
}

/// What one run of one form measured.
#[derive(Clone, Debug)]
pub struct Sample {
    /// In the order of the setting's metrics; finite and not negative.
    pub figures: Vec<f64>,
    /// The distribution that the setting names; empty if it names none.
    pub spread: Spread,
    /// Locks that somebody waited for.
    pub locks: Vec<ClassReport>,
}
