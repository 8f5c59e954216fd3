//! `health mute | unmute`.

use std::time::Duration;

use super::health::{Check, checks};
use super::{Call, Failure, Outcome, Reply};
use crate::state::mutes::Mute;

/// Units of durations, with their seconds.
const UNITS: &[(&[&str], u64)] = &[
    (&["", "s", "sec", "second", "seconds"], 1),
    (&["m", "min", "minute", "minutes"], 60),
    (&["h", "hr", "hour", "hours"], 3_600),
    (&["d", "day", "days"], 86_400),
    (&["w", "wk", "week", "weeks"], 7 * 86_400),
    (&["mo", "month", "months"], 30 * 86_400),
    (&["y", "yr", "year", "years"], 365 * 86_400),
];

pub(super) fn mute(call: &mut Call<'_>) -> Outcome {
    let (code, sticky) = (call.args.required("code"), call.args.flag("sticky"));
    let checks = checks(call);
    let raised = checks.iter().find(|check| check.code() == code);
    if raised.is_none() && !sticky {
        return Err(Failure::missing(format!("health alert {code} is not currently raised")));
    }
    let span = call
        .args
        .text("ttl")
        .map(|text| span(text).map_err(|why| Failure::invalid(format!("invalid duration: {text} ({why})"))));
    let until = span.transpose()?.map(|span| call.now + span);
    let (summary, count) = raised.map(Check::what).unwrap_or_default();
    let mute = Mute { until, sticky, summary: summary.to_owned(), count };
    call.state.mute(code, mute);
    Ok(Reply::default())
}

pub(super) fn unmute(call: &mut Call<'_>) -> Outcome {
    call.state.unmute(call.args.text("code"));
    Ok(Reply::default())
}

/// Parses a duration: a sequence of numbers with units, such as `1h30m`. The error texts are a stock
/// monitor's.
fn span(text: &str) -> Result<Duration, String> {
    let (mut seconds, mut rest) = (0u64, text.trim_start());
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest[..digits].parse().map_err(|_| "expected digit".to_owned())?;
        let behind = rest[digits..].trim_start();
        let letters = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
        let (unit, next) = behind.split_at(letters);
        if unit.is_empty() && !next.is_empty() {
            return Err(format!("unexpected trailing '{next}'"));
        }
        let known = UNITS.iter().find(|(names, _)| names.contains(&unit));
        let (_, each) = known.ok_or_else(|| format!("unrecogized unit '{unit}'"))?;
        seconds = seconds.saturating_add(number.saturating_mul(*each));
        rest = next.trim_start();
    }
    match seconds {
        0 => Err("timespan = 0".to_owned()),
        // A duration beyond the range of timestamps is limited to their maximum.
        seconds => Ok(Duration::from_secs(seconds.min(u32::MAX.into()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results as from a monitor of 16.2.15.
    #[test]
    fn spans_are_numbers_with_units() {
        let day = 86_400;
        for (text, seconds) in [
            ("5", 5),
            ("5s", 5),
            ("5 minutes", 300),
            ("5min", 300),
            ("1h30m", 5_400),
            ("5d", 5 * day),
            ("2w", 14 * day),
            ("1mo", 30 * day),
            ("1y", 365 * day),
        ] {
            assert_eq!(span(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for (text, why) in [
            ("x", "expected digit"),
            ("-1", "expected digit"),
            ("", "timespan = 0"),
            ("5M", "unrecogized unit 'M'"),
            ("1.5h", "unexpected trailing '.5h'"),
        ] {
            assert_eq!(span(text), Err(why.to_owned()), "{text}");
        }
    }
}
