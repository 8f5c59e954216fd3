//! Synchronous operations on an object's extended attributes.

use std::ffi::{c_char, c_int, c_void};

use loligo_rados::{OpCode, OsdOp};

use super::Pool;
use super::io::{give_output, input_of, read, write};
use super::iterators::Xattrs;
use crate::border::calls;
use crate::memory::{bytes, put};

/// The operation `code` on the attribute `name`.
pub(crate) fn op(code: OpCode, name: &[u8], value: &[u8]) -> OsdOp {
    OsdOp::xattr(code, name, value, 0, 0)
}

calls! {
    /// Copies an attribute's value; returns its length.
    fn rados_getxattr(
        ioctx: *mut c_void, oid: *const c_char, name: *const c_char, to: *mut c_char, room: usize,
    ) -> c_int {
        let answer = read(Pool::of(ioctx)?, bytes(oid)?, op(OpCode::GETXATTR, bytes(name)?, b""))?;
        give_output(to, room, &answer.data)
    }

    /// Sets an attribute.
    fn rados_setxattr(
        ioctx: *mut c_void, oid: *const c_char, name: *const c_char, value: *const c_char, len: usize,
    ) -> c_int {
        let op = op(OpCode::SETXATTR, bytes(name)?, input_of(value, len)?);
        write(Pool::of(ioctx)?, bytes(oid)?, op)
    }

    /// Removes an attribute.
    fn rados_rmxattr(ioctx: *mut c_void, oid: *const c_char, name: *const c_char) -> c_int {
        write(Pool::of(ioctx)?, bytes(oid)?, op(OpCode::RMXATTR, bytes(name)?, b""))
    }

    /// Begins to iterate over an object's attributes.
    fn rados_getxattrs(ioctx: *mut c_void, oid: *const c_char, iterator: *mut *mut c_void) -> c_int {
        let answer = read(Pool::of(ioctx)?, bytes(oid)?, OsdOp::new(OpCode::GETXATTRS))?;
        put(iterator, Xattrs::over(&answer)?.cast());
        Ok(0)
    }
}
