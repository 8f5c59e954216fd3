//! What the report says after known contention. The modes and `reset` concern the whole process, so one test does it
//! all.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use loligo_lockstat::{Class, Kind, Mode, Mutex, Report, RwLock, mode, report, reset, set_mode};

static QUEUE: Class = Class::new("t.queue");
static TABLE: Class = Class::new("t.table");

const HOLD: Duration = Duration::from_millis(20);

#[test]
fn the_report_tells_who_waited_for_whom_and_how_long() {
    assert_eq!(mode(), Mode::Contended);
    contended();
    full();
    off();
    reset_forgets();
}

/// One contention: it waited as long as the other held; no acquisition is counted.
fn contended() {
    let mut lines = contend();
    // Should the waiter come so late that the lock is free again, nothing has been counted yet.
    while report().class("t.queue").is_none() {
        lines = contend();
    }
    let report = report();
    let class = report.class("t.queue").expect("it was contended");
    assert_eq!((class.kind, class.contentions, class.acquisitions), (Kind::Exclusive, 1, 0));
    let wait = class.wait;
    assert_eq!(wait.count, 1);
    assert!(wait.min_ns > 0 && wait.min_ns == wait.max_ns && wait.max_ns == wait.total_ns);
    assert_eq!((wait.p50_ns, wait.p99_ns), (wait.max_ns, wait.max_ns));
    assert_eq!(class.hold.count, 0);
    assert_eq!((class.waiters.len(), class.waiters[0].count), (1, 1));
    assert_eq!(class.waiters[0].line, lines.waiter);
    assert_eq!((class.holders.len(), class.holders[0].line), (1, lines.holder));
    assert!(class.holders[0].file.ends_with("report.rs"));
    assert_text(&report);
    assert_json(&report);
}

/// Where [`contend`] takes the lock.
struct Lines {
    holder: u32,
    waiter: u32,
}

/// One thread holds a lock of [`QUEUE`] for long; another comes to wait for it.
fn contend() -> Lines {
    let mutex = Mutex::new(&QUEUE, ());
    let held = Barrier::new(2);
    thread::scope(|s| {
        let holder = s.spawn(|| {
            let (_guard, line) = (mutex.lock(), line!());
            held.wait();
            thread::sleep(HOLD);
            line
        });
        held.wait();
        let (guard, waiter) = (mutex.lock(), line!());
        drop(guard);
        Lines { holder: holder.join().expect("no panic"), waiter }
    })
}

/// Every acquisition and hold is counted, for readers and writers apart.
fn full() {
    set_mode(Mode::Full);
    let table = RwLock::new(&TABLE, 0);
    let (writes, reads) = (10, 25);
    thread::scope(|s| {
        s.spawn(|| (0..writes).for_each(|_| *table.write() += 1)).join().expect("no panic");
        (0..reads).for_each(|_| drop(table.read()));
    });
    let report = report();
    let write = report.class("t.table").expect("it was taken");
    assert_eq!(
        (write.kind, write.acquisitions, write.hold.count, write.contentions),
        (Kind::Write, writes, writes, 0)
    );
    let read = report.classes.iter().find(|c| c.kind == Kind::Read).expect("it was read");
    assert_eq!((read.name, read.acquisitions, read.hold.count), ("t.table", reads, reads));
    assert_eq!((read.holders.len(), read.holders[0].count), (1, 0));
    assert_eq!(read.holders[0].total_ns, read.hold.total_ns);
    assert!(read.hold.min_ns <= read.hold.p50_ns && read.hold.p50_ns <= read.hold.p99_ns);
    assert!(read.hold.p99_ns <= read.hold.max_ns);
    set_mode(Mode::Contended);
}

fn off() {
    set_mode(Mode::Off);
    let before = report().class("t.queue").map(|c| c.contentions);
    contend();
    assert_eq!(report().class("t.queue").map(|c| c.contentions), before);
    set_mode(Mode::Contended);
}

/// Counters of living threads are forgotten as well as those of dead ones.
fn reset_forgets() {
    reset();
    let report = report();
    assert!(report.classes.is_empty(), "{report:?}");
    assert!(report.quiet.contains(&"t.queue") && report.quiet.contains(&"t.table"));
    set_mode(Mode::Full);
    let mutex = Mutex::new(&QUEUE, ());
    drop(mutex.lock());
    set_mode(Mode::Contended);
    assert_eq!(loligo_lockstat::report().class("t.queue").map(|c| c.acquisitions), Some(1));
}

/// The columns stand where `/proc/lock_stat` has them.
fn assert_text(report: &Report) {
    let text = report.to_text();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("lock_stat version 0.4"));
    let header: Vec<&str> = text.lines().nth(2).expect("a header").split_whitespace().collect();
    let columns = "class name con-bounces contentions waittime-min waittime-max waittime-total waittime-avg \
                   acq-bounces acquisitions holdtime-min holdtime-max holdtime-total holdtime-avg";
    assert_eq!(header[..14], columns.split_whitespace().collect::<Vec<_>>());
    let row = text.lines().find(|l| l.trim_start().starts_with("t.queue:")).expect("a row");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells.len(), 1 + header.len() - 2);
    assert_eq!(cells[2], "1");
    let max_us: f64 = cells[4].parse().expect("microseconds");
    let max_ns = report.class("t.queue").expect("it is there").wait.max_ns;
    assert!((max_us - max_ns as f64 / 1000.0).abs() < 0.01);
    let sites = text.lines().filter(|l| l.contains("report.rs:")).count();
    assert_eq!(sites, 2, "{text}");
}

fn assert_json(report: &Report) {
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).expect("JSON");
    assert_eq!(json["mode"], "contended");
    let class = &json["classes"][0];
    assert_eq!(class["name"], "t.queue");
    assert_eq!(class["contentions"], 1);
    assert_eq!(class["wait"]["max_ns"], report.classes[0].wait.max_ns);
    assert_eq!(class["waiters"][0]["line"], report.classes[0].waiters[0].line);
}
