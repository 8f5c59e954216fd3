//! Replays a corpus of data that stores wrote. Goal: parsing arbitrary data from disk does not panic, loop
//! or use excessive memory, and parsed data is encoded as it was. Method: data written by a store, then
//! the same data cut and mutated.

#[path = "../../../../fuzz/mutations.rs"]
mod mutations;

use std::path::Path;

use loligo_store_disk::fuzz;
use proptest::prelude::*;

/// Returns the files, with their names. Fails if one of the kinds is missing.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/store");
    let names =
        std::fs::read_dir(&dir).expect("the corpus is there").map(|e| e.expect("an entry").file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().expect("a name of ours")).collect();
    names.sort();
    for kind in
        ["journal", "key-O", "record", "row-C", "row-D", "row-K", "row-M", "row-O", "row-R", "row-S", "super"]
    {
        assert!(names.iter().any(|name| name.starts_with(kind)), "no file of {kind}");
    }
    names
        .into_iter()
        .map(|name| (name.clone(), std::fs::read(dir.join(name)).expect("a readable file")))
        .collect()
}

#[test]
fn what_a_store_wrote_is_read() {
    for (name, bytes) in corpus() {
        // Values of omaps, and most keys, have no format.
        let any = name.starts_with("row-P") || name.starts_with("key-") && !name.starts_with("key-O");
        assert!(fuzz::store(&bytes) > 0 || any, "{name}");
    }
}

#[test]
fn what_is_cut_short_does_no_harm() {
    for (_, bytes) in corpus() {
        for len in (0..bytes.len()).step_by(1 + bytes.len() / 100) {
            fuzz::store(&bytes[..len]);
        }
    }
}

proptest! {
    #[test]
    fn what_was_changed_does_no_harm(
        pick in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let files = corpus();
        let mut bytes = pick.get(&files).1.clone();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        fuzz::store(&bytes);
    }
}

#[test]
fn mutations_of_what_a_store_wrote_do_no_harm() {
    mutations::mutations("store", |bytes| {
        fuzz::store(bytes);
    });
}
