//! Class `numops`: arithmetic on a number stored as text under a key (`src/cls/numops`).

use az::SaturatingAs as _;
use bytes::Bytes;
use loligo_wire::{Errno, Reader};

use crate::class::{Class, DONE, Outcome, rw};
use crate::handle::Handle;

pub(crate) static CLASS: Class = Class { name: "numops", methods: &[rw("add", add), rw("mul", multiply)] };

/// Significant digits stored.
const DIGITS: usize = 10;

fn add(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    change(object, input, |stored, given| stored + given)
}

fn multiply(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    change(object, input, |stored, given| stored * given)
}

fn change(object: &mut Handle<'_>, input: &[u8], to: impl Fn(f64, f64) -> f64) -> Outcome {
    let mut r = Reader::new(input);
    let (key, given): (Bytes, Bytes) = (r.get()?, r.get()?);
    let given = number(&given).ok_or(Errno::EINVAL)?;
    let stored = match object.value(&key) {
        Ok(value) => number(&value).ok_or(Errno::EBADMSG)?,
        // A missing key counts as 0, also if the object does not exist.
        Err(Errno::ENOENT) => 0.0,
        Err(errno) => return Err(errno),
    };
    object.set_value(&key, shown(to(stored, given)).into())?;
    DONE
}

/// Parses a number as C's `strtod` does; the whole text must be a number.
fn number(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?.trim_start();
    if text.is_empty() { Some(0.0) } else { text.parse().ok() }
}

/// Formats a number as C++ does with ten digits: without trailing zeros, and with an exponent only if it
/// is very large or small.
fn shown(number: f64) -> String {
    let scientific = format!("{number:.*e}", DIGITS - 1);
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return number.to_string().to_lowercase();
    };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    let digits_max = DIGITS.saturating_as::<i32>();
    if (-4..digits_max).contains(&exponent) {
        trimmed(&format!("{number:.*}", (digits_max - 1 - exponent).saturating_as::<usize>()))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_by_cpp() {
        let cases = [
            (0.0, "0"),
            (3.0, "3"),
            (-2.5, "-2.5"),
            (0.1 + 0.2, "0.3"),
            (1e9, "1000000000"),
            (1e10, "1e+10"),
            (12345678901.0, "1.23456789e+10"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (f64::INFINITY, "inf"),
        ];
        cases.iter().for_each(|(number, text)| assert_eq!(shown(*number), *text));
        assert_eq!((number(b" 12.5"), number(b""), number(b"12x")), (Some(12.5), Some(0.0), None));
    }
}
