//! Images of format 1. `NAME.rbd` is the header, and the bytes of `rbd_directory` list the images
//! (TMAP).
//!
//! They have no id, no features and no lock, and exist only in a pool's default namespace. A copy of one
//! has format 2.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use loligo_rados::{Errno, IoCtx, WriteOp};
use loligo_wire::message::osd::{OpCode, OsdOp};
use loligo_wire::rbd::{OldHeader, OldSnap, SnapInfo, SnapKind};
use loligo_wire::{Encode as _, Name, UTime, Writer};

use crate::call::decoded;
use crate::header::{Fixed, Format, Snapshot, View};
use crate::image::{Image, Inner};
use crate::images::{ORDERS, empty_named, gone};
use crate::{Error, migration, names};

/// The offset of the image's size in its header.
const SIZE_OFFSET: u64 = 80;

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

/// Whether the header exists.
pub(crate) async fn has_header(io: &IoCtx, name: &Name) -> Result<bool, Error> {
    match io.stat(names::old_header(name)).await {
        Err(e) if e.errno() == Errno::ENOENT => Ok(false),
        found => Ok(found.map(|_| true)?),
    }
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
    let migration = if header.is_migrating() { migration::spec_of(io, oid).await? } else { None };
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

impl Inner {
    /// Returns an error for an image of format 1, with the errno of stock clients.
    pub(crate) fn must_be_new(&self, what: &'static str, errno: Errno) -> Result<(), Error> {
        match self.fixed.format {
            Format::First => Err(Error::OldFormat { what, errno }),
            Format::Second => Ok(()),
        }
    }

    /// Sets the size in the header.
    pub(crate) async fn set_old_size(&self, size: u64) -> Result<(), Error> {
        Ok(self.io.write(&*self.header, SIZE_OFFSET, Bytes::copy_from_slice(&size.to_le_bytes())).await?)
    }
}
