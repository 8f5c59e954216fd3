//! Pools with images.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use loligo_rados::{Errno, IoCtx, ReadOp, SnapId};
use loligo_wire::{Name, SnapContext};

use loligo_wire::Encode as _;

use crate::call::{ask, asking, next, tell};
use crate::header::{Format, format1};
use crate::image::metadata;
use crate::{Error, names, trash};

pub use super::check::validate;

/// Images read in parallel.
const AT_ONCE: usize = 32;

/// The number and size of images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// The number of images.
    pub images: u64,
    /// The number of their snapshots.
    pub snapshots: u64,
    /// The sum of the images' sizes in bytes; of each image, the largest of its own and its snapshots'
    /// sizes.
    pub provisioned: u64,
}

/// Sums up the images of a pool and namespace, and those in its trash.
///
/// # Errors
/// An image cannot be read.
pub async fn sums(io: &IoCtx) -> Result<(Sum, Sum), Error> {
    let images = crate::list(io).await?.into_iter();
    let images = sum(io, images.collect()).await?;
    let trashed = trash::list(io).await?.into_iter().map(|trashed| (trashed.name, trashed.id)).collect();
    Ok((images, sum(io, trashed).await?))
}

/// Returns the metadata of a pool, such as its settings for images.
///
/// # Errors
/// They cannot be read.
pub async fn metadata(io: &IoCtx) -> Result<BTreeMap<Name, Bytes>, Error> {
    match metadata::load(&io.with_namespace(""), &names::INFO.into()).await {
        Err(e) if e.is_not_found() => Ok(BTreeMap::new()),
        pairs => pairs,
    }
}

/// Sets the value of a key of a pool's metadata.
///
/// # Errors
/// It cannot be written.
pub async fn set_metadata(io: &IoCtx, key: impl Into<Name>, value: Bytes) -> Result<(), Error> {
    let key = &key.into();
    let pair = BTreeMap::from([(key.to_owned(), value)]);
    tell(&io.with_namespace(""), names::INFO, "metadata_set", |w| w.raw(&pair.to_bytes())).await
}

/// Removes a key of a pool's metadata.
///
/// # Errors
/// ENOENT if there is no such key.
pub async fn remove_metadata(io: &IoCtx, key: impl Into<Name>) -> Result<(), Error> {
    let key = &key.into();
    let io = io.with_namespace("");
    ask::<Bytes>(&io, names::INFO, "metadata_get", |w| w.put(key)).await?;
    tell(&io, names::INFO, "metadata_remove", |w| w.put(key)).await
}

/// Sums up images given by name and id.
async fn sum(io: &IoCtx, images: Vec<(Name, String)>) -> Result<Sum, Error> {
    let looked = stream::iter(images).map(|(name, id)| async move {
        match Format::of_id(&id) {
            Format::First => format1::sum(io, &name).await,
            Format::Second => one(io, &names::header(&id)).await,
        }
    });
    let mut looked = looked.buffer_unordered(AT_ONCE);
    let mut sum = Sum::default();
    while let Some(found) = looked.try_next().await? {
        let Some((snapshots, bytes)) = found else { continue };
        sum.images += 1;
        sum.snapshots += snapshots;
        sum.provisioned = sum.provisioned.saturating_add(bytes);
    }
    Ok(sum)
}

/// Returns the number of snapshots and the size of an image, with any features; `None` if it was removed
/// meanwhile.
async fn one(io: &IoCtx, header: &Name) -> Result<Option<(u64, u64)>, Error> {
    let sized = |op, snap: u64| asking(op, "get_size", |w| w.u64(snap));
    let op = asking(sized(ReadOp::new(), SnapId::HEAD.0), "get_snapcontext", |_| {});
    let mut answers = match io.operate_read(header, op).await {
        Err(e) if e.errno() == Errno::ENOENT => return Ok(None),
        answers => answers?.into_iter(),
    };
    let (_, mut bytes): (u8, u64) = next(&mut answers, "get_size")?;
    let SnapContext { snaps, .. } = next(&mut answers, "get_snapcontext")?;
    if snaps.is_empty() {
        return Ok(Some((0, bytes)));
    }
    let op = snaps.iter().fold(ReadOp::new(), |op, id| sized(op, id.0).may_fail());
    for answer in io.operate_read(header, op).await? {
        // A snapshot may be removed meanwhile.
        let size: Result<(u8, u64), Error> = next(&mut std::iter::once(answer), "get_size");
        bytes = bytes.max(size.map_or(0, |(_, size)| size));
    }
    Ok(Some((snaps.len() as u64, bytes)))
}
