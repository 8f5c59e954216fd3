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
//! - [`create()`], [`list`], [`remove`] and [`rename`] are about the images of a pool (and namespace:
//!   [`IoCtx`](loligo_rados::IoCtx)).
//! - [`namespaces`] are those of a pool that may have images; [`pools`] adds up what it has.
//! - [`Image`] is one that is open: reads and writes, sizes, [snapshots](Image::create_snapshot), metadata,
//!   object maps. All requests of an I/O leave together; a change that is done is safe, unless there is a
//!   cache.
//! - [`Image::cached`] puts an [`ImageCache`] before it: then a change is safe when it is
//!   [flushed](Image::flush).
//! - [`clone()`] makes an image of a snapshot, [`Image::children`] tells which there are, [`Image::flatten`]
//!   parts one from its parent. What a clone has no object for is read from its parent (`parent.rs`), and
//!   copied up before a part of it is changed (`copyup.rs`).
//! - [`Image::copy`] makes an image that has the same data, [`Image::deep_copy`] one that has the same
//!   snapshots and the same parent, too.
//! - [`Image::diff`] tells what differs between two states; [`diff::file`] are the files in which `rbd` keeps
//!   that, and [`image_file`] those that have an image with all its snapshots.
//! - [`Image::sparsify`] gives the room of zeros back, [`Image::limit_snapshots`] has the cluster refuse more
//!   snapshots than so many.
//! - [`Image::enable_features`] and [`Image::disable_features`] switch features of an image that is there.
//! - [`Image::watchers`] tells who has an image open, [`Image::lock_by_hand`] and [`Image::break_lock`] are
//!   about locks that people take.
//! - [`blocking`] is all of it for threads that may wait, with images as files.
//! - [`group`] has images together of which snapshots are taken together.
//! - [`migration`] moves an image to another place or layout while it is used.
//! - [`trash`] keeps images for a while that were removed.
//! - [`View`] is what its header says.
//!
//! Images that are made are of the second format; those of the first that there are (`old.rs`) can be read,
//! written to, copied, renamed and removed. Stock programs use them as their own, at the same time too: an
//! image with the feature exclusive-lock is written to by whoever has the lock, which goes from client to
//! client (`lock.rs`), and who has it does for others what changes the image as a whole (`owner.rs`); the
//! object map is kept as librbd keeps it (`object_map.rs`).
//!
//! What this crate refuses to do, with [`Error::Features`]: journaling, mirroring, encryption, and migration
//! from what is no image.
#![forbid(unsafe_code)]

mod allocation;
pub mod blocking;
mod cache;
mod call;
mod children;
mod clone;
mod copy;
mod copyup;
mod deep_copy;
pub mod diff;
mod error;
mod feature_switch;
pub mod features;
mod flatten;
pub mod group;
mod header;
mod image;
pub mod image_file;
mod images;
mod io;
mod lock;
mod messages;
mod metadata;
pub mod migration;
mod names;
pub mod namespaces;
mod object_map;
mod object_write;
mod old;
mod origin;
mod owner;
mod parent;
mod pool_check;
pub mod pools;
mod resize;
mod room;
mod snapshots;
mod sparse;
mod sparsify;
mod successor;
mod tenure;
pub mod trash;
mod turns;
mod usage;
mod watchers;

pub use allocation::Allocation;
pub use cache::{CachedObjects, ImageCache};
pub use children::Child;
pub use clone::{CloneFormat, NewClone, clone};
pub use copy::NewCopy;
pub use deep_copy::Ancestry;
pub use error::Error;
pub use header::{Format, Snapshot, View};
pub use image::{Image, Mode};
pub use images::{NewImage, create, list, remove, remove_with_snapshots, rename};
pub use io::IO_BYTES_MAX;
pub use loligo_cache::{Mode as CacheMode, Options as CacheOptions};
pub use loligo_wire::Name;
pub use loligo_wire::rbd::{ParentSpec, SnapInfo, SnapKind};
pub use old::create_old;
pub use parent::Parent;
pub use resize::Shrink;
pub use sparse::nonzero_runs;
pub use usage::Usage;
pub use watchers::Evicted;

/// Work on an image may go from thread to thread.
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
