//! Memory that C programs lend and get: texts, byte ranges, allocations that the caller frees.

use std::ffi::{CStr, c_char};
use std::ptr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use az::SaturatingAs as _;
use loligo_wire::Errno;

use crate::border::Fail;

/// Returns the bytes of a C string, without the final NUL.
///
/// # Errors
/// EINVAL for NULL.
///
/// # Safety
/// `text` is NULL or a C string that lives as long as the result.
pub(crate) unsafe fn bytes<'a>(text: *const c_char) -> Result<&'a [u8], Fail> {
    if text.is_null() {
        return Err(Errno::EINVAL.into());
    }
    // SAFETY: it is a C string, by this function's contract.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// Returns a C string as text.
///
/// # Errors
/// EINVAL for NULL, and if it is not UTF-8.
///
/// # Safety
/// As [`bytes()`].
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, Fail> {
    // SAFETY: by this function's contract.
    let bytes = unsafe { bytes(text) }?;
    std::str::from_utf8(bytes).map_err(|_| Errno::EINVAL.into())
}

/// Returns a C string as text, or `None` for NULL.
///
/// # Safety
/// As [`bytes()`].
pub(crate) unsafe fn optional_text<'a>(pointer: *const c_char) -> Result<Option<&'a str>, Fail> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: by this function's contract.
    unsafe { text(pointer) }.map(Some)
}

/// Returns the caller's range of bytes; empty for NULL.
///
/// # Safety
/// `start` is NULL, or `len` bytes can be read there as long as the result lives.
pub(crate) unsafe fn range<'a>(start: *const c_char, len: usize) -> &'a [u8] {
    if start.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: by this function's contract.
    unsafe { std::slice::from_raw_parts(start.cast(), len) }
}

/// Returns the caller's array; empty for NULL.
///
/// # Safety
/// `start` is NULL, or points to `len` elements that live as long as the result.
pub(crate) unsafe fn array<'a, T>(start: *const T, len: usize) -> &'a [T] {
    if start.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: by this function's contract.
    unsafe { std::slice::from_raw_parts(start, len) }
}

/// Stores a value for the caller, unless the caller does not want it (NULL).
///
/// # Safety
/// `to` is NULL or can be written.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: by this function's contract.
        unsafe { to.write(value) };
    }
}

/// Copies bytes into the caller's memory.
///
/// # Safety
/// `data.len()` bytes can be written at `to`.
pub(crate) unsafe fn copy_to(to: *mut c_char, data: &[u8]) {
    if !data.is_empty() {
        // SAFETY: by this function's contract; the memory is not this library's, so they do not overlap.
        unsafe { ptr::copy_nonoverlapping(data.as_ptr().cast(), to, data.len()) };
    }
}

/// Copies a text and a NUL into the caller's memory of `room` bytes; returns the text's length.
///
/// # Errors
/// ERANGE if the text and the NUL do not fit.
///
/// # Safety
/// `room` bytes can be written at `to`.
pub(crate) unsafe fn fill_text(to: *mut c_char, room: usize, text: &[u8]) -> Result<usize, Fail> {
    if text.len() >= room {
        return Err(Errno::ERANGE.into());
    }
    // SAFETY: it fits, and so does the NUL behind it.
    unsafe {
        copy_to(to, text);
        to.add(text.len()).write(0);
    }
    Ok(text.len())
}

/// Stores the length that is needed, and copies the bytes if the caller's memory has room for them.
///
/// # Errors
/// ERANGE if there is no room.
///
/// # Safety
/// `len` can be read and written, and `to` has room for as many bytes as it says.
pub(crate) unsafe fn fill(to: *mut c_char, len: *mut usize, data: &[u8]) -> Result<(), Fail> {
    // SAFETY: by this function's contract.
    unsafe {
        let room = len.read();
        len.write(data.len());
        if room < data.len() || (to.is_null() && !data.is_empty()) {
            return Err(Errno::ERANGE.into());
        }
        copy_to(to, data);
    }
    Ok(())
}

/// A text with a NUL at its end.
pub(crate) fn ended(text: &[u8]) -> Vec<u8> {
    [text, b"\0"].concat()
}

/// Texts one after another, each with a NUL at its end.
pub(crate) fn joined(texts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Vec<u8> {
    texts.into_iter().flat_map(|text| ended(text.as_ref())).collect()
}

/// Copies bytes to memory of the C library's allocator, which the caller frees; NULL for no bytes. One
/// more byte, a NUL, follows them.
pub(crate) fn allocated(data: &[u8]) -> *mut c_char {
    if data.is_empty() { ptr::null_mut() } else { allocated_text(data) }
}

/// Like [`allocated`], but an empty text is memory too, as from `strdup`.
pub(crate) fn allocated_text(data: &[u8]) -> *mut c_char {
    // SAFETY: any size may be asked for.
    let memory: *mut c_char = unsafe { libc::malloc(data.len() + 1) }.cast();
    assert!(!memory.is_null(), "no memory for {} bytes", data.len());
    // SAFETY: the memory has room for the data and the NUL.
    unsafe {
        copy_to(memory, data);
        memory.add(data.len()).write(0);
    }
    memory
}

/// Allocates an array of the C library's allocator and moves the values into it; NULL for none.
pub(crate) fn allocated_array<T>(values: Vec<T>) -> *mut T {
    if values.is_empty() {
        return ptr::null_mut();
    }
    // SAFETY: any size may be asked for.
    let memory: *mut T = unsafe { libc::malloc(values.len() * size_of::<T>()) }.cast();
    assert!(!memory.is_null(), "no memory for {} elements", values.len());
    for (at, value) in values.into_iter().enumerate() {
        // SAFETY: the array has an element for each value, and malloc aligns for every type of C.
        unsafe { memory.add(at).write(value) };
    }
    memory
}

/// Frees memory of the C library's allocator; NULL is fine.
///
/// # Safety
/// It was allocated by that allocator and is not used any more.
pub(crate) unsafe fn free<T>(memory: *mut T) {
    // SAFETY: by this function's contract.
    unsafe { libc::free(memory.cast()) };
}

/// Gives the caller a copy of `data` that it frees, with its length.
///
/// # Safety
/// Both pointers are NULL or can be written.
pub(crate) unsafe fn give(data: &[u8], to: *mut *mut c_char, len: *mut usize) {
    if to.is_null() {
        return;
    }
    // SAFETY: by this function's contract.
    unsafe {
        to.write(allocated(data));
        put(len, data.len());
    }
}

/// The seconds of a time since 1970, negative before.
pub(crate) fn seconds(time: SystemTime) -> libc::time_t {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => after.as_secs().saturating_as::<libc::time_t>(),
        Err(before) => -(before.duration().as_secs().saturating_as::<libc::time_t>()),
    }
}

/// A time as C programs have it.
pub(crate) fn timespec(time: SystemTime) -> libc::timespec {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    libc::timespec {
        tv_sec: since.as_secs().saturating_as::<libc::time_t>(),
        tv_nsec: since.subsec_nanos().into(),
    }
}

/// The time that C programs give as seconds since 1970 and nanoseconds.
pub(crate) fn time_of(seconds: libc::time_t, nanoseconds: i64) -> SystemTime {
    let nanoseconds = u32::try_from(nanoseconds).unwrap_or(0).min(999_999_999);
    UNIX_EPOCH + Duration::new(u64::try_from(seconds).unwrap_or(0), nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_do_not_fit_are_not_copied() {
        let mut room = [1 as c_char; 4];
        // SAFETY: `room` has as many bytes as is said.
        unsafe {
            assert_eq!(fill_text(room.as_mut_ptr(), 4, b"abcd"), Err(Errno::ERANGE.into()));
            assert_eq!(room, [1; 4]);
            assert_eq!(fill_text(room.as_mut_ptr(), 4, b"abc"), Ok(3));
            let mut len = 2;
            assert_eq!(fill(room.as_mut_ptr(), &mut len, b"xyz"), Err(Errno::ERANGE.into()));
            assert_eq!(len, 3);
            assert_eq!(fill(room.as_mut_ptr(), &mut len, b"xyz"), Ok(()));
            assert_eq!(text(room.as_ptr()), Ok("xyz"));
        }
    }

    #[test]
    fn what_callers_free_comes_from_malloc() {
        let given = allocated(b"given");
        // SAFETY: `given` is a C string of malloc's memory, freed once.
        unsafe {
            assert_eq!(bytes(given), Ok(&b"given"[..]));
            free(given);
        }
        assert!(allocated(b"").is_null());
    }
}
