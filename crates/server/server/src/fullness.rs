//! Has the osdmap say, and tells the logs, that the store is becoming full, or has room again; the latter in
//! the words of a stock monitor.

use std::sync::Weak;
use std::time::Duration;

use loligo_logring::{log, text};
use loligo_mon::state::State;
use loligo_mon::state::log::Severity;
use loligo_mon::{Fullness, MonService, Space};
use loligo_osd::Osd;
use loligo_wire::UTime;

use crate::usage::space;

/// How often is looked. Stock OSDs report every 5 seconds, in which a fast disk takes more than what is left
/// at the last ratio.
const LOOK: Duration = Duration::from_secs(1);

/// Looks now and then, as long as the two are there.
pub(crate) fn watch(osd: Weak<Osd>, mon: Weak<MonService>) {
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(LOOK).await;
            let Some(space) = osd.upgrade().map(|osd| space(&osd)) else { return };
            let Some(mon) = mon.upgrade() else { return };
            if mon.call(move |state, now| look(state, now, space)).await.is_err() {
                return;
            }
        }
    });
}

fn look(state: &mut State, now: UTime, space: Space) {
    let (before, fullness) = (state.fullness(), Fullness::of(space, state.osdmap()));
    if let Err(e) = state.set_fullness(now, fullness) {
        return log!(MON, 0, "the osdmap cannot say how full the store is: {}", text(&e));
    }
    if before == fullness {
        return;
    }
    let osds = state.osdmap().osd_ids().count();
    if let Some((code, word, _)) = fullness.check() {
        let severity = if fullness == Fullness::Full { Severity::Error } else { Severity::Warn };
        say(state, now, severity, format!("Health check failed: {osds} {word} osd(s) ({code})"));
    }
    if let Some((code, word, _)) = before.check() {
        say(state, now, Severity::Info, format!("Health check cleared: {code} (was: {osds} {word} osd(s))"));
    }
}

fn say(state: &mut State, now: UTime, severity: Severity, line: String) {
    log!(MON, 0, "{} {}", severity.tag(), text(&line));
    state.log_mut().say(now, severity, "cluster", line);
}
