//! Sets the store's fullness in the osdmap, and reports changes of it to the logs in the words of a
//! stock monitor.

use std::sync::Weak;
use std::time::Duration;

use loligo_logring::{log, text};
use loligo_mon::state::State;
use loligo_mon::state::log::Severity;
use loligo_mon::{Fullness, MonService, Space};
use loligo_osd::Osd;
use loligo_wire::UTime;

use crate::usage::space;

/// The interval between checks. Stock OSDs report every 5 seconds; a fast disk fills the space left at
/// the last ratio in less time.
const LOOK: Duration = Duration::from_secs(1);

/// Checks periodically, as long as the OSD and the monitor exist.
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
