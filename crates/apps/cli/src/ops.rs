//! `loligo ops`: shows a running program's operations in flight and its slowest ones, as its admin
//! socket reports them.
//!
//! Clients are sent `objecter_requests`, and daemons `dump_ops_in_flight` and
//! `dump_historic_ops_by_duration`. The replies have the JSON of Ceph's programs
//! (`Objecter::dump_requests` of src/osdc/Objecter.cc; src/common/TrackedOp.cc), so stock programs can
//! be queried as well.

use std::path::{Path, PathBuf};

use loligo_rados::WaitsFor;
use serde_json::{Value, json};

use crate::admin::ask;
use crate::failure::{Context, Failure};
use crate::format::FormatName;
use crate::in_flight::words_for;
use crate::table;

/// The program to query.
#[derive(clap::Args)]
pub(crate) struct OpsOptions {
    /// The admin socket of a server or client.
    socket: PathBuf,
}

const OF_CLIENTS: &str = "objecter_requests";
/// The command of OSDs and metadata servers, and that of monitors.
const OF_SERVERS: [&str; 2] = ["dump_ops_in_flight", "ops"];
const OF_LATE: [&str; 2] = ["dump_historic_ops_by_duration", "dump_historic_ops"];

pub(crate) fn run(options: &OpsOptions, format: FormatName) -> Result<(), Failure> {
    let told = Told::by(&options.socket)?;
    match format {
        FormatName::Plain => say!("{}", told.table()),
        FormatName::Json => sayln!("{}", told.json()),
        _ => return Err(Failure::new("--format", "plain or JSON")),
    }
    Ok(())
}

/// A program's report of its operations.
enum Told {
    Client { in_flight: Vec<Value> },
    Server { in_flight: Vec<Value>, slowest: Vec<Value> },
}

impl Told {
    fn by(socket: &Path) -> Result<Self, Failure> {
        let known = answer(socket, "help")?;
        let ops = |command: &str| -> Result<Vec<Value>, Failure> {
            let mut answer = answer(socket, command)?;
            match answer["ops"].take() {
                Value::Array(ops) => Ok(ops),
                _ => Err(Failure::new(asking(socket, command), "the answer has no list of operations")),
            }
        };
        let first =
            |commands: [&'static str; 2]| commands.into_iter().find(|command| !known[command].is_null());
        // Daemons are also clients of each other. The operations that they serve are the ones to show.
        if let Some(in_flight) = first(OF_SERVERS) {
            let slowest = first(OF_LATE).map_or(Ok(Vec::new()), &ops)?;
            return Ok(Self::Server { in_flight: ops(in_flight)?, slowest });
        }
        if !known[OF_CLIENTS].is_null() {
            return Ok(Self::Client { in_flight: ops(OF_CLIENTS)? });
        }
        Err(Failure::new(
            format!("ask {}", socket.display()),
            "this program has no operations that it could tell of",
        ))
    }

    fn json(&self) -> Value {
        match self {
            Self::Client { in_flight } => json!({ "kind": "client", "in_flight": in_flight }),
            Self::Server { in_flight, slowest } => {
                json!({ "kind": "server", "in_flight": in_flight, "slowest": slowest })
            }
        }
    }

    /// Formats the report for people.
    fn table(&self) -> String {
        match self {
            Self::Client { in_flight } => {
                let head = ["TID", "AGE ms", "PG", "OSD", "SENT", "OBJECT", "OPERATIONS", "WAITS FOR"];
                section("in flight", in_flight, head, of_client)
            }
            Self::Server { in_flight, slowest } => {
                let head = ["CLIENT", "TID", "TAKES ms", "STATE", "REQUEST"];
                let waiting = section("in flight", in_flight, head, of_server);
                let mut slowest = slowest.clone();
                slowest.reverse();
                waiting + &section("slowest of late", &slowest, head, of_server)
            }
        }
    }
}

/// Sends a command that replies in JSON.
fn answer(socket: &Path, command: &str) -> Result<Value, Failure> {
    let what = || asking(socket, command);
    let text = ask(socket, &json!({ "prefix": command, "format": "json" }))?;
    match text.strip_prefix("ERROR: ") {
        Some(why) => Err(Failure::new(what(), why.trim_end())),
        None => serde_json::from_str(&text).context(what),
    }
}

fn asking(socket: &Path, command: &str) -> String {
    format!("ask {} for {command}", socket.display())
}

fn of_client(op: &Value) -> [String; 8] {
    let osd = op["osd"].as_i64().filter(|osd| *osd >= 0);
    let waits_for = match (op["waits_for"].as_str(), osd) {
        (Some(said), _) => said,
        // Stock clients report these fields only.
        (None, _) if op["paused"].as_u64().is_some_and(|paused| paused != 0) => words_for(WaitsFor::Unpause),
        (None, None) => words_for(WaitsFor::Osd),
        (None, Some(_)) => words_for(WaitsFor::Answer),
    };
    let operations = op["osd_ops"].as_array().into_iter().flatten();
    let operations = operations.map(text).collect::<Vec<_>>().join(", ");
    [
        text(&op["tid"]),
        milliseconds(&op["age"]),
        text(&op["pg"]),
        osd.map_or_else(|| "-".to_owned(), |osd| osd.to_string()),
        text(&op["attempts"]),
        text(&op["object_id"]),
        operations,
        waits_for.to_owned(),
    ]
}

fn of_server(op: &Value) -> [String; 5] {
    let data = &op["type_data"];
    let client = &data["client_info"];
    [
        text(&client["client"]),
        text(&client["tid"]),
        milliseconds(&op["duration"]),
        text(&data["flag_point"]),
        text(&op["description"]),
    ]
}

/// Control characters are escaped, so that an object's name cannot act on the terminal.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text
            .chars()
            .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
            .collect(),
        other => other.to_string(),
    }
}

fn milliseconds(seconds: &Value) -> String {
    // Some releases of stock programs write numbers as text.
    let parsed = seconds.as_f64().or_else(|| seconds.as_str()?.parse().ok());
    parsed.map_or_else(|| "-".to_owned(), |seconds| format!("{:.1}", seconds * 1e3))
}

/// Formats the number of operations and a line for each.
fn section<const N: usize>(
    title: &str,
    ops: &[Value],
    head: [&str; N],
    row: impl Fn(&Value) -> [String; N],
) -> String {
    let mut text = format!("{title}: {}\n", ops.len());
    if ops.is_empty() {
        return text;
    }
    let rows: Vec<[String; N]> =
        std::iter::once(head.map(str::to_owned)).chain(ops.iter().map(row)).collect();
    for line in table::lines([false; N], &rows) {
        text += &format!("  {}\n", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned_and_names_harmless() {
        let op = json!({
            "tid": 12, "pg": "1.a", "osd": 3, "object_id": "a\u{1b}[2Jb", "attempts": 2, "age": 1.5,
            "osd_ops": ["write 0~512", "setxattr"], "waits_for": "the answer",
        });
        let idle = json!({ "tid": 7, "pg": "1.b", "osd": -1, "object_id": "o", "attempts": 0, "age": "0.25", "paused": 0 });
        let table = Told::Client { in_flight: vec![op, idle] }.table();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[0], "in flight: 2");
        assert_eq!(lines[1].find("OBJECT"), lines[2].find("a\\u{1b}[2Jb"), "{table}");
        assert!(lines[2].contains("1500.0") && lines[2].contains("write 0~512, setxattr"), "{table}");
        assert!(
            lines[3].contains("250.0") && lines[3].ends_with("an OSD that serves its placement group"),
            "{table}"
        );
        let nothing = Told::Server { in_flight: Vec::new(), slowest: Vec::new() };
        assert_eq!(nothing.table(), "in flight: 0\nslowest of late: 0\n");
    }
}
