//! Attributes of striped files. As in libradosstriper, they are those of the first object, whether it is
//! one of a striped file or not.

use std::ffi::{c_char, c_int, c_void};

use loligo_rados::{OpCode, OsdOp};
use loligo_stripe::is_striper_attribute;

use super::handle::Files;
use crate::border::{calls, plain};
use crate::memory::{bytes, put};
use crate::rados::{
    Xattrs, give_output, input_of, rados_getxattrs_end, rados_getxattrs_next, read, write, xattr_op,
};

calls! {
    /// Copies an attribute's value; returns its length.
    fn rados_striper_getxattr(
        striper: *mut c_void, file: *const c_char, name: *const c_char, to: *mut c_char, room: usize,
    ) -> c_int {
        let object = Files::first_object(bytes(file)?);
        let op = xattr_op(OpCode::GETXATTR, bytes(name)?, b"");
        let answer = read(&Files::of(striper)?.pool, &object, op)?;
        give_output(to, room, &answer.data)
    }

    /// Sets an attribute.
    fn rados_striper_setxattr(
        striper: *mut c_void, file: *const c_char, name: *const c_char, value: *const c_char, len: usize,
    ) -> c_int {
        let object = Files::first_object(bytes(file)?);
        let op = xattr_op(OpCode::SETXATTR, bytes(name)?, input_of(value, len)?);
        write(&Files::of(striper)?.pool, &object, op)
    }

    /// Removes an attribute.
    fn rados_striper_rmxattr(striper: *mut c_void, file: *const c_char, name: *const c_char) -> c_int {
        let object = Files::first_object(bytes(file)?);
        write(&Files::of(striper)?.pool, &object, xattr_op(OpCode::RMXATTR, bytes(name)?, b""))
    }

    /// Begins to iterate over a file's attributes, without those that describe it.
    fn rados_striper_getxattrs(
        striper: *mut c_void, file: *const c_char, iterator: *mut *mut c_void,
    ) -> c_int {
        let object = Files::first_object(bytes(file)?);
        let answer = read(&Files::of(striper)?.pool, &object, OsdOp::new(OpCode::GETXATTRS))?;
        put(iterator, Xattrs::over_some(&answer, |name| !is_striper_attribute(name))?.cast());
        Ok(0)
    }
}

plain! {
    /// Gives the next attribute; NULL at the end.
    fn rados_striper_getxattrs_next(
        iterator: *mut c_void, name: *mut *const c_char, value: *mut *const c_char, len: *mut usize,
    ) -> c_int {
        rados_getxattrs_next(iterator, name, value, len)
    }

    /// Ends an iterator over attributes.
    fn rados_striper_getxattrs_end(iterator: *mut c_void) -> () {
        rados_getxattrs_end(iterator);
    }
}
