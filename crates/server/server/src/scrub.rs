//! Makes the OSD scrub placement groups on request and when they are due, reports to the cluster log,
//! and keeps the scrub records over a restart.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;
use std::{fs, io};

use loligo_logring::{log, text};
use loligo_mon::state::State;
use loligo_mon::state::log::Severity;
use loligo_mon::{MonService, PgScrubs, Scrub};
use loligo_osd::{Damage, Fault, Osd, PgScrub, ScrubJob, ScrubKind, ScrubPolicy, ScrubReport};
use loligo_store::ObjectName;
use loligo_wire::crc::crc32c_of;
use loligo_wire::{EntityName, EntityType, PoolId, Reader, Uuid};

use crate::files::{read_own, write_new};

/// The interval between checks for due scrubs.
const LOOK: Duration = Duration::from_secs(1);
/// The most objects of one report that the log names.
const NAMED_MAX: usize = 100;

/// The magic of a scrub file; the cluster's id and the CRC-32C of the records follow. Files of earlier
/// versions have no header, only the records.
const BEGIN: &[u8; 8] = b"LOLIGOSC";
const HEADER_LEN: usize = 28;

/// The file of the scrub records.
pub(crate) struct ScrubFile {
    path: PathBuf,
    fsid: Uuid,
}

impl ScrubFile {
    pub(crate) fn new(path: PathBuf, fsid: Uuid) -> Self {
        Self { path, fsid }
    }

    /// Passes the records of the last run to the OSD. Without records everything is scrubbed again, so
    /// an unreadable file causes no more than a line in the log.
    pub(crate) fn restore(&self, osd: &Osd) {
        let restored = match read_own(&self.path) {
            Ok(content) => self
                .records(&content)
                .and_then(|records| osd.restore_scrub_records(records).map_err(|e| e.to_string())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(e.to_string()),
        };
        if let Err(e) = restored {
            log!(
                OSD,
                0,
                "{}: what was known of scrubs is lost, all will be scrubbed anew: {}",
                text(&self.path.display()),
                text(&e)
            );
        }
    }

    fn records<'c>(&self, content: &'c [u8]) -> Result<&'c [u8], String> {
        if content.is_empty() {
            return Err("the file is empty".to_owned());
        }
        let Some(rest) = content.strip_prefix(BEGIN) else { return Ok(content) };
        let mut r = Reader::new(rest);
        let (fsid, crc) = match (r.array(), r.u32()) {
            (Ok(fsid), Ok(crc)) => (Uuid(fsid), crc),
            _ => return Err("the file was cut".to_owned()),
        };
        let records = &content[HEADER_LEN..];
        if crc32c_of([records]) != crc {
            return Err("the checksum does not fit".to_owned());
        }
        match fsid == self.fsid {
            true => Ok(records),
            false => Err(format!("the file is of the cluster {fsid}")),
        }
    }

    /// Saves the records if they have changed.
    pub(crate) fn save(&self, osd: &Osd) {
        let Some(records) = osd.changed_scrub_records() else { return };
        let crc = crc32c_of([&records[..]]).to_le_bytes();
        let content = [&BEGIN[..], &self.fsid.0, &crc, &records].concat();
        let new = self.path.with_extension("new");
        let saved = write_new(&new, &content, 0o600).and_then(|()| fs::rename(&new, &self.path));
        if let Err(e) = saved {
            log!(
                OSD,
                0,
                "{}: what is known of scrubs cannot be kept: {}",
                text(&self.path.display()),
                text(&e)
            );
        }
    }
}

/// Runs scrubs as long as the OSD and the monitor exist.
pub(crate) fn watch(osd: Weak<Osd>, mon: Weak<MonService>, file: Option<Arc<ScrubFile>>) {
    tokio::spawn(async move {
        while let Some((osd, mon)) = osd.upgrade().zip(mon.upgrade()) {
            let Ok((policy, now)) = mon.call(|state, now| (policy(state), now)).await else { return };
            match osd.next_scrub(&policy, now) {
                Some(job) => scrub(&osd, &mon, job, &policy).await,
                None => {
                    save(&osd, file.as_ref()).await;
                    drop(mon);
                    tokio::select! {
                        () = osd.scrub_asked() => {}
                        () = tokio::time::sleep(LOOK) => {}
                    }
                }
            }
        }
    });
}

/// Saves on a blocking thread: the runtime's threads must not wait for the disk.
async fn save(osd: &Arc<Osd>, file: Option<&Arc<ScrubFile>>) {
    let Some(file) = file.cloned() else { return };
    let osd = Arc::clone(osd);
    let _ = tokio::task::spawn_blocking(move || file.save(&osd)).await;
}

/// The scrub settings of the first OSD, with defaults for the options that are not set. All OSDs scrub
/// the one store together.
fn policy(state: &State) -> ScrubPolicy {
    let first = state.osdmap().osd_ids().next().unwrap_or_default();
    let who = EntityName { kind: EntityType::OSD, id: first.0.to_string() };
    let seconds = |option: &str, general: Duration| {
        let set = state.running_value(&who, option).and_then(|value| value.parse().ok());
        set.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(general)
    };
    let general = ScrubPolicy::default();
    ScrubPolicy {
        min_interval: seconds("osd_scrub_min_interval", general.min_interval),
        deep_interval: seconds("osd_deep_scrub_interval", general.deep_interval),
        pause: seconds("osd_scrub_sleep", general.pause),
    }
}

async fn scrub(osd: &Osd, mon: &MonService, job: ScrubJob, policy: &ScrubPolicy) {
    let begins = (Severity::Debug, format!("{} {} starts", job.pg, job.kind.word()));
    say(mon, vec![begins]).await;
    if let Some(report) = osd.scrub(job, policy).await {
        say(mon, lines(&report)).await;
    }
}

async fn say(mon: &MonService, lines: Vec<(Severity, String)>) {
    for (severity, line) in &lines {
        match severity {
            Severity::Error => log!(OSD, 0, "{} {}", severity.tag(), text(line)),
            _ => log!(OSD, 5, "{} {}", severity.tag(), text(line)),
        }
    }
    // If the monitor has stopped, there is no log to write to.
    let _ = mon
        .call(move |state, now| {
            for (severity, line) in lines {
                state.log_mut().say(now, severity, "cluster", line);
            }
        })
        .await;
}

/// The log lines of a report, in a stock OSD's words where it has some.
fn lines(report: &ScrubReport) -> Vec<(Severity, String)> {
    let (pg, word, count) = (report.pg, report.kind.word(), report.found.len());
    let fixed = if report.kind == ScrubKind::Repair { ", 0 fixed" } else { "" };
    if count == 0 {
        return vec![(Severity::Debug, format!("{pg} {word} ok{fixed}"))];
    }
    let mut lines: Vec<_> =
        report.found.iter().take(NAMED_MAX).map(|found| object_line(report, found)).collect();
    lines.push(format!("{pg} {word} 0 missing, {count} inconsistent objects"));
    lines.push(format!("{pg} {word} {count} errors{fixed}"));
    lines.into_iter().map(|line| (Severity::Error, line)).collect()
}

fn object_line(report: &ScrubReport, (name, damage): &(ObjectName, Damage)) -> String {
    let how = match damage.fault {
        Fault::Record | Fault::Data => "candidate had a read error",
        Fault::Digest => "candidate had a data digest mismatch",
        Fault::Omap => "candidate had an omap read error",
    };
    let soid = soid(report.pg.pool, name);
    format!("{} shard 0 soid {soid} : {how}: {}", report.pg, damage.what)
}

/// `POOL:REVERSED_HASH:NAMESPACE:KEY:NAME:SNAPSHOT`.
fn soid(pool: PoolId, name: &ObjectName) -> String {
    format!("{pool}:{:?}", name.as_ref())
}

/// Converts the monitor's kind of scrub to the OSD's.
pub(crate) fn kind(how: Scrub) -> ScrubKind {
    match how {
        Scrub::Shallow => ScrubKind::Shallow,
        Scrub::Deep => ScrubKind::Deep,
        Scrub::Repair => ScrubKind::Repair,
    }
}

/// Converts the scrub record of a placement group to the monitor's type.
pub(crate) fn scrubs(scrub: &PgScrub) -> PgScrubs {
    let running = scrub.running.map(|kind| match kind {
        ScrubKind::Shallow => Scrub::Shallow,
        ScrubKind::Deep => Scrub::Deep,
        ScrubKind::Repair => Scrub::Repair,
    });
    let last = &scrub.last;
    let (at, version, deep_at, deep_version) = (last.at, last.version, last.deep_at, last.deep_version);
    PgScrubs { running, at, version, deep_at, deep_version, clean_at: last.clean_at }
}
