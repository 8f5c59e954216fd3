//! Errors of a push.

use std::fmt;

use thiserror::Error;

/// Why an item was not taken; it comes back.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
pub enum PushError<T> {
    /// The lane holds as many items or bytes as it may.
    #[error("the lane is full")]
    Full(T),
    /// The lane was closed.
    #[error("the lane is closed")]
    Closed(T),
}

impl<T> PushError<T> {
    /// The item that was not taken.
    pub fn into_inner(self) -> T {
        match self {
            PushError::Full(item) | PushError::Closed(item) => item,
        }
    }
}

// By hand: an item need not be printable for `expect` to work.
impl<T> fmt::Debug for PushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PushError::Full(_) => "Full(..)",
            PushError::Closed(_) => "Closed(..)",
        })
    }
}
