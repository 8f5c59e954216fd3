//! Striped files: files of any size over objects of a bounded size.
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
//! - [`Layout`] maps each byte of a file to an object, exactly as Ceph's file layouts do.
//!   [`ObjectNames`] names the objects as libradosstriper or CephFS does.
//! - [`Direct`] does one I/O on such objects: a request to each object, all at once, with one result.
//!   The result is [`Segments`] of data and holes without copies, or the first error by offset.
//! - [`Striper`] manages the striped files of a pool in the format of libradosstriper: `rados --striper`
//!   and this crate read each other's files. [`File`] is an open file, under libradosstriper's lock.
//! - [`ReadStream`] and [`WriteStream`] keep many I/Os of one file in flight, in order. [`Window`]
//!   measures how many bytes in flight fill the path to the OSDs.
//! - [`CachedFile`] is an open file with a cache ([`loligo_cache`]) that reads ahead and writes back
//!   later.
//!
//! Limits: without a cache the crate does not read ahead of a stream's range and does not write behind.
//! I/Os that touch several objects are not atomic, and concurrent writes that overlap are not ordered.
//! Of CephFS the crate knows the layout of data, but no directories and inodes. It has no threads of its
//! own.
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

/// The maximum size of a striped file: stock programs read the size as a signed number.
pub const FILE_BYTES_MAX: u64 = i64::MAX as u64;
