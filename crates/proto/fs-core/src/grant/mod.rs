//! One inode's capabilities on the metadata server: which client may have what.
//!
//! The policy has three states. While nobody wants to write, everybody may read and cache. A client that
//! writes and is the only one that uses the file may do everything. If several use the file and one of them
//! writes, all read from and write to the store, and nobody caches. [`InodeGrants::hold`] takes bits away
//! from everybody while the server itself reads or changes what they cover.
//!
//! A change of state *gathers* first: what the new state does not permit is revoked from all, and bits are
//! granted only when no other client has any bit that conflicts with them. Buffered data is therefore in the
//! store before anybody else may read or write.

mod conflict;
mod holder;
mod inode;
#[cfg(test)]
mod tests;

pub use conflict::{conflicts, max_size};
pub use inode::{Client, Effect, HoldId, InodeGrants, Kind, Said, Told, Use};
