//! Reports long waits of commands: on a terminal, otherwise in the log.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use loligo_rados::{Wait, Waits};

use crate::failure::one_line;

/// The age at which a wait is first reported. It is reported again each time its age has doubled.
const FIRST: Duration = Duration::from_secs(5);
/// Interval between checks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Reports waits until the current runtime ends.
pub(crate) fn tell(waits: Waits) {
    tokio::spawn(async move {
        let mut teller = Teller::default();
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            look.tick().await;
            for wait in teller.due(waits.all(FIRST)) {
                say(&one_line(&wait.to_string()));
            }
        }
    });
}

fn say(line: &str) {
    if io::stderr().is_terminal() {
        eprintln!("loligo: {line}");
    } else {
        tracing::warn!(target: "client", "{line}");
    }
}

/// Remembers the reported waits.
#[derive(Default)]
struct Teller(Vec<Told>);

struct Told {
    wait: Wait,
    /// The age at which waits of this kind are reported again.
    next: Duration,
}

impl Teller {
    /// Returns the waits that must be reported now, and forgets those that have ended.
    fn due(&mut self, waits: Vec<Wait>) -> Vec<Wait> {
        self.0.retain(|told| waits.iter().any(|wait| wait.is_like(&told.wait)));
        waits.into_iter().filter(|wait| self.is_due(wait)).collect()
    }

    fn is_due(&mut self, wait: &Wait) -> bool {
        if wait.age < FIRST {
            return false;
        }
        match self.0.iter_mut().find(|told| told.wait.is_like(wait)) {
            Some(told) if wait.age < told.next => false,
            Some(told) => {
                told.next = next(wait.age);
                true
            }
            None => {
                self.0.push(Told { wait: wait.clone(), next: next(wait.age) });
                true
            }
        }
    }
}

/// Returns the first of 5, 10, 20, … seconds that is greater than this age.
fn next(age: Duration) -> Duration {
    let mut next = FIRST;
    while next <= age {
        next = next.saturating_mul(2);
    }
    next
}

#[cfg(test)]
mod tests {
    use loligo_rados::{Reason, Waiter};

    use super::*;

    fn waiting(pool: &str, age_s: u64) -> Wait {
        let reason = Reason::PoolFull { pool: pool.to_owned(), by_quota: false };
        Wait::new(Waiter::Request, Duration::from_secs(age_s), reason)
    }

    #[test]
    fn a_wait_is_told_after_five_seconds_and_at_doubling_intervals() {
        let mut teller = Teller::default();
        let told: Vec<u64> =
            (0..100).filter(|age| !teller.due(vec![waiting("p", *age)]).is_empty()).collect();
        assert_eq!(told, [5, 10, 20, 40, 80]);
    }

    #[test]
    fn what_is_over_is_forgotten_and_kinds_are_told_by_themselves() {
        let mut teller = Teller::default();
        assert_eq!(teller.due(vec![waiting("p", 7), waiting("q", 4)]), [waiting("p", 7)]);
        assert_eq!(teller.due(vec![waiting("p", 8), waiting("q", 5)]), [waiting("q", 5)]);
        assert_eq!(teller.due(vec![waiting("q", 6)]), []);
        assert_eq!(teller.due(vec![waiting("p", 6), waiting("q", 7)]), [waiting("p", 6)]);
    }
}
