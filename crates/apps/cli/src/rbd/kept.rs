//! Data stored beside an image: its object maps, and its users' keys and values.

use std::collections::BTreeMap;

use loligo_rbd::{Image, Mode};
use serde_json::json;

use super::args::{ImageMeta, ObjectMap};
use super::{Bar, Place, closing, show};
use crate::args::Format;
use crate::failure::{Context, Failure};
use crate::name::shown;
use crate::say::say_line;
use crate::stdio::print_lines;
use crate::words::CalledAs;

pub(super) async fn object_map(place: &Place, command: &ObjectMap) -> Result<(), Failure> {
    let (ObjectMap::Check { image: text, .. } | ObjectMap::Rebuild { image: text, .. }) = command;
    let (io, name, snap) = place.image_or_snapshot(text).await?;
    let image = Image::open(&io, &name, Mode::ReadWrite).await.context(|| format!("open {text}"))?;
    let done = match (command, &snap) {
        (ObjectMap::Check { .. }, None) => image.check_object_map().await,
        (ObjectMap::Check { .. }, Some(snap)) => image.check_snapshot_object_map(snap).await,
        (ObjectMap::Rebuild { quiet, .. }, snap) => {
            let bar = Bar::new("Object Map Rebuild", quiet);
            let told = |n, of| bar.at(n, of);
            let made = match snap {
                None => image.rebuild_object_map(told).await,
                Some(snap) => image.rebuild_snapshot_object_map(snap, told).await,
            };
            made.map(|()| Vec::new())
        }
    };
    let missed = closing(image, done, &format!("object-map {text}")).await?;
    match missed.first() {
        None => Ok(()),
        Some(first) => {
            let why = format!("object {first} and {} more are not in the map", missed.len() - 1);
            Err(Failure::new(format!("object-map {text}"), why))
        }
    }
}

pub(super) async fn image_meta(place: &Place, command: &ImageMeta) -> Result<(), Failure> {
    let (ImageMeta::List { image: text }
    | ImageMeta::Get { image: text, .. }
    | ImageMeta::Set { image: text, .. }
    | ImageMeta::Remove { image: text, .. }) = command;
    let what = || format!("image-meta {text}");
    let image = place.open(text, Mode::Header).await?;
    match command {
        ImageMeta::Set { key, value, .. } => {
            image.set_metadata(key, value.clone().into()).await.context(what)
        }
        ImageMeta::Remove { key, .. } => image.remove_metadata(key).await.context(what),
        ImageMeta::Get { key, .. } => {
            let all = image.metadata().await.context(what)?;
            let value = all.get(&**key).ok_or_else(|| Failure::new(what(), format!("no key '{key}'")))?;
            print_lines(std::iter::once(value))
        }
        ImageMeta::List { .. } => {
            let all = image.metadata().await.context(what)?;
            match place.format {
                Format::Plain if place.called == CalledAs::Rbd => show::metadata(&all),
                Format::Plain => {
                    all.iter().for_each(|(key, value)| say_line(&format!("{}\t{}", shown(key), shown(value))))
                }
                _ => {
                    let all: BTreeMap<_, _> =
                        all.iter().map(|(key, value)| (shown(key), shown(value))).collect();
                    place.format.print("metadata", "item", &json!(all));
                }
            }
            Ok(())
        }
    }
}
