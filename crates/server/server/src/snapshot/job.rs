//! Dumps and restorations in the background: they may take longer than an admin socket's answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loligo_lockstat::Mutex;

use super::{SNAPSHOTS, SnapshotError};

/// The newest job; one runs at a time.
pub(super) struct Jobs(Mutex<Option<Arc<Job>>>);

/// A dump or a restoration.
pub(super) struct Job {
    /// Distinguishes it from others.
    pub(super) number: u64,
    /// About how many bytes it is.
    pub(super) bytes: u64,
    pub(super) done: AtomicU64,
    outcome: Mutex<Outcome>,
}

/// How far a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Running,
    Done,
    /// With the reason.
    Failed(String),
}

impl Default for Jobs {
    fn default() -> Self {
        Self(Mutex::new(&SNAPSHOTS, None))
    }
}

impl Jobs {
    /// Begins a job, if none is running.
    pub(super) fn begin(&self, bytes: u64) -> Result<Arc<Job>, SnapshotError> {
        let newest = self.newest();
        if newest.as_ref().is_some_and(|job| job.outcome() == Outcome::Running) {
            return Err(SnapshotError::Busy);
        }
        let number = newest.map_or(1, |job| job.number + 1);
        let outcome = Mutex::new(&SNAPSHOTS, Outcome::Running);
        let job = Arc::new(Job { number, bytes, done: AtomicU64::new(0), outcome });
        let mut current = self.0.lock();
        if current.as_ref().is_some_and(|other| other.number >= number) {
            return Err(SnapshotError::Busy); // another one began meanwhile
        }
        *current = Some(Arc::clone(&job));
        Ok(job)
    }

    pub(super) fn newest(&self) -> Option<Arc<Job>> {
        self.0.lock().clone()
    }
}

impl Job {
    pub(super) fn outcome(&self) -> Outcome {
        self.outcome.lock().clone()
    }

    pub(super) fn end(&self, with: Result<(), SnapshotError>) {
        *self.outcome.lock() = match with {
            Ok(()) => Outcome::Done,
            Err(e) => Outcome::Failed(e.to_string()),
        };
    }

    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}
