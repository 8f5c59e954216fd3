//! Snapshots on a client: the tree of realms, and what must reach the servers with an older context.
//!
//! A realm is a directory and what is below it, up to directories that are realms themselves. Writes carry
//! the realm's [`SnapContext`](loligo_types::SnapContext). When a snapshot is taken the context changes:
//! what was changed before and is not flushed belongs into the snapshot, and [`CapSnaps`] keeps it apart
//! from later changes.

mod cap_snap;
mod realms;
#[cfg(test)]
mod tests;

pub use cap_snap::{Before, CapSnaps, Effect, FlushSnap};
pub use realms::{Changed, RealmInfo, Realms};
