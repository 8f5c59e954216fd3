//! Goal: the report is right after known contention. The mode and `reset` affect the whole process, so a
//! single test runs all cases.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use loligo_lockstat::{Class, Kind, Mode, Mutex, Report, RwLock, mode, report, reset, set_mode};

static QUEUE: Class = Class::new("t.queue");
static ONE: Class = Class::new("t.one");
static OTHER: Class = Class::new("t.other");
static TABLE: Class = Class::new("t.table");

const HOLD: Duration = Duration::from_millis(20);

#[test]
fn the_report_tells_who_waited_for_whom_and_how_long() {
    assert_eq!(mode(), Mode::Contended);
    contended();
    full();
    picked();
    off();
    differences();
    reset_forgets();
}

/// One contention: the wait is as long as the other thread's hold; no acquisition is counted.
fn contended() {
    let mut lines = contend();
    // If the waiter arrives after the release, nothing has been counted yet.
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

/// The lines at which [`contend`] takes the lock.
struct Lines {
    holder: u32,
    waiter: u32,
}

/// One thread holds a lock of [`QUEUE`] for long; another arrives and waits for it.
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

/// Every acquisition and hold is counted, separately for readers and writers.
fn full() {
    set_mode(Mode::Exact);
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

/// Every acquisition is counted, even of two locks taken in turn. Some of the holds are timed, and the
/// sum is an estimate for all.
fn picked() {
    set_mode(Mode::Full);
    let (one, other) = (Mutex::new(&ONE, ()), Mutex::new(&OTHER, ()));
    let take = |times: u64| {
        for _ in 0..times {
            drop(one.lock());
            drop(other.lock());
        }
    };
    take(64);
    let first = report();
    take(1000);
    let last = report();
    for name in ["t.one", "t.other"] {
        let holds: [_; 3] = [&first, &last, &last.since(&first)].map(|r| r.class(name).expect("taken").hold);
        assert_eq!(holds.map(|hold| hold.count), [64, 1064, 1000]);
        for hold in holds {
            assert!(hold.min_ns > 0 && hold.min_ns <= hold.p50_ns && hold.p99_ns <= hold.max_ns, "{hold:?}");
            // The sum is made of the timed holds, so the mean lies within their range.
            assert!((hold.min_ns..=hold.max_ns).contains(&hold.avg_ns()), "{hold:?}");
        }
    }
    assert!(last.to_text().contains("one acquisition in eight"));
    set_mode(Mode::Contended);
}

fn off() {
    set_mode(Mode::Off);
    let before = report().class("t.queue").map(|c| c.contentions);
    contend();
    assert_eq!(report().class("t.queue").map(|c| c.contentions), before);
    set_mode(Mode::Contended);
}

/// The difference from an earlier report contains the later events and nothing else.
fn differences() {
    set_mode(Mode::Exact);
    let table = RwLock::new(&TABLE, 0);
    let take = |times: u64| (0..times).for_each(|_| *table.write() += 1);
    take(3);
    let earlier = report();
    assert!(earlier.since(&earlier).classes.is_empty());
    take(4);
    let report = report();
    let since = report.since(&earlier);
    let class = since.class("t.table").expect("it was taken");
    assert_eq!(
        (class.kind, class.acquisitions, class.hold.count, class.holders.len()),
        (Kind::Write, 4, 4, 1)
    );
    assert_eq!(since.classes.len(), 1, "the others have rested: {since:?}");
    assert!(since.quiet.contains(&"t.queue"));
    let hold = class.hold;
    assert!(hold.min_ns <= hold.p50_ns && hold.p50_ns <= hold.p99_ns && hold.p99_ns <= hold.max_ns);
    assert!(hold.total_ns <= hold.max_ns * 4 && hold.total_ns >= hold.min_ns);
    let whole = report.class("t.table").expect("it was taken").hold;
    assert!(whole.min_ns <= hold.min_ns && hold.max_ns <= whole.max_ns);
    set_mode(Mode::Contended);
    assert_prometheus(&report);
}

/// Each line is a comment or `name{labels} number`; each name is declared once; counts match the report.
fn assert_prometheus(report: &Report) {
    let text = report.to_prometheus();
    let mut declared: Vec<&str> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name and a type");
            assert!(["counter", "summary", "gauge"].contains(&kind), "{line}");
            assert!(!declared.contains(&name), "{name} twice");
            declared.push(name);
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').expect("a series and a value");
            let name = series.split('{').next().expect("a name");
            let base = ["_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
            assert!(declared.contains(&name) || declared.contains(&base), "{line}");
            assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
        }
    }
    let class = report.class("t.table").expect("it was taken");
    let line = format!(
        "loligo_lock_acquisitions_total{{class=\"t.table\",kind=\"write\"}} {}\n",
        class.acquisitions
    );
    assert!(text.contains(&line), "{text}");
}

/// `reset` discards the counters of living and of ended threads.
fn reset_forgets() {
    let earlier = report();
    reset();
    let report = report();
    assert!(report.classes.is_empty(), "{report:?}");
    assert!(report.since(&earlier).classes.is_empty());
    assert!(report.quiet.contains(&"t.queue") && report.quiet.contains(&"t.table"));
    set_mode(Mode::Exact);
    let mutex = Mutex::new(&QUEUE, ());
    drop(mutex.lock());
    set_mode(Mode::Contended);
    assert_eq!(loligo_lockstat::report().class("t.queue").map(|c| c.acquisitions), Some(1));
}

/// The columns are those of `/proc/lock_stat`, in its order.
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
