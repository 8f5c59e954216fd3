//! Opening and closing images.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use loligo_rados::IoCtx;
use loligo_rbd::{Image, Mode, Name};
use loligo_wire::Errno;

use super::image::ImageHandle;
use crate::border::{Fail, Lent, calls};
use crate::completion::{self, Outcome};
use crate::handle::hand_out;
use crate::memory::{bytes, optional_text, text};
use crate::rados::Pool;
use crate::runtime::wait;

/// What is to be opened.
struct Target {
    which: Which,
    snapshot: Option<Name>,
    is_read_only: bool,
}

enum Which {
    Name(Name),
    Id(String),
}

impl Target {
    /// # Safety
    /// The pointers are C strings; `snapshot` may be NULL.
    unsafe fn by_name(
        name: *const c_char,
        snapshot: *const c_char,
        is_read_only: bool,
    ) -> Result<Self, Fail> {
        // SAFETY: by this function's contract.
        let (name, snapshot) = unsafe { (bytes(name)?, optional_text(snapshot)?) };
        let snapshot = snapshot.filter(|name| !name.is_empty()).map(Name::from);
        Ok(Self { which: Which::Name(Name::from(name)), snapshot, is_read_only })
    }

    /// # Safety
    /// As [`Target::by_name`].
    unsafe fn by_id(id: *const c_char, snapshot: *const c_char, is_read_only: bool) -> Result<Self, Fail> {
        // SAFETY: by this function's contract.
        let (id, snapshot) = unsafe { (text(id)?, optional_text(snapshot)?) };
        let snapshot = snapshot.filter(|name| !name.is_empty()).map(Name::from);
        Ok(Self { which: Which::Id(id.to_owned()), snapshot, is_read_only })
    }

    async fn open(&self, io: &IoCtx) -> Result<Image, loligo_rbd::Error> {
        let mode = if self.is_read_only { Mode::ReadOnly } else { Mode::ReadWrite };
        match (&self.which, &self.snapshot) {
            (Which::Name(name), None) => Image::open(io, name, mode).await,
            (Which::Name(name), Some(snapshot)) => Image::open_snapshot(io, name, snapshot).await,
            (Which::Id(id), None) => Image::open_by_id(io, id, mode).await,
            (Which::Id(id), Some(snapshot)) => {
                let name = Image::open_by_id(io, id, Mode::ReadOnly).await?.name().clone();
                Image::open_snapshot(io, name, snapshot).await
            }
        }
    }
}

/// Opens on the caller's thread.
///
/// # Safety
/// `ioctx` is a handle, and `to` can be written.
unsafe fn open(ioctx: *mut c_void, to: *mut *mut c_void, target: &Target) -> Result<c_int, Fail> {
    // SAFETY: by this function's contract.
    let pool = unsafe { Pool::of(ioctx) }?;
    let image = wait(target.open(&pool.owned_io()))?;
    // SAFETY: by this function's contract.
    unsafe { hand_out(to, ImageHandle::new(pool, image, target.snapshot.clone(), target.is_read_only)) }
}

/// Opens asynchronously: the handle is there when the completion is.
///
/// # Safety
/// `ioctx` is a handle, `to` can be written until completion, and `completion` is the program's.
unsafe fn aio_open(
    ioctx: *mut c_void,
    to: *mut *mut c_void,
    target: Target,
    completion: *mut c_void,
) -> Result<c_int, Fail> {
    // SAFETY: by this function's contract.
    let pool = unsafe { Pool::shared(ioctx) }?;
    let (strand, held) = (Arc::clone(&pool.client.strand), pool.client.begin());
    let place = Lent(to);
    let operation = async move {
        let place = place;
        let image = match target.open(&pool.owned_io()).await {
            Ok(image) => image,
            Err(why) => return Outcome::failed(why),
        };
        let handle = ImageHandle::new(&pool, image, target.snapshot, target.is_read_only);
        // SAFETY: the program keeps the place until the operation is complete.
        let handed_out = unsafe { hand_out(place.0, handle) };
        handed_out.map_or_else(Outcome::failed, |_| Outcome::default())
    };
    // SAFETY: by this function's contract.
    unsafe { completion::submit(completion, &strand, None, held, operation) }
}

calls! {
    /// Opens an image; with a snapshot's name, that snapshot.
    fn rbd_open(
        ioctx: *mut c_void, name: *const c_char, image: *mut *mut c_void, snapshot: *const c_char,
    ) -> c_int {
        open(ioctx, image, &Target::by_name(name, snapshot, false)?)
    }

    /// Opens an image by its id.
    fn rbd_open_by_id(
        ioctx: *mut c_void, id: *const c_char, image: *mut *mut c_void, snapshot: *const c_char,
    ) -> c_int {
        open(ioctx, image, &Target::by_id(id, snapshot, false)?)
    }

    /// Opens an image for reading.
    fn rbd_open_read_only(
        ioctx: *mut c_void, name: *const c_char, image: *mut *mut c_void, snapshot: *const c_char,
    ) -> c_int {
        open(ioctx, image, &Target::by_name(name, snapshot, true)?)
    }

    /// Opens an image for reading, by its id.
    fn rbd_open_by_id_read_only(
        ioctx: *mut c_void, id: *const c_char, image: *mut *mut c_void, snapshot: *const c_char,
    ) -> c_int {
        open(ioctx, image, &Target::by_id(id, snapshot, true)?)
    }

    /// Opens an image asynchronously.
    fn rbd_aio_open(
        ioctx: *mut c_void, name: *const c_char, image: *mut *mut c_void, snapshot: *const c_char,
        completion: *mut c_void,
    ) -> c_int {
        aio_open(ioctx, image, Target::by_name(name, snapshot, false)?, completion)
    }

    /// Opens an image by its id, asynchronously.
    fn rbd_aio_open_by_id(
        ioctx: *mut c_void, id: *const c_char, image: *mut *mut c_void, snapshot: *const c_char,
        completion: *mut c_void,
    ) -> c_int {
        aio_open(ioctx, image, Target::by_id(id, snapshot, false)?, completion)
    }

    /// Opens an image for reading, asynchronously.
    fn rbd_aio_open_read_only(
        ioctx: *mut c_void, name: *const c_char, image: *mut *mut c_void, snapshot: *const c_char,
        completion: *mut c_void,
    ) -> c_int {
        aio_open(ioctx, image, Target::by_name(name, snapshot, true)?, completion)
    }

    /// Opens an image for reading by its id, asynchronously.
    fn rbd_aio_open_by_id_read_only(
        ioctx: *mut c_void, id: *const c_char, image: *mut *mut c_void, snapshot: *const c_char,
        completion: *mut c_void,
    ) -> c_int {
        aio_open(ioctx, image, Target::by_id(id, snapshot, true)?, completion)
    }

    /// Closes an image, when the operations under way have ended.
    fn rbd_close(image: *mut c_void) -> c_int {
        let handle = ImageHandle::take(image)?;
        let strand = Arc::clone(&handle.strand);
        let closed = wait(handle.close());
        strand.flush();
        closed?;
        Ok(0)
    }

    /// Closes an image asynchronously.
    fn rbd_aio_close(image: *mut c_void, completion: *mut c_void) -> c_int {
        if completion.is_null() {
            return Err(Errno::EINVAL.into());
        }
        let handle = ImageHandle::take(image)?;
        let (strand, held) = (Arc::clone(&handle.strand), handle.client.begin());
        let operation = async move {
            handle.close().await.map_or_else(Outcome::failed, |()| Outcome::default())
        };
        completion::submit(completion, &strand, None, held, operation)
    }
}

/// Selects a snapshot of the same image, or what was opened.
pub(super) fn reopen(handle: &ImageHandle, snapshot: Option<Name>) -> Result<(), Fail> {
    let Some(name) = snapshot else {
        handle.select(None, None);
        return Ok(());
    };
    let image = wait(Image::open_snapshot(&handle.io, handle.head().name(), &name))?;
    handle.select(Some(image), Some(name));
    Ok(())
}
