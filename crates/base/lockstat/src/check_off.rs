//! Replaces `check.rs` where `debug_assertions` are off: nothing is checked or stored.

use std::panic::Location;

use crate::Class;
use crate::raw::Waiting;

#[expect(dead_code, reason = "read only by the checks of test builds")]
#[derive(Clone, Copy)]
pub(crate) struct Acquisition {
    pub(crate) class: &'static Class,
    pub(crate) lock: usize,
    pub(crate) waiting: Waiting,
    pub(crate) site: &'static Location<'static>,
}

/// Declares that the caller is about to do something that may block: a system call, an `.await`, a
/// callback.
///
/// Does nothing in this build; with `debug_assertions` it panics if the thread holds a lock of this
/// crate.
#[inline(always)]
pub fn blocking_point(_what: &str) {}

#[inline(always)]
pub(crate) fn acquiring(_new: Acquisition) {}

#[inline(always)]
pub(crate) fn acquired(_new: Acquisition) {}

#[inline(always)]
pub(crate) fn released(_lock: usize) {}
