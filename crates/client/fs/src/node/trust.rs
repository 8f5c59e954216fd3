//! How long what was read may be believed without asking again.

use std::time::Duration;

use loligo_wire::Caps;

use super::Node;

/// The longest time for which anything is called trusted: what never changes is asked for again after it.
const LONGEST_MS: u64 = 3_600_000;

/// What a cache above this client may believe of a node. A server that takes the promise back is heard
/// through [`crate::FileSystem::watch_invalidations`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// For how long all attributes hold; `None` if the next look must ask.
    pub attrs: Option<Duration>,
    /// Data that was read may be kept.
    pub data: bool,
}

impl Node {
    /// Returns what may be believed of the node now.
    pub fn trust(&self) -> Trust {
        let now = self.fs.core.now_ms();
        let known = self.inode.known();
        Trust {
            attrs: remaining(known.holds_until(Caps::STAT, now), now),
            data: known.holds_until(Caps::FILE_CACHE, now).is_some(),
        }
    }

    /// Returns for how long a name of this directory means what it meant when it was looked up; `None` if
    /// the next look must ask.
    pub fn entry_trust(&self, name: &[u8]) -> Option<Duration> {
        let now = self.fs.core.now_ms();
        let until = self.inode.known().entry_until(name, now);
        remaining(until, now)
    }
}

fn remaining(until: Option<u64>, now: u64) -> Option<Duration> {
    let left = until?.saturating_sub(now).min(LONGEST_MS);
    (left > 0).then(|| Duration::from_millis(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_ends_with_its_time_and_is_never_endless() {
        assert_eq!(remaining(None, 5), None);
        assert_eq!(remaining(Some(5), 5), None);
        assert_eq!(remaining(Some(25), 5), Some(Duration::from_millis(20)));
        assert_eq!(remaining(Some(u64::MAX), 5), Some(Duration::from_millis(LONGEST_MS)));
    }
}
