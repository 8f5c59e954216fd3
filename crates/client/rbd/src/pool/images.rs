//! The images of a pool: the list of them, removal, and new names.

use std::collections::BTreeMap;

use loligo_rados::{Errno, IoCtx, WriteOp};
use loligo_wire::Name;

use super::directory::id_of;
use super::empty::erase;
use super::format1;
use crate::call::{gone, listed, tell, telling};
use crate::header::Format;
use crate::image::{Image, Mode};
use crate::{Error, names};

/// Lists the images by name, with their ids. The id of an image of format 1 is empty.
///
/// # Errors
/// The directory cannot be read. A missing directory means no images.
pub async fn list(io: &IoCtx) -> Result<BTreeMap<Name, String>, Error> {
    let new = listed(io, names::DIRECTORY, "dir_list", |(name, _): &(Name, String)| name.as_bytes()).await?;
    let old = format1::list(io).await?.into_iter().map(|name| (name, String::new()));
    Ok(old.chain(new).collect())
}

/// Removes an image and its data, and a clone's entry in its parent's list of clones. `progress` gets
/// the number of objects removed, and of all objects. If an image's header is lost, only its name is
/// removed.
///
/// # Errors
/// [`Error::NoImage`]; [`Error::HasSnapshots`]; [`Error::InUse`]; [`Error::InGroup`]. After a failure
/// the call can be repeated.
pub async fn remove(io: &IoCtx, name: impl Into<Name>, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    let name = &name.into();
    let id = match id_of(io, name).await {
        Err(Error::NoImage(_)) if format1::exists(io, name).await? => {
            return format1::remove(io, name, progress).await;
        }
        id => id?,
    };
    erase(io, name, &id, progress).await?;
    gone(io.remove(names::id_object(name)).await.map_err(Error::from))?;
    gone(
        tell(io, names::DIRECTORY, "dir_remove_image", |w| {
            w.put(name);
            w.put(&id);
        })
        .await,
    )
}

/// Removes an incomplete image with all its snapshots, also protected ones.
///
/// # Errors
/// As [`remove`]; [`Error::SnapshotBusy`] if a snapshot was cloned meanwhile.
pub async fn remove_with_snapshots(io: &IoCtx, name: impl Into<Name>) -> Result<(), Error> {
    let name = &name.into();
    let image = Image::open(io, name, Mode::ReadWrite).await?;
    for snap in &image.view().snapshots {
        if snap.protected {
            image.unprotect_snapshot(&snap.info.name).await?;
        }
        image.remove_snapshot(&snap.info.name).await?;
    }
    image.close().await?;
    remove(io, name, |_, _| {}).await
}

/// Renames an image.
///
/// # Errors
/// [`Error::NoImage`]; [`Error::ImageExists`].
pub async fn rename(io: &IoCtx, from: impl Into<Name>, to: impl Into<Name>) -> Result<(), Error> {
    let from = &from.into();
    let to = &to.into();
    names::checked(to)?;
    let image = Image::open(io, from, Mode::ReadOnly).await?;
    image.inner.check_view()?;
    if image.format() == Format::First {
        return format1::rename(&image, to).await;
    }
    if format1::exists(io, to).await? {
        return Err(Error::ImageExists(to.to_owned()));
    }
    let id = image.id().to_owned();
    let named = telling(WriteOp::new().create(true), "set_id", |w| w.put(&id));
    match io.operate(names::id_object(to), named).await {
        Err(e) if e.errno() == Errno::EEXIST => return Err(Error::ImageExists(to.to_owned())),
        done => done?,
    }
    let renamed = tell(io, names::DIRECTORY, "dir_rename_image", |w| {
        w.put(from);
        w.put(to);
        w.put(&id);
    })
    .await;
    if renamed.is_err() {
        let _ = io.remove(names::id_object(to)).await;
        return renamed;
    }
    gone(io.remove(names::id_object(from)).await.map_err(Error::from))?;
    image.inner.header_changed().await
}
