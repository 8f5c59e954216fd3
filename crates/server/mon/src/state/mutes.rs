//! Health alerts that shall not be heard (`ceph health mute`).

use std::collections::BTreeMap;

use loligo_wire::UTime;

use super::State;

/// An alert that is muted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mute {
    /// Until when; `None` for as long as the alert does not get worse.
    pub until: Option<UTime>,
    /// It stays muted when the alert is over or gets worse.
    pub sticky: bool,
    /// What the alert said.
    pub summary: String,
    /// How many things it was about.
    pub count: usize,
}

impl Mute {
    /// Whether it goes on: `raised` is what the alert says now and how many things it is about. One that is
    /// about fewer things than before is muted for that many from now on.
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
    /// The alerts that are muted, by code.
    pub fn mutes(&self) -> &BTreeMap<String, Mute> {
        &self.mutes
    }

    /// Mutes an alert, perhaps anew.
    pub fn mute(&mut self, code: &str, mute: Mute) {
        self.mutes.insert(code.to_owned(), mute);
        self.changes.other = true;
    }

    /// Has an alert heard again, or all of them.
    pub fn unmute(&mut self, code: Option<&str>) {
        let before = self.mutes.len();
        self.mutes.retain(|muted, _| code.is_some_and(|code| code != muted));
        self.changes.other |= self.mutes.len() != before;
    }

    /// Ends mutes that are over, given what each alert says now.
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
