//! Goal: the server's OSD answers every request as a stock one does.
//! Method: one random script of requests goes through stock librados to a stock cluster (`LOLIGO_STOCK_CONF`) and to an
//! embedded server, each into a new pool of as many placement groups; results, outputs, listings and the objects' versions
//! must be equal, step for step. Seeds are fixed. `LOLIGO_DIFFERENTIAL_STEPS` makes the scripts longer.

mod rng;
mod script;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use loligo_server::Server;
use serde_json::Value;

use rng::Rng;

const SEEDS: [u64; 3] = [1, 2, 3];
const STEPS_DEFAULT: u64 = 1500;

/// Few, so that the history of a group is that of several objects.
const PG_NUM: u32 = 4;

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn requests_are_answered_as_by_a_stock_cluster() {
    let stock =
        std::env::var("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a stock cluster's configuration");
    let server = Server::memory().start().expect("the server starts");
    for seed in seeds() {
        let mut rng = Rng::new(seed);
        let steps: Vec<Value> = (0..steps_per_seed()).map(|number| script::step(&mut rng, number)).collect();
        let pool = format!("differential-{}-{seed}", std::process::id());
        let ours = thread::scope(|scope| {
            let theirs = scope.spawn(|| execute(Path::new(&stock), &pool, &steps));
            let ours = execute(server.conf(), &pool, &steps);
            (ours, theirs.join().expect("the script runs against the stock cluster"))
        });
        compare(seed, &steps, &ours.0, &ours.1);
    }
}

fn seeds() -> Vec<u64> {
    match std::env::var("LOLIGO_DIFFERENTIAL_SEED") {
        Ok(seed) => vec![seed.parse().expect("LOLIGO_DIFFERENTIAL_SEED is a number")],
        Err(_) => SEEDS.to_vec(),
    }
}

fn steps_per_seed() -> u64 {
    match std::env::var("LOLIGO_DIFFERENTIAL_STEPS") {
        Ok(steps) => steps.parse().expect("LOLIGO_DIFFERENTIAL_STEPS is a number"),
        Err(_) => STEPS_DEFAULT,
    }
}

/// What each step of a script gave.
fn execute(conf: &Path, pool: &str, steps: &[Value]) -> Vec<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/differential/execute.py");
    let mut child = Command::new("/usr/bin/python3")
        .arg(script)
        .arg(conf)
        .args([pool, &PG_NUM.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python starts");
    let mut input = child.stdin.take().expect("a pipe to Python");
    let output = BufReader::new(child.stdout.take().expect("a pipe from Python"));
    let results = thread::scope(|scope| {
        scope.spawn(move || {
            // Python gone early shows in the number of results.
            steps.iter().try_for_each(|step| writeln!(input, "{step}")).ok();
        });
        output.lines().map(|line| line.expect("a line of UTF-8")).collect()
    });
    assert!(child.wait().expect("Python ends").success(), "the script failed against {}", conf.display());
    results
}

/// Panics at the first difference, with the shortest prefix of the script that shows it.
fn compare(seed: u64, steps: &[Value], ours: &[String], stock: &[String]) {
    let results = ours.iter().zip(stock).enumerate();
    for (at, (ours, stock)) in results {
        if ours != stock {
            panic!("{}", difference(seed, &steps[..=at], ours, stock));
        }
    }
    assert_eq!((ours.len(), stock.len()), (steps.len(), steps.len()), "seed {seed}: a script ended early");
}

fn difference(seed: u64, prefix: &[Value], ours: &str, stock: &str) -> String {
    let last = prefix.last().expect("a step that differs");
    let same_object = |step: &&Value| ["oid", "ns", "key"].iter().all(|field| step[field] == last[field]);
    let lines: Vec<String> = prefix.iter().filter(same_object).map(Value::to_string).collect();
    let shown = &lines[lines.len().saturating_sub(12)..];
    format!(
        "seed {seed}, step {}: ours {ours}, stock {stock}; the object's last requests:\n{}\n\
         replay: LOLIGO_DIFFERENTIAL_SEED={seed} LOLIGO_DIFFERENTIAL_STEPS={}",
        prefix.len() - 1,
        shown.join("\n"),
        prefix.len()
    )
}
