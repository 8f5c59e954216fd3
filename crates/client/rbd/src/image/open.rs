//! Opens images.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use loligo_rados::{Errno, IoCtx};
use loligo_wire::Name;
use loligo_wire::rbd::Migration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::state::{Inner, Opening};
use super::{At, Image, Mode, Which};
use crate::call::ask;
use crate::header::format1::has_header;
use crate::header::{self, Fixed, Format, Moving, View};
use crate::lock::listen::listen;
use crate::pool::directory::name_of;
use crate::{Error, names};

/// The interval and the number of reads of the header of an image that is being prepared by a migration.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const LOOKS: u32 = 25;

impl Image {
    /// Opens an image by its name.
    ///
    /// # Errors
    /// [`Error::NoImage`], also for a clone's parent; [`Error::Features`] if the image needs features
    /// that this crate does not support.
    pub async fn open(io: &IoCtx, name: impl Into<Name>, mode: Mode) -> Result<Self, Error> {
        let name = &name.into();
        Self::open_at(io, Which::Name(name), None, mode).await?.with_ancestors(mode).await
    }

    /// Opens an image by its id, also one in the trash.
    ///
    /// # Errors
    /// As [`Image::open`].
    pub async fn open_by_id(io: &IoCtx, id: &str, mode: Mode) -> Result<Self, Error> {
        Self::open_at(io, Which::Id(id), None, mode).await?.with_ancestors(mode).await
    }

    /// Opens a snapshot of an image for reading.
    ///
    /// # Errors
    /// As [`Image::open`]; [`Error::NoSnapshot`].
    pub async fn open_snapshot(
        io: &IoCtx,
        name: impl Into<Name>,
        snapshot: impl Into<Name>,
    ) -> Result<Self, Error> {
        let name = &name.into();
        let snapshot = &snapshot.into();
        let at = Self::open_at(io, Which::Name(name), Some(snapshot), Mode::ReadOnly).await?;
        at.with_ancestors(Mode::ReadOnly).await
    }

    /// Opens an image, or one of its snapshots, in [`Mode::Header`].
    ///
    /// # Errors
    /// [`Error::NoImage`]; [`Error::NoSnapshot`].
    pub async fn open_header(
        io: &IoCtx,
        name: impl Into<Name>,
        snapshot: Option<&Name>,
    ) -> Result<Self, Error> {
        let name = &name.into();
        Self::open_at(io, Which::Name(name), snapshot, Mode::Header).await
    }

    /// Opens an image by its id in [`Mode::Header`], also one in the trash.
    ///
    /// # Errors
    /// As [`Image::open_header`].
    pub async fn open_header_by_id(io: &IoCtx, id: &str, snapshot: Option<&Name>) -> Result<Self, Error> {
        Self::open_at(io, Which::Id(id), snapshot, Mode::Header).await
    }

    pub(crate) async fn open_at(
        io: &IoCtx,
        which: Which<'_>,
        snapshot: Option<&Name>,
        mode: Mode,
    ) -> Result<Self, Error> {
        let at = snapshot.map_or(At::Head, At::Name);
        let inner = Inner::load(io, which, at, mode, 0).await?;
        Self::start(Arc::new(inner)).await
    }

    /// Opens an image of a migration and ignores the migration: only the image's own data is seen.
    pub(crate) async fn open_apart(io: &IoCtx, which: Which<'_>, mode: Mode) -> Result<Self, Error> {
        let inner = Inner::load_as(io, which, At::Head, mode, 0, Moving::Ignored).await?;
        Self::start(Arc::new(inner)).await
    }

    /// Opens the ancestors, unless only the header is used: an image whose ancestors cannot be opened is
    /// unusable.
    pub(crate) async fn with_ancestors(self, mode: Mode) -> Result<Self, Error> {
        if mode == Mode::Header {
            return Ok(self);
        }
        self.inner.open_ancestors().await?;
        Ok(self)
    }

    /// Starts the image. If it is open for writing, it watches the header.
    pub(crate) async fn start(inner: Arc<Inner>) -> Result<Self, Error> {
        let runtime = Handle::current();
        if inner.is_read_only() {
            return Ok(Self { inner, stop: None, task: None, runtime });
        }
        let watch = inner.io.watch(&*inner.header, Duration::ZERO).await?;
        inner.cookie.store(watch.cookie(), Ordering::Release);
        inner.tenure.watched(watch.confirmation());
        // Notifications sent between the reading of the header and the watch were missed.
        inner.stale.store(true, Ordering::Release);
        let (stop, stopped) = oneshot::channel();
        let task = runtime.spawn(listen(Arc::clone(&inner), watch, stopped));
        Ok(Self { inner, stop: Some(stop), task: Some(task), runtime })
    }
}

impl Inner {
    /// Reads an image's header. Does not watch it yet.
    pub(crate) async fn load(
        io: &IoCtx,
        which: Which<'_>,
        at: At<'_>,
        mode: Mode,
        generation: u32,
    ) -> Result<Self, Error> {
        Self::load_as(io, which, at, mode, generation, Moving::Followed).await
    }

    /// As `Inner::load`, but may ignore a migration. Waits for a while for a migration that is still
    /// being prepared.
    pub(crate) async fn load_as(
        io: &IoCtx,
        which: Which<'_>,
        at: At<'_>,
        mode: Mode,
        generation: u32,
        moving: Moving,
    ) -> Result<Self, Error> {
        let (name, id) = identify(io, which).await?;
        let format = Format::of_id(&id);
        let header = match format {
            Format::First => names::old_header(&name),
            Format::Second => names::header(&id),
        };
        let waits = mode != Mode::Header && moving == Moving::Followed;
        let loaded = once_prepared(waits, || header::load(io, &header, format)).await;
        let (fixed, view) = loaded.map_err(|e| missing(e, &name))?;
        match mode {
            Mode::Header => {}
            Mode::ReadOnly => view.check_readable(moving)?,
            Mode::ReadWrite => view.check_writable(moving)?,
        }
        let snap = match at {
            At::Head => None,
            At::Name(name) => Some(view.snapshot(name)?.info.id),
            At::Id(id) => {
                view.snapshot_by_id(id)
                    .ok_or_else(|| Error::NoSnapshot(format!("{name}@{}", id.0).into()))?;
                Some(id)
            }
        };
        Ok(Self::new(Opening {
            io: io.clone(),
            name,
            id,
            fixed,
            view: Arc::new(view),
            snap,
            mode,
            generation,
            moving,
        }))
    }
}

/// Returns the name and id; the id of an image of format 1 is empty.
async fn identify(io: &IoCtx, which: Which<'_>) -> Result<(Name, String), Error> {
    match which {
        Which::Name(name) => {
            let id = match ask(io, &names::id_object(name), "get_id", |_| {}).await {
                Err(e) if e.is_not_found() && has_header(io, name).await? => String::new(),
                id => id.map_err(|e| missing(e, name))?,
            };
            Ok((name.to_owned(), id))
        }
        Which::Id(id) => {
            let (name, _) = name_of(io, id).await?;
            Ok((name, id.to_owned()))
        }
        Which::Known { name, id } => Ok((name.into(), id.to_owned())),
    }
}

fn missing(e: Error, name: &Name) -> Error {
    if e.errno() == Errno::ENOENT { Error::NoImage(name.to_owned()) } else { e }
}

/// Loads an image, and loads it again while a migration is still preparing it.
async fn once_prepared<F: Future<Output = Result<(Fixed, View), Error>>>(
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
