//! Goal: messages that stock daemons and clients sent are read and written back byte for byte, and no
//! input makes a decoder panic. Method: replay captured messages, then the same messages truncated and
//! mutated.

#[path = "../../../../fuzz/mutations.rs"]
mod mutations;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use loligo_wire::message::mds::{
    ClientCaps, ClientMetrics, ClientReply, ClientSnap, CreateExtra, ReaddirExtra, SnapTrace, VxattrExtra,
};
use loligo_wire::message::{Message as _, Msg};
use loligo_wire::{Decode as _, Encode as _, fuzz};
use proptest::prelude::*;

/// Numbers of operations whose replies have contents of their own.
const READDIR: u32 = 0x305;
const LSSNAP: u32 = 0x402;
const GETVXATTR: u32 = 0x106;
const CREATE: u32 = 0x1301;

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
        if msg.header.kind != ClientMetrics::KIND {
            // Release 18 sends metrics at a higher priority than release 16.
            assert_eq!(again.header.priority, msg.header.priority, "{}", path.display());
        }
        assert_eq!(again.front, msg.front, "{}", path.display());
        assert_eq!(again.middle, msg.middle, "{}", path.display());
        assert_eq!(again.data.concat(), msg.data.concat(), "{}", path.display());
        fuzz::messages(&bytes);
    }
}

/// Encodes again what a message of CephFS contains, and compares it. `with_changes`: the release writes
/// realms of snapshots in the form with changes.
fn contents_are_written_back(msg: &Msg, with_changes: bool, path: &Path) -> usize {
    let realms = |blob: &Bytes| {
        let trace =
            SnapTrace::from_blob(blob, with_changes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!(trace.to_blob(with_changes), *blob, "{}", path.display());
        trace.0.len()
    };
    match msg.header.kind {
        ClientReply::KIND => {
            let reply = msg.open::<ClientReply>().expect("it was opened before");
            let extra = &reply.extra;
            let again = match reply.op {
                _ if extra.is_empty() => return realms(&reply.snap),
                READDIR | LSSNAP => ReaddirExtra::from_bytes(extra).map(|extra| extra.to_bytes()),
                GETVXATTR => VxattrExtra::from_bytes(extra).map(|extra| extra.to_bytes()),
                CREATE => CreateExtra::from_extra(extra).map(|extra| extra.expect("a new file").to_bytes()),
                _ => return realms(&reply.snap),
            };
            assert_eq!(again.as_ref(), Ok(extra), "{}", path.display());
            1 + realms(&reply.snap)
        }
        ClientCaps::KIND => realms(&msg.open::<ClientCaps>().expect("it was opened before").snap_trace),
        ClientSnap::KIND => realms(&msg.open::<ClientSnap>().expect("it was opened before").trace),
        _ => 0,
    }
}

#[test]
fn contents_of_captured_messages_are_written_back_byte_for_byte() {
    for (release, with_changes) in [("pacific", false), ("reef", true), ("tentacle", true)] {
        let files = corpus("messages");
        let of_release = files.iter().filter(|(path, _)| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(release))
        });
        let parts = of_release.map(|(path, bytes)| {
            contents_are_written_back(&fuzz::parse(bytes).expect("a corpus file"), with_changes, path)
        });
        let parts: usize = parts.sum();
        assert!(parts >= 20, "{release}: {parts}");
    }
}

/// Goal: every message of CephFS that clients and servers exchange was captured from each release.
/// Exceptions: no stock program but NFS servers reclaims a session, and no request was forwarded.
#[test]
fn each_message_of_a_file_system_was_captured() {
    for release in ["pacific", "reef", "tentacle"] {
        for kind in [
            "mds_map",
            "fs_map",
            "fs_map_user",
            "client_session",
            "client_reconnect",
            "client_request",
            "client_reply",
            "client_metrics",
            "client_caps",
            "client_lease",
            "client_snap",
            "client_cap_release",
            "client_quota",
        ] {
            let prefix = format!("{release}_{kind}_");
            let found = corpus("messages").iter().any(|(path, _)| {
                path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
            });
            assert!(found, "{prefix}");
        }
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
