//! Runs a case: both forms, alternating, round by round.

use std::time::Duration;

use loligo_lockstat::ClassReport;

use crate::measure::median;
use crate::{About, Case, Error, Form, Metric, Sample, Spread};

/// Number and length of the runs.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Number of rounds; each runs both forms once. At least 1.
    pub rounds: usize,
    /// Approximate time of one run of a form.
    pub time: Duration,
}

impl Plan {
    /// The number of runs for these cases, for a progress bar.
    pub fn steps(&self, cases: &[Box<dyn Case>]) -> usize {
        let settings: usize = cases.iter().map(|case| case.settings().len()).sum();
        settings * self.rounds.max(1) * Form::BOTH.len()
    }
}

/// A run that is about to start.
#[derive(Clone, Debug)]
pub struct Step<'a> {
    /// The case's name.
    pub case: &'static str,
    /// The setting's name.
    pub setting: &'a str,
    /// From 0.
    pub round: usize,
    /// The form.
    pub form: Form,
}

/// The results of a case.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The case's name.
    pub case: &'static str,
    /// The case's description.
    pub about: About,
    /// In the case's order.
    pub settings: Vec<SettingOutcome>,
}

/// The results of one setting.
#[derive(Clone, Debug)]
pub struct SettingOutcome {
    /// The setting's name.
    pub name: String,
    /// The quantity of the spreads; empty if there are none.
    pub spread_of: &'static str,
    /// One row per metric.
    pub rows: Vec<Row>,
    /// The distribution over all rounds: before, after.
    pub spreads: [Spread; 2],
    /// The lock reports of the last round: before, after.
    pub locks: [Locks; 2],
}

/// Locks with waits, the largest total wait first.
pub type Locks = Vec<ClassReport>;

/// The figures of one metric.
#[derive(Clone, Debug)]
pub struct Row {
    /// The metric.
    pub metric: Metric,
    /// The figures of each round: before, after.
    pub rounds: Vec<[f64; 2]>,
    /// The median of the rounds, before.
    pub before: f64,
    /// The median of the rounds, after.
    pub after: f64,
    /// How many times better the "after" is; `None` if either median is zero.
    pub ratio: Option<f64>,
}

/// Runs a case. In each setting the two forms alternate for all rounds, and the form that goes first
/// alternates, too, so that a slowdown of the machine affects both. `progress` is called before each
/// run.
///
/// # Errors
/// The case's first error.
pub fn run(case: &dyn Case, plan: &Plan, progress: &mut dyn FnMut(Step<'_>)) -> Result<Outcome, Error> {
    let mut settings = Vec::new();
    for (index, setting) in case.settings().into_iter().enumerate() {
        let mut samples: [Vec<Sample>; 2] = Default::default();
        for round in 0..plan.rounds.max(1) {
            for form in order(round) {
                progress(Step { case: case.name(), setting: &setting.name, round, form });
                let sample = case.measure(index, form, plan.time)?;
                assert_eq!(sample.figures.len(), setting.metrics.len(), "a figure for each metric");
                samples[form as usize].push(sample);
            }
        }
        settings.push(SettingOutcome {
            rows: rows(setting.metrics, &samples),
            name: setting.name,
            spread_of: setting.spread_of,
            spreads: samples.each_ref().map(|rounds| sum(rounds)),
            locks: samples.map(|mut rounds| rounds.pop().map(|last| last.locks).unwrap_or_default()),
        });
    }
    Ok(Outcome { case: case.name(), about: case.about(), settings })
}

/// The order of the forms in a round.
fn order(round: usize) -> [Form; 2] {
    if round.is_multiple_of(2) { [Form::Before, Form::After] } else { [Form::After, Form::Before] }
}

fn rows(metrics: Vec<Metric>, samples: &[Vec<Sample>; 2]) -> Vec<Row> {
    let row = |(index, metric): (usize, Metric)| {
        let of = |samples: &[Sample]| samples.iter().map(|s| s.figures[index]).collect::<Vec<f64>>();
        let [befores, afters] = samples.each_ref().map(|form| of(form));
        let before = median(befores.iter().copied());
        let after = median(afters.iter().copied());
        let rounds = befores.into_iter().zip(afters).map(|(before, after)| [before, after]).collect();
        Row { ratio: metric.ratio(before, after), metric, rounds, before, after }
    };
    metrics.into_iter().enumerate().map(row).collect()
}

fn sum(samples: &[Sample]) -> Spread {
    let mut spread = Spread::new();
    samples.iter().for_each(|sample| spread.merge(&sample.spread));
    spread
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Counting;

    #[test]
    fn forms_alternate_and_so_does_the_one_that_goes_first() {
        let case = Counting::default();
        let mut told = Vec::new();
        let plan = Plan { rounds: 3, time: Duration::ZERO };
        run(&case, &plan, &mut |step| told.push((step.setting == "many", step.round, step.form))).unwrap();
        use Form::{After, Before};
        let one_setting = [(0, Before), (0, After), (1, After), (1, Before), (2, Before), (2, After)];
        let expected: Vec<_> = [false, true]
            .iter()
            .flat_map(|&many| one_setting.map(|(round, form)| (many, round, form)))
            .collect();
        assert_eq!(told, expected);
        let boxed: Vec<Box<dyn Case>> = vec![Box::new(Counting::default())];
        assert_eq!(plan.steps(&boxed), expected.len());
    }

    #[test]
    fn a_figure_is_the_median_of_its_rounds() {
        // The n-th "after" run of this case measures n, the n-th "before" run 10 n.
        let plan = Plan { rounds: 3, time: Duration::ZERO };
        let outcome = run(&Counting::default(), &plan, &mut |_| ()).unwrap();
        let row = &outcome.settings[0].rows[0];
        assert_eq!((row.before, row.after, row.ratio), (20.0, 2.0, Some(10.0)));
        assert_eq!(row.rounds, [[10.0, 1.0], [20.0, 2.0], [30.0, 3.0]]);
        let more_is_better = &outcome.settings[0].rows[1];
        assert_eq!(more_is_better.ratio, Some(0.1));
        assert_eq!(outcome.settings[0].spreads[0].count(), 3);
    }

    #[test]
    fn a_ratio_to_nothing_is_none() {
        let metric = Metric::lower("waits", crate::Unit::Count);
        assert_eq!(metric.ratio(5.0, 0.0), None);
        assert_eq!(metric.ratio(0.0, 5.0), None);
        assert_eq!(metric.ratio(0.0, 0.0), None);
        assert_eq!(metric.ratio(6.0, 2.0), Some(3.0));
    }
}
