//! The client's identities in its cluster, one after the other.
//!
//! The cluster shuts an identity out for good. A mount that goes on takes a new one, while operations that
//! began with the old one still end with its errors.

use std::ops::Deref;
use std::sync::OnceLock;

use loligo_rados::Rados;

/// A chain of identities: it reads as the newest one, and changes without a lock. A mount has few in its
/// life: each one costs its user an eviction.
pub(crate) struct Instances {
    rados: Rados,
    next: OnceLock<Box<Self>>,
}

impl Instances {
    pub(crate) fn new(rados: Rados) -> Self {
        Self { rados, next: OnceLock::new() }
    }

    fn next(&self) -> Option<&Self> {
        self.next.get().map(|next| &**next)
    }

    fn newest(&self) -> &Self {
        let mut at = self;
        while let Some(next) = at.next() {
            at = next;
        }
        at
    }

    /// From now on this identity counts. One task does this at a time.
    pub(crate) fn push(&self, rados: Rados) {
        let _ = self.newest().next.set(Box::new(Self::new(rados)));
    }

    /// Returns the identities that the mount has taken itself, the newest last.
    pub(crate) fn taken(&self) -> impl Iterator<Item = &Rados> {
        std::iter::successors(self.next(), |at| at.next()).map(|at| &at.rados)
    }
}

impl Deref for Instances {
    type Target = Rados;

    fn deref(&self) -> &Rados {
        &self.newest().rados
    }
}
