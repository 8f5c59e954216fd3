//! Limits by hand, and against the sums of a plain loop.

use loligo_types::Ino;
use proptest::prelude::*;

use super::*;

fn limited(ino: u64, max_bytes: i64, max_files: i64, bytes: i64, files: i64) -> Limited {
    let there = RecursiveStats { bytes, files, ..RecursiveStats::default() };
    Limited { ino: Ino(ino), limits: QuotaLimits { bytes: max_bytes, files: max_files }, there }
}

#[test]
fn every_limit_above_counts_and_zero_is_none() {
    let chain = [limited(3, 0, 0, 900, 9), limited(2, 100, 0, 60, 9), limited(1, 0, 10, 60, 9)];
    assert_eq!(nearest(chain).map(|limited| limited.ino), Some(Ino(2)));
    assert_eq!(check(chain, Growth { bytes: 40, files: 1 }), Ok(()));
    let full = Exceeded::Bytes { ino: Ino(2), max: 100, there: 60, more: 41 };
    assert_eq!(check(chain, Growth { bytes: 41, files: 0 }), Err(full));
    assert!(matches!(check(chain, Growth { bytes: 0, files: 2 }), Err(Exceeded::Files { .. })));
    assert_eq!(nearest([limited(1, 0, 0, 1, 1)]), None);
}

#[test]
fn what_adds_nothing_is_permitted_beyond_the_limit() {
    assert_eq!(check([limited(1, 10, 10, 50, 50)], Growth::default()), Ok(()));
}

#[test]
fn a_rename_out_of_a_limited_directory_leaves_its_realm() {
    let (inner, outer) = (limited(2, 10, 0, 0, 0), limited(1, 10, 0, 0, 0));
    assert!(leaves_realm([inner, outer], [outer]));
    assert!(!leaves_realm([outer], [outer]));
    assert!(!leaves_realm([], [limited(7, 0, 0, 0, 0)]));
}

proptest! {
    #[test]
    fn a_permitted_change_leaves_every_limit_kept(
        chain in proptest::collection::vec((any::<i64>(), any::<i64>(), any::<i64>(), any::<i64>()), 0..6),
        bytes in any::<u64>(),
        files in any::<u64>(),
    ) {
        let chain: Vec<Limited> =
            chain.iter().map(|(a, b, c, d)| limited(1, *a, *b, *c, *d)).collect();
        let is_permitted = check(chain.clone(), Growth { bytes, files }).is_ok();
        let fits = |max: i64, there: i64, more: u64| {
            max <= 0 || more == 0 || i128::from(there.max(0)) + i128::from(more) <= i128::from(max)
        };
        let is_kept = chain.iter().all(|limited| {
            fits(limited.limits.bytes, limited.there.bytes, bytes)
                && fits(limited.limits.files, limited.there.files, files)
        });
        prop_assert_eq!(is_permitted, is_kept);
    }
}
