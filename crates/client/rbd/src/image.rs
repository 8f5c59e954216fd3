//! An open image.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use loligo_rados::{Errno, IoCtx, LockMode, PoolId, SnapId};
use loligo_stripe::Layout;
use loligo_wire::Name;
use loligo_wire::rbd::feature;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, oneshot};

use crate::cache::Caching;
use crate::call::{ask, tell};
use crate::features::{FAST_DIFF_INVALID, OBJECT_MAP_INVALID};
use crate::header::{Fixed, Format, View};
use crate::object_map::{Keeper, LOCK};
use crate::origin::Origin;
use crate::owner::Requests;
use crate::parent::{Link, name_of};
use crate::room::Room;
use crate::tenure::Tenure;
use crate::turns::Copies;
use crate::{Error, header, lock, migration, names, old};

/// The most changes of an image's data in flight; more wait. A task that takes all permits has exclusive
/// access.
pub(crate) const GATE_PLACES: u32 = 4096;

/// An open image, or an open snapshot of one. [`Image::close`] closes it; dropping it closes it in the
/// background.
pub struct Image {
    pub(crate) inner: Arc<Inner>,
    stop: Option<oneshot::Sender<()>>,
    task: Option<tokio::task::JoinHandle<()>>,
    runtime: Handle,
}

pub(crate) struct Inner {
    /// The pool and namespace of the header.
    pub(crate) io: IoCtx,
    /// The pool and namespace of the data.
    pub(crate) data: IoCtx,
    pub(crate) name: Name,
    pub(crate) id: String,
    pub(crate) header: Name,
    pub(crate) fixed: Fixed,
    pub(crate) view: ArcSwap<View>,
    /// The header has changed since it was read.
    pub(crate) stale: AtomicBool,
    /// The snapshot that reads use; `None`: the image's current data.
    pub(crate) snap: Option<SnapId>,
    pub(crate) mode: Mode,
    /// Each change of data holds one permit; the holder of all permits has exclusive access. The
    /// semaphore is fair, so that a waiter is not overtaken by later ones.
    pub(crate) gate: Semaphore,
    /// Whether this client owns the exclusive lock. Changed only by the holder of all permits, and when
    /// the lock is lost.
    pub(crate) owned: AtomicBool,
    /// Notified when a client announces that it acquired or released the lock, and when notifications
    /// were missed.
    pub(crate) freed: Notify,
    /// The cookie of the watch.
    pub(crate) cookie: AtomicU64,
    /// The state of the lock while this client owns it.
    pub(crate) tenure: Tenure,
    /// Why changes are refused from now on: an errno, or 0.
    pub(crate) ended: AtomicI32,
    /// Bounds the requests in flight of I/Os over many objects.
    pub(crate) room: Room,
    pub(crate) map: Keeper,
    pub(crate) copies: Copies,
    pub(crate) caching: Caching,
    pub(crate) requests: Requests,
    /// The parent, once it was needed.
    pub(crate) parent: ArcSwapOption<Link>,
    /// The migration's source as far as this image still needs it, once it was needed.
    pub(crate) origin: ArcSwapOption<Origin>,
    /// Whether a migration is taken into account.
    pub(crate) moving: Moving,
    /// The number of clones between this ancestor and the image that the caller opened.
    pub(crate) generation: u32,
}

/// How an image is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Access to the header only. Also opens images whose data this crate cannot read: with unknown
    /// features, or being created by a migration.
    Header,
    /// Read only. Changes of the size by others are seen after [`Image::refresh`].
    ReadOnly,
    /// Read and write. The first write takes the exclusive lock; the image gives it up when another
    /// client requests it.
    ReadWrite,
}

/// How opening an image treats a migration of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moving {
    /// As for every client: the source is read-only, and the destination reads data not yet copied from
    /// the source.
    Followed,
    /// Ignored: the image has only its own data. For the client that carries the migration out.
    Ignored,
}

/// Identifies an image.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which<'a> {
    Name(&'a Name),
    Id(&'a str),
    /// An image known by its id alone; the id stands for its name.
    Known {
        name: &'a [u8],
        id: &'a str,
    },
}

/// The image itself, or one of its snapshots.
#[derive(Clone, Copy, Debug)]
pub(crate) enum At<'a> {
    Head,
    Name(&'a Name),
    Id(SnapId),
}

/// The parts of an open image.
struct Opening {
    io: IoCtx,
    name: Name,
    id: String,
    fixed: Fixed,
    view: Arc<View>,
    snap: Option<SnapId>,
    mode: Mode,
    generation: u32,
    moving: Moving,
}

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
        let task = runtime.spawn(lock::listen(Arc::clone(&inner), watch, stopped));
        Ok(Self { inner, stop: Some(stop), task: Some(task), runtime })
    }

    /// The same image for background work; dropping it releases neither the lock nor the watch.
    pub(crate) fn borrowed(inner: Arc<Inner>) -> Self {
        Self { inner, stop: None, task: None, runtime: Handle::current() }
    }

    /// Writes back the cache, then releases the exclusive lock, if this client owns it, and the watch.
    ///
    /// # Errors
    /// [`Error::WriteBack`] if data in the cache is lost, or an earlier write-back failed that was not
    /// reported yet; or the lock could not be released. The image is closed in each case.
    pub async fn close(mut self) -> Result<(), Error> {
        let released = self.inner.release_at_last().await;
        drop(self.stop.take());
        if let Some(task) = self.task.take() {
            let _ = task.await;
        }
        released
    }

    /// The image's name when it was opened.
    pub fn name(&self) -> &Name {
        &self.inner.name
    }

    /// The format of its header.
    pub fn format(&self) -> Format {
        self.inner.fixed.format
    }

    /// The image's id; empty for an image of format 1.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// The prefix of the names of its data objects.
    pub fn block_name_prefix(&self) -> &str {
        &self.inner.fixed.prefix
    }

    /// How the image's bytes map to objects.
    pub fn layout(&self) -> Layout {
        self.inner.fixed.layout
    }

    /// The base-2 logarithm of the object size.
    pub fn order(&self) -> u8 {
        self.inner.fixed.order
    }

    /// The data pool, if it differs from the header's pool.
    pub fn data_pool(&self) -> Option<PoolId> {
        self.inner.fixed.data_pool.map(PoolId)
    }

    /// The size in bytes of the open image or snapshot.
    pub fn size(&self) -> u64 {
        self.inner.size()
    }

    /// The header's contents when it was last read.
    pub fn view(&self) -> Arc<View> {
        self.inner.view.load_full()
    }

    /// Whether this image owns the exclusive lock, as far as it knows.
    pub fn is_lock_owner(&self) -> bool {
        self.inner.owned.load(Ordering::Acquire)
    }

    /// The mode in which the image is locked, by the exclusive lock or by a user's lock; `None` if it is
    /// not locked.
    ///
    /// # Errors
    /// The lock cannot be read.
    pub async fn lock_mode(&self) -> Result<Option<LockMode>, Error> {
        let info = self.inner.io.lock_info(&*self.inner.header, LOCK).await?;
        Ok(info.mode.filter(|_| !info.holders.is_empty()))
    }

    /// Reads the header again.
    ///
    /// # Errors
    /// The header cannot be read.
    pub async fn refresh(&self) -> Result<(), Error> {
        self.inner.refresh().await
    }

    /// Takes the exclusive lock now, instead of at the first write.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::Locked`] if a user has locked the image.
    pub async fn acquire_lock(&self) -> Result<(), Error> {
        self.inner.enter_alone().await.map(drop)
    }

    /// Takes the exclusive lock now if it is free, for use with a cache, which holds data only while the
    /// lock is owned. Another owner is not asked to give it up. Returns `true` if this image owns the
    /// lock now, or if the image has no feature exclusive-lock.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; errors of the cluster.
    pub async fn acquire_free_lock(&self) -> Result<bool, Error> {
        self.inner.acquire_if_free().await
    }

    /// Whether no other client has the image open for writing.
    pub(crate) async fn is_alone(&self) -> Result<bool, Error> {
        let watchers = self.inner.io.watchers(&*self.inner.header).await?;
        let own = self.inner.cookie.load(Ordering::Acquire);
        Ok(watchers.iter().all(|watcher| watcher.cookie == own))
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let Some(stop) = self.stop.take() else { return };
        let inner = Arc::clone(&self.inner);
        self.runtime.spawn(async move {
            let _ = inner.release_at_last().await;
            drop(stop);
        });
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
        let loaded = migration::once_prepared(waits, || header::load(io, &header, format)).await;
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

    /// A snapshot of this image, from the header already read.
    pub(crate) fn at_snapshot(&self, snap: SnapId) -> Self {
        Self::new(Opening {
            io: self.io.clone(),
            name: self.name.clone(),
            id: self.id.clone(),
            fixed: self.fixed.clone(),
            view: self.view.load_full(),
            snap: Some(snap),
            mode: Mode::ReadOnly,
            generation: self.generation,
            moving: self.moving,
        })
    }

    fn new(opening: Opening) -> Self {
        let Opening { io, name, id, fixed, view, snap, mode, generation, moving } = opening;
        let header = match fixed.format {
            Format::First => names::old_header(&name),
            Format::Second => names::header(&id),
        };
        let data = match fixed.data_pool {
            Some(pool) => io.rados().ioctx_by_id(PoolId(pool)).with_namespace(io.namespace().to_vec()),
            None => io.clone(),
        };
        Self {
            data,
            name,
            header,
            room: Room::default(),
            map: Keeper::new(io.clone(), &id),
            io,
            id,
            fixed,
            view: ArcSwap::new(view),
            stale: AtomicBool::new(false),
            snap,
            mode,
            gate: Semaphore::new(GATE_PLACES as usize),
            owned: AtomicBool::new(false),
            freed: Notify::new(),
            cookie: AtomicU64::new(0),
            tenure: Tenure::default(),
            ended: AtomicI32::new(0),
            copies: Copies::default(),
            caching: Caching::default(),
            requests: Requests::default(),
            parent: ArcSwapOption::empty(),
            origin: ArcSwapOption::empty(),
            moving,
            generation,
        }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.mode != Mode::ReadWrite
    }

    pub(crate) fn size(&self) -> u64 {
        let view = self.view.load();
        match self.snap {
            Some(snap) => view.snapshot_by_id(snap).map_or(0, |snap| snap.info.size),
            None => view.size,
        }
    }

    pub(crate) async fn refresh_if_stale(&self) -> Result<(), Error> {
        // Boxed, so that futures stay small if the header is current.
        if self.stale.load(Ordering::Acquire) { Box::pin(self.refresh()).await } else { Ok(()) }
    }

    pub(crate) async fn refresh(&self) -> Result<(), Error> {
        self.stale.store(false, Ordering::Release);
        let (_, view) = header::load(&self.io, &self.header, self.fixed.format).await.inspect_err(|_| {
            self.stale.store(true, Ordering::Release);
        })?;
        self.view.store(Arc::new(view));
        Ok(())
    }

    /// Checks again that the image may be changed: since it was opened it may have been demoted,
    /// journaled, or have got unknown features.
    pub(crate) fn check_view(&self) -> Result<(), Error> {
        self.view.load().check_writable(self.moving).map_err(|e| match e {
            Error::Features(features) if !self.is_read_only() => Error::Frozen(features),
            e => e,
        })
    }

    /// As `Inner::check_view`, for a change of the header that needs no lock. Reads a stale header
    /// again first.
    pub(crate) async fn check_header(&self) -> Result<(), Error> {
        self.refresh_if_stale().await?;
        self.check_view()
    }

    /// The data pool with the snapshot context that writes need.
    pub(crate) fn writer(&self) -> Result<IoCtx, Error> {
        let view = self.view.load();
        if let Some(io) = view.writer.get() {
            return Ok(io.clone());
        }
        let mut ids: Vec<SnapId> = view.snapshots.iter().map(|snap| snap.info.id).collect();
        ids.reverse();
        let io = self.data.with_snap_context(view.snap_seq, &ids)?;
        // A concurrent caller may have created the same one first.
        Ok(view.writer.get_or_init(|| io).clone())
    }

    /// Marks the object map as invalid.
    pub(crate) async fn invalidate_map(&self) -> Result<(), Error> {
        let mut flags = OBJECT_MAP_INVALID;
        if self.view.load().has(feature::FAST_DIFF) {
            flags |= FAST_DIFF_INVALID;
        }
        self.set_flags(flags, flags, SnapId::HEAD).await?;
        self.refresh().await
    }

    pub(crate) async fn set_flags(&self, flags: u64, mask: u64, snap: SnapId) -> Result<(), Error> {
        tell(&self.io, &self.header, "set_flags", |w| {
            w.u64(flags);
            w.u64(mask);
            w.u64(snap.0);
        })
        .await
    }
}

/// Returns the name and id; the id of an image of format 1 is empty.
async fn identify(io: &IoCtx, which: Which<'_>) -> Result<(Name, String), Error> {
    match which {
        Which::Name(name) => {
            let id = match ask(io, &names::id_object(name), "get_id", |_| {}).await {
                Err(e) if e.is_not_found() && old::has_header(io, name).await? => String::new(),
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
