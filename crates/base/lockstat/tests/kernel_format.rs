//! Goal: programs that parse `/proc/lock_stat` can parse this crate's text. Method: a parser based only
//! on the kernel's description (Documentation/locking/lockstat.rst) reads the text back, and the result
//! is compared with the report.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use loligo_lockstat::{Class, ClassReport, Kind, Mode, Mutex, RwLock, Times, report, set_mode};

/// A class in the kernel's format: twelve numbers, and contention points with a count each.
#[derive(Debug, Default)]
struct Row {
    name: String,
    numbers: Vec<f64>,
    /// The contending points, then the points contended with: count and symbol.
    points: [Vec<(u64, String)>; 2],
}

const COLUMNS: [&str; 12] = [
    "con-bounces",
    "contentions",
    "waittime-min",
    "waittime-max",
    "waittime-total",
    "waittime-avg",
    "acq-bounces",
    "acquisitions",
    "holdtime-min",
    "holdtime-max",
    "holdtime-total",
    "holdtime-avg",
];

fn parse(text: &str) -> Vec<Row> {
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("lock_stat version 0.4"));
    let is_rule = |line: &str| !line.trim().is_empty() && line.trim().bytes().all(|b| b == b'-');
    assert!(lines.next().is_some_and(is_rule));
    let header: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    assert_eq!((&header[..2], &header[2..14]), (&["class", "name"][..], &COLUMNS[..]));
    assert!(lines.next().is_some_and(is_rule));
    let mut rows: Vec<Row> = Vec::new();
    let mut list = 0;
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        if is_rule(line) {
            list += 1;
        } else if let [name, numbers @ ..] = &words[..]
            && let Some(name) = name.strip_suffix(':')
        {
            let numbers = numbers[..12].iter().map(|n| n.parse().expect("a number")).collect();
            rows.push(Row { name: name.to_owned(), numbers, ..Row::default() });
            list = 0;
        } else if let [_, count, address, symbol] = words[..]
            && address.starts_with('[')
            && list > 0
        {
            let row = rows.last_mut().expect("points follow a class");
            row.points[list - 1].push((count.parse().expect("a count"), symbol.to_owned()));
        }
    }
    rows
}

static QUEUE: Class = Class::new("t.kernel.queue");
static TABLE: Class = Class::new("t.kernel.table");

#[test]
fn the_text_is_read_back() {
    set_mode(Mode::Exact);
    let (queue, table) = (Mutex::new(&QUEUE, ()), RwLock::new(&TABLE, ()));
    let held = Barrier::new(2);
    thread::scope(|s| {
        s.spawn(|| {
            let _queue = queue.lock();
            held.wait();
            // Usually long enough that the other thread arrives while the lock is held. The comparison
            // does not depend on it.
            thread::sleep(Duration::from_millis(10));
        });
        held.wait();
        drop(queue.lock());
        drop(table.write());
        drop(table.read());
    });
    let report = report();
    let rows = parse(&report.to_text());
    assert_eq!(rows.len(), report.classes.len());
    for class in &report.classes {
        let name = match class.kind {
            Kind::Exclusive => class.name.to_owned(),
            Kind::Write => format!("{}-W", class.name),
            Kind::Read => format!("{}-R", class.name),
        };
        let row = rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no row {name}"));
        compare(row, class);
    }
    let names: Vec<&str> = report.classes.iter().map(|c| c.name).collect();
    assert_eq!(names.iter().filter(|n| **n == "t.kernel.table").count(), 2, "readers and writers apart");
}

fn compare(row: &Row, class: &ClassReport) {
    let us = |ns: u64| (ns / 10) as f64 / 100.0;
    let times = |t: &Times| [us(t.min_ns), us(t.max_ns), us(t.total_ns), us(t.avg_ns())];
    let mut expected = vec![class.con_bounces as f64, class.contentions as f64];
    expected.extend(times(&class.wait));
    expected.extend([class.acq_bounces as f64, class.acquisitions as f64]);
    expected.extend(times(&class.hold));
    assert_eq!(row.numbers, expected, "{}", row.name);
    // A class without waits has no first list, so its holders are in its place.
    let lists = [&class.waiters, &class.holders]
        .map(|list| list.iter().map(|s| (s.count, format!("{}:{}", s.file, s.line))).collect::<Vec<_>>());
    let expected: Vec<_> = lists.into_iter().filter(|list| !list.is_empty()).collect();
    let seen: Vec<_> = row.points.iter().filter(|list| !list.is_empty()).cloned().collect();
    assert_eq!(seen, expected, "{}", row.name);
}
