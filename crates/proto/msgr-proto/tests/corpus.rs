//! Replays the fuzzers' corpus, as it is and damaged.

#[path = "../../../../fuzz/mutations.rs"]
mod mutations;

use std::fs;
use std::path::{Path, PathBuf};

use loligo_msgr_proto::fuzz;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus").join(target);
    let entries = fs::read_dir(&dir).expect("the target has a corpus");
    let paths = entries.map(|e| e.expect("the directory can be read").path());
    paths.map(|p| (p.clone(), fs::read(p).expect("the file can be read"))).collect()
}

/// Runs `run` on each file of the corpus, then on copies with changed, cut and duplicated parts.
fn replay(target: &str, run: fn(&[u8])) {
    let files = corpus(target);
    assert!(!files.is_empty());
    files.iter().for_each(|(_, data)| run(data));

    let damage = (any::<prop::sample::Index>(), any::<u8>(), any::<prop::sample::Index>(), 0..4_u8);
    let inputs = (any::<prop::sample::Index>(), prop::collection::vec(damage, 1..5));
    let mut runner = TestRunner::new(Config { cases: 400, ..Config::default() });
    runner
        .run(&inputs, |(file, damages)| {
            let mut data = files[file.index(files.len())].1.clone();
            for (at, byte, other, how) in damages {
                damage_at(&mut data, at, byte, other, how);
            }
            run(&data);
            Ok(())
        })
        .expect("damaged bytes never panic");
}

fn damage_at(data: &mut Vec<u8>, at: prop::sample::Index, byte: u8, other: prop::sample::Index, how: u8) {
    if data.is_empty() {
        return;
    }
    let (at, other) = (at.index(data.len()), other.index(data.len()));
    match how {
        0 => data[at] = byte,
        1 => data.truncate(at),
        2 => drop(data.drain(at.min(other)..at.max(other))),
        _ => {
            let copy = data[at.min(other)..at.max(other)].to_vec();
            data.splice(at..at, copy);
        }
    }
}

#[test]
fn frames() {
    replay("frames", fuzz::frames);
}

#[test]
fn secure_frames() {
    replay("secure_frames", fuzz::secure_frames);
}

#[test]
fn compressed_frames() {
    replay("compressed_frames", fuzz::compressed_frames);
}

#[test]
fn handshake() {
    replay("handshake", fuzz::handshake);
}

#[test]
fn v1_handshake() {
    replay("v1_handshake", fuzz::v1_handshake);
}

proptest! {
    #[test]
    fn random_bytes(data: Vec<u8>) {
        fuzz::frames(&data);
        fuzz::secure_frames(&data);
        fuzz::compressed_frames(&data);
        fuzz::handshake(&data);
        fuzz::v1_handshake(&data);
    }
}

#[test]
fn mutations_of_frames() {
    mutations::mutations("frames", fuzz::frames);
}

#[test]
fn mutations_of_secure_frames() {
    mutations::mutations("secure_frames", fuzz::secure_frames);
}

#[test]
fn mutations_of_compressed_frames() {
    mutations::mutations("compressed_frames", fuzz::compressed_frames);
}

#[test]
fn mutations_of_handshakes() {
    mutations::mutations("handshake", fuzz::handshake);
}
