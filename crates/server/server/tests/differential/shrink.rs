//! Shortens a script that shows a difference.

use serde_json::Value;

/// The most executions spent on shortening a script.
const RUNS_MAX: u32 = 80;

/// The first step at which the results of two sides differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) at: usize,
    pub(crate) one: String,
    pub(crate) other: String,
}

impl Difference {
    /// # Panics
    /// If a side gave fewer results than there are steps.
    pub(crate) fn first(steps: &[Value], one: Vec<String>, other: Vec<String>) -> Option<Self> {
        let difference = one.iter().zip(&other).position(|(one, other)| one != other);
        let Some(at) = difference else {
            assert_eq!((one.len(), other.len()), (steps.len(), steps.len()), "a script ended early");
            return None;
        };
        Some(Self { at, one: one[at].clone(), other: other[at].clone() })
    }
}

/// Removes steps, large parts first, as long as the sides still differ.
pub(crate) fn shortest(
    steps: &[Value],
    found: Difference,
    run: impl Fn(&[Value]) -> Option<Difference>,
) -> (Vec<Value>, Difference) {
    let (mut steps, mut found) = (steps.to_vec(), found);
    let mut runs = 0;
    let mut part = steps.len() / 2;
    while part > 0 {
        let mut from = 0;
        while from < steps.len() {
            if runs == RUNS_MAX {
                return (steps, found);
            }
            runs += 1;
            let until = (from + part).min(steps.len());
            let without = [&steps[..from], &steps[until..]].concat();
            match run(&without) {
                Some(still) => {
                    steps = without[..=still.at].to_vec();
                    found = still;
                }
                None => from = until,
            }
        }
        part = (part / 2).min(steps.len() / 2);
    }
    (steps, found)
}

#[test]
fn only_what_is_needed_is_left() {
    let steps: Vec<Value> = (0..40).map(Value::from).collect();
    let has = |steps: &[Value], n: u64| steps.iter().position(|step| *step == n);
    // The sides differ at 30, if 7 came before it.
    let run = |steps: &[Value]| {
        let (seven, thirty) = (has(steps, 7)?, has(steps, 30)?);
        (seven < thirty).then(|| Difference { at: thirty, one: "a".into(), other: "b".into() })
    };
    let found = run(&steps).expect("a difference");
    let (left, found) = shortest(&steps[..=30], found, run);
    assert_eq!((left, found.at), (vec![Value::from(7), Value::from(30)], 1));
}
