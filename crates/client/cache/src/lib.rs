//! A cache of objects' bytes between files or images and the objects that they consist of. It has no
//! global lock.
//!
//! ```
//! # use bytes::Bytes;
//! # use loligo_cache::{Backend, Cache, Options};
//! struct Nothing;
//!
//! impl Backend for Nothing {
//!     type Error = std::convert::Infallible;
//!
//!     async fn read(&self, _: u64, _: u64, _: u64) -> Result<Bytes, Self::Error> {
//!         Ok(Bytes::new())
//!     }
//!
//!     async fn write(&self, _: u64, _: Vec<(u64, Vec<Bytes>)>) -> Result<(), Self::Error> {
//!         Ok(())
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let cache = Cache::new(Options::of_size(16 << 20));
//! let file = cache.open("a file", Nothing);
//! file.write(0, 10, b"abc").await.unwrap();
//! let mut buf = [7; 4];
//! file.read(0, 9, &mut buf).await.unwrap();
//! assert_eq!(&buf, b"\0abc");
//! file.flush().await.unwrap();
//! # })
//! ```
//!
//! | concern | item |
//! |---|---|
//! | the cache, and an open file in it | [`Cache`], [`CachedFile`] |
//! | the storage behind the cache | [`Backend`] |
//! | when to read ahead | [`ReadAhead`] |
//!
//! A file is a set of numbered objects, and an object is a sequence of blocks. Each object has a lock,
//! held to change some of its blocks. A block's bytes are a page, which is never changed: a write replaces
//! it. A hit takes no lock and waits for nobody: objects and pages are found through indices whose nodes
//! are replaced, too (`index.rs`, `shelf.rs`). A hit on several blocks sees them as they were at one time;
//! only if writes to their object go on all the time does it take the object's lock. The eviction queues
//! (`evict.rs`) are updated only when blocks come and go. Memory use and dirty bytes are two counters.
//!
//! The order of locks: an object's, then its table's or a queue's. No lock is held during a call to the
//! back end.
//!
//! Limits: the cache does not know of other caches; a client that learns of another program's change
//! [invalidates](CachedFile::invalidate). It does not know where objects end: all read as zeros up to
//! 2^32 blocks. I/Os that touch more than 16 blocks are not atomic. The write-back of different blocks
//! is not ordered. Dirty data is lost when the program ends.
#![forbid(unsafe_code)]
// Under loom there is no tokio: the models compile the files that they check.
#![cfg(not(loom))]

mod account;
mod backend;
mod block;
mod error;
mod evict;
mod file;
mod flush;
mod index;
mod load;
mod memory;
mod object;
mod options;
mod page;
mod pieces;
mod read_ahead;
mod shelf;
mod source;
mod span;
mod standstill;
mod sync;
mod target;
mod version;

pub use backend::Backend;
pub use error::Error;
pub use file::{Cache, CachedFile, Hit, Usage};
pub use options::{Mode, Options};
pub use read_ahead::ReadAhead;
pub use target::Target;
