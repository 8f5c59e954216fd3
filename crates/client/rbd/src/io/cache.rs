//! A cache above an image's objects.
//!
//! | cache | when |
//! |---|---|
//! | exists | while this client owns the exclusive lock, or at a snapshot, which never changes |
//! | is written back | before exclusive access to the gate: snapshots, resizes, object maps, lock release |
//! | starts again, empty | after a resize or a roll-back, or when the lock was acquired again |
//!
//! Therefore nothing is dirty without the lock, and no cached data is older than another client's
//! change. Each tenure of the lock has a cache file of its own: a reader that still uses the previous
//! one fills that one. If a write-back fails, the lock is not released. It is lost with the watch or by
//! blocklisting; then nothing is written any more, and reads go to the cluster.
//!
//! The write-back needs no permit of the gate: a task with exclusive access has waited for it. Like any
//! other change it updates the object map and copies up. Discards and repeated patterns are not cached.
//! They change the cluster, and the range is dropped from the cache before (so that older data is not
//! written back over the change) and after (so that data read in between is not kept). Such a change
//! runs to its end even if its caller is dropped: if it stopped in between, data written before would be
//! lost, or stale data would stay in the cache. The next operation waits for it.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use bytes::{Bytes, BytesMut};
use loligo_cache::{Backend, Cache};
use loligo_rados::{Errno, WriteOp};
use loligo_stripe::{ObjectExtent, ObjectNo};
use loligo_wire::rbd::feature;
use tokio::sync::SemaphorePermit;

use super::caching::{CacheFile, Caching};
use super::done;
use super::object_write::{Before, ObjectChange};
use super::room::PARTS_MAX;
use crate::Error;
use crate::image::{CachedObjects, GATE_PLACES, Image, Inner};

/// The bytes whose objects are fetched in parallel.
const PART_BYTES: u64 = 4 << 20;

/// A cache for any number of images.
pub type ImageCache = Cache<CachedObjects>;

type File = CacheFile<CachedObjects>;

impl Backend for CachedObjects {
    type Error = Error;

    async fn read(&self, object: u64, offset: u64, len: u64) -> Result<Bytes, Error> {
        let inner = self.0.upgrade().ok_or(Errno::ENOTCONN)?;
        let extent = ObjectExtent { object: ObjectNo(object), offset, len };
        inner.read_object(&inner.reader(), extent).await
    }

    async fn write(&self, object: u64, extents: Vec<(u64, Vec<Bytes>)>) -> Result<(), Error> {
        let inner = self.0.upgrade().ok_or(Errno::ENOTCONN)?;
        let written = inner.write_object_back(object, &extents).await;
        written.inspect_err(|e| {
            if e.errno() == Errno::EBLOCKLISTED {
                // Remembered here, because the blocklist entry may expire before the watch notices.
                inner.ended.store(e.errno().0, Ordering::Release);
            }
        })
    }
}

/// Permits of the gate that a change holds.
struct Places {
    inner: Arc<Inner>,
    count: usize,
}

impl Drop for Places {
    fn drop(&mut self) {
        self.inner.gate.add_permits(self.count);
    }
}

/// Waits for a change. If it is dropped, the change is marked as having no caller.
struct Waiting<'a>(&'a Caching<CachedObjects, Inner>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Image {
    /// Adds a cache to the image. Reads are served from it while this client owns the exclusive lock:
    /// from the first change or [`Image::acquire_lock`] on. A write is in the cache when its call
    /// returns, and durable after [`Image::flush`], [`Image::close`] or some time (in
    /// [`WriteThrough`](crate::CacheMode::WriteThrough) at once). All dirty data is written back before
    /// another client gets the lock.
    ///
    /// ```no_run
    /// # async fn example(image: loligo_rbd::Image) -> Result<(), loligo_rbd::Error> {
    /// use loligo_rbd::{CacheOptions, ImageCache};
    ///
    /// let image = image.cached(&ImageCache::new(CacheOptions::of_size(64 << 20)))?;
    /// image.write(0, vec![1; 4096].into()).await?;
    /// image.flush().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NoCache`]; the image is then closed in the background.
    pub fn cached(self, cache: &ImageCache) -> Result<Self, Error> {
        let inner = &self.inner;
        let is_locked = !inner.is_read_only() && inner.view.load().has(feature::EXCLUSIVE_LOCK);
        if inner.snap.is_none() && !is_locked {
            return Err(Error::NoCache);
        }
        // A second cache is ignored: it would not know of the first one.
        if inner.caching.cache.set((cache.clone(), Arc::downgrade(inner))).is_ok() && inner.snap.is_some() {
            inner.begin_caching();
        }
        Ok(self)
    }

    /// Whether the image has a cache, even if it is not used at present.
    pub fn has_cache(&self) -> bool {
        self.inner.caching.cache.get().is_some()
    }

    /// The options of the image's cache, if it has one.
    pub fn cache_options(&self) -> Option<loligo_cache::Options> {
        self.inner.caching.cache.get().map(|(cache, _)| *cache.options())
    }

    /// Fills `buf` with the data at `offset` if all of it is cached, without waiting. Returns `false`
    /// otherwise; the content of `buf` is then unspecified.
    pub fn read_cached(&self, offset: u64, buf: &mut [u8]) -> bool {
        let inner = &self.inner;
        let is_inside = offset.checked_add(buf.len() as u64).is_some_and(|end| end <= inner.size());
        let is_ours = inner.snap.is_some() || inner.is_owner();
        let is_readable =
            inner.view.load().check_readable(inner.moving).is_ok() && inner.check_watch().is_ok();
        let may = is_inside && is_readable && is_ours && !inner.caching.is_left();
        let file = inner.caching.file.load();
        file.as_ref().filter(|_| may).is_some_and(|file| file.read_cached(inner, offset, buf))
    }

    /// Writes back all cached objects of a range: data written to the range before is then durable.
    ///
    /// # Errors
    /// As [`Image::flush`].
    pub async fn flush_range(&self, offset: u64, len: u64) -> Result<(), Error> {
        let inner = &self.inner;
        let Some(file) = inner.caching.file.load_full() else { return inner.check_watch() };
        let extents = inner.fixed.layout.extents(offset, len);
        let flush = |extent: ObjectExtent| {
            let flushed = file.cached.flush_object(extent.object.0);
            async { Ok(flushed.await?) }
        };
        inner.room.each(extents, flush, drop).await
    }
}

impl Inner {
    /// Begins to cache, if the image has a cache and nobody else can change the image.
    pub(crate) fn begin_caching(&self) {
        let Some((cache, me)) = self.caching.cache.get() else { return };
        if self.caching.file.load().is_some() {
            return;
        }
        let is_ours = self.owned.load(Ordering::Acquire) && self.view.load().has(feature::EXCLUSIVE_LOCK);
        if self.snap.is_none() && !is_ours {
            return;
        }
        let file = Arc::new(File::new(cache, CachedObjects(Weak::clone(me))));
        // Of two concurrent callers one sets its file.
        self.caching.file.compare_and_swap(&None::<Arc<File>>, Some(file));
    }

    /// Writes back dirty data. With exclusive access nothing is dirty afterwards.
    pub(crate) async fn write_back(&self) -> Result<(), Error> {
        match self.caching.file.load_full() {
            Some(file) => Ok(file.cached.write_back().await?),
            None => Ok(()),
        }
    }

    /// Writes back and ends caching. Needs exclusive access.
    pub(crate) async fn end_caching(&self) -> Result<(), Error> {
        let Some(file) = self.caching.file.load_full() else { return Ok(()) };
        file.cached.write_back().await?;
        self.caching.file.store(None);
        // All is written back; a remaining failure is one that a later attempt repaired.
        if let Err(e) = file.cached.flush().await {
            self.caching.untold.lock().get_or_insert(e.into());
        }
        Ok(())
    }

    /// Ends caching and drops dirty data. Needs exclusive access.
    pub(crate) async fn abandon_cache(&self) {
        if let Some(file) = self.caching.file.swap(None) {
            file.cached.discard_all().await;
        }
    }

    /// Writes back, and reports failures, also earlier ones.
    pub(crate) async fn flush_cache(&self) -> Result<(), Error> {
        let flushed = match self.caching.file.load_full() {
            Some(file) => file.cached.flush().await.map_err(Error::from),
            None => Ok(()),
        };
        // Checked last: the lock may be released during the flush, and the file with it.
        self.caching.untold.lock().take().map_or(flushed, Err)
    }

    /// Enters the gate for a compare-and-write. With a cache all permits are taken, so that the cache
    /// holds no newer data than the cluster.
    pub(crate) async fn enter_to_compare(&self) -> Result<SemaphorePermit<'_>, Error> {
        match self.caching.cache.get() {
            Some(_) => self.enter_alone().await,
            None => self.enter().await,
        }
    }

    /// Runs a change past the cache with the caller's permits. With a cache it runs to its end, even if
    /// this future is dropped.
    pub(crate) async fn to_the_end<T: Send + 'static>(
        self: &Arc<Self>,
        places: SemaphorePermit<'_>,
        change: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        if self.caching.cache.get().is_none() {
            let _places = places;
            return change.await;
        }
        let taken = Places { inner: Arc::clone(self), count: places.num_permits() };
        places.forget();
        let task = tokio::spawn(async move {
            let _taken = taken;
            change.await
        });
        let waiting = Waiting(&self.caching);
        let done = task.await;
        std::mem::forget(waiting);
        done.map_err(|_| Errno::ENOTCONN)?
    }

    /// Reads the newest data, from the cache or the cluster.
    pub(crate) async fn read_newest(&self, offset: u64, len: u64) -> Result<Bytes, Error> {
        if self.caching.is_left() {
            let _all = self.gate.acquire_many(GATE_PLACES).await.map_err(|_| Errno::ENOTCONN)?;
            self.caching.none_is_left();
        }
        let file = self.caching.file.load_full();
        if file.is_some() && self.snap.is_none() {
            let confirmed = self.confirm_lock().await;
            // If the lock is lost, the cluster's data is read.
            if self.check_watch().is_ok() {
                confirmed?;
            }
        }
        let file = file.filter(|_| self.check_watch().is_ok());
        match file {
            Some(file) => file.read(self, offset, len).await,
            None => self.read(offset, len).await,
        }
    }

    /// Writes to the cache, if there is one. The caller must hold a permit of the gate.
    pub(crate) async fn write_to_cache(&self, offset: u64, data: &Bytes) -> Option<Result<(), Error>> {
        let file = &self.caching.file.load_full()?.cached;
        let len = data.len() as u64;
        let write = |extent: ObjectExtent| async move {
            for (at, object_offset, len) in self.pieces(extent) {
                let from = (at - offset) as usize;
                file.write(extent.object.0, object_offset, &data[from..from + len as usize]).await?;
            }
            Ok::<_, Error>(())
        };
        Some(match self.only_object(offset, len) {
            Some(extent) => write(extent).await,
            // Boxed, so that futures of small writes stay small.
            None => Box::pin(self.room.each(self.fixed.layout.extents(offset, len), write, drop)).await,
        })
    }

    /// Runs a change that is not cached, and drops its range from the cache before and after it.
    pub(crate) async fn past_the_cache(
        &self,
        offset: u64,
        len: u64,
        change: impl Future<Output = Result<(), Error>>,
    ) -> Result<(), Error> {
        self.forget(offset, len).await?;
        let changed = change.await;
        self.forget(offset, len).await?;
        changed
    }

    /// Drops a range from the cache, including dirty data.
    pub(crate) async fn forget(&self, offset: u64, len: u64) -> Result<(), Error> {
        let Some(file) = self.caching.file.load_full() else { return Ok(()) };
        for extent in self.fixed.layout.extents(offset, len) {
            file.cached.discard(extent.object.0, extent.offset, extent.len).await?;
        }
        Ok(())
    }

    async fn write_object_back(&self, object: u64, extents: &[(u64, Vec<Bytes>)]) -> Result<(), Error> {
        self.check_watch()?;
        self.check_view()?;
        self.confirm_lock().await?;
        let (Some((first, _)), Some((last, end))) = (extents.first(), extents.last()) else { return Ok(()) };
        let len = last + end.iter().map(|piece| piece.len() as u64).sum::<u64>() - first;
        let extent = ObjectExtent { object: ObjectNo(object), offset: *first, len };
        let before = if extents.len() == 1 { Before::Replaced } else { Before::Kept };
        let io = self.writer()?;
        let writing = self.map.writing(&[object]).await?;
        let write = |op| {
            extents.iter().fold(op, |op: WriteOp, (offset, data)| op.write_pieces(*offset, data.clone()))
        };
        let missing = writing.was_missing(object);
        done(&self.change(&io, ObjectChange { extent, before, missing, op: write }).await?)
    }
}

impl File {
    async fn read(&self, inner: &Inner, offset: u64, len: u64) -> Result<Bytes, Error> {
        let mut read = BytesMut::zeroed(len as usize);
        for from in (offset..offset + len).step_by(PART_BYTES as usize) {
            let to = (offset + len).min(from + PART_BYTES);
            let part = &mut read[(from - offset) as usize..(to - offset) as usize];
            if !self.read_cached(inner, from, part) {
                // Boxed, so that futures of cache hits stay small.
                Box::pin(self.read_part(inner, from, part)).await?;
            }
        }
        Ok(read.freeze())
    }

    /// Returns `true` if the whole range was cached.
    fn read_cached(&self, inner: &Inner, offset: u64, buf: &mut [u8]) -> bool {
        let mut reached = false;
        for (object, object_offset, range) in places(inner, offset, buf.len() as u64) {
            match self.cached.try_read(object, object_offset, &mut buf[range]) {
                Some(hit) => reached |= hit.reached,
                None => return false,
            }
        }
        if reached {
            let ahead = self.ahead.lock().reached(offset, buf.len() as u64);
            self.read_ahead(inner, ahead);
        }
        true
    }

    async fn read_part(&self, inner: &Inner, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        let len = buf.len() as u64;
        let ahead = self.ahead.lock().missed(offset, len);
        self.read_ahead(inner, ahead);
        let extents = inner.fixed.layout.extents(offset, len);
        let fetch = |extent: ObjectExtent| async move {
            // A failure here occurs again below.
            let _ = self.cached.fetch(extent.object.0, extent.offset, extent.len).await;
            Ok(())
        };
        inner.room.each(extents, fetch, drop).await?;
        for (object, object_offset, range) in places(inner, offset, len) {
            self.cached.read(object, object_offset, &mut buf[range]).await?;
        }
        Ok(())
    }

    fn read_ahead(&self, inner: &Inner, range: Option<Range<u64>>) {
        let Some(range) = range else { return };
        let len = range.end.min(inner.size()).saturating_sub(range.start);
        for (n, extent) in inner.fixed.layout.extents(range.start, len).take(PARTS_MAX).enumerate() {
            self.cached.read_ahead(extent.object.0, extent.offset, extent.len, n == 0);
        }
    }
}

/// Splits a range into parts: object, offset in it, and the bytes of the range.
fn places(
    inner: &Inner,
    offset: u64,
    len: u64,
) -> impl Iterator<Item = (u64, u64, Range<usize>)> + Send + use<> {
    let (layout, end) = (inner.fixed.layout, offset + len);
    let mut at = offset;
    std::iter::from_fn(move || {
        let begins = at;
        let len = (end - at).min(layout.stripe_unit() - at % layout.stripe_unit());
        let (object, object_offset) = layout.locate(begins);
        at += len;
        let from = (begins - offset) as usize;
        (len > 0).then(|| (object.0, object_offset, from..from + len as usize))
    })
}
