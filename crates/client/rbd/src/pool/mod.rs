//! What a pool and namespace hold: images, the trash, namespaces, and the pool's own metadata.

mod check;
pub(crate) mod create;
pub(crate) mod directory;
pub(crate) mod empty;
pub(crate) mod format1;
mod images;
pub mod namespaces;
pub mod pools;
pub mod trash;

pub use self::create::{NewImage, create};
pub use self::format1::create_old;
pub use self::images::{list, remove, remove_with_snapshots, rename};
