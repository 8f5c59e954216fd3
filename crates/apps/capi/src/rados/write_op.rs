//! Requests of several changes to one object, `rados_write_op_t`.

use std::ffi::{c_char, c_int, c_void};
use std::time::SystemTime;

use bytes::Bytes;
use loligo_rados::{CmpOp, IoCtx, OpCode, OpFlags, OsdOp, WhenFull, WriteOp, WriteOptions};
use loligo_wire::Errno;
use loligo_wire::message::osd::XattrArgs;

use super::Pool;
use super::io::{alloc_hint, call, compare, data_of, input_of, write_same};
use super::xattr;
use crate::border::{Fail, Lent, calls, plain};
use crate::completion::Outcome;
use crate::memory::{array, bytes, put, range, time_of};

/// The operations of a request, each with the place for its result, if the program wants it.
#[derive(Default)]
pub(crate) struct WriteBag {
    ops: Vec<OsdOp>,
    results: Vec<(usize, Lent<c_int>)>,
    /// What is wrong with an operation that the program added: those calls cannot fail.
    wrong: Option<Fail>,
}

impl WriteBag {
    fn push(&mut self, op: OsdOp, result: *mut c_int) {
        if !result.is_null() {
            self.results.push((self.ops.len(), Lent(result)));
        }
        self.ops.push(op);
    }

    /// Adds what `make` returns, or remembers why the request cannot be executed.
    fn add(&mut self, result: *mut c_int, make: impl FnOnce() -> Result<OsdOp, Fail>) {
        match make() {
            Ok(op) => self.push(op, result),
            Err(why) => self.wrong = self.wrong.or(Some(why)),
        }
    }

    /// Returns the bag behind the program's pointer.
    ///
    /// # Safety
    /// The pointer is a bag that was not released, and no other thread uses it.
    unsafe fn of<'a>(handle: *mut c_void) -> &'a mut Self {
        // SAFETY: by this function's contract.
        unsafe { handle.cast::<Self>().as_mut() }.expect("a write op is not NULL")
    }
}

/// The flags of `operate` (`LIBRADOS_OPERATION_*`) that matter for writes.
pub(super) fn when_full(flags: c_int) -> WhenFull {
    const FULL_TRY: c_int = 64;
    const FULL_FORCE: c_int = 128;
    match () {
        () if flags & FULL_FORCE != 0 => WhenFull::Force,
        () if flags & FULL_TRY != 0 => WhenFull::Try,
        () => WhenFull::Wait,
    }
}

const RETURNVEC: c_int = 1024;

/// A request that is ready to be executed.
pub(super) struct Ready {
    op: WriteOp,
    options: WriteOptions,
    results: Vec<(usize, Lent<c_int>)>,
    is_empty: bool,
}

impl Ready {
    /// # Safety
    /// As [`WriteBag::of`].
    pub(super) unsafe fn of(
        handle: *mut c_void,
        mtime: Option<SystemTime>,
        flags: c_int,
    ) -> Result<Self, Fail> {
        // SAFETY: by this function's contract.
        let bag = unsafe { WriteBag::of(handle) };
        if let Some(why) = bag.wrong {
            return Err(why);
        }
        let options = WriteOptions { mtime, returning: flags & RETURNVEC != 0, when_full: when_full(flags) };
        // As in stock librados the bag is empty afterwards: a request is executed once.
        let (ops, results) = (std::mem::take(&mut bag.ops), std::mem::take(&mut bag.results));
        let is_empty = ops.is_empty();
        Ok(Self { op: ops.into_iter().fold(WriteOp::new(), WriteOp::op), options, results, is_empty })
    }

    /// Executes the request; the result is 0 or more, or negative.
    pub(super) async fn execute(self, io: IoCtx, oid: Vec<u8>) -> Outcome {
        if self.is_empty {
            return Outcome::default();
        }
        match io.execute(oid, self.op, self.options).await {
            Ok(outcome) => {
                let failed = outcome.answers.iter().position(|answer| answer.result < 0);
                for (at, place) in self.results {
                    let Some(answer) = outcome.answers.get(at) else { continue };
                    // Operations behind one that failed were not executed.
                    if failed.is_none_or(|failed| at <= failed) {
                        // SAFETY: the program keeps the place until the operation is complete.
                        unsafe { put(place.0, answer.result) };
                    }
                }
                Outcome { value: outcome.result.into(), version: outcome.version }
            }
            Err(why) => Outcome::failed(why),
        }
    }
}

/// Executes a request on the caller's thread.
///
/// # Safety
/// The handles and the name are valid, as for `rados_write_op_operate`.
unsafe fn operate(
    handle: *mut c_void,
    ioctx: *mut c_void,
    oid: *const c_char,
    mtime: Option<SystemTime>,
    flags: c_int,
) -> Result<c_int, Fail> {
    // SAFETY: by this function's contract.
    let (pool, oid, ready) = unsafe { (Pool::of(ioctx)?, bytes(oid)?, Ready::of(handle, mtime, flags)?) };
    let outcome = crate::runtime::wait(ready.execute(pool.owned_io(), oid.to_vec()));
    pool.saw_version(outcome.version);
    outcome.returned()
}

calls! {
    /// Executes the request; `mtime` is in seconds, NULL is now.
    fn rados_write_op_operate(
        op: *mut c_void, ioctx: *mut c_void, oid: *const c_char, mtime: *mut libc::time_t, flags: c_int,
    ) -> c_int {
        operate(op, ioctx, oid, mtime.as_ref().map(|time| time_of(*time, 0)), flags)
    }

    /// Executes the request; `mtime` NULL is now.
    fn rados_write_op_operate2(
        op: *mut c_void, ioctx: *mut c_void, oid: *const c_char, mtime: *mut libc::timespec,
        flags: c_int,
    ) -> c_int {
        let mtime = mtime.as_ref().map(|time| time_of(time.tv_sec, time.tv_nsec));
        operate(op, ioctx, oid, mtime, flags)
    }
}

/// A comparison of a key's value in an omap.
pub(super) fn compare_omap(key: &[u8], comparison: u8, value: &[u8]) -> Result<OsdOp, Fail> {
    let comparison = CmpOp::from_code(comparison).ok_or(Errno::EINVAL)?;
    Ok(OsdOp::omap_compare([(key, comparison, Bytes::copy_from_slice(value))]))
}

/// A comparison of an attribute's value.
pub(super) fn compare_xattr(name: &[u8], comparison: u8, value: &[u8]) -> Result<OsdOp, Fail> {
    let comparison = CmpOp::from_code(comparison).ok_or(Errno::EINVAL)?;
    Ok(OsdOp::xattr(OpCode::CMPXATTR, name, value, comparison.code(), XattrArgs::MODE_STRING))
}

/// Reads an array of C strings with their lengths, or, without lengths, up to their NULs.
///
/// # Safety
/// The arrays have `count` elements, or `lens` is NULL.
pub(super) unsafe fn keys<'a>(
    keys: *const *const c_char,
    lens: *const usize,
    count: usize,
) -> Result<Vec<&'a [u8]>, Fail> {
    // SAFETY: by this function's contract.
    let keys = unsafe { array(keys, count) };
    if lens.is_null() {
        // SAFETY: as above.
        return keys.iter().map(|key| unsafe { bytes(*key) }).collect();
    }
    // SAFETY: as above.
    let lens = unsafe { array(lens, count) };
    // SAFETY: as above.
    Ok(keys.iter().zip(lens).map(|(key, len)| unsafe { range(*key, *len) }).collect())
}

/// Adds a change of omap values.
///
/// # Safety
/// The arrays have `count` elements, or `key_lens` is NULL.
unsafe fn add_omap_set(
    op: *mut c_void,
    names: *const *const c_char,
    values: *const *const c_char,
    key_lens: *const usize,
    value_lens: *const usize,
    count: usize,
) {
    // SAFETY: by this function's contract.
    let (bag, keys, values) =
        unsafe { (WriteBag::of(op), keys(names, key_lens, count), keys(values, value_lens, count)) };
    bag.add(std::ptr::null_mut(), || {
        let values = values?.into_iter().map(Bytes::copy_from_slice);
        Ok(OsdOp::omap_set(keys?.into_iter().zip(values)))
    });
}

plain! {
    /// Creates a request without operations.
    fn rados_create_write_op() -> *mut c_void {
        Box::into_raw(Box::<WriteBag>::default()).cast()
    }

    /// Frees a request.
    fn rados_release_write_op(op: *mut c_void) -> () {
        if !op.is_null() {
            drop(Box::from_raw(op.cast::<WriteBag>()));
        }
    }

    /// Adds flags (`LIBRADOS_OP_FLAG_*`) to the operation added last.
    fn rados_write_op_set_flags(op: *mut c_void, flags: c_int) -> () {
        if let Some(last) = WriteBag::of(op).ops.last_mut() {
            last.flags |= OpFlags::from_bits_retain(flags.cast_unsigned());
        }
    }

    /// The object must exist.
    fn rados_write_op_assert_exists(op: *mut c_void) -> () {
        WriteBag::of(op).push(OsdOp::new(OpCode::STAT), std::ptr::null_mut());
    }

    /// The object must have this version.
    fn rados_write_op_assert_version(op: *mut c_void, version: u64) -> () {
        WriteBag::of(op).push(OsdOp::assert_ver(version), std::ptr::null_mut());
    }

    /// The object must have this data.
    fn rados_write_op_cmpext(
        op: *mut c_void, data: *const c_char, len: usize, offset: u64, result: *mut c_int,
    ) -> () {
        WriteBag::of(op).add(result, || Ok(compare(offset, data_of(data, len)?)));
    }

    /// The attribute must compare so.
    fn rados_write_op_cmpxattr(
        op: *mut c_void, name: *const c_char, comparison: u8, value: *const c_char, len: usize,
    ) -> () {
        WriteBag::of(op).add(std::ptr::null_mut(), || {
            compare_xattr(bytes(name)?, comparison, input_of(value, len)?)
        });
    }

    /// The key's value must compare so.
    fn rados_write_op_omap_cmp(
        op: *mut c_void, key: *const c_char, comparison: u8, value: *const c_char, len: usize,
        result: *mut c_int,
    ) -> () {
        WriteBag::of(op).add(result, || compare_omap(bytes(key)?, comparison, input_of(value, len)?));
    }

    /// The key's value must compare so.
    fn rados_write_op_omap_cmp2(
        op: *mut c_void, key: *const c_char, comparison: u8, value: *const c_char, key_len: usize,
        len: usize, result: *mut c_int,
    ) -> () {
        WriteBag::of(op).add(result, || {
            compare_omap(range(key, key_len), comparison, input_of(value, len)?)
        });
    }

    /// Sets an attribute.
    fn rados_write_op_setxattr(
        op: *mut c_void, name: *const c_char, value: *const c_char, len: usize,
    ) -> () {
        WriteBag::of(op).add(std::ptr::null_mut(), || {
            Ok(xattr::op(OpCode::SETXATTR, bytes(name)?, input_of(value, len)?))
        });
    }

    /// Removes an attribute.
    fn rados_write_op_rmxattr(op: *mut c_void, name: *const c_char) -> () {
        WriteBag::of(op).add(std::ptr::null_mut(), || {
            Ok(xattr::op(OpCode::RMXATTR, bytes(name)?, b""))
        });
    }

    /// Creates the object; the category is not used.
    fn rados_write_op_create(op: *mut c_void, exclusive: c_int, _category: *const c_char) -> () {
        WriteBag::of(op).push(OsdOp::create(exclusive != 0), std::ptr::null_mut());
    }

    /// Writes data.
    fn rados_write_op_write(
        op: *mut c_void, data: *const c_char, len: usize, offset: u64,
    ) -> () {
        WriteBag::of(op).add(std::ptr::null_mut(), || Ok(OsdOp::write(offset, data_of(data, len)?)));
    }

    /// Replaces the object's data.
    fn rados_write_op_write_full(op: *mut c_void, data: *const c_char, len: usize) -> () {
        WriteBag::of(op).add(std::ptr::null_mut(), || Ok(OsdOp::write_full(data_of(data, len)?)));
    }

    /// Writes a pattern repeatedly.
    fn rados_write_op_writesame(
        op: *mut c_void, data: *const c_char, data_len: usize, len: usize, offset: u64,
    ) -> () {
        WriteBag::of(op).add(std::ptr::null_mut(), || write_same(data, data_len, len, offset));
    }

    /// Appends data.
    fn rados_write_op_append(op: *mut c_void, data: *const c_char, len: usize) -> () {
        WriteBag::of(op).add(std::ptr::null_mut(), || Ok(OsdOp::append(data_of(data, len)?)));
    }

    /// Removes the object.
    fn rados_write_op_remove(op: *mut c_void) -> () {
        WriteBag::of(op).push(OsdOp::new(OpCode::DELETE), std::ptr::null_mut());
    }

    /// Sets the object's size.
    fn rados_write_op_truncate(op: *mut c_void, size: u64) -> () {
        WriteBag::of(op).push(OsdOp::truncate(size), std::ptr::null_mut());
    }

    /// Zeroes a range.
    fn rados_write_op_zero(op: *mut c_void, offset: u64, len: u64) -> () {
        WriteBag::of(op).push(OsdOp::zero(offset, len), std::ptr::null_mut());
    }

    /// Calls a method of an object class.
    fn rados_write_op_exec(
        op: *mut c_void, class: *const c_char, method: *const c_char, input: *const c_char, len: usize,
        result: *mut c_int,
    ) -> () {
        WriteBag::of(op).add(result, || call(class, method, input, len));
    }

    /// Sets values of an omap.
    fn rados_write_op_omap_set(
        op: *mut c_void, names: *const *const c_char, values: *const *const c_char, lens: *const usize,
        count: usize,
    ) -> () {
        add_omap_set(op, names, values, std::ptr::null(), lens, count);
    }

    /// Sets values of an omap; keys may have NULs.
    fn rados_write_op_omap_set2(
        op: *mut c_void, names: *const *const c_char, values: *const *const c_char,
        key_lens: *const usize, value_lens: *const usize, count: usize,
    ) -> () {
        add_omap_set(op, names, values, key_lens, value_lens, count);
    }

    /// Removes keys of an omap.
    fn rados_write_op_omap_rm_keys(
        op: *mut c_void, names: *const *const c_char, count: usize,
    ) -> () {
        WriteBag::of(op).add(std::ptr::null_mut(), || {
            Ok(OsdOp::omap_remove(keys(names, std::ptr::null(), count)?))
        });
    }

    /// Removes keys of an omap; they may have NULs.
    fn rados_write_op_omap_rm_keys2(
        op: *mut c_void, names: *const *const c_char, lens: *const usize, count: usize,
    ) -> () {
        WriteBag::of(op).add(std::ptr::null_mut(), || Ok(OsdOp::omap_remove(keys(names, lens, count)?)));
    }

    /// Removes the keys from one to before another.
    fn rados_write_op_omap_rm_range2(
        op: *mut c_void, from: *const c_char, from_len: usize, until: *const c_char, until_len: usize,
    ) -> () {
        let op_of_range = OsdOp::omap_remove_range(range(from, from_len), range(until, until_len));
        WriteBag::of(op).push(op_of_range, std::ptr::null_mut());
    }

    /// Removes all keys and the header.
    fn rados_write_op_omap_clear(op: *mut c_void) -> () {
        WriteBag::of(op).push(OsdOp::new(OpCode::OMAPCLEAR), std::ptr::null_mut());
    }

    /// Hints at sizes.
    fn rados_write_op_set_alloc_hint(op: *mut c_void, object_size: u64, write_size: u64) -> () {
        WriteBag::of(op).push(alloc_hint(object_size, write_size, 0), std::ptr::null_mut());
    }

    /// Hints at sizes, and at how the object is used.
    fn rados_write_op_set_alloc_hint2(
        op: *mut c_void, object_size: u64, write_size: u64, flags: u32,
    ) -> () {
        WriteBag::of(op).push(alloc_hint(object_size, write_size, flags), std::ptr::null_mut());
    }
}
