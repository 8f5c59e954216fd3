//! The file: a JSON array of trace events, one on a line.

use std::io::{self, BufWriter, Write};
use std::time::Instant;

use serde_json::{Map, Value, json};

use super::{Ended, Record};

/// Writes records until there are no more; returns how many.
pub(super) fn run(
    records: &mut dyn Iterator<Item = Box<Record>>,
    out: impl Write,
    began: Instant,
    dropped: impl Fn() -> u64,
) -> io::Result<u64> {
    let mut file = File { out: BufWriter::new(out), began, pid: std::process::id() };
    file.out.write_all(b"[\n")?;
    let mut written = 0;
    for record in records {
        file.record(&record)?;
        written += 1;
    }
    file.end(written, dropped())?;
    file.out.flush()?;
    Ok(written)
}

struct File<W: Write> {
    out: BufWriter<W>,
    began: Instant,
    pid: u32,
}

impl<W: Write> File<W> {
    /// An operation, and within it its phases, each of which ends where the next one begins.
    fn record(&mut self, record: &Record) -> io::Result<()> {
        let id = record.tid.0;
        let name = name(record);
        self.event(id, "b", &name, record.new, Some(about(record)))?;
        for (name, from, until, args) in phases(record) {
            self.event(id, "b", name, from, args)?;
            self.event(id, "e", name, until, None)?;
        }
        self.event(id, "e", &name, record.done, Some(ending(record)))
    }

    fn event(
        &mut self,
        id: u64,
        ph: &str,
        name: &str,
        at: Instant,
        args: Option<Map<String, Value>>,
    ) -> io::Result<()> {
        let us = at.saturating_duration_since(self.began).as_nanos() as f64 / 1e3;
        let mut event =
            json!({ "ph": ph, "cat": "op", "id": id, "name": name, "ts": us, "pid": self.pid, "tid": 0 });
        if let Some(args) = args {
            event["args"] = Value::Object(args);
        }
        writeln!(self.out, "{event},")
    }

    /// The last event has no comma after it: then the array is whole.
    fn end(&mut self, written: u64, dropped: u64) -> io::Result<()> {
        let args = json!({ "name": "loligo", "ops": written, "dropped": dropped });
        let event = json!({ "ph": "M", "name": "process_name", "pid": self.pid, "tid": 0, "args": args });
        writeln!(self.out, "{event}\n]")
    }
}

type Phase = (&'static str, Instant, Instant, Option<Map<String, Value>>);

/// Only what the operation reached.
fn phases(record: &Record) -> Vec<Phase> {
    let moments = &record.moments;
    let until = |next: Option<Instant>| next.unwrap_or(record.done);
    let mut phases = vec![("throttle", record.new, until(moments.place), None)];
    let Some(place) = moments.place else { return phases };
    let queued = moments.attempts.first().map(|attempt| attempt.queued);
    phases.push(("submit", place, until(queued), None));
    for (index, attempt) in moments.attempts.iter().enumerate() {
        let again = moments.attempts.get(index + 1).map(|next| next.queued);
        let mut args = Map::new();
        args.insert("attempt".to_owned(), json!(index));
        args.insert("pg".to_owned(), json!(attempt.pg.to_string()));
        if let Some(osd) = attempt.osd {
            args.insert("osd".to_owned(), json!(osd.0));
        }
        phases.push(("flight", attempt.queued, until(again.or(moments.acked)), Some(args)));
    }
    if let Some(acked) = moments.acked {
        phases.push(("wake", acked, record.done, None));
    }
    phases
}

/// What it does to which object: `write+setxattr name`.
fn name(record: &Record) -> String {
    let codes: Vec<String> = record.codes.iter().map(ToString::to_string).collect();
    format!("{} {}", codes.join("+"), String::from_utf8_lossy(&record.object))
}

fn about(record: &Record) -> Map<String, Value> {
    let mut args = Map::new();
    args.insert("object".to_owned(), json!(String::from_utf8_lossy(&record.object)));
    args.insert("pool".to_owned(), json!(record.pool.0));
    if !record.namespace.is_empty() {
        args.insert("namespace".to_owned(), json!(String::from_utf8_lossy(&record.namespace)));
    }
    args.insert("bytes_sent".to_owned(), json!(record.sent));
    args.insert("bytes_received".to_owned(), json!(record.received));
    if record.moments.attempts_untold > 0 {
        args.insert("attempts_untold".to_owned(), json!(record.moments.attempts_untold));
    }
    args
}

fn ending(record: &Record) -> Map<String, Value> {
    let (key, value) = match &record.ended {
        Ended::Answered(result) => ("result", json!(result)),
        Ended::Failed(why) => ("failed", json!(why)),
        Ended::Dropped => ("failed", json!("nobody waits any longer")),
    };
    Map::from_iter([(key.to_owned(), value)])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use loligo_wire::message::osd::OpCode;
    use loligo_wire::{OsdId, PgId, PoolId, Tid};
    use smallvec::smallvec;

    use super::super::{Attempt, Moments};
    use super::*;

    fn record(began: Instant, attempts: &[u64], acked: Option<u64>) -> Record {
        let at = |us| began + Duration::from_micros(us);
        let pg = PgId { pool: PoolId(3), seed: 10 };
        let attempts =
            attempts.iter().map(|us| Attempt { queued: at(*us), pg, osd: Some(OsdId(1)) }).collect();
        Record {
            tid: Tid(7),
            pool: PoolId(3),
            namespace: Vec::new(),
            object: b"a \"name\"\n".to_vec(),
            codes: smallvec![OpCode::WRITE, OpCode::TRUNCATE],
            sent: 4096,
            received: 0,
            new: at(1),
            moments: Moments { place: Some(at(2)), attempts, attempts_untold: 0, acked: acked.map(at) },
            done: at(100),
            ended: Ended::Answered(0),
        }
    }

    fn written(records: Vec<Record>, began: Instant) -> Vec<Value> {
        let mut out = Vec::new();
        run(&mut records.into_iter().map(Box::new), &mut out, began, || 5).expect("memory");
        serde_json::from_slice(&out).expect("an array")
    }

    fn names(events: &[Value]) -> Vec<(&str, &str, f64)> {
        events
            .iter()
            .filter(|event| event["ph"] != "M")
            .map(|e| {
                (
                    e["ph"].as_str().expect("ph"),
                    e["name"].as_str().expect("name"),
                    e["ts"].as_f64().expect("ts"),
                )
            })
            .collect()
    }

    #[test]
    fn each_phase_ends_where_the_next_begins() {
        let began = Instant::now();
        let events = written(vec![record(began, &[3, 50], Some(90))], began);
        let op = "write+truncate a \"name\"\n";
        assert_eq!(
            names(&events),
            [
                ("b", op, 1.0),
                ("b", "throttle", 1.0),
                ("e", "throttle", 2.0),
                ("b", "submit", 2.0),
                ("e", "submit", 3.0),
                ("b", "flight", 3.0),
                ("e", "flight", 50.0),
                ("b", "flight", 50.0),
                ("e", "flight", 90.0),
                ("b", "wake", 90.0),
                ("e", "wake", 100.0),
                ("e", op, 100.0),
            ]
        );
        assert_eq!(events[7]["args"]["attempt"], 1);
        assert_eq!(events[7]["args"]["pg"], "3.a");
        assert_eq!(events.last().expect("the end")["args"]["dropped"], 5);
    }

    #[test]
    fn an_operation_that_was_never_answered_has_no_wake() {
        let began = Instant::now();
        let events = written(vec![record(began, &[3], None), record(began, &[], None)], began);
        assert!(names(&events).iter().all(|(_, name, _)| *name != "wake"));
        let flights: Vec<_> = names(&events).into_iter().filter(|(_, name, _)| *name == "flight").collect();
        assert_eq!(flights, [("b", "flight", 3.0), ("e", "flight", 100.0)]);
    }
}
