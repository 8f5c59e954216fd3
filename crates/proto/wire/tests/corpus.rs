//! Goal: messages that stock daemons and clients sent are read and written back byte for byte, and no
//! input makes a decoder panic. Method: replay captured messages, then the same messages truncated and
//! mutated.

#[path = "../../../../fuzz/mutations.rs"]
mod mutations;

use std::path::{Path, PathBuf};

use loligo_wire::fuzz;
use proptest::prelude::*;

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus").join(target);
    let mut files: Vec<_> =
        std::fs::read_dir(dir).expect("the corpus is there").map(|e| e.expect("an entry").path()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).expect("a readable file"))).collect()
}

#[test]
fn captured_messages_are_written_back_byte_for_byte() {
    for (path, bytes) in corpus("messages") {
        let msg = fuzz::parse(&bytes).expect("a corpus file");
        let Some(again) = fuzz::recode(&msg) else { continue };
        let again = again.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        if again.header.version < msg.header.version {
            continue; // a newer release's message, which is decoded and re-encoded in the form of release 16
        }
        assert_eq!(again.header.version, msg.header.version, "{}", path.display());
        assert_eq!(again.header.compat_version, msg.header.compat_version, "{}", path.display());
        assert_eq!(again.header.priority, msg.header.priority, "{}", path.display());
        assert_eq!(again.front, msg.front, "{}", path.display());
        assert_eq!(again.data.concat(), msg.data.concat(), "{}", path.display());
    }
}

#[test]
fn truncated_messages_do_no_harm() {
    for (_, bytes) in corpus("messages") {
        let mut msg = fuzz::parse(&bytes).expect("a corpus file");
        let front = msg.front.clone();
        for len in (0..front.len()).step_by(1 + front.len() / 512) {
            msg.front = front.slice(..len);
            let _ = fuzz::recode(&msg);
        }
    }
}

proptest! {
    #[test]
    fn mutated_messages_do_no_harm(
        pick in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let files = corpus("messages");
        let mut bytes = pick.get(&files).1.clone();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        fuzz::messages(&bytes);
    }

    #[test]
    fn random_bytes_do_no_harm(kind in any::<u16>(), bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut file = kind.to_le_bytes().to_vec();
        file.extend_from_slice(&bytes);
        fuzz::messages(&file);
    }
}

#[test]
fn mutations_of_messages_do_no_harm() {
    mutations::mutations("messages", fuzz::messages);
}
