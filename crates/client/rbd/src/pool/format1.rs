//! The images of format 1 in a pool. The bytes of `rbd_directory` list them (TMAP); their headers are told
//! of in `header/format1.rs`.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use loligo_rados::{Errno, IoCtx, WriteOp};
use loligo_wire::message::osd::{OpCode, OsdOp};
use loligo_wire::rbd::OldHeader;
use loligo_wire::{Encode as _, Name, Writer};

use crate::call::{decoded, gone};
use crate::header::format1::has_header;
use crate::image::Image;
use crate::pool::create::ORDERS;
use crate::pool::empty::empty_named;
use crate::{Error, names};

/// Steps of an update of the directory (`CEPH_OSD_TMAP_*`).
const SET: u8 = b's';
const REMOVE: u8 = b'r';

/// Lists the names of all images of format 1.
pub(crate) async fn list(io: &IoCtx) -> Result<Vec<Name>, Error> {
    let bytes = match io.read(names::DIRECTORY, 0, 0).await {
        Err(e) if e.errno() == Errno::ENOENT => return Ok(Vec::new()),
        bytes => bytes?,
    };
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let (_, images): (Bytes, BTreeMap<Name, Bytes>) = decoded("rbd_directory", &bytes)?;
    Ok(images.into_keys().collect())
}

/// Whether an image of format 1 has this name, even if only its header or its directory entry is left.
pub(crate) async fn exists(io: &IoCtx, name: &Name) -> Result<bool, Error> {
    if has_header(io, name).await? {
        return Ok(true);
    }
    Ok(list(io).await?.iter().any(|listed| listed == name))
}

/// Creates an image of format 1. New images should have format 2; this is for tests of programs with old
/// images.
///
/// # Errors
/// [`Error::ImageExists`]; [`Error::Layout`]; EOPNOTSUPP in a namespace, which cannot have such images.
pub async fn create_old(io: &IoCtx, name: impl Into<Name>, size: u64, order: u8) -> Result<(), Error> {
    let name = &name.into();
    names::checked(name)?;
    if !io.namespace().is_empty() {
        return Err(Errno::EOPNOTSUPP.into());
    }
    if !ORDERS.contains(&order) {
        let stripe_unit = 1u64.checked_shl(order.into()).unwrap_or(0);
        return Err(Error::Layout { order, stripe_unit, stripe_count: 1 });
    }
    if exists(io, name).await? || names_new(io, name).await? {
        return Err(Error::ImageExists(name.to_owned()));
    }
    let prefix = format!("rb.0.{:x}.{:08x}", io.rados().instance_id().0, fastrand::u32(..));
    let header = OldHeader::new(&prefix, order, size);
    let header = header.map_err(|source| Error::Decode { what: "rbd_obj_header_ondisk", source })?;
    let made = WriteOp::new().create(true).write_full(header.to_bytes());
    match io.operate(names::old_header(name), made).await {
        Err(e) if e.errno() == Errno::EEXIST => return Err(Error::ImageExists(name.to_owned())),
        done => done?,
    }
    update(io, SET, name).await
}

/// Renames an image. Its header is copied with its omap before the directory is changed, so that the
/// image is found under at least one name after an interruption.
pub(crate) async fn rename(image: &Image, to: &Name) -> Result<(), Error> {
    let (io, from) = (&image.inner.io, image.name());
    if exists(io, to).await? || names_new(io, to).await? {
        return Err(Error::ImageExists(to.to_owned()));
    }
    let header = io.read(&*image.inner.header, 0, 0).await?;
    let map: Vec<(Bytes, Bytes)> = io.omap(&*image.inner.header, "").try_collect().await?;
    let copy = WriteOp::new().create(true).write_full(header).set_omap(map);
    match io.operate(names::old_header(to), copy).await {
        Err(e) if e.errno() == Errno::EEXIST => return Err(Error::ImageExists(to.to_owned())),
        done => done?,
    }
    update(io, SET, to).await?;
    gone(update(io, REMOVE, from).await)?;
    image.inner.header_changed().await?;
    gone(io.remove(&*image.inner.header).await.map_err(Error::from))
}

/// Whether an image of format 2 has this name.
async fn names_new(io: &IoCtx, name: &Name) -> Result<bool, Error> {
    match io.stat(names::id_object(name)).await {
        Err(e) if e.errno() == Errno::ENOENT => Ok(false),
        found => Ok(found.map(|_| true)?),
    }
}

/// Removes an image and its data. Can be repeated after a failure.
pub(crate) async fn remove(io: &IoCtx, name: &Name, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    empty_named(io, name, "", progress).await?;
    gone(io.remove(names::old_header(name)).await.map_err(Error::from))?;
    unlist(io, name).await
}

/// Removes an image's entry from the directory. A repeated call does nothing.
pub(crate) async fn unlist(io: &IoCtx, name: &Name) -> Result<(), Error> {
    gone(update(io, REMOVE, name).await)
}

/// Adds an image to the directory, even if it is already there.
pub(crate) async fn list_again(io: &IoCtx, name: &Name) -> Result<(), Error> {
    update(io, SET, name).await
}

/// Sets or removes an image's entry in the directory.
async fn update(io: &IoCtx, step: u8, name: &Name) -> Result<(), Error> {
    let mut w = Writer::new();
    w.u8(step);
    w.put(name);
    if step == SET {
        w.put("");
    }
    let op = OsdOp::new(OpCode::TMAPUP).with_data(w.into_bytes());
    Ok(io.operate(names::DIRECTORY, WriteOp::new().op(op)).await?)
}
