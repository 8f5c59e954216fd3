//! Tells the logs that the store is becoming full, or has room again, in the words of a stock monitor.

use std::sync::Weak;
use std::time::Duration;

use loligo_logring::{log, text};
use loligo_mon::state::State;
use loligo_mon::state::log::Severity;
use loligo_mon::{Fullness, MonService};
use loligo_osd::Osd;
use loligo_wire::UTime;

use crate::cluster::space;

/// How often is looked. Stock OSDs report about as often.
const LOOK: Duration = Duration::from_secs(5);

/// Looks now and then, as long as the two are there.
pub(crate) fn watch(osd: Weak<Osd>, mon: Weak<MonService>) {
    tokio::spawn(async move {
        let mut known = Known::default();
        loop {
            tokio::time::sleep(LOOK).await;
            let Some(space) = osd.upgrade().map(|osd| space(&osd)) else { return };
            // The monitor, which has the ratios, is asked only if that can have changed.
            let percent = (space.used_ratio() * 100.0) as u64;
            if known.percent == Some(percent) {
                continue;
            }
            let Some(mon) = mon.upgrade() else { return };
            let before = known.fullness;
            let told = mon.call(move |state, now| {
                let fullness = Fullness::of(space, state.osdmap());
                tell(state, now, before, fullness);
                fullness
            });
            let Ok(fullness) = told.await else { return };
            known = Known { percent: Some(percent), fullness };
        }
    });
}

/// What was found last.
struct Known {
    percent: Option<u64>,
    fullness: Fullness,
}

impl Default for Known {
    fn default() -> Self {
        Self { percent: None, fullness: Fullness::Room }
    }
}

fn tell(state: &mut State, now: UTime, before: Fullness, fullness: Fullness) {
    if before == fullness {
        return;
    }
    if let Some((code, summary, _)) = fullness.check() {
        let severity = if fullness == Fullness::Full { Severity::Error } else { Severity::Warn };
        say(state, now, severity, format!("Health check failed: {summary} ({code})"));
    }
    if let Some((code, summary, _)) = before.check() {
        say(state, now, Severity::Info, format!("Health check cleared: {code} (was: {summary})"));
    }
}

fn say(state: &mut State, now: UTime, severity: Severity, line: String) {
    log!(MON, 0, "{} {}", severity.tag(), text(&line));
    state.log_mut().say(now, severity, "cluster", line);
}
