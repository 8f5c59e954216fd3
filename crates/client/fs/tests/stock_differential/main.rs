//! Goal: this client does to a file system what libcephfs does, call by call. Method: seeded random calls,
//! each through this client in one directory and through python3-cephfs in another one of the same cluster:
//! equal results and errnos at each step. In the end both trees are equal, also as the other client reads
//! them.
//!
//! `LOLIGO_DIFFERENTIAL_CALLS` says how many calls (1,000 otherwise), `LOLIGO_DIFFERENTIAL_SEED` which.

mod call;
#[path = "../support/cluster.rs"]
mod cluster;
mod known;
mod ours;
mod script;
mod theirs;
mod tree;

use std::collections::VecDeque;
use std::path::PathBuf;

use loligo_fs::{FileSystem, MountOptions};
use tokio::runtime::Runtime;

use call::{Call, Open};
use ours::Ours;
use script::Script;
use theirs::Theirs;

/// Calls of one script: a new pair of directories, and another seed, for each.
const CALLS_OF_A_SCRIPT: u64 = 2500;
/// The calls that are shown when an answer differs, unless `LOLIGO_DIFFERENTIAL_SHOWN` has another number.
const SHOWN: u64 = 40;

/// A client that carries out calls.
trait Client {
    /// Carries out a call: `ok VALUE…` or `err ERRNO`.
    fn call(&mut self, call: &Call) -> String;
}

fn variable(name: &str, otherwise: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

fn stock_dir() -> PathBuf {
    std::env::var_os("LOLIGO_STOCK_DIR").expect("LOLIGO_STOCK_DIR names a cluster").into()
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask torture --calls N"]
fn random_calls_have_equal_results() {
    let calls = variable("LOLIGO_DIFFERENTIAL_CALLS", 1000);
    let first = variable("LOLIGO_DIFFERENTIAL_SEED", 1);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    for script in 0..calls.div_ceil(CALLS_OF_A_SCRIPT) {
        let count = CALLS_OF_A_SCRIPT.min(calls - script * CALLS_OF_A_SCRIPT);
        run(&runtime, first + script, count);
    }
}

/// Runs one script in directories of its own.
fn run(runtime: &Runtime, seed: u64, count: u64) {
    let dir = format!("differential-{}-{seed}", std::process::id());
    let dirs = ["ours", "theirs"].map(|side| format!("{dir}/{side}"));
    make_dirs(runtime, &dirs);
    let mut ours = Ours::mount(runtime, &dirs[0]);
    let mut theirs = Theirs::mount(&stock_dir(), &dirs[1]);
    let mut script = Script::new(seed);
    let shown_max = variable("LOLIGO_DIFFERENTIAL_SHOWN", SHOWN);
    let (mut before, mut differences) = (VecDeque::new(), Vec::new());
    for step in 0..count {
        let call = comparable(script.next(), &mut ours);
        theirs.send(&call);
        let answers = [ours.call(&call), theirs.answer()];
        let shown = format!("{call:<60} {}", answers[0]);
        if !known::are_equal(&call, &answers) {
            let told = format!("call {step}: {call}\n  ours:   {}\n  theirs: {}", answers[0], answers[1]);
            differences.push(told);
            // If both failed, or have only looked, the trees are still alike, and the script goes on.
            let is_over = !answers.iter().all(|answer| answer.starts_with("err") || answer.starts_with("ok"));
            let is_same = call.only_looks() || answers.iter().all(|answer| answer.starts_with("err"));
            if is_over || !is_same {
                let before: Vec<String> = before.into();
                let differences = differences.join("\n");
                panic!("seed {seed}: the answers differ, after\n{}\n{differences}", before.join("\n"));
            }
        }
        script.answered(&call, &answers[0]);
        before.push_back(shown);
        if before.len() as u64 > shown_max {
            before.pop_front();
        }
    }
    assert!(differences.is_empty(), "seed {seed}: answers differ\n{}", differences.join("\n"));
    let refused = script.refused();
    assert!(refused * 2 < count, "seed {seed}: most calls fail, {refused} of {count}: they show little");
    compare_trees(runtime, seed, &dirs, &mut ours, &mut theirs);
    tree::clear(&mut ours);
    tree::clear(&mut theirs);
    ours.end();
    theirs.end();
}

/// An open that makes a file where a symbolic link leads is refused by libcephfs (ELOOP), and makes the file
/// as a system call: it is compared without making one.
fn comparable(call: Call, ours: &mut Ours<'_>) -> Call {
    match call {
        Call::Open { slot, path, how, mode } if how.create => {
            let is_link = ours.call(&Call::StatLink { path: path.clone() }).starts_with("ok 12");
            let how = if is_link { Open { create: false, exclusive: false, ..how } } else { how };
            Call::Open { slot, path, how, mode }
        }
        other => other,
    }
}

/// Both trees, as their own clients and as the other ones see them.
fn compare_trees(runtime: &Runtime, seed: u64, dirs: &[String; 2], ours: &mut Ours<'_>, theirs: &mut Theirs) {
    for slot in 0..script::SLOTS {
        // Most are not open.
        ours.call(&Call::Close { slot });
        theirs.call(&Call::Close { slot });
    }
    for client in [&mut *ours as &mut dyn Client, theirs] {
        assert_eq!(client.call(&Call::Sync), "ok", "seed {seed}");
    }
    let seen = tree::of(ours);
    tree::compare(seed, "ours is not theirs", &seen, &tree::of(theirs));
    let mut theirs_of_ours = Theirs::mount(&stock_dir(), &dirs[0]);
    tree::compare(seed, "libcephfs sees another tree of ours", &seen, &tree::of(&mut theirs_of_ours));
    theirs_of_ours.end();
    let mut ours_of_theirs = Ours::mount(runtime, &dirs[1]);
    tree::compare(seed, "this client sees another tree of theirs", &seen, &tree::of(&mut ours_of_theirs));
    ours_of_theirs.end();
}

fn make_dirs(runtime: &Runtime, dirs: &[String]) {
    runtime.block_on(async {
        let rados = cluster::rados().await;
        let fs = FileSystem::mount(&rados, MountOptions::new()).await.expect("mounted");
        for dir in dirs {
            fs.create_dir_all(dir, 0o777).await.expect("made");
        }
        fs.unmount().await.expect("unmounted");
        rados.shutdown().await;
    });
}
