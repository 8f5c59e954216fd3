//! The trace file: a JSON array of trace events, one per line.

use std::collections::HashSet;
use std::io::{self, BufWriter, Write};
use std::panic::Location;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::{Attempt, Ended, LockWait, Record, Told};

/// Writes records until there are no more; returns the number of operations.
pub(super) fn run(
    told: &mut dyn Iterator<Item = Told>,
    out: impl Write,
    began: Instant,
    dropped: impl Fn() -> u64,
) -> io::Result<u64> {
    let (out, pid, named) = (BufWriter::new(out), std::process::id(), HashSet::new());
    let mut file = File { out, began, pid, named };
    file.out.write_all(b"[\n")?;
    let mut written = 0;
    for told in told {
        match told {
            Told::Op(record) => {
                file.record(&record)?;
                written += 1;
            }
            Told::Lock(wait) => file.lock_wait(&wait)?,
            Told::End => break,
        }
    }
    file.end(written, dropped())?;
    file.out.flush()?;
    Ok(written)
}

struct File<W: Write> {
    out: BufWriter<W>,
    began: Instant,
    pid: u32,
    /// Threads whose names are in the file: at most as many as the process ever had.
    named: HashSet<i32>,
}

impl<W: Write> File<W> {
    /// Writes an operation with its phases. Each phase ends where the next one begins.
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
        let us = self.us(at);
        let mut event =
            json!({ "ph": ph, "cat": "op", "id": id, "name": name, "ts": us, "pid": self.pid, "tid": 0 });
        if let Some(args) = args {
            event["args"] = Value::Object(args);
        }
        writeln!(self.out, "{event},")
    }

    /// Writes a lock wait, on the line of the thread that waited.
    fn lock_wait(&mut self, LockWait { wait, thread, name }: &LockWait) -> io::Result<()> {
        let (pid, tid) = (self.pid, *thread);
        if let Some(name) = name.as_ref().filter(|_| self.named.insert(tid)) {
            let event =
                json!({ "ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": { "name": name } });
            writeln!(self.out, "{event},")?;
        }
        let place = |place: &Location<'_>| format!("{}:{}", place.file(), place.line());
        let mut args =
            json!({ "waiter": place(wait.waiter), "kind": format!("{:?}", wait.kind).to_lowercase() });
        if let Some(holder) = wait.holder {
            args["holder"] = place(holder).into();
        }
        let (name, us, took_us) = (format!("lock {}", wait.class), self.us(wait.began), us(wait.took));
        let event = json!({
            "ph": "X", "cat": "lock", "name": name, "ts": us, "dur": took_us, "pid": pid, "tid": tid, "args": args
        });
        writeln!(self.out, "{event},")
    }

    fn us(&self, at: Instant) -> f64 {
        us(at.saturating_duration_since(self.began))
    }

    /// Writes the last event, without a comma after it, and closes the array.
    fn end(&mut self, written: u64, dropped: u64) -> io::Result<()> {
        let args = json!({ "name": "loligo", "ops": written, "dropped": dropped });
        let event = json!({ "ph": "M", "name": "process_name", "pid": self.pid, "tid": 0, "args": args });
        writeln!(self.out, "{event}\n]")
    }
}

fn us(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

type Phase = (&'static str, Instant, Instant, Option<Map<String, Value>>);

/// Returns the phases that the operation reached.
fn phases(record: &Record) -> Vec<Phase> {
    let moments = &record.moments;
    let until = |next: Option<Instant>| next.unwrap_or(record.done);
    let mut phases = vec![("throttle", record.new, until(moments.place), None)];
    let Some(place) = moments.place else { return phases };
    let queued = moments.attempts.first().map(|attempt| attempt.queued);
    let waited = json!({ "lock_wait_us": us(moments.lock_wait) });
    phases.push(("submit", place, until(queued), waited.as_object().cloned()));
    for (index, attempt) in moments.attempts.iter().enumerate() {
        let again = moments.attempts.get(index + 1).map(|next| next.queued);
        phases.extend(of_attempt(index, attempt, until(again.or(moments.acked))));
    }
    if let Some(acked) = moments.acked {
        phases.push(("wake", acked, record.done, None));
    }
    phases
}

/// Returns the phases that an attempt reached until it ended with a reply or a resend.
fn of_attempt(index: usize, attempt: &Attempt, ended: Instant) -> impl Iterator<Item = Phase> {
    let mut args = Map::new();
    args.insert("attempt".to_owned(), json!(index));
    args.insert("pg".to_owned(), json!(attempt.pg.to_string()));
    if let Some(osd) = attempt.osd {
        args.insert("osd".to_owned(), json!(osd.0));
    }
    // The writer may record its moments after the reply has arrived.
    let (queued, left, sent) =
        (attempt.queued, attempt.left.map(|at| at.min(ended)), attempt.sent.map(|at| at.min(ended)));
    let lane = ("lane", queued, left.unwrap_or(ended), Some(args.clone()));
    let write = left.map(|left| ("write", left, sent.unwrap_or(ended), Some(args.clone())));
    let flight = sent.map(|sent| ("flight", sent, ended, Some(args)));
    [Some(lane), write, flight].into_iter().flatten()
}

/// Returns the operations and the object: `write+setxattr name`.
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
    use loligo_wire::message::osd::OpCode;
    use loligo_wire::{OsdId, PgId, PoolId, Tid};
    use smallvec::smallvec;

    use super::super::{Attempt, Moments};
    use super::*;

    fn record(began: Instant, attempts: &[u64], acked: Option<u64>) -> Record {
        let at = |us| began + Duration::from_micros(us);
        let pg = PgId { pool: PoolId(3), seed: 10 };
        let attempt = |us: &u64| {
            let (queued, left, sent) = (at(*us), Some(at(us + 1)), Some(at(us + 4)));
            Attempt { queued, left, sent, pg, osd: Some(OsdId(1)) }
        };
        let attempts = attempts.iter().map(attempt).collect();
        Record {
            tid: Tid(7),
            pool: PoolId(3),
            namespace: Vec::new(),
            object: b"a \"name\"\n".to_vec(),
            codes: smallvec![OpCode::WRITE, OpCode::TRUNCATE],
            sent: 4096,
            received: 0,
            new: at(1),
            moments: Moments { place: Some(at(2)), attempts, acked: acked.map(at), ..Moments::default() },
            done: at(100),
            ended: Ended::Answered(0),
        }
    }

    fn written(records: Vec<Record>, began: Instant) -> Vec<Value> {
        told(records.into_iter().map(|record| Told::Op(Box::new(record))).collect(), began)
    }

    fn told(told: Vec<Told>, began: Instant) -> Vec<Value> {
        let mut out = Vec::new();
        run(&mut told.into_iter(), &mut out, began, || 5).expect("memory");
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
                ("b", "lane", 3.0),
                ("e", "lane", 4.0),
                ("b", "write", 4.0),
                ("e", "write", 7.0),
                ("b", "flight", 7.0),
                ("e", "flight", 50.0),
                ("b", "lane", 50.0),
                ("e", "lane", 51.0),
                ("b", "write", 51.0),
                ("e", "write", 54.0),
                ("b", "flight", 54.0),
                ("e", "flight", 90.0),
                ("b", "wake", 90.0),
                ("e", "wake", 100.0),
                ("e", op, 100.0),
            ]
        );
        assert_eq!(events[11]["args"]["attempt"], 1);
        assert_eq!(events[11]["args"]["pg"], "3.a");
        assert_eq!(events.last().expect("the end")["args"]["dropped"], 5);
    }

    #[test]
    fn an_operation_that_was_never_answered_has_no_wake() {
        let began = Instant::now();
        let events = written(vec![record(began, &[3], None), record(began, &[], None)], began);
        assert!(names(&events).iter().all(|(_, name, _)| *name != "wake"));
        let flights: Vec<_> = names(&events).into_iter().filter(|(_, name, _)| *name == "flight").collect();
        assert_eq!(flights, [("b", "flight", 7.0), ("e", "flight", 100.0)]);
    }

    #[test]
    fn what_did_not_leave_was_not_in_flight_and_nothing_ends_behind_the_answer() {
        let began = Instant::now();
        let phases_of = |left: Option<u64>, sent: Option<u64>| {
            let mut record = record(began, &[3], Some(10));
            let at = |us| began + Duration::from_micros(us);
            (record.moments.attempts[0].left, record.moments.attempts[0].sent) = (left.map(at), sent.map(at));
            phases(&record)
                .iter()
                .map(|(name, from, until, _)| (*name, us(*until - *from)))
                .collect::<Vec<_>>()
        };
        let rest = [("throttle", 1.0), ("submit", 1.0)];
        assert_eq!(phases_of(None, None)[..3], [rest[0], rest[1], ("lane", 7.0)]);
        assert_eq!(phases_of(Some(4), None)[2..4], [("lane", 1.0), ("write", 6.0)]);
        let late = [("lane", 1.0), ("write", 6.0), ("flight", 0.0), ("wake", 90.0)];
        assert_eq!(phases_of(Some(4), Some(12))[2..], late);
    }

    #[test]
    fn waits_for_locks_stand_on_the_lines_of_their_threads() {
        let began = Instant::now();
        let wait = loligo_lockstat::Wait {
            class: "a.lock",
            kind: loligo_lockstat::Kind::Write,
            waiter: Location::caller(),
            holder: None,
            began: began + Duration::from_micros(5),
            took: Duration::from_micros(2),
        };
        let wait = || Told::Lock(Box::new(LockWait { wait, thread: 77, name: Some("worker".to_owned()) }));
        let events = told(vec![wait(), wait()], began);
        let kinds: Vec<_> = events.iter().map(|event| event["ph"].as_str().expect("ph")).collect();
        assert_eq!(kinds, ["M", "X", "X", "M"], "a thread is named once");
        let event = &events[1];
        assert_eq!((&event["name"], &event["tid"]), (&json!("lock a.lock"), &json!(77)));
        assert_eq!((&event["ts"], &event["dur"]), (&json!(5.0), &json!(2.0)));
        assert!(event["args"]["waiter"].as_str().is_some_and(|place| place.contains("write.rs:")));
    }
}
