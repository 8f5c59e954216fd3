//! Numbers as Ceph's programs print them for people.

use std::time::Duration;

use loligo_wire::UTime;

/// Bytes with a binary unit: `8 GiB`, `7.6 GiB`, `19 KiB`, `0 B`.
pub fn bytes(n: u64) -> String {
    scaled(n, 1024, [" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"])
}

/// A count with a decimal unit: `999`, `1.23k`, `10M`.
pub fn count(n: u64) -> String {
    scaled(n, 1000, ["", "k", "M", "G", "T", "P", "E"])
}

/// A multiple of the unit prints without a fraction. Other numbers get as many decimals, at most two, as
/// fit into seven characters.
fn scaled(n: u64, base: u64, units: [&str; 7]) -> String {
    let mut index = 0;
    let mut multiple = 1u64;
    while n / multiple >= base && index + 1 < units.len() {
        multiple *= base;
        index += 1;
    }
    let unit = units[index];
    if n.is_multiple_of(multiple) {
        return format!("{}{unit}", n / multiple);
    }
    let value = n as f64 / multiple as f64;
    let fits = (0..=2).rev().map(|digits| format!("{value:.digits$}{unit}")).find(|text| text.len() <= 7);
    fits.unwrap_or_else(|| format!("{value:.0}{unit}"))
}

/// A ratio in percent, as `ceph df` prints it.
pub fn percent(ratio: f64) -> String {
    match ratio * 100.0 {
        p if p >= 0.01 => format!("{p:.2}"),
        _ => "0".to_owned(),
    }
}

/// A duration in the largest unit that keeps about two digits: `119s`, `13m`, `3h`, `12d`, `5w`.
pub fn age(d: Duration) -> String {
    let s = d.as_secs();
    let (minutes, hours, days) = (s / 60, s / 3600, s / 86_400);
    match () {
        () if s < 2 => format!("{}s", (d.as_millis() as f64) / 1000.0),
        () if s < 120 => format!("{s}s"),
        () if minutes < 120 => format!("{minutes}m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 14 => format!("{days}d"),
        () if days / 7 < 12 => format!("{}w", days / 7),
        () if days / 30 < 24 => format!("{}M", days / 30),
        () => format!("{}y", days / 365),
    }
}

/// A point in time: `2026-11-21T01:11:23.895810+0000`, always UTC.
pub fn stamp(t: UTime) -> String {
    format!("{}+0000", t.civil())
}

/// A point in time as monmaps print it: `2026-11-21T01:11:23.895810Z`.
pub fn stamp_z(t: UTime) -> String {
    format!("{}Z", t.civil())
}

/// The time since `then`, for people.
pub(crate) fn age_of(now: UTime, then: UTime) -> String {
    age(elapsed(now, then))
}

/// The time since `then`, in whole seconds.
pub(crate) fn seconds_since(now: UTime, then: UTime) -> u64 {
    elapsed(now, then).as_secs()
}

fn elapsed(now: UTime, then: UTime) -> Duration {
    now.since_epoch().saturating_sub(then.since_epoch())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_print_as_ceph_prints_them() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (19_522, "19 KiB"),
            (8_589_934_592, "8 GiB"),
            (8_589_915_070, "8.0 GiB"),
            (8_160_417_280, "7.6 GiB"),
            (1_600_000, "1.5 MiB"),
            (u64::MAX, "16 EiB"),
        ];
        for (n, text) in cases {
            assert_eq!(bytes(n), text, "{n}");
        }
        assert_eq!(count(10_000), "10k");
        assert_eq!(count(1_234), "1.23k");
        assert_eq!(count(21), "21");
    }

    #[test]
    fn times_print_as_ceph_prints_them() {
        let t = UTime { sec: 1_795_223_483, nsec: 895_810_123 };
        assert_eq!(stamp(t), "2026-11-21T01:11:23.895810+0000");
        assert_eq!(stamp_z(UTime { sec: 951_782_400, nsec: 0 }), "2000-02-29T00:00:00.000000Z");
        assert_eq!(stamp_z(UTime { sec: 0, nsec: 0 }), "1970-01-01T00:00:00.000000Z");
        assert_eq!(stamp_z(UTime { sec: u32::MAX, nsec: 0 }), "2106-02-07T06:28:15.000000Z");
    }

    #[test]
    fn ages_keep_about_two_digits() {
        for (s, text) in
            [(1, "1s"), (119, "119s"), (120, "2m"), (7_200, "2h"), (86_400 * 2, "2d"), (86_400 * 20, "2w")]
        {
            assert_eq!(age(Duration::from_secs(s)), text);
        }
        assert_eq!(age(Duration::from_secs(86_400 * 365 * 3)), "3y");
    }
}
