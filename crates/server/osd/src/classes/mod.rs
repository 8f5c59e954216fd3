//! Object classes: methods that run at the object, called by name (CALL).
//!
//! A class is a file with a table of [`Method`]s; [`CLASSES`] lists them all. A method accesses its
//! object through a [`Handle`], whose calls are the operations of a request. The method reads the
//! object's state from before the request, and all its changes happen together with the request's other
//! changes, or not at all.

mod handle;
mod hello;
mod lock;
mod log;
mod numops;
mod rbd;
mod refcount;
mod typed;
mod user;
mod version;

use bytes::Bytes;
use loligo_cephx::caps::ClassCall;
use loligo_wire::Errno;

pub(crate) use handle::{Handle, Object};

/// The result of a method: 0 or more, and its output; or an error.
type Outcome = Result<(i32, Bytes), Errno>;

/// A class.
struct Class {
    name: &'static str,
    methods: &'static [Method],
}

/// A method.
pub(crate) struct Method {
    name: &'static str,
    /// Whether it may read the object.
    pub(crate) read: bool,
    /// Whether it may change it.
    pub(crate) write: bool,
    pub(crate) run: fn(&mut Handle<'_>, &[u8]) -> Outcome,
}

static CLASSES: &[&Class] = &[
    &hello::CLASS,
    &lock::CLASS,
    &log::CLASS,
    &numops::CLASS,
    &rbd::CLASS,
    &refcount::CLASS,
    &user::CLASS,
    &version::CLASS,
];

/// Classes that a general `x` in a capability covers (`osd_class_default_list`), as in release 16.
const DEFAULT: &[&str] = &[
    "cephfs",
    "hello",
    "journal",
    "lock",
    "log",
    "numops",
    "otp",
    "rbd",
    "refcount",
    "rgw",
    "rgw_gc",
    "timeindex",
    "user",
    "version",
    "cas",
    "cmpomap",
    "queue",
    "2pc_queue",
    "fifo",
];

const fn rd(name: &'static str, run: fn(&mut Handle<'_>, &[u8]) -> Outcome) -> Method {
    Method { name, read: true, write: false, run }
}

const fn wr(name: &'static str, run: fn(&mut Handle<'_>, &[u8]) -> Outcome) -> Method {
    Method { name, read: false, write: true, run }
}

const fn rw(name: &'static str, run: fn(&mut Handle<'_>, &[u8]) -> Outcome) -> Method {
    Method { name, read: true, write: true, run }
}

/// The result of a method that returns nothing but success.
const DONE: Outcome = Ok((0, Bytes::new()));

/// The result of a method that returns an output.
fn give(data: Bytes) -> Outcome {
    Ok((0, data))
}

fn find(class: &[u8], method: &[u8]) -> Option<(&'static Class, &'static Method)> {
    let class = CLASSES.iter().find(|known| known.name.as_bytes() == class)?;
    Some((class, class.methods.iter().find(|known| known.name.as_bytes() == method)?))
}

/// Looks up a method by name.
pub(crate) fn method(class: &[u8], method: &[u8]) -> Option<&'static Method> {
    find(class, method).map(|(_, method)| method)
}

/// Maps any two numbers to a class and one of its methods, for fuzzing.
pub(crate) fn nth(class: usize, method: usize) -> (&'static str, &'static str) {
    let class = CLASSES[class % CLASSES.len()];
    (class.name, class.methods[method % class.methods.len()].name)
}

/// Whether a class offers this filter to listings (`CLASS.FILTER`).
pub(crate) fn has_filter(name: &[u8]) -> bool {
    name == hello::FILTER
}

/// The permissions a call of a method needs.
pub(crate) fn call(class: &[u8], method: &[u8]) -> Option<ClassCall<'static>> {
    let (class, method) = find(class, method)?;
    Some(ClassCall {
        class: class.name,
        method: method.name,
        read: method.read,
        write: method.write,
        by_default: DEFAULT.contains(&class.name),
    })
}
