//! What a client waits for, as text, for programs that tell their users why an operation does not progress.
//!
//! Most waits are read from tables that exist anyway: requests from their sessions, and pending monitor
//! requests, manager commands and OSD commands from their clients. Waits without a table entry (a map
//! that has not arrived, an image's lock) are entered in the [registry] for their duration. None of this
//! is on a request's path.

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
    /// The kind of waiter.
    pub waiter: Waiter,
    /// Number of waiters of this kind.
    pub count: usize,
    /// Age of the longest wait.
    pub age: Duration,
    /// One of the waiters, if it has a description: `write 0~4096 on 'o'`.
    pub example: Option<String>,
    /// The reason for the wait.
    pub reason: Reason,
}

/// A kind of waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waiter {
    /// The client as a whole, which is not connected yet.
    Client,
    /// An operation that consists of several requests.
    Operation,
    /// A request to an OSD.
    Request,
    /// A request to the monitors.
    Question,
    /// A command to a manager or an OSD.
    Command,
    /// A request to a metadata server.
    Metadata,
}

impl Wait {
    /// Creates a wait without a description.
    pub fn new(waiter: Waiter, age: Duration, reason: Reason) -> Self {
        Self { waiter, count: 1, age, example: None, reason }
    }

    /// Returns `true` if both waits are of one kind and share a line of output.
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
            Waiter::Metadata => ("request to a metadata server", "requests to metadata servers"),
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

/// Collects waits by kind.
#[derive(Default)]
pub struct Gathered(Vec<Wait>);

impl Gathered {
    /// Adds a wait. `example` is called only for the first wait of a kind.
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

    /// Returns all waits, the longest first.
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
