//! A directory on a client: its fragments, listings of it, whether memory has all entries, and leases.

mod complete;
mod cursor;
mod frag;
mod lease;
#[cfg(test)]
mod tests;

pub use complete::{Completeness, Mark};
pub use cursor::{Ask, Chunk, Cursor, CursorError};
pub use frag::{Frag, FragTree, FragTreeError, HASH_END};
pub use lease::Lease;
