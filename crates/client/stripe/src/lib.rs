//! Striped files: bytes without a bound over objects that have one.
//!
//! ```no_run
//! # async fn example(pool: loligo_rados::IoCtx) -> Result<(), Box<dyn std::error::Error>> {
//! use loligo_stripe::{Layout, Striper};
//!
//! let striper = Striper::new(pool).with_layout(Layout::new(1 << 20, 4, 4 << 20)?)?;
//! let file = striper.create("a film").await?;
//! file.write(0, vec![7; 10 << 20]).await?;
//! assert_eq!(file.read(5 << 20, 100).await?.into_bytes(), vec![7; 100]);
//! file.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! - [`Layout`] says which byte of a file lies in which object, exactly as Ceph's file layouts do, and
//!   [`ObjectNames`] what the objects are called, by libradosstriper or by CephFS.
//! - [`Direct`] is one I/O on such objects: a request to each object, all at once, and one result:
//!   [`Segments`] of data and holes without copies, or the first error by offset.
//! - [`Striper`] has the striped files of a pool in the format of libradosstriper, so that `rados --striper`
//!   reads ours and we read its; [`File`] is one that is open, under libradosstriper's lock.
//! - [`ReadStream`] and [`WriteStream`] keep many I/Os of one file under way, in order, as many as the way to
//!   the OSDs holds: [`Window`] measures that.
//! - [`CachedFile`] is an open file behind a cache ([`loligo_cache`]) that reads ahead and writes back later.
//!
//! What this crate refuses to do: without a cache it does not read ahead of a stream's range or write behind;
//! it does not make I/Os atomic that touch several objects, nor order writes that overlap and are under way
//! together; it does not know CephFS's directories and inodes, only how their data is laid out. It has no
//! threads of its own.
#![forbid(unsafe_code)]

mod buffers;
mod cached;
mod direct;
mod error;
mod file;
mod head;
mod holes;
mod segments;
mod stream;
mod striper;

pub use buffers::Buffers;
pub use cached::{CachedFile, CachedObjects};
pub use direct::Direct;
pub use error::{Error, ReadError, WriteError};
pub use file::File;
pub use head::{FileStat, is_striper_attribute};
pub use holes::Part;
pub use loligo_layout::{
    Layout, LayoutError, ObjectExtent, ObjectNames, ObjectNo, Piece, UNIT_BYTES_MIN, striped_file,
};
pub use segments::{Segment, Segments};
pub use stream::{ReadStream, StreamOptions, Ticket, Window, WriteStream};
pub use striper::{FileList, Striper};

/// Bytes of a striped file at most: stock programs read its size as a signed number.
pub const FILE_BYTES_MAX: u64 = i64::MAX as u64;
