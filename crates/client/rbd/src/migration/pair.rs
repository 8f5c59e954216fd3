//! The two images of a migration.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use loligo_rados::{Errno, IoCtx, PoolId};
use loligo_wire::Name;
use loligo_wire::rbd::{Migration, trash_source};

use crate::call::{ask, gone, tell};
use crate::header::format1::has_header;
use crate::header::migration::{State, place_of, spec_of, tell_state};
use crate::image::{Image, Mode, Which};
use crate::{Error, names, namespaces, trash};

/// How often the progress is stored in the headers.
const DESCRIBE_EVERY: Duration = Duration::from_millis(500);

/// One of the two images of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The pool.
    pub pool: PoolId,
    /// The namespace.
    pub namespace: Name,
    /// The image's name.
    pub name: Name,
    /// Its id; empty for an image of format 1.
    pub id: String,
}

/// The progress of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The old image.
    pub source: End,
    /// The new image.
    pub destination: End,
    /// The state.
    pub state: State,
    /// The progress as text.
    pub description: String,
}

/// An image of a migration: its pool and namespace, name and id.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) io: IoCtx,
    pub(super) name: Name,
    pub(super) id: String,
}

impl Place {
    fn of(io: &IoCtx, spec: &Migration) -> Self {
        Self { io: place_of(io, spec), name: spec.name.clone(), id: spec.image.clone() }
    }

    pub(super) fn header(&self) -> Name {
        header_of(&self.name, &self.id)
    }

    fn end(&self) -> End {
        End {
            pool: self.io.pool(),
            namespace: Name::from(self.io.namespace()),
            name: self.name.clone(),
            id: self.id.clone(),
        }
    }
}

/// The two images and their headers' migrations.
pub(super) struct Pair {
    pub(super) source: Place,
    pub(super) destination: Place,
    /// The migrations in the headers of the source and of the destination.
    pub(super) specs: [Option<Migration>; 2],
}

/// The id of an image of this name, or, if there is none, of a source in the trash.
enum Found {
    Image(String),
    Trashed(String),
}

async fn find(io: &IoCtx, name: &Name) -> Result<Found, Error> {
    match ask(io, &names::id_object(name), "get_id", |_| {}).await {
        Err(e) if e.is_not_found() => {}
        id => return Ok(Found::Image(id?)),
    }
    if has_header(io, name).await? {
        return Ok(Found::Image(String::new()));
    }
    let sources = trash::list(io).await?;
    let found =
        sources.into_iter().find(|image| image.source == trash_source::MIGRATION && image.name == name);
    found.map(|image| Found::Trashed(image.id)).ok_or_else(|| Error::NoImage(name.to_owned()))
}

impl Pair {
    /// Finds the migration of the image of this name, the source or the destination.
    ///
    /// # Errors
    /// [`Error::NoImage`]; [`Error::NotMigrating`].
    pub(super) async fn find(io: &IoCtx, name: &Name) -> Result<Self, Error> {
        let (Found::Image(id) | Found::Trashed(id)) = find(io, name).await?;
        let here = Place { io: io.clone(), name: name.to_owned(), id };
        let spec = spec_of(io, &here.header()).await?.ok_or(Error::NotMigrating)?;
        if !spec.source.is_empty() {
            return Err(Error::Features("a migration from what is no image".to_owned()));
        }
        let there = Place::of(io, &spec);
        let other = spec_of(&there.io, &there.header()).await?;
        Ok(match spec.header {
            Migration::SOURCE => Self { source: here, destination: there, specs: [Some(spec), other] },
            _ => Self { source: there, destination: here, specs: [other, Some(spec)] },
        })
    }

    /// Finds the source of an image whose migration was committed incompletely.
    pub(super) async fn left_over(io: &IoCtx, name: &Name) -> Result<Self, Error> {
        let Found::Image(id) = find(io, name).await? else { return Err(Error::NotMigrating) };
        let destination = Place { io: io.clone(), name: name.to_owned(), id };
        for (pool, _) in io.rados().pools() {
            let pool = io.rados().ioctx_by_id(pool);
            let mut places = vec![pool.clone()];
            let others = namespaces::list(&pool).await.unwrap_or_default();
            places.extend(others.into_iter().map(|namespace| pool.with_namespace(namespace)));
            for io in places {
                if let Some((source, spec)) = source_of(&io, &destination).await? {
                    return Ok(Self { source, destination, specs: [Some(spec), None] });
                }
            }
        }
        Err(Error::NotMigrating)
    }

    /// The state of the migration. Old clients store it in the source's header only.
    pub(super) fn state(&self) -> State {
        let mut states = self.specs.iter().flatten().map(|spec| State::of(spec.state));
        let first = states.next().unwrap_or(State::Unknown);
        // The destination may not have been marked as prepared yet.
        if states.any(|state| state == State::Preparing) { State::Preparing } else { first }
    }

    pub(super) fn status(&self) -> Status {
        let description = self.specs.iter().flatten().next().map(|spec| spec.description.clone());
        Status {
            source: self.source.end(),
            destination: self.destination.end(),
            state: self.state(),
            description: description.unwrap_or_default(),
        }
    }

    /// The initial migration in the header of one of the images.
    pub(super) fn spec(&self, header: u8, flatten: bool) -> Migration {
        let other = if header == Migration::SOURCE { &self.destination } else { &self.source };
        Migration {
            header,
            pool: other.io.pool().0,
            nspace: Name::from(other.io.namespace()),
            name: other.name.clone(),
            image: other.id.clone(),
            source: String::new(),
            snap_seqs: BTreeMap::new(),
            overlap: 0,
            flatten,
            mirroring: false,
            mirror_mode: 0,
            state: Migration::PREPARING,
            description: String::new(),
        }
    }

    /// Stores the state in both headers, first in the source's, which old clients read.
    pub(super) async fn set_state(&self, state: u8, description: &str) -> Result<(), Error> {
        for place in [&self.source, &self.destination] {
            tell_state(&place.io, &place.header(), state, description).await?;
        }
        Ok(())
    }

    /// Stores the progress in both headers periodically, and never returns.
    pub(super) async fn describe(&self, percent: Arc<AtomicU64>) {
        let mut told = u64::MAX;
        loop {
            let now = percent.load(Ordering::Relaxed);
            if now != told {
                told = now;
                // For display only; the copy itself reports failures.
                let _ = self.set_state(Migration::EXECUTING, &format!("{now}% complete")).await;
            }
            tokio::time::sleep(DESCRIBE_EVERY).await;
        }
    }

    pub(super) async fn open_destination(&self) -> Result<Image, Error> {
        let Place { io, name, id } = &self.destination;
        Image::open_at(io, known(name, id), None, Mode::ReadWrite)
            .await?
            .with_ancestors(Mode::ReadWrite)
            .await
    }
}

/// Removes the trash entry of an image without a header, left by an interrupted commit.
async fn strike_out(place: &Place) -> Result<(), Error> {
    match place.io.stat(place.header()).await {
        Err(e) if e.errno() == Errno::ENOENT => {
            gone(tell(&place.io, names::TRASH, "trash_remove", |w| w.put(&place.id)).await)
        }
        found => Ok(found.map(drop)?),
    }
}

/// Finds an image in this namespace that was migrated to `destination`.
async fn source_of(io: &IoCtx, destination: &Place) -> Result<Option<(Place, Migration)>, Error> {
    let trashed = match trash::list(io).await {
        // An OSD without the class has no images.
        Err(e) if e.errno() == Errno::EOPNOTSUPP => return Ok(None),
        trashed => trashed?,
    };
    let sources = trashed.into_iter().filter(|image| image.source == trash_source::MIGRATION);
    let old = Place { io: io.clone(), name: destination.name.clone(), id: String::new() };
    let places = sources.map(|image| Place { io: io.clone(), name: image.name, id: image.id }).chain([old]);
    for place in places {
        let spec = spec_of(io, &place.header()).await?;
        let is_it = |spec: &Migration| {
            spec.header == Migration::SOURCE
                && spec.image == destination.id
                && PoolId(spec.pool) == destination.io.pool()
                && spec.nspace.as_bytes() == destination.io.namespace()
        };
        match spec {
            Some(spec) if is_it(&spec) => return Ok(Some((place, spec))),
            None if !place.id.is_empty() => strike_out(&place).await?,
            _ => {}
        }
    }
    Ok(None)
}

/// Returns the progress of an image's migration, of its source or its destination; `None` if it is not
/// being migrated.
///
/// # Errors
/// [`Error::NoImage`].
pub async fn status(io: &IoCtx, name: impl Into<Name>) -> Result<Option<Status>, Error> {
    let name = &name.into();
    match Pair::find(io, name).await {
        Err(Error::NotMigrating) => Ok(None),
        pair => Ok(Some(pair?.status())),
    }
}

/// The header of an image of this name and id.
fn header_of(name: &Name, id: &str) -> Name {
    if id.is_empty() { names::old_header(name) } else { names::header(id) }
}

/// Identifies an image by its name and id.
pub(super) fn known<'a>(name: &'a [u8], id: &'a str) -> Which<'a> {
    Which::Known { name, id }
}

/// Opens an image and ignores its migration; `None` if the image does not exist.
pub(super) async fn apart(io: &IoCtx, name: &Name, id: &str) -> Result<Option<Image>, Error> {
    match Image::open_apart(io, known(name, id), Mode::ReadWrite).await {
        Err(Error::NoImage(_)) => Ok(None),
        image => Ok(Some(image?)),
    }
}
