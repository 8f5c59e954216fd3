//! Lists a placement group's objects (PGNLS and the older PGLS).
//!
//! As in a stock OSD, whiteouts are listed: a listing does not read the objects.

use az::SaturatingAs as _;
use bytes::Bytes;
use loligo_store::{Collection, Fetch, ObjectName, ObjectRef};
use loligo_wire::message::osd::{HObject, ListObject, MOSDOp, OpCode, PgNlsResponse};
use loligo_wire::{Encode, Errno, PgId, Reader, SnapId, Writer};

use super::execution::Outputs;
use super::filed::Filed;
use super::{Context, scrubbed};
use crate::filing::Cut;

/// The namespace that stands for all namespaces (`LIBRADOS_ALL_NSPACES`).
const ALL_NAMESPACES: &[u8] = b"\x01";

/// The result of a listing that has reached the placement group's end.
const AT_END: i32 = 1;

/// Objects examined for one reply. In a namespace with few objects a reply may be empty although the
/// listing continues.
const LOOKED_AT_MAX: usize = 4096;

/// The same bound for a listing with a filter, which reads each object …
/// A read of a cold object ends the execution, which begins anew with what it has read: all executions of a
/// page together must stay within the budget of a request.
const FILTERED_MAX: usize = 64;

/// … and the bytes of the filtered attributes: the listing continues after the object that reaches this
/// bound.
const FILTERED_BYTES: u64 = 4 << 20;

/// The cost of a page in the request's budget; each object's name is copied.
const PAGE_COST: u64 = 4 << 20;

pub(super) fn list(
    context: &Context,
    op: &MOSDOp,
    collection: &dyn Collection,
    outputs: &mut Outputs,
) -> Result<i32, Errno> {
    let mut last = 0;
    for one in &op.ops {
        let form = match one.code {
            OpCode::PGNLS | OpCode::PGNLS_FILTER => Form::WithNamespaces,
            OpCode::PGLS | OpCode::PGLS_FILTER => Form::Old,
            OpCode::SCRUBLS => {
                outputs.push((0, scrubbed::list(context, op, &one.data, collection)?));
                last = 0;
                continue;
            }
            // There are no hit sets without cache tiers.
            OpCode::PG_HITSET_LS | OpCode::PG_HITSET_GET => return Err(Errno::EOPNOTSUPP),
            _ => return Err(Errno::EINVAL),
        };
        context.spend(PAGE_COST)?;
        let mut r = Reader::new(&one.data);
        let filter = match one.code {
            OpCode::PGNLS_FILTER | OpCode::PGLS_FILTER => Some(Filter::decode(&mut r)?),
            _ => None,
        };
        if op.snapid != SnapId::HEAD {
            return Err(Errno::EINVAL);
        }
        let cursor: HObject = r.get()?;
        let count = one.pgls_args().count.min(context.limits.list_entries).saturating_as::<usize>();
        let (result, page) = page(context, op, &cursor, count, collection, filter.as_ref(), form)?;
        outputs.push((result, page));
        last = result;
    }
    Ok(last)
}

/// The format of a reply's entries.
#[derive(Clone, Copy)]
enum Form {
    /// PGNLS: namespace, name, key.
    WithNamespaces,
    /// PGLS: name, key.
    Old,
}

/// Selects the objects of a listing: those whose attribute has a given value.
struct Filter {
    xattr: Bytes,
    value: Bytes,
}

impl Filter {
    /// Decodes the class and the method, which are ignored, then the kind of filter and its arguments.
    /// All kinds have the same arguments.
    fn decode(r: &mut Reader<'_>) -> Result<Self, Errno> {
        let (_class, _method) = (r.blob()?, r.blob()?);
        let kind = r.blob()?;
        if kind != b"plain" && !loligo_classes::has_filter(kind) {
            return Err(Errno::EINVAL);
        }
        let (xattr, value): (Bytes, Bytes) = (r.get()?, r.get()?);
        // Clients name a user attribute as a stock store names it, with a leading underscore.
        let xattr = xattr.strip_prefix(b"_").map(|name| xattr.slice_ref(name)).unwrap_or_default();
        Ok(Self { xattr, value })
    }

    fn wants(
        &self,
        context: &Context,
        collection: &dyn Collection,
        name: &ObjectName,
        looked_at: &mut u64,
    ) -> Result<bool, Errno> {
        let Some(collection) = Filed::of(context, collection).collection(name.as_ref().hash) else {
            return Ok(false);
        };
        let Some(object) = context.fetches.once(|| collection.object(name.as_ref()))? else {
            return Ok(false);
        };
        let value = context.fetches.now(|| object.xattr(&self.xattr))?;
        let len = value.as_ref().map_or(0, |value| value.len() as u64);
        *looked_at += len;
        context.spend(len)?;
        Ok(value.is_some_and(|value| value == self.value))
    }
}

fn page(
    context: &Context,
    op: &MOSDOp,
    cursor: &HObject,
    count: usize,
    collection: &dyn Collection,
    filter: Option<&Filter>,
    form: Form,
) -> Result<(i32, Bytes), Errno> {
    let mut found =
        if cursor.max { Vec::new() } else { in_pg(context, op.spgid.pgid, place_of(cursor), collection)? };
    let here = |name: &ObjectName| {
        let ObjectRef { nspace, snap, .. } = name.as_ref();
        snap == SnapId::HEAD && (op.locator.nspace == ALL_NAMESPACES || op.locator.nspace == nspace)
    };
    if let Some(filter) = filter {
        // Fewer are examined, since each costs more; the listing continues after them.
        let mut passed = Vec::with_capacity(FILTERED_MAX);
        let mut looked_at = 0;
        for name in found.iter().take(FILTERED_MAX) {
            if looked_at >= FILTERED_BYTES {
                break;
            }
            passed.push(here(name) && filter.wants(context, collection, name, &mut looked_at)?);
        }
        return Ok(filtered_page(context, op, found, &passed, count, form));
    }
    let wanted = here;
    // The reply ends before the object that exceeds `count`, or at the last one examined.
    let mut taken = 0;
    let cut = found.iter().position(|name| {
        let full = taken == count;
        taken += usize::from(wanted(name));
        full
    });
    let end = cut.or_else(|| (found.len() > LOOKED_AT_MAX).then_some(LOOKED_AT_MAX));
    let next = end.map(|end| found.drain(end..).next().expect("`end` is the index of an object"));
    let entries = found.iter().filter(|name| wanted(name)).map(|name| entry(name.as_ref())).collect();
    Ok(form.answer(context, op, next.as_ref(), entries))
}

/// Builds the reply from the objects that passed the filter: up to `count` of them, or all that passed
/// among the examined ones.
fn filtered_page(
    context: &Context,
    op: &MOSDOp,
    found: Vec<ObjectName>,
    passed: &[bool],
    count: usize,
    form: Form,
) -> (i32, Bytes) {
    let through = found.iter().zip(passed).enumerate().filter(|(_, (_, passed))| **passed);
    let mut entries: Vec<_> = through.map(|(at, (name, _))| (at, entry(name.as_ref()))).collect();
    let next = match entries.get(count) {
        Some((at, _)) => found.get(*at),
        None => found.get(passed.len()),
    };
    let until = next.map(|next| next.as_ref());
    entries.retain(|(at, _)| until.is_none_or(|until| found[*at].as_ref() < until));
    form.answer(context, op, next, entries.into_iter().map(|(_, entry)| entry).collect())
}

impl Form {
    fn answer(
        self,
        context: &Context,
        op: &MOSDOp,
        next: Option<&ObjectName>,
        entries: Vec<ListObject>,
    ) -> (i32, Bytes) {
        let result = if next.is_none() { AT_END } else { 0 };
        let handle =
            next.map_or_else(|| end_of_pg(op.spgid.pgid, context.pg_num), |next| hobject(op, next.as_ref()));
        let output = match self {
            Self::WithNamespaces => PgNlsResponse { handle, entries }.to_bytes(),
            Self::Old => {
                let mut w = Writer::new();
                w.u8(1);
                w.put(&handle);
                w.count(entries.len());
                for ListObject { oid, locator, .. } in &entries {
                    w.blob(oid);
                    w.blob(locator);
                }
                w.into_bytes()
            }
        };
        (result, output)
    }
}

/// The objects of a placement group from a position on: one more than are examined, or all there are.
/// They may be filed in a part of one collection, or in several collections.
fn in_pg(
    context: &Context,
    pg: PgId,
    from: ObjectRef<'_>,
    collection: &dyn Collection,
) -> Result<Vec<ObjectName>, Errno> {
    let behind_pg = Cut(context.pg_num).behind(pg.seed);
    let filed = Filed::of(context, collection);
    let mut found = Vec::new();
    let mut from = from.max(ObjectRef::first_of_hash(pg.seed));
    loop {
        let wanted = LOOKED_AT_MAX + 1 - found.len();
        // Remembered: a later read may make the request wait.
        let part = context.fetches.once(|| {
            filed.collection(from.hash).map_or(Fetch::Now(Vec::new()), |part| part.list(from, wanted))
        })?;
        let ends = part.len() < wanted;
        found
            .extend(part.into_iter().take_while(|name| u64::from(name.as_ref().reversed_hash()) < behind_pg));
        let behind = filed.cut.behind(filed.cut.part_of(from.hash));
        match u32::try_from(behind) {
            Ok(reversed) if ends && behind < behind_pg => {
                from = ObjectRef::first_of_hash(reversed.reverse_bits());
            }
            _ => return Ok(found),
        }
    }
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

/// The first position after a placement group in the pool's order, where the next group begins; the end
/// of all objects for the last group.
fn end_of_pg(pg: PgId, pg_num: u32) -> HObject {
    match u32::try_from(Cut(pg_num).behind(pg.seed)) {
        Ok(reversed) => {
            HObject { snap: SnapId::HEAD, hash: reversed.reverse_bits(), pool: pg.pool.0, ..HObject::min() }
        }
        Err(_) => HObject::max(),
    }
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
            // Each end but the last is the start of a group: its hash is that group's seed.
            let mut starts: Vec<u32> = ends.iter().filter(|end| !end.max).map(|end| end.hash).collect();
            starts.sort_unstable();
            assert_eq!(starts, (1..pg_num).collect::<Vec<_>>());
        }
    }
}
