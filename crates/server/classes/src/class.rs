//! What a class is: a name and a table of methods.

use bytes::Bytes;
use loligo_wire::Errno;

use crate::handle::{Handle, Marks};
use crate::object::Object;

/// The result of a method: 0 or more, and its output; or an error.
pub type Outcome = Result<(i32, Bytes), Errno>;

/// What a method does with its object, given the call's input.
type Body = fn(&mut Handle<'_>, &[u8]) -> Outcome;

/// A class.
pub(crate) struct Class {
    pub(crate) name: &'static str,
    pub(crate) methods: &'static [Method],
}

/// A method of a class.
pub struct Method {
    name: &'static str,
    marks: Marks,
    body: Body,
}

impl Method {
    /// The method's name within its class.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether it may read the object.
    pub fn reads(&self) -> bool {
        self.marks.read
    }

    /// Whether it may change the object.
    pub fn writes(&self) -> bool {
        self.marks.write
    }

    /// Runs the method. An operation that it is not marked for fails with `EIO`.
    ///
    /// # Errors
    /// Those of the method, and those of its operations on the object.
    pub fn run(&self, object: &mut dyn Object, input: &[u8]) -> Outcome {
        (self.body)(&mut Handle::new(object, self.marks), input)
    }
}

/// A method that only reads.
pub(crate) const fn rd(name: &'static str, body: Body) -> Method {
    Method { name, marks: Marks { read: true, write: false }, body }
}

/// A method that only writes.
pub(crate) const fn wr(name: &'static str, body: Body) -> Method {
    Method { name, marks: Marks { read: false, write: true }, body }
}

/// A method that reads and writes.
pub(crate) const fn rw(name: &'static str, body: Body) -> Method {
    Method { name, marks: Marks { read: true, write: true }, body }
}

/// The result of a method that returns nothing but success.
pub(crate) const DONE: Outcome = Ok((0, Bytes::new()));

/// The result of a method that returns an output.
pub(crate) fn give(data: Bytes) -> Outcome {
    Ok((0, data))
}
