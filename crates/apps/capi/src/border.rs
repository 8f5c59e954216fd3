//! The border between C and Rust: what every function of the libraries does on entry and on return.
//!
//! A panic must not cross into C, where it would abort the process: [`guard`] makes an error of it. In a
//! child after `fork` none of this library's threads exist, and locks may be held by threads that are
//! gone: every function then fails without touching anything.

use std::any::Any;
use std::ffi::c_void;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use az::SaturatingAs as _;
use loligo_wire::{DecodeError, Errno};

/// Whether this process is a child of the one that used the library.
static FORKED: AtomicBool = AtomicBool::new(false);

/// A failure as C programs see it: a negative number, usually an errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fail(pub(crate) i32);

impl From<Errno> for Fail {
    fn from(errno: Errno) -> Self {
        Self(errno.to_result())
    }
}

impl From<loligo_rados::Error> for Fail {
    fn from(error: loligo_rados::Error) -> Self {
        error.errno().into()
    }
}

impl From<loligo_rbd::Error> for Fail {
    fn from(error: loligo_rbd::Error) -> Self {
        error.errno().into()
    }
}

impl From<loligo_stripe::Error> for Fail {
    fn from(error: loligo_stripe::Error) -> Self {
        error.errno().into()
    }
}

impl From<DecodeError> for Fail {
    fn from(error: DecodeError) -> Self {
        Errno::from(error).into()
    }
}

/// A type that functions of the libraries return, with its value for a failure.
pub(crate) trait Returned {
    /// The value that tells the caller of a failure, as far as the type can.
    fn failed(fail: Fail) -> Self;
}

impl Returned for () {
    fn failed(_: Fail) -> Self {}
}

impl Returned for i32 {
    fn failed(fail: Fail) -> Self {
        fail.0
    }
}

impl Returned for i64 {
    fn failed(fail: Fail) -> Self {
        fail.0.into()
    }
}

impl Returned for isize {
    fn failed(fail: Fail) -> Self {
        i64::from(fail.0).saturating_as::<isize>()
    }
}

impl Returned for u32 {
    fn failed(_: Fail) -> Self {
        0
    }
}

impl Returned for u64 {
    fn failed(_: Fail) -> Self {
        0
    }
}

impl<T> Returned for *mut T {
    fn failed(_: Fail) -> Self {
        std::ptr::null_mut()
    }
}

/// Runs the body of the function `name`, and turns a panic and a call after `fork` into a failure.
pub(crate) fn guard<R: Returned>(name: &str, body: impl FnOnce() -> R) -> R {
    // Relaxed: the flag is set in the child before its only thread goes on.
    if FORKED.load(Ordering::Relaxed) {
        return R::failed(Errno::ENOTCONN.into());
    }
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        // Not `eprintln!`, which panics itself if nobody reads the program's messages any more.
        let text = text_of(&*panic);
        let _ = writeln!(std::io::stderr(), "{name}: internal error of the library, the call fails: {text}");
        R::failed(Errno::EIO.into())
    })
}

/// Like [`guard`], for functions whose body is a result.
pub(crate) fn guard_result<R: Returned>(name: &str, body: impl FnOnce() -> Result<R, Fail>) -> R {
    guard(name, || body().unwrap_or_else(R::failed))
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}

/// Has the children of this process refuse to use the library. Called when the threads are started.
pub(crate) fn watch_for_forks() {
    static ONCE: Once = Once::new();
    extern "C" fn in_child() {
        FORKED.store(true, Ordering::Relaxed);
    }
    ONCE.call_once(|| {
        // SAFETY: the handler only stores to an atomic, which is allowed between fork and exec.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// A pointer of the caller's that an operation keeps until it is complete.
#[derive(Debug)]
pub(crate) struct Lent<T>(pub(crate) *mut T);

impl<T> Clone for Lent<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Lent<T> {}

// SAFETY: the C interface demands that memory lent to an operation is valid, and not used otherwise, until
// the operation is complete, whatever thread completes it.
unsafe impl<T> Send for Lent<T> {}
// SAFETY: as above; the pointer is only copied through a shared reference.
unsafe impl<T> Sync for Lent<T> {}

/// The argument that a callback is given.
pub(crate) type Arg = Lent<c_void>;

/// Defines functions of the C interface whose bodies are results: `Ok(value)`, or a [`Fail`].
macro_rules! calls {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $body:block)*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($arg: $ty),*) -> $ret {
            $crate::border::guard_result(stringify!($name), || -> Result<$ret, $crate::border::Fail> {
                // SAFETY: the caller keeps the contract of the C interface: each pointer is null where
                // that is allowed, or points to what its type says for as long as the call needs it, and
                // handles were made by this library and are not freed yet.
                #[allow(unused_unsafe)]
                unsafe { $body }
            })
        }
    )*};
}

/// Defines functions of the C interface that return a value without a failure, or nothing.
macro_rules! plain {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty $body:block)*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($arg: $ty),*) -> $ret {
            $crate::border::guard(stringify!($name), || -> $ret {
                // SAFETY: as in `calls!`: the caller keeps the contract of the C interface.
                #[allow(unused_unsafe)]
                unsafe { $body }
            })
        }
    )*};
}

pub(crate) use {calls, plain};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error() {
        let result: i32 = guard("test_function", || panic!("on purpose"));
        assert_eq!(result, Errno::EIO.to_result());
        let pointer: *mut u8 = guard("test_function", || panic!("on purpose: {}", 2));
        assert!(pointer.is_null());
    }
}
