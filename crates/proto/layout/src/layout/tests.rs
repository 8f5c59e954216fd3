//! Goal: the mapping is Ceph's, for all layouts and offsets. Method: for the first bytes of small files,
//! an oracle that deals out one unit after the other with counters. At large offsets, where the oracle
//! would take too long: mapping an offset to an object and back gives the same offset, and extents cover
//! their range exactly.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;

use super::*;

const UNIT: u64 = UNIT_BYTES_MIN as u64;

/// Deals out stripe units as the definition says, without any division. Returns each unit's object and
/// its offset in that object.
fn deal(layout: Layout, units: usize) -> Vec<(u64, u64)> {
    let (mut set, mut position, mut filled) = (0, 0, 0);
    let mut dealt = Vec::new();
    while dealt.len() < units {
        dealt.push((set * layout.stripe_count() + position, filled));
        position += 1;
        if position == layout.stripe_count() {
            position = 0;
            filled += layout.stripe_unit();
            if filled == layout.object_size() {
                filled = 0;
                set += 1;
            }
        }
    }
    dealt
}

fn small() -> impl Strategy<Value = Layout> {
    (1_u64..5, 1_u64..7, 1_u64..5).prop_map(|(unit, count, units)| {
        Layout::new(unit * UNIT, count, unit * units * UNIT).expect("a valid layout")
    })
}

fn any_layout() -> impl Strategy<Value = Layout> {
    let units = 1_u64..65_536;
    (units, 1_u64..=u64::from(u32::MAX), any::<u64>()).prop_map(|(unit, count, n)| {
        let units_max = 65_535 / unit;
        Layout::new(unit * UNIT, count, unit * UNIT * (1 + n % units_max)).expect("a valid layout")
    })
}

proptest! {
    #[test]
    fn units_are_dealt_out_as_the_definition_says(layout in small(), inside in 0..UNIT) {
        let inside = inside.min(layout.stripe_unit() - 1);
        for (number, (object, offset)) in deal(layout, 200).into_iter().enumerate() {
            let file_offset = number as u64 * layout.stripe_unit() + inside;
            prop_assert_eq!(layout.locate(file_offset), (ObjectNo(object), offset + inside));
            prop_assert_eq!(layout.file_offset(ObjectNo(object), offset + inside), Some(file_offset));
        }
    }

    #[test]
    fn objects_hold_what_was_dealt_to_them(layout in small(), units in 0..150_usize, cut in 0..UNIT) {
        let mut lens: HashMap<u64, u64> = HashMap::new();
        let dealt = deal(layout, units + 1);
        for (object, offset) in &dealt[..units] {
            lens.insert(*object, offset + layout.stripe_unit());
        }
        let (last, offset) = dealt[units];
        if cut > 0 {
            lens.insert(last, offset + cut);
        }
        let size = units as u64 * layout.stripe_unit() + cut;
        prop_assert_eq!(layout.object_count(size), lens.keys().max().map_or(0, |last| last + 1));
        for object in 0..layout.object_count(size) + 10 {
            let len = layout.object_len(ObjectNo(object), size);
            prop_assert_eq!(len, lens.get(&object).copied().unwrap_or(0), "object {} of {}", object, size);
        }
    }

    #[test]
    fn extents_are_those_of_the_bytes(layout in small(), from in 0..60 * UNIT, len in 0..40 * UNIT) {
        // The borders of units, and one byte on each side of a cut, represent all bytes.
        let mut bounds: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        let mut at = from;
        while at < from + len {
            let (object, offset) = deal(layout, 400)[(at / layout.stripe_unit()) as usize];
            let inside = at % layout.stripe_unit();
            let here = (layout.stripe_unit() - inside).min(from + len - at);
            let bound = bounds.entry(object).or_insert((offset + inside, 0));
            prop_assert_eq!(bound.0 + bound.1, offset + inside, "an object's part is one range");
            bound.1 += here;
            at += here;
        }
        let extents: Vec<_> = layout.extents(from, len).collect();
        let found: BTreeMap<_, _> = extents.iter().map(|e| (e.object.0, (e.offset, e.len))).collect();
        prop_assert_eq!(extents.len(), found.len(), "each object once");
        prop_assert_eq!(found, bounds);
        let firsts: Vec<_> = extents.iter().map(|e| layout.file_offset(e.object, e.offset)).collect();
        prop_assert!(firsts.is_sorted());
    }

    #[test]
    fn there_and_back_is_nowhere(layout in any_layout(), offset in any::<u64>()) {
        let (object, inside) = layout.locate(offset);
        prop_assert!(inside < layout.object_size());
        prop_assert_eq!(layout.file_offset(object, inside), Some(offset));
        prop_assert_eq!(layout.object_len(object, offset), inside);
        if offset < u64::MAX {
            prop_assert_eq!(layout.object_len(object, offset + 1), inside + 1);
            prop_assert!(layout.object_count(offset + 1) > object.0);
        }
    }

    #[test]
    fn pieces_cover_their_range_exactly(layout in any_layout(), from in any::<u64>(), len in 0..(64_u64 << 20)) {
        let end = from.saturating_add(len);
        let mut pieces: Vec<Piece> = Vec::new();
        for extent in layout.extents(from, len).take(5000) {
            let of_extent: Vec<_> = layout.pieces(extent).collect();
            prop_assert_eq!(of_extent.iter().map(|p| p.len).sum::<u64>(), extent.len);
            for piece in &of_extent {
                prop_assert_eq!(layout.locate(piece.file_offset), (extent.object, piece.object_offset));
                let last = piece.file_offset + (piece.len - 1);
                prop_assert_eq!(layout.locate(last), (extent.object, piece.object_offset + piece.len - 1));
            }
            pieces.extend(of_extent);
        }
        pieces.sort_by_key(|piece| piece.file_offset);
        let mut at = from;
        for piece in pieces {
            prop_assert_eq!(piece.file_offset, at);
            at += piece.len;
        }
        prop_assert_eq!(at, end);
    }
}

#[test]
fn what_ceph_refuses_is_refused() {
    use LayoutError::*;
    let wrong = [
        ((0, 1, UNIT), StripeUnit(0)),
        ((1000, 1, UNIT), StripeUnit(1000)),
        ((UNIT, 0, UNIT), StripeCount(0)),
        ((UNIT, 1 << 32, UNIT), StripeCount(1 << 32)),
        ((UNIT, 1, 0), ObjectSize(0)),
        ((UNIT, 1, 100_000), ObjectSize(100_000)),
        ((UNIT, 1, 1 << 32), ObjectSize(1 << 32)),
        ((2 * UNIT, 1, UNIT), NotWholeUnits { object_size: 65_536, stripe_unit: 131_072 }),
        ((2 * UNIT, 1, 3 * UNIT), NotWholeUnits { object_size: 196_608, stripe_unit: 131_072 }),
    ];
    for ((unit, count, size), why) in wrong {
        assert_eq!(Layout::new(unit, count, size), Err(why));
    }
}

/// The example of `ceph-fs-common`: two objects, units of 64 KiB, objects of 128 KiB.
#[test]
fn a_layout_by_hand() {
    let layout = Layout::new(UNIT, 2, 2 * UNIT).expect("valid");
    assert_eq!(layout.locate(0), (ObjectNo(0), 0));
    assert_eq!(layout.locate(UNIT), (ObjectNo(1), 0));
    assert_eq!(layout.locate(2 * UNIT + 5), (ObjectNo(0), UNIT + 5));
    assert_eq!(layout.locate(4 * UNIT), (ObjectNo(2), 0));
    assert_eq!(layout.file_offset(ObjectNo(0), 2 * UNIT), None, "behind the object's end");
    assert_eq!(layout.file_offset(ObjectNo(u64::MAX), 0), None, "behind all files");
    assert_eq!(layout.object_count(0), 0);
    assert_eq!(Layout::default().to_string(), "stripe_unit=4194304 stripe_count=1 object_size=4194304");
}
