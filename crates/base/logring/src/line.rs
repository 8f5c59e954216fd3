//! Lines in the layout of Ceph's log files:
//! `2026-11-21T18:00:00.123456+0000 7f3a5c0006c0 10 msgr: text`, with the thread in hexadecimal and the
//! level in two columns.

use std::fmt::{self, Write as _};

use crate::Subsys;
use crate::entry::Entry;

/// Lines to be written, and the cached date of the last second.
#[derive(Default)]
pub(crate) struct Lines {
    text: String,
    second: u64,
    date: String,
}

impl Lines {
    pub(crate) fn entry(&mut self, wall_ns: u64, entry: &Entry<'_>) {
        self.begin(wall_ns, entry.thread, entry.header.level, entry.header.subsys);
        entry.format(&mut OneLine(&mut self.text));
        self.text.push('\n');
    }

    pub(crate) fn text(
        &mut self,
        wall_ns: u64,
        thread: u64,
        level: i8,
        subsys: Subsys,
        text: fmt::Arguments<'_>,
    ) {
        self.begin(wall_ns, thread, level, subsys);
        // Writing to a string never fails.
        let _ = OneLine(&mut self.text).write_fmt(text);
        self.text.push('\n');
    }

    /// Adds a line, or the beginning of a line, without a time.
    pub(crate) fn bare(&mut self, text: fmt::Arguments<'_>) {
        let _ = self.text.write_fmt(text);
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    pub(crate) fn clear(&mut self) {
        self.text.clear();
    }

    pub(crate) fn count(&self) -> usize {
        self.as_bytes().iter().filter(|byte| **byte == b'\n').count()
    }

    fn begin(&mut self, wall_ns: u64, thread: u64, level: i8, subsys: Subsys) {
        let (second, us) = (wall_ns / 1_000_000_000, wall_ns % 1_000_000_000 / 1000);
        if second != self.second || self.date.is_empty() {
            self.second = second;
            self.date = date(second);
        }
        let (date, name) = (&self.date, subsys.name());
        let _ = write!(self.text, "{date}.{us:06}+0000 {thread:x} {level:2} {name}: ");
    }
}

/// Escapes control characters. Logged text may come from a peer: it must stay on one line and must not
/// control the terminal that shows it.
struct OneLine<'a>(&'a mut String);

impl fmt::Write for OneLine<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if !text.contains(char::is_control) {
            self.0.push_str(text);
            return Ok(());
        }
        for c in text.chars() {
            if c.is_control() { self.0.extend(c.escape_default()) } else { self.0.push(c) }
        }
        Ok(())
    }
}

/// Formats seconds since 1970, UTC, as `2026-11-21T18:00:00`. (The civil calendar in eras of 400 years,
/// which begin in March.)
fn date(second: u64) -> String {
    let (days, rest) = (second / 86_400, second % 86_400);
    let days = days + 719_468; // from 0000-03-01 to 1970-01-01
    let (era, day) = (days / 146_097, days % 146_097);
    let year_of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day_of_month:02}T{hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (second, expected) in [
            (0, "1970-01-01T00:00:00"),
            (68_169_600, "1972-02-29T00:00:00"),
            (951_782_400, "2000-02-29T00:00:00"),
            (1_798_761_599, "2026-12-31T23:59:59"),
            (4_107_542_400, "2100-03-01T00:00:00"),
        ] {
            assert_eq!(date(second), expected);
        }
    }

    #[test]
    fn a_line_has_ceph_s_layout_and_is_one_line() {
        let mut lines = Lines::default();
        lines.text(1_798_761_599_001_234_999, 0x7f00, -1, Subsys::MSGR, format_args!("a\nb\x1b[1m é"));
        lines.text(1_798_761_600_000_000_000, 0x7f00, 10, Subsys::OSD, format_args!("c"));
        let expected = "2026-12-31T23:59:59.001234+0000 7f00 -1 msgr: a\\nb\\u{1b}[1m é\n\
                        2027-01-01T00:00:00.000000+0000 7f00 10 osd: c\n";
        assert_eq!(lines.text, expected);
        assert_eq!(lines.count(), 2);
    }
}
