//! Listing a placement group's objects (PGNLS).

use bytes::Bytes;
use loligo_store::{Collection, ObjectName, ObjectRef};
use loligo_wire::message::osd::{HObject, ListObject, MOSDOp, OpCode, PgNlsResponse};
use loligo_wire::{Encode, PgId, Reader, SnapId};

use super::Context;
use super::execution::Outputs;
use super::limits::Budget;
use crate::errno::Errno;

/// In place of a namespace: all of them (`LIBRADOS_ALL_NSPACES`).
const ALL_NAMESPACES: &[u8] = b"\x01";

/// The result of a listing that has reached the placement group's end.
const AT_END: i32 = 1;

/// Objects looked at for one answer; with a namespace that few are in, an answer may be empty and the listing go on.
const LOOKED_AT_MAX: usize = 4096;

/// What looking at them counts against what a request may do; each object's name is copied.
const PAGE_COST: u64 = 1 << 20;

pub(super) fn list(
    context: &Context,
    op: &MOSDOp,
    collection: &dyn Collection,
    outputs: &mut Outputs,
) -> Result<i32, Errno> {
    let mut last = 0;
    let mut budget = Budget::new(&context.limits);
    for one in &op.ops {
        if one.code != OpCode::PGNLS {
            return Err(if one.code.is_pg() { Errno::EOPNOTSUPP } else { Errno::EINVAL });
        }
        budget.spend(PAGE_COST)?;
        let cursor: HObject = Reader::new(&one.data).get()?;
        let count = one.pgls_args().count.min(context.limits.list_entries) as usize;
        let (result, page) = page(context, op, &cursor, count, collection)?;
        outputs.push((result, page));
        last = result;
    }
    Ok(last)
}

fn page(
    context: &Context,
    op: &MOSDOp,
    cursor: &HObject,
    count: usize,
    collection: &dyn Collection,
) -> Result<(i32, Bytes), Errno> {
    let mut found = if cursor.max {
        Vec::new()
    } else {
        context.fetches.now(|| collection.list(place_of(cursor), LOOKED_AT_MAX + 1))?
    };
    let wanted = |name: &ObjectName| {
        let nspace = name.as_ref().nspace;
        op.locator.nspace == ALL_NAMESPACES || op.locator.nspace == nspace
    };
    // The answer ends before the first object that is one too many, or at the last one that was looked at.
    let mut taken = 0;
    let cut = found.iter().position(|name| {
        let full = taken == count;
        taken += usize::from(wanted(name));
        full
    });
    let end = cut.or_else(|| (found.len() > LOOKED_AT_MAX).then_some(LOOKED_AT_MAX));
    let next = end.map(|end| found.drain(end..).next().expect("`end` is the index of an object"));
    let entries = found.iter().filter(|name| wanted(name)).map(|name| entry(name.as_ref())).collect();
    let result = if next.is_none() { AT_END } else { 0 };
    let handle =
        next.map_or_else(|| end_of_pg(op.spgid.pgid, context.pg_num), |next| hobject(op, next.as_ref()));
    Ok((result, PgNlsResponse { handle, entries }.to_bytes()))
}

fn place_of(cursor: &HObject) -> ObjectRef<'_> {
    ObjectRef {
        hash: cursor.hash,
        nspace: &cursor.nspace,
        key: &cursor.key,
        name: &cursor.oid,
        snap: cursor.snap,
    }
}

fn hobject(op: &MOSDOp, oid: ObjectRef<'_>) -> HObject {
    HObject {
        key: oid.key.to_vec(),
        oid: oid.name.to_vec(),
        snap: oid.snap,
        hash: oid.hash,
        max: false,
        nspace: oid.nspace.to_vec(),
        pool: op.spgid.pgid.pool.0,
    }
}

fn entry(oid: ObjectRef<'_>) -> ListObject {
    ListObject { nspace: oid.nspace.to_vec(), oid: oid.name.to_vec(), locator: oid.key.to_vec() }
}

/// The first place behind a placement group in the pool's order, which is where the next group begins; the end of all
/// objects for the last group.
fn end_of_pg(pg: PgId, pg_num: u32) -> HObject {
    let behind =
        u64::from(pg.seed.reverse_bits() | (u64::from(u32::MAX) >> fixed_bits(pg.seed, pg_num)) as u32) + 1;
    match u32::try_from(behind) {
        Ok(reversed) => {
            HObject { snap: SnapId::HEAD, hash: reversed.reverse_bits(), pool: pg.pool.0, ..HObject::min() }
        }
        Err(_) => HObject::max(),
    }
}

/// How many low bits of the hash all objects of a placement group have in common.
fn fixed_bits(seed: u32, pg_num: u32) -> u32 {
    let bits = pg_num.ilog2();
    // Where the number of groups is no power of two, the first ones are already cut in two and the others not yet.
    let cut_in_two = pg_num & ((1 << bits) - 1);
    if seed & ((1 << bits) - 1) < cut_in_two { bits + 1 } else { bits }
}

#[cfg(test)]
mod tests {
    use loligo_wire::PoolId;

    use super::*;

    #[test]
    fn the_groups_of_a_pool_lie_one_behind_the_other() {
        for pg_num in [1, 2, 3, 7, 8, 12, 128, 200] {
            let mut ends: Vec<HObject> =
                (0..pg_num).map(|seed| end_of_pg(PgId { pool: PoolId(1), seed }, pg_num)).collect();
            ends.sort();
            ends.dedup();
            assert_eq!(ends.len(), pg_num as usize, "{pg_num} groups");
            assert!(ends.last().is_some_and(|end| end.max));
            // Each end but the last is the place where a group starts: its hash is that group's seed.
            let mut starts: Vec<u32> = ends.iter().filter(|end| !end.max).map(|end| end.hash).collect();
            starts.sort_unstable();
            assert_eq!(starts, (1..pg_num).collect::<Vec<_>>());
        }
    }
}
