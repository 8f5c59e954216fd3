//! Iterators over attributes (`rados_xattrs_iter_t`) and omaps (`rados_omap_iter_t`).
//!
//! The texts that an iterator gives stay valid until it ends. Names and keys end with a NUL that their
//! lengths do not count.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;

use bytes::Bytes;
use loligo_rados::Answer;
use loligo_wire::Errno;

use crate::border::{Fail, calls, plain};
use crate::memory::{self, put};

/// A list of names with values, and how far the program has read it.
#[derive(Default)]
pub(super) struct Entries {
    /// Names with a NUL at their end.
    entries: Vec<(Vec<u8>, Bytes)>,
    next: usize,
}

impl Entries {
    fn of(pairs: impl IntoIterator<Item = (Bytes, Bytes)>) -> Self {
        let ended = |(name, value): (Bytes, Bytes)| (memory::ended(&name), value);
        Self { entries: pairs.into_iter().map(ended).collect(), next: 0 }
    }

    fn next(&mut self) -> Option<&(Vec<u8>, Bytes)> {
        let entry = self.entries.get(self.next)?;
        self.next += 1;
        Some(entry)
    }
}

/// A value's address; NULL for an empty one.
fn address(value: &Bytes) -> *mut c_char {
    if value.is_empty() { ptr::null_mut() } else { value.as_ptr().cast_mut().cast() }
}

/// `rados_xattrs_iter_t`.
#[derive(Default)]
pub(crate) struct Xattrs(Entries);

impl Xattrs {
    /// Creates an iterator without entries, which the program ends.
    pub(super) fn create() -> *mut Self {
        Box::into_raw(Box::default())
    }

    /// Creates an iterator over the output of an operation that read all attributes; the program ends it.
    pub(super) fn over(answer: &Answer) -> Result<*mut Self, Fail> {
        let mut found = Self::default();
        found.fill(answer)?;
        Ok(Box::into_raw(Box::new(found)))
    }

    /// Like [`Xattrs::over`], with the attributes that are chosen by their names.
    pub(crate) fn over_some(answer: &Answer, is_chosen: impl Fn(&[u8]) -> bool) -> Result<*mut Self, Fail> {
        let pairs = answer.map()?.into_iter().filter(|(name, _)| is_chosen(name));
        Ok(Box::into_raw(Box::new(Self(Entries::of(pairs)))))
    }

    /// Takes the output of an operation that read all attributes.
    pub(super) fn fill(&mut self, answer: &Answer) -> Result<(), Fail> {
        self.0 = Entries::of(answer.map()?);
        Ok(())
    }
}

/// `rados_omap_iter_t`.
#[derive(Default)]
pub(super) struct Omap(Entries);

impl Omap {
    /// Creates an iterator without entries, which the program ends.
    pub(super) fn create() -> *mut Self {
        Box::into_raw(Box::default())
    }

    pub(super) fn fill(&mut self, pairs: impl IntoIterator<Item = (Bytes, Bytes)>) {
        self.0 = Entries::of(pairs);
    }
}

calls! {
    /// Gives the next attribute; NULL at the end.
    fn rados_getxattrs_next(
        iterator: *mut c_void, name: *mut *const c_char, value: *mut *const c_char, len: *mut usize,
    ) -> c_int {
        let iterator = iterator.cast::<Xattrs>().as_mut().ok_or(Errno::EINVAL)?;
        match iterator.0.next() {
            Some((found, contents)) => {
                put(name, found.as_ptr().cast());
                put(value, address(contents).cast_const());
                put(len, contents.len());
            }
            None => {
                put(name, ptr::null());
                put(value, ptr::null());
                put(len, 0);
            }
        }
        Ok(0)
    }

    /// Gives the next key and value; NULL at the end.
    fn rados_omap_get_next(
        iterator: *mut c_void, key: *mut *mut c_char, value: *mut *mut c_char, len: *mut usize,
    ) -> c_int {
        next_omap(iterator, key, value, ptr::null_mut(), len)
    }

    /// Gives the next key and value, each with its length; NULL at the end.
    fn rados_omap_get_next2(
        iterator: *mut c_void, key: *mut *mut c_char, value: *mut *mut c_char, key_len: *mut usize,
        len: *mut usize,
    ) -> c_int {
        next_omap(iterator, key, value, key_len, len)
    }
}

/// Gives the next entry of an omap's iterator.
///
/// # Safety
/// `iterator` is one that was not ended; the others can be written or are NULL.
unsafe fn next_omap(
    iterator: *mut c_void,
    key: *mut *mut c_char,
    value: *mut *mut c_char,
    key_len: *mut usize,
    len: *mut usize,
) -> Result<c_int, Fail> {
    // SAFETY: by this function's contract.
    unsafe {
        let iterator = iterator.cast::<Omap>().as_mut().ok_or(Errno::EINVAL)?;
        let (found_key, found_len, found, found_value_len) = match iterator.0.next() {
            Some((name, value)) => {
                (name.as_ptr().cast_mut().cast(), name.len() - 1, address(value), value.len())
            }
            None => (ptr::null_mut(), 0, ptr::null_mut(), 0),
        };
        put(key, found_key);
        put(key_len, found_len);
        put(value, found);
        put(len, found_value_len);
    }
    Ok(0)
}

plain! {
    /// Ends an iterator over attributes.
    fn rados_getxattrs_end(iterator: *mut c_void) -> () {
        if !iterator.is_null() {
            drop(Box::from_raw(iterator.cast::<Xattrs>()));
        }
    }

    /// How many entries an iterator has in all.
    fn rados_omap_iter_size(iterator: *mut c_void) -> c_uint {
        let len = iterator.cast::<Omap>().as_ref().map_or(0, |omap| omap.0.entries.len());
        c_uint::try_from(len).unwrap_or(c_uint::MAX)
    }

    /// Ends an iterator over an omap.
    fn rados_omap_get_end(iterator: *mut c_void) -> () {
        if !iterator.is_null() {
            drop(Box::from_raw(iterator.cast::<Omap>()));
        }
    }
}
