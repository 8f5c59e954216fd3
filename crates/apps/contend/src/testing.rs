//! A test case with predictable figures.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::{About, Case, Error, Form, Metric, Sample, Setting, Source, Spread, Unit};

/// The n-th "after" run of a setting measures n, the n-th "before" run 10 n. It has two settings, which
/// count separately.
#[derive(Default)]
pub(crate) struct Counting {
    runs: [[AtomicU32; 2]; 2],
}

impl Case for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn about(&self) -> About {
        About {
            title: "A <title> & more",
            before: "counts by tens",
            after: "counts by ones",
            note: "",
            source: Source {
                author: "N. N.",
                title: "On \"counting\"",
                date: "2020",
                url: "https://example.org/?a=1&b=2",
            },
        }
    }

    fn settings(&self) -> Vec<Setting> {
        ["few", "many"]
            .map(|name| Setting {
                name: name.to_owned(),
                metrics: vec![
                    Metric::lower("wait", Unit::Us).published(35.0),
                    Metric::higher("requests", Unit::PerS),
                    Metric::lower("waits left", Unit::Count),
                ],
                spread_of: "wait",
            })
            .into()
    }

    fn measure(&self, setting: usize, form: Form, _: Duration) -> Result<Sample, Error> {
        let n = self.runs[setting][form as usize].fetch_add(1, Ordering::Relaxed) + 1;
        let value = f64::from(if form == Form::Before { 10 * n } else { n });
        let mut spread = Spread::new();
        spread.add(Duration::from_micros(value as u64));
        let left = if form == Form::Before { 7.0 } else { 0.0 };
        Ok(Sample { figures: vec![value, value, left], spread, locks: Vec::new() })
    }
}
