//! Values, parsed as in Ceph (`src/common/options.cc`, `strtol.cc`). Each function returns `None` for an
//! invalid value.

use std::time::Duration;

use loligo_types::{Units, parse_number};

pub(super) fn bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        number => number.parse::<i64>().ok().map(|n| n != 0),
    }
}

/// A count: K is 1000.
pub(super) fn count(text: &str) -> Option<u64> {
    u64::try_from(parse_number(text, Units::Decimal).ok()?).ok()
}

/// A number of bytes: K, Ki and KB are 1024.
pub(super) fn size(text: &str) -> Option<u64> {
    u64::try_from(parse_number(text, Units::Binary).ok()?).ok()
}

pub(super) fn f64(text: &str) -> Option<f64> {
    text.parse().ok().filter(|n: &f64| n.is_finite())
}

/// Parses seconds, or numbers with units.
pub(super) fn duration(text: &str) -> Option<Duration> {
    if let Some(seconds) = f64(text) {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let mut total = Duration::ZERO;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (number, after) = split_number(rest);
        let after = after.trim_start();
        let unit_len = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let seconds = unit_seconds(&after[..unit_len])?;
        total = total.checked_add(Duration::from_secs(number.parse::<u64>().ok()?.checked_mul(seconds)?))?;
        rest = after[unit_len..].trim_start();
    }
    (!text.is_empty()).then_some(total)
}

pub(super) fn unit_seconds(unit: &str) -> Option<u64> {
    Some(match unit {
        "s" | "sec" | "second" | "seconds" => 1,
        "m" | "min" | "minute" | "minutes" => 60,
        "h" | "hr" | "hour" | "hours" => 3600,
        "d" | "day" | "days" => 86_400,
        "w" | "wk" | "week" | "weeks" => 7 * 86_400,
        "mo" | "month" | "months" => 30 * 86_400,
        "y" | "yr" | "year" | "years" => 365 * 86_400,
        _ => return None,
    })
}

/// The elements of a list.
pub(super) fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ';', ' ', '\t']).filter(|s| !s.is_empty())
}

fn split_number(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truth() {
        assert_eq!(
            (bool("True"), bool("0"), bool("2"), bool("yes")),
            (Some(true), Some(false), Some(true), None)
        );
    }

    #[test]
    fn sizes_are_binary_and_counts_decimal() {
        assert_eq!(
            (size("1"), size("4K"), size("4KB"), size("2G")),
            (Some(1), Some(4096), Some(4096), Some(2 << 30))
        );
        assert_eq!(
            (size("i"), size("K"), size("4X"), size("-1"), size("16E")),
            (None, None, None, None, None)
        );
        assert_eq!((count("4K"), count("12"), count("1.5")), (Some(4000), Some(12), None));
    }

    #[test]
    fn time_spans() {
        assert_eq!(duration("0.5"), Some(Duration::from_millis(500)));
        assert_eq!(duration("1h 30min"), Some(Duration::from_secs(5400)));
        assert_eq!(duration("1w2d"), Some(Duration::from_secs(9 * 86_400)));
        for bad in ["", "x", "5 parsecs", "-1", "99999999999999y", "1e300"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }
}
