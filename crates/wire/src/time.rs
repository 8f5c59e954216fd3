use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{Decode, DecodeError, Encode, Reader, Writer};

/// A point in time as Ceph sends it (`utime_t`): seconds and nanoseconds since 1970, 32 bits each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UTime {
    /// Whole seconds since 1970-01-01 UTC; wraps in 2106, as Ceph's does.
    pub sec: u32,
    /// Nanoseconds within the second.
    pub nsec: u32,
}

impl UTime {
    /// The time in a `SystemTime`; one before 1970 becomes zero.
    pub fn from_system(t: SystemTime) -> Self {
        let d = t.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self { sec: d.as_secs() as u32, nsec: d.subsec_nanos() }
    }

    /// Now, by the system's clock.
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

    /// Whether this is the zero time, which Ceph uses for "not set".
    pub fn is_zero(self) -> bool {
        self == Self::default()
    }
}

impl std::ops::Add<Duration> for UTime {
    type Output = Self;
    fn add(self, d: Duration) -> Self {
        let sum = self.since_epoch() + d;
        Self { sec: sum.as_secs() as u32, nsec: sum.subsec_nanos() }
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

impl fmt::Display for UTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.sec, self.nsec)
    }
}
