//! Formatting of numbers for people.

use crate::{Better, Metric, Row, Unit};

/// A figure with its unit, with about three digits: `492 µs`, `7.85 s`, `1,234`.
pub(super) fn figure(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Ns => time(value),
        Unit::Us => time(value * 1e3),
        Unit::Ms => time(value * 1e6),
        Unit::S => time(value * 1e9),
        Unit::PerS if value >= 999_500.0 => format!("{} M/s", number(value / 1e6)),
        Unit::PerS => format!("{} /s", number(value)),
        Unit::Count if value.fract() == 0.0 => grouped(&format!("{value:.0}")),
        Unit::Count => number(value),
        Unit::Times => format!("{} ×", number(value)),
    }
}

/// A time in nanoseconds, shown in a suitable unit.
pub fn time(ns: f64) -> String {
    if ns == 0.0 {
        return "0".to_owned();
    }
    let (value, unit) = match ns {
        ..999.5 => (ns, "ns"),
        ..999.5e3 => (ns / 1e3, "µs"),
        ..999.5e6 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    format!("{} {unit}", number(value))
}

/// A number with three significant digits, or all digits before the point in groups of three.
pub fn number(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => 0,
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    let text = format!("{value:.decimals$}");
    let (whole, rest) =
        text.split_once('.').map_or((text.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    match rest {
        Some(rest) => format!("{}.{rest}", grouped(whole)),
        None => grouped(whole),
    }
}

/// Puts commas between groups of three digits; the text may begin with a sign.
fn grouped(whole: &str) -> String {
    let mut out = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) && !out.ends_with('-') {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A ratio as the factor between the measured figures: `÷ 35`, `× 1.20`.
pub(super) fn ratio(metric: &Metric, ratio: f64) -> String {
    let sign = if metric.better == Better::Lower { '÷' } else { '×' };
    format!("{sign} {}", number(ratio))
}

/// A row's measured ratio; a word or a dash if there is none.
pub(super) fn row_ratio(row: &Row) -> String {
    match row.ratio {
        Some(value) => ratio(&row.metric, value),
        None if row.before > 0.0 => "none left".to_owned(),
        None if row.after > 0.0 => "new".to_owned(),
        None => "–".to_owned(),
    }
}

/// The published ratio; a dash if there is none.
pub(super) fn reference(metric: &Metric) -> String {
    metric.reference_ratio.map_or_else(|| "–".to_owned(), |value| ratio(metric, value))
}

/// The classification of a row's ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Better,
    /// Within 5 %, the noise of a shared machine.
    Same,
    Worse,
}

/// Classifies a row's ratio.
pub(super) fn verdict(row: &Row) -> Verdict {
    match row.ratio {
        Some(ratio) if ratio > 1.05 => Verdict::Better,
        Some(ratio) if ratio < 0.95 => Verdict::Worse,
        Some(_) => Verdict::Same,
        None if row.before > row.after => Verdict::Better,
        None if row.before < row.after => Verdict::Worse,
        None => Verdict::Same,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_or_groups() {
        for (value, text) in [
            (0.0, "0"),
            (0.0345, "0.03"),
            (3.27, "3.27"),
            (34.97, "35.0"),
            (492.0, "492"),
            (999.6, "1,000"),
            (15_962.0, "15,962"),
            (1_234_567.8, "1,234,568"),
            (-1234.0, "-1,234"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn times_take_the_unit_that_suits_them() {
        for (ns, text) in
            [(0.0, "0"), (35.0, "35.0 ns"), (3_270.0, "3.27 µs"), (37.877e6, "37.9 ms"), (7.853e9, "7.85 s")]
        {
            assert_eq!(time(ns), text);
        }
        assert_eq!(figure(492.0, Unit::Us), "492 µs");
        assert_eq!(figure(25_000.0, Unit::PerS), "25,000 /s");
        assert_eq!(figure(5_974_174.0, Unit::PerS), "5.97 M/s");
        assert_eq!((figure(4.0, Unit::Count), figure(4.5, Unit::Count)), ("4".to_owned(), "4.50".to_owned()));
        assert_eq!(figure(1.5, Unit::Times), "1.50 ×");
    }

    #[test]
    fn a_ratio_says_in_which_direction() {
        let waits = Metric::lower("waits", Unit::Count).published(35.0);
        assert_eq!(ratio(&waits, 34.97), "÷ 35.0");
        assert_eq!(reference(&waits), "÷ 35.0");
        let rate = Metric::higher("requests", Unit::PerS);
        assert_eq!((ratio(&rate, 1.2), reference(&rate)), ("× 1.20".to_owned(), "–".to_owned()));
        let row = |metric: &Metric, before, after| Row {
            metric: metric.clone(),
            rounds: Vec::new(),
            before,
            after,
            ratio: metric.ratio(before, after),
        };
        assert_eq!(row_ratio(&row(&waits, 5.0, 0.0)), "none left");
        assert_eq!(row_ratio(&row(&waits, 0.0, 5.0)), "new");
        assert_eq!(verdict(&row(&waits, 5.0, 0.0)), Verdict::Better);
        assert_eq!(verdict(&row(&waits, 100.0, 99.0)), Verdict::Same);
        assert_eq!(verdict(&row(&rate, 100.0, 50.0)), Verdict::Worse);
    }
}
