//! Points in time as Ceph stores them (`utime_t`).

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{Decode, DecodeError, Encode, Reader, Writer};

/// A point in time in Ceph's form (`utime_t`): seconds and nanoseconds since 1970, 32 bits each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UTime {
    /// Whole seconds since 1970-01-01 UTC, up to 2106. Ceph's counter wraps then; here additions and the
    /// clock saturate.
    pub sec: u32,
    /// Nanoseconds within the second.
    pub nsec: u32,
}

impl UTime {
    /// Converts a `SystemTime`. A time before 1970 becomes zero; a time after 2106 becomes the latest
    /// time that the type can hold.
    pub fn from_system(t: SystemTime) -> Self {
        Self::default() + t.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO)
    }

    /// The current time by the system's clock.
    pub fn now() -> Self {
        Self::from_system(SystemTime::now())
    }

    /// The same point as a `SystemTime`.
    pub fn to_system(self) -> SystemTime {
        UNIX_EPOCH + self.since_epoch()
    }

    /// The time since 1970.
    pub fn since_epoch(self) -> Duration {
        Duration::from_secs(u64::from(self.sec)) + Duration::from_nanos(u64::from(self.nsec))
    }

    /// The time as UTC text: `2026-11-21T01:11:23.895810`.
    pub fn civil(self) -> String {
        let (year, month, day) = date(u64::from(self.sec) / 86_400);
        let s = self.sec % 86_400;
        let (hour, minute, second) = (s / 3600, s / 60 % 60, s % 60);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:06}", self.nsec / 1000)
    }

    /// Whether this is the zero time, which Ceph uses for "not set".
    pub fn is_zero(self) -> bool {
        self == Self::default()
    }
}

impl std::ops::Add<Duration> for UTime {
    type Output = Self;
    fn add(self, d: Duration) -> Self {
        let sum = self.since_epoch() + d;
        Self { sec: u32::try_from(sum.as_secs()).unwrap_or(u32::MAX), nsec: sum.subsec_nanos() }
    }
}

impl Encode for UTime {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.sec);
        w.u32(self.nsec);
    }
}

impl Decode for UTime {
    const MIN_LEN: usize = 8;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { sec: r.u32()?, nsec: r.u32()? })
    }
}

/// The format of stock programs: `2026-11-21T01:11:23.895810+0000`. A time less than ten years after
/// 1970 is taken for a duration and printed in seconds.
impl fmt::Display for UTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const TEN_YEARS_S: u32 = 60 * 60 * 24 * 365 * 10;
        if self.sec < TEN_YEARS_S {
            return write!(f, "{}.{:06}", self.sec, self.nsec / 1000);
        }
        write!(f, "{}+0000", self.civil())
    }
}

/// The Gregorian date of a day counted from 1970-01-01. The computation uses years that begin in March,
/// so that a leap day is the last day of its year.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_PER_ERA: u64 = 146_097; // 400 years
    const DAYS_FROM_0000_03_01: u64 = 719_468;
    let z = days + DAYS_FROM_0000_03_01;
    let day_of_era = z % DAYS_PER_ERA;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (z / DAYS_PER_ERA * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_stop_at_the_end_of_what_32_bits_tell() {
        let late = UNIX_EPOCH + Duration::from_secs(1 << 33);
        assert_eq!(UTime::from_system(late).sec, u32::MAX);
        let now = UTime { sec: 1_800_000_000, nsec: 5 };
        assert_eq!((now + Duration::from_secs(3_000_000_000)).sec, u32::MAX);
        assert_eq!(now + Duration::from_secs(7), UTime { sec: 1_800_000_007, nsec: 5 });
    }
}
