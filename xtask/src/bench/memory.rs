//! Measures how soon `loligo serve` is ready, and how much memory it takes when idle.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::Result;

use super::measure::{median, resident_mib};
use super::sides::{Our, Serve};

/// The medians of several starts.
pub(super) struct Startup {
    /// The time from the start of the process to its ready line, measured from outside.
    pub(super) ready_ms: f64,
    /// The same time as reported by the server itself.
    pub(super) said_ms: f64,
    /// The resident memory one second later.
    pub(super) idle_mib: f64,
}

pub(super) fn startup_and_idle(our: &Our<'_>, dir: &Path, rounds: usize) -> Result<Startup> {
    let mut samples = Vec::new();
    for _ in 0..rounds.max(3) {
        let started = Instant::now();
        let serve = Serve::start(our.program, &dir.join("idle"), "memory", our.msgr2)?;
        let ready_ms = started.elapsed().as_secs_f64() * 1e3;
        std::thread::sleep(Duration::from_secs(1));
        samples.push((ready_ms, serve.startup_ms, resident_mib(serve.child.id())?));
    }
    Ok(Startup {
        ready_ms: median(samples.iter().map(|s| s.0)),
        said_ms: median(samples.iter().map(|s| s.1)),
        idle_mib: median(samples.iter().map(|s| s.2)),
    })
}
