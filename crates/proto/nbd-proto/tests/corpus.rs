//! Replays the fuzzer's corpus, intact and damaged.

#[path = "../../../../fuzz/mutations.rs"]
mod mutations;

use std::fs;
use std::path::Path;

use loligo_nbd_proto::fuzz;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

#[test]
fn connections() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/nbd");
    let entries = fs::read_dir(dir).expect("the target has a corpus");
    let files: Vec<Vec<u8>> =
        entries.map(|e| fs::read(e.expect("the directory can be read").path()).expect("a file")).collect();
    assert!(!files.is_empty());
    files.iter().for_each(|data| fuzz::connection(data));
    let index = any::<prop::sample::Index>;
    let inputs = (index(), prop::collection::vec((index(), any::<u8>(), any::<bool>()), 1..5));
    let mut runner = TestRunner::new(Config { cases: 1000, ..Config::default() });
    runner
        .run(&inputs, |(file, damages)| {
            let mut data = files[file.index(files.len())].clone();
            for (at, byte, cuts) in damages {
                let at = at.index(data.len());
                if cuts && at > 0 { data.truncate(at) } else { data[at] = byte }
            }
            fuzz::connection(&data);
            Ok(())
        })
        .expect("damaged bytes never panic");
}

#[test]
fn mutations_of_connections() {
    mutations::mutations("nbd", fuzz::connection);
}
