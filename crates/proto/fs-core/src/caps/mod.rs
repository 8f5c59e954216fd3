//! The capabilities of one inode on a client, from all metadata servers.
//!
//! A metadata server *issues* capabilities and later *revokes* some. What was revoked stays *implemented*
//! until nothing uses it: operations in progress end, the cache is dropped, buffered data is in the store
//! and changed attributes are acknowledged. Only then the client answers.
//!
//! [`InodeCaps`] has a method for each event and collects [`Effect`]s. The owner calls the method under the
//! inode's lock, takes the effects, and carries them out without the lock. The rules that stock clients are
//! known to break hold by construction:
//!
//! - A revoke is answered even if it comes while the session's time is over: the answer depends on what
//!   is implemented and used, not on what may be trusted.
//! - Data cached before a session was stale is dropped before the cache may be used again.
//! - A flushed attribute keeps its capability until the acknowledgement, so that no other client can change
//!   the attribute in between.
//!
//! [`InodeAttrs`] is the other half of an inode: its attributes, and the rules by which those in a reply
//! replace them.

mod attrs;
mod cap;
mod check;
mod effect;
mod inode;
mod messages;
#[cfg(test)]
mod tests;
mod uses;

pub use attrs::{DirStats, InodeAttrs, InodeNews, Merged, QuotaLimits, RecursiveStats};
pub use cap::{Validity, View};
pub use effect::{Effect, Lost, Release, Returned, Update};
pub use inode::{Acquired, InodeCaps, RELEASE_DELAY};
pub use messages::{CapClaim, Export, Grant, Import, Peer, ReplyCap};
pub use uses::{Access, Hold, OpenMode};
