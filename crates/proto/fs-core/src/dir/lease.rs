//! A lease of one directory entry, for clients that do not hold Fs on the directory.

use std::time::Duration;

use loligo_types::Rank;

use crate::caps::View;
use crate::time::Moment;

/// The lease of an entry (`LeaseStat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The rank that gave it.
    pub rank: Rank,
    /// The session's generation at that time.
    pub generation: u32,
    /// Its end, counted from when the request was sent.
    pub until: Moment,
    /// Its number.
    pub seq: u32,
}

impl Lease {
    /// A lease in a reply to a request that was sent at `sent`; none if the reply gives none.
    pub fn granted(rank: Rank, sent: Moment, for_ms: u32, seq: u32, view: &View<'_>) -> Option<Self> {
        let validity = (view.validity)(rank).filter(|_| for_ms > 0)?;
        let until = sent + Duration::from_millis(u64::from(for_ms));
        Some(Self { rank, generation: validity.generation, until, seq })
    }

    /// Whether the entry may be used without asking.
    pub fn is_valid(&self, view: &View<'_>) -> bool {
        view.now < self.until
            && (view.validity)(self.rank)
                .is_some_and(|validity| validity.generation == self.generation && view.now < validity.until)
    }
}
