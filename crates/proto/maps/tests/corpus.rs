//! Goal: no input makes a decoder of maps panic, loop endlessly or allocate excessively. Method: replay
//! maps that stock releases wrote, then the same maps truncated and mutated.

#[path = "../../../../fuzz/mutations.rs"]
mod mutations;

use std::path::Path;

use loligo_maps::fuzz;
use proptest::prelude::*;

type Target = (&'static str, fn(&[u8]));

const TARGETS: [Target; 6] = [
    ("monmap", fuzz::monmap),
    ("crush", fuzz::crush),
    ("osdmap", fuzz::osdmap),
    ("map_incremental", fuzz::incremental),
    ("mdsmap", fuzz::mdsmap),
    ("fsmap", fuzz::fsmap),
];

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus").join(target);
    let mut files: Vec<_> =
        std::fs::read_dir(dir).expect("the corpus is there").map(|e| e.expect("an entry").path()).collect();
    files.sort();
    files.into_iter().map(|path| std::fs::read(path).expect("a readable file")).collect()
}

#[test]
fn whole_maps_do_no_harm() {
    for (name, target) in TARGETS {
        corpus(name).iter().for_each(|bytes| target(bytes));
    }
}

#[test]
fn truncated_maps_do_no_harm() {
    for (name, target) in TARGETS {
        for bytes in corpus(name) {
            (0..bytes.len()).step_by(1 + bytes.len() / 300).for_each(|len| target(&bytes[..len]));
        }
    }
}

/// Boundary values for lengths, counts and ids.
fn nasty() -> impl Strategy<Value = u32> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(0x7fff_ffff),
        Just(0x8000_0000),
        Just(u32::MAX),
        any::<u32>(),
        0..64u32
    ]
}

proptest! {
    #[test]
    fn mutated_maps_do_no_harm(
        (name, target) in prop::sample::select(&TARGETS[..]),
        pick in any::<prop::sample::Index>(),
        bytes_changed in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        words_changed in prop::collection::vec((any::<prop::sample::Index>(), nasty()), 0..3),
    ) {
        let files = corpus(name);
        let mut bytes = pick.get(&files).clone();
        for (at, value) in bytes_changed {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        for (at, value) in words_changed {
            let at = at.index(bytes.len() - 3);
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        target(&bytes);
    }

    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        TARGETS.iter().for_each(|(_, target)| target(&bytes));
    }
}

#[test]
fn mutations_of_monmaps_do_no_harm() {
    mutations::mutations("monmap", fuzz::monmap);
}

#[test]
fn mutations_of_crush_maps_do_no_harm() {
    mutations::mutations("crush", fuzz::crush);
}

#[test]
fn mutations_of_osdmaps_do_no_harm() {
    mutations::mutations("osdmap", fuzz::osdmap);
}

#[test]
fn mutations_of_incrementals_do_no_harm() {
    mutations::mutations("map_incremental", fuzz::incremental);
}

#[test]
fn mutations_of_maps_of_metadata_servers_do_no_harm() {
    mutations::mutations("mdsmap", fuzz::mdsmap);
}

#[test]
fn mutations_of_maps_of_file_systems_do_no_harm() {
    mutations::mutations("fsmap", fuzz::fsmap);
}
