//! The number of operations in flight at once.

use super::read::TracedOp;

/// The number of operations in flight over time.
#[derive(Debug, PartialEq)]
pub(super) struct Overlap {
    /// Each time, in microseconds and in order, at which the number changes, with the new number.
    pub(super) steps: Vec<(f64, usize)>,
    pub(super) most: usize,
    /// The average over the time from the first start to the last reply.
    pub(super) mean: f64,
}

impl Overlap {
    pub(super) fn of(ops: &[TracedOp]) -> Self {
        let flights = ops.iter().filter_map(TracedOp::flight);
        let mut edges: Vec<(f64, isize)> =
            flights.flat_map(|(from, until)| [(from, 1), (until, -1)]).collect();
        // An operation that ends as another one begins does not overlap it.
        edges.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut steps: Vec<(f64, usize)> = Vec::new();
        let (mut now, mut most, mut area, mut last) = (0_isize, 0, 0.0, None);
        for (at, change) in edges {
            area += now as f64 * (at - last.unwrap_or(at));
            (now, last) = (now + change, Some(at));
            // An operation of zero length ends before it begins.
            let count = now.max(0) as usize;
            most = most.max(count);
            match steps.last_mut() {
                Some(step) if step.0 == at => step.1 = count,
                _ => steps.push((at, count)),
            }
        }
        let time = steps.last().map_or(0.0, |last| last.0) - steps.first().map_or(0.0, |first| first.0);
        Self { steps, most, mean: if time > 0.0 { area / time } else { 0.0 } }
    }
}

/// Returns the row of each operation, which is the first free one, and the number of rows.
pub(super) fn rows(ops: &[TracedOp]) -> (Vec<usize>, usize) {
    let mut free_from: Vec<f64> = Vec::new();
    let rows = ops.iter().map(|op| {
        let row = free_from.iter().position(|free| *free <= op.from).unwrap_or(free_from.len());
        if row == free_from.len() {
            free_from.push(op.until);
        }
        free_from[row] = op.until;
        row
    });
    (rows.collect(), free_from.len())
}

#[cfg(test)]
mod tests {
    use super::super::read::{Phase, Span};
    use super::*;

    fn ops(times: &[(f64, f64)]) -> Vec<TracedOp> {
        let op = |&(from, until): &(f64, f64)| {
            let spans = vec![Span { phase: Phase::Flight, from, until }];
            TracedOp { name: "write o".to_owned(), from, until, spans }
        };
        times.iter().map(op).collect()
    }

    #[test]
    fn one_after_the_other_is_no_overlap() {
        let ops = ops(&[(0.0, 10.0), (10.0, 20.0), (30.0, 40.0)]);
        let overlap = Overlap::of(&ops);
        assert_eq!((overlap.most, overlap.mean), (1, 0.75));
        assert_eq!(overlap.steps, [(0.0, 1), (10.0, 1), (20.0, 0), (30.0, 1), (40.0, 0)]);
        assert_eq!(rows(&ops), (vec![0, 0, 0], 1));
    }

    #[test]
    fn all_at_once_take_a_row_each() {
        let ops = ops(&[(0.0, 10.0), (0.0, 10.0), (5.0, 10.0), (10.0, 20.0)]);
        let overlap = Overlap::of(&ops);
        assert_eq!((overlap.most, overlap.mean), (3, 1.75));
        assert_eq!(rows(&ops), (vec![0, 1, 2, 0], 3));
    }

    #[test]
    fn nothing_overlaps_nothing() {
        assert_eq!(Overlap::of(&[]), Overlap { steps: Vec::new(), most: 0, mean: 0.0 });
        assert_eq!(rows(&[]), (Vec::new(), 0));
        let instant = Overlap::of(&ops(&[(5.0, 5.0)]));
        assert_eq!(instant.mean, 0.0);
    }
}
