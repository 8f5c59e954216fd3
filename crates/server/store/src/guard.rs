//! Threads on which others depend: a fault of the program in one of them must not leave the others waiting
//! for ever.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Does something; if that panics, says so. What was under way is left as it is: whoever hears of it goes on
/// with nothing of it.
pub fn guarded(name: &str, work: impl FnOnce(), panicked: impl FnOnce(String)) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
        panicked(format!("a fault of the program in the thread {name}: {}", said(&*panic)));
    }
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it did not say what")
}
