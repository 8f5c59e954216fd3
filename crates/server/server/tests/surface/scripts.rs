//! Scripts whose lines must be the same on both sides.

use std::path::Path;
use std::sync::{PoisonError, RwLock};
use std::thread;

use crate::{run, server, stock};

/// Held exclusively by a script that changes state visible to other scripts.
static CLUSTER: RwLock<()> = RwLock::new(());

/// Runs a script on both sides at once and compares the output line by line.
fn compare(script: &str) {
    let _others = CLUSTER.read().unwrap_or_else(PoisonError::into_inner);
    compare_now(script);
}

/// Like `compare`, while no other script runs.
fn compare_alone(script: &str) {
    let _alone = CLUSTER.write().unwrap_or_else(PoisonError::into_inner);
    compare_now(script);
}

fn compare_now(script: &str) {
    let (server, stock) = (server(), stock());
    let (ours, theirs) = thread::scope(|scope| {
        let theirs = scope.spawn(|| lines(&stock, script));
        (lines(server.conf(), script), theirs.join().expect("the script runs on the stock cluster"))
    });
    let pairs = ours.iter().zip(&theirs).filter(|(ours, theirs)| ours != theirs);
    let differences: Vec<_> =
        pairs.map(|(ours, theirs)| format!("  ours  {ours}\n  stock {theirs}")).collect();
    assert!(differences.is_empty(), "{script}:\n{}", differences.join("\n"));
    assert_eq!(ours.len(), theirs.len(), "{script}: one side ended early");
}

fn lines(conf: &Path, script: &str) -> Vec<String> {
    let path = format!("{}/tests/surface/{script}", env!("CARGO_MANIFEST_DIR"));
    let (code, stdout, stderr) =
        run(conf, "/usr/bin/python3", &["-B", &path, conf.to_str().expect("a path in UTF-8")]);
    assert_eq!(code, Some(0), "{script} against {}: {stderr}", conf.display());
    stdout.lines().map(str::to_owned).collect()
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn every_method_of_python3_rados_does_the_same() {
    compare("api_rados.py");
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn every_method_of_python3_rbd_does_the_same() {
    compare("api_rbd.py");
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn users_may_do_what_their_capabilities_say() {
    compare("caps.py");
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn random_calls_of_classes_do_the_same() {
    compare("classes.py");
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn methods_of_classes_do_the_same_at_their_edges() {
    compare("edges.py");
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn profiles_of_erasure_codes_are_kept_and_refused_alike() {
    compare("coded.py");
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn daemons_and_the_monitor_answer_what_they_are_told() {
    compare("tell.py");
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn commands_to_the_monitor_do_the_same() {
    compare("commands.py");
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn the_crush_map_is_changed_and_scrubs_are_asked_for_alike() {
    compare_alone("crush.py");
}
