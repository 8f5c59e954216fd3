//! Commands about images as a whole: list, show, rename, copy, remove.

use std::time::Duration;

use bytes::Bytes;
use loligo_rados::IoCtx;
use loligo_rbd::{Ancestry, Error, Image, Mode, NewCopy, Usage};
use serde_json::json;

use super::args::{ById, CloneShape, Quiet};
use super::spec::{At, ImageName};
use super::{Bar, Place, config, list, named_so, new_copy, show};
use crate::args::Format;
use crate::failure::{Context, Failure};
use crate::name::{self, Name};
use crate::stdio::print_lines;

pub(super) async fn rename(place: &Place, image: &str, to: &str) -> Result<(), Failure> {
    let what = format!("rename {image} to {to}");
    let from = named_so(image, ImageName::parse(image, place.snap.as_deref()))?;
    let mut to = named_so(to, ImageName::parse(to, None))?;
    if to.at == At::default() {
        to.at = from.at.clone();
    }
    place.same_place(&what, &from.at, &to.at)?;
    let io = place.io(&from.at).await?;
    loligo_rbd::rename(&io, &from.image, &to.image).await.context(|| what)
}

pub(super) async fn list(place: &Place, named: Option<&str>, long: bool) -> Result<(), Failure> {
    let io = place.named(named).await?;
    let images = loligo_rbd::list_all(&io).await.context(|| "ls".to_owned())?;
    // Those of the first format, which have no id, come first, as `rbd` lists them.
    let (old, new): (Vec<_>, Vec<_>) = images.into_iter().partition(|(_, id)| id.is_empty());
    let names: Vec<Bytes> = old.into_iter().chain(new).map(|(name, _)| name).collect();
    if long {
        return list::long(place, &io, text_names(names, "ls").iter()).await;
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

/// The images that a command can look at; it says which it cannot, as it shows the others.
fn text_names(names: impl IntoIterator<Item = Bytes>, what: &str) -> Vec<String> {
    let text = |name: Bytes| {
        let name = Name::from(name.to_vec());
        if name.as_text().is_none() {
            let failure = Failure::new(format!("{what} {name}"), "left out: its name is not UTF-8");
            eprintln!("loligo: {failure}");
        }
        name.as_text().map(str::to_owned)
    };
    names.into_iter().filter_map(text).collect()
}

/// Removes an image, or puts it into the trash where that is configured.
pub(super) async fn remove(place: &Place, text: &str, quiet: &Quiet) -> Result<(), Failure> {
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

pub(super) async fn info(place: &Place, text: &str, by: &ById) -> Result<(), Failure> {
    let (io, name, snap) = place.image_or_snapshot(text).await?;
    let image = match by.by_id {
        true => Image::open_header_by_id(&io, &name, snap.as_deref()).await,
        false => Image::open_header(&io, &name, snap.as_deref()).await,
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
    from: &str,
    to: &str,
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
    from: &str,
    to: &str,
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

pub(super) async fn usage(place: &Place, named: Option<&str>) -> Result<(), Failure> {
    let all_of = named.is_none();
    let named = match named {
        Some(text) => vec![place.image_or_snapshot(text).await?],
        None => {
            let io = place.io(&At::default()).await?;
            let images = loligo_rbd::list_all(&io).await.context(|| "du".to_owned())?;
            let images = text_names(images.into_keys(), "du");
            images.into_iter().map(|image| (io.clone(), image, None)).collect()
        }
    };
    let mut all = Vec::new();
    for (io, name, snap) in named {
        let what = || format!("du {name}");
        let (id, mut used) = match usage_of(&io, &name).await {
            // Of all images, one that is broken is no reason not to show the others.
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

async fn usage_of(io: &IoCtx, name: &str) -> Result<(String, Vec<Usage>), Error> {
    let image = Image::open(io, name, Mode::ReadOnly).await?;
    Ok((image.id().to_owned(), image.usage().await?))
}
