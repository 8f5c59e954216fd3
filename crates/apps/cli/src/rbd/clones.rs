//! `loligo rbd clone` and `children`.

use loligo_rbd::{Error, Image, Mode, NewClone};
use serde_json::{Value, json};

use super::args::{ById, CloneShape};
use super::show::{path, pool_name};
use super::{Place, config, data_pool, defaults, open_named, order, wanted};
use crate::args::Format;
use crate::failure::{Context, Failure};
use crate::name::{Name, shown};
use crate::say::say_line;

pub(super) async fn make(
    place: &Place,
    snapshot: &Name,
    image: &Name,
    shape: &CloneShape,
) -> Result<(), Failure> {
    let (from, parent, snap) = place.snapshot(snapshot).await?;
    let (io, name) = place.new_image(image).await?;
    let conf = config::of_pool_of(place, &io).await;
    let new = NewClone {
        order: order(shape)?,
        features: wanted("--image-feature", &shape.image_feature)?,
        striping: shape.spread.stripe_unit.zip(shape.spread.stripe_count),
        data_pool: data_pool(place, &io, shape.spread.data_pool.as_deref()).await?,
        pool_unchecked: defaults::pool_unchecked(&conf)?,
        format: defaults::clone_format(&conf)?,
    };
    let made = loligo_rbd::clone(&from, &parent, &snap, &io, &name, new).await;
    let no_parent = matches!(&made, Err(Error::NoSnapshot(_) | Error::NoImage(_)));
    let why = if no_parent { ": failed to open parent image" } else { "" };
    made.context(|| format!("clone {snapshot} to {image}{why}"))
}

pub(super) async fn list(
    place: &Place,
    (image, by): (&Name, &ById),
    all: bool,
    descendants: bool,
) -> Result<(), Failure> {
    let (io, name, snap) = place.image_or_snapshot(image).await?;
    let open = open_named(&io, &name, by, Mode::ReadOnly).await.context(|| format!("open {image}"))?;
    let mut children = open.children(snap.as_ref()).await.context(|| format!("children {image}"))?;
    let mut at = 0;
    // A clone has one parent, so no image is listed twice.
    while descendants && at < children.len() {
        let child = &children[at];
        let io = place.rados.ioctx_by_id(child.pool).with_namespace(child.namespace.clone());
        let open = Image::open_by_id(&io, &child.id, Mode::Header).await;
        let more = open.context(|| format!("open {}", child.name))?.children(None).await;
        children.extend(more.context(|| format!("children {}", child.name))?);
        at += 1;
    }
    children.retain(|child| all || !child.in_trash);
    for child in children.iter().filter(|_| place.format == Format::Plain) {
        let trash = if child.in_trash { format!(" (trash {})", child.id) } else { String::new() };
        say_line(&format!("{}{trash}", path(&place.rados, child.pool, &child.namespace, &child.name)));
    }
    if place.format != Format::Plain {
        let one = |child: &loligo_rbd::Child| {
            let pool = pool_name(&place.rados, child.pool);
            let mut one =
                json!({"pool": pool, "pool_namespace": shown(&child.namespace), "image": shown(&child.name)});
            if all {
                one["id"] = child.id.clone().into();
                one["trash"] = child.in_trash.into();
            }
            one
        };
        place.format.print("children", "child", &Value::from(children.iter().map(one).collect::<Vec<_>>()));
    }
    Ok(())
}
