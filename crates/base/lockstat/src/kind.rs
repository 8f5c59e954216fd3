//! In which ways locks are taken.

/// In which way a lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A lock that has no other way.
    Exclusive,
    /// An [`RwLock`](crate::RwLock), to write.
    Write,
    /// An [`RwLock`](crate::RwLock), to read.
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
