//! What a client waits for, in words: for programs that tell their users why nothing happens.
//!
//! Most of it is found where it is kept anyway: requests in the tables of their sessions, questions to
//! monitors and managers and commands to OSDs in theirs. What no table has (a map that has not come, the lock
//! of an image) is entered in the [registry] while it lasts. Nothing here is on the way of a request.

mod reason;
mod registry;

use std::fmt;
use std::time::Duration;

pub use self::reason::Reason;
pub use self::registry::{Observed, WaitGuard, Waits};

/// Waits of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wait {
    /// What waits.
    pub waiter: Waiter,
    /// How many of them.
    pub count: usize,
    /// How long the first of them has waited.
    pub age: Duration,
    /// One of them, if it has a name: `write 0~4096 on 'o'`.
    pub example: Option<String>,
    /// What they wait for.
    pub reason: Reason,
}

/// What waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waiter {
    /// The client as a whole: it is not connected yet.
    Client,
    /// Something that consists of several requests.
    Operation,
    /// A request to an OSD.
    Request,
    /// A question to the monitors.
    Question,
    /// A command to a manager or an OSD.
    Command,
}

impl Wait {
    /// One that has no name.
    pub fn new(waiter: Waiter, age: Duration, reason: Reason) -> Self {
        Self { waiter, count: 1, age, example: None, reason }
    }

    /// Whether two are waits of one kind: told in one line.
    pub fn is_like(&self, other: &Self) -> bool {
        self.waiter == other.waiter && self.reason.is_like(&other.reason)
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { waiter, count, age, example, reason } = self;
        let (one, many) = match waiter {
            Waiter::Client => ("client", "clients"),
            Waiter::Operation => ("operation", "operations"),
            Waiter::Request => ("request", "requests"),
            Waiter::Question => ("question to the monitors", "questions to the monitors"),
            Waiter::Command => ("command", "commands"),
        };
        match count {
            1 => write!(f, "1 {one} has waited for {} s", age.as_secs())?,
            count => write!(f, "{count} {many} have waited for {} s", age.as_secs())?,
        }
        match (example, count) {
            (Some(example), 1) => write!(f, " ({example})")?,
            (Some(example), _) => write!(f, " (one is {example})")?,
            (None, _) => {}
        }
        write!(f, ": {reason}")
    }
}

/// Gathers waits by kind.
#[derive(Default)]
pub struct Gathered(Vec<Wait>);

impl Gathered {
    /// Adds one. `example` is made only for the first of a kind.
    pub fn add(
        &mut self,
        waiter: Waiter,
        age: Duration,
        example: impl FnOnce() -> Option<String>,
        reason: Reason,
    ) {
        let wait = Wait::new(waiter, age, reason);
        match self.0.iter_mut().find(|known| known.is_like(&wait)) {
            Some(known) => {
                known.count += 1;
                known.age = known.age.max(age);
                known.reason.merge(wait.reason);
            }
            None => self.0.push(Wait { example: example(), ..wait }),
        }
    }

    /// All, those that last longest first.
    pub(crate) fn into_waits(self) -> Vec<Wait> {
        let mut waits = self.0;
        waits.sort_by_key(|wait| std::cmp::Reverse(wait.age));
        waits
    }
}

#[cfg(test)]
mod tests {
    use loligo_wire::{OsdId, PgId, PoolId};

    use super::*;

    fn no_primary(seed: u32) -> Reason {
        let pgs = [PgId { pool: PoolId(1), seed }].into();
        Reason::NoPrimary { pgs, down: vec![OsdId(0)], pool: PoolId(1) }
    }

    #[test]
    fn waits_of_one_kind_are_one_line() {
        let mut gathered = Gathered::default();
        for seed in [3, 3, 10] {
            let age = Duration::from_secs(seed.into());
            gathered.add(Waiter::Request, age, || Some(format!("read on 'o{seed}'")), no_primary(seed));
        }
        let full = Reason::PoolFull { pool: "p".to_owned(), by_quota: false };
        gathered.add(Waiter::Request, Duration::from_secs(60), || None, full);
        let lines: Vec<_> = gathered.into_waits().iter().map(Wait::to_string).collect();
        assert_eq!(
            lines,
            [
                "1 request has waited for 60 s: pool 'p' is full: remove objects with --force-full, or add space",
                "3 requests have waited for 10 s (one is read on 'o3'): pg 1.3 and 1 other have no primary (osd.0 is down)",
            ]
        );
    }
}
