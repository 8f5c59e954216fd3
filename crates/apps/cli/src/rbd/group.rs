//! `loligo rbd group`.

use loligo_rados::Errno;
use loligo_rbd::group::{self, GroupSnapshot, Member};
use loligo_rbd::{Error, Image};
use serde_json::{Value, json};

use super::args::{Group, GroupImage, GroupSnap};
use super::show::{MadeWith, path, pool_name, table};
use super::spec::GroupName;
use super::{Bar, Place, named_so, place};
use crate::args::Format;
use crate::failure::{Context, Failure};
use crate::name::{Name, shown};
use crate::say::say_line;
use crate::stdio::print_lines;

pub(super) async fn run(place: &Place, command: &Group) -> Result<(), Failure> {
    match command {
        Group::Create { group: text } => {
            let (io, name) = place.group(text).await?;
            group::create(&io, &name).await.context(|| format!("group create {text}"))
        }
        Group::Ls { place: text } => {
            let io = place.named(text.as_ref()).await?;
            let names = group::list(&io).await.context(|| "group ls".to_owned())?;
            match place.format {
                Format::Plain => print_lines(names.iter())?,
                _ => {
                    let names: Vec<_> = names.iter().map(|name| shown(name)).collect();
                    place.format.print("groups", "name", &json!(names));
                }
            }
            Ok(())
        }
        Group::Rm { group: text } => {
            let (io, name) = place.group(text).await?;
            or_none(group::remove(&io, &name).await).context(|| format!("group rm {text}"))
        }
        Group::Rename { group: text, to } => rename(place, text, to).await,
        Group::Image(command) => image(place, command).await,
        Group::Snap(command) => snap(place, command).await,
    }
}

/// Returns an empty result for a group that does not exist; `rbd` reports nothing in that case either.
fn or_none<T: Default>(done: Result<T, Error>) -> Result<T, Error> {
    match done {
        Err(Error::NoGroup(_)) => Ok(T::default()),
        done => done,
    }
}

async fn rename(place: &Place, text: &Name, to: &Name) -> Result<(), Failure> {
    let what = format!("group rename {text} to {to}");
    let from = named_so(text, GroupName::parse(text))?;
    let to = named_so(to, GroupName::parse(to))?;
    place.same_place(&what, &from.at, &to.at)?;
    let io = place.io(&from.at).await?;
    group::rename(&io, &from.group, &to.group).await.context(|| what)
}

async fn image(place: &Place, command: &GroupImage) -> Result<(), Failure> {
    match command {
        GroupImage::Add { group: text, image } => {
            let ((io, name), (image_io, member)) = (place.group(text).await?, place.image(image).await?);
            let added = group::add_image(&io, &name, &image_io, &member).await;
            added.context(|| format!("group image add {text} {image}"))
        }
        GroupImage::Rm { group: text, image, image_id } => {
            let by_id = image_id.is_some();
            let image = &image_id.clone().or(image.clone()).unwrap_or_default();
            let ((io, name), (image_io, member)) = (place.group(text).await?, place.image(image).await?);
            let removed = match by_id {
                true => match place::id(&member) {
                    Ok(id) => group::remove_image_by_id(&io, &name, &image_io, id).await,
                    Err(e) => Err(e),
                },
                false => group::remove_image(&io, &name, &image_io, &member).await,
            };
            removed.context(|| format!("group image rm {text} {image}"))
        }
        GroupImage::Ls { group: text } => {
            let (io, name) = place.group(text).await?;
            let members = or_none(group::members(&io, &name).await);
            let members = members.context(|| format!("group image ls {text}"))?;
            show_members(place, &Name::from(io.namespace()), &members);
            Ok(())
        }
    }
}

fn show_members(place: &Place, namespace: &Name, members: &[Member]) {
    if place.format != Format::Plain {
        let one = |member: &Member| {
            json!({
                "image": shown(&member.name), "pool": pool_name(&place.rados, member.pool),
                "namespace": shown(namespace),
                "state": u8::from(!member.attached),
            })
        };
        return place.format.print(
            "images",
            "image",
            &Value::from(members.iter().map(one).collect::<Vec<_>>()),
        );
    }
    for member in members {
        let image = path(&place.rados, member.pool, namespace, &member.name);
        say_line(&format!("{image} {}", if member.attached { "" } else { "incomplete" }));
    }
}

async fn snap(place: &Place, command: &GroupSnap) -> Result<(), Failure> {
    match command {
        GroupSnap::Ls { group: text } => {
            let (io, group) = place.group(text).await?;
            let snaps = or_none(group::snapshots(&io, &group).await);
            show_snapshots(&snaps.context(|| format!("group snap ls {text}"))?, place.format);
            Ok(())
        }
        GroupSnap::Create { snapshot } => {
            let (io, group, name) = place.group_snapshot(snapshot).await?;
            let made = group::create_snapshot(&io, &group, &name).await;
            made.context(|| format!("group snap create {snapshot}"))
        }
        GroupSnap::Rm { snapshot } => {
            let (io, group, name) = place.group_snapshot(snapshot).await?;
            let removed = group::remove_snapshot(&io, &group, &name).await;
            removed.context(|| format!("group snap rm {snapshot}"))
        }
        GroupSnap::Rename { snapshot, to } => {
            let (io, group, name) = place.group_snapshot(snapshot).await?;
            if to.iter().any(|byte| b"/@".contains(byte)) {
                let why = "is not the name of a snapshot alone";
                return Err(Failure::of(Errno::EINVAL, format!("'{to}'"), why));
            }
            let renamed = group::rename_snapshot(&io, &group, &name, to).await;
            renamed.context(|| format!("group snap rename {snapshot}"))
        }
        GroupSnap::Rollback { snapshot, quiet } => {
            let (io, group, name) = place.group_snapshot(snapshot).await?;
            let bar = Bar::new("Rolling back to group snapshot", quiet);
            let back = group::roll_back(&io, &group, &name, |n, of| bar.at(n, of)).await;
            back.context(|| format!("group snap rollback {snapshot}"))
        }
    }
}

fn show_snapshots(snaps: &[GroupSnapshot], format: Format) {
    let state = |snap: &GroupSnapshot| if snap.complete { "ok" } else { "incomplete" };
    if format != Format::Plain {
        let one = |snap: &GroupSnapshot| json!({"snapshot": shown(&snap.name), "state": state(snap)});
        return format.print(
            "group_snaps",
            "group_snap",
            &Value::from(snaps.iter().map(one).collect::<Vec<_>>()),
        );
    }
    if !snaps.is_empty() {
        let titles = ["NAME", "STATUS"].map(str::to_owned);
        let rows = snaps.iter().map(|snap| [shown(&snap.name), state(snap).to_owned()]);
        table([false, true], std::iter::once(titles).chain(rows).collect());
    }
}

/// Returns the group snapshots that an image's snapshots were created with.
pub(super) async fn made_with(place: &Place, image: &Image) -> Result<Vec<MadeWith>, Error> {
    let mut all = Vec::new();
    for snap in &image.view().snapshots {
        if let Some(of) = image.group_snapshot(&snap.info.kind).await? {
            all.push(MadeWith { id: snap.info.id, pool: pool_name(&place.rados, of.pool), of });
        }
    }
    Ok(all)
}
