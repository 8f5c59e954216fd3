//! `loligo rbd ls --long`.

use loligo_rados::{IoCtx, LockMode, Rados};
use loligo_rbd::{Error, Image, Mode, Parent, SnapKind, Snapshot};
use serde_json::{Value, json};

use super::Place;
use super::clones::{path, pool_name};
use super::show::{bytes, table};
use crate::args::Format;
use crate::failure::{Context, Failure};

/// An image, or one of its snapshots.
struct Row {
    image: String,
    id: String,
    snap: Option<Snapshot>,
    size: u64,
    parent: Option<Parent>,
    lock: Option<LockMode>,
}

pub(super) async fn long(
    place: &Place,
    io: &IoCtx,
    names: impl Iterator<Item = &String>,
) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for name in names {
        match rows_of(io, name).await {
            // It is gone meanwhile.
            Err(Error::NoImage(_)) => {}
            found => rows.extend(found.context(|| format!("ls {name}"))?),
        }
    }
    match place.format {
        Format::Plain if rows.is_empty() => {}
        Format::Plain => {
            let titles = ["NAME", "SIZE", "PARENT", "FMT", "PROT", "LOCK"].map(str::to_owned);
            let all = std::iter::once(titles).chain(rows.iter().map(|row| row.cells(&place.rados)));
            table([false, true, false, true, false, false], all.collect());
        }
        Format::Json => {
            sayln!("{}", Value::from(rows.iter().map(|row| row.json(&place.rados)).collect::<Vec<_>>()));
        }
    }
    Ok(())
}

async fn rows_of(io: &IoCtx, name: &str) -> Result<Vec<Row>, Error> {
    let image = Image::open(io, name, Mode::ReadOnly).await?;
    let mut rows = vec![row(&image, None, image.lock_mode().await?).await?];
    let view = image.view();
    for snap in view.snapshots.iter().filter(|snap| snap.info.kind == SnapKind::User) {
        match Image::open_snapshot(io, name, &snap.info.name).await {
            Err(Error::NoSnapshot(_)) => {}
            at => rows.push(row(&at?, Some(snap), None).await?),
        }
    }
    Ok(rows)
}

async fn row(image: &Image, snap: Option<&Snapshot>, lock: Option<LockMode>) -> Result<Row, Error> {
    let (name, id) = (image.name().to_owned(), image.id().to_owned());
    let parent = image.parent().await?;
    Ok(Row { image: name, id, snap: snap.cloned(), size: image.size(), parent, lock })
}

impl Row {
    fn cells(&self, rados: &Rados) -> [String; 6] {
        let name = match &self.snap {
            Some(snap) => format!("{}@{}", self.image, snap.info.name),
            None => self.image.clone(),
        };
        let of = |parent: &Parent| {
            let image = path(rados, parent.pool, &parent.namespace, &parent.image);
            format!("{image}@{}", parent.snapshot)
        };
        let parent = self.parent.as_ref().map(of).unwrap_or_default();
        let protected = if self.snap.as_ref().is_some_and(|snap| snap.protected) { "yes" } else { "" };
        let lock = match self.lock {
            None => "",
            Some(LockMode::Shared) => "shr",
            Some(_) => "excl",
        };
        [name, bytes(self.size), parent, "2".to_owned(), protected.to_owned(), lock.to_owned()]
    }

    fn json(&self, rados: &Rados) -> Value {
        let mut one = json!({"image": self.image, "id": self.id, "size": self.size, "format": 2});
        if let Some(parent) = &self.parent {
            one["parent"] = json!({
                "pool": pool_name(rados, parent.pool), "pool_namespace": parent.namespace,
                "image": parent.image, "snapshot": parent.snapshot,
            });
        }
        if let Some(snap) = &self.snap {
            one["snapshot"] = snap.info.name.clone().into();
            one["snapshot_id"] = snap.info.id.0.into();
            // As text, as `rbd` has it.
            one["protected"] = snap.protected.to_string().into();
        }
        if let Some(lock) = self.lock {
            one["lock_type"] = if lock == LockMode::Shared { "shared" } else { "exclusive" }.into();
        }
        one
    }
}
