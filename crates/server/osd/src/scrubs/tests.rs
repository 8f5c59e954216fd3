//! Goal: the table has the right state for placement groups after scrubs. The findings of scrubs are
//! tested with a server on disk (`crates/server/server/tests/scrub.rs`).

use loligo_store::ObjectRef;

use super::*;

const POOL: PoolId = PoolId(1);

fn name(hash: u32) -> ObjectName {
    ObjectName::new(ObjectRef::head(hash, b"o")).expect("short")
}

fn end(table: &mut Table, seed: u32, kind: ScrubKind, found: &[(u32, Fault)], now: u32) {
    let damage = |fault| Damage { fault, what: String::new() };
    let found = found.iter().map(|(hash, fault)| (name(*hash), damage(*fault))).collect();
    let report = ScrubReport { pg: PgId { pool: POOL, seed }, kind, found };
    table.ended(&report, 4, Eversion::default(), UTime { sec: now, nsec: 0 });
}

fn hashes(table: &Table) -> Vec<u32> {
    table.found.values().flat_map(|objects| objects.keys().map(|name| name.as_ref().hash)).collect()
}

#[test]
fn a_scrub_takes_back_what_it_can_see_of_its_own_placement_group() {
    use Fault::{Data, Record};
    let mut table = Table::default();
    end(&mut table, 1, ScrubKind::Deep, &[(1, Data), (5, Record)], 10);
    end(&mut table, 2, ScrubKind::Deep, &[(2, Data)], 11);
    end(&mut table, 1, ScrubKind::Shallow, &[], 12);
    assert_eq!(hashes(&table), [2, 1], "the data is damaged as before");
    let last = table.groups[&PgId { pool: POOL, seed: 1 }];
    assert_eq!((last.at.sec, last.deep_at.sec, last.clean_at.sec), (12, 10, 0));
    end(&mut table, 1, ScrubKind::Repair, &[], 13);
    assert_eq!(hashes(&table), [2]);
    let last = table.groups[&PgId { pool: POOL, seed: 1 }];
    assert_eq!((last.at.sec, last.deep_at.sec, last.clean_at.sec), (13, 13, 13));
    table.changed = false;
    table.forget_pools(|_| true);
    assert!(!table.changed);
    table.forget_pools(|_| false);
    assert!(table.changed && table.found.is_empty() && table.groups.is_empty());
}
