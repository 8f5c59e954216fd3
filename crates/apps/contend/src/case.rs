//! The trait of a contention case, and its metrics.

use std::time::Duration;

use loligo_lockstat::ClassReport;

use crate::{Error, Spread};

/// A published case of contention that can be run in both forms.
pub trait Case: Sync {
    /// The name on the command line and in JSON. It is stable.
    fn name(&self) -> &'static str;

    /// A description for people.
    fn about(&self) -> About;

    /// The settings, and the metrics of each.
    fn settings(&self) -> Vec<Setting>;

    /// Runs one form in the setting with this index for about `time`. No thread or server is left
    /// running.
    ///
    /// # Errors
    /// The system refuses a resource, or `time` is too short.
    fn measure(&self, setting: usize, form: Form, time: Duration) -> Result<Sample, Error>;
}

/// One of the two forms of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The coarse form that the published text describes.
    Before,
    /// This project's own code path.
    After,
}

impl Form {
    /// Before, then after. Pairs in results have the same order.
    pub const BOTH: [Form; 2] = [Form::Before, Form::After];

    /// `before` or `after`.
    pub fn name(self) -> &'static str {
        match self {
            Form::Before => "before",
            Form::After => "after",
        }
    }
}

/// A description of a case for people.
#[derive(Clone, Debug)]
pub struct About {
    /// The problem, in a few words.
    pub title: &'static str,
    /// What the measured "before" does.
    pub before: &'static str,
    /// What the measured "after" does, and in which crate.
    pub after: &'static str,
    /// Remarks needed to interpret the figures; may be empty.
    pub note: &'static str,
    /// The publication.
    pub source: Source,
}

/// A public text.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its author.
    pub author: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Its date, as precisely as known.
    pub date: &'static str,
    /// Its address.
    pub url: &'static str,
}

/// One configuration of a case.
#[derive(Clone, Debug)]
pub struct Setting {
    /// For example `256 threads`.
    pub name: String,
    /// The metrics, the most significant one first.
    pub metrics: Vec<Metric>,
    /// The quantity of the distribution, such as `time in the send call`; empty if there is none.
    pub spread_of: &'static str,
}

/// One figure of a setting.
#[derive(Clone, Debug)]
pub struct Metric {
    /// For example `average wait`.
    pub name: &'static str,
    /// The unit.
    pub unit: Unit,
    /// The direction of improvement.
    pub better: Better,
    /// How many times better the published "after" was than its "before"; `None` if it was not published.
    pub reference_ratio: Option<f64>,
}

impl Metric {
    /// A metric whose lower values are better.
    pub(crate) fn lower(name: &'static str, unit: Unit) -> Self {
        Self { name, unit, better: Better::Lower, reference_ratio: None }
    }

    /// A metric whose higher values are better.
    pub(crate) fn higher(name: &'static str, unit: Unit) -> Self {
        Self { name, unit, better: Better::Higher, reference_ratio: None }
    }

    /// Adds the published ratio.
    pub(crate) fn published(self, reference_ratio: f64) -> Self {
        Self { reference_ratio: Some(reference_ratio), ..self }
    }

    /// How many times better `after` is than `before`: above one is a gain. `None` if either is zero,
    /// such as the waits for a lock without contention.
    pub fn ratio(&self, before: f64, after: f64) -> Option<f64> {
        let (worse, better) = match self.better {
            Better::Lower => (before, after),
            Better::Higher => (after, before),
        };
        (worse > 0.0 && better > 0.0).then(|| worse / better).filter(|ratio| ratio.is_finite())
    }
}

/// The direction of improvement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Lower values are better.
    Lower,
    /// Higher values are better.
    Higher,
}

/// The unit of a figure.
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
    /// Events per second.
    PerS,
    /// A number of events.
    Count,
    /// Multiples of a quantity named by the metric.
    Times,
}

impl Unit {
    /// The unit's name in JSON.
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

/// The measurements of one run of one form.
#[derive(Clone, Debug)]
pub struct Sample {
    /// One figure for each of the setting's metrics, in their order; finite and not negative.
    pub figures: Vec<f64>,
    /// The distribution that the setting names; empty if it names none.
    pub spread: Spread,
    /// Locks with waits.
    pub locks: Vec<ClassReport>,
}
