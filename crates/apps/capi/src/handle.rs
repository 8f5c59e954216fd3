//! Handles: pointers that are the program's references to what this library counts.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use loligo_wire::Errno;

use crate::border::Fail;

/// Hands a new handle to the program.
///
/// # Errors
/// EINVAL if `to` is NULL.
///
/// # Safety
/// `to` is NULL or can be written.
pub(crate) unsafe fn hand_out<T>(to: *mut *mut c_void, value: T) -> Result<c_int, Fail> {
    if to.is_null() {
        return Err(Errno::EINVAL.into());
    }
    // SAFETY: by this function's contract.
    unsafe { to.write(Arc::into_raw(Arc::new(value)).cast_mut().cast()) };
    Ok(0)
}

/// Returns what is behind the program's pointer.
///
/// # Errors
/// EINVAL if it is NULL.
///
/// # Safety
/// The pointer is NULL, or a handle of this type that the program does not give back while the result lives.
pub(crate) unsafe fn borrowed<'a, T>(handle: *mut c_void) -> Result<&'a T, Fail> {
    // SAFETY: by this function's contract.
    unsafe { handle.cast::<T>().as_ref() }.ok_or(Errno::EINVAL.into())
}

/// Like [`borrowed`], with a reference of the library's.
///
/// # Errors
/// EINVAL if it is NULL.
///
/// # Safety
/// The pointer is NULL, or a handle of this type that the program has not given back.
pub(crate) unsafe fn shared<T>(handle: *mut c_void) -> Result<Arc<T>, Fail> {
    let pointer: *mut T = handle.cast();
    if pointer.is_null() {
        return Err(Errno::EINVAL.into());
    }
    // SAFETY: the pointer is the program's own reference, so the count is at least one.
    unsafe {
        Arc::increment_strong_count(pointer);
        Ok(Arc::from_raw(pointer))
    }
}

/// Takes the program's reference back.
///
/// # Errors
/// EINVAL if it is NULL.
///
/// # Safety
/// The pointer is NULL, or a handle of this type that the program has not given back and does not use again.
pub(crate) unsafe fn take_back<T>(handle: *mut c_void) -> Result<Arc<T>, Fail> {
    if handle.is_null() {
        return Err(Errno::EINVAL.into());
    }
    // SAFETY: by this function's contract.
    Ok(unsafe { Arc::from_raw(handle.cast::<T>().cast_const()) })
}
