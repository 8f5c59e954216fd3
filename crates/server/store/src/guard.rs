//! Panic protection for threads on which others depend: a panic in such a thread must not leave the
//! others waiting for ever.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work`; if it panics, calls `panicked` with a message. State that `work` was changing is left as
/// it is: `panicked` must not rely on it.
pub fn guarded(name: &str, work: impl FnOnce(), panicked: impl FnOnce(String)) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
        panicked(format!("a fault of the program in the thread {name}: {}", said(&*panic)));
    }
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it did not say what")
}
