//! `loligo rbd trash`.

use std::process::Command;
use std::time::Duration;

use loligo_rados::{Errno, IoCtx};
use loligo_rbd::trash::{self, Trashed, source};
use loligo_rbd::{Error, Image, Mode, Parent};
use loligo_wire::UTime;
use serde_json::{Value, json};

use super::args::Trash;
use super::list::left_out;
use super::show::{date, path, pool_name, table};
use super::{Bar, Place};
use crate::args::Format;
use crate::failure::{Context, Failure};
use crate::name::{Name, shown};
use crate::say::say_line;

pub(super) async fn run(place: &Place, command: &Trash) -> Result<(), Failure> {
    match command {
        Trash::Mv { image, expires_at } => {
            let (io, name) = place.image(image).await?;
            let (until, now) = (time(expires_at)?, UTime::now());
            if until.sec < now.sec {
                return Err(Failure::of(
                    Errno::EINVAL,
                    format!("--expires-at {expires_at}"),
                    "lies in the past",
                ));
            }
            let keep = Duration::from_secs(u64::from(until.sec - now.sec));
            trash::put(&io, &name, keep).await.context(|| format!("trash mv {image}"))
        }
        Trash::Ls { place: named, all, long } => {
            list(place, &place.named(named.as_ref()).await?, *all, *long).await
        }
        Trash::Rm { id, force, quiet } => {
            let (io, image_id) = place.image(id).await?;
            let bar = Bar::new("Removing image", quiet);
            let removed = trash::remove(&io, in_trash(&image_id)?, *force, |n, of| bar.at(n, of)).await;
            removed.context(|| format!("trash rm {id}"))
        }
        Trash::Restore { id, image } => {
            let (io, image_id) = place.image(id).await?;
            let back = trash::restore(&io, in_trash(&image_id)?, image.as_ref()).await;
            back.context(|| format!("trash restore {id}"))
        }
        Trash::Purge { place: named, expired_before, quiet } => {
            let io = place.named(named.as_ref()).await?;
            let bar = Bar::new("Removing images", quiet);
            let purged = trash::purge(&io, time(expired_before)?, |n, of| bar.at(n, of)).await;
            purged.context(|| "trash purge".to_owned())
        }
    }
}

/// Returns a word as an id; ids are UTF-8.
fn in_trash(word: &Name) -> Result<&str, Failure> {
    let none = || Error::NotInTrash(word.to_string());
    word.as_text().ok_or_else(none).context(|| "trash".to_owned())
}

/// Parses a time in words with date(1), as `rbd` does.
fn time(words: &str) -> Result<UTime, Failure> {
    if words == "now" {
        return Ok(UTime::now());
    }
    let output =
        Command::new("date").args(["-d", words, "+%s"]).output().context(|| "run date".to_owned())?;
    let sec = String::from_utf8_lossy(&output.stdout).trim().parse();
    match sec {
        Ok(sec) if output.status.success() => Ok(UTime { sec, nsec: 0 }),
        _ => Err(Failure::new(words, "is no date")),
    }
}

async fn list(place: &Place, io: &IoCtx, all: bool, long: bool) -> Result<(), Failure> {
    let what = || "trash ls".to_owned();
    let mut images = trash::list(io).await.context(what)?;
    images.retain(|image| all || trash::is_users(image.source));
    if !long {
        match place.format {
            Format::Plain => {
                images.iter().for_each(|image| say_line(&format!("{} {}", image.id, shown(&image.name))))
            }
            _ => {
                let one = |image: &Trashed| json!({"id": image.id, "name": shown(&image.name)});
                place.format.print(
                    "trash",
                    "image",
                    &Value::from(images.iter().map(one).collect::<Vec<_>>()),
                );
            }
        }
        return Ok(());
    }
    let mut rows = Vec::new();
    for image in images {
        match parent_of(io, &image.id).await {
            Ok(parent) => rows.push((image, parent)),
            Err(e) => left_out("trash ls", &image.id.into(), &e),
        }
    }
    match place.format {
        Format::Plain => show(place, &rows),
        _ => {
            place.format.print(
                "trash",
                "image",
                &Value::from(rows.iter().map(|row| detailed(place, row)).collect::<Vec<_>>()),
            );
        }
    }
    Ok(())
}

async fn parent_of(io: &IoCtx, id: &str) -> Result<Option<Parent>, Error> {
    Image::open_by_id(io, id, Mode::Header).await?.parent().await
}

fn show(place: &Place, rows: &[(Trashed, Option<Parent>)]) {
    let titles = ["ID", "NAME", "SOURCE", "DELETED_AT", "STATUS", "PARENT"].map(str::to_owned);
    let row = |(image, parent): &(Trashed, Option<Parent>)| {
        let of = |parent: &Parent| {
            let image = path(&place.rados, parent.pool, &parent.namespace, &parent.image);
            format!("{image}@{}", shown(&parent.snapshot))
        };
        let parent = parent.as_ref().map(of).unwrap_or_default();
        [
            image.id.clone(),
            shown(&image.name),
            by(image.source).to_owned(),
            date(image.deleted),
            status(image),
            parent,
        ]
    };
    if !rows.is_empty() {
        table([false; 6], std::iter::once(titles).chain(rows.iter().map(row)).collect());
    }
}

fn detailed(place: &Place, (image, parent): &(Trashed, Option<Parent>)) -> Value {
    let mut one = json!({
        "id": image.id, "name": shown(&image.name), "source": by(image.source), "deleted_at": date(image.deleted),
        "status": status(image),
    });
    if let Some(parent) = parent {
        one["parent"] = json!({
            "pool": pool_name(&place.rados, parent.pool), "pool_namespace": shown(&parent.namespace),
            "image": shown(&parent.image), "snapshot": shown(&parent.snapshot),
        });
    }
    one
}

fn by(source: u8) -> &'static str {
    match source {
        source::USER => "USER",
        source::MIRRORING => "MIRRORING",
        source::MIGRATION => "MIGRATION",
        source::REMOVING => "REMOVING",
        source::USER_PARENT => "USER_PARENT",
        _ => "UNKNOWN",
    }
}

fn status(image: &Trashed) -> String {
    match UTime::now() < image.keep_until {
        true => format!("protected until {}", date(image.keep_until)),
        false => format!("expired at {}", date(image.keep_until)),
    }
}
