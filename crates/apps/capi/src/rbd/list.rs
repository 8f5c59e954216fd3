//! Lists of images and namespaces, clients that have an image open, and pools for images.

use std::ffi::{c_char, c_int, c_void};

use loligo_rbd::namespaces;
use loligo_wire::Errno;

use super::image::ImageHandle;
use crate::border::{Fail, calls, plain};
use crate::memory::{allocated_text, bytes, fill, free, joined, put};
use crate::rados::Pool;
use crate::runtime::wait;

/// Stores values in the caller's array. They are made only if there is room for all.
///
/// # Errors
/// ERANGE, with the number that is needed, if there is no room.
///
/// # Safety
/// `count` can be read and written, and `to` has as many elements as it says.
pub(super) unsafe fn fill_array<T>(
    to: *mut T,
    count: *mut usize,
    values: impl ExactSizeIterator<Item = T>,
) -> Result<(), Fail> {
    // SAFETY: by this function's contract.
    unsafe {
        let room = count.read();
        count.write(values.len());
        if room < values.len() {
            return Err(Errno::ERANGE.into());
        }
        for (at, value) in values.enumerate() {
            to.add(at).write(value);
        }
    }
    Ok(())
}

/// `rbd_image_spec_t`.
#[repr(C)]
pub(super) struct ImageSpec {
    id: *mut c_char,
    name: *mut c_char,
}

/// `rbd_image_watcher_t`.
#[repr(C)]
pub(super) struct Watcher {
    addr: *mut c_char,
    id: i64,
    cookie: u64,
}

calls! {
    /// Lists the names, each with a NUL; returns their bytes.
    fn rbd_list(ioctx: *mut c_void, to: *mut c_char, len: *mut usize) -> c_int {
        let images = wait(loligo_rbd::list(&Pool::of(ioctx)?.owned_io()))?;
        let names = joined(images.keys());
        fill(to, len, &names)?;
        c_int::try_from(names.len()).map_err(|_| Errno::ERANGE.into())
    }

    /// Lists names and ids.
    fn rbd_list2(ioctx: *mut c_void, to: *mut ImageSpec, count: *mut usize) -> c_int {
        let images = wait(loligo_rbd::list(&Pool::of(ioctx)?.owned_io()))?;
        fill_array(to, count, images.iter().map(|(name, id)| ImageSpec {
            id: allocated_text(id.as_bytes()),
            name: allocated_text(name.as_bytes()),
        }))?;
        Ok(0)
    }

    /// Whether there is a namespace.
    fn rbd_namespace_exists(ioctx: *mut c_void, name: *const c_char, exists: *mut bool) -> c_int {
        let names = wait(namespaces::list(&Pool::of(ioctx)?.owned_io()))?;
        let name = bytes(name)?;
        put(exists, names.iter().any(|known| known.as_bytes() == name));
        Ok(0)
    }

    /// Creates a namespace.
    fn rbd_namespace_create(ioctx: *mut c_void, name: *const c_char) -> c_int {
        wait(namespaces::create(&Pool::of(ioctx)?.owned_io(), bytes(name)?))?;
        Ok(0)
    }

    /// Removes a namespace.
    fn rbd_namespace_remove(ioctx: *mut c_void, name: *const c_char) -> c_int {
        wait(namespaces::remove(&Pool::of(ioctx)?.owned_io(), bytes(name)?))?;
        Ok(0)
    }

    /// Lists the namespaces, each with a NUL.
    fn rbd_namespace_list(ioctx: *mut c_void, to: *mut c_char, len: *mut usize) -> c_int {
        let names = wait(namespaces::list(&Pool::of(ioctx)?.owned_io()))?;
        fill(to, len, &joined(&names))?;
        Ok(0)
    }

    /// Makes a pool one for images.
    fn rbd_pool_init(ioctx: *mut c_void, force: bool) -> c_int {
        let io = Pool::of(ioctx)?.owned_io();
        wait(io.enable_application("rbd", force))?;
        wait(loligo_rbd::pools::validate(&io))?;
        Ok(0)
    }

    /// Lists the clients that have the image open.
    fn rbd_watchers_list(image: *mut c_void, to: *mut Watcher, count: *mut usize) -> c_int {
        let handle = ImageHandle::of(image)?;
        // This client's own watch is one of them.
        let watchers = ImageHandle::run(handle.io.watchers(handle.header()))?;
        fill_array(to, count, watchers.iter().map(|watcher| Watcher {
            addr: allocated_text(watcher.addr.to_string().as_bytes()),
            id: watcher.name.num,
            cookie: watcher.cookie,
        }))?;
        Ok(0)
    }
}

/// Frees a text and forgets it.
///
/// # Safety
/// It was allocated by this library, or is NULL.
pub(super) unsafe fn free_text(text: &mut *mut c_char) {
    // SAFETY: by this function's contract.
    unsafe { free(std::mem::replace(text, std::ptr::null_mut())) };
}

plain! {
    /// Frees what names an image.
    fn rbd_image_spec_cleanup(spec: *mut ImageSpec) -> () {
        if let Some(spec) = spec.as_mut() {
            free_text(&mut spec.id);
            free_text(&mut spec.name);
        }
    }

    /// Frees what names images; the array is the program's.
    fn rbd_image_spec_list_cleanup(specs: *mut ImageSpec, count: usize) -> () {
        for at in 0..count {
            let spec = &mut *specs.add(at);
            free_text(&mut spec.id);
            free_text(&mut spec.name);
        }
    }

    /// Frees the addresses of watchers; the array is the program's.
    fn rbd_watchers_list_cleanup(watchers: *mut Watcher, count: usize) -> () {
        for at in 0..count {
            free_text(&mut (*watchers.add(at)).addr);
        }
    }
}
