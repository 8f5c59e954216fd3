//! Requests of several reads of one object, `rados_read_op_t`.

use std::ffi::{c_char, c_int, c_uchar, c_void};

use bytes::Bytes;
use loligo_rados::{Answer, IoCtx, ObjectStat, OpCode, OpFlags, OsdOp, ReadFrom, ReadOp};
use loligo_wire::Errno;

use super::Pool;
use super::io::{call, checksum, compare, data_of, input_of};
use super::iterators::{Omap, Xattrs};
use super::write_op::{compare_omap, compare_xattr, keys};
use crate::border::{Fail, Lent, calls, plain};
use crate::completion::Outcome;
use crate::memory::{bytes, copy_to, give, put, range, seconds, timespec};

/// Where an operation's output goes.
#[derive(Clone, Copy)]
enum Sink {
    /// Nowhere.
    None,
    /// The caller's memory, with room for so many bytes, and the place for their number.
    Memory {
        to: Lent<c_char>,
        room: usize,
        used: Lent<usize>,
    },
    /// Memory that the caller frees.
    Given {
        to: Lent<*mut c_char>,
        len: Lent<usize>,
    },
    Stat {
        size: Lent<u64>,
        time: Lent<libc::time_t>,
    },
    Stat2 {
        size: Lent<u64>,
        time: Lent<libc::timespec>,
    },
    Xattrs(Lent<Xattrs>),
    Values {
        to: Lent<Omap>,
        more: Lent<c_uchar>,
    },
    Keys {
        to: Lent<Omap>,
        more: Lent<c_uchar>,
    },
    ValuesOfKeys(Lent<Omap>),
}

/// The operations of a request with the places for their outputs and results.
#[derive(Default)]
pub(crate) struct ReadBag {
    ops: Vec<OsdOp>,
    sinks: Vec<(Sink, Lent<c_int>)>,
    /// What is wrong with an operation that the program added: those calls cannot fail.
    wrong: Option<Fail>,
}

impl ReadBag {
    fn push(&mut self, op: OsdOp, sink: Sink, result: *mut c_int) {
        self.ops.push(op);
        self.sinks.push((sink, Lent(result)));
    }

    fn add(&mut self, sink: Sink, result: *mut c_int, make: impl FnOnce() -> Result<OsdOp, Fail>) {
        match make() {
            Ok(op) => self.push(op, sink, result),
            Err(why) => self.wrong = self.wrong.or(Some(why)),
        }
    }

    /// Returns the bag behind the program's pointer.
    ///
    /// # Safety
    /// The pointer is a bag that was not released, and no other thread uses it.
    unsafe fn of<'a>(handle: *mut c_void) -> &'a mut Self {
        // SAFETY: by this function's contract.
        unsafe { handle.cast::<Self>().as_mut() }.expect("a read op is not NULL")
    }
}

impl Sink {
    /// Delivers an operation's output; returns the operation's result.
    ///
    /// # Safety
    /// The places are the program's and are valid until the operation is complete.
    unsafe fn take(self, answer: &Answer) -> Result<c_int, Fail> {
        if answer.result < 0 {
            return Ok(answer.result);
        }
        // SAFETY: by this function's contract.
        unsafe {
            match self {
                Self::None => {}
                Self::Memory { to, room, used } => {
                    // Without a place for it the output is not wanted.
                    if !to.0.is_null() {
                        if answer.data.len() > room {
                            put(used.0, 0);
                            return Err(Errno::ERANGE.into());
                        }
                        copy_to(to.0, &answer.data);
                    }
                    put(used.0, answer.data.len());
                }
                Self::Given { to, len } => give(&answer.data, to.0, len.0),
                Self::Stat { size, time } => {
                    let found = stat_of(answer)?;
                    put(size.0, found.size);
                    put(time.0, seconds(found.mtime));
                }
                Self::Stat2 { size, time } => {
                    let found = stat_of(answer)?;
                    put(size.0, found.size);
                    put(time.0, timespec(found.mtime));
                }
                Self::Xattrs(to) => (*to.0).fill(answer)?,
                Self::Values { to, more } => {
                    let found = answer.omap()?;
                    put(more.0, found.more.into());
                    (*to.0).fill(found.pairs);
                }
                Self::Keys { to, more } => {
                    let found = answer.omap_keys()?;
                    put(more.0, found.more.into());
                    (*to.0).fill(found.keys.into_iter().map(|key| (key, Bytes::new())));
                }
                Self::ValuesOfKeys(to) => (*to.0).fill(answer.map()?),
            }
        }
        Ok(answer.result)
    }
}

/// Size and time in an answer. As in librados, an object that does not exist has an answer that cannot be
/// read.
fn stat_of(answer: &Answer) -> Result<ObjectStat, Fail> {
    answer.stat().map_err(|_| Errno::EIO.into())
}

/// A request that is ready to be executed.
pub(super) struct Ready {
    op: ReadOp,
    sinks: Vec<(Sink, Lent<c_int>)>,
}

/// The flags of `operate` that select the copy to read.
fn read_from(flags: c_int) -> ReadFrom {
    const BALANCE_READS: c_int = 1;
    const LOCALIZE_READS: c_int = 2;
    match () {
        () if flags & BALANCE_READS != 0 => ReadFrom::Balanced,
        () if flags & LOCALIZE_READS != 0 => ReadFrom::Nearest,
        () => ReadFrom::Primary,
    }
}

impl Ready {
    /// # Safety
    /// As [`ReadBag::of`].
    pub(super) unsafe fn of(handle: *mut c_void) -> Result<Self, Fail> {
        // SAFETY: by this function's contract.
        let bag = unsafe { ReadBag::of(handle) };
        if let Some(why) = bag.wrong {
            return Err(why);
        }
        // As in stock librados the bag is empty afterwards: a request is executed once.
        let (ops, sinks) = (std::mem::take(&mut bag.ops), std::mem::take(&mut bag.sinks));
        Ok(Self { op: ops.into_iter().fold(ReadOp::new(), ReadOp::op), sinks })
    }

    /// Executes the request; the result is 0 or more, or negative.
    pub(super) async fn execute(self, io: IoCtx, oid: Vec<u8>, flags: c_int) -> Outcome {
        if self.sinks.is_empty() {
            return Outcome::default();
        }
        let outcome = match io.reading_from(read_from(flags)).execute_read(oid, self.op).await {
            Ok(outcome) => outcome,
            Err(why) => return Outcome::failed(why),
        };
        for ((sink, result), answer) in self.sinks.into_iter().zip(&outcome.answers) {
            // SAFETY: the program keeps the places until the operation is complete.
            unsafe {
                let told = sink.take(answer).unwrap_or_else(|why| why.0);
                put(result.0, told);
            }
            if answer.result < 0 && outcome.result < 0 {
                // The operations behind it were not executed.
                break;
            }
        }
        Outcome { value: outcome.result.into(), version: outcome.version }
    }
}

calls! {
    /// Executes the request.
    fn rados_read_op_operate(
        op: *mut c_void, ioctx: *mut c_void, oid: *const c_char, flags: c_int,
    ) -> c_int {
        let (pool, oid) = (Pool::of(ioctx)?, bytes(oid)?);
        let request = Ready::of(op)?.execute(pool.owned_io(), oid.to_vec(), flags);
        let outcome = crate::runtime::wait(request);
        pool.saw_version(outcome.version);
        outcome.returned()
    }
}

/// A new omap iterator, which the program has at once.
///
/// # Safety
/// `to` can be written.
unsafe fn omap_iterator(to: *mut *mut c_void) -> Lent<Omap> {
    let iterator = Omap::create();
    // SAFETY: by this function's contract.
    unsafe { put(to, iterator.cast()) };
    Lent(iterator)
}

/// A text as bytes; empty for NULL.
///
/// # Safety
/// As [`bytes()`].
unsafe fn or_empty<'a>(pointer: *const c_char) -> &'a [u8] {
    // SAFETY: by this function's contract.
    unsafe { bytes(pointer) }.unwrap_or_default()
}

plain! {
    /// Creates a request without operations.
    fn rados_create_read_op() -> *mut c_void {
        Box::into_raw(Box::<ReadBag>::default()).cast()
    }

    /// Frees a request.
    fn rados_release_read_op(op: *mut c_void) -> () {
        if !op.is_null() {
            drop(Box::from_raw(op.cast::<ReadBag>()));
        }
    }

    /// Adds flags (`LIBRADOS_OP_FLAG_*`) to the operation added last.
    fn rados_read_op_set_flags(op: *mut c_void, flags: c_int) -> () {
        if let Some(last) = ReadBag::of(op).ops.last_mut() {
            last.flags |= OpFlags::from_bits_retain(flags.cast_unsigned());
        }
    }

    /// The object must exist.
    fn rados_read_op_assert_exists(op: *mut c_void) -> () {
        ReadBag::of(op).push(OsdOp::new(OpCode::STAT), Sink::None, std::ptr::null_mut());
    }

    /// The object must have this version.
    fn rados_read_op_assert_version(op: *mut c_void, version: u64) -> () {
        ReadBag::of(op).push(OsdOp::assert_ver(version), Sink::None, std::ptr::null_mut());
    }

    /// The object must have this data.
    fn rados_read_op_cmpext(
        op: *mut c_void, data: *const c_char, len: usize, offset: u64, result: *mut c_int,
    ) -> () {
        ReadBag::of(op).add(Sink::None, result, || Ok(compare(offset, data_of(data, len)?)));
    }

    /// The attribute must compare so.
    fn rados_read_op_cmpxattr(
        op: *mut c_void, name: *const c_char, comparison: u8, value: *const c_char, len: usize,
    ) -> () {
        ReadBag::of(op).add(Sink::None, std::ptr::null_mut(), || {
            compare_xattr(bytes(name)?, comparison, input_of(value, len)?)
        });
    }

    /// The key's value must compare so.
    fn rados_read_op_omap_cmp(
        op: *mut c_void, key: *const c_char, comparison: u8, value: *const c_char, len: usize,
        result: *mut c_int,
    ) -> () {
        ReadBag::of(op).add(Sink::None, result, || {
            compare_omap(bytes(key)?, comparison, input_of(value, len)?)
        });
    }

    /// The key's value must compare so.
    fn rados_read_op_omap_cmp2(
        op: *mut c_void, key: *const c_char, comparison: u8, value: *const c_char, key_len: usize,
        len: usize, result: *mut c_int,
    ) -> () {
        ReadBag::of(op).add(Sink::None, result, || {
            compare_omap(range(key, key_len), comparison, input_of(value, len)?)
        });
    }

    /// Reads all attributes.
    fn rados_read_op_getxattrs(
        op: *mut c_void, iterator: *mut *mut c_void, result: *mut c_int,
    ) -> () {
        let found = Xattrs::create();
        put(iterator, found.cast());
        ReadBag::of(op).push(OsdOp::new(OpCode::GETXATTRS), Sink::Xattrs(Lent(found)), result);
    }

    /// Reads size and time.
    fn rados_read_op_stat(
        op: *mut c_void, size: *mut u64, time: *mut libc::time_t, result: *mut c_int,
    ) -> () {
        let sink = Sink::Stat { size: Lent(size), time: Lent(time) };
        ReadBag::of(op).push(OsdOp::new(OpCode::STAT), sink, result);
    }

    /// Reads size and time.
    fn rados_read_op_stat2(
        op: *mut c_void, size: *mut u64, time: *mut libc::timespec, result: *mut c_int,
    ) -> () {
        let sink = Sink::Stat2 { size: Lent(size), time: Lent(time) };
        ReadBag::of(op).push(OsdOp::new(OpCode::STAT), sink, result);
    }

    /// Reads data into the caller's memory.
    fn rados_read_op_read(
        op: *mut c_void, offset: u64, len: usize, to: *mut c_char, used: *mut usize, result: *mut c_int,
    ) -> () {
        let sink = Sink::Memory { to: Lent(to), room: len, used: Lent(used) };
        ReadBag::of(op).push(OsdOp::read(offset, len as u64), sink, result);
    }

    /// Has the OSD compute checksums.
    fn rados_read_op_checksum(
        op: *mut c_void, kind: c_int, seed: *const c_char, seed_len: usize, offset: u64, len: usize,
        chunk: usize, to: *mut c_char, room: usize, result: *mut c_int,
    ) -> () {
        let sink = Sink::Memory { to: Lent(to), room, used: Lent(std::ptr::null_mut()) };
        ReadBag::of(op).add(sink, result, || checksum(kind, range(seed, seed_len), offset, len, chunk));
    }

    /// Calls a method of an object class; the output is memory that the caller frees.
    fn rados_read_op_exec(
        op: *mut c_void, class: *const c_char, method: *const c_char, input: *const c_char, len: usize,
        to: *mut *mut c_char, to_len: *mut usize, result: *mut c_int,
    ) -> () {
        let sink = Sink::Given { to: Lent(to), len: Lent(to_len) };
        ReadBag::of(op).add(sink, result, || call(class, method, input, len));
    }

    /// Calls a method of an object class; the output goes to the caller's memory.
    fn rados_read_op_exec_user_buf(
        op: *mut c_void, class: *const c_char, method: *const c_char, input: *const c_char, len: usize,
        to: *mut c_char, room: usize, used: *mut usize, result: *mut c_int,
    ) -> () {
        let sink = Sink::Memory { to: Lent(to), room, used: Lent(used) };
        ReadBag::of(op).add(sink, result, || call(class, method, input, len));
    }

    /// Reads values of an omap.
    fn rados_read_op_omap_get_vals(
        op: *mut c_void, after: *const c_char, prefix: *const c_char, max: u64,
        iterator: *mut *mut c_void, result: *mut c_int,
    ) -> () {
        let sink = Sink::Values { to: omap_iterator(iterator), more: Lent(std::ptr::null_mut()) };
        ReadBag::of(op).push(OsdOp::omap_values(or_empty(after), max, or_empty(prefix)), sink, result);
    }

    /// Reads values of an omap, and tells whether there are more.
    fn rados_read_op_omap_get_vals2(
        op: *mut c_void, after: *const c_char, prefix: *const c_char, max: u64,
        iterator: *mut *mut c_void, more: *mut c_uchar, result: *mut c_int,
    ) -> () {
        let sink = Sink::Values { to: omap_iterator(iterator), more: Lent(more) };
        ReadBag::of(op).push(OsdOp::omap_values(or_empty(after), max, or_empty(prefix)), sink, result);
    }

    /// Reads keys of an omap.
    fn rados_read_op_omap_get_keys(
        op: *mut c_void, after: *const c_char, max: u64, iterator: *mut *mut c_void, result: *mut c_int,
    ) -> () {
        let sink = Sink::Keys { to: omap_iterator(iterator), more: Lent(std::ptr::null_mut()) };
        ReadBag::of(op).push(OsdOp::omap_keys(or_empty(after), max), sink, result);
    }

    /// Reads keys of an omap, and tells whether there are more.
    fn rados_read_op_omap_get_keys2(
        op: *mut c_void, after: *const c_char, max: u64, iterator: *mut *mut c_void,
        more: *mut c_uchar, result: *mut c_int,
    ) -> () {
        let sink = Sink::Keys { to: omap_iterator(iterator), more: Lent(more) };
        ReadBag::of(op).push(OsdOp::omap_keys(or_empty(after), max), sink, result);
    }

    /// Reads the values of these keys.
    fn rados_read_op_omap_get_vals_by_keys(
        op: *mut c_void, names: *const *const c_char, count: usize, iterator: *mut *mut c_void,
        result: *mut c_int,
    ) -> () {
        let sink = Sink::ValuesOfKeys(omap_iterator(iterator));
        ReadBag::of(op).add(sink, result, || {
            Ok(OsdOp::omap_values_by_keys(keys(names, std::ptr::null(), count)?))
        });
    }

    /// Reads the values of these keys, which may have NULs.
    fn rados_read_op_omap_get_vals_by_keys2(
        op: *mut c_void, names: *const *const c_char, count: usize, lens: *const usize,
        iterator: *mut *mut c_void, result: *mut c_int,
    ) -> () {
        let sink = Sink::ValuesOfKeys(omap_iterator(iterator));
        ReadBag::of(op).add(sink, result, || Ok(OsdOp::omap_values_by_keys(keys(names, lens, count)?)));
    }
}
