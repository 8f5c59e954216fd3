//! Fragments, listings and leases; listings against a directory that is divided anew all the time.

use std::collections::BTreeSet;
use std::time::Duration;

use loligo_types::{Rank, Tid};
use proptest::prelude::*;

use super::*;
use crate::Moment;
use crate::caps::{Validity, View};

#[test]
fn numbers_that_are_no_fragments_are_refused() {
    assert_eq!(Frag::from_raw(0), Ok(Frag::ROOT));
    let half = Frag::from_raw(0x0180_0000).expect("a fragment");
    assert_eq!((half.bits(), half.first(), half.end()), (1, 0x80_0000, HASH_END));
    assert_eq!(half.raw(), 0x0180_0000);
    assert_eq!(half.to_string(), "800000/1");
    for raw in [0x0140_0000, 0x0000_0001, 0x1900_0000, u32::MAX] {
        assert_eq!(Frag::from_raw(raw), Err(FragTreeError::NoFrag(raw)));
    }
    assert!(FragTree::from_splits([(0, 24)]).is_ok());
    let fine = FragTreeError::TooFine { frag: half, by: 24 };
    assert_eq!(FragTree::from_splits([(0x0180_0000, 24)]), Err(fine));
    assert!(FragTree::from_splits([(0, u32::MAX)]).is_err());
}

/// Splits that a server could send, and others.
fn splits() -> impl Strategy<Value = Vec<(u32, u32)>> {
    let split = (0..=24_u32, any::<u32>(), 0..5_u32).prop_map(|(bits, hash, by)| {
        let value = (hash % HASH_END) & !((HASH_END - 1) >> bits);
        (bits << 24 | value, by)
    });
    proptest::collection::vec(split, 0..40).prop_map(|mut splits| {
        splits.push((0, 2));
        splits
    })
}

fn tree_of(splits: &[(u32, u32)]) -> FragTree {
    let valid = splits.iter().filter(|split| FragTree::from_splits([**split]).is_ok());
    FragTree::from_splits(valid.copied()).expect("valid splits")
}

proptest! {
    #[test]
    fn leaves_cover_every_hash_once(splits in splits(), hash in 0..HASH_END) {
        let tree = tree_of(&splits);
        let mut end = 0;
        for leaf in tree.leaves().take(10_000) {
            prop_assert_eq!(leaf.first(), end);
            end = leaf.end();
            prop_assert_eq!(tree.leaf(leaf.first()), leaf);
        }
        prop_assert_eq!(end, HASH_END);
        prop_assert!(tree.leaf(hash).contains(hash));
    }

    /// Each request sees another division, and every entry is listed once, whatever the chunks are.
    #[test]
    fn a_listing_has_every_entry_once(
        entries in proptest::collection::btree_set((0..HASH_END, 0..3_u8), 0..60),
        trees in proptest::collection::vec(splits(), 1..5),
        size in 1..7_usize,
    ) {
        let names: BTreeSet<(u32, Vec<u8>)> =
            entries.into_iter().map(|(hash, name)| (hash / 1000 * 1000, vec![name])).collect();
        let mut cursor = Cursor::new();
        let mut listed = Vec::new();
        for round in 0.. {
            // The client's tree is one behind the server's.
            let (old, new) = (tree_of(&trees[round % trees.len()]), tree_of(&trees[(round + 1) % trees.len()]));
            let Some(ask) = cursor.ask(&old) else { break };
            let frag = new.leaf(ask.offset_hash);
            let from = (ask.offset_hash, ask.after.clone());
            let rest: Vec<_> = names
                .iter()
                .filter(|(hash, name)| frag.contains(*hash) && (*hash, Some(name.clone())) > from)
                .cloned()
                .collect();
            let chunk: Vec<_> = rest.iter().take(size).cloned().collect();
            let is_end = chunk.len() == rest.len();
            listed.extend(chunk.iter().cloned());
            let chunk = Chunk { frag, last: chunk.last().cloned(), is_end, is_by_hash: true };
            prop_assert_eq!(cursor.advance(&chunk), Ok(()));
        }
        prop_assert_eq!(listed, names.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn a_listing_that_stands_is_an_error() {
    let mut cursor = Cursor::new();
    let chunk = |last, is_end| Chunk { frag: Frag::ROOT, last, is_end, is_by_hash: true };
    assert_eq!(cursor.advance(&chunk(None, false)), Err(CursorError::Stands { hash: 0 }));
    assert_eq!(cursor.advance(&chunk(Some((5, b"b".to_vec())), false)), Ok(()));
    for (hash, name) in [(5, b"b"), (5, b"a"), (4, b"z"), (HASH_END, b"z")] {
        let again = chunk(Some((hash, name.to_vec())), false);
        assert_eq!(cursor.advance(&again), Err(CursorError::Stands { hash: 5 }));
    }
    let half = Frag::from_raw(0x0180_0000).expect("a fragment");
    let elsewhere = Chunk { frag: half, ..chunk(None, true) };
    assert_eq!(cursor.advance(&elsewhere), Err(CursorError::OtherFrag { frag: half, hash: 5 }));
    let unordered = Chunk { is_by_hash: false, ..chunk(None, true) };
    assert_eq!(cursor.advance(&unordered), Err(CursorError::NotByHash));
    assert_eq!(cursor.advance(&chunk(None, true)), Ok(()));
    assert!(cursor.is_done());
    assert_eq!(cursor.ask(&FragTree::default()), None);
}

#[test]
fn a_listing_completes_a_directory_unless_something_left_meanwhile() {
    let mut known = Completeness::default();
    let (first, second) = (known.begin(), known.begin());
    assert!(known.finish(first));
    known.released();
    assert!(!known.finish(second));
    assert!(known.finish(known.begin()));
}

#[test]
fn a_lease_ends_with_its_time_and_with_its_session_s() {
    let at = |ms| Moment(Duration::from_millis(ms));
    let tid = || Tid(1);
    let session = |generation, until| {
        move |_| Some(Validity { generation, until: Moment(Duration::from_millis(until)) })
    };
    let (first, stale, late) = (session(1, 9000), session(2, 9000), session(1, 200));
    let view = |now, validity| View { now: at(now), validity, flush_tid: &tid };
    let lease = Lease::granted(Rank(0), at(100), 400, 1, &view(300, &first)).expect("a lease");
    assert!(lease.is_valid(&view(499, &first)));
    assert!(!lease.is_valid(&view(500, &first)), "counted from when the request was sent");
    assert!(!lease.is_valid(&view(300, &stale)));
    assert!(!lease.is_valid(&view(300, &late)));
    assert_eq!(Lease::granted(Rank(0), at(100), 0, 1, &view(300, &first)), None);
}
