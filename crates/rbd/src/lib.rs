//! RBD images: block devices over objects, as librbd has them.
//!
//! ```no_run
//! # async fn example(pool: loligo_rados::IoCtx) -> Result<(), loligo_rbd::Error> {
//! use loligo_rbd::{Image, Mode, NewImage};
//!
//! loligo_rbd::create(&pool, "disk", NewImage::of_size(1 << 30)).await?;
//! let image = Image::open(&pool, "disk", Mode::ReadWrite).await?;
//! image.write(4096, vec![7; 512].into()).await?;
//! assert_eq!(image.read(4096, 512).await?, vec![7; 512]);
//! image.close().await
//! # }
//! ```
//!
//! - [`create()`], [`list`], [`remove`] and [`rename`] are about the images of a pool (and namespace: [`IoCtx`](loligo_rados::IoCtx)).
//! - [`namespaces`] are those of a pool that may have images.
//! - [`Image`] is one that is open: reads and writes, sizes, [snapshots](Image::create_snapshot), metadata, object maps. All requests of an I/O leave
//!   together; a change that is done is safe.
//! - [`View`] is what its header says.
//!
//! Images are of the second format, and stock programs use them as their own, at the same time too: an image with the feature exclusive-lock
//! is written to by whoever has the lock, which goes from client to client (`lock.rs`); the object map is kept as librbd keeps it
//! (`object_map.rs`).
//!
//! What this crate refuses to do, with [`Error::Features`]: journaling, mirroring, moving (migration), encryption, images of the first format. Clones,
//! the trash and groups are not there yet: an image that has a parent can be looked at, but not read.
#![forbid(unsafe_code)]

mod allocation;
mod call;
mod error;
pub mod features;
mod image;
mod images;
mod io;
mod lock;
mod messages;
mod metadata;
mod names;
pub mod namespaces;
mod object_map;
mod resize;
mod snapshots;
mod usage;
mod view;

pub use allocation::Allocation;
pub use error::Error;
pub use image::{Image, Mode};
pub use images::{NewImage, create, list, remove, rename};
pub use io::IO_BYTES_MAX;
pub use loligo_wire::rbd::{ParentSpec, SnapInfo, SnapKind};
pub use resize::Shrink;
pub use usage::Usage;
pub use view::{Snapshot, View};
