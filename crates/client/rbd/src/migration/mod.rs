//! Moves an image to another pool, namespace, name or layout while it is in use (`rbd migration`).
//!
//! [`prepare()`] creates the new image, the destination, with the snapshots of the old one, the source,
//! which is moved to the trash. From then on the destination is used, and reads data not yet copied from
//! the source (`origin/`). [`execute()`] copies all remaining data. [`commit()`] removes the source.
//! Before that, [`abort()`] can instead remove the destination and write the changes made meanwhile to
//! the source. Both headers record the state, so that an interrupted step can be repeated. Facts:
//! `librbd/api/Migration.cc` (release 16).
//!
//! ```no_run
//! # async fn example(slow: loligo_rados::IoCtx, fast: loligo_rados::IoCtx) -> Result<(), loligo_rbd::Error> {
//! use loligo_rbd::{Ancestry, NewCopy, migration};
//!
//! migration::prepare(&slow, "disk", &fast, "disk", NewCopy::default(), Ancestry::Kept).await?;
//! migration::execute(&fast, "disk", |_, _| {}).await?;
//! migration::commit(&fast, "disk", |_, _| {}).await
//! # }
//! ```

mod children;
mod destination;
mod execute;
mod finish;
mod origin;
mod pair;
mod prepare;
mod revert;

pub use self::execute::execute;
pub use self::finish::{abort, commit};
pub use self::pair::{End, Status, status};
pub use self::prepare::prepare;
pub use crate::header::migration::State;
