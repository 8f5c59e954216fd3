//! Call sites that wait for locks or hold them.

use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A call site, from `#[track_caller]`. One line may have several addresses, one per instance of a
/// generic function; so call sites are compared by value.
pub(crate) type Place = &'static Location<'static>;

/// Whether both are the same call site. Compares the addresses first and the file names last.
#[inline]
pub(crate) fn same(a: Place, b: Place) -> bool {
    ptr::eq(a, b) || (a.line() == b.line() && a.column() == b.column() && a.file() == b.file())
}

/// An optional call site, which any thread may read or replace.
#[derive(Default)]
pub(crate) struct PlaceCell(AtomicPtr<Location<'static>>);

impl PlaceCell {
    pub(crate) const fn empty() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    #[inline]
    pub(crate) fn set(&self, place: Place) {
        self.0.store(ptr::from_ref(place).cast_mut(), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn place(&self) -> Option<Place> {
        // SAFETY: the pointer is null or was made from a `&'static Location` in `set`; such a location
        // is never written to.
        unsafe { self.0.load(Ordering::Relaxed).as_ref() }
    }
}

/// A call site with two flags, in one word: the flags use the low bits that are zero in every address.
#[derive(Clone, Copy)]
pub(crate) struct Marked(*const Location<'static>);

const MOVED: usize = 1;
const WAITED: usize = 2;
const MARKS: usize = MOVED | WAITED;
const _: () = assert!(align_of::<Location<'static>>() > MARKS);

impl Marked {
    pub(crate) const NONE: Self = Self(ptr::null());

    #[inline]
    pub(crate) fn new(place: Place, moved: bool, waited: bool) -> Self {
        let marks = (usize::from(moved) * MOVED) | (usize::from(waited) * WAITED);
        Self(ptr::from_ref(place).map_addr(|address| address | marks))
    }

    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.0.is_null()
    }

    #[inline]
    pub(crate) fn place(self) -> Option<Place> {
        // SAFETY: without its flags the pointer is null or the one that `new` was given.
        unsafe { self.0.map_addr(|address| address & !MARKS).as_ref() }
    }

    #[inline]
    pub(crate) fn moved(self) -> bool {
        self.0.addr() & MOVED != 0
    }

    #[inline]
    pub(crate) fn waited(self) -> bool {
        self.0.addr() & WAITED != 0
    }
}
