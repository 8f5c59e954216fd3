use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A place in the source, as `#[track_caller]` tells it. One line may have several addresses: one per copy of a
/// generic function; so places are compared by value.
pub(crate) type Place = &'static Location<'static>;

/// A place or none, which any thread may read or replace.
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

    pub(crate) fn clear(&self) {
        self.0.store(ptr::null_mut(), Ordering::Relaxed);
    }

    pub(crate) fn place(&self) -> Option<Place> {
        // SAFETY: the pointer is null or was made from a `&'static Location` in `set`; nobody writes to those.
        unsafe { self.0.load(Ordering::Relaxed).as_ref() }
    }
}
