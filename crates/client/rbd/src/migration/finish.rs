//! The last step of a migration: one of the two images is removed.
//!
//! A commit first removes the migration from the destination's header, so that it cannot be aborted any
//! more, then removes the source. A source whose destination has no migration is removed by a repeated
//! commit. An abort first marks the destination as unusable, and in the end removes the migration from
//! the source's header.

use loligo_rados::{Errno, IoCtx, SnapId};
use loligo_wire::Name;
use loligo_wire::rbd::{Migration, op_feature, trash_source};

use super::children::{self, Mapped};
use super::pair::{Pair, Place, apart};
use super::revert;
use crate::call::{ask, gone, tell};
use crate::header::Format;
use crate::header::migration::{State, spec_of, tell_state};
use crate::image::Image;
use crate::pool::empty::empty;
use crate::pool::format1;
use crate::{Error, names, trash};

/// Completes a migration: removes the source with its snapshots. `progress` gets the number of objects
/// removed, and of all objects. `name` is that of either image. Can be repeated after a failure.
///
/// # Errors
/// [`Error::NoImage`]; [`Error::NotMigrating`]; [`Error::MigrationState`] unless it was executed;
/// [`Error::InUse`] if another client has the source open for writing.
pub async fn commit(io: &IoCtx, name: impl Into<Name>, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    let name = &name.into();
    let pair = match Pair::find(io, name).await {
        Err(Error::NotMigrating) => Pair::left_over(io, name).await?,
        pair => pair?,
    };
    if pair.state() != State::Executed {
        return Err(Error::MigrationState { state: pair.state().name(), wanted: "executed" });
    }
    if pair.specs[1].is_some() {
        let destination = pair.open_destination().await?;
        let done = unmark(&destination).await;
        let closed = destination.close().await;
        done.and(closed)?;
    }
    let Place { io, name, id } = &pair.source;
    if let Some(source) = apart(io, name, id).await? {
        let removed = empty_source(&source, progress).await;
        let closed = source.close().await;
        removed.and(closed)?;
    }
    let header = pair.source.header();
    if id.is_empty() {
        gone(io.remove(header).await.map_err(Error::from))?;
        return format1::unlist(io, name).await;
    }
    for oid in [names::object_map(id, None), header] {
        gone(io.remove(oid).await.map_err(Error::from))?;
    }
    gone(tell(io, names::TRASH, "trash_remove", |w| w.put(id)).await)
}

/// Removes the migration from an image's header.
async fn unmark(image: &Image) -> Result<(), Error> {
    gone(tell(&image.inner.io, &image.inner.header, "migration_remove", |_| {}).await)?;
    image.inner.header_changed().await
}

/// Removes the data and snapshots of the source.
async fn empty_source(source: &Image, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    if !source.is_alone().await? {
        return Err(Error::InUse);
    }
    remove_snapshots(source).await?;
    empty(source, progress).await
}

async fn remove_snapshots(image: &Image) -> Result<(), Error> {
    for snap in image.view().snapshots.iter().rev() {
        if snap.protected {
            image.unprotect_snapshot(&snap.info.name).await?;
        }
        image.remove_snapshot_of(&snap.info.name, &snap.info.kind).await?;
    }
    Ok(())
}

/// Aborts a migration: the source gets the destination's changes, its name, its group and its clones,
/// and the destination is removed. `progress` gets the number of objects done, and of all objects.
/// `name` is that of either image. Snapshots created of the destination are lost. Can be repeated after
/// a failure.
///
/// # Errors
/// [`Error::NoImage`]; [`Error::NotMigrating`]; [`Error::InUse`] if another client has one of the images
/// open for writing.
pub async fn abort(io: &IoCtx, name: impl Into<Name>, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    let name = &name.into();
    let pair = match Pair::find(io, name).await {
        Err(Error::NotMigrating) => return abort_half(io, name).await,
        pair => pair?,
    };
    let Place { io, name, id } = &pair.source;
    let source = apart(io, name, id).await?.ok_or_else(|| Error::NoImage(name.clone()))?;
    let back = match source.is_alone().await {
        Ok(true) => give_back(&pair, &source, progress).await,
        Ok(false) => Err(Error::InUse),
        Err(e) => Err(e),
    };
    let closed = source.close().await;
    back.and(closed)
}

/// Restores a source that is in the trash without a migration in its header, as an interrupted stock
/// client leaves it.
async fn abort_half(io: &IoCtx, name: &Name) -> Result<(), Error> {
    let sources = trash::list(io).await?;
    let source =
        sources.into_iter().find(|image| image.source == trash_source::MIGRATION && image.name == name);
    let Some(source) = source else { return Err(Error::NotMigrating) };
    relink_source(&Place { io: io.clone(), name: name.to_owned(), id: source.id }).await
}

/// Removes the destination, and restores the source with the changes made meanwhile.
pub(super) async fn give_back(
    pair: &Pair,
    source: &Image,
    mut progress: impl FnMut(u64, u64),
) -> Result<(), Error> {
    source.acquire_lock().await?;
    let to = &pair.destination;
    if let Some(destination) = apart(&to.io, &to.name, &to.id).await? {
        let reverted = give_all_back(pair, source, &destination, &mut progress).await;
        let closed = destination.close().await;
        reverted.and(closed)?;
    }
    let group = group_of(pair).await?;
    discard_destination(pair, progress).await?;
    relink_source(&pair.source).await?;
    if let Some((io, group)) = group {
        crate::group::add_image(&io, &group, &pair.source.io, &pair.source.name).await?;
    }
    unmark(source).await
}

/// Writes the destination's changes to the source, and relinks its clones.
async fn give_all_back(
    pair: &Pair,
    source: &Image,
    destination: &Image,
    progress: &mut impl FnMut(u64, u64),
) -> Result<(), Error> {
    if !destination.is_alone().await? {
        return Err(Error::InUse);
    }
    let Some(spec) = spec_of(&pair.destination.io, &pair.destination.header()).await? else { return Ok(()) };
    for place in [&pair.source, &pair.destination] {
        tell_state(&place.io, &place.header(), Migration::ABORTING, "").await?;
    }
    destination.inner.header_changed().await?;
    if spec.state != Migration::PREPARING {
        revert::revert(source, destination, &spec, progress).await?;
    }
    let snaps = spec.snap_seqs.iter().map(|(from, to)| Mapped { from: SnapId(*to), to: SnapId(*from) });
    children::relink(destination, source, &snaps.collect::<Vec<_>>()).await
}

/// The group of the destination.
async fn group_of(pair: &Pair) -> Result<Option<(IoCtx, Name)>, Error> {
    let to = &pair.destination;
    let Some(destination) = apart(&to.io, &to.name, &to.id).await? else { return Ok(None) };
    let group = destination.group().await;
    destination.close().await?;
    let io = |of: &crate::group::Belonging| {
        to.io.rados().ioctx_by_id(of.pool).with_namespace(of.namespace.clone())
    };
    Ok(group?.map(|of| (io(&of), of.name)))
}

/// Removes all parts of the destination.
pub(super) async fn discard_destination(pair: &Pair, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    let Place { io, name, id } = &pair.destination;
    if let Some(made) = apart(io, name, id).await? {
        let emptied = empty_destination(&made, progress).await;
        let closed = made.close().await;
        emptied.and(closed)?;
    }
    for oid in [names::object_map(id, None), names::header(id)] {
        gone(io.remove(oid).await.map_err(Error::from))?;
    }
    // The name may belong to another image now.
    match ask::<String>(io, &names::id_object(name), "get_id", |_| {}).await {
        Ok(named) if named == *id => gone(io.remove(names::id_object(name)).await.map_err(Error::from))?,
        Err(e) if !e.is_not_found() => return Err(e),
        _ => {}
    }
    let unlisted = tell(io, names::DIRECTORY, "dir_remove_image", |w| {
        w.put(name);
        w.put(id);
    });
    match unlisted.await {
        // Another image has the name.
        Err(e) if e.errno() == Errno::ESTALE => Ok(()),
        done => gone(done),
    }
}

async fn empty_destination(made: &Image, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    if !made.is_alone().await? {
        return Err(Error::InUse);
    }
    if made.view().op_features & op_feature::GROUP != 0
        && let Some(of) = made.group().await?
    {
        let io = made.inner.io.rados().ioctx_by_id(of.pool).with_namespace(of.namespace);
        crate::group::remove_image_by_id(&io, &of.name, &made.inner.io, made.id()).await?;
        made.inner.refresh().await?;
    }
    let largest = made.view().snapshots.iter().map(|snap| snap.info.size).max().unwrap_or(0);
    remove_snapshots(made).await?;
    empty(made, progress).await?;
    // An interrupted copy for a larger snapshot leaves objects behind the image's end.
    let layout = made.layout();
    for number in layout.object_count(made.size())..layout.object_count(largest) {
        gone(made.inner.data.remove(made.inner.fixed.object(number)).await.map_err(Error::from))?;
    }
    Ok(())
}

/// Restores the source's name.
pub(super) async fn relink_source(source: &Place) -> Result<(), Error> {
    let Place { io, name, id } = source;
    match Format::of_id(id) {
        Format::First => format1::list_again(io, name).await,
        Format::Second => trash::take_out(io, id, name).await,
    }
}
