//! `loligo rbd ls --long`.

use loligo_rados::{IoCtx, LockMode, Rados};
use loligo_rbd::{Error, Image, Mode, Parent, SnapKind, Snapshot};
use serde_json::{Value, json};

use super::Place;
use super::show::{bytes, path, pool_name, table};
use crate::args::Format;
use crate::failure::Failure;
use crate::name::{Name, shown};

/// An image, or one of its snapshots.
struct Row {
    image: Name,
    id: String,
    snap: Option<Snapshot>,
    size: u64,
    parent: Option<Parent>,
    lock: Option<LockMode>,
    format: u32,
}

pub(super) async fn long<'a>(
    place: &Place,
    io: &IoCtx,
    names: impl Iterator<Item = &'a Name>,
) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for name in names {
        match rows_of(io, name).await {
            Ok(found) => rows.extend(found),
            Err(e) => left_out("ls", name, &e),
        }
    }
    match place.format {
        Format::Plain if rows.is_empty() => {}
        Format::Plain => {
            let titles = ["NAME", "SIZE", "PARENT", "FMT", "PROT", "LOCK"].map(str::to_owned);
            let all = std::iter::once(titles).chain(rows.iter().map(|row| row.cells(&place.rados)));
            table([false, true, false, true, false, false], all.collect());
        }
        _ => {
            place.format.print(
                "images",
                "image",
                &Value::from(rows.iter().map(|row| row.json(&place.rados)).collect::<Vec<_>>()),
            );
        }
    }
    Ok(())
}

/// Reports why an image is missing in a list: it is gone by now, or broken. The other images are listed
/// all the same.
pub(super) fn left_out(what: &str, name: &Name, why: &Error) {
    let failure = Failure::new(format!("{what} {name}"), format!("left out: {why}"));
    eprintln!("loligo: {failure}");
}

/// Returns the rows of an image and its user snapshots, from one read of the header: there may be
/// thousands.
async fn rows_of(io: &IoCtx, name: &Name) -> Result<Vec<Row>, Error> {
    let image = Image::open(io, name, Mode::Header).await?;
    let (lock, parent, view) = (image.lock_mode().await?, image.parent_of_any().await?, image.view());
    let row = |snap: Option<&Snapshot>, lock| {
        let (size, overlap) = match snap {
            Some(snap) => (snap.info.size, snap.overlap),
            None => (view.size, view.overlap),
        };
        let parent = parent.clone().filter(|_| overlap.is_some());
        let (id, format) = (image.id().to_owned(), image.format().number());
        Row { image: name.to_owned(), id, snap: snap.cloned(), size, parent, lock, format }
    };
    let of_users = view.snapshots.iter().filter(|snap| snap.info.kind == SnapKind::User);
    Ok([row(None, lock)].into_iter().chain(of_users.map(|snap| row(Some(snap), None))).collect())
}

impl Row {
    fn cells(&self, rados: &Rados) -> [String; 6] {
        let name = match &self.snap {
            Some(snap) => format!("{}@{}", shown(&self.image), shown(&snap.info.name)),
            None => shown(&self.image),
        };
        let of = |parent: &Parent| {
            let image = path(rados, parent.pool, &parent.namespace, &parent.image);
            format!("{image}@{}", shown(&parent.snapshot))
        };
        let parent = self.parent.as_ref().map(of).unwrap_or_default();
        let protected = if self.snap.as_ref().is_some_and(|snap| snap.protected) { "yes" } else { "" };
        let lock = match self.lock {
            None => "",
            Some(LockMode::Shared) => "shr",
            Some(_) => "excl",
        };
        [name, bytes(self.size), parent, self.format.to_string(), protected.to_owned(), lock.to_owned()]
    }

    fn json(&self, rados: &Rados) -> Value {
        let mut one =
            json!({"image": shown(&self.image), "id": self.id, "size": self.size, "format": self.format});
        if let Some(parent) = &self.parent {
            one["parent"] = json!({
                "pool": pool_name(rados, parent.pool), "pool_namespace": shown(&parent.namespace),
                "image": shown(&parent.image), "snapshot": shown(&parent.snapshot),
            });
        }
        if let Some(snap) = &self.snap {
            one["snapshot"] = shown(&snap.info.name).into();
            one["snapshot_id"] = snap.info.id.0.into();
            // A text, as in `rbd`.
            one["protected"] = snap.protected.to_string().into();
        }
        if let Some(lock) = self.lock {
            one["lock_type"] = if lock == LockMode::Shared { "shared" } else { "exclusive" }.into();
        }
        one
    }
}
