//! The ways to take a lock.

/// The way in which a lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A lock with a single way.
    Exclusive,
    /// An [`RwLock`](crate::RwLock), for writing.
    Write,
    /// An [`RwLock`](crate::RwLock), for reading.
    Read,
}

impl Kind {
    /// `exclusive`, `write` or `read`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Exclusive => "exclusive",
            Kind::Write => "write",
            Kind::Read => "read",
        }
    }
}
