//! Completions of several requests, `rados_striper_multi_completion_t`. libradosstriper uses them for
//! itself; its functions for programs take completions of librados. Here both are the same.

use std::ffi::{c_int, c_void};

use az::SaturatingAs as _;
use loligo_wire::Errno;

use crate::border::{calls, plain};
use crate::completion::{Callback, Completion};

calls! {
    /// Creates a completion with callbacks: `complete` is called first, then `safe`.
    fn rados_striper_multi_aio_create_completion(
        arg: *mut c_void, complete: Option<Callback>, safe: Option<Callback>, to: *mut *mut c_void,
    ) -> c_int {
        if to.is_null() {
            return Err(Errno::EINVAL.into());
        }
        to.write(Completion::create(arg, [complete, safe]).cast());
        Ok(0)
    }

    /// Whether the operation is complete.
    fn rados_striper_multi_aio_is_complete(completion: *mut c_void) -> c_int {
        Ok(Completion::of(completion)?.is_complete().into())
    }

    /// As `rados_striper_multi_aio_is_complete`.
    fn rados_striper_multi_aio_is_safe(completion: *mut c_void) -> c_int {
        Ok(Completion::of(completion)?.is_complete().into())
    }

    /// Whether the operation is complete and its callbacks have returned.
    fn rados_striper_multi_aio_is_complete_and_cb(completion: *mut c_void) -> c_int {
        Ok(Completion::of(completion)?.is_told().into())
    }

    /// As `rados_striper_multi_aio_is_complete_and_cb`.
    fn rados_striper_multi_aio_is_safe_and_cb(completion: *mut c_void) -> c_int {
        Ok(Completion::of(completion)?.is_told().into())
    }

    /// The operation's result.
    fn rados_striper_multi_aio_get_return_value(completion: *mut c_void) -> c_int {
        Ok(Completion::of(completion)?.value().saturating_as::<c_int>())
    }
}

plain! {
    /// Waits until the operation is complete.
    fn rados_striper_multi_aio_wait_for_complete(completion: *mut c_void) -> () {
        if let Ok(completion) = Completion::of(completion) {
            completion.wait_complete();
        }
    }

    /// As `rados_striper_multi_aio_wait_for_complete`.
    fn rados_striper_multi_aio_wait_for_safe(completion: *mut c_void) -> () {
        if let Ok(completion) = Completion::of(completion) {
            completion.wait_complete();
        }
    }

    /// Waits until the operation is complete and its callbacks have returned.
    fn rados_striper_multi_aio_wait_for_complete_and_cb(completion: *mut c_void) -> () {
        if let Ok(completion) = Completion::of(completion) {
            completion.wait_told();
        }
    }

    /// As `rados_striper_multi_aio_wait_for_complete_and_cb`.
    fn rados_striper_multi_aio_wait_for_safe_and_cb(completion: *mut c_void) -> () {
        if let Ok(completion) = Completion::of(completion) {
            completion.wait_told();
        }
    }

    /// Gives the completion back; the operation goes on.
    fn rados_striper_multi_aio_release(completion: *mut c_void) -> () {
        if !completion.is_null() {
            Completion::release(completion.cast());
        }
    }
}
