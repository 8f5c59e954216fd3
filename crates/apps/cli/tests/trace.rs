//! Goal: a file of `--trace` has each event of every operation, in order, and `loligo trace` reads it.
//! Method: commands on a server of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

use loligo_server::{Handle, Server};
use serde_json::Value;

const OPS: usize = 24;

struct Place {
    server: Handle,
    dir: PathBuf,
}

impl Place {
    fn new(name: &str) -> Self {
        let dir = env::temp_dir().join(format!("loligo-trace-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("room");
        Self { server: Server::memory().pool("p").start().expect("the server starts"), dir }
    }

    fn run(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_loligo"))
            .env("CEPH_CONF", self.server.conf())
            .env_remove("CEPH_ARGS")
            .current_dir(&self.dir)
            .args(args)
            .output()
            .expect("it starts")
    }

    /// Runs a command, which must succeed, and returns its output.
    fn text(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Returns the names and times of each operation's events, in the file's order.
fn events(file: &Path) -> BTreeMap<u64, Vec<(String, f64)>> {
    let text = fs::read(file).expect("it was written");
    let all: Vec<Value> = serde_json::from_slice(&text).expect("a whole array");
    let mut ops: BTreeMap<u64, Vec<(String, f64)>> = BTreeMap::new();
    for event in all.iter().filter(|event| event["cat"] == "op") {
        let text = |key: &str| event[key].as_str().expect("a text").to_owned();
        let name = text("name");
        let name = if name.contains(' ') { "op".to_owned() } else { name };
        let at = event["ts"].as_f64().expect("a time");
        let id = event["id"].as_u64().expect("a number");
        ops.entry(id).or_default().push((format!("{} {name}", text("ph")), at));
    }
    ops
}

#[test]
fn each_operation_has_each_event_in_order() {
    let place = Place::new("events");
    let names: Vec<String> = (0..OPS).map(|index| format!("object-{index}")).collect();
    for name in &names {
        place.text(&["-p", "p", "create", name]);
    }
    let mut rm = vec!["-p", "p", "--trace", "t.json", "rm"];
    rm.extend(names.iter().map(String::as_str));
    place.text(&rm);

    let ops = events(&place.dir.join("t.json"));
    assert_eq!(ops.len(), OPS);
    let expected = [
        "b op",
        "b throttle",
        "e throttle",
        "b submit",
        "e submit",
        "b lane",
        "e lane",
        "b write",
        "e write",
        "b flight",
        "e flight",
        "b wake",
        "e wake",
        "e op",
    ];
    for (id, events) in &ops {
        let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, expected, "operation {id}");
        assert!(events.windows(2).all(|pair| pair[0].1 <= pair[1].1), "operation {id}: {events:?}");
    }

    let told: Value =
        serde_json::from_str(&place.text(&["trace", "t.json", "--format", "json"])).expect("JSON");
    assert_eq!((&told["ops"], &told["cut_short"]), (&Value::from(OPS), &Value::from(false)));
    assert!(place.text(&["trace", "t.json"]).starts_with(&format!("{OPS} operations, ")));
    let picture = place.text(&["trace", "t.json", "--svg"]);
    assert_eq!(picture.matches("<g>").count(), OPS);
    place.text(&["trace", "t.json", "--svg", "t.svg"]);
    assert_eq!(fs::read_to_string(place.dir.join("t.svg")).expect("it was drawn"), picture);
}

#[test]
fn a_command_that_fails_leaves_its_timelines() {
    let place = Place::new("fails");
    let output = place.run(&["-p", "p", "--trace", "t.json", "stat", "nothing"]);
    assert!(!output.status.success());
    assert_eq!(events(&place.dir.join("t.json")).len(), 1);
    assert!(place.text(&["trace", "t.json"]).starts_with("1 operation, "));
}

#[test]
fn what_has_no_operations_refuses_to_be_traced() {
    let place = Place::new("refuses");
    let output = place.run(&["--trace", "t.json", "completions", "bash"]);
    assert!(!output.status.success() && !place.dir.join("t.json").exists());
}

#[test]
fn a_cut_file_is_read_and_a_foreign_one_refused() {
    let place = Place::new("damaged");
    place.text(&["-p", "p", "--trace", "t.json", "create", "o"]);
    let text = fs::read(place.dir.join("t.json")).expect("it was written");
    fs::write(place.dir.join("cut.json"), &text[..text.len() - 40]).expect("room");
    assert!(place.text(&["trace", "cut.json"]).contains("the file is cut short"));
    fs::write(place.dir.join("foreign.json"), b"hello\n").expect("room");
    assert!(!place.run(&["trace", "foreign.json"]).status.success());
}
