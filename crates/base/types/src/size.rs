//! Numbers with units, as text: `4096`, `4K`, `16MiB`.

use std::fmt;

/// What `K`, `M`, … mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Units {
    /// Powers of 1,000, for counts.
    Decimal,
    /// Powers of 1,024, for bytes. `K`, `Ki` and `KB` are the same.
    Binary,
}

/// Why a text is not a number with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeError {
    /// It does not begin with a number of at most 64 bits.
    Number,
    /// The unit is unknown.
    Unit,
    /// More than two characters follow the number.
    LongUnit,
    /// The value is too large for the type.
    TooLarge,
    /// The value is below the smallest one of the type.
    TooSmall,
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Number => "it does not begin with a number",
            Self::Unit => "its unit is none of B, K, M, G, T, P and E",
            Self::LongUnit => "its unit has more than two characters",
            Self::TooLarge => "the number is too large",
            Self::TooSmall => "the number is too small",
        })
    }
}

impl std::error::Error for SizeError {}

/// The power of 1,000 or 1,024 of a unit's letter: none or `B`, up to `E`; `None` for other letters
/// (`strict_si_cast` and `strict_iec_cast` in Ceph's `src/common/strtol.cc`).
pub fn unit_power(letter: &str) -> Option<u32> {
    Some(match letter {
        "" | "B" => 0,
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        "E" => 6,
        _ => return None,
    })
}

/// Splits a text behind its number, which may be negative or empty.
pub fn split_number(text: &str) -> (&str, &str) {
    let is_part = |(i, b): (usize, u8)| b.is_ascii_digit() || (i == 0 && b == b'-');
    let end = text.bytes().enumerate().position(|at| !is_part(at));
    text.split_at(end.unwrap_or(text.len()))
}

/// Parses a number as Ceph's options have it: with an optional unit in upper case. It may be negative.
///
/// # Errors
/// The text is invalid; the unit is checked before the number, as by Ceph.
pub fn parse_number(text: &str, units: Units) -> Result<i64, SizeError> {
    let (digits, unit) = split_number(text);
    let (factor, letter) = match units {
        Units::Decimal => (1000_i64, unit),
        Units::Binary if unit.len() > 2 => return Err(SizeError::LongUnit),
        Units::Binary => match unit {
            "B" | "i" => (1024, unit),
            unit => (1024, unit.strip_suffix(['i', 'B']).unwrap_or(unit)),
        },
    };
    let power = unit_power(letter).ok_or(SizeError::Unit)?;
    let number: i64 = digits.parse().map_err(|_| SizeError::Number)?;
    let beyond = if number < 0 { SizeError::TooSmall } else { SizeError::TooLarge };
    number.checked_mul(factor.pow(power)).ok_or(beyond)
}

/// Parses a number of bytes as people write it: `4096`, `4K`, `4k`, `4KiB`.
///
/// # Errors
/// The text is invalid.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let (digits, unit) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    if digits.is_empty() {
        return Err(SizeError::Number);
    }
    let unit = unit.to_ascii_uppercase();
    let power = match unit.as_str() {
        "" | "B" => Some(0),
        unit => unit
            .get(..1)
            .filter(|letter| *letter != "B" && matches!(&unit[1..], "" | "B" | "I" | "IB"))
            .and_then(unit_power),
    };
    let factor = 1024_u64.pow(power.ok_or(SizeError::Unit)?);
    digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or(SizeError::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_write_sizes_in_many_ways() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("4K", 4096),
            ("4k", 4096),
            ("4Ki", 4096),
            ("4kib", 4096),
            ("2MB", 2 << 20),
            ("7b", 7),
            ("3G", 3 << 30),
            ("15E", 15 << 60),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for (text, why) in [
            ("", SizeError::Number),
            ("K", SizeError::Number),
            ("-1", SizeError::Number),
            ("+4K", SizeError::Number),
            ("4X", SizeError::Unit),
            ("1.5M", SizeError::Unit),
            ("4IB", SizeError::Unit),
            ("4BB", SizeError::Unit),
            ("4KBB", SizeError::Unit),
            ("4KIIB", SizeError::Unit),
            ("4 K", SizeError::Unit),
            ("4ß", SizeError::Unit),
            ("99999999T", SizeError::TooLarge),
            ("18446744073709551616", SizeError::TooLarge),
        ] {
            assert_eq!(parse_size(text), Err(why), "{text}");
        }
    }

    #[test]
    fn options_are_read_as_by_ceph() {
        use Units::{Binary, Decimal};
        for (text, units, number) in [
            ("1", Binary, Ok(1)),
            ("4K", Binary, Ok(4096)),
            ("4Ki", Binary, Ok(4096)),
            ("4KB", Binary, Ok(4096)),
            ("-2G", Binary, Ok(-2 << 30)),
            ("12B", Binary, Ok(12)),
            ("4K", Decimal, Ok(4000)),
            ("4Ki", Decimal, Err(SizeError::Unit)),
            ("4KiB", Binary, Err(SizeError::LongUnit)),
            ("i", Binary, Err(SizeError::Unit)),
            ("K", Binary, Err(SizeError::Number)),
            ("4k", Binary, Err(SizeError::Unit)),
            ("1.5", Decimal, Err(SizeError::Unit)),
            ("16E", Binary, Err(SizeError::TooLarge)),
            ("-16E", Binary, Err(SizeError::TooSmall)),
        ] {
            assert_eq!(parse_number(text, units), number, "{text}");
        }
    }
}
