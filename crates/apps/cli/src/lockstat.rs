//! `loligo lockstat`: shows the lock reports of running programs, once or each second.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use console::Term;
use serde::Deserialize;

use crate::admin::ask;
use crate::failure::{Context, Failure};
use crate::format::FormatName;

/// The admin sockets to query, and how often.
#[derive(clap::Args)]
pub(crate) struct Lockstat {
    /// Admin sockets, of servers or clients; the locks of several processes are shown as one list.
    #[arg(required = true)]
    pub(crate) sockets: Vec<PathBuf>,
    /// Show it each second, the classes with the longest total wait first.
    #[arg(long)]
    pub(crate) watch: bool,
}

const INTERVAL: Duration = Duration::from_secs(1);

pub(crate) fn run(options: &Lockstat, format: FormatName) -> Result<(), Failure> {
    let sockets = &options.sockets;
    if options.watch {
        return watch(sockets);
    }
    let text = match (&sockets[..], format) {
        ([socket], _) => report_of(socket, format_name(format)?)?,
        (_, FormatName::Plain) => draw(&gather(sockets)?, None, None).join("\n"),
        (_, FormatName::Json) => json_of_all(sockets)?,
        _ => return Err(Failure::new("--format", "text or JSON, if there are several sockets")),
    };
    say!("{text}{}", if text.ends_with('\n') { "" } else { "\n" });
    Ok(())
}

/// Returns an object with each socket's report.
fn json_of_all(sockets: &[PathBuf]) -> Result<String, Failure> {
    let mut all = serde_json::Map::new();
    for socket in sockets {
        let report = serde_json::from_str(&report_of(socket, "json")?);
        let report = report.map_err(|e| Failure::new(format!("report of {}", socket.display()), e))?;
        all.insert(socket.display().to_string(), report);
    }
    Ok(serde_json::Value::Object(all).to_string())
}

/// Merges the reports of all sockets. With several sockets, each class is prefixed with its socket's
/// name.
fn gather(sockets: &[PathBuf]) -> Result<Report, Failure> {
    let mut all: Option<Report> = None;
    for socket in sockets {
        let text = report_of(socket, "json")?;
        let mut report: Report = serde_json::from_str(&text)
            .map_err(|e| Failure::new(format!("report of {}", socket.display()), e))?;
        if sockets.len() > 1 {
            report.label(&label(socket, sockets));
        }
        all = Some(match all {
            None => report,
            Some(all) => all.with(report),
        });
    }
    all.ok_or_else(|| Failure::new("lockstat", "no socket given"))
}

/// Returns the file's name without its extension, or the whole path if another socket has the same name.
fn label(socket: &Path, sockets: &[PathBuf]) -> String {
    let same = sockets.iter().filter(|other| other.file_stem() == socket.file_stem()).count();
    match socket.file_stem().filter(|_| same == 1) {
        Some(stem) => stem.to_string_lossy().into_owned(),
        None => socket.display().to_string(),
    }
}

/// Returns the format's name as the server knows it.
fn format_name(format: FormatName) -> Result<&'static str, Failure> {
    match format {
        FormatName::Plain => Ok("text"),
        FormatName::Json => Ok("json"),
        FormatName::Prometheus => Ok("prometheus"),
        _ => Err(Failure::new("--format", "is plain, json or prometheus")),
    }
}

fn report_of(socket: &Path, format: &str) -> Result<String, Failure> {
    ask(socket, &serde_json::json!({ "prefix": "lock_stat", "format": format }))
}

/// A program's report. This module shows a part of it.
#[derive(Clone, Debug, Deserialize)]
struct Report {
    mode: String,
    classes: Vec<Class>,
    quiet: Vec<String>,
}

impl Report {
    fn label(&mut self, label: &str) {
        self.classes.iter_mut().for_each(|class| class.name = format!("{label}: {}", class.name));
    }

    fn with(mut self, other: Self) -> Self {
        if self.mode != other.mode {
            self.mode = format!("{} and {}", self.mode, other.mode);
        }
        self.classes.extend(other.classes);
        self.quiet.extend(other.quiet);
        self
    }
}

#[derive(Clone, Debug, Deserialize)]
struct Class {
    name: String,
    kind: String,
    contentions: u64,
    acquisitions: u64,
    wait: Times,
    hold: Times,
    waiters: Vec<Site>,
    holders: Vec<Site>,
}

#[derive(Clone, Debug, Deserialize)]
struct Times {
    max_ns: u64,
    total_ns: u64,
    avg_ns: u64,
    p50_ns: u64,
    p99_ns: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct Site {
    file: String,
    line: u32,
}

/// Shows the report each second: on a terminal in place, otherwise one report below the other. Ends when
/// a queried program or the reader of the output is gone.
fn watch(sockets: &[PathBuf]) -> Result<(), Failure> {
    let terminal = Term::stdout();
    let mut before: Option<(Instant, Report)> = None;
    loop {
        let now = Instant::now();
        let report = gather(sockets)?;
        let interval = before.as_ref().map(|(then, report)| (now.duration_since(*then), report));
        let size = terminal.is_term().then(|| terminal.size());
        let lines = draw(&report, interval, size.map(|(rows, columns)| (rows.into(), columns.into())));
        if !show(&lines, size.is_some()).context(|| "write to standard output".to_owned())? {
            return Ok(());
        }
        before = Some((now, report));
        thread::sleep(INTERVAL.saturating_sub(now.elapsed()));
    }
}

/// Returns `false` if the reader is gone.
fn show(lines: &[String], in_place: bool) -> io::Result<bool> {
    let mut out = String::new();
    // Moves to the top left; each line clears to its end, and the last one all below. So the screen does
    // not flicker.
    if in_place {
        out.push_str("\x1b[H");
        out.push_str(&lines.iter().map(|line| format!("{line}\x1b[K")).collect::<Vec<_>>().join("\r\n"));
        out.push_str("\x1b[J");
    } else {
        lines.iter().for_each(|line| out += &format!("{line}\n"));
        out.push('\n');
    }
    let mut stdout = crate::say::Stdout;
    match stdout.write_all(out.as_bytes()).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true),
    }
}

const NAME_WIDTH: usize = 26;
const COLUMN_WIDTH: usize = 9;

/// Returns the lines of the view, clipped to the rows and columns of `size`. `interval` holds the
/// previous report and its age.
fn draw(report: &Report, interval: Option<(Duration, &Report)>, size: Option<(usize, usize)>) -> Vec<String> {
    let mut classes: Vec<&Class> = report.classes.iter().collect();
    classes.sort_by_key(|c| (Reverse(c.wait.total_ns), Reverse(c.hold.total_ns), c.name.as_str()));
    let is_full = ["full", "exact"].iter().any(|mode| report.mode.contains(mode));
    let name_width = classes.iter().map(|c| c.name.len() + 2).max().unwrap_or(0).max(NAME_WIDTH);
    let waited: u64 = classes.iter().map(|c| c.wait.total_ns).sum();
    let mut lines = vec![
        format!(
            "locks, mode {}: waited {} in {} waits; {} classes of which there is nothing to tell",
            report.mode,
            time(waited),
            count(classes.iter().map(|c| c.contentions).sum()),
            report.quiet.len()
        ),
        String::new(),
        header(name_width, is_full),
    ];
    for class in classes {
        lines.push(row(class, name_width, interval, is_full));
        if let Some(sites) = sites(class) {
            lines.push(sites);
        }
    }
    if let Some((rows, columns)) = size {
        lines.truncate(rows.max(1));
        lines.iter_mut().for_each(|line| *line = line.chars().take(columns).collect());
    }
    lines
}

fn header(name_width: usize, is_full: bool) -> String {
    let mut out = format!("{:<name_width$}", "class");
    let waits = ["waits/s", "wait/s", "waits", "wait", "avg", "p50", "p99", "max"];
    let holds = ["taken/s", "hold/s", "held p50", "held p99", "held max"];
    for column in waits.iter().chain(holds.iter().filter(|_| is_full)) {
        let _ = write!(out, "{column:>COLUMN_WIDTH$}");
    }
    out
}

fn row(class: &Class, name_width: usize, interval: Option<(Duration, &Report)>, is_full: bool) -> String {
    let name =
        if class.kind == "exclusive" { class.name.clone() } else { format!("{} {}", class.name, class.kind) };
    let rates = interval.map(|(elapsed, before)| rates(class, before, elapsed));
    let rate = |figure: fn(&Rates) -> String| rates.as_ref().map_or_else(|| "-".to_owned(), figure);
    let wait = &class.wait;
    let mut cells = vec![
        rate(|r| count(r.waits)),
        rate(|r| time(r.waited_ns)),
        count(class.contentions),
        time(wait.total_ns),
        time(wait.avg_ns),
        time(wait.p50_ns),
        time(wait.p99_ns),
        time(wait.max_ns),
    ];
    if is_full {
        let hold = &class.hold;
        cells.extend([rate(|r| count(r.taken)), rate(|r| time(r.held_ns))]);
        cells.extend([time(hold.p50_ns), time(hold.p99_ns), time(hold.max_ns)]);
    }
    let mut out = format!("{name:<name_width$}");
    cells.iter().for_each(|cell| out += &format!("{cell:>COLUMN_WIDTH$}"));
    out
}

/// Rates per second since the previous report.
struct Rates {
    waits: u64,
    waited_ns: u64,
    taken: u64,
    held_ns: u64,
}

fn rates(class: &Class, before: &Report, elapsed: Duration) -> Rates {
    let earlier = before.classes.iter().find(|c| c.name == class.name && c.kind == class.kind);
    // After a reset a counter may be lower than before.
    let per_second = |figure: fn(&Class) -> u64| {
        let more = figure(class).checked_sub(earlier.map_or(0, figure)).unwrap_or(figure(class));
        (more as f64 / elapsed.as_secs_f64().max(1e-3)).round() as u64
    };
    Rates {
        waits: per_second(|c| c.contentions),
        waited_ns: per_second(|c| c.wait.total_ns),
        taken: per_second(|c| c.acquisitions),
        held_ns: per_second(|c| c.hold.total_ns),
    }
}

/// Returns the line below a class's row: the first waiting and the first holding site of its report.
fn sites(class: &Class) -> Option<String> {
    let waiter = class.waiters.first()?;
    let mut out = format!("    waits at {}:{}", waiter.file, waiter.line);
    if let Some(holder) = class.holders.first() {
        let _ = write!(out, ", held at {}:{}", holder.file, holder.line);
    }
    Some(out)
}

/// Formats a time: `870 ns`, `12.3 µs`, `4.5 ms`, `61.2 s`.
fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

/// Formats a count: `9999`, `12.3k`, `4.5M`.
fn count(n: u64) -> String {
    match n {
        0..10_000 => n.to_string(),
        10_000..1_000_000 => format!("{:.1}k", n as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1}M", n as f64 / 1e6),
        _ => format!("{:.1}G", n as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loligo_lockstat::{Mutex, SpinLock, report, reset};
    use std::sync::Barrier;

    fn class(name: &str, waits: u64, waited_ns: u64) -> String {
        let times = format!(
            r#"{{"count":{waits},"min_ns":1,"max_ns":900,"total_ns":{waited_ns},"avg_ns":5,"p50_ns":4,"p99_ns":8}}"#
        );
        format!(
            r#"{{"name":"{name}","kind":"exclusive","contentions":{waits},"acquisitions":0,"wait":{times},"hold":{times},
            "waiters":[{{"file":"a.rs","line":7}}],"holders":[{{"file":"b.rs","line":8}}]}}"#
        )
    }

    fn parsed(classes: &[String]) -> Report {
        let text = format!(r#"{{"mode":"contended","classes":[{}],"quiet":["q"]}}"#, classes.join(","));
        serde_json::from_str(&text).expect("a report")
    }

    #[test]
    fn the_longest_wait_stands_first_and_rates_are_per_second() {
        let before = parsed(&[class("t.few", 10, 1_000)]);
        let now = parsed(&[class("t.few", 30, 5_000), class("t.long", 1, 2_000_000)]);
        let lines = draw(&now, Some((Duration::from_secs(2), &before)), None);
        assert!(lines[3].starts_with("t.long "), "{lines:?}");
        assert_eq!(lines[4], "    waits at a.rs:7, held at b.rs:8");
        let few: Vec<&str> = lines[5].split_whitespace().collect();
        assert_eq!(few[..8], ["t.few", "10", "2.0", "µs", "30", "5.0", "µs", "5"]);
        assert!(draw(&now, None, None)[3].contains(" - "));
        // After a reset.
        let lines = draw(&before, Some((Duration::from_secs(1), &now)), None);
        assert_eq!(lines[3].split_whitespace().nth(1), Some("10"));
    }

    #[test]
    fn several_programs_make_one_list() {
        let (mut server, mut client) =
            (parsed(&[class("t.few", 1, 1_000)]), parsed(&[class("t.few", 9, 9_000)]));
        let sockets = ["/run/a/one.asok", "/run/b/one.asok", "/run/two.asok"].map(PathBuf::from);
        assert_eq!(label(&sockets[0], &sockets), "/run/a/one.asok");
        assert_eq!(label(&sockets[2], &sockets), "two");
        server.label("server");
        client.label("client");
        let lines = draw(&server.with(client), None, None);
        assert!(lines[0].contains("waited 10.0 µs in 10 waits; 2 classes"), "{lines:?}");
        assert!(lines[3].starts_with("client: t.few ") && lines[5].starts_with("server: t.few "));
    }

    #[test]
    fn no_line_is_too_long_and_none_too_many() {
        let many: Vec<String> = (0..50).map(|i| class(&format!("t.class{i}"), i, i * 1000)).collect();
        let lines = draw(&parsed(&many), None, Some((24, 80)));
        assert_eq!(lines.len(), 24);
        assert!(lines.iter().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn figures_are_short() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_250, "1.2 µs"),
            (2_000_000, "2.0 ms"),
            (61_000_000_000, "61.0 s"),
        ] {
            assert_eq!(time(ns), text);
        }
        for (n, text) in [(9_999, "9999"), (12_345, "12.3k"), (5_000_000, "5.0M")] {
            assert_eq!(count(n), text);
        }
    }

    /// The reader understands the reports that the locks write.
    #[test]
    fn the_locks_own_report_is_understood() {
        static A: loligo_lockstat::Class = loligo_lockstat::Class::new("t.cli");
        reset();
        let (lock, other) = (Mutex::new(&A, ()), SpinLock::new(&A, ()));
        drop(other.lock());
        let held = Barrier::new(2);
        while report().class("t.cli").is_none() {
            std::thread::scope(|s| {
                s.spawn(|| {
                    let _guard = lock.lock();
                    held.wait();
                    std::thread::sleep(Duration::from_millis(5));
                });
                held.wait();
                drop(lock.lock());
            });
        }
        let understood: Report = serde_json::from_str(&report().to_json()).expect("a report");
        let class = understood.classes.iter().find(|c| c.name == "t.cli").expect("it was contended");
        assert!(class.contentions == 1 && class.wait.total_ns > 0 && class.waiters.len() == 1);
    }
}
