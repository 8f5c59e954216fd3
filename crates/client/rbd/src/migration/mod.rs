//! Moves an image to another pool, namespace, name or layout while it is in use (`rbd migration`).
//!
//! [`prepare()`] creates the new image, the destination, with the snapshots of the old one, the source,
//! which is moved to the trash. From then on the destination is used, and reads data not yet copied from
//! the source (`origin/`). [`execute()`] copies all remaining data. [`commit()`] removes the source.
//! Before that, [`abort()`] can instead remove the destination and write the changes made meanwhile to
//! the source. Both headers record the state, so that an interrupted step can be repeated. Facts:
//! `librbd/api/Migration.cc` (release 16).
//!
//! ```no_run
//! # async fn example(slow: loligo_rados::IoCtx, fast: loligo_rados::IoCtx) -> Result<(), loligo_rbd::Error> {
//! use loligo_rbd::{Ancestry, NewCopy, migration};
//!
//! migration::prepare(&slow, "disk", &fast, "disk", NewCopy::default(), Ancestry::Kept).await?;
//! migration::execute(&fast, "disk", |_, _| {}).await?;
//! migration::commit(&fast, "disk", |_, _| {}).await
//! # }
//! ```

mod children;
mod destination;
mod finish;
mod pair;
mod prepare;
mod revert;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use loligo_rados::{Errno, IoCtx, PoolId};
use loligo_wire::Name;
use loligo_wire::rbd::Migration;

pub use self::finish::{abort, commit};
use self::pair::Pair;
pub use self::prepare::prepare;
use crate::call::{ask, tell};
use crate::copy::AT_ONCE;
use crate::header::{Fixed, View};
use crate::image::{Image, Inner, Mode, Moving, Which};
use crate::messages::Wanted;
use crate::{Error, names};

/// The interval and the number of reads of the header of an image that is being prepared.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const LOOKS: u32 = 25;

/// The most bytes of objects copied in parallel, unless one object has more.
const COPIED_AT_ONCE: u64 = 64 << 20;

/// The state of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A step has failed.
    Error,
    /// The destination is being created.
    Preparing,
    /// The destination can be used.
    Prepared,
    /// Remaining data is being copied to the destination.
    Executing,
    /// The destination has all data.
    Executed,
    /// The destination is being removed.
    Aborting,
    /// A state that this crate does not know.
    Unknown,
}

impl State {
    /// The state's name in `rbd status`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Preparing => "preparing",
            Self::Prepared => "prepared",
            Self::Executing => "executing",
            Self::Executed => "executed",
            Self::Aborting => "aborting",
            Self::Unknown => "unknown",
        }
    }

    fn of(code: u8) -> Self {
        match code {
            Migration::ERROR => Self::Error,
            Migration::PREPARING => Self::Preparing,
            Migration::PREPARED => Self::Prepared,
            Migration::EXECUTING => Self::Executing,
            Migration::EXECUTED => Self::Executed,
            Migration::ABORTING => Self::Aborting,
            _ => Self::Unknown,
        }
    }
}

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

/// Copies all remaining data from the source to the destination. `progress` gets the number of objects
/// done, and of all objects. `name` is that of either image. The destination may be in use; the owner of
/// its exclusive lock is then asked to copy.
///
/// # Errors
/// [`Error::NoImage`]; [`Error::NotMigrating`]; [`Error::MigrationState`] unless the migration is
/// prepared, or a previous execution was interrupted.
pub async fn execute(
    io: &IoCtx,
    name: impl Into<Name>,
    mut progress: impl FnMut(u64, u64),
) -> Result<(), Error> {
    let name = &name.into();
    let pair = Pair::find(io, name).await?;
    if ![State::Prepared, State::Executing].contains(&pair.state()) {
        return Err(Error::MigrationState { state: pair.state().name(), wanted: "prepared" });
    }
    let destination = pair.open_destination().await?;
    let executed = copy_all(&pair, &destination, &mut progress).await;
    let closed = destination.close().await;
    executed.and(closed)
}

async fn copy_all(
    pair: &Pair,
    destination: &Image,
    progress: &mut impl FnMut(u64, u64),
) -> Result<(), Error> {
    let from = &pair.source;
    if let Some(source) = apart(&from.io, &from.name, &from.id).await? {
        // An interrupted `prepare` may not have relinked all clones.
        let relinked = prepare::relink_clones(pair, &source, destination).await;
        let closed = source.close().await;
        relinked.and(closed)?;
    }
    pair.set_state(Migration::EXECUTING, "").await?;
    destination.inner.refresh().await?;
    {
        let percent = Arc::new(AtomicU64::new(0));
        let told = |done: u64, all: u64| {
            percent.store((done * 100).checked_div(all).unwrap_or(100), Ordering::Relaxed);
            progress(done, all);
        };
        let described = pair.describe(Arc::clone(&percent));
        tokio::select! {
            done = destination.migrate(told) => done?,
            () = described => {}
        }
    }
    pair.set_state(Migration::EXECUTED, "").await?;
    destination.inner.header_changed().await
}

/// Reads an image's migration from its header; `None` if there is none.
pub(crate) async fn spec_of(io: &IoCtx, header: &Name) -> Result<Option<Migration>, Error> {
    match ask(io, header, "migration_get", |_| {}).await {
        Err(e) if e.is_not_found() || e.errno() == Errno::EINVAL => Ok(None),
        spec => Ok(Some(spec?)),
    }
}

/// Reads the header's migration into the view.
pub(crate) async fn enter(io: &IoCtx, header: &Name, view: &mut View) -> Result<(), Error> {
    view.set_migration(spec_of(io, header).await?);
    Ok(())
}

/// Loads an image, and loads it again while a migration is still preparing it.
pub(crate) async fn once_prepared<F: Future<Output = Result<(Fixed, View), Error>>>(
    waits: bool,
    load: impl Fn() -> F,
) -> Result<(Fixed, View), Error> {
    let mut looks = 0;
    loop {
        let (fixed, view) = load().await?;
        let is_preparing = view
            .migration
            .as_ref()
            .is_some_and(|spec| spec.header == Migration::DESTINATION && spec.state == Migration::PREPARING);
        looks += 1;
        if !waits || !is_preparing || looks == LOOKS {
            return Ok((fixed, view));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Returns an error for a destination that has no data yet, or is being removed.
pub(crate) fn check_readable(spec: Option<&Migration>, moving: Moving) -> Result<(), Error> {
    let Some(spec) = spec.filter(|spec| moving == Moving::Followed && spec.header == Migration::DESTINATION)
    else {
        return Ok(());
    };
    match State::of(spec.state) {
        State::Prepared | State::Executing | State::Executed => Ok(()),
        State::Preparing => {
            Err(Error::Migrating("it is being prepared; if nobody does that any more: rbd migration abort"))
        }
        _ => {
            Err(Error::Migrating("that is being aborted; if nobody does that any more: rbd migration abort"))
        }
    }
}

/// Returns an error for the source of a migration.
pub(crate) fn check_writable(spec: Option<&Migration>, moving: Moving) -> Result<(), Error> {
    match spec {
        Some(spec) if moving == Moving::Followed && spec.header == Migration::SOURCE => {
            Err(Error::MigratingAway(spec.name.clone()))
        }
        _ => Ok(()),
    }
}

impl Inner {
    /// Returns an error if the image is being migrated and must not be removed.
    pub(crate) fn check_parted(&self) -> Result<(), Error> {
        match self.moving == Moving::Followed && self.view.load().migration.is_some() {
            true => Err(Error::Migrating("remove it after rbd migration commit or abort")),
            false => Ok(()),
        }
    }
}

impl Image {
    /// Copies the remaining objects, or asks the lock's owner to do it.
    pub(crate) async fn migrate(&self, mut progress: impl FnMut(u64, u64)) -> Result<(), Error> {
        if self.has_owner_do(Wanted::Migrate, &mut progress).await? {
            return Ok(());
        }
        let inner = &self.inner;
        drop(inner.enter().await?);
        inner.refresh().await?;
        let all = inner.source_objects().await?;
        let at_once = (COPIED_AT_ONCE / inner.fixed.layout.object_size()).clamp(1, AT_ONCE as u64);
        let taken = stream::iter(0..all).map(|number| async move {
            let _place = inner.enter().await?;
            inner.take_from_source(number).await
        });
        let mut taken = taken.buffer_unordered(at_once as usize);
        let mut done = 0;
        while taken.try_next().await?.is_some() {
            done += 1;
            progress(done, all);
        }
        Ok(())
    }
}

/// Stores the state in a header. Returns an error if the header does not exist or has no migration.
async fn tell_state(io: &IoCtx, header: &Name, state: u8, description: &str) -> Result<(), Error> {
    tell(io, header, "migration_set_state", |w| {
        w.u8(state);
        w.put(description);
    })
    .await
}

/// The header of an image of this name and id.
fn header_of(name: &Name, id: &str) -> Name {
    if id.is_empty() { names::old_header(name) } else { names::header(id) }
}

/// Identifies an image by its name and id.
fn known<'a>(name: &'a [u8], id: &'a str) -> Which<'a> {
    Which::Known { name, id }
}

/// Opens an image and ignores its migration; `None` if the image does not exist.
async fn apart(io: &IoCtx, name: &Name, id: &str) -> Result<Option<Image>, Error> {
    match Image::open_apart(io, known(name, id), Mode::ReadWrite).await {
        Err(Error::NoImage(_)) => Ok(None),
        image => Ok(Some(image?)),
    }
}
