//! Reads the header of an image.

use std::sync::OnceLock;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use loligo_rados::{IoCtx, ReadOp, SnapId};
use loligo_stripe::Layout;
use loligo_wire::rbd::{ParentSpec, feature};
use loligo_wire::{Name, SnapContext};

use super::migration::spec_of;
use super::{Fixed, Format, READABLE, Snapshot, View, format1};
use crate::Error;
use crate::call::{asking, next};

/// The most attempts to read a header whose snapshots change meanwhile.
const ATTEMPTS: u32 = 10;

/// The calls for each snapshot.
const SNAP_CALLS: [&str; 4] = ["snapshot_get", "get_flags", "get_protection_status", "parent_overlap_get"];

/// Snapshots in one request. A request has 65,535 operations at most on the wire. librbd reads all
/// snapshots in one request and therefore cannot open an image of more than 16,383; here their number is
/// not limited.
const SNAPS_AT_A_TIME: usize = 128;

/// The most such requests in flight.
const PAGES_AT_ONCE: usize = 8;

/// Reads an image's header.
pub(crate) async fn load(io: &IoCtx, header: &Name, format: Format) -> Result<(Fixed, View), Error> {
    if format == Format::First {
        return format1::load(io, header).await;
    }
    let mut attempts = 0;
    loop {
        let (fixed, mut view, ids) = load_image(io, header).await?;
        match load_snapshots(io, header, &ids).await {
            Ok(snapshots) => {
                view.snapshots = snapshots;
                if view.has(feature::MIGRATING) {
                    view.set_migration(spec_of(io, header).await?);
                }
                return Ok((fixed, view));
            }
            // A snapshot was removed between the two requests.
            Err(e) if e.is_not_found() && attempts < ATTEMPTS => attempts += 1,
            Err(e) => return Err(e),
        }
    }
}

async fn load_image(io: &IoCtx, header: &Name) -> Result<(Fixed, View, Vec<SnapId>), Error> {
    let head = |w: &mut loligo_wire::Writer| w.u64(SnapId::HEAD.0);
    let nothing = |_: &mut loligo_wire::Writer| {};
    let mut op = ReadOp::new();
    op = asking(op, "get_size", head);
    op = asking(op, "get_features", |w| {
        head(w);
        w.bool(true);
    });
    op = asking(op, "get_flags", head);
    op = asking(op, "get_snapcontext", nothing);
    op = asking(op, "get_object_prefix", nothing);
    op = asking(op, "get_data_pool", nothing);
    op = asking(op, "op_features_get", nothing);
    op = asking(op, "parent_get", nothing);
    op = asking(op, "parent_overlap_get", head);
    op = asking(op, "get_create_timestamp", nothing);
    op = asking(op, "get_access_timestamp", nothing);
    op = asking(op, "get_modify_timestamp", nothing);
    op = asking(op, "get_stripe_unit_count", nothing).may_fail();
    let mut answers = io.operate_read(header, op).await?.into_iter();
    let answers = &mut answers;
    let (order, size): (u8, u64) = next(answers, "get_size")?;
    let (features, incompatible): (u64, u64) = next(answers, "get_features")?;
    let unreadable = (features | incompatible) & !READABLE & !feature::JOURNALING & !feature::NON_PRIMARY;
    let flags = next(answers, "get_flags")?;
    let SnapContext { seq, snaps } = next(answers, "get_snapcontext")?;
    let prefix = next(answers, "get_object_prefix")?;
    let data_pool: i64 = next(answers, "get_data_pool")?;
    let op_features = next(answers, "op_features_get")?;
    let parent: ParentSpec = next(answers, "parent_get")?;
    let overlap: Option<u64> = next(answers, "parent_overlap_get")?;
    let times = [
        next(answers, "get_create_timestamp")?,
        next(answers, "get_access_timestamp")?,
        next(answers, "get_modify_timestamp")?,
    ];
    let object_size = 1u64.checked_shl(order.into()).unwrap_or(0);
    let (stripe_unit, stripe_count) = match features & feature::STRIPINGV2 {
        0 => (object_size, 1),
        _ => next(answers, "get_stripe_unit_count")?,
    };
    let layout = Layout::of_image(stripe_unit, stripe_count, object_size).ok_or(Error::Layout {
        order,
        stripe_unit,
        stripe_count,
    })?;
    let data_pool = (data_pool >= 0).then_some(data_pool);
    let fixed = Fixed { format: Format::Second, order, layout, prefix, data_pool };
    let view = View {
        size,
        features,
        op_features,
        flags,
        snap_seq: seq,
        snapshots: Vec::new(),
        overlap: overlap.filter(|_| parent.exists()),
        parent: parent.exists().then_some(parent),
        migration: None,
        unreadable,
        times,
        writer: OnceLock::new(),
    };
    Ok((fixed, view, snaps))
}

/// Loads snapshots. `ids` are newest first, as in the header; the result is oldest first.
async fn load_snapshots(io: &IoCtx, header: &Name, ids: &[SnapId]) -> Result<Vec<Snapshot>, Error> {
    let pages: Vec<Vec<SnapId>> = ids.chunks(SNAPS_AT_A_TIME).map(<[SnapId]>::to_vec).collect();
    let loaded = stream::iter(pages).map(|ids| load_page(io, header, ids));
    let mut snapshots: Vec<Snapshot> = loaded.buffered(PAGES_AT_ONCE).try_concat().await?;
    snapshots.reverse();
    Ok(snapshots)
}

async fn load_page(io: &IoCtx, header: &Name, ids: Vec<SnapId>) -> Result<Vec<Snapshot>, Error> {
    let op = ids.iter().fold(ReadOp::new(), |op, id| {
        SNAP_CALLS.iter().fold(op, |op, method| asking(op, method, |w| w.u64(id.0)))
    });
    let mut answers = io.operate_read(header, op).await?.into_iter();
    let mut snapshots = Vec::with_capacity(ids.len());
    for _ in &ids {
        let info = next(&mut answers, "snapshot_get")?;
        let flags = next(&mut answers, "get_flags")?;
        let protection: u8 = next(&mut answers, "get_protection_status")?;
        let overlap = next(&mut answers, "parent_overlap_get")?;
        snapshots.push(Snapshot { info, protected: protection != 0, flags, overlap });
    }
    Ok(snapshots)
}
