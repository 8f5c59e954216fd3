//! RBD images: block devices stored in RADOS objects, compatible with librbd.
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
//! - [`create()`], [`list`], [`remove`] and [`rename`] manage the images of a pool and namespace
//!   ([`IoCtx`](loligo_rados::IoCtx)).
//! - [`namespaces`] manages the namespaces of a pool; [`pools`] sums up its images and stores its metadata.
//! - [`Image`] is an open image: reads and writes, sizes, [snapshots](Image::create_snapshot), metadata,
//!   object maps. An I/O sends all its object requests in parallel. Without a cache, a change is durable
//!   when its call returns.
//! - [`Image::cached`] adds an [`ImageCache`]. A change is then durable after a [flush](Image::flush).
//! - [`clone()`] creates a clone of a snapshot, [`Image::children`] lists the clones, [`Image::flatten`]
//!   detaches a clone from its parent. Where a clone has no object, reads go to its parent
//!   (`clone/parent.rs`); before a part of such an object is changed, the object is copied up
//!   (`clone/copyup.rs`).
//! - [`Image::copy`] copies an image's data, [`Image::deep_copy`] also its snapshots and its link to the
//!   parent.
//! - [`Image::diff`] lists the differences between two states; [`diff::file`] reads and writes the files
//!   in which `rbd` stores them, and [`image_file`] the files of a whole image with its snapshots.
//! - [`Image::sparsify`] releases blocks of zeros, [`Image::limit_snapshots`] makes the cluster enforce
//!   a limit on the number of snapshots.
//! - [`Image::enable_features`] and [`Image::disable_features`] switch features of an existing image.
//! - [`Image::watchers`] lists the clients that have an image open; [`Image::lock_by_hand`] and
//!   [`Image::break_lock`] manage locks taken by users.
//! - [`blocking`] is the same API for threads that may block, with images as files.
//! - [`group`] manages groups of images and takes snapshots that are consistent across a group.
//! - [`migration`] moves an image to another pool, name or layout while it is in use.
//! - [`trash`] keeps removed images for a while.
//! - [`View`] holds the contents of an image's header.
//!
//! New images have format 2, except those of `create_old`. Images of format 1 (`pool/format1.rs`) can be
//! read, written, copied, renamed and removed. Stock programs can use the images at the same time: only
//! the owner of the exclusive lock writes to an image with the feature exclusive-lock, and the lock moves
//! from client to client (`lock/`). The owner carries out changes of the whole image for other clients
//! (`lock/serve.rs`). The object map is kept as librbd keeps it (`object_map.rs`).
//!
//! A change of a whole image calls a progress with the number of steps done and of all steps. It returns to
//! its executor after each report. To stop it there, drop it: no further step is taken.
//!
//! This crate does not support journaling, mirroring, encryption, and migration from a source that is
//! not an image; it refuses them with [`Error::Features`].
#![forbid(unsafe_code)]

pub mod blocking;
mod call;
mod clone;
mod copy;
pub mod diff;
mod error;
pub mod features;
pub mod group;
mod header;
mod image;
pub mod image_file;
mod io;
mod lock;
pub mod migration;
mod names;
mod object_map;
mod pool;
mod progress;
pub mod settings;
mod snapshots;
mod space;

pub use clone::{Child, CloneFormat, NewClone, Parent, clone};
pub use copy::{Ancestry, NewCopy};
pub use error::Error;
pub use header::{Format, Snapshot, View};
pub use image::resize::Shrink;
pub use image::{CachedObjects, Image, Mode, Updates};
pub use io::{IO_BYTES_MAX, ImageCache};
pub use lock::Evicted;
pub use loligo_cache::{Mode as CacheMode, Options as CacheOptions};
pub use loligo_wire::Name;
pub use loligo_wire::rbd::{ParentSpec, SnapInfo, SnapKind};
pub use pool::{
    NewImage, create, create_old, list, namespaces, pools, remove, remove_with_snapshots, rename, trash,
};
pub use progress::stoppable;
pub use space::{Allocation, Usage, nonzero_runs};

/// Futures of work on an image are `Send`.
const _: () = {
    const fn may_move<F: Send>(_: &F) {}
    #[expect(dead_code, reason = "it is compiled, never called")]
    fn work(image: &'static Image) {
        may_move(&image.read(0, 0));
        may_move(&image.write(0, bytes::Bytes::new()));
        may_move(&image.discard(0, 0));
        may_move(&image.compare_and_write(0, bytes::Bytes::new(), bytes::Bytes::new()));
        may_move(&image.flush());
        may_move(&image.resize(0, Shrink::Refused));
        may_move(&image.remove_snapshot(""));
        may_move(&image.flatten(|_, _| {}));
        may_move(&image.sparsify(0, |_, _| {}));
        may_move(&image.children(None));
        may_move(&image.enable_features(0));
        may_move(&image.create_snapshot(""));
        may_move(&image.usage());
        may_move(&image.copy(&image.inner.io, "", NewCopy::default(), |_, _| {}));
        may_move(&image.deep_copy(&image.inner.io, "", NewCopy::default(), Ancestry::Kept, |_, _| {}));
        may_move(&image.group());
        may_move(&group::create_snapshot(&image.inner.io, "", ""));
        may_move(&group::roll_back(&image.inner.io, "", "", |_, _| {}));
        may_move(&migration::execute(&image.inner.io, "", |_, _| {}));
        may_move(&migration::commit(&image.inner.io, "", |_, _| {}));
        may_move(&migration::abort(&image.inner.io, "", |_, _| {}));
        may_move(&image.diff(None, diff::Grain::Bytes));
        may_move(&image.disable_features(0));
        may_move(&image.roll_back("", |_, _| {}));
    }
};
