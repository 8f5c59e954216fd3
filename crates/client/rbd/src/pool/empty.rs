//! Removes the data of images that are to be removed.

use loligo_rados::IoCtx;
use loligo_wire::Name;
use loligo_wire::rbd::{SnapKind, op_feature};

use crate::call::gone;
use crate::header::Snapshot;
use crate::image::{Image, Mode, Which};
use crate::{Error, names};

/// Removes an image except its name.
pub(crate) async fn erase(
    io: &IoCtx,
    name: &Name,
    id: &str,
    progress: impl FnMut(u64, u64),
) -> Result<(), Error> {
    empty_named(io, name, id, progress).await?;
    for oid in [names::object_map(id, None), names::header(id)] {
        gone(io.remove(oid).await.map_err(Error::from))?;
    }
    Ok(())
}

/// Opens an image and removes all its data. Without a header no data can be found.
pub(crate) async fn empty_named(
    io: &IoCtx,
    name: &Name,
    id: &str,
    progress: impl FnMut(u64, u64),
) -> Result<(), Error> {
    match Image::open_at(io, Which::Known { name, id }, None, Mode::ReadWrite).await {
        Ok(image) => {
            let removed = empty(&image, progress).await;
            let closed = image.close().await;
            removed?;
            closed
        }
        Err(Error::NoImage(_)) => Ok(()),
        Err(Error::NonPrimary) => Err(Error::RemovesNonPrimary),
        Err(e) => Err(e),
    }
}

/// Removes all data of an image that no other client uses and that belongs to no group.
pub(crate) async fn empty(image: &Image, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    image.inner.check_parted()?;
    if image.view().op_features & op_feature::GROUP != 0 {
        return Err(Error::InGroup);
    }
    if !image.is_alone().await? {
        return Err(Error::InUse);
    }
    let inner = &image.inner;
    let _all = inner.enter_alone().await?;
    let view = inner.view.load_full();
    let is_trashed = |snap: &Snapshot| matches!(snap.info.kind, SnapKind::Trash { .. });
    match view.snapshots.len() {
        0 => {
            inner.trim(0, progress).await?;
            inner.detach_child().await
        }
        count if view.snapshots.iter().all(is_trashed) => Err(Error::HasClones(count)),
        count => Err(Error::HasSnapshots(count)),
    }
}
