//! A cache of objects' bytes between files or images and the objects that they consist of, without a lock
//! that all share.
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
//!     async fn write(&self, _: u64, _: Vec<(u64, Bytes)>) -> Result<(), Self::Error> {
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
//! | what | where |
//! |---|---|
//! | the cache, and a file in it as one opener has it | [`Cache`], [`CachedFile`] |
//! | what lies behind | [`Backend`] |
//! | when to read ahead | [`ReadAhead`] |
//!
//! A file is objects by number, an object is blocks. Each object has a lock that is held to look at or change
//! some of its blocks; a block's bytes are a page that is not changed while anybody else has it, so they are
//! copied without the lock. Above the objects there is nothing that a hit touches: a file's table of objects
//! is looked at when an object is not among the opener's recent ones, and the queues from which blocks are
//! thrown out (`evict.rs`) know only of blocks that come and go. Memory and what is dirty are counted in two
//! numbers.
//!
//! The order of locks: an object's, then its table's or a queue's. None is held while the back end is asked.
//!
//! What this crate refuses to do: it does not know of other caches (who shares objects with other programs
//! [invalidates](CachedFile::invalidate) when he learns of a change); it knows no ends of objects (all are
//! zeros up to 2^32 blocks); it does not make I/Os atomic that touch more than 16 blocks; it does not order
//! the writing back of different blocks; what is dirty does not survive the program.
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
mod load;
mod options;
mod page;
mod read_ahead;
mod shared;
mod source;
mod span;
mod sync;

pub use backend::Backend;
pub use error::Error;
pub use file::{Cache, CachedFile, Hit, Usage};
pub use options::{Mode, Options};
pub use read_ahead::ReadAhead;
