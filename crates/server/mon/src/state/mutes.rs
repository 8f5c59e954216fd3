//! Muted health alerts (`ceph health mute`).

use std::collections::BTreeMap;

use loligo_wire::UTime;

use super::State;

/// A muted alert.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mute {
    /// When the mute expires; `None` if it lasts as long as the alert does not get worse.
    pub until: Option<UTime>,
    /// Whether the mute stays when the alert clears or gets worse.
    pub sticky: bool,
    /// The alert's summary when it was muted.
    pub summary: String,
    /// The alert's count when it was muted; lowered when the count falls.
    pub count: usize,
}

impl Mute {
    /// Whether the mute stays in effect. `raised` is the alert's current summary and count. If the count
    /// has fallen, the mute covers only that count from now on.
    fn lasts(&mut self, now: UTime, raised: Option<(&str, usize)>) -> bool {
        if self.until.is_some_and(|until| until <= now) {
            return false;
        }
        if self.sticky {
            return true;
        }
        match raised {
            None => false,
            Some((_, count)) if count > 0 => {
                let lasts = count <= self.count;
                self.count = count;
                lasts
            }
            Some((summary, _)) => summary == self.summary,
        }
    }
}

impl State {
    /// The muted alerts, by code.
    pub fn mutes(&self) -> &BTreeMap<String, Mute> {
        &self.mutes
    }

    /// Mutes an alert, or replaces its mute.
    pub fn mute(&mut self, code: &str, mute: Mute) {
        self.mutes.insert(code.to_owned(), mute);
        self.changes.other = true;
    }

    /// Unmutes an alert, or all of them.
    pub fn unmute(&mut self, code: Option<&str>) {
        let before = self.mutes.len();
        self.mutes.retain(|muted, _| code.is_some_and(|code| code != muted));
        self.changes.other |= self.mutes.len() != before;
    }

    /// Ends mutes that do not apply any more. `raised` returns the current summary and count of an
    /// alert.
    pub fn end_mutes<'a>(&mut self, now: UTime, raised: impl Fn(&str) -> Option<(&'a str, usize)>) {
        let before = self.mutes.clone();
        self.mutes.retain(|code, mute| mute.lasts(now, raised(code)));
        self.changes.other |= self.mutes != before;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mute_ends_with_its_time_and_when_the_alert_gets_worse() {
        let now = UTime { sec: 100, nsec: 0 };
        let mute = |sticky, until: Option<u32>| {
            let until = until.map(|sec| UTime { sec, nsec: 0 });
            Mute { until, sticky, summary: "2 osds down".to_owned(), count: 2 }
        };
        for (sticky, until, raised, lasts) in [
            (false, None, Some(("2 osds down", 2)), true),
            (false, None, Some(("1 osds down", 1)), true),
            (false, None, Some(("3 osds down", 3)), false),
            (false, None, None, false),
            (true, None, None, true),
            (true, None, Some(("3 osds down", 3)), true),
            (true, Some(100), Some(("2 osds down", 2)), false),
            (true, Some(101), Some(("2 osds down", 2)), true),
            (false, None, Some(("2 osds down", 0)), true),
            (false, None, Some(("another", 0)), false),
        ] {
            assert_eq!(mute(sticky, until).lasts(now, raised), lasts, "{sticky} {until:?} {raised:?}");
        }
        let mut fewer = mute(false, None);
        assert!(fewer.lasts(now, Some(("1 osds down", 1))));
        assert!(!fewer.lasts(now, Some(("2 osds down", 2))), "worse than it became");
    }
}
