//! Asynchronous operations, and completions (`rados_completion_t`).

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::time::SystemTime;

use az::SaturatingAs as _;
use loligo_rados::{Answer, OpCode, OsdOp, ReadOp, SnapId, WriteOp, WriteOptions};
use loligo_wire::Errno;

use super::io::{call, compare, data_of, give_output, input_of, write_same};
use super::iterators::Xattrs;
use super::{Pool, lock, read_op, write_op, xattr};
use crate::border::{Fail, Lent, calls, plain};
use crate::completion::{self, Callback, Completion, Outcome};
use crate::memory::{bytes, put, seconds, time_of, timespec};

/// Submits one operation that changes an object.
///
/// # Safety
/// `completion` is the program's.
unsafe fn write(pool: &Pool, completion: *mut c_void, oid: &[u8], op: OsdOp) -> Result<c_int, Fail> {
    let (io, oid) = (pool.owned_io(), oid.to_vec());
    let operation = async move {
        match io.execute(oid, WriteOp::new().op(op), WriteOptions::default()).await {
            Ok(outcome) => Outcome { value: outcome.result.min(0).into(), version: outcome.version },
            Err(why) => Outcome::failed(why),
        }
    };
    // SAFETY: by this function's contract.
    unsafe { submit_write(pool, completion, operation) }
}

/// Submits an operation that flush waits for.
///
/// # Safety
/// `completion` is the program's.
pub(crate) unsafe fn submit_write(
    pool: &Pool,
    completion: *mut c_void,
    operation: impl Future<Output = Outcome> + Send + 'static,
) -> Result<c_int, Fail> {
    // The write is complete for flush when its completion is.
    let held = (pool.writes.begin(), pool.client.begin());
    // SAFETY: by this function's contract.
    unsafe { completion::submit(completion, &pool.client.strand, None, held, operation) }
}

/// Submits an operation that flush does not wait for.
///
/// # Safety
/// `completion` is the program's.
pub(crate) unsafe fn submit(
    client: &Arc<super::Client>,
    completion: *mut c_void,
    operation: impl Future<Output = Outcome> + Send + 'static,
) -> Result<c_int, Fail> {
    // SAFETY: by this function's contract.
    unsafe { completion::submit(completion, &client.strand, None, client.begin(), operation) }
}

/// Submits one operation that reads an object; `take` delivers its output and returns the value for
/// `get_return_value`.
///
/// # Safety
/// `completion` is the program's.
unsafe fn read(
    pool: &Pool,
    completion: *mut c_void,
    oid: &[u8],
    op: OsdOp,
    take: impl FnOnce(Answer) -> Result<c_int, Fail> + Send + 'static,
) -> Result<c_int, Fail> {
    let (io, oid) = (pool.owned_io(), oid.to_vec());
    let operation = async move {
        let outcome = match io.execute_read(oid, ReadOp::new().op(op)).await {
            Ok(outcome) => outcome,
            Err(why) => return Outcome::failed(why),
        };
        let version = outcome.version;
        if outcome.result < 0 {
            return Outcome { value: outcome.result.into(), version };
        }
        let answer = outcome.answers.into_iter().next().unwrap_or_default();
        let value = take(Answer { result: outcome.result, ..answer }).unwrap_or_else(|why| why.0);
        Outcome { value: value.into(), version }
    };
    // SAFETY: by this function's contract.
    unsafe { submit(&pool.client, completion, operation) }
}

/// Reads size and time, and stores the time in the form that the program knows.
///
/// # Safety
/// `completion` is the program's; the places can be written until the operation is complete, or are NULL.
unsafe fn stat<T: 'static>(
    pool: &Pool,
    completion: *mut c_void,
    oid: &[u8],
    (size, time): (*mut u64, *mut T),
    form: fn(SystemTime) -> T,
) -> Result<c_int, Fail> {
    let places = (Lent(size), Lent(time));
    let take = move |answer: Answer| -> Result<c_int, Fail> {
        let (found, places) = (answer.stat()?, { places });
        // SAFETY: by this function's contract.
        unsafe {
            put(places.0.0, found.size);
            put(places.1.0, form(found.mtime));
        }
        Ok(0)
    };
    // SAFETY: by this function's contract.
    unsafe { read(pool, completion, oid, OsdOp::new(OpCode::STAT), take) }
}

/// Creates a completion for the program.
///
/// # Safety
/// `to` can be written.
unsafe fn create(
    arg: *mut c_void,
    callbacks: [Option<Callback>; 2],
    to: *mut *mut c_void,
) -> Result<c_int, Fail> {
    if to.is_null() {
        return Err(Errno::EINVAL.into());
    }
    // SAFETY: by this function's contract.
    unsafe { to.write(Completion::create(arg, callbacks).cast()) };
    Ok(0)
}

calls! {
    /// Creates a completion with callbacks: `complete` is called first, then `safe`.
    fn rados_aio_create_completion(
        arg: *mut c_void, complete: Option<Callback>, safe: Option<Callback>, to: *mut *mut c_void,
    ) -> c_int {
        create(arg, [complete, safe], to)
    }

    /// Creates a completion with one callback.
    fn rados_aio_create_completion2(
        arg: *mut c_void, complete: Option<Callback>, to: *mut *mut c_void,
    ) -> c_int {
        create(arg, [complete, None], to)
    }

    /// Waits until the operation is complete.
    fn rados_aio_wait_for_complete(completion: *mut c_void) -> c_int {
        Completion::of(completion)?.wait_complete();
        Ok(0)
    }

    /// As `rados_aio_wait_for_complete`: what is complete is safe.
    fn rados_aio_wait_for_safe(completion: *mut c_void) -> c_int {
        Completion::of(completion)?.wait_complete();
        Ok(0)
    }

    /// Waits until the operation is complete and its callbacks have returned.
    fn rados_aio_wait_for_complete_and_cb(completion: *mut c_void) -> c_int {
        Completion::of(completion)?.wait_told();
        Ok(0)
    }

    /// As `rados_aio_wait_for_complete_and_cb`.
    fn rados_aio_wait_for_safe_and_cb(completion: *mut c_void) -> c_int {
        Completion::of(completion)?.wait_told();
        Ok(0)
    }

    /// Whether the operation is complete.
    fn rados_aio_is_complete(completion: *mut c_void) -> c_int {
        Ok(Completion::of(completion)?.is_complete().into())
    }

    /// As `rados_aio_is_complete`.
    fn rados_aio_is_safe(completion: *mut c_void) -> c_int {
        Ok(Completion::of(completion)?.is_complete().into())
    }

    /// Whether the operation is complete and its callbacks have returned.
    fn rados_aio_is_complete_and_cb(completion: *mut c_void) -> c_int {
        Ok(Completion::of(completion)?.is_told().into())
    }

    /// As `rados_aio_is_complete_and_cb`.
    fn rados_aio_is_safe_and_cb(completion: *mut c_void) -> c_int {
        Ok(Completion::of(completion)?.is_told().into())
    }

    /// The operation's result.
    fn rados_aio_get_return_value(completion: *mut c_void) -> c_int {
        Ok(Completion::of(completion)?.value().saturating_as::<c_int>())
    }

    /// Cancels the operation; ENOENT if it is not under way.
    fn rados_aio_cancel(_ioctx: *mut c_void, completion: *mut c_void) -> c_int {
        if Completion::of(completion)?.cancel() { Ok(0) } else { Err(Errno::ENOENT.into()) }
    }
}

plain! {
    /// The version of the object that the operation found.
    fn rados_aio_get_version(completion: *mut c_void) -> u64 {
        Completion::of(completion).map_or(0, Completion::version)
    }

    /// Gives the completion back; the operation goes on.
    fn rados_aio_release(completion: *mut c_void) -> () {
        if !completion.is_null() {
            Completion::release(completion.cast());
        }
    }
}

calls! {
    /// Writes data.
    fn rados_aio_write(
        ioctx: *mut c_void, oid: *const c_char, completion: *mut c_void, data: *const c_char, len: usize,
        offset: u64,
    ) -> c_int {
        write(Pool::of(ioctx)?, completion, bytes(oid)?, OsdOp::write(offset, data_of(data, len)?))
    }

    /// Appends data.
    fn rados_aio_append(
        ioctx: *mut c_void, oid: *const c_char, completion: *mut c_void, data: *const c_char, len: usize,
    ) -> c_int {
        write(Pool::of(ioctx)?, completion, bytes(oid)?, OsdOp::append(data_of(data, len)?))
    }

    /// Replaces an object's data.
    fn rados_aio_write_full(
        ioctx: *mut c_void, oid: *const c_char, completion: *mut c_void, data: *const c_char, len: usize,
    ) -> c_int {
        write(Pool::of(ioctx)?, completion, bytes(oid)?, OsdOp::write_full(data_of(data, len)?))
    }

    /// Writes a pattern repeatedly.
    fn rados_aio_writesame(
        ioctx: *mut c_void, oid: *const c_char, completion: *mut c_void, data: *const c_char,
        data_len: usize, len: usize, offset: u64,
    ) -> c_int {
        let op = write_same(data, data_len, len, offset)?;
        write(Pool::of(ioctx)?, completion, bytes(oid)?, op)
    }

    /// Removes an object.
    fn rados_aio_remove(ioctx: *mut c_void, oid: *const c_char, completion: *mut c_void) -> c_int {
        write(Pool::of(ioctx)?, completion, bytes(oid)?, OsdOp::new(OpCode::DELETE))
    }

    /// Sets an attribute.
    fn rados_aio_setxattr(
        ioctx: *mut c_void, oid: *const c_char, completion: *mut c_void, name: *const c_char,
        value: *const c_char, len: usize,
    ) -> c_int {
        let op = xattr::op(OpCode::SETXATTR, bytes(name)?, input_of(value, len)?);
        write(Pool::of(ioctx)?, completion, bytes(oid)?, op)
    }

    /// Removes an attribute.
    fn rados_aio_rmxattr(
        ioctx: *mut c_void, oid: *const c_char, completion: *mut c_void, name: *const c_char,
    ) -> c_int {
        let op = xattr::op(OpCode::RMXATTR, bytes(name)?, b"");
        write(Pool::of(ioctx)?, completion, bytes(oid)?, op)
    }

    /// Unlocks an object.
    fn rados_aio_unlock(
        ioctx: *mut c_void, oid: *const c_char, name: *const c_char, cookie: *const c_char,
        completion: *mut c_void,
    ) -> c_int {
        let op = lock::unlock_op(bytes(name)?, bytes(cookie)?);
        write(Pool::of(ioctx)?, completion, bytes(oid)?, op)
    }

    /// Executes a request of several changes. `mtime` is in seconds, NULL is now.
    fn rados_aio_write_op_operate(
        op: *mut c_void, ioctx: *mut c_void, completion: *mut c_void, oid: *const c_char,
        mtime: *mut libc::time_t, flags: c_int,
    ) -> c_int {
        let mtime = mtime.as_ref().map(|time| time_of(*time, 0));
        write_ops(op, ioctx, completion, oid, mtime, flags)
    }

    /// Executes a request of several changes. `mtime` NULL is now.
    fn rados_aio_write_op_operate2(
        op: *mut c_void, ioctx: *mut c_void, completion: *mut c_void, oid: *const c_char,
        mtime: *mut libc::timespec, flags: c_int,
    ) -> c_int {
        let mtime = mtime.as_ref().map(|time| time_of(time.tv_sec, time.tv_nsec));
        write_ops(op, ioctx, completion, oid, mtime, flags)
    }

    /// Executes a request of several reads.
    fn rados_aio_read_op_operate(
        op: *mut c_void, ioctx: *mut c_void, completion: *mut c_void, oid: *const c_char, flags: c_int,
    ) -> c_int {
        let pool = Pool::of(ioctx)?;
        let request = read_op::Ready::of(op)?.execute(pool.owned_io(), bytes(oid)?.to_vec(), flags);
        submit(&pool.client, completion, request)
    }

    /// Waits for the writes that were submitted to this handle before, and for their callbacks.
    fn rados_aio_flush(ioctx: *mut c_void) -> c_int {
        let pool = Pool::of(ioctx)?;
        pool.flush();
        Ok(0)
    }

    /// Completes when the writes that were submitted to this handle before are complete.
    fn rados_aio_flush_async(ioctx: *mut c_void, completion: *mut c_void) -> c_int {
        let pool = Pool::of(ioctx)?;
        let flushed = pool.writes.flushed();
        submit(&pool.client, completion, async move {
            flushed.await;
            Outcome::default()
        })
    }
}

/// Submits a request of several changes.
///
/// # Safety
/// The handles and the name are valid, as for `rados_aio_write_op_operate`.
unsafe fn write_ops(
    op: *mut c_void,
    ioctx: *mut c_void,
    completion: *mut c_void,
    oid: *const c_char,
    mtime: Option<SystemTime>,
    flags: c_int,
) -> Result<c_int, Fail> {
    // SAFETY: by this function's contract.
    unsafe {
        let (pool, oid) = (Pool::of(ioctx)?, bytes(oid)?.to_vec());
        let request = write_op::Ready::of(op, mtime, flags)?.execute(pool.owned_io(), oid);
        submit_write(pool, completion, request)
    }
}

calls! {
    /// Reads data; the value is how many bytes.
    fn rados_aio_read(
        ioctx: *mut c_void, oid: *const c_char, completion: *mut c_void, to: *mut c_char, room: usize,
        offset: u64,
    ) -> c_int {
        if room > c_int::MAX as usize {
            return Err(Errno::EDOM.into());
        }
        let to = Lent(to);
        read(Pool::of(ioctx)?, completion, bytes(oid)?, OsdOp::read(offset, room as u64), move |answer| {
            // SAFETY: the program keeps the memory until the operation is complete.
            give_output({ to }.0, room, &answer.data)
        })
    }

    /// Compares data with the object's.
    fn rados_aio_cmpext(
        ioctx: *mut c_void, oid: *const c_char, completion: *mut c_void, data: *const c_char, len: usize,
        offset: u64,
    ) -> c_int {
        let op = compare(offset, data_of(data, len)?);
        read(Pool::of(ioctx)?, completion, bytes(oid)?, op, |answer| Ok(answer.result))
    }

    /// Reads size and time, in seconds.
    fn rados_aio_stat(
        ioctx: *mut c_void, oid: *const c_char, completion: *mut c_void, size: *mut u64,
        time: *mut libc::time_t,
    ) -> c_int {
        stat(Pool::of(ioctx)?, completion, bytes(oid)?, (size, time), seconds)
    }

    /// Reads size and time.
    fn rados_aio_stat2(
        ioctx: *mut c_void, oid: *const c_char, completion: *mut c_void, size: *mut u64,
        time: *mut libc::timespec,
    ) -> c_int {
        stat(Pool::of(ioctx)?, completion, bytes(oid)?, (size, time), timespec)
    }

    /// Calls a method of an object class; the value is the length of its output, or its result without one.
    fn rados_aio_exec(
        ioctx: *mut c_void, oid: *const c_char, completion: *mut c_void, class: *const c_char,
        method: *const c_char, input: *const c_char, len: usize, to: *mut c_char, room: usize,
    ) -> c_int {
        let op = call(class, method, input, len)?;
        let to = Lent(to);
        read(Pool::of(ioctx)?, completion, bytes(oid)?, op, move |answer| {
            if answer.data.is_empty() {
                return Ok(answer.result);
            }
            // SAFETY: as above.
            give_output({ to }.0, room, &answer.data)
        })
    }

    /// Reads an attribute; the value is its length.
    fn rados_aio_getxattr(
        ioctx: *mut c_void, oid: *const c_char, completion: *mut c_void, name: *const c_char,
        to: *mut c_char, room: usize,
    ) -> c_int {
        let op = xattr::op(OpCode::GETXATTR, bytes(name)?, b"");
        let to = Lent(to);
        read(Pool::of(ioctx)?, completion, bytes(oid)?, op, move |answer| {
            // SAFETY: as above.
            give_output({ to }.0, room, &answer.data)
        })
    }

    /// Reads all attributes; the iterator is there when the operation is complete.
    fn rados_aio_getxattrs(
        ioctx: *mut c_void, oid: *const c_char, completion: *mut c_void, iterator: *mut *mut c_void,
    ) -> c_int {
        let to = Lent(iterator);
        let op = OsdOp::new(OpCode::GETXATTRS);
        read(Pool::of(ioctx)?, completion, bytes(oid)?, op, move |answer| {
            // SAFETY: the program keeps the place until the operation is complete.
            put({ to }.0, Xattrs::over(&answer)?.cast());
            Ok(0)
        })
    }
}

plain! {
    /// Allocates a snapshot id.
    fn rados_aio_ioctx_selfmanaged_snap_create(
        ioctx: *mut c_void, snapshot: *mut u64, completion: *mut c_void,
    ) -> () {
        let Ok(pool) = Pool::of(ioctx) else { return };
        let (io, place) = (pool.owned_io(), Lent(snapshot));
        let operation = async move {
            let place = place;
            match io.create_managed_snapshot().await {
                Ok(id) => {
                    // SAFETY: the program keeps the place until completion.
                    unsafe { put(place.0, id.0) };
                    Outcome::default()
                }
                Err(why) => Outcome::failed(why),
            }
        };
        let _ = submit(&pool.client, completion, operation);
    }

    /// Removes a snapshot.
    fn rados_aio_ioctx_selfmanaged_snap_remove(
        ioctx: *mut c_void, snapshot: u64, completion: *mut c_void,
    ) -> () {
        let Ok(pool) = Pool::of(ioctx) else { return };
        let io = pool.owned_io();
        let operation = async move {
            let removed = io.remove_managed_snapshot(SnapId(snapshot)).await;
            removed.map_or_else(Outcome::failed, |()| Outcome::default())
        };
        let _ = submit(&pool.client, completion, operation);
    }
}
