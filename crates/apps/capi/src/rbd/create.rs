//! Creating, cloning, copying, removing, renaming and resizing images.

use std::ffi::{c_char, c_int, c_void};

use futures_util::StreamExt as _;
use loligo_rbd::diff::Grain;
use loligo_rbd::{Ancestry, Image, Mode, Shrink};
use loligo_wire::Errno;

use super::image::ImageHandle;
use super::options::{Bag, Defaults, FORMAT};
use super::progress::{Callback, Progress};
use crate::border::{Fail, calls};
use crate::memory::bytes;
use crate::rados::Pool;
use crate::runtime::wait;

/// Creates an image with options.
fn create(pool: &Pool, name: &[u8], size: u64, bag: &Bag) -> Result<(), Fail> {
    let io = pool.owned_io();
    let format = bag.number(FORMAT).unwrap_or_else(|| Defaults::of(&pool.client).format);
    let new = bag.new_image(&pool.client, &io, size)?;
    match format {
        1 => wait(loligo_rbd::create_old(&io, name, size, new.order))?,
        2 => wait(loligo_rbd::create(&io, name, new))?,
        _ => return Err(Errno::EINVAL.into()),
    }
    Ok(())
}

/// Creates an image as the older functions do, and tells the object size that it got.
///
/// # Safety
/// As `rbd_create3`.
unsafe fn create_ordered(
    ioctx: *mut c_void,
    name: *const c_char,
    size: u64,
    mut bag: Bag,
    order: *mut c_int,
) -> Result<c_int, Fail> {
    // SAFETY: by this function's contract.
    let (pool, name, order) = unsafe { (Pool::of(ioctx)?, bytes(name)?, order.as_mut()) };
    let asked = order.as_ref().map_or(0, |order| **order);
    bag.set_order(asked)?;
    create(pool, name, size, &bag)?;
    if let Some(order) = order {
        *order = if asked == 0 { Defaults::of(&pool.client).order.into() } else { asked };
    }
    Ok(0)
}

/// A clone's parent and name.
struct Cloning<'a> {
    parent: &'a Pool,
    parent_name: &'a [u8],
    snapshot: &'a [u8],
    child: &'a Pool,
    child_name: &'a [u8],
}

impl Cloning<'_> {
    /// # Safety
    /// The handles and names are valid.
    unsafe fn of<'a>(
        parent: *mut c_void,
        parent_name: *const c_char,
        snapshot: *const c_char,
        child: *mut c_void,
        child_name: *const c_char,
    ) -> Result<Cloning<'a>, Fail> {
        // SAFETY: by this function's contract.
        unsafe {
            Ok(Cloning {
                parent: Pool::of(parent)?,
                parent_name: bytes(parent_name)?,
                snapshot: bytes(snapshot)?,
                child: Pool::of(child)?,
                child_name: bytes(child_name)?,
            })
        }
    }

    fn run(&self, bag: &Bag) -> Result<c_int, Fail> {
        let (from, to) = (self.parent.owned_io(), self.child.owned_io());
        let new = bag.new_clone(&self.child.client, &to)?;
        wait(async {
            loligo_rbd::clone(&from, self.parent_name, self.snapshot, &to, self.child_name, new).await?;
            if bag.flatten() {
                let image = Image::open(&to, self.child_name, Mode::ReadWrite).await?;
                image.flatten(|_, _| {}).await?;
                image.close().await?;
            }
            Ok::<(), loligo_rbd::Error>(())
        })?;
        Ok(0)
    }
}

/// Removes an image.
///
/// # Safety
/// The handle and the name are valid.
unsafe fn remove(ioctx: *mut c_void, name: *const c_char, progress: Progress) -> Result<c_int, Fail> {
    // SAFETY: by this function's contract.
    let (io, name) = unsafe { (Pool::of(ioctx)?.owned_io(), bytes(name)?.to_vec()) };
    progress.run(|tell| async move { loligo_rbd::remove(&io, name, tell).await })?;
    Ok(0)
}

/// Resizes an image.
///
/// # Safety
/// The handle is valid.
unsafe fn resize(image: *mut c_void, size: u64, shrink: Shrink, progress: Progress) -> Result<c_int, Fail> {
    // SAFETY: by this function's contract.
    let image = unsafe { ImageHandle::of(image) }?.image();
    progress.run(|tell| async move { image.resize_telling(size, shrink, tell).await })?;
    Ok(0)
}

/// Detaches a clone from its parent.
///
/// # Safety
/// The handle is valid.
unsafe fn flatten(image: *mut c_void, progress: Progress) -> Result<c_int, Fail> {
    // SAFETY: by this function's contract.
    let handle = unsafe { ImageHandle::of(image) }?;
    if handle.is_read_only {
        return Err(Errno::EROFS.into());
    }
    let image = handle.image();
    progress.run(|tell| async move { image.flatten(tell).await })?;
    Ok(0)
}

/// Copies an image's data, or with `deep` also its snapshots.
///
/// # Safety
/// The handles and the name are valid, and `bag` is NULL or a bag.
unsafe fn copy(
    image: *mut c_void,
    ioctx: *mut c_void,
    name: *const c_char,
    (bag, sparse_bytes): (*mut c_void, usize),
    deep: bool,
    progress: Progress,
) -> Result<c_int, Fail> {
    // SAFETY: by this function's contract.
    let (image, io, name) =
        unsafe { (ImageHandle::of(image)?.image(), Pool::of(ioctx)?.owned_io(), bytes(name)?.to_vec()) };
    // SAFETY: as above.
    let bag = if bag.is_null() { Bag::default() } else { unsafe { Bag::of(bag) }?.clone() };
    let new = bag.new_copy(&io, sparse_bytes)?;
    let ancestry = if bag.flatten() { Ancestry::Flattened } else { Ancestry::Kept };
    progress.run(|tell| async move {
        if deep {
            image.deep_copy(&io, name, new, ancestry, tell).await
        } else {
            image.copy(&io, name, new, tell).await
        }
    })?;
    Ok(0)
}

/// Copies an image's data into another open one, which must be as large.
///
/// # Safety
/// The handles are valid.
unsafe fn copy_into(from: *mut c_void, to: *mut c_void, progress: Progress) -> Result<c_int, Fail> {
    /// What is read at a time.
    const PIECE: u64 = 4 << 20;
    // SAFETY: by this function's contract.
    let (from, to) = unsafe { (ImageHandle::of(from)?.image(), ImageHandle::of(to)?.image()) };
    if from.size() > to.size() {
        return Err(Errno::EINVAL.into());
    }
    progress.run(|mut tell| async move {
        let mut changes = from.diff(None, Grain::Bytes).await?;
        while let Some(change) =
            changes.next().await.transpose()?.filter(|change| change.offset < from.size())
        {
            let end = change.offset + change.len;
            let mut at = change.offset;
            while at < end {
                let len = (end - at).min(PIECE);
                to.write(at, from.read(at, len).await?).await?;
                at += len;
                tell(at, from.size());
            }
        }
        tell(from.size(), from.size());
        Ok::<(), loligo_rbd::Error>(())
    })?;
    Ok(0)
}

calls! {
    /// Creates an image.
    fn rbd_create(
        ioctx: *mut c_void, name: *const c_char, size: u64, order: *mut c_int,
    ) -> c_int {
        create_ordered(ioctx, name, size, Bag::default(), order)
    }

    /// Creates an image with features.
    fn rbd_create2(
        ioctx: *mut c_void, name: *const c_char, size: u64, features: u64, order: *mut c_int,
    ) -> c_int {
        let mut bag = Bag::default();
        bag.set_number(FORMAT, 2);
        bag.set_features(features);
        create_ordered(ioctx, name, size, bag, order)
    }

    /// Creates an image with features and striping.
    fn rbd_create3(
        ioctx: *mut c_void, name: *const c_char, size: u64, features: u64, order: *mut c_int,
        stripe_unit: u64, stripe_count: u64,
    ) -> c_int {
        let mut bag = Bag::default();
        bag.set_number(FORMAT, 2);
        bag.set_features(features);
        bag.set_striping(stripe_unit, stripe_count);
        create_ordered(ioctx, name, size, bag, order)
    }

    /// Creates an image with options.
    fn rbd_create4(ioctx: *mut c_void, name: *const c_char, size: u64, bag: *mut c_void) -> c_int {
        create(Pool::of(ioctx)?, bytes(name)?, size, Bag::of(bag)?)?;
        Ok(0)
    }

    /// Clones a snapshot.
    fn rbd_clone(
        parent: *mut c_void, parent_name: *const c_char, snapshot: *const c_char, child: *mut c_void,
        name: *const c_char, features: u64, order: *mut c_int,
    ) -> c_int {
        let mut bag = Bag::default();
        bag.set_features(features);
        bag.set_order(order.as_ref().copied().unwrap_or(0))?;
        Cloning::of(parent, parent_name, snapshot, child, name)?.run(&bag)
    }

    /// Clones a snapshot, with striping.
    fn rbd_clone2(
        parent: *mut c_void, parent_name: *const c_char, snapshot: *const c_char, child: *mut c_void,
        name: *const c_char, features: u64, order: *mut c_int, stripe_unit: u64, stripe_count: c_int,
    ) -> c_int {
        let mut bag = Bag::default();
        bag.set_features(features);
        bag.set_order(order.as_ref().copied().unwrap_or(0))?;
        bag.set_striping(stripe_unit, u64::try_from(stripe_count).map_err(|_| Errno::EINVAL)?);
        Cloning::of(parent, parent_name, snapshot, child, name)?.run(&bag)
    }

    /// Clones a snapshot, with options.
    fn rbd_clone3(
        parent: *mut c_void, parent_name: *const c_char, snapshot: *const c_char, child: *mut c_void,
        name: *const c_char, bag: *mut c_void,
    ) -> c_int {
        Cloning::of(parent, parent_name, snapshot, child, name)?.run(Bag::of(bag)?)
    }

    /// Clones a snapshot, which is named by its id.
    fn rbd_clone4(
        parent: *mut c_void, parent_name: *const c_char, snapshot: u64, child: *mut c_void,
        name: *const c_char, bag: *mut c_void,
    ) -> c_int {
        let io = Pool::of(parent)?.owned_io();
        let header = wait(Image::open(&io, bytes(parent_name)?, Mode::Header))?;
        let view = header.view();
        let snapshot = super::snap::by_id(&view, snapshot)?.info.name.as_bytes();
        let cloning = Cloning {
            parent: Pool::of(parent)?,
            parent_name: bytes(parent_name)?,
            snapshot,
            child: Pool::of(child)?,
            child_name: bytes(name)?,
        };
        cloning.run(Bag::of(bag)?)
    }

    /// Removes an image.
    fn rbd_remove(ioctx: *mut c_void, name: *const c_char) -> c_int {
        remove(ioctx, name, Progress::new(None, std::ptr::null_mut()))
    }

    /// Removes an image and tells the progress.
    fn rbd_remove_with_progress(
        ioctx: *mut c_void, name: *const c_char, callback: Option<Callback>, arg: *mut c_void,
    ) -> c_int {
        remove(ioctx, name, Progress::new(callback, arg))
    }

    /// Renames an image.
    fn rbd_rename(ioctx: *mut c_void, from: *const c_char, to: *const c_char) -> c_int {
        wait(loligo_rbd::rename(&Pool::of(ioctx)?.owned_io(), bytes(from)?, bytes(to)?))?;
        Ok(0)
    }

    /// Resizes an image.
    fn rbd_resize(image: *mut c_void, size: u64) -> c_int {
        resize(image, size, Shrink::Allowed, Progress::new(None, std::ptr::null_mut()))
    }

    /// Resizes an image; it shrinks only if that is allowed.
    fn rbd_resize2(
        image: *mut c_void, size: u64, allow_shrink: bool, callback: Option<Callback>, arg: *mut c_void,
    ) -> c_int {
        let shrink = if allow_shrink { Shrink::Allowed } else { Shrink::Refused };
        resize(image, size, shrink, Progress::new(callback, arg))
    }

    /// Resizes an image and tells the progress.
    fn rbd_resize_with_progress(
        image: *mut c_void, size: u64, callback: Option<Callback>, arg: *mut c_void,
    ) -> c_int {
        resize(image, size, Shrink::Allowed, Progress::new(callback, arg))
    }

    /// Detaches a clone from its parent.
    fn rbd_flatten(image: *mut c_void) -> c_int {
        flatten(image, Progress::new(None, std::ptr::null_mut()))
    }

    /// Detaches a clone from its parent and tells the progress.
    fn rbd_flatten_with_progress(
        image: *mut c_void, callback: Option<Callback>, arg: *mut c_void,
    ) -> c_int {
        flatten(image, Progress::new(callback, arg))
    }

    /// Releases blocks of zeros.
    fn rbd_sparsify(image: *mut c_void, bytes: usize) -> c_int {
        let image = ImageHandle::of(image)?.image();
        ImageHandle::run(image.sparsify(bytes as u64, |_, _| {}))?;
        Ok(0)
    }

    /// Releases blocks of zeros and tells the progress.
    fn rbd_sparsify_with_progress(
        image: *mut c_void, bytes: usize, callback: Option<Callback>, arg: *mut c_void,
    ) -> c_int {
        let image = ImageHandle::of(image)?.image();
        let progress = Progress::new(callback, arg);
        progress.run(|tell| async move { image.sparsify(bytes as u64, tell).await })?;
        Ok(0)
    }

    /// Makes the object map anew.
    fn rbd_rebuild_object_map(
        image: *mut c_void, callback: Option<Callback>, arg: *mut c_void,
    ) -> c_int {
        let image = ImageHandle::of(image)?.image();
        Progress::new(callback, arg).run(|tell| async move { image.rebuild_object_map(tell).await })?;
        Ok(0)
    }

    /// Copies an image.
    fn rbd_copy(image: *mut c_void, ioctx: *mut c_void, name: *const c_char) -> c_int {
        let none = Progress::new(None, std::ptr::null_mut());
        copy(image, ioctx, name, (std::ptr::null_mut(), 0), false, none)
    }

    /// Copies an image's data into another open image.
    fn rbd_copy2(from: *mut c_void, to: *mut c_void) -> c_int {
        copy_into(from, to, Progress::new(None, std::ptr::null_mut()))
    }

    /// Copies an image's data into another open image, and tells the progress.
    fn rbd_copy_with_progress2(
        from: *mut c_void, to: *mut c_void, callback: Option<Callback>, arg: *mut c_void,
    ) -> c_int {
        copy_into(from, to, Progress::new(callback, arg))
    }

    /// Copies an image, with options.
    fn rbd_copy3(
        image: *mut c_void, ioctx: *mut c_void, name: *const c_char, bag: *mut c_void,
    ) -> c_int {
        let none = Progress::new(None, std::ptr::null_mut());
        copy(image, ioctx, name, (bag, 0), false, none)
    }

    /// Copies an image, with options and a size of holes.
    fn rbd_copy4(
        image: *mut c_void, ioctx: *mut c_void, name: *const c_char, bag: *mut c_void,
        sparse_bytes: usize,
    ) -> c_int {
        let none = Progress::new(None, std::ptr::null_mut());
        copy(image, ioctx, name, (bag, sparse_bytes), false, none)
    }

    /// Copies an image and tells the progress.
    fn rbd_copy_with_progress(
        image: *mut c_void, ioctx: *mut c_void, name: *const c_char, callback: Option<Callback>,
        arg: *mut c_void,
    ) -> c_int {
        let progress = Progress::new(callback, arg);
        copy(image, ioctx, name, (std::ptr::null_mut(), 0), false, progress)
    }

    /// Copies an image with options, and tells the progress.
    fn rbd_copy_with_progress3(
        image: *mut c_void, ioctx: *mut c_void, name: *const c_char, bag: *mut c_void,
        callback: Option<Callback>, arg: *mut c_void,
    ) -> c_int {
        copy(image, ioctx, name, (bag, 0), false, Progress::new(callback, arg))
    }

    /// Copies an image with options and a size of holes, and tells the progress.
    fn rbd_copy_with_progress4(
        image: *mut c_void, ioctx: *mut c_void, name: *const c_char, bag: *mut c_void,
        callback: Option<Callback>, arg: *mut c_void, sparse_bytes: usize,
    ) -> c_int {
        copy(image, ioctx, name, (bag, sparse_bytes), false, Progress::new(callback, arg))
    }

    /// Copies an image with its snapshots.
    fn rbd_deep_copy(
        image: *mut c_void, ioctx: *mut c_void, name: *const c_char, bag: *mut c_void,
    ) -> c_int {
        let none = Progress::new(None, std::ptr::null_mut());
        copy(image, ioctx, name, (bag, 0), true, none)
    }

    /// Copies an image with its snapshots, and tells the progress.
    fn rbd_deep_copy_with_progress(
        image: *mut c_void, ioctx: *mut c_void, name: *const c_char, bag: *mut c_void,
        callback: Option<Callback>, arg: *mut c_void,
    ) -> c_int {
        copy(image, ioctx, name, (bag, 0), true, Progress::new(callback, arg))
    }
}
