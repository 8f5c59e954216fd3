//! Clones: images that read what they do not have from a snapshot of their parent.

pub(crate) mod children;
mod copyup;
mod create;
mod flatten;
pub(crate) mod parent;

pub use self::children::Child;
pub use self::create::{CloneFormat, NewClone, clone};
pub use self::parent::Parent;
