//! The handle of an open image, `rbd_image_t`, and what the image tells of itself.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use loligo_rados::IoCtx;
use loligo_rbd::{Format, Image};
use loligo_wire::Errno;

use super::events::Events;
use super::update_watches::UpdateWatches;
use super::uses::{InUse, Uses};
use crate::border::{Fail, calls};
use crate::handle;
use crate::memory::{copy_to, ended, fill, fill_text, put, timespec};
use crate::rados::{Client, Pool};
use crate::runtime::wait;
use crate::strand::Strand;

/// An open image. It lives as long as the program's handle and the operations under way.
pub(crate) struct ImageHandle {
    /// The image, or the snapshot of it that `rbd_snap_set` selected.
    image: ArcSwap<Image>,
    /// What was opened: changes of snapshots go there whatever is selected.
    head: Arc<Image>,
    /// The operations that use either.
    uses: Uses,
    /// The context with which it was opened.
    pub(super) io: IoCtx,
    pub(super) client: Arc<crate::rados::Client>,
    /// Callbacks of this image's completions.
    pub(super) strand: Arc<Strand>,
    pub(super) events: Arc<Events>,
    pub(super) updates: UpdateWatches,
    /// The snapshot that is open.
    pub(super) snapshot: ArcSwap<Option<loligo_rbd::Name>>,
    /// Whether that snapshot was removed through this handle.
    is_gone: AtomicBool,
    pub(super) is_read_only: bool,
    /// Discards release whole multiples of this; 1 is all that is asked for.
    pub(super) granularity: u64,
}

impl ImageHandle {
    pub(super) fn new(
        pool: &Pool,
        image: Image,
        snapshot: Option<loligo_rbd::Name>,
        is_read_only: bool,
    ) -> Self {
        let image = Arc::new(image);
        Self {
            image: ArcSwap::new(Arc::clone(&image)),
            head: image,
            uses: Uses::new(),
            io: pool.owned_io(),
            client: Arc::clone(&pool.client),
            strand: Strand::new(),
            events: Events::new(),
            updates: UpdateWatches::new(),
            is_read_only: is_read_only || snapshot.is_some(),
            snapshot: ArcSwap::from_pointee(snapshot),
            is_gone: AtomicBool::new(false),
            granularity: granularity_of(&pool.client),
        }
    }

    /// Returns the handle behind the program's pointer.
    ///
    /// # Safety
    /// The pointer is a handle that was not closed.
    pub(super) unsafe fn of<'a>(handle: *mut c_void) -> Result<&'a Self, Fail> {
        // SAFETY: by this function's contract.
        unsafe { handle::borrowed(handle) }
    }

    /// Takes the program's reference back.
    ///
    /// # Safety
    /// The pointer is a handle that was not closed, and is not used again.
    pub(super) unsafe fn take(handle: *mut c_void) -> Result<Arc<Self>, Fail> {
        // SAFETY: by this function's contract.
        unsafe { handle::take_back(handle) }
    }

    /// The image.
    pub(super) fn image(&self) -> InUse {
        self.uses.of(self.image.load_full())
    }

    /// The image, for its data.
    ///
    /// # Errors
    /// ENOENT if the snapshot that is selected was removed.
    pub(super) fn data(&self) -> Result<InUse, Fail> {
        if self.is_gone.load(Ordering::Acquire) { Err(Errno::ENOENT.into()) } else { Ok(self.image()) }
    }

    /// A snapshot was removed through this handle.
    pub(super) fn snapshot_is_gone(&self, name: &[u8]) {
        let selected = self.snapshot.load();
        if selected.as_ref().as_ref().is_some_and(|selected| selected.as_bytes() == name) {
            self.is_gone.store(true, Ordering::Release);
        }
    }

    /// What was opened, whatever is selected.
    pub(super) fn head(&self) -> InUse {
        self.uses.of(Arc::clone(&self.head))
    }

    /// Goes on with another snapshot, or with what was opened.
    pub(super) fn select(&self, image: Option<Image>, snapshot: Option<loligo_rbd::Name>) {
        self.image.store(image.map_or_else(|| Arc::clone(&self.head), Arc::new));
        self.snapshot.store(Arc::new(snapshot));
        self.is_gone.store(false, Ordering::Release);
    }

    /// The name of the header object.
    pub(super) fn header(&self) -> String {
        match self.head.format() {
            Format::First => format!("{}.rbd", self.head.name()),
            Format::Second => format!("rbd_header.{}", self.head.id()),
        }
    }

    /// Closes the image, when the operations under way have ended.
    pub(super) async fn close(self: Arc<Self>) -> Result<(), Fail> {
        self.updates.end();
        let (image, head, uses) = (self.image.load_full(), Arc::clone(&self.head), self.uses.clone());
        drop(self);
        uses.ended().await;
        let selected = (!Arc::ptr_eq(&image, &head)).then_some(image);
        let closed = match selected {
            Some(image) => close(image).await,
            None => Ok(()),
        };
        close(head).await.and(closed)
    }

    /// Runs an operation on the caller's thread.
    pub(super) fn run<T, E>(operation: impl Future<Output = Result<T, E>>) -> Result<T, Fail>
    where
        Fail: From<E>,
    {
        wait(operation).map_err(Fail::from)
    }
}

/// What discards release, by configuration.
fn granularity_of(client: &Client) -> u64 {
    const DEFAULT: u64 = 64 << 10;
    let conf = client.conf();
    match conf.bool("rbd_skip_partial_discard", true) {
        Ok(false) => 1,
        _ => conf.size("rbd_discard_granularity_bytes", DEFAULT).unwrap_or(DEFAULT).max(1),
    }
}

/// Closes an image that nobody uses any more.
async fn close(image: Arc<Image>) -> Result<(), Fail> {
    match Arc::into_inner(image) {
        Some(image) => Ok(image.close().await?),
        None => Err(Errno::EBUSY.into()),
    }
}

/// `rbd_image_info_t`.
#[repr(C)]
pub(super) struct Info {
    size: u64,
    obj_size: u64,
    num_objs: u64,
    order: c_int,
    block_name_prefix: [c_char; 24],
    parent_pool: i64,
    parent_name: [c_char; 96],
}

/// The objects of an image of a size.
fn object_count(image: &Image) -> u64 {
    let layout = image.layout();
    image.size().div_ceil(layout.object_size())
}

calls! {
    /// Size and layout.
    fn rbd_stat(image: *mut c_void, info: *mut Info, _room: usize) -> c_int {
        let image = ImageHandle::of(image)?.image();
        ImageHandle::run(image.refresh())?;
        let info = info.as_mut().ok_or(Errno::EINVAL)?;
        info.size = image.size();
        info.obj_size = 1 << image.order();
        info.num_objs = object_count(&image);
        info.order = image.order().into();
        // The parent's fields are of old programs and are not used since format 2.
        info.parent_pool = -1;
        info.parent_name = [0; 96];
        info.block_name_prefix = [0; 24];
        let prefix = image.block_name_prefix().as_bytes();
        copy_to(info.block_name_prefix.as_mut_ptr(), &prefix[..prefix.len().min(23)]);
        Ok(0)
    }

    /// Whether the image is of format 1.
    fn rbd_get_old_format(image: *mut c_void, old: *mut u8) -> c_int {
        put(old, (ImageHandle::of(image)?.image().format() == Format::First).into());
        Ok(0)
    }

    /// The size in bytes.
    fn rbd_get_size(image: *mut c_void, size: *mut u64) -> c_int {
        let image = ImageHandle::of(image)?.image();
        ImageHandle::run(image.refresh())?;
        put(size, image.size());
        Ok(0)
    }

    /// The features.
    fn rbd_get_features(image: *mut c_void, features: *mut u64) -> c_int {
        let image = ImageHandle::of(image)?.image();
        ImageHandle::run(image.refresh())?;
        put(features, image.view().features);
        Ok(0)
    }

    /// The features that operations have brought about.
    fn rbd_get_op_features(image: *mut c_void, features: *mut u64) -> c_int {
        let image = ImageHandle::of(image)?.image();
        ImageHandle::run(image.refresh())?;
        put(features, image.view().op_features);
        Ok(0)
    }

    /// Switches features on or off.
    fn rbd_update_features(image: *mut c_void, features: u64, enabled: u8) -> c_int {
        let image = ImageHandle::of(image)?.image();
        if enabled == 0 {
            ImageHandle::run(image.disable_features(features))?;
        } else {
            ImageHandle::run(image.enable_features(features))?;
        }
        Ok(0)
    }

    /// Whether object map and fast diff are invalid.
    fn rbd_get_flags(image: *mut c_void, flags: *mut u64) -> c_int {
        let image = ImageHandle::of(image)?.image();
        ImageHandle::run(image.refresh())?;
        put(flags, image.view().flags);
        Ok(0)
    }

    /// The stripe unit in bytes.
    fn rbd_get_stripe_unit(image: *mut c_void, bytes: *mut u64) -> c_int {
        put(bytes, ImageHandle::of(image)?.image().layout().stripe_unit());
        Ok(0)
    }

    /// The stripe count in objects.
    fn rbd_get_stripe_count(image: *mut c_void, count: *mut u64) -> c_int {
        put(count, ImageHandle::of(image)?.image().layout().stripe_count());
        Ok(0)
    }

    /// When the image was created.
    fn rbd_get_create_timestamp(image: *mut c_void, time: *mut libc::timespec) -> c_int {
        put(time, timespec(ImageHandle::of(image)?.image().view().times[0].to_system()));
        Ok(0)
    }

    /// When the image was last read.
    fn rbd_get_access_timestamp(image: *mut c_void, time: *mut libc::timespec) -> c_int {
        put(time, timespec(ImageHandle::of(image)?.image().view().times[1].to_system()));
        Ok(0)
    }

    /// When the image was last changed.
    fn rbd_get_modify_timestamp(image: *mut c_void, time: *mut libc::timespec) -> c_int {
        put(time, timespec(ImageHandle::of(image)?.image().view().times[2].to_system()));
        Ok(0)
    }

    /// How much of the parent's data shows.
    fn rbd_get_overlap(image: *mut c_void, overlap: *mut u64) -> c_int {
        let image = ImageHandle::of(image)?.image();
        ImageHandle::run(image.refresh())?;
        put(overlap, image.view().overlap.unwrap_or(0));
        Ok(0)
    }

    /// Copies the name; the length that is needed is told if there is no room.
    fn rbd_get_name(image: *mut c_void, to: *mut c_char, len: *mut usize) -> c_int {
        let image = ImageHandle::of(image)?.image();
        fill(to, len, &ended(image.name().as_bytes()))?;
        Ok(0)
    }

    /// Copies the id.
    fn rbd_get_id(image: *mut c_void, to: *mut c_char, room: usize) -> c_int {
        fill_text(to, room, ImageHandle::of(image)?.image().id().as_bytes())?;
        Ok(0)
    }

    /// Copies the prefix of the data objects' names.
    fn rbd_get_block_name_prefix(image: *mut c_void, to: *mut c_char, room: usize) -> c_int {
        fill_text(to, room, ImageHandle::of(image)?.image().block_name_prefix().as_bytes())?;
        Ok(0)
    }

    /// The pool of the data.
    fn rbd_get_data_pool_id(image: *mut c_void) -> i64 {
        let image = ImageHandle::of(image)?;
        Ok(image.image().data_pool().unwrap_or(image.io.pool()).0)
    }

    /// Nothing is cached.
    fn rbd_invalidate_cache(image: *mut c_void) -> c_int {
        ImageHandle::of(image)?;
        Ok(0)
    }
}
