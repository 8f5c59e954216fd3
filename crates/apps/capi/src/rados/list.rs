//! Listings of a pool's objects.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use loligo_rados::{ListCursor, ListedObject, ObjectList};
use loligo_wire::message::osd::HObject;
use loligo_wire::{Decode as _, Encode as _, Errno};

use super::Pool;
use crate::border::{Fail, calls, plain};
use crate::memory::{allocated_text, ended, free, put};
use crate::runtime::wait;

/// `rados_list_ctx_t`.
pub(super) struct Listing {
    io: loligo_rados::IoCtx,
    list: ObjectList,
    /// An object that was fetched to tell its position, and is next.
    ahead: Option<ListedObject>,
    /// The object that the program was given last.
    last: Option<ListedObject>,
    /// The texts that the program reads until the next call, each with a NUL at its end.
    texts: [Vec<u8>; 3],
}

impl Listing {
    fn new(io: loligo_rados::IoCtx) -> Self {
        let list = io.objects();
        Self { io, list, ahead: None, last: None, texts: Default::default() }
    }

    /// Moves to the next object; returns whether it has a locator. ENOENT is the end.
    fn next(&mut self) -> Result<bool, Fail> {
        let object = match self.ahead.take() {
            Some(object) => Some(object),
            None => wait(self.list.next())?,
        };
        let object = object.ok_or(Errno::ENOENT)?;
        self.texts = [ended(&object.oid), ended(&object.locator), ended(&object.nspace)];
        let has_locator = !object.locator.is_empty();
        self.last = Some(object);
        Ok(has_locator)
    }

    /// The position of the next object.
    fn position(&mut self) -> Result<ListCursor, Fail> {
        if self.ahead.is_none() {
            self.ahead = wait(self.list.next())?;
        }
        Ok(match &self.ahead {
            Some(object) => self.io.position_of(object).ok_or(Errno::ENOENT)?,
            None => ListCursor::end(),
        })
    }

    /// Where a listing goes on that gives the last object again.
    fn position_of_last(&mut self) -> Result<ListCursor, Fail> {
        match &self.last {
            Some(object) => Ok(self.io.position_of(object).ok_or(Errno::ENOENT)?),
            None => self.position(),
        }
    }

    fn seek(&mut self, position: ListCursor) {
        self.last = None;
        self.list = self.io.objects_from(position);
        self.ahead = None;
    }
}

/// The hash of a position.
fn hash_of(position: &ListCursor) -> u32 {
    HObject::from_bytes(&position.to_bytes()).map_or(0, |position| position.hash)
}

/// The first position with a hash.
fn position_of_hash(pool: i64, hash: u32) -> Result<ListCursor, Fail> {
    if hash == 0 {
        return Ok(ListCursor::start());
    }
    Ok(ListCursor::from_bytes(&HObject { hash, pool, ..HObject::min() }.to_bytes())?)
}

/// Gives the next object of a listing.
///
/// # Safety
/// `handle` is a listing that was not closed; the others can be written or are NULL.
unsafe fn next(
    handle: *mut c_void,
    places: [*mut *const c_char; 3],
    lens: [*mut usize; 3],
) -> Result<c_int, Fail> {
    // SAFETY: by this function's contract.
    unsafe {
        let listing = handle.cast::<Listing>().as_mut().ok_or(Errno::EINVAL)?;
        let has_locator = listing.next()?;
        for (number, ((place, len), text)) in places.into_iter().zip(lens).zip(&listing.texts).enumerate() {
            let is_absent = number == 1 && !has_locator;
            put(place, if is_absent { ptr::null() } else { text.as_ptr().cast() });
            put(len, text.len() - 1);
        }
    }
    Ok(0)
}

/// Opens a listing of the handle's namespace.
///
/// # Safety
/// As `rados_nobjects_list_open`.
unsafe fn open(ioctx: *mut c_void, to: *mut *mut c_void) -> Result<c_int, Fail> {
    // SAFETY: by this function's contract.
    unsafe {
        let listing = Box::new(Listing::new(Pool::of(ioctx)?.owned_io()));
        put(to, Box::into_raw(listing).cast());
    }
    Ok(0)
}

calls! {
    /// Begins a listing.
    fn rados_nobjects_list_open(ioctx: *mut c_void, to: *mut *mut c_void) -> c_int {
        open(ioctx, to)
    }

    /// Gives the next object; ENOENT at the end.
    fn rados_nobjects_list_next(
        listing: *mut c_void, oid: *mut *const c_char, key: *mut *const c_char,
        namespace: *mut *const c_char,
    ) -> c_int {
        next(listing, [oid, key, namespace], [ptr::null_mut(); 3])
    }

    /// Gives the next object, each text with its length; ENOENT at the end.
    fn rados_nobjects_list_next2(
        listing: *mut c_void, oid: *mut *const c_char, key: *mut *const c_char,
        namespace: *mut *const c_char, oid_len: *mut usize, key_len: *mut usize,
        namespace_len: *mut usize,
    ) -> c_int {
        next(listing, [oid, key, namespace], [oid_len, key_len, namespace_len])
    }

    /// Gives the listing's position, which the program frees.
    fn rados_nobjects_list_get_cursor(listing: *mut c_void, to: *mut *mut c_void) -> c_int {
        let listing = listing.cast::<Listing>().as_mut().ok_or(Errno::EINVAL)?;
        put(to, cursor(listing.position()?));
        Ok(0)
    }

    /// The listing without namespaces is no more, in stock librados either.
    fn rados_objects_list_open(_ioctx: *mut c_void, _to: *mut *mut c_void) -> c_int {
        Err(Errno::EOPNOTSUPP.into())
    }

    /// See `rados_objects_list_open`.
    fn rados_objects_list_next(
        _listing: *mut c_void, _oid: *mut *const c_char, _key: *mut *const c_char,
    ) -> c_int {
        Err(Errno::EOPNOTSUPP.into())
    }

    /// Lists objects from one position to before another; returns how many, and where to go on.
    fn rados_object_list(
        ioctx: *mut c_void, start: *mut c_void, finish: *mut c_void, room: usize,
        _filter: *const c_char, filter_len: usize, results: *mut Item, next: *mut *mut c_void,
    ) -> c_int {
        if filter_len > 0 {
            // A filter is bytes for a class of the OSDs, which this client does not make or check.
            return Err(Errno::EOPNOTSUPP.into());
        }
        let io = Pool::of(ioctx)?.owned_io();
        let (start, finish) = (position(start)?.clone(), position(finish)?.clone());
        let mut list = io.objects_between(start, finish.clone());
        let mut found = Vec::new();
        let mut then = finish;
        while let Some(object) = wait(list.next())? {
            if found.len() == room {
                then = io.position_of(&object).ok_or(Errno::ENOENT)?;
                break;
            }
            found.push(object);
        }
        let count = c_int::try_from(found.len()).map_err(|_| Errno::ERANGE)?;
        for (at, object) in found.iter().enumerate() {
            results.add(at).write(Item::of(object));
        }
        put(next, cursor(then));
        Ok(count)
    }

    /// Compares two positions.
    fn rados_object_list_cursor_cmp(_ioctx: *mut c_void, one: *mut c_void, other: *mut c_void) -> c_int {
        Ok(position(one)?.cmp(position(other)?) as c_int)
    }

    /// Whether a position is behind all objects.
    fn rados_object_list_is_end(_ioctx: *mut c_void, at: *mut c_void) -> c_int {
        Ok(position(at)?.is_end().into())
    }
}

/// `rados_object_list_item`.
#[repr(C)]
pub(super) struct Item {
    oid_len: usize,
    oid: *mut c_char,
    nspace_len: usize,
    nspace: *mut c_char,
    locator_len: usize,
    locator: *mut c_char,
}

impl Item {
    fn of(object: &ListedObject) -> Self {
        Self {
            oid_len: object.oid.len(),
            oid: allocated_text(&object.oid),
            nspace_len: object.nspace.len(),
            nspace: allocated_text(&object.nspace),
            locator_len: object.locator.len(),
            locator: allocated_text(&object.locator),
        }
    }
}

/// A position for the program, which frees it.
fn cursor(position: ListCursor) -> *mut c_void {
    Box::into_raw(Box::new(position)).cast()
}

/// The position behind the program's pointer.
///
/// # Safety
/// It was not freed.
unsafe fn position<'a>(handle: *mut c_void) -> Result<&'a ListCursor, Fail> {
    // SAFETY: by this function's contract.
    unsafe { handle.cast::<ListCursor>().as_ref() }.ok_or(Errno::EINVAL.into())
}

/// The position a part of the way from one to another: `numerator` of `denominator`.
fn between(
    pool: i64,
    from: &ListCursor,
    to: &ListCursor,
    numerator: usize,
    denominator: usize,
) -> ListCursor {
    // The order of positions is that of the reversed bits of hashes.
    let low = u64::from(hash_of(from).reverse_bits());
    let high = if to.is_end() { 1 << 32 } else { u64::from(hash_of(to).reverse_bits()) };
    let part = (u128::from(high.saturating_sub(low)) * numerator as u128) / denominator.max(1) as u128;
    let at = low + u64::try_from(part).unwrap_or(u64::MAX);
    match u32::try_from(at) {
        Ok(reversed) => position_of_hash(pool, reversed.reverse_bits()).unwrap_or_else(|_| from.clone()),
        Err(_) => ListCursor::end(),
    }
}

plain! {
    /// The hash of the listing's position.
    fn rados_nobjects_list_get_pg_hash_position(listing: *mut c_void) -> u32 {
        let position = listing.cast::<Listing>().as_mut().map(Listing::position_of_last);
        position.and_then(Result::ok).map_or(0, |position| hash_of(&position))
    }

    /// Moves to the first object of a hash; returns the position's hash.
    fn rados_nobjects_list_seek(listing: *mut c_void, hash: u32) -> u32 {
        let Some(listing) = listing.cast::<Listing>().as_mut() else { return 0 };
        let Ok(position) = position_of_hash(listing.io.pool().0, hash) else { return 0 };
        listing.seek(position);
        hash
    }

    /// Moves to a position; returns its hash.
    fn rados_nobjects_list_seek_cursor(listing: *mut c_void, at: *mut c_void) -> u32 {
        let Some(listing) = listing.cast::<Listing>().as_mut() else { return 0 };
        let Ok(position) = position(at) else { return 0 };
        listing.seek(position.clone());
        hash_of(position)
    }

    /// Ends a listing.
    fn rados_nobjects_list_close(listing: *mut c_void) -> () {
        if !listing.is_null() {
            drop(Box::from_raw(listing.cast::<Listing>()));
        }
    }

    /// See `rados_objects_list_open`.
    fn rados_objects_list_get_pg_hash_position(_listing: *mut c_void) -> u32 {
        0
    }

    /// See `rados_objects_list_open`.
    fn rados_objects_list_seek(_listing: *mut c_void, _hash: u32) -> u32 {
        0
    }

    /// See `rados_objects_list_open`.
    fn rados_objects_list_close(_listing: *mut c_void) -> () {}

    /// The position before all objects.
    fn rados_object_list_begin(_ioctx: *mut c_void) -> *mut c_void {
        cursor(ListCursor::start())
    }

    /// The position behind all objects.
    fn rados_object_list_end(_ioctx: *mut c_void) -> *mut c_void {
        cursor(ListCursor::end())
    }

    /// Frees a position.
    fn rados_object_list_cursor_free(_ioctx: *mut c_void, at: *mut c_void) -> () {
        if !at.is_null() {
            drop(Box::from_raw(at.cast::<ListCursor>()));
        }
    }

    /// Frees the texts of listed objects; the array is the program's.
    fn rados_object_list_free(count: usize, results: *mut Item) -> () {
        for at in 0..count {
            let item = &mut *results.add(at);
            for text in [&mut item.oid, &mut item.nspace, &mut item.locator] {
                free(std::mem::replace(text, ptr::null_mut()));
            }
        }
    }

    /// Gives the ends of part `number` of `count` equal parts between two positions.
    fn rados_object_list_slice(
        ioctx: *mut c_void, start: *mut c_void, finish: *mut c_void, number: usize, count: usize,
        part_start: *mut *mut c_void, part_finish: *mut *mut c_void,
    ) -> () {
        let (Ok(pool), Ok(start), Ok(finish)) = (Pool::of(ioctx), position(start), position(finish)) else {
            return;
        };
        let id = pool.io().pool().0;
        let from = if number == 0 { start.clone() } else { between(id, start, finish, number, count) };
        let is_last = number + 1 >= count;
        let to = if is_last { finish.clone() } else { between(id, start, finish, number + 1, count) };
        // The program's places have positions already, which these replace.
        replace(part_start, from);
        replace(part_finish, to);
    }
}

/// Replaces the position that a place of the program's has.
///
/// # Safety
/// The place can be written and holds a position or NULL.
unsafe fn replace(place: *mut *mut c_void, position: ListCursor) {
    // SAFETY: by this function's contract.
    unsafe {
        if let Some(place) = place.as_mut() {
            let before = std::mem::replace(place, cursor(position));
            if !before.is_null() {
                drop(Box::from_raw(before.cast::<ListCursor>()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_between_positions_meet() {
        let (start, end) = (ListCursor::start(), ListCursor::end());
        let ends: Vec<_> = (0..=5).map(|part| between(3, &start, &end, part, 5)).collect();
        assert!(ends.is_sorted() && ends.windows(2).all(|two| two[0] < two[1]));
        assert_eq!((&ends[0], &ends[5]), (&start, &end));
    }
}
