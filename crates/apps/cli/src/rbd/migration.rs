//! `loligo rbd migration`: moves an image while it is in use.

use loligo_rados::{Errno, Rados};
use loligo_rbd::migration::{self, End, Status};
use loligo_rbd::{Ancestry, Error};
use serde_json::{Value, json};

use super::args::Migration;
use super::show::{path, pool_name};
use super::spec::ImageName;
use super::{Bar, Place, named_so, new_copy};
use crate::failure::{Context, Failure};
use crate::name::{Name, shown};
use crate::say::say_line;

pub(super) async fn run(place: &Place, command: &Migration) -> Result<(), Failure> {
    match command {
        Migration::Prepare { image, to, shape, flatten } => {
            if shape.image_format == Some(1) {
                let why = "an image is migrated to format 2";
                return Err(Failure::of(Errno::EINVAL, format!("migration prepare {image}"), why));
            }
            let (io, name) = place.image(image).await?;
            let named = to.as_ref().map(|to| named_so(to, ImageName::parse(to, None))).transpose()?;
            let to = named.as_ref().map_or(&name, |named| &named.image).clone();
            // Without a pool the image stays in its pool.
            let to_io = match &named {
                Some(named) if named.at.pool.is_some() => place.io(&named.at).await?,
                _ => io.clone(),
            };
            let ancestry = if *flatten { Ancestry::Flattened } else { Ancestry::Kept };
            let new = new_copy(place, &to_io, shape).await?;
            let prepared = migration::prepare(&io, &name, &to_io, &to, new, ancestry).await;
            prepared.context(|| format!("migration prepare {image}"))
        }
        Migration::Execute { image, quiet } => {
            let (io, name) = place.image(image).await?;
            let bar = Bar::new("Image migration", quiet);
            let done = migration::execute(&io, &name, |n, of| bar.at(n, of)).await;
            done.context(|| format!("migration execute {image}"))
        }
        Migration::Commit { image, quiet } => {
            let (io, name) = place.image(image).await?;
            let bar = Bar::new("Commit image migration", quiet);
            let done = migration::commit(&io, &name, |n, of| bar.at(n, of)).await;
            done.context(|| format!("migration commit {image}"))
        }
        Migration::Abort { image, quiet } => {
            let (io, name) = place.image(image).await?;
            let bar = Bar::new("Abort image migration", quiet);
            let done = migration::abort(&io, &name, |n, of| bar.at(n, of)).await;
            done.context(|| format!("migration abort {image}"))
        }
    }
}

/// Returns the progress of an image's migration, if it is in one that has a status.
pub(super) async fn status(place: &Place, text: &Name) -> Result<Option<Status>, Failure> {
    let (io, name) = place.image(text).await?;
    match migration::status(&io, &name).await {
        // An image with unsupported features has no status to show.
        Err(Error::Features(_)) => Ok(None),
        status => status.context(|| format!("status {text}")),
    }
}

/// Formats a status as `rbd status` does.
pub(super) fn json(rados: &Rados, status: &Status) -> Value {
    let Status { source, destination, state, description } = status;
    json!({
        "source_pool_name": pool_name(rados, source.pool), "source_pool_namespace": shown(&source.namespace),
        "source_image_name": shown(&source.name), "source_image_id": source.id,
        "dest_pool_name": pool_name(rados, destination.pool), "dest_pool_namespace": shown(&destination.namespace),
        "dest_image_name": shown(&destination.name), "dest_image_id": destination.id,
        "state": state.name(), "state_description": description,
    })
}

/// Prints the status for people.
pub(super) fn show(rados: &Rados, status: &Status) {
    let end = |end: &End| {
        let id = if end.id.is_empty() { String::new() } else { format!(" ({})", end.id) };
        format!("{}{id}", path(rados, end.pool, &end.namespace, &end.name))
    };
    sayln!("Migration:");
    say_line(&format!("\tsource: {}", end(&status.source)));
    say_line(&format!("\tdestination: {}", end(&status.destination)));
    let description = match &*status.description {
        "" => String::new(),
        description => format!(" ({description})"),
    };
    sayln!("\tstate: {}{description}", status.state.name());
}
