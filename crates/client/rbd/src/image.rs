//! An image that is open.

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

/// Changes of an image's data that are under way at most; more wait. Who takes all places is alone.
pub(crate) const GATE_PLACES: u32 = 4096;

/// An image, or a snapshot of one, that is open. Closed by [`Image::close`]; if it is dropped instead, the
/// same is done in the background.
pub struct Image {
    pub(crate) inner: Arc<Inner>,
    stop: Option<oneshot::Sender<()>>,
    task: Option<tokio::task::JoinHandle<()>>,
    runtime: Handle,
}

pub(crate) struct Inner {
    /// The pool and namespace of the header.
    pub(crate) io: IoCtx,
    /// Those of the data.
    pub(crate) data: IoCtx,
    pub(crate) name: Name,
    pub(crate) id: String,
    pub(crate) header: Name,
    pub(crate) fixed: Fixed,
    pub(crate) view: ArcSwap<View>,
    /// The header has changed since it was read.
    pub(crate) stale: AtomicBool,
    /// What is read.
    pub(crate) snap: Option<SnapId>,
    pub(crate) mode: Mode,
    /// Who changes data has a place; who has all of them is alone. It is fair, so that nobody waits for those
    /// who come later.
    pub(crate) gate: Semaphore,
    /// Whether the exclusive lock is ours. Changed by who has all places.
    pub(crate) owned: AtomicBool,
    /// Somebody has released the lock.
    pub(crate) freed: Notify,
    /// The watch's name.
    pub(crate) cookie: AtomicU64,
    /// What becomes of the lock while it is ours.
    pub(crate) tenure: Tenure,
    /// Why nothing can be changed any more: an errno, or 0.
    pub(crate) ended: AtomicI32,
    /// How much of the I/O to many objects is under way.
    pub(crate) room: Room,
    pub(crate) map: Keeper,
    pub(crate) copies: Copies,
    pub(crate) caching: Caching,
    pub(crate) requests: Requests,
    /// The parent, once it was needed.
    pub(crate) parent: ArcSwapOption<Link>,
    /// What of the image lies in the place that it is being migrated from, once it was needed.
    pub(crate) origin: ArcSwapOption<Origin>,
    /// Whether that is asked.
    pub(crate) moving: Moving,
    /// How many clones there are between this and the image that was opened.
    pub(crate) generation: u32,
}

/// How an image is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Look at what the header says, also of images whose data cannot be read here: those that have unknown
    /// features, or are being made by a migration.
    Header,
    /// Only read. Changes that others make to the size are seen after [`Image::refresh`].
    ReadOnly,
    /// Read and write. The exclusive lock is taken by the first write, and given up when another client wants
    /// it.
    ReadWrite,
}

/// What a migration means to who opens one of its images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moving {
    /// What it means to all: the source is read only, and the destination has what the source has.
    Followed,
    /// Nothing: the image is what it has itself. For who carries the migration out.
    Ignored,
}

/// Which image.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which<'a> {
    Name(&'a Name),
    Id(&'a str),
    /// Of an image that is named by its id alone, that stands for its name.
    Known {
        name: &'a [u8],
        id: &'a str,
    },
}

/// The image, or which of its snapshots.
#[derive(Clone, Copy, Debug)]
pub(crate) enum At<'a> {
    Head,
    Name(&'a Name),
    Id(SnapId),
}

/// What makes an image that is open.
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
    /// [`Error::NoImage`], also of a clone's parent; [`Error::Features`] if it can only be used by who knows
    /// more than is known here.
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

    /// Opens an image as it was at a snapshot, for reading.
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

    /// Opens an image, or what it was at a snapshot, as [`Mode::Header`].
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

    /// The same of an image that is named by its id, be it in the trash.
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

    /// Opens an image of a migration as what it has itself.
    pub(crate) async fn open_apart(io: &IoCtx, which: Which<'_>, mode: Mode) -> Result<Self, Error> {
        let inner = Inner::load_as(io, which, At::Head, mode, 0, Moving::Ignored).await?;
        Self::start(Arc::new(inner)).await
    }

    /// An image whose ancestors cannot be opened is of no use, unless its header is all that is looked at.
    pub(crate) async fn with_ancestors(self, mode: Mode) -> Result<Self, Error> {
        if mode == Mode::Header {
            return Ok(self);
        }
        self.inner.open_ancestors().await?;
        Ok(self)
    }

    /// Who writes watches the header.
    pub(crate) async fn start(inner: Arc<Inner>) -> Result<Self, Error> {
        let runtime = Handle::current();
        if inner.is_read_only() {
            return Ok(Self { inner, stop: None, task: None, runtime });
        }
        let watch = inner.io.watch(&*inner.header, Duration::ZERO).await?;
        inner.cookie.store(watch.cookie(), Ordering::Release);
        inner.tenure.watched(watch.confirmation());
        // What happened between the reading of the header and the watch was not heard.
        inner.stale.store(true, Ordering::Release);
        let (stop, stopped) = oneshot::channel();
        let task = runtime.spawn(lock::listen(Arc::clone(&inner), watch, stopped));
        Ok(Self { inner, stop: Some(stop), task: Some(task), runtime })
    }

    /// The same image for work in the background, which neither gives up the lock nor the watch in the end.
    pub(crate) fn borrowed(inner: Arc<Inner>) -> Self {
        Self { inner, stop: None, task: None, runtime: Handle::current() }
    }

    /// Writes back what a cache holds, gives up the exclusive lock, if it is held, and the watch.
    ///
    /// # Errors
    /// [`Error::WriteBack`] if something in the cache is lost, or was not written back earlier and nobody was
    /// told; or the lock could not be given up. The image is closed all the same.
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

    /// How its header is stored.
    pub fn format(&self) -> Format {
        self.inner.fixed.format
    }

    /// The image's id. One of the first format has none.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// What the names of its data objects begin with.
    pub fn block_name_prefix(&self) -> &str {
        &self.inner.fixed.prefix
    }

    /// How its bytes lie in objects.
    pub fn layout(&self) -> Layout {
        self.inner.fixed.layout
    }

    /// Of an object's size, to the base 2.
    pub fn order(&self) -> u8 {
        self.inner.fixed.order
    }

    /// The pool of its data, if it is another one.
    pub fn data_pool(&self) -> Option<PoolId> {
        self.inner.fixed.data_pool.map(PoolId)
    }

    /// Bytes of what is open: the image, or a snapshot.
    pub fn size(&self) -> u64 {
        self.inner.size()
    }

    /// What its header said when it was last read.
    pub fn view(&self) -> Arc<View> {
        self.inner.view.load_full()
    }

    /// Whether the exclusive lock is held by this.
    pub fn is_lock_owner(&self) -> bool {
        self.inner.owned.load(Ordering::Acquire)
    }

    /// How somebody has locked the image: the exclusive lock, or a lock by hand.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn lock_mode(&self) -> Result<Option<LockMode>, Error> {
        let info = self.inner.io.lock_info(&*self.inner.header, LOCK).await?;
        Ok(info.mode.filter(|_| !info.holders.is_empty()))
    }

    /// Reads the header again.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn refresh(&self) -> Result<(), Error> {
        self.inner.refresh().await
    }

    /// Takes the exclusive lock now, instead of with the first write.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::Locked`] if somebody has locked the image by hand.
    pub async fn acquire_lock(&self) -> Result<(), Error> {
        self.inner.enter_alone().await.map(drop)
    }

    /// Takes the exclusive lock now if nobody has it: a cache holds what is read only while the lock is held,
    /// and whoever has it for good reasons is not asked to give it up for that. True if it is ours now, or if
    /// the image knows of no lock.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; the cluster's.
    pub async fn acquire_free_lock(&self) -> Result<bool, Error> {
        self.inner.acquire_if_free().await
    }

    /// Whether nobody else has the image open for writing.
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
    /// Reads what an image is. Nothing is watched yet.
    pub(crate) async fn load(
        io: &IoCtx,
        which: Which<'_>,
        at: At<'_>,
        mode: Mode,
        generation: u32,
    ) -> Result<Self, Error> {
        Self::load_as(io, which, at, mode, generation, Moving::Followed).await
    }

    /// The same for who may ignore a migration. What is being prepared just now is waited for, for a while.
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

    /// The same image as it was at one of its snapshots, by what is known of it.
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
        // On the heap, so that futures are small for those who know the newest.
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

    /// What is looked at when the image is opened, looked at again: since then it may have been demoted,
    /// journaled, or have got unknown features.
    pub(crate) fn check_view(&self) -> Result<(), Error> {
        self.view.load().check_writable(self.moving).map_err(|e| match e {
            Error::Features(features) if !self.is_read_only() => Error::Frozen(features),
            e => e,
        })
    }

    /// The same for a change of the header that needs no lock. It is read again first if it has changed.
    pub(crate) async fn check_header(&self) -> Result<(), Error> {
        self.refresh_if_stale().await?;
        self.check_view()
    }

    /// The data pool with the snapshots that writes have to keep.
    pub(crate) fn writer(&self) -> Result<IoCtx, Error> {
        let view = self.view.load();
        if let Some(io) = view.writer.get() {
            return Ok(io.clone());
        }
        let mut ids: Vec<SnapId> = view.snapshots.iter().map(|snap| snap.info.id).collect();
        ids.reverse();
        let io = self.data.with_snap_context(view.snap_seq, &ids)?;
        // Others that come first have made the same one.
        Ok(view.writer.get_or_init(|| io).clone())
    }

    /// Says that the object map cannot be relied on.
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

/// Name and id; that of an image of the first format is empty.
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
