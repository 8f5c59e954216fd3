//! Commands on whole images: list, show, rename, copy, remove.

use std::time::Duration;

use loligo_rados::IoCtx;
use loligo_rbd::{Ancestry, Error, Image, Mode, NewCopy, Usage};
use serde_json::json;

use super::args::{ById, CloneShape, Quiet};
use super::spec::{At, ImageName};
use super::{Bar, Place, config, list, named_so, new_copy, place, show};
use crate::args::Format;
use crate::failure::{Context, Failure};
use crate::name::{self, Name};
use crate::stdio::print_lines;

pub(super) async fn rename(place: &Place, image: &Name, to: &Name) -> Result<(), Failure> {
    let what = format!("rename {image} to {to}");
    let from = named_so(image, ImageName::parse(image, place.snap.as_ref()))?;
    let mut to = named_so(to, ImageName::parse(to, None))?;
    if to.at == At::default() {
        to.at = from.at.clone();
    }
    place.same_place(&what, &from.at, &to.at)?;
    let io = place.io(&from.at).await?;
    loligo_rbd::rename(&io, &from.image, &to.image).await.context(|| what)
}

pub(super) async fn list(place: &Place, named: Option<&Name>, long: bool) -> Result<(), Failure> {
    let io = place.named(named).await?;
    let images = loligo_rbd::list(&io).await.context(|| "ls".to_owned())?;
    // Images of the first format, which have no id, come first, as in `rbd`.
    let (old, new): (Vec<_>, Vec<_>) = images.into_iter().partition(|(_, id)| id.is_empty());
    let names: Vec<Name> = old.into_iter().chain(new).map(|(name, _)| name).collect();
    if long {
        return list::long(place, &io, names.iter()).await;
    }
    match place.format {
        Format::Plain => print_lines(names.iter()),
        _ => {
            let names: Vec<_> = names.iter().map(|name| name::text(name)).collect();
            place.format.print("images", "name", &json!(names));
            Ok(())
        }
    }
}

/// Removes an image, or moves it to the trash if that is configured.
pub(super) async fn remove(place: &Place, text: &Name, quiet: &Quiet) -> Result<(), Failure> {
    let what = || format!("rm {text}");
    let (io, name) = place.image(text).await?;
    let conf = config::of_pool_of(place, &io).await;
    if conf.bool("rbd_move_to_trash_on_remove", false).context(what)? {
        let keep = conf.u64("rbd_move_to_trash_on_remove_expire_seconds", 0).context(what)?;
        return loligo_rbd::trash::put(&io, &name, Duration::from_secs(keep)).await.context(what);
    }
    let bar = Bar::new("Removing image", quiet);
    match loligo_rbd::remove(&io, &name, |n, of| bar.at(n, of)).await {
        Err(Error::HasClones(_))
            if conf.bool("rbd_move_parent_to_trash_on_remove", false).context(what)? =>
        {
            loligo_rbd::trash::put_parent(&io, &name).await.context(what)
        }
        removed => removed.context(what),
    }
}

pub(super) async fn info(place: &Place, text: &Name, by: &ById) -> Result<(), Failure> {
    let (io, name, snap) = place.image_or_snapshot(text).await?;
    let image = match by.by_id {
        true => match place::id(&name) {
            Ok(id) => Image::open_header_by_id(&io, id, snap.as_ref()).await,
            Err(e) => Err(e),
        },
        false => Image::open_header(&io, &name, snap.as_ref()).await,
    };
    let image = image.context(|| format!("open {text}"))?;
    let view = image.view();
    let snap = match &snap {
        Some(snap) => Some(view.snapshot(snap).context(|| format!("info {text}"))?),
        None => None,
    };
    let parent = image.parent().await.context(|| format!("info {text}"))?;
    let group = image.group().await.context(|| format!("info {text}"))?;
    let of = show::Of { snap, parent: parent.as_ref(), group: group.as_ref() };
    show::info(&place.rados, &image, of, place.format);
    Ok(())
}

pub(super) async fn copy(
    place: &Place,
    from: &Name,
    to: &Name,
    shape: &CloneShape,
    sparse_size: u64,
    quiet: &Quiet,
) -> Result<(), Failure> {
    let (io, name) = place.new_image(to).await?;
    let (image, _) = place.open_to_read(from).await?;
    let new = NewCopy {
        sparse_bytes: usize::try_from(sparse_size).unwrap_or(usize::MAX),
        ..new_copy(place, &io, shape).await?
    };
    let bar = Bar::new("Image copy", quiet);
    let copied = image.copy(&io, &name, new, |n, of| bar.at(n, of)).await;
    copied.context(|| format!("cp {from} to {to}"))
}

pub(super) async fn deep_copy(
    place: &Place,
    from: &Name,
    to: &Name,
    shape: &CloneShape,
    ancestry: Ancestry,
    quiet: &Quiet,
) -> Result<(), Failure> {
    let (io, name) = place.new_image(to).await?;
    let (image, _) = place.open_to_read(from).await?;
    let new = new_copy(place, &io, shape).await?;
    let bar = Bar::new("Image deep copy", quiet);
    let copied = image.deep_copy(&io, &name, new, ancestry, |n, of| bar.at(n, of)).await;
    copied.context(|| format!("deep cp {from} to {to}"))
}

pub(super) async fn usage(place: &Place, named: Option<&Name>) -> Result<(), Failure> {
    let all_of = named.is_none();
    let named = match named {
        Some(text) => vec![place.image_or_snapshot(text).await?],
        None => {
            let io = place.io(&At::default()).await?;
            let images = loligo_rbd::list(&io).await.context(|| "du".to_owned())?;
            images.into_keys().map(|image| (io.clone(), image, None)).collect()
        }
    };
    let mut all = Vec::new();
    for (io, name, snap) in named {
        let what = || format!("du {name}");
        let (id, mut used) = match usage_of(&io, &name).await {
            // When all images are listed, a broken one does not prevent showing the others.
            Err(e) if all_of => {
                list::left_out("du", &name, &e);
                continue;
            }
            found => found.context(what)?,
        };
        if let Some(snap) = &snap {
            used.retain(|usage| usage.snapshot.as_ref().is_some_and(|(_, name)| name == snap));
            if used.is_empty() {
                return Err(Error::NoSnapshot(snap.clone())).context(what);
            }
        }
        all.push((name.clone(), id, used));
    }
    show::usage(&all, all_of, place.format);
    Ok(())
}

async fn usage_of(io: &IoCtx, name: &Name) -> Result<(String, Vec<Usage>), Error> {
    let image = Image::open(io, name, Mode::ReadOnly).await?;
    Ok((image.id().to_owned(), image.usage().await?))
}
