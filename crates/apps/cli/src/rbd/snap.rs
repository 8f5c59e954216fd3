//! `loligo rbd snap`.

use loligo_rados::Errno;
use loligo_rbd::{Error, Image, Mode, SnapKind};

use super::args::{ById, Limit, Snap};
use super::spec::{At, SnapshotName};
use super::{Bar, Place, closing, group, named_so, open_named, show};
use crate::failure::{Context, Failure};
use crate::name::Name;

pub(super) async fn run(place: &Place, command: &Snap) -> Result<(), Failure> {
    match command {
        Snap::Ls { image, all, by } => list_snapshots(place, (image, by), *all).await,
        Snap::Purge { image: text, by, .. } => {
            let image = place.open_by(text, by, Mode::ReadWrite).await?;
            let done = purge(&image).await;
            closing(image, done, &format!("snap purge {text}")).await
        }
        Snap::Limit(limit) => snap_limit(place, limit).await,
        Snap::Rename { image, to } => rename_snapshot(place, image, to).await,
        Snap::Create { image, .. } | Snap::Rollback { image, .. } => {
            on_snapshot(place, image, &ById { by_id: false }, command).await
        }
        Snap::Rm { image, by, .. } | Snap::Protect { image, by } | Snap::Unprotect { image, by } => {
            on_snapshot(place, image, by, command).await
        }
    }
}

async fn list_snapshots(place: &Place, (text, by): (&Name, &ById), all: bool) -> Result<(), Failure> {
    let image = place.open_by(text, by, Mode::Header).await?;
    let made_with = if all { group::made_with(place, &image).await } else { Ok(Vec::new()) };
    let made_with = made_with.context(|| format!("snap ls {text}"))?;
    show::snapshots(&image.view().snapshots, &made_with, all, place.format);
    Ok(())
}

/// Renames a snapshot; the new name must be of the same image.
async fn rename_snapshot(place: &Place, text: &Name, to: &Name) -> Result<(), Failure> {
    let what = format!("snap rename {text} to {to}");
    let from = named_so(text, SnapshotName::parse(text, place.snap.as_ref()))?;
    let mut to = named_so(to, SnapshotName::parse(to, None))?;
    if to.of.at == At::default() {
        to.of.at = from.of.at.clone();
    }
    place.same_place(&what, &from.of.at, &to.of.at)?;
    if from.of.image != to.of.image {
        let why = format!("goes from image {} to image {}", from.of.image, to.of.image);
        return Err(Failure::of(Errno::EINVAL, what, why));
    }
    let io = place.io(&from.of.at).await?;
    let image = Image::open(&io, &from.of.image, Mode::ReadWrite).await.context(|| format!("open {text}"))?;
    let done = image.rename_snapshot(&from.snap, &to.snap).await;
    closing(image, done, &what).await
}

async fn on_snapshot(place: &Place, text: &Name, by: &ById, command: &Snap) -> Result<(), Failure> {
    let (io, image, name) = place.snapshot(text).await?;
    let image = open_named(&io, &image, by, Mode::ReadWrite).await.context(|| format!("open {text}"))?;
    let done = match command {
        Snap::Create { .. } => image.create_snapshot(&name).await,
        Snap::Rm { force, .. } => match force {
            true => remove_forced(place, &image, &name).await,
            false => image.remove_snapshot(&name).await,
        },
        Snap::Protect { .. } => image.protect_snapshot(&name).await,
        Snap::Unprotect { .. } => image.unprotect_snapshot(&name).await,
        Snap::Rollback { quiet, .. } => {
            let bar = Bar::new("Rolling back to snapshot", quiet);
            image.roll_back(&name, |n, of| bar.at(n, of)).await
        }
        Snap::Ls { .. } | Snap::Purge { .. } | Snap::Rename { .. } | Snap::Limit(_) => Ok(()),
    };
    closing(image, done, &format!("snap {text}")).await
}

/// Flattens a snapshot's clones, so that nothing depends on it, and removes it even if it is protected.
async fn remove_forced(place: &Place, image: &Image, name: &Name) -> Result<(), Error> {
    for child in image.children(Some(name)).await? {
        let io = place.rados.ioctx_by_id(child.pool).with_namespace(child.namespace.clone());
        let clone = Image::open_by_id(&io, &child.id, Mode::ReadWrite).await?;
        let flat = clone.flatten(|_, _| {}).await;
        let closed = clone.close().await;
        flat.and(closed)?;
    }
    if image.view().snapshot(name).is_ok_and(|snap| snap.protected) {
        image.unprotect_snapshot(name).await?;
    }
    image.remove_snapshot(name).await
}

async fn snap_limit(place: &Place, command: &Limit) -> Result<(), Failure> {
    let (text, limit) = match command {
        Limit::Set { image, limit } => (image, Some(*limit)),
        Limit::Clear { image } => (image, None),
    };
    let image = place.open(text, Mode::Header).await?;
    image.limit_snapshots(limit).await.context(|| format!("snap limit {text}"))
}

async fn purge(image: &Image) -> Result<(), Error> {
    let view = image.view();
    let of_users = || view.snapshots.iter().filter(|snap| snap.info.kind == SnapKind::User);
    for snap in of_users().filter(|snap| !snap.protected) {
        image.remove_snapshot(&snap.info.name).await?;
    }
    match of_users().find(|snap| snap.protected) {
        Some(snap) => Err(Error::SnapshotBusy(snap.info.name.clone())),
        None => Ok(()),
    }
}
