//! Option values: checked by their type, and converted to the form that stock monitors store.

use loligo_types::{SizeError, Units, parse_number, split_number};
use loligo_wire::rbd::feature;
use loligo_wire::{EntityAddr, Uuid};

use super::OptionFacts;
use crate::value;

/// Why a value is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The value is a log level out of range, for which stock uses a different errno.
    pub out_of_range: bool,
    /// The reason, as text.
    pub why: String,
}

impl Rejected {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self { out_of_range: false, why: why.into() }
    }
}

pub(super) fn parse(option: &OptionFacts, text: &str) -> Result<String, Rejected> {
    match option.kind {
        "bool" => boolean(text).map(|set| set.to_string()),
        "int" => within(option, number(text)?),
        "uint" => within(option, not_negative(number(text)?, "strict_sistrtoll")?),
        "size" => within(option, not_negative(size(text)?, "strict_iecstrtoll")?),
        "float" => float(text),
        "secs" => seconds(text).map(|s| s.to_string()),
        "millisecs" => {
            text.parse().map(|ms: u64| ms.to_string()).map_err(|_| Rejected::new("expected digit"))
        }
        "uuid" => text.parse().map(|id: Uuid| id.to_string()).map_err(|_| Rejected::new("not a UUID")),
        "addr" => addr(text),
        "level" => level(text),
        _ if option.name == "rbd_default_features" => features(text),
        _ => word(option, text),
    }
}

pub(super) fn boolean(text: &str) -> Result<bool, Rejected> {
    let refused = || Rejected::new(format!("Expected option value to be integer, got '{text}'"));
    value::bool(text).ok_or_else(refused)
}

/// Parses an integer with an optional decimal unit.
fn number(text: &str) -> Result<i128, Rejected> {
    let parsed = parse_number(text, Units::Decimal);
    parsed.map(i128::from).map_err(|e| refused(e, text, "strict_si_cast"))
}

/// Parses an integer with an optional binary unit: `K`, `Ki` and `KB` are the same.
fn size(text: &str) -> Result<i128, Rejected> {
    parse_size(text).map(i128::from)
}

/// Parses an integer with an optional binary unit, as in a pool's settings; it may be negative.
///
/// # Errors
/// The text is invalid.
pub fn parse_size(text: &str) -> Result<i64, Rejected> {
    parse_number(text, Units::Binary).map_err(|e| refused(e, text, "strict_iecstrtoll"))
}

/// Ceph's words for a number that is invalid.
fn refused(error: SizeError, text: &str, who: &str) -> Rejected {
    Rejected::new(match error {
        SizeError::Number => format!("The option value '{text}' seems to be invalid"),
        SizeError::Unit => format!("{who}: unit prefix not recognized"),
        SizeError::LongUnit => format!("{who}: illegal prefix (length > 2)"),
        SizeError::TooLarge => format!("{who}: value seems to be too large"),
        SizeError::TooSmall => format!("{who}: value seems to be too small"),
    })
}

fn not_negative(n: i128, who: &str) -> Result<i128, Rejected> {
    if n < 0 { Err(Rejected::new(format!("{who}: value should not be negative"))) } else { Ok(n) }
}

fn within(option: &OptionFacts, n: i128) -> Result<String, Rejected> {
    let bound = |text: &str| text.parse::<i128>().ok();
    if let Some(min) = bound(option.min).filter(|min| n < *min) {
        return Err(Rejected::new(format!("Value '{n}' is below minimum {min}")));
    }
    if let Some(max) = bound(option.max).filter(|max| n > *max) {
        return Err(Rejected::new(format!("Value '{n}' exceeds maximum {max}")));
    }
    Ok(n.to_string())
}

fn float(text: &str) -> Result<String, Rejected> {
    let parsed = text.parse::<f64>().ok().filter(|x| x.is_finite());
    let refused = || Rejected::new(format!("strict_strtod: expected double, got: '{text}'"));
    parsed.map(|x| format!("{x:.6}")).ok_or_else(refused)
}

/// Parses a time span such as `1h30m` or `2 days`; a number without a unit is in seconds.
fn seconds(text: &str) -> Result<u64, Rejected> {
    let mut rest = text.trim();
    let mut sum = 0_u64;
    loop {
        let (digits, after) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
        let number: u64 = digits.parse().map_err(|_| Rejected::new("expected digit"))?;
        let after = after.trim_start();
        let (unit, after) = after.split_at(after.bytes().take_while(u8::is_ascii_alphabetic).count());
        let part = number.checked_mul(unit_s(unit)?).and_then(|part| sum.checked_add(part));
        sum = part.ok_or_else(|| Rejected::new(format!("'{text}' is too long a time")))?;
        rest = after.trim_start();
        if rest.is_empty() {
            return Ok(sum);
        }
    }
}

fn unit_s(unit: &str) -> Result<u64, Rejected> {
    let seconds = if unit.is_empty() { Some(1) } else { value::unit_seconds(unit) };
    seconds.ok_or_else(|| Rejected::new(format!("unrecognized unit '{unit}'")))
}

/// Parses `IP`, `IP:PORT` or `IP:PORT/NONCE`.
fn addr(text: &str) -> Result<String, Rejected> {
    let (host, nonce) = text.split_once('/').unwrap_or((text, "0"));
    let alone = || host.parse::<std::net::IpAddr>().map(|ip| std::net::SocketAddr::new(ip, 0));
    match (host.parse().or_else(|_| alone()), nonce.parse()) {
        (Ok(sock), Ok(nonce)) => Ok(EntityAddr::msgr2(sock).with_nonce(nonce).to_string()),
        _ => Err(Rejected::new(format!("'{text}' is not an address"))),
    }
}

/// Parses a log level: how much is logged, and how much is kept in memory, as `N` or `N/M`.
pub(super) fn level(text: &str) -> Result<String, Rejected> {
    let leading = |text: &str| split_number(text.trim_start()).0.parse::<i64>().ok();
    let Some(first) = leading(text) else {
        return Err(Rejected::new("value must take the form N or N/M, where N and M are integers"));
    };
    let second = text.split_once('/').and_then(|(_, second)| leading(second));
    if [first, second.unwrap_or(first)].iter().any(|n| !(0..=99).contains(n)) {
        return Err(Rejected { out_of_range: true, why: "value must be in range [0, 99]".to_owned() });
    }
    Ok(if second.is_some() { text.to_owned() } else { format!("{first}/{first}") })
}

/// Returns both numbers of a log level that [`level`] accepts.
pub(super) fn levels(text: &str) -> String {
    let leading = |text: &str| split_number(text.trim_start()).0.to_owned();
    let first = leading(text);
    let second = text.split('/').nth(1).map(leading).filter(|second| !second.is_empty());
    format!("{first}/{}", second.as_ref().unwrap_or(&first))
}

/// Parses a number, or names separated by commas; the value is stored as a number.
fn features(text: &str) -> Result<String, Rejected> {
    if text.is_empty() {
        // An empty value stands for the default features.
        return Ok(String::new());
    }
    if let Ok(bits) = text.parse::<u64>() {
        let all = feature::NAMES.iter().fold(0, |all, (bit, _)| all | bit);
        let unknown = bits & !all;
        return match unknown {
            0 => Ok(bits.to_string()),
            _ => Err(Rejected::new(format!("{unknown:#x} are no features of images"))),
        };
    }
    let bit = |name: &str| {
        let known = feature::NAMES.iter().find(|(_, known)| *known == name.trim());
        known.map(|(bit, _)| *bit).ok_or_else(|| Rejected::new(format!("'{name}' is no feature of images")))
    };
    let bits = text.split(',').try_fold(0, |all, name| bit(name).map(|bit| all | bit));
    bits.map(|bits: u64| bits.to_string())
}

fn word(option: &OptionFacts, text: &str) -> Result<String, Rejected> {
    if option.words.is_empty() || option.words.split('|').any(|word| word == text) {
        return Ok(text.to_owned());
    }
    let words = option.words.replace('|', ", ");
    Err(Rejected::new(format!("'{text}' is not one of the permitted values: {words}")))
}

#[cfg(test)]
mod tests {
    use crate::table::find;

    /// The value that a monitor of 16.2.15 stored, or a part of its error message.
    #[test]
    fn values_are_stored_or_refused_as_by_stock() {
        let cases: &[(&str, &str, Result<&str, &str>)] = &[
            ("rbd_cache", "1", Ok("true")),
            ("rbd_cache", "TRUE", Ok("true")),
            ("rbd_cache", "2", Ok("true")),
            ("rbd_cache", "yes", Err("Expected option value to be integer, got 'yes'")),
            ("rbd_cache", "", Err("Expected option value to be integer, got ''")),
            ("rbd_cache_size", "64M", Ok("67108864")),
            ("rbd_cache_size", "1Ki", Ok("1024")),
            ("rbd_cache_size", "1KB", Ok("1024")),
            ("rbd_cache_size", "10B", Ok("10")),
            ("rbd_cache_size", "1k", Err("strict_iecstrtoll: unit prefix not recognized")),
            ("rbd_cache_size", "5 ", Err("strict_iecstrtoll: unit prefix not recognized")),
            ("rbd_cache_size", "0x10", Err("strict_iecstrtoll: illegal prefix (length > 2)")),
            ("rbd_cache_size", "1.5M", Err("strict_iecstrtoll: illegal prefix (length > 2)")),
            ("rbd_cache_size", "-1", Err("strict_iecstrtoll: value should not be negative")),
            ("rbd_cache_size", "16E", Err("strict_iecstrtoll: value seems to be too large")),
            ("rbd_cache_size", "18446744073709551616", Err("seems to be invalid")),
            ("rbd_concurrent_management_ops", "2K", Ok("2000")),
            ("rbd_concurrent_management_ops", "0", Err("Value '0' is below minimum 1")),
            ("rbd_concurrent_management_ops", "-5", Err("strict_sistrtoll: value should not be negative")),
            ("rbd_concurrent_management_ops", "5.5", Err("strict_si_cast: unit prefix not recognized")),
            ("osd_heartbeat_grace", "-1", Ok("-1")),
            ("osd_heartbeat_grace", "1e2", Err("strict_si_cast: unit prefix not recognized")),
            ("osd_pool_default_size", "11", Err("Value '11' exceeds maximum 10")),
            ("debug_ms", "1", Ok("1/1")),
            ("debug_ms", "1/5", Ok("1/5")),
            ("debug_ms", "1/x", Ok("1/1")),
            ("debug_ms", "1/2/3", Ok("1/2/3")),
            ("debug_ms", " 1", Ok("1/1")),
            ("debug_ms", "x", Err("value must take the form N or N/M, where N and M are integers")),
            ("debug_ms", "-1", Err("value must be in range [0, 99]")),
            ("osd_op_queue", "wpq", Ok("wpq")),
            ("osd_op_queue", "banana", Err("permitted values: wpq, mclock_scheduler, debug_random")),
            ("rados_osd_op_timeout", "5s", Ok("5")),
            ("rados_osd_op_timeout", "1h30m", Ok("5400")),
            ("rados_osd_op_timeout", "2 days", Ok("172800")),
            ("rados_osd_op_timeout", "-1", Err("expected digit")),
            ("public_addr", "1.2.3.4", Ok("v2:1.2.3.4:0/0")),
            ("public_addr", "1.2.3.4:5/6", Ok("v2:1.2.3.4:5/6")),
            ("public_addr", "x", Err("")),
            ("rbd_default_features", "layering", Ok("1")),
            ("rbd_default_features", "61", Ok("61")),
            ("rbd_default_features", "zzz", Err("")),
            ("rbd_default_features", "9999", Err("")),
            ("target_max_misplaced_ratio", "0.1", Ok("0.100000")),
            ("osd_scrub_sleep", "1", Ok("1.000000")),
            ("mds_beacon_grace", "x", Err("strict_strtod: expected double, got: 'x'")),
            ("erasure_code_dir", "x", Ok("x")),
        ];
        for (name, text, expected) in cases {
            let stored = find(name).unwrap_or_else(|| panic!("{name}")).parse_value(text);
            match (&stored, expected) {
                (Ok(stored), Ok(expected)) => assert_eq!(stored, expected, "{name} {text}"),
                (Err(why), Err(part)) => assert!(why.why.contains(part), "{name} {text}: {}", why.why),
                _ => panic!("{name} '{text}': {stored:?}"),
            }
        }
    }
}
