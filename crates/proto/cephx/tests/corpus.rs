//! Replays the fuzzers' corpus, as it is and damaged: parsing a ticket, a capability or a keyring never
//! panics.

#[path = "../../../../fuzz/mutations.rs"]
mod mutations;

use std::fs;
use std::path::Path;

use loligo_cephx::fuzz;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Runs `run` on each file of the corpus, on each prefix of it, and on copies with some bytes changed.
fn replay(target: &str, run: fn(&[u8])) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus").join(target);
    let paths = fs::read_dir(&dir).expect("the target has a corpus").map(|e| e.expect("an entry").path());
    let files: Vec<Vec<u8>> = paths.map(|path| fs::read(path).expect("a readable file")).collect();
    assert!(files.len() > 10);
    for file in &files {
        (0..=file.len()).for_each(|len| run(&file[..len]));
    }

    let change = (any::<prop::sample::Index>(), any::<u8>());
    let inputs = (any::<prop::sample::Index>(), prop::collection::vec(change, 1..6));
    TestRunner::new(Config { cases: 2_000, ..Config::default() })
        .run(&inputs, |(file, changes)| {
            let mut data = file.get(&files).clone();
            for (at, byte) in changes {
                let at = at.index(data.len());
                data[at] = byte;
            }
            run(&data);
            Ok(())
        })
        .expect("damaged bytes never panic");
}

#[test]
fn tickets() {
    replay("tickets", fuzz::tickets);
}

#[test]
fn texts() {
    replay("texts", fuzz::texts);
}

proptest! {
    #[test]
    fn random_bytes(data: Vec<u8>, text: String) {
        fuzz::tickets(&data);
        fuzz::texts(text.as_bytes());
    }
}

#[test]
fn mutations_of_tickets() {
    mutations::mutations("tickets", fuzz::tickets);
}

#[test]
fn mutations_of_texts() {
    mutations::mutations("texts", fuzz::texts);
}
