//! The list of all classes, and methods by name.

use loligo_cephx::caps::ClassCall;

use crate::class::{Class, Method};
use crate::{hello, lock, log, numops, rbd, refcount, user, version};

/// All classes.
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

fn find(class: &[u8], method: &[u8]) -> Option<(&'static Class, &'static Method)> {
    let class = CLASSES.iter().find(|known| known.name.as_bytes() == class)?;
    Some((class, class.methods.iter().find(|known| known.name().as_bytes() == method)?))
}

/// Looks up a method by name.
pub fn method(class: &[u8], method: &[u8]) -> Option<&'static Method> {
    find(class, method).map(|(_, method)| method)
}

/// The permissions that a call of a method needs; `None` if there is no such method.
pub fn needs(class: &[u8], method: &[u8]) -> Option<ClassCall<'static>> {
    let (class, method) = find(class, method)?;
    Some(ClassCall {
        class: class.name,
        method: method.name(),
        read: method.reads(),
        write: method.writes(),
        by_default: DEFAULT.contains(&class.name),
    })
}

/// Whether a class offers this filter to listings (`CLASS.FILTER`).
pub fn has_filter(name: &[u8]) -> bool {
    name == hello::FILTER
}

/// Maps any two numbers to the names of a class and of one of its methods, for fuzzing.
#[cfg(feature = "fuzzing")]
pub fn nth(class: usize, method: usize) -> (&'static str, &'static str) {
    let class = CLASSES[class % CLASSES.len()];
    (class.name, class.methods[method % class.methods.len()].name())
}
