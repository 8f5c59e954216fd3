//! Results as JSON.

use serde_json::{Value, json};

use crate::Outcome;

/// Returns an array with one object per metric: `case`, `metric`, `unit`, `before`, `after`, `ratio`,
/// `reference_ratio`. These keys and the names of the metrics are stable.
///
/// `metric` is the metric's name, a comma and the setting's name. `ratio` tells how many times better
/// the "after" is, whichever direction is better. It is null if `before` or `after` is zero.
/// `reference_ratio` is null if no ratio was published.
pub fn to_json(outcomes: &[Outcome]) -> String {
    let rows = outcomes.iter().flat_map(|outcome| {
        outcome.settings.iter().flat_map(move |setting| {
            setting.rows.iter().map(move |row| {
                json!({
                    "case": outcome.case,
                    "metric": format!("{}, {}", row.metric.name, setting.name),
                    "unit": row.metric.unit.symbol(),
                    "before": row.before,
                    "after": row.after,
                    "ratio": row.ratio,
                    "reference_ratio": row.metric.reference_ratio,
                })
            })
        })
    });
    format!("{:#}\n", rows.collect::<Value>())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::Counting;
    use crate::{Plan, run};

    #[test]
    fn the_array_has_the_promised_shape() {
        let plan = Plan { rounds: 1, time: Duration::ZERO };
        let outcome = run(&Counting::default(), &plan, &mut |_| ()).unwrap();
        let parsed: Value = serde_json::from_str(&to_json(&[outcome])).unwrap();
        let expected = |setting: &str| {
            [
                json!({"case": "counting", "metric": format!("wait, {setting}"), "unit": "us", "before": 10.0,
                       "after": 1.0, "ratio": 10.0, "reference_ratio": 35.0}),
                json!({"case": "counting", "metric": format!("requests, {setting}"), "unit": "1/s", "before": 10.0,
                       "after": 1.0, "ratio": 0.1, "reference_ratio": null}),
                json!({"case": "counting", "metric": format!("waits left, {setting}"), "unit": "count",
                       "before": 7.0, "after": 0.0, "ratio": null, "reference_ratio": null}),
            ]
        };
        let all: Vec<Value> = ["few", "many"].iter().flat_map(|setting| expected(setting)).collect();
        assert_eq!(parsed, Value::Array(all));
    }
}
