//! Lists the findings of scrubs (SCRUBLS).

use bytes::Bytes;
use loligo_store::{Collection, Fetch, ObjectName, ObjectRef};
use loligo_wire::message::osd::{
    DamagedObject, MOSDOp, ScrubLs, ScrubLsResult, ScrubbedId, Shard, ShardErrors, shard_error,
};
use loligo_wire::{Decode as _, Encode as _, Errno};

use super::Context;
use super::filed::Filed;
use crate::scrubs::{Damage, Fault};

/// Objects in one reply: each of them is read.
const LISTED_MAX: usize = 256;

/// The cost of one object in the request's budget.
const OBJECT_COST: u64 = 16 << 10;

/// The shard number of a full copy.
const NO_SHARD: i8 = -1;

/// As in a stock OSD: ENOENT before the first scrub, EAGAIN if the placement group's interval has
/// changed since the listing began.
pub(super) fn list(
    context: &Context,
    op: &MOSDOp,
    input: &[u8],
    collection: &dyn Collection,
) -> Result<Bytes, Errno> {
    let ask = ScrubLs::from_bytes(input)?;
    let (Some(scrubs), Some(places)) = (&context.scrubs, &context.places) else { return Err(Errno::EINVAL) };
    let pg = op.spgid.pgid;
    let pool = places.facts(pg.pool).ok_or(Errno::ENOENT)?;
    // A placement group's interval begins with its pool's latest change, as in `pg query`.
    let interval = pool.last_change;
    if ask.interval.0 != 0 && ask.interval != interval {
        return Err(Errno::EAGAIN);
    }
    if !scrubs.has_scrubbed(pg) {
        return Err(Errno::ENOENT);
    }
    let mut found = Vec::new();
    // The list of clones is stored with its object here, and can be damaged only with it.
    if !ask.snapsets {
        let max = usize::try_from(ask.max).unwrap_or(LISTED_MAX).min(LISTED_MAX);
        let osd = places.acting_primary(pg).map_or(-1, |osd| osd.0);
        for (name, damage) in scrubs.damaged_behind(pg, context.pg_num, &ask.after, max) {
            context.spend(OBJECT_COST)?;
            found.push(entry(context, collection, &name, &damage, osd)?.to_bytes());
        }
    }
    Ok(ScrubLsResult { interval, found }.to_bytes())
}

fn entry(
    context: &Context,
    collection: &dyn Collection,
    name: &ObjectName,
    damage: &Damage,
    osd: i32,
) -> Result<DamagedObject, Errno> {
    let ObjectRef { nspace, key, name: own, snap, hash } = name.as_ref();
    let (mut size, mut version) = (0, 0);
    if damage.fault != Fault::Record {
        let collection = Filed::of(context, collection).collection(hash);
        let look = || collection.map_or(Fetch::Now(None), |collection| collection.object(name.as_ref()));
        match context.fetches.once(look) {
            Ok(Some(view)) => (size, version) = (view.size(), view.info().user_version),
            Ok(None) => {}
            Err(errno) if context.fetches.waiting() => return Err(errno),
            Err(_) => {} // the damage has become worse since
        }
    }
    let bytes = Bytes::copy_from_slice;
    let errors = ShardErrors(match damage.fault {
        Fault::Record => shard_error::STAT,
        Fault::Data | Fault::Omap => shard_error::READ,
        Fault::Digest => shard_error::DATA_DIGEST,
    });
    let shard = Shard { errors, primary: true, size, ..Shard::default() };
    Ok(DamagedObject {
        errors: 0, // there is no other copy that could differ
        object: ScrubbedId { name: bytes(own), nspace: bytes(nspace), locator: bytes(key), snap },
        version,
        shards: [((osd, NO_SHARD), shard)].into(),
        shard_errors: errors,
    })
}
