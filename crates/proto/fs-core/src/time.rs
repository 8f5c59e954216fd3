//! Points in time as the caller's clock gives them.

use std::ops::Add;
use std::time::Duration;

/// A point in time: how long it is after an origin that the caller chooses once. Only differences matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub Duration);

impl Moment {
    /// The time from `earlier` to this point; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Ends at the latest moment that the type can hold.
impl Add<Duration> for Moment {
    type Output = Self;
    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }
}
