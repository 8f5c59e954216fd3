//! Headers of format 1: the bytes of `NAME.rbd`.
//!
//! Images of format 1 have no id, no features and no lock, and exist only in a pool's default namespace. A
//! copy of one has format 2.

use loligo_rados::{Errno, IoCtx};
use loligo_wire::rbd::{OldHeader, OldSnap, SnapInfo, SnapKind};
use loligo_wire::{Name, UTime};

use super::migration::spec_of;
use super::{Fixed, Format, Snapshot, View};
use crate::call::decoded;
use crate::{Error, names};

/// The offset of the image's size in its header.
pub(crate) const SIZE_OFFSET: u64 = 80;

/// Whether the header exists.
pub(crate) async fn has_header(io: &IoCtx, name: &Name) -> Result<bool, Error> {
    match io.stat(names::old_header(name)).await {
        Err(e) if e.errno() == Errno::ENOENT => Ok(false),
        found => Ok(found.map(|_| true)?),
    }
}

/// Reads the header `oid`.
pub(crate) async fn load(io: &IoCtx, oid: &Name) -> Result<(Fixed, View), Error> {
    let header = header(io, oid).await?;
    let object_size = 1u64.checked_shl(header.order.into()).unwrap_or(0);
    let layout = loligo_stripe::Layout::of_image(object_size, 1, object_size).ok_or(Error::Layout {
        order: header.order,
        stripe_unit: object_size,
        stripe_count: 1,
    })?;
    let prefix = String::from_utf8_lossy(header.prefix()).into_owned();
    let fixed = Fixed { format: Format::First, order: header.order, layout, prefix, data_pool: None };
    let migration = if header.is_migrating() { spec_of(io, oid).await? } else { None };
    let snapshots = header.snaps.iter().rev().map(snapshot).collect();
    Ok((fixed, View::of_old(header.size, header.snap_seq, snapshots, migration)))
}

async fn header(io: &IoCtx, oid: &Name) -> Result<OldHeader, Error> {
    let header: OldHeader = decoded("rbd_obj_header_ondisk", &io.read(oid, 0, 0).await?)?;
    // Not an image's header; a stock client returns the same errno.
    if header.is_image() || header.is_migrating() { Ok(header) } else { Err(Errno::ENXIO.into()) }
}

fn snapshot(snap: &OldSnap) -> Snapshot {
    let name = snap.name.clone();
    let (kind, taken) = (SnapKind::User, UTime::default());
    let info = SnapInfo { id: snap.id, kind, name, size: snap.size, taken, children: 0 };
    Snapshot { info, protected: false, flags: 0, overlap: None }
}

/// Returns the number of snapshots, and the size of the image or its largest snapshot; `None` if it was
/// removed.
pub(crate) async fn sum(io: &IoCtx, name: &Name) -> Result<Option<(u64, u64)>, Error> {
    match header(io, &names::old_header(name)).await {
        Err(e) if e.is_not_found() => Ok(None),
        header => {
            let header = header?;
            let largest = header.snaps.iter().map(|snap| snap.size).fold(header.size, u64::max);
            Ok(Some((header.snaps.len() as u64, largest)))
        }
    }
}
