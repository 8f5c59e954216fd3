//! The cases, one file each; shared code is in `clients` and `queued`.

mod apply;
mod async_read;
mod cephfs;
mod clients;
mod devices;
mod direct_write;
mod log;
mod long_hold;
mod object_cache;
mod out_queue;
mod pg_slot;
mod queued;

use std::path::{Path, PathBuf};

use crate::{Case, Error};

pub use cephfs::trace_direct_writes;

/// All cases, in display order.
pub fn cases() -> Vec<Box<dyn Case>> {
    cases_with(None)
}

/// All cases, in display order. With the configuration of a cluster that has a file system, a case that can
/// use it has one setting more.
pub fn cases_with(cephfs: Option<&Path>) -> Vec<Box<dyn Case>> {
    let cephfs = cephfs.map(PathBuf::from);
    vec![
        Box::new(out_queue::OutQueue::default()),
        Box::new(direct_write::DirectWrite { cephfs, ..direct_write::DirectWrite::default() }),
        Box::new(long_hold::LongHold::default()),
        Box::new(pg_slot::PgSlot::default()),
        Box::new(async_read::AsyncRead::default()),
        Box::new(object_cache::ObjectCache::default()),
        Box::new(apply::Apply::default()),
        Box::new(log::Log::default()),
        Box::new(devices::Devices::default()),
    ]
}

/// The case with this name. `cephfs` as in [`cases_with`].
///
/// # Errors
/// [`Error::NoSuchCase`].
pub fn by_name(name: &str, cephfs: Option<&Path>) -> Result<Box<dyn Case>, Error> {
    let found = cases_with(cephfs).into_iter().find(|case| case.name() == name);
    found.ok_or_else(|| Error::NoSuchCase(name.to_owned()))
}

#[cfg(test)]
mod tests {
    //! Runs each case with small parameters. The tests check that both forms work and measure something,
    //! not their speed.

    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::{Better, Form, Plan, run};

    fn tiny_cases() -> Vec<Box<dyn Case>> {
        vec![
            Box::new(out_queue::OutQueue {
                settings: vec![out_queue::Storm::v2(8), out_queue::Storm::v1(8)],
            }),
            Box::new(direct_write::DirectWrite {
                objects: 3,
                sizes: &[64 << 10],
                delay: Duration::from_millis(2),
                cephfs: None,
            }),
            Box::new(long_hold::LongHold { threads: 3 }),
            Box::new(pg_slot::PgSlot { connections: 4, in_flight: 2, pgs: &[1, 2] }),
            Box::new(async_read::AsyncRead {
                readers: 2,
                writers: 2,
                in_flight: 2,
                objects: 64,
                disks: const { &[Duration::ZERO, Duration::from_millis(1)] },
            }),
            Box::new(object_cache::ObjectCache {
                hitting: 4,
                missing: 2,
                miss_bytes: 64 << 10,
                delay: Duration::from_millis(1),
                miss_every: Duration::from_millis(2),
                hit_every: Duration::from_millis(1),
            }),
            Box::new(apply::Apply { sequencers: 4, threads: &[3] }),
            Box::new(log::Log { threads: &[2] }),
            Box::new(devices::Devices {
                devices: 5,
                workers: 3,
                steps: const { &[Duration::from_millis(1)] },
            }),
        ]
    }

    /// One test for all cases, since the lock counters belong to the process.
    #[test]
    fn each_case_measures_something_in_both_forms() {
        let plan = Plan { rounds: 1, time: Duration::from_millis(40) };
        for case in tiny_cases() {
            let mut runs = 0;
            let outcome = run(&*case, &plan, &mut |_| runs += 1).unwrap();
            assert_eq!(runs, case.settings().len() * Form::BOTH.len());
            for setting in &outcome.settings {
                let what = format!("{}, {}", case.name(), setting.name);
                for row in &setting.rows {
                    let what = format!("{what}: {}: {} -> {}", row.metric.name, row.before, row.after);
                    assert!(row.before.is_finite() && row.after.is_finite(), "{what}");
                    assert!(row.before >= 0.0 && row.after >= 0.0, "{what}");
                    // Waits and drops may be zero; all other figures must be positive.
                    let may_be_none = ["wait", "dropped"].iter().any(|word| row.metric.name.contains(word));
                    assert!(may_be_none || (row.before > 0.0 && row.after > 0.0), "{what}");
                }
                let spread_is_named = !setting.spread_of.is_empty();
                for spread in &setting.spreads {
                    assert_eq!(spread_is_named, !spread.is_empty(), "{what}");
                }
            }
        }
    }

    /// Goal: a cluster that was not named is not measured, and the note says how to name one.
    #[test]
    fn cephfs_is_a_setting_if_it_is_given() {
        let settings = |cephfs| by_name("direct-write", cephfs).unwrap().settings().len();
        assert_eq!(settings(Some(Path::new("ceph.conf"))), settings(None) + 1);
        assert!(by_name("direct-write", None).unwrap().about().note.contains("--cephfs"));
    }

    #[test]
    fn the_book_lists_all_cases() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/book/contention.md");
        let page = std::fs::read_to_string(page).expect("the book is there");
        let row = |line: &str| line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name.to_owned());
        let listed: Vec<String> = page.lines().filter_map(row).collect();
        assert_eq!(listed, cases().iter().map(|case| case.name()).collect::<Vec<_>>());
        let publications: BTreeSet<&str> = cases().iter().map(|case| case.about().source.url).collect();
        let numbers = (listed.len(), publications.len());
        assert_eq!(numbers, (9, 5), "the page says: nine cases from five publications");
    }

    #[test]
    fn names_are_found_and_unlike() {
        let names: BTreeSet<&str> = cases().iter().map(|case| case.name()).collect();
        assert_eq!(names.len(), cases().len());
        for name in names {
            assert_eq!(by_name(name, None).unwrap().name(), name);
        }
        assert!(matches!(by_name("none", None), Err(Error::NoSuchCase(_))));
    }

    #[test]
    fn what_is_said_of_a_case_is_complete() {
        for case in cases() {
            let about = case.about();
            for text in [about.title, about.before, about.after, about.source.author, about.source.title] {
                assert!(!text.is_empty(), "{}", case.name());
            }
            assert!(about.source.url.starts_with("https://"), "{}", case.name());
            let mut keys = BTreeSet::new();
            for setting in case.settings() {
                for metric in &setting.metrics {
                    assert!(keys.insert((setting.name.clone(), metric.name)), "{} twice", metric.name);
                    let ratio = metric.reference_ratio.unwrap_or(1.0);
                    assert!(ratio > 0.0 && ratio.is_finite(), "{}", metric.name);
                    assert!(metric.better == Better::Lower || metric.unit.symbol() == "1/s");
                }
            }
        }
    }
}
