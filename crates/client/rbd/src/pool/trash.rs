//! The trash of a pool and namespace: removed images that are kept for a while, under their ids.
//!
//! The name of an image in the trash is only in its entry in `rbd_trash`; the rest of the image is
//! unchanged. It may be a clone, have clones, and be opened by its id. The entry records the operation
//! in progress, so that an interrupted one can be continued. Facts: `librbd/api/Trash.cc`,
//! `librbd/trash/MoveRequest.cc`.

use std::time::Duration;

use loligo_rados::{Errno, IoCtx, WriteOp};
pub use loligo_wire::rbd::trash_source as source;
use loligo_wire::rbd::{TrashImage, op_feature, trash_state};
use loligo_wire::{Name, UTime};

use crate::call::{ask, gone, listed, tell, telling};
use crate::header::format1::has_header;
use crate::image::{Image, Mode, Which};
use crate::pool::empty::erase;
use crate::progress::report;
use crate::{Error, names};

/// An image in the trash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trashed {
    /// Its id.
    pub id: String,
    /// Its name before it was removed.
    pub name: Name,
    /// The [`source`] that moved it to the trash.
    pub source: u8,
    /// When it was moved to the trash.
    pub deleted: UTime,
    /// Until this time it is removed only by force.
    pub keep_until: UTime,
}

/// Lists the images in the trash, by id.
///
/// # Errors
/// The trash cannot be read.
pub async fn list(io: &IoCtx) -> Result<Vec<Trashed>, Error> {
    let of = |(id, image): (String, TrashImage)| {
        let TrashImage { name, source, deleted, keep_until, .. } = image;
        Trashed { id, name, source, deleted, keep_until }
    };
    Ok(all(io).await?.into_iter().map(of).collect())
}

async fn all(io: &IoCtx) -> Result<Vec<(String, TrashImage)>, Error> {
    listed(io, names::TRASH, "trash_list", |(id, _): &(String, TrashImage)| id.as_bytes()).await
}

/// Moves an image to the trash, where it is kept for at least `keep`. Can be repeated after a failure.
///
/// # Errors
/// [`Error::NoImage`]; [`Error::InGroup`]; EBUSY if another client does not release the exclusive lock.
pub async fn put(io: &IoCtx, name: impl Into<Name>, keep: Duration) -> Result<(), Error> {
    let name = &name.into();
    put_by(io, name, source::USER, keep).await
}

/// Whether a user moved an image to the trash, and may restore it.
pub fn is_users(source: u8) -> bool {
    [source::USER, source::USER_PARENT].contains(&source)
}

/// Moves an image to the trash that cannot be removed because clones need its snapshots: it is removed
/// after the last clone.
///
/// # Errors
/// As [`put`].
pub async fn put_parent(io: &IoCtx, name: impl Into<Name>) -> Result<(), Error> {
    let name = &name.into();
    put_by(io, name, source::USER_PARENT, Duration::ZERO).await
}

/// Removes an image that [`put_parent`] has moved to the trash, if no clone needs it any more.
pub(crate) async fn remove_parent(io: &IoCtx, id: &str) -> Result<(), Error> {
    match entry(io, id).await {
        Ok(entry) if entry.source == source::USER_PARENT => remove(io, id, false, |_, _| ()).await,
        Ok(_) | Err(Error::NotInTrash(_)) => Ok(()),
        Err(e) => Err(e),
    }
}

async fn put_by(io: &IoCtx, name: &Name, source: u8, keep: Duration) -> Result<(), Error> {
    let id = match ask(io, names::DIRECTORY, "dir_get_id", |w| w.put(name)).await {
        Err(e) if e.is_not_found() => match half_put(io, name).await {
            Err(Error::NoImage(_)) if has_header(io, name).await? => {
                return Err(Error::OldFormat { what: "be put into the trash", errno: Errno::EOPNOTSUPP });
            }
            id => id?,
        },
        id => id?,
    };
    let image = match Image::open_at(io, Which::Known { name, id: &id }, None, Mode::ReadWrite).await {
        // The header is lost; the rest is moved to the trash.
        Err(Error::NoImage(_)) => None,
        Err(Error::NonPrimary) => return Err(Error::RemovesNonPrimary),
        image => Some(image?),
    };
    if let Some(image) = &image {
        image.inner.check_parted()?;
    }
    if let Some(image) = &image
        && image.view().op_features & op_feature::GROUP != 0
    {
        return Err(Error::InGroup);
    }
    let put = {
        let _all = match &image {
            Some(image) => Some(image.inner.enter_alone().await?),
            None => None,
        };
        put_away(io, name, &id, source, keep).await
    };
    if let Some(image) = image {
        // The operation is complete; a failure to close does not matter.
        let _ = image.close().await;
    }
    put
}

/// The id of an image of this name whose move to the trash was interrupted.
async fn half_put(io: &IoCtx, name: &Name) -> Result<String, Error> {
    let is_it = |image: &TrashImage| {
        is_users(image.source) && image.state == trash_state::MOVING && image.name == name
    };
    let found = all(io).await?.into_iter().find(|(_, image)| is_it(image));
    found.map(|(id, _)| id).ok_or_else(|| Error::NoImage(name.to_owned()))
}

/// Moves an image to the trash. The entry is added first, so that an interrupted move can be found and
/// continued.
pub(crate) async fn put_away(
    io: &IoCtx,
    name: &Name,
    id: &str,
    source: u8,
    keep: Duration,
) -> Result<(), Error> {
    let deleted = UTime::now();
    let entry = TrashImage {
        source,
        name: name.to_owned(),
        deleted,
        keep_until: deleted + keep,
        state: trash_state::MOVING,
    };
    let added = tell(io, names::TRASH, "trash_add", |w| {
        w.put(id);
        w.put(&entry);
    })
    .await;
    match added {
        Err(e) if e.errno() == Errno::EEXIST => {}
        added => added?,
    }
    gone(io.remove(names::id_object(name)).await.map_err(Error::from))?;
    gone(
        tell(io, names::DIRECTORY, "dir_remove_image", |w| {
            w.put(name);
            w.put(id);
        })
        .await,
    )?;
    set_state(io, id, trash_state::NORMAL, trash_state::MOVING).await
}

/// Changes an entry's state; ESTALE if it is neither `from` nor `state`.
async fn set_state(io: &IoCtx, id: &str, state: u8, from: u8) -> Result<(), Error> {
    tell(io, names::TRASH, "trash_state_set", |w| {
        w.put(id);
        w.u8(state);
        w.u8(from);
    })
    .await
}

async fn entry(io: &IoCtx, id: &str) -> Result<TrashImage, Error> {
    match ask(io, names::TRASH, "trash_get", |w| w.put(id)).await {
        Err(e) if e.is_not_found() => Err(Error::NotInTrash(id.to_owned())),
        entry => entry,
    }
}

/// Restores an image from the trash, under its old name or a new one. Can be repeated after a failure.
///
/// # Errors
/// [`Error::NotInTrash`]; [`Error::ImageExists`]; EINVAL if neither a user nor a mirror moved it there;
/// EBUSY if another operation on it is in progress.
pub async fn restore(io: &IoCtx, id: &str, name: Option<&Name>) -> Result<(), Error> {
    let entry = entry(io, id).await?;
    if ![source::USER, source::MIRRORING, source::USER_PARENT].contains(&entry.source) {
        return Err(Errno::EINVAL.into());
    }
    if ![trash_state::NORMAL, trash_state::RESTORING].contains(&entry.state) {
        return Err(Errno::EBUSY.into());
    }
    let name = name.unwrap_or(&entry.name);
    names::checked(name)?;
    set_state(io, id, trash_state::RESTORING, trash_state::NORMAL).await?;
    let named = name_again(io, id, name).await;
    if named.is_err() {
        // The first failure is returned.
        let _ = set_state(io, id, trash_state::NORMAL, trash_state::RESTORING).await;
        return named;
    }
    tell(io, names::TRASH, "trash_remove", |w| w.put(id)).await
}

/// Restores an image that a migration moved to the trash, under this name. Can be repeated after a
/// failure; does nothing for an image that is not in the trash.
pub(crate) async fn take_out(io: &IoCtx, id: &str, name: &Name) -> Result<(), Error> {
    match entry(io, id).await {
        Err(Error::NotInTrash(_)) => return Ok(()),
        entry => entry?,
    };
    name_again(io, id, name).await?;
    gone(tell(io, names::TRASH, "trash_remove", |w| w.put(id)).await)
}

async fn name_again(io: &IoCtx, id: &str, name: &Name) -> Result<(), Error> {
    let named = telling(WriteOp::new().create(true), "set_id", |w| w.put(id));
    match io.operate(names::id_object(name), named).await {
        Err(e) if e.errno() == Errno::EEXIST => {
            let holder: String = ask(io, &names::id_object(name), "get_id", |_| {}).await?;
            if holder != id {
                return Err(Error::ImageExists(name.to_owned()));
            }
        }
        done => done?,
    }
    let added = tell(io, names::DIRECTORY, "dir_add_image", |w| {
        w.put(name);
        w.put(id);
    })
    .await;
    match added {
        // It has the name already.
        Err(e) if e.errno() == Errno::EEXIST => Ok(()),
        added => added,
    }
}

/// Removes an image in the trash permanently. `progress` gets the number of objects removed, and of all
/// objects. Can be repeated after a failure.
///
/// # Errors
/// [`Error::NotInTrash`]; [`Error::KeptUntil`] without `force`; as [`remove`](crate::remove).
pub async fn remove(io: &IoCtx, id: &str, force: bool, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    let entry = entry(io, id).await?;
    if !force && entry.keep_until > UTime::now() {
        return Err(Error::KeptUntil(entry.keep_until.civil()));
    }
    match entry.state {
        trash_state::NORMAL | trash_state::REMOVING => {}
        trash_state::MOVING => return Err(Errno::EUCLEAN.into()),
        _ => return Err(Errno::EBUSY.into()),
    }
    set_state(io, id, trash_state::REMOVING, trash_state::NORMAL).await?;
    let erased = erase(io, &entry.name, id, progress).await;
    if erased.is_err() {
        // The first failure is returned.
        let _ = set_state(io, id, trash_state::NORMAL, trash_state::REMOVING).await;
        return erased;
    }
    gone(tell(io, names::TRASH, "trash_remove", |w| w.put(id)).await)
}

/// Removes all images that users moved to the trash and that need not be kept after `time`, clones
/// before their parents. `progress` gets the number of images removed, and of all images.
///
/// # Errors
/// [`Error::Kept`] if some images could not be removed, because they have snapshots or are in use; it
/// has the first one's error.
pub async fn purge(io: &IoCtx, time: UTime, mut progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    let mut left = list(io).await?;
    left.retain(|image| is_users(image.source) && image.keep_until <= time);
    let (mut done, all) = (0, left.len() as u64);
    loop {
        let (before, mut why) = (left.len(), None);
        let mut kept = Vec::new();
        for image in left {
            match remove(io, &image.id, true, |_, _| {}).await {
                Err(Error::NotInTrash(_)) | Ok(()) => {
                    done += 1;
                    report(&mut progress, done, all).await;
                }
                Err(e) => {
                    why.get_or_insert(e);
                    kept.push(image);
                }
            }
        }
        match why {
            None => return Ok(()),
            // Parents of removed images may be removable now.
            Some(_) if kept.len() < before => left = kept,
            Some(why) => return Err(Error::Kept { count: kept.len(), why: Box::new(why) }),
        }
    }
}
