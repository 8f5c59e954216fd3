//! Makes the monitor stop writers of pools that have reached their quotas, and let them continue later.

use std::sync::Weak;
use std::time::Duration;

use loligo_logring::{log, text};
use loligo_mon::state::log::Severity;
use loligo_mon::{MonService, has_quotas};
use loligo_osd::Osd;

use crate::usage::usage;

/// The interval between checks. A stock cluster takes some seconds to notice.
const LOOK: Duration = Duration::from_secs(1);

/// Checks periodically, as long as the OSD and the monitor exist.
pub(crate) fn watch(osd: Weak<Osd>, mon: Weak<MonService>) {
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(LOOK).await;
            let Some((osd, mon)) = osd.upgrade().zip(mon.upgrade()) else { return };
            if !has_quotas(&osd.map()) {
                continue;
            }
            let usage = usage(&osd);
            let told = mon.call(move |state, now| {
                let changes = match state.check_quotas(now, &usage) {
                    Ok(changes) => changes,
                    Err(e) => {
                        return log!(
                            MON,
                            0,
                            "the osdmap cannot say which pools have reached their quotas: {}",
                            text(&e)
                        );
                    }
                };
                for change in changes {
                    let severity = if change.full { Severity::Warn } else { Severity::Info };
                    log!(MON, 0, "{} {}", severity.tag(), text(&change.line));
                    state.log_mut().say(now, severity, "cluster", change.line);
                }
            });
            if told.await.is_err() {
                return;
            }
        }
    });
}
