//! The error of a push.

use std::fmt;

use thiserror::Error;

/// The reason why an item was refused. Contains the item.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
pub enum PushError<T> {
    /// The lane has reached its bound of items or bytes.
    #[error("the lane is full")]
    Full(T),
    /// The lane was closed.
    #[error("the lane is closed")]
    Closed(T),
}

impl<T> PushError<T> {
    /// Returns the refused item.
    pub fn into_inner(self) -> T {
        match self {
            PushError::Full(item) | PushError::Closed(item) => item,
        }
    }
}

// By hand, so that `expect` works with items that do not implement `Debug`.
impl<T> fmt::Debug for PushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PushError::Full(_) => "Full(..)",
            PushError::Closed(_) => "Closed(..)",
        })
    }
}
