//! How a pool's objects are distributed over slots, and which of them belong to a placement group.
//!
//! A pool has one slot and one collection for each placement group it was created with. Its objects stay
//! filed by that number when `pg_num` changes. A split or a merge moves nothing, so requests in
//! progress, results kept for resent writes, watches, snapshots being trimmed and listing cursors stay
//! with their objects. Only the clients' view of a placement group is derived from `pg_num`: the
//! requests it accepts, the range it lists, its statistics.
//!
//! In the order of objects (`loligo_store::ObjectRef`) the objects of a slot form one range, and so do
//! those of a placement group. A slot and a placement group are either disjoint, or one contains the
//! other.

use az::SaturatingAs as _;
use loligo_maps::stable_mod;
use loligo_store::CollectionStats;
use loligo_wire::PgId;

use crate::stats::{PgStats, PoolStats};

/// The hash space cut into this many parts, numbered as placement groups are. At least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut(pub(crate) u32);

impl Cut {
    /// A cut into as many parts as `parts` has elements: at most 65,536, the maximum number of a pool's
    /// placement groups (`PG_NUM_MAX`).
    pub(crate) fn as_many_as<T>(parts: &[T]) -> Self {
        Self(u32::try_from(parts.len()).unwrap_or(u32::MAX))
    }

    /// The part that contains a hash.
    pub(crate) fn part_of(self, hash: u32) -> u32 {
        stable_mod(hash, self.0)
    }

    /// The first reversed hash of a part.
    pub(crate) fn first(part: u32) -> u32 {
        part.reverse_bits()
    }

    /// The first reversed hash after a part, where the next part begins; 2^32 for the last part.
    pub(crate) fn behind(self, part: u32) -> u64 {
        let free = u32::MAX.checked_shr(self.fixed_bits(part)).unwrap_or(0);
        u64::from(part.reverse_bits() | free) + 1
    }

    /// The number of low bits that all hashes of a part have in common.
    fn fixed_bits(self, part: u32) -> u32 {
        let bits = self.0.ilog2();
        // If the number of parts is not a power of two, the first parts are already split and the others
        // are not.
        let cut_in_two = self.0 & ((1 << bits) - 1);
        if part & ((1 << bits) - 1) < cut_in_two { bits + 1 } else { bits }
    }
}

/// The statistics of `pg_num` placement groups, computed from those of the slots. A slot's figures are
/// divided among the placement groups in it by their shares of the slot's hashes, as a stock OSD divides
/// them at a split. The sum stays exact.
pub(crate) fn by_pg(slots: &[PgStats], pg_num: u32) -> Vec<PgStats> {
    let (filed, shown) = (Cut::as_many_as(slots), Cut(pg_num));
    if filed == shown {
        return slots.to_vec();
    }
    (0..pg_num).flat_map(|seed| of_pg(slots, filed, shown, seed)).collect()
}

fn of_pg(slots: &[PgStats], filed: Cut, shown: Cut, seed: u32) -> Option<PgStats> {
    let (first, behind) = (u64::from(Cut::first(seed)), shown.behind(seed));
    let part = filed.part_of(seed);
    let (slot_first, slot_behind) = (u64::from(Cut::first(part)), filed.behind(part));
    if slot_first <= first && behind <= slot_behind {
        let all = slot_behind - slot_first;
        let share = Share { from: first - slot_first, until: behind - slot_first, all };
        return slots.get(part as usize).map(|slot| share.of_slot(slot, seed));
    }
    let here = |slot: &&PgStats| shown.part_of(slot.pg.seed) == seed;
    slots.iter().filter(here).copied().reduce(|sum, slot| PgStats {
        pg: PgId { seed, ..sum.pg },
        stats: add(sum.stats, slot.stats),
        version: sum.version.max(slot.version),
        remembered: sum.remembered + slot.remembered,
    })
}

/// A part of a slot's hashes: those from `from` to `until` out of `all`.
struct Share {
    from: u64,
    until: u64,
    all: u64,
}

impl Share {
    fn of(&self, value: u64) -> u64 {
        let up_to =
            |end: u64| (u128::from(value) * u128::from(end) / u128::from(self.all)).saturating_as::<u64>();
        up_to(self.until) - up_to(self.from)
    }

    fn of_slot(&self, slot: &PgStats, seed: u32) -> PgStats {
        let (stats, stored) = (&slot.stats, &slot.stats.stored);
        let stored = CollectionStats {
            objects: self.of(stored.objects),
            bytes: self.of(stored.bytes),
            bytes_allocated: self.of(stored.bytes_allocated),
            omap_bytes: self.of(stored.omap_bytes),
            omap_keys: self.of(stored.omap_keys),
        };
        let stats = PoolStats {
            stored,
            reads: self.of(stats.reads),
            read_bytes: self.of(stats.read_bytes),
            writes: self.of(stats.writes),
            written_bytes: self.of(stats.written_bytes),
        };
        let remembered = self.of(slot.remembered);
        PgStats { pg: PgId { seed, ..slot.pg }, stats, version: slot.version, remembered }
    }
}

fn add(a: PoolStats, b: PoolStats) -> PoolStats {
    let mut stored = a.stored;
    stored += b.stored;
    PoolStats {
        stored,
        reads: a.reads + b.reads,
        read_bytes: a.read_bytes + b.read_bytes,
        writes: a.writes + b.writes,
        written_bytes: a.written_bytes + b.written_bytes,
    }
}

#[cfg(test)]
mod tests {
    use loligo_wire::{Eversion, PoolId};

    use super::*;

    const NUMBERS: [u32; 9] = [1, 2, 3, 5, 7, 8, 12, 32, 200];

    #[test]
    fn the_parts_lie_one_behind_the_other() {
        for number in NUMBERS {
            let mut ranges: Vec<_> =
                (0..number).map(|part| (u64::from(Cut::first(part)), Cut(number).behind(part))).collect();
            ranges.sort_unstable();
            assert_eq!((ranges[0].0, ranges[ranges.len() - 1].1), (0, 1 << 32));
            assert!(ranges.windows(2).all(|two| two[0].1 == two[1].0), "{number} parts");
            for hash in [0, 1, 6, 77, 0x1234_5678, u32::MAX] {
                let part = Cut(number).part_of(hash);
                let range = u64::from(Cut::first(part))..Cut(number).behind(part);
                assert!(range.contains(&u64::from(hash.reverse_bits())), "{hash} of {number}");
            }
        }
    }

    fn slot(seed: u32) -> PgStats {
        let n = u64::from(seed) * 17 + 3;
        let stored = CollectionStats { objects: n, bytes: n << 12, ..CollectionStats::default() };
        let stats = PoolStats { stored, reads: n + 1, writes: 2 * n, ..PoolStats::default() };
        PgStats { pg: PgId { pool: PoolId(1), seed }, stats, version: Eversion::default(), remembered: n }
    }

    #[test]
    fn a_pool_holds_as_much_however_it_is_cut() {
        let sum = |pgs: &[PgStats]| {
            let stats = pgs.iter().fold(PoolStats::default(), |sum, pg| add(sum, pg.stats));
            (stats, pgs.iter().map(|pg| pg.remembered).sum::<u64>())
        };
        for filed in NUMBERS {
            let slots: Vec<_> = (0..filed).map(slot).collect();
            for shown in NUMBERS {
                let pgs = by_pg(&slots, shown);
                assert!(pgs.iter().map(|pg| pg.pg.seed).eq(0..shown), "{filed} shown as {shown}");
                assert_eq!(sum(&pgs), sum(&slots), "{filed} shown as {shown}");
            }
        }
    }
}
