//! Failures to write back, over all files of a cache.

use std::sync::Arc;

use loligo_lockstat::{Class, Mutex};

use crate::error::Error;

/// Held to count a failure, or a success after failures; a leaf.
static STANDSTILL: Class = Class::new("cache.standstill");

/// The number of failures to write back, over all files, before waiting writers of other files get an
/// error: a single failure may be accidental.
const FAILURES_MIN: u64 = 3;

/// Failures to write back, over all files: the reason why the amount of dirty data does not fall.
#[derive(Debug)]
pub(crate) struct Standstill<E>(Mutex<Failures<E>>);

/// Failures since the last success.
#[derive(Debug)]
struct Failures<E> {
    count: u64,
    /// The error; `None` if there was no reply.
    last: Option<Arc<E>>,
}

impl<E> Default for Standstill<E> {
    fn default() -> Self {
        Self(Mutex::new(&STANDSTILL, Failures { count: 0, last: None }))
    }
}

impl<E> Standstill<E> {
    /// Counts a failure to write back.
    pub(crate) fn failed(&self, e: Option<Arc<E>>) {
        let mut failures = self.0.lock();
        failures.count += 1;
        let old = std::mem::replace(&mut failures.last, e);
        drop(failures);
        drop(old);
    }

    /// Records that data was written back.
    pub(crate) fn goes_on(&self) {
        let mut failures = self.0.lock();
        failures.count = 0;
        let old = failures.last.take();
        drop(failures);
        drop(old);
    }

    /// Returns the last failure, if there were at least `FAILURES_MIN` and nothing was written back
    /// since.
    pub(crate) fn reason(&self) -> Option<Error<E>> {
        let failures = self.0.lock();
        let error = || failures.last.clone().map_or(Error::GivenUp, Error::Full);
        (failures.count >= FAILURES_MIN).then(error)
    }
}
