//! This client as a daemon of a service (`rados_service_register`): the contents of its messages to the
//! manager, and when they are due.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use loligo_wire::message::mgr::{MMgrClose, MMgrOpen, MMgrReport};
use tokio::time::Instant;

use crate::error::{Errno, Error};

/// Service names reserved for Ceph's own daemons (`RadosClient::service_daemon_register`).
const CEPH_S_OWN: [&str; 5] = ["osd", "mds", "client", "mon", "mgr"];

/// A daemon of a service.
pub struct Service {
    service: String,
    daemon: String,
    metadata: BTreeMap<String, String>,
    status: BTreeMap<String, String>,
    /// `true` if the next report has to carry the status.
    unreported: bool,
    /// The connection on which the daemon was announced to the manager.
    opened_on: Option<u64>,
    reports: Option<Reports>,
}

/// The reporting schedule that the manager requested.
struct Reports {
    period: Duration,
    next: Instant,
}

impl Service {
    /// Creates a service. `metadata` is merged over the metadata of this machine.
    ///
    /// # Errors
    /// EINVAL if a name is empty or `service` is the name of one of Ceph's own daemons.
    pub fn new(
        service: &str,
        daemon: &str,
        hostname: &str,
        metadata: BTreeMap<String, String>,
    ) -> Result<Self, Error> {
        if service.is_empty() || daemon.is_empty() || CEPH_S_OWN.contains(&service) {
            return Err(Errno::EINVAL.into());
        }
        let mut all = about_this_machine(hostname);
        all.extend(metadata);
        Ok(Self {
            service: service.to_owned(),
            daemon: daemon.to_owned(),
            metadata: all,
            status: BTreeMap::new(),
            unreported: true,
            opened_on: None,
            reports: None,
        })
    }

    pub(super) fn set_status(&mut self, status: BTreeMap<String, String>) {
        self.status = status;
        self.unreported = true;
    }

    pub(super) fn is_known_on(&self, conn_id: u64) -> bool {
        self.opened_on == Some(conn_id)
    }

    /// Returns the announcement that must come first on a connection, unless it was sent there.
    pub(super) fn open(&mut self, conn_id: u64) -> Option<MMgrOpen> {
        if self.is_known_on(conn_id) {
            return None;
        }
        self.opened_on = Some(conn_id);
        // The manager may be another one, which has no status and sends its own schedule.
        self.unreported = true;
        self.reports = None;
        let Self { service, daemon, metadata, .. } = self;
        Some(MMgrOpen { daemon: daemon.clone(), service: service.clone(), metadata: Some(metadata.clone()) })
    }

    /// Applies the manager's reporting period; the first report is due at once. Zero disables reports.
    pub(super) fn report_each(&mut self, period: Duration, now: Instant) {
        let next = self.reports.as_ref().map_or(now, |reports| reports.next);
        self.reports = (!period.is_zero()).then_some(Reports { period, next });
    }

    /// Returns when the next report is due, or `None` if the manager wants no reports.
    pub(super) fn next_report(&self) -> Option<Instant> {
        self.reports.as_ref().map(|reports| reports.next)
    }

    /// Returns the report if it is due.
    pub(super) fn report(&mut self, now: Instant) -> Option<MMgrReport> {
        let reports = self.reports.as_mut().filter(|reports| reports.next <= now)?;
        reports.next = now + reports.period;
        let status = std::mem::take(&mut self.unreported).then(|| self.status.clone());
        Some(MMgrReport { daemon: self.daemon.clone(), service: self.service.clone(), status })
    }

    pub(super) fn close(self) -> MMgrClose {
        MMgrClose { daemon: self.daemon, service: self.service }
    }
}

/// Returns the machine's metadata: the part of librados's `collect_sys_info` that `ceph` shows, with
/// this library's version.
fn about_this_machine(hostname: &str) -> BTreeMap<String, String> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let version = concat!("loligo ", env!("CARGO_PKG_VERSION"));
    let all = [
        ("arch", std::env::consts::ARCH),
        ("ceph_version", version),
        ("hostname", hostname),
        ("kernel_version", kernel.trim()),
    ];
    all.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service() -> Service {
        let own = BTreeMap::from([("hostname".to_owned(), "mine".to_owned())]);
        Service::new("s", "d", "host", own).expect("fine names")
    }

    #[test]
    fn ceph_s_own_services_are_not_for_clients() {
        for (service, daemon) in [("osd", "0"), ("", "d"), ("s", "")] {
            let refused = Service::new(service, daemon, "host", BTreeMap::new()).err().expect("refused");
            assert_eq!(refused.errno(), Errno::EINVAL);
        }
    }

    #[test]
    fn what_the_caller_says_wins_over_what_is_known() {
        let open = service().open(1).expect("not open yet");
        let metadata = open.metadata.expect("a service's");
        assert_eq!(metadata["hostname"], "mine");
        assert_eq!(metadata["arch"], std::env::consts::ARCH);
    }

    #[test]
    fn a_status_is_told_once_to_each_manager() {
        let mut service = service();
        let (now, period) = (Instant::now(), Duration::from_secs(5));
        let status = BTreeMap::from([("at".to_owned(), "work".to_owned())]);
        service.set_status(status.clone());
        assert!(service.open(1).is_some() && service.open(1).is_none());
        assert!(service.report(now).is_none(), "nobody has asked for one");
        service.report_each(period, now);
        let first = service.report(now).expect("the first is due at once");
        assert_eq!(first.status, Some(status.clone()));
        assert!(service.report(now + period / 2).is_none());
        assert_eq!(service.report(now + period).expect("due").status, None);
        assert!(service.open(2).is_some());
        service.report_each(period, now);
        assert_eq!(service.report(now).expect("due").status, Some(status));
        service.report_each(Duration::ZERO, now);
        assert!(service.next_report().is_none());
    }
}
