//! Goal: the server's OSD answers every request as a stock one does, and our client sends requests as
//! librados does. Method: random scripts of requests are executed twice, each in a new pool with the
//! same number of placement groups; results, outputs, listings and the objects' versions must be equal
//! at each step:
//! - through librados, on a stock cluster (`LOLIGO_STOCK_CONF`) and on an embedded server, with
//!   self-managed and with pool snapshots;
//! - on a stock cluster, through librados and through our client;
//! - through our client, on both, with the operations that librados' C interface lacks.
//!
//! A script with a difference is shortened as long as the sides still differ. Seeds are fixed.
//! `LOLIGO_DIFFERENTIAL_STEPS` sets the length of the scripts, `LOLIGO_DIFFERENTIAL_SEED` the first
//! seed, and `LOLIGO_DIFFERENTIAL_SEEDS` the number of seeds from there on. `LOLIGO_DIFFERENTIAL_SCRIPT`
//! names a file of steps, as they are printed, to be executed with all results shown.

mod native;
mod rng;
mod script;
mod shrink;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use loligo_server::Server;
use serde_json::Value;

use rng::Rng;
use shrink::{Difference, shortest};

/// Twelve thousand in all with six seeds.
const STEPS: u64 = 2000;

/// Few, so that a group's history contains several objects.
const PG_NUM: u32 = 4;

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn requests_are_answered_as_by_a_stock_cluster() {
    let (stock, server) = (stock(), Server::memory().start().expect("the server starts"));
    let ours = |steps: &[Value]| through_librados(server.conf(), steps);
    let theirs = |steps: &[Value]| through_librados(&stock, steps);
    same(&[1, 2, 3], STEPS, script::step, ("on our server", &ours), ("on stock", &theirs));
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn requests_to_pools_with_snapshots_are_answered_as_by_a_stock_cluster() {
    let (stock, server) = (stock(), Server::memory().start().expect("the server starts"));
    let ours = |steps: &[Value]| through_librados(server.conf(), steps);
    let theirs = |steps: &[Value]| through_librados(&stock, steps);
    same(&[31], STEPS, script::pool_step, ("on our server", &ours), ("on stock", &theirs));
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn our_client_asks_as_librados_does() {
    let stock = stock();
    let ours = |steps: &[Value]| through_our_client(&stock, steps);
    // The order of a listing is up to the client.
    let theirs = |steps: &[Value]| {
        let results = through_librados(&stock, steps).into_iter();
        results.zip(steps).map(|(result, step)| if lists(step) { sorted(&result) } else { result }).collect()
    };
    same(&[11], STEPS, script::step, ("our client", &ours), ("librados", &theirs));
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn what_librados_cannot_ask_is_answered_as_by_a_stock_cluster() {
    let (stock, server) = (stock(), Server::memory().start().expect("the server starts"));
    let ours = |steps: &[Value]| through_our_client(server.conf(), steps);
    let theirs = |steps: &[Value]| through_our_client(&stock, steps);
    same(&[21], STEPS, script::native_step, ("on our server", &ours), ("on stock", &theirs));
}

/// The name of a side in reports, and the function that executes a script on it and returns the results.
type Side<'a> = (&'a str, &'a (dyn Fn(&[Value]) -> Vec<String> + Sync));

/// Panics with the shortest script found on which the sides differ.
fn same(seeds: &[u64], count: u64, step: fn(&mut Rng, u64) -> Value, one: Side<'_>, other: Side<'_>) {
    let run = |steps: &[Value]| {
        let (of_one, of_other) = thread::scope(|scope| {
            let of_other = scope.spawn(|| other.1(steps));
            (one.1(steps), of_other.join().expect("the script runs to its end"))
        });
        Difference::first(steps, of_one, of_other)
    };
    if let Some(file) = std::env::var_os("LOLIGO_DIFFERENTIAL_SCRIPT") {
        return show(&PathBuf::from(file), one, other);
    }
    let seeds = match number_from("LOLIGO_DIFFERENTIAL_SEED") {
        Some(seed) => (seed..seed + number_from("LOLIGO_DIFFERENTIAL_SEEDS").unwrap_or(1)).collect(),
        None => seeds.to_vec(),
    };
    for seed in seeds {
        let mut rng = Rng::new(seed);
        let count = number_from("LOLIGO_DIFFERENTIAL_STEPS").unwrap_or(count);
        let steps: Vec<Value> = (0..count).map(|number| step(&mut rng, number)).collect();
        eprintln!("seed {seed}, {count} steps");
        if let Some(found) = run(&steps) {
            let said = |found: &Difference| {
                let at = found.at;
                format!("seed {seed}, step {at}: {} {}, {} {}", one.0, found.one, other.0, found.other)
            };
            let first = format!("{}, at {}", said(&found), steps[found.at]);
            eprintln!("{first}");
            let comes_again = run(&steps[..=found.at]).is_some();
            let (script, shorter) = shortest(&steps[..=found.at], found, run);
            let lines: Vec<String> = script.iter().map(Value::to_string).collect();
            let often = if comes_again { "" } else { ", but not when the same was repeated" };
            // The difference comes last: the end of a long output is what tools keep.
            panic!("after:\n{}\n{}\nfound at first{often}: {first}", lines.join("\n"), said(&shorter));
        }
    }
}

/// Executes the steps of a file and shows the result of each.
fn show(file: &Path, one: Side<'_>, other: Side<'_>) {
    let text = std::fs::read_to_string(file).expect("LOLIGO_DIFFERENTIAL_SCRIPT names a file");
    let steps: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("a step")).collect();
    let results = one.1(&steps).into_iter().zip(other.1(&steps));
    let mut same = true;
    for (step, (of_one, of_other)) in steps.iter().zip(results) {
        println!("{step}\n  {}: {of_one}\n  {}: {of_other}", one.0, other.0);
        same &= of_one == of_other;
    }
    assert!(same, "they differ");
}

fn stock() -> PathBuf {
    std::env::var_os("LOLIGO_STOCK_CONF")
        .expect("LOLIGO_STOCK_CONF names a stock cluster's configuration")
        .into()
}

fn number_from(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {value:?}")))
}

/// A pool name that is unique to this run.
fn pool() -> String {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    format!("differential-{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed))
}

fn lists(step: &Value) -> bool {
    step["ops"][0][0] == "list"
}

/// Sorts the entries of a listing's result.
fn sorted(result: &str) -> String {
    let mut result: Value = serde_json::from_str(result).expect("a result in JSON");
    if let Some(found) = result[2].as_array_mut() {
        found.sort_by_key(Value::to_string);
    }
    result.to_string()
}

/// The number of attempts at a script whose executions are disturbed.
const TRIES_MAX: usize = 4;

/// Under load, librados and our client repeat a request that the monitor has not answered. If the
/// request creates a snapshot, an id is allocated and lost, and all following results differ. Such an
/// execution is repeated.
fn undisturbed(execute: impl Fn() -> Option<Vec<String>>) -> Vec<String> {
    let found = (0..TRIES_MAX).find_map(|_| execute());
    found
        .unwrap_or_else(|| panic!("each of {TRIES_MAX} times a monitor had to be asked twice for a snapshot"))
}

/// Returns the result of each step of a script, executed through our client.
fn through_our_client(conf: &Path, steps: &[Value]) -> Vec<String> {
    undisturbed(|| native::execute(conf, &pool(), PG_NUM, steps))
}

/// Returns the result of each step of a script, executed through librados.
fn through_librados(conf: &Path, steps: &[Value]) -> Vec<String> {
    undisturbed(|| try_librados(conf, steps))
}

/// The exit code of `execute.py` if librados sent a request for a snapshot twice.
const DISTURBED: i32 = 75;

fn try_librados(conf: &Path, steps: &[Value]) -> Option<Vec<String>> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/differential/execute.py");
    let mut child = Command::new("/usr/bin/python3")
        .arg(script)
        .arg(conf)
        .args([&pool(), &PG_NUM.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python starts");
    let mut input = child.stdin.take().expect("a pipe to Python");
    let output = BufReader::new(child.stdout.take().expect("a pipe from Python"));
    let results: Vec<String> = thread::scope(|scope| {
        scope.spawn(move || {
            // If Python ends early, the number of results shows it.
            steps.iter().try_for_each(|step| writeln!(input, "{step}")).ok();
        });
        // Formatted as our own JSON.
        let line = |line: std::io::Result<String>| -> Value {
            serde_json::from_str(&line.expect("a line of UTF-8")).expect("a result in JSON")
        };
        output.lines().map(|result| line(result).to_string()).collect()
    });
    let status = child.wait().expect("Python ends");
    if status.code() == Some(DISTURBED) {
        return None;
    }
    let last = steps.get(results.len());
    assert!(
        status.success(),
        "the script failed against {} at step {}: {last:?}",
        conf.display(),
        results.len()
    );
    Some(results)
}
