//! Reads the files of `--trace`: one event a line. The file may be incomplete.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead, Read};

use serde::Deserialize;

/// Maximum length of a line. An object's name has at most some kilobytes.
const LINE_MAX: u64 = 1 << 20;
/// Maximum number of operations that are read; each takes some hundred bytes.
const OPS_MAX: usize = 1 << 20;
/// Maximum number of phases of an operation: there are some for each attempt.
const SPANS_MAX: usize = 256;

/// A phase of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Throttle,
    Submit,
    Lane,
    Write,
    Flight,
    Wake,
}

impl Phase {
    pub(super) const ALL: [Self; 6] =
        [Self::Throttle, Self::Submit, Self::Lane, Self::Write, Self::Flight, Self::Wake];

    /// Returns the name in the file.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Throttle => "throttle",
            Self::Submit => "submit",
            Self::Lane => "lane",
            Self::Write => "write",
            Self::Flight => "flight",
            Self::Wake => "wake",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.name() == name)
    }
}

/// A finished operation. Times are in microseconds since the trace began.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TracedOp {
    pub(super) name: String,
    pub(super) from: f64,
    pub(super) until: f64,
    pub(super) spans: Vec<Span>,
}

/// A phase of an operation, with its times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    pub(super) phase: Phase,
    pub(super) from: f64,
    pub(super) until: f64,
}

impl TracedOp {
    /// Returns the time from its first queue to its reply.
    pub(super) fn flight(&self) -> Option<(f64, f64)> {
        let is_on_its_way = |span: &&Span| matches!(span.phase, Phase::Lane | Phase::Write | Phase::Flight);
        let mut flights = self.spans.iter().filter(is_on_its_way);
        let first = flights.next()?;
        Some((first.from, flights.next_back().map_or(first.until, |last| last.until)))
    }
}

/// A thread's wait for a lock.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LockWait {
    /// The lock's class.
    pub(super) class: String,
    pub(super) from: f64,
    pub(super) until: f64,
}

/// The content of a file.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Timelines {
    /// In the order of their creation.
    pub(super) ops: Vec<TracedOp>,
    /// In the order of their start.
    pub(super) lock_waits: Vec<LockWait>,
    /// Number of operations that the writer dropped.
    pub(super) dropped: u64,
    /// Number of operations and lock waits above [`OPS_MAX`].
    pub(super) unread: u64,
    /// Set if the end of the file is missing.
    pub(super) is_cut: bool,
}

impl Timelines {
    /// Returns the durations of this phase, sorted.
    pub(super) fn times_us(&self, phase: Phase) -> Vec<f64> {
        let spans = self.ops.iter().flat_map(|op| &op.spans).filter(|span| span.phase == phase);
        let mut times: Vec<f64> = spans.map(|span| span.until - span.from).collect();
        times.sort_by(f64::total_cmp);
        times
    }

    /// Returns the durations of lock waits by class, sorted.
    pub(super) fn lock_times_us(&self) -> BTreeMap<&str, Vec<f64>> {
        let mut classes: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for wait in &self.lock_waits {
            classes.entry(&wait.class).or_default().push(wait.until - wait.from);
        }
        classes.values_mut().for_each(|times| times.sort_by(f64::total_cmp));
        classes
    }
}

/// The reason why a file is not a trace.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("line {line}: {why}")]
    Line { line: usize, why: serde_json::Error },
    #[error("line {line} is longer than {LINE_MAX} bytes")]
    Long { line: usize },
    #[error("line {line}: no array of trace events begins here")]
    Start { line: usize },
    #[error("line {line}: a time that is no time")]
    Time { line: usize },
}

#[derive(Deserialize)]
struct Event {
    ph: String,
    #[serde(default)]
    id: u64,
    #[serde(default)]
    pid: u64,
    #[serde(default)]
    name: String,
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
    #[serde(default)]
    args: Args,
}

#[derive(Default, Deserialize)]
struct Args {
    #[serde(default)]
    dropped: u64,
}

/// Reads a trace. An incomplete file is read to its end; unfinished operations are left out.
pub(super) fn read(mut file: impl BufRead) -> Result<Timelines, ReadError> {
    let mut out = Timelines { is_cut: true, ..Timelines::default() };
    let mut open = HashMap::new();
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        let length = file.by_ref().take(LINE_MAX).read_until(b'\n', &mut bytes)? as u64;
        let is_whole = bytes.ends_with(b"\n");
        if length == LINE_MAX && !is_whole {
            return Err(ReadError::Long { line });
        }
        let text = bytes.trim_ascii();
        match text {
            b"[" if line == 1 => continue,
            _ if line == 1 => return Err(ReadError::Start { line }),
            b"]" => {
                out.is_cut = false;
                break;
            }
            b"" if length == 0 => break,
            b"" => continue,
            _ => {}
        }
        let event: Event = match serde_json::from_slice(text.strip_suffix(b",").unwrap_or(text)) {
            Ok(event) => event,
            // The last line of an incomplete file.
            Err(_) if !is_whole => break,
            Err(why) => return Err(ReadError::Line { line, why }),
        };
        let is_time = |us: f64| us.is_finite() && us >= 0.0;
        if !is_time(event.ts) || !is_time(event.dur) {
            return Err(ReadError::Time { line });
        }
        take(event, &mut open, &mut out);
    }
    out.ops.sort_by(|a, b| a.from.total_cmp(&b.from));
    out.lock_waits.sort_by(|a, b| a.from.total_cmp(&b.from));
    Ok(out)
}

/// Unfinished operations, by process and number.
type Open = HashMap<(u64, u64), TracedOp>;

fn take(event: Event, open: &mut Open, out: &mut Timelines) {
    let id = (event.pid, event.id);
    let at = event.ts;
    let count = open.len() + out.ops.len();
    if event.ph == "X" {
        let class = event.name.strip_prefix("lock ").map(str::to_owned);
        match class {
            Some(class) if out.lock_waits.len() < OPS_MAX => {
                out.lock_waits.push(LockWait { class, from: at, until: at + event.dur });
            }
            Some(_) => out.unread += 1,
            None => {}
        }
        return;
    }
    let phase = Phase::named(&event.name);
    match (event.ph.as_str(), phase, open.get_mut(&id)) {
        ("M", ..) => out.dropped = out.dropped.saturating_add(event.args.dropped),
        ("b", Some(phase), Some(op)) if op.spans.len() < SPANS_MAX => {
            op.spans.push(Span { phase, from: at, until: at });
        }
        ("e", Some(phase), Some(op)) => {
            if let Some(span) = op.spans.last_mut().filter(|span| span.phase == phase) {
                span.until = at.max(span.from);
            }
        }
        ("b", None, None) if count < OPS_MAX => {
            open.insert(id, TracedOp { name: event.name, from: at, until: at, spans: Vec::new() });
        }
        ("b", None, None) => out.unread += 1,
        ("e", None, Some(op)) if op.name == event.name => {
            if let Some(mut op) = open.remove(&id) {
                op.until = at.max(op.from);
                out.ops.push(op);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(ph: &str, id: u64, name: &str, ts: f64) -> String {
        format!(r#"{{"ph":"{ph}","cat":"op","id":{id},"name":"{name}","ts":{ts},"pid":1,"tid":0}},"#)
    }

    fn file() -> String {
        let mut lines = vec!["[".to_owned()];
        for (id, from) in [(2, 10.0), (1, 0.0)] {
            lines.push(event("b", id, "write o", from));
            for (name, a, b) in
                [("throttle", 0.0, 1.0), ("submit", 1.0, 2.0), ("lane", 2.0, 3.0), ("flight", 3.0, 8.0)]
            {
                lines.push(event("b", id, name, from + a));
                lines.push(event("e", id, name, from + b));
            }
            lines.push(event("e", id, "write o", from + 9.0));
        }
        lines.push(r#"{"ph":"M","name":"process_name","pid":1,"tid":0,"args":{"dropped":3}}"#.to_owned());
        lines.push("]\n".to_owned());
        lines.join("\n")
    }

    #[test]
    fn operations_are_read_in_order() {
        let read = read(file().as_bytes()).expect("a trace");
        assert_eq!((read.dropped, read.unread, read.is_cut), (3, 0, false));
        let times: Vec<_> = read.ops.iter().map(|op| (op.from, op.until, op.flight())).collect();
        assert_eq!(times, [(0.0, 9.0, Some((2.0, 8.0))), (10.0, 19.0, Some((12.0, 18.0)))]);
        assert_eq!((read.times_us(Phase::Lane), read.times_us(Phase::Flight)), (vec![1.0; 2], vec![5.0; 2]));
    }

    #[test]
    fn waits_for_locks_are_read_by_class() {
        let wait = |class: &str, ts: f64, dur: f64| {
            format!(
                r#"{{"ph":"X","cat":"lock","name":"lock {class}","ts":{ts},"dur":{dur},"pid":1,"tid":9}},"#
            )
        };
        let other = r#"{"ph":"X","cat":"op","name":"something","ts":1,"dur":1},"#.to_owned();
        let lines = [wait("b", 9.0, 3.0), wait("a", 2.0, 1.0), other, wait("b", 4.0, 2.0)];
        let read = read(format!("[\n{}\n", lines.join("\n")).as_bytes()).expect("a trace");
        assert_eq!(
            read.lock_times_us().into_iter().collect::<Vec<_>>(),
            [("a", vec![1.0]), ("b", vec![2.0, 3.0])]
        );
        assert_eq!(read.lock_waits.iter().map(|wait| wait.from).collect::<Vec<_>>(), [2.0, 4.0, 9.0]);
    }

    /// A file truncated at any place is read without an error, and each operation read is also in the
    /// whole file.
    #[test]
    fn a_file_that_is_cut_short_is_read_as_far_as_it_goes() {
        let (whole, text) = (read(file().as_bytes()).expect("a trace"), file());
        for end in 1..text.trim_end().len() - 1 {
            let cut = read(&text.as_bytes()[..end]).unwrap_or_else(|e| panic!("{end}: {e}"));
            assert!(cut.is_cut, "{end}");
            assert!(cut.ops.iter().all(|op| whole.ops.contains(op)), "{end}");
        }
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        for text in
            ["", "hello\n", "{}\n", "[\nhello\n", "[\n{\"ph\":1},\n", "[\n{\"ph\":\"b\",\"ts\":-1},\n"]
        {
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
        let long = format!("[\n{}", "x".repeat(LINE_MAX as usize + 1));
        assert!(matches!(read(long.as_bytes()), Err(ReadError::Long { line: 2 })));
    }

    /// Ends without beginnings, phases of no operation, repeated beginnings.
    #[test]
    fn events_without_sense_make_no_operations() {
        let lines = [
            event("e", 1, "write o", 1.0),
            event("b", 1, "flight", 1.0),
            event("b", 2, "write o", 5.0),
            event("b", 2, "write o", 6.0),
            event("e", 2, "flight", 7.0),
            event("e", 2, "another", 8.0),
        ];
        let read = read(format!("[\n{}\n]\n", lines.join("\n")).as_bytes()).expect("a trace");
        assert_eq!(read, Timelines::default());
    }
}
