//! Synchronous operations on an object's data.

use std::ffi::{c_char, c_int, c_void};

use bytes::Bytes;
use loligo_rados::{Answer, OpCode, OsdOp, ReadOp, SnapId, WriteOp, WriteOptions};
use loligo_wire::Errno;
use loligo_wire::message::osd::{AllocHint, ChecksumArgs, Extent};

use super::Pool;
use crate::border::{Fail, calls, plain};
use crate::memory::{self, bytes, copy_to, put, range, seconds, text, timespec};

/// The most input that one operation takes: half of what its length field holds.
pub(super) const WRITE_MAX: usize = (u32::MAX / 2) as usize;

/// Executes one operation that changes an object; returns its result.
pub(crate) fn write(pool: &Pool, oid: &[u8], op: OsdOp) -> Result<c_int, Fail> {
    let op = WriteOp::new().op(op);
    let outcome = pool.run(pool.owned_io().execute(oid, op, WriteOptions::default()))?;
    pool.saw_version(outcome.version);
    if outcome.result < 0 { Err(Fail(outcome.result)) } else { Ok(0) }
}

/// Executes one operation that reads an object; returns its result and output.
pub(crate) fn read(pool: &Pool, oid: &[u8], op: OsdOp) -> Result<Answer, Fail> {
    let outcome = pool.run(pool.owned_io().execute_read(oid, ReadOp::new().op(op)))?;
    pool.saw_version(outcome.version);
    if outcome.result < 0 {
        return Err(Fail(outcome.result));
    }
    let answer = outcome.answers.into_iter().next().unwrap_or_default();
    Ok(Answer { result: outcome.result, ..answer })
}

/// Copies an operation's output to the caller's memory; returns its length.
///
/// # Errors
/// ERANGE if it does not fit.
///
/// # Safety
/// `room` bytes can be written at `to`.
pub(crate) unsafe fn give_output(to: *mut c_char, room: usize, data: &[u8]) -> Result<c_int, Fail> {
    if data.len() > room {
        return Err(Errno::ERANGE.into());
    }
    // SAFETY: it fits.
    unsafe { copy_to(to, data) };
    c_int::try_from(data.len()).map_err(|_| Errno::ERANGE.into())
}

/// The input of an operation.
///
/// # Errors
/// E2BIG if it is more than one operation takes.
///
/// # Safety
/// `len` bytes can be read at `from` as long as the result lives, or `from` is NULL.
pub(crate) unsafe fn input_of<'a>(from: *const c_char, len: usize) -> Result<&'a [u8], Fail> {
    if len > WRITE_MAX {
        return Err(Errno::E2BIG.into());
    }
    // SAFETY: by this function's contract.
    Ok(unsafe { range(from, len) })
}

/// The data of a write, copied.
///
/// # Errors
/// As [`input_of`].
///
/// # Safety
/// `len` bytes can be read at `from`, or it is NULL.
pub(super) unsafe fn data_of(from: *const c_char, len: usize) -> Result<Bytes, Fail> {
    // SAFETY: by this function's contract.
    Ok(Bytes::copy_from_slice(unsafe { input_of(from, len) }?))
}

/// A call of a method of an object class.
///
/// # Errors
/// EINVAL for a name that is not UTF-8 or that is longer than the request's field for its length can say;
/// E2BIG as [`input_of`].
///
/// # Safety
/// The names are C strings or NULL, and `len` bytes can be read at `input`, or it is NULL.
pub(super) unsafe fn call(
    class: *const c_char,
    method: *const c_char,
    input: *const c_char,
    len: usize,
) -> Result<OsdOp, Fail> {
    // SAFETY: by this function's contract.
    let (class, method, input) = unsafe { (text(class)?, text(method)?, input_of(input, len)?) };
    if class.len().max(method.len()) > usize::from(u8::MAX) {
        return Err(Errno::EINVAL.into());
    }
    Ok(OsdOp::call(class, method, input))
}

/// A write of a pattern of `data_len` bytes over `len` bytes.
///
/// # Safety
/// `data_len` bytes can be read at `from`.
pub(super) unsafe fn write_same(
    from: *const c_char,
    data_len: usize,
    len: usize,
    offset: u64,
) -> Result<OsdOp, Fail> {
    if len > WRITE_MAX {
        return Err(Errno::E2BIG.into());
    }
    if data_len == 0 || !len.is_multiple_of(data_len) {
        return Err(Errno::EINVAL.into());
    }
    // SAFETY: by this function's contract.
    let data = unsafe { data_of(from, data_len) }?;
    Ok(OsdOp::write_same(offset, len as u64, data))
}

/// A comparison of data with what the object has.
pub(super) fn compare(offset: u64, data: Bytes) -> OsdOp {
    let extent = Extent { offset, length: data.len() as u64, ..Extent::default() };
    OsdOp::with_extent(OpCode::CMPEXT, extent, data)
}

/// A computation of checksums by the OSD.
///
/// # Errors
/// EINVAL for an unknown type.
pub(super) fn checksum(
    kind: c_int,
    seed: &[u8],
    offset: u64,
    len: usize,
    chunk: usize,
) -> Result<OsdOp, Fail> {
    let kind = match kind {
        0 => ChecksumArgs::XXHASH32,
        1 => ChecksumArgs::XXHASH64,
        2 => ChecksumArgs::CRC32C,
        _ => return Err(Errno::EINVAL.into()),
    };
    let chunk_size = u32::try_from(chunk).map_err(|_| Errno::EINVAL)?;
    let args = ChecksumArgs { offset, length: len as u64, chunk_size, kind };
    Ok(OsdOp::checksum(args, Bytes::copy_from_slice(seed)))
}

/// A hint at the sizes of an object and of writes to it.
pub(super) fn alloc_hint(expected_object_size: u64, expected_write_size: u64, flags: u32) -> OsdOp {
    OsdOp::set_alloc_hint(AllocHint { expected_object_size, expected_write_size, flags })
        .with_flags(loligo_rados::OpFlags::FAILOK)
}

/// Size and modification time of an object.
fn stat(pool: &Pool, oid: &[u8]) -> Result<loligo_rados::ObjectStat, Fail> {
    Ok(read(pool, oid, OsdOp::new(OpCode::STAT))?.stat()?)
}

calls! {
    /// Writes data.
    fn rados_write(
        ioctx: *mut c_void, oid: *const c_char, data: *const c_char, len: usize, offset: u64,
    ) -> c_int {
        write(Pool::of(ioctx)?, bytes(oid)?, OsdOp::write(offset, data_of(data, len)?))
    }

    /// Replaces an object's data.
    fn rados_write_full(
        ioctx: *mut c_void, oid: *const c_char, data: *const c_char, len: usize,
    ) -> c_int {
        write(Pool::of(ioctx)?, bytes(oid)?, OsdOp::write_full(data_of(data, len)?))
    }

    /// Writes a pattern repeatedly.
    fn rados_writesame(
        ioctx: *mut c_void, oid: *const c_char, data: *const c_char, data_len: usize, len: usize,
        offset: u64,
    ) -> c_int {
        write(Pool::of(ioctx)?, bytes(oid)?, write_same(data, data_len, len, offset)?)
    }

    /// Appends data.
    fn rados_append(
        ioctx: *mut c_void, oid: *const c_char, data: *const c_char, len: usize,
    ) -> c_int {
        write(Pool::of(ioctx)?, bytes(oid)?, OsdOp::append(data_of(data, len)?))
    }

    /// Reads data; returns how many bytes.
    fn rados_read(
        ioctx: *mut c_void, oid: *const c_char, to: *mut c_char, room: usize, offset: u64,
    ) -> c_int {
        if room > c_int::MAX as usize {
            return Err(Errno::EDOM.into());
        }
        let answer = read(Pool::of(ioctx)?, bytes(oid)?, OsdOp::read(offset, room as u64))?;
        give_output(to, room, &answer.data)
    }

    /// Has the OSD compute checksums; the output is their number and they themselves, little-endian.
    fn rados_checksum(
        ioctx: *mut c_void, oid: *const c_char, kind: c_int, seed: *const c_char, seed_len: usize,
        len: usize, offset: u64, chunk: usize, to: *mut c_char, room: usize,
    ) -> c_int {
        let op = checksum(kind, range(seed, seed_len), offset, len, chunk)?;
        let answer = read(Pool::of(ioctx)?, bytes(oid)?, op)?;
        give_output(to, room, &answer.data)?;
        Ok(0)
    }

    /// Removes an object.
    fn rados_remove(ioctx: *mut c_void, oid: *const c_char) -> c_int {
        write(Pool::of(ioctx)?, bytes(oid)?, OsdOp::new(OpCode::DELETE))
    }

    /// Sets an object's size.
    fn rados_trunc(ioctx: *mut c_void, oid: *const c_char, size: u64) -> c_int {
        write(Pool::of(ioctx)?, bytes(oid)?, OsdOp::truncate(size))
    }

    /// Compares data with the object's; −(4095 + n) if byte n differs.
    fn rados_cmpext(
        ioctx: *mut c_void, oid: *const c_char, data: *const c_char, len: usize, offset: u64,
    ) -> c_int {
        let op = compare(offset, data_of(data, len)?);
        Ok(read(Pool::of(ioctx)?, bytes(oid)?, op)?.result)
    }

    /// Size and time of the last change of an object, in seconds.
    fn rados_stat(
        ioctx: *mut c_void, oid: *const c_char, size: *mut u64, time: *mut libc::time_t,
    ) -> c_int {
        let found = stat(Pool::of(ioctx)?, bytes(oid)?)?;
        put(size, found.size);
        put(time, seconds(found.mtime));
        Ok(0)
    }

    /// Size and time of the last change of an object.
    fn rados_stat2(
        ioctx: *mut c_void, oid: *const c_char, size: *mut u64, time: *mut libc::timespec,
    ) -> c_int {
        let found = stat(Pool::of(ioctx)?, bytes(oid)?)?;
        put(size, found.size);
        put(time, timespec(found.mtime));
        Ok(0)
    }

    /// Calls a method of an object class; returns the length of its output, or its result without one.
    fn rados_exec(
        ioctx: *mut c_void, oid: *const c_char, class: *const c_char, method: *const c_char,
        input: *const c_char, input_len: usize, to: *mut c_char, room: usize,
    ) -> c_int {
        let op = call(class, method, input, input_len)?;
        let answer = read(Pool::of(ioctx)?, bytes(oid)?, op)?;
        if answer.data.is_empty() { Ok(answer.result) } else { give_output(to, room, &answer.data) }
    }

    /// Restores an object's state at a snapshot of the pool.
    fn rados_rollback(ioctx: *mut c_void, oid: *const c_char, snapshot: *const c_char) -> c_int {
        let pool = Pool::of(ioctx)?;
        let snapshot = pool.io().snapshot(bytes(snapshot)?)?;
        write(pool, bytes(oid)?, OsdOp::rollback(snapshot.id))
    }

    /// Restores an object's state at a snapshot that clients manage.
    fn rados_ioctx_selfmanaged_snap_rollback(
        ioctx: *mut c_void, oid: *const c_char, snapshot: u64,
    ) -> c_int {
        write(Pool::of(ioctx)?, bytes(oid)?, OsdOp::rollback(SnapId(snapshot)))
    }

    /// Keeps an object in a cache pool.
    fn rados_cache_pin(ioctx: *mut c_void, oid: *const c_char) -> c_int {
        write(Pool::of(ioctx)?, bytes(oid)?, OsdOp::new(OpCode::CACHE_PIN))
    }

    /// Undoes `rados_cache_pin`.
    fn rados_cache_unpin(ioctx: *mut c_void, oid: *const c_char) -> c_int {
        write(Pool::of(ioctx)?, bytes(oid)?, OsdOp::new(OpCode::CACHE_UNPIN))
    }

    /// Hints at sizes.
    fn rados_set_alloc_hint(
        ioctx: *mut c_void, oid: *const c_char, object_size: u64, write_size: u64,
    ) -> c_int {
        write(Pool::of(ioctx)?, bytes(oid)?, alloc_hint(object_size, write_size, 0))
    }

    /// Hints at sizes, and at how the object is used.
    fn rados_set_alloc_hint2(
        ioctx: *mut c_void, oid: *const c_char, object_size: u64, write_size: u64, flags: u32,
    ) -> c_int {
        write(Pool::of(ioctx)?, bytes(oid)?, alloc_hint(object_size, write_size, flags))
    }
}

plain! {
    /// Frees what this library allocated; NULL is fine.
    fn rados_buffer_free(memory: *mut c_char) -> () {
        memory::free(memory);
    }
}
