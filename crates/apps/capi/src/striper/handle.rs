//! The handle of the striped files of a pool, `rados_striper_t`.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use loligo_stripe::{Layout, ObjectNames, ObjectNo, Striper, UNIT_BYTES_MIN};
use loligo_wire::Errno;

use crate::border::{Fail, calls, plain};
use crate::handle;
use crate::rados::Pool;

/// Striped files of a pool, with the layout that new ones get. The numbers may not fit together while they
/// are set one after another.
pub(super) struct Files {
    /// A copy of the pool's handle, as it was when this one was created.
    pub(super) pool: Pool,
    stripe_unit: AtomicU32,
    stripe_count: AtomicU32,
    object_size: AtomicU32,
}

impl Files {
    /// Returns the handle behind the program's pointer.
    ///
    /// # Safety
    /// The pointer is a handle that was not destroyed.
    pub(super) unsafe fn of<'a>(handle: *mut c_void) -> Result<&'a Self, Fail> {
        // SAFETY: by this function's contract.
        unsafe { handle::borrowed(handle) }
    }

    /// The files, with the layout that is set now.
    ///
    /// # Errors
    /// EINVAL if the numbers do not fit together.
    pub(super) fn striper(&self) -> Result<Striper, Fail> {
        // Relaxed: a program that sets them on another thread says when that is done.
        let number = |number: &AtomicU32| u64::from(number.load(Ordering::Relaxed));
        let [unit, count, size] = [&self.stripe_unit, &self.stripe_count, &self.object_size].map(number);
        let layout = Layout::new(unit, count, size).map_err(|_| Errno::EINVAL)?;
        Ok(Striper::new(self.pool.owned_io()).with_layout(layout)?)
    }

    /// The object that has a file's attributes.
    pub(super) fn first_object(file: &[u8]) -> Vec<u8> {
        ObjectNames::Striper(file.to_vec()).name(ObjectNo(0))
    }
}

/// Whether a size is a multiple of the least unit.
fn is_whole(bytes: c_uint) -> bool {
    bytes > 0 && bytes.is_multiple_of(UNIT_BYTES_MIN)
}

calls! {
    /// Creates a handle; the pool's may be destroyed before it.
    fn rados_striper_create(ioctx: *mut c_void, striper: *mut *mut c_void) -> c_int {
        const DEFAULT: u32 = 4 << 20;
        let pool = Pool::of(ioctx)?;
        handle::hand_out(striper, Files {
            pool: Pool::new(Arc::clone(&pool.client), pool.owned_io()),
            stripe_unit: AtomicU32::new(DEFAULT),
            stripe_count: AtomicU32::new(1),
            object_size: AtomicU32::new(DEFAULT),
        })
    }

    /// Sets the stripe unit of new files.
    fn rados_striper_set_object_layout_stripe_unit(striper: *mut c_void, bytes: c_uint) -> c_int {
        let files = Files::of(striper)?;
        if !is_whole(bytes) {
            return Err(Errno::EINVAL.into());
        }
        files.stripe_unit.store(bytes, Ordering::Relaxed);
        Ok(0)
    }

    /// Sets over how many objects new files are striped.
    fn rados_striper_set_object_layout_stripe_count(striper: *mut c_void, count: c_uint) -> c_int {
        let files = Files::of(striper)?;
        if count == 0 {
            return Err(Errno::EINVAL.into());
        }
        files.stripe_count.store(count, Ordering::Relaxed);
        Ok(0)
    }

    /// Sets the size of new files' objects, a multiple of the stripe unit.
    fn rados_striper_set_object_layout_object_size(striper: *mut c_void, bytes: c_uint) -> c_int {
        let files = Files::of(striper)?;
        if !is_whole(bytes) || !bytes.is_multiple_of(files.stripe_unit.load(Ordering::Relaxed)) {
            return Err(Errno::EINVAL.into());
        }
        files.object_size.store(bytes, Ordering::Relaxed);
        Ok(0)
    }
}

plain! {
    /// Frees the handle. Operations under way go on.
    fn rados_striper_destroy(striper: *mut c_void) -> () {
        if !striper.is_null() {
            drop(Arc::from_raw(striper.cast::<Files>().cast_const()));
        }
    }

    /// Waits for the writes that were submitted before, and for their callbacks.
    fn rados_striper_aio_flush(striper: *mut c_void) -> () {
        if let Ok(files) = Files::of(striper) {
            files.pool.flush();
        }
    }
}
