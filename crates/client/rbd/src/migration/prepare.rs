//! The first step of a migration: creates the destination, and moves the source out of the way.
//!
//! First, the source's header records the destination and its id. Then the source's name is removed (an
//! image of format 2 is moved to the trash), the destination is created, and both headers record that it
//! can be used. An interrupted preparation can be repeated: an incomplete destination is created again.

use std::time::Duration;

use loligo_rados::{IoCtx, SnapId};
use loligo_wire::Name;
use loligo_wire::rbd::{Migration, SnapKind, feature, trash_source};

use super::children::{self, Mapped};
use super::destination::{self, Plan};
use super::finish::{discard_destination, give_back, relink_source};
use super::pair::{Pair, Place, apart, known};
use crate::call::tell;
use crate::copy::{Ancestry, NewCopy};
use crate::header::Format;
use crate::header::migration::{State, spec_of};
use crate::image::{Image, Mode};
use crate::pool::create::new_id;
use crate::pool::format1;
use crate::{Error, features, group, names, trash};

/// Begins to move an image: creates `to_name`, which is used in its place from then on. Properties that
/// are not set are the source's. The destination of a clone is a clone of the same parent, or
/// [flattened](Ancestry::Flattened). A failure undoes all changes.
///
/// # Errors
/// [`Error::NoImage`]; [`Error::InUse`] if another client has the image open for writing;
/// [`Error::ImageExists`]; [`Error::MigrationSnapshots`]; as [`create`](crate::create()).
pub async fn prepare(
    io: &IoCtx,
    name: impl Into<Name>,
    to: &IoCtx,
    to_name: impl Into<Name>,
    new: NewCopy,
    ancestry: Ancestry,
) -> Result<(), Error> {
    let name = &name.into();
    let to_name = &to_name.into();
    names::checked(to_name)?;
    let begun = begun(io, name).await?;
    let source = match &begun {
        Some(pair) => {
            apart(io, name, &pair.source.id).await?.ok_or_else(|| Error::NoImage(name.to_owned()))?
        }
        None => first_look(io, name).await?,
    };
    let prepared = async {
        if !source.is_alone().await? {
            return Err(Error::InUse);
        }
        let flatten = ancestry == Ancestry::Flattened;
        let plan = Plan::of(&source, &new, flatten);
        check_snapshots(&source, &plan).await?;
        let pair = match begun {
            Some(pair) => resumed(pair, to, to_name).await?,
            None => begin(&source, io, to, to_name, flatten).await?,
        };
        let made = finish(&pair, &source, &plan).await;
        if made.is_err() {
            // Best effort; the first failure is returned.
            let _ = give_back(&pair, &source, |_, _| {}).await;
        }
        made
    };
    let prepared = prepared.await;
    let closed = source.close().await;
    prepared.and(closed)
}

/// The migration of an image whose preparation was interrupted.
async fn begun(io: &IoCtx, name: &Name) -> Result<Option<Pair>, Error> {
    let pair = match Pair::find(io, name).await {
        Err(Error::NotMigrating) => return half_begun(io, name).await,
        pair => pair?,
    };
    let is_source = pair.source.io.pool() == io.pool()
        && pair.source.io.namespace() == io.namespace()
        && pair.source.name == name;
    if !is_source {
        return Err(Error::Migrating("it goes on when that migration is committed"));
    }
    if pair.state() == State::Preparing {
        return Ok(Some(pair));
    }
    // The image of this name is only in the trash.
    Err(Error::NoImage(name.to_owned()))
}

/// Restores a source that is in the trash without a migration in its header, as an interrupted stock
/// client leaves it.
async fn half_begun(io: &IoCtx, name: &Name) -> Result<Option<Pair>, Error> {
    let found = Image::open_header(io, name, None).await;
    if !matches!(found, Err(Error::NoImage(_))) {
        return Ok(None);
    }
    let sources = trash::list(io).await?;
    let source =
        sources.into_iter().find(|image| image.source == trash_source::MIGRATION && image.name == name);
    let id = source.map(|source| source.id).ok_or_else(|| Error::NoImage(name.to_owned()))?;
    relink_source(&Place { io: io.clone(), name: name.to_owned(), id }).await?;
    Ok(None)
}

/// Opens the source normally once, with all checks, then ignoring migrations.
async fn first_look(io: &IoCtx, name: &Name) -> Result<Image, Error> {
    let image = Image::open(io, name, Mode::ReadWrite).await?;
    let (name, id) = (image.name().to_owned(), image.id().to_owned());
    let alone = image.is_alone().await;
    image.close().await?;
    if !alone? {
        return Err(Error::InUse);
    }
    Image::open_apart(io, known(&name, &id), Mode::ReadWrite).await
}

async fn check_snapshots(source: &Image, plan: &Plan) -> Result<(), Error> {
    for snap in &source.view().snapshots {
        match snap.info.kind {
            SnapKind::User => {}
            SnapKind::Trash { .. } => {
                return Err(Error::MigrationSnapshots(
                    "removed ones that clones still need; flatten the clones",
                ));
            }
            _ => return Err(Error::MigrationSnapshots("of groups, or of mirrors")),
        }
    }
    if plan.features() & feature::LAYERING == 0 && children::has_some(source).await? {
        let needs = format!("clones need {}", features::text(feature::LAYERING));
        return Err(Error::Switch { features: needs, why: "on the image that is to be their parent" });
    }
    Ok(())
}

/// Continues an interrupted preparation with the same destination.
async fn resumed(pair: Pair, to: &IoCtx, to_name: &Name) -> Result<Pair, Error> {
    let Place { io, name, .. } = &pair.destination;
    if (io.pool(), io.namespace(), &**name) != (to.pool(), to.namespace(), to_name) {
        return Err(Error::Migrating("it was to go to another place; rbd migration abort ends that"));
    }
    discard_destination(&pair, |_, _| {}).await?;
    Ok(pair)
}

/// Records the destination in the source's header.
async fn begin(source: &Image, io: &IoCtx, to: &IoCtx, to_name: &Name, flatten: bool) -> Result<Pair, Error> {
    if let Ok(taken) = Image::open_header(to, to_name, None).await
        && !(taken.id() == source.id() && (to.pool(), to.namespace()) == (io.pool(), io.namespace()))
    {
        return Err(Error::ImageExists(to_name.to_owned()));
    }
    let place = |io: &IoCtx, name: &Name, id: &str| Place {
        io: io.clone(),
        name: name.to_owned(),
        id: id.to_owned(),
    };
    let pair = Pair {
        source: place(io, source.name(), source.id()),
        destination: place(to, to_name, &new_id(to)),
        specs: [None, None],
    };
    source.acquire_lock().await?;
    let spec = pair.spec(Migration::SOURCE, flatten);
    tell(io, &source.inner.header, "migration_set", |w| w.put(&spec)).await?;
    source.inner.header_changed().await?;
    Ok(Pair { specs: [Some(spec), None], ..pair })
}

/// Removes the source's name, and creates the destination.
async fn finish(pair: &Pair, source: &Image, plan: &Plan) -> Result<(), Error> {
    let Place { io, name, id } = &pair.source;
    match source.format() {
        Format::First => format1::unlist(io, name).await?,
        Format::Second => trash::put_away(io, name, id, trash_source::MIGRATION, Duration::ZERO).await?,
    }
    destination::make(pair, source, plan).await?;
    move_group(source, &pair.source, &pair.destination).await?;
    pair.set_state(Migration::PREPARED, "").await?;
    let to = &pair.destination;
    let made = Image::open_apart(&to.io, known(&to.name, &to.id), Mode::ReadWrite).await?;
    let relinked = relink_clones(pair, source, &made).await;
    let told = made.inner.header_changed().await;
    let closed = made.close().await;
    relinked.and(told).and(closed)
}

/// Makes the destination the parent of the source's clones.
pub(super) async fn relink_clones(pair: &Pair, source: &Image, destination: &Image) -> Result<(), Error> {
    let to = &pair.destination;
    let spec = spec_of(&to.io, &to.header()).await?.ok_or(Error::NotMigrating)?;
    let snaps = spec.snap_seqs.iter();
    let snaps: Vec<Mapped> =
        snaps.map(|(from, to)| Mapped { from: SnapId(*from), to: SnapId(*to) }).collect();
    children::relink(source, destination, &snaps).await
}

/// Replaces an image by another one in its group.
pub(super) async fn move_group(image: &Image, from: &Place, to: &Place) -> Result<(), Error> {
    image.inner.refresh().await?;
    let Some(of) = image.group().await? else { return Ok(()) };
    let io = from.io.rados().ioctx_by_id(of.pool).with_namespace(of.namespace.clone());
    group::remove_image_by_id(&io, &of.name, &from.io, &from.id).await?;
    group::add_image(&io, &of.name, &to.io, &to.name).await
}
