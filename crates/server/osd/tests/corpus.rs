//! Replays the corpus of requests. Goal: no request makes execution panic, loop, or use memory beyond its
//! bounds. Method: captured requests and crafted harmful ones, whole, truncated and mutated.

#[path = "../../../../fuzz/mutations.rs"]
mod mutations;

use std::path::Path;

use loligo_osd::fuzz;
use proptest::prelude::*;

fn corpus() -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/requests");
    let mut files: Vec<_> =
        std::fs::read_dir(dir).expect("the corpus is there").map(|e| e.expect("an entry").path()).collect();
    files.sort();
    files.into_iter().map(|path| std::fs::read(path).expect("a readable file")).collect()
}

#[test]
fn whole_requests_do_no_harm() {
    let files = corpus();
    assert!(files.len() > 10);
    files.iter().for_each(|bytes| fuzz::requests(bytes));
}

#[test]
fn truncated_requests_do_no_harm() {
    for bytes in corpus() {
        (0..bytes.len()).step_by(1 + bytes.len() / 300).for_each(|len| fuzz::requests(&bytes[..len]));
    }
}

proptest! {
    #[test]
    fn mutated_requests_do_no_harm(
        pick in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let files = corpus();
        let mut bytes = pick.get(&files).clone();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        fuzz::requests(&bytes);
    }
}

#[test]
fn mutations_of_requests_do_no_harm() {
    mutations::mutations("requests", fuzz::requests);
}
