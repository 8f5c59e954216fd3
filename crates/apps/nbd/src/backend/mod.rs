//! What devices stand on.

mod file;
mod memory;
mod opener;
mod rbd;
mod renewal;
mod spec;
mod striped;

use std::fmt;
use std::pin::Pin;

use bytes::BytesMut;

pub use file::{Access, LocalFile};
pub use memory::Memory;
pub use opener::Opener;
pub use rbd::Rbd;
pub use spec::{Spec, SpecError};
pub use striped::Striped;

use crate::proto::{Can, Extent, Fault, Io, Piece};

/// What holds a device's bytes. All calls return at once: what must wait is [`Started::Later`].
///
/// Ranges lie within the size that was told before; after a device has been made smaller they may not.
pub trait Backend: Send + Sync + 'static {
    /// What it is, for people, as in the specification of an export.
    fn kind(&self) -> &'static str;

    /// Bytes, now.
    fn size(&self) -> u64;

    /// Looks how long it is now, if others than this can change that: a client comes, who is told.
    fn refresh(&self) -> Work {
        Box::pin(std::future::ready(Ok(())))
    }

    /// What it can do beside reading.
    fn can(&self) -> Can;

    /// Whether it can be used now.
    fn state(&self) -> BackendState {
        BackendState::Open
    }

    /// Begins an I/O. What is later may be under way together with others; who wants order waits for the
    /// first.
    fn start(&self, io: Io) -> Started;

    /// Reads to the end of `out`, if that takes no waiting: false otherwise, and `out` is as it was.
    fn read_now(&self, _offset: u64, _len: u32, _out: &mut BytesMut) -> bool {
        false
    }

    /// Sets the size. No I/O is under way meanwhile.
    fn resize(&self, size: u64) -> Work;

    /// Makes all safe and lets go of what is open. Nothing comes behind it.
    fn close(&self) -> Work;
}

/// Whether a back end can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendState {
    /// It can.
    Open,
    /// Requests wait until it is opened anew, as its client of the cluster is dead: why it is not open yet.
    Renewing(String),
    /// Requests fail, for good: why.
    Lost(String),
}

/// An I/O that was begun.
pub enum Started {
    /// It is done already.
    Now(Result<Done, Fault>),
    /// It will be. Dropped, it is given up; whether it was done is not known then.
    Later(Later),
}

/// An I/O under way.
pub type Later = Pin<Box<dyn Future<Output = Result<Done, Fault>> + Send>>;

/// A change to a back end under way.
pub type Work = Pin<Box<dyn Future<Output = Result<(), BackendError>> + Send>>;

/// What came of an I/O.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// It is done.
    Nothing,
    /// What was read, as long as was asked for.
    Data(Vec<Piece>),
    /// Which parts are holes: at least one.
    Extents(Vec<Extent>),
}

/// Why a back end cannot be opened or changed, for people.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BackendError(pub String);

impl BackendError {
    pub(crate) fn of(why: impl fmt::Display) -> Self {
        Self(why.to_string())
    }
}

impl Started {
    pub(crate) fn later(io: impl Future<Output = Result<Done, Fault>> + Send + 'static) -> Self {
        Self::Later(Box::pin(io))
    }
}

/// Adds an extent; those that follow each other and are alike become one.
pub(crate) fn add_extent(extents: &mut Vec<Extent>, len: u64, hole: bool) {
    match extents.last_mut() {
        _ if len == 0 => {}
        Some(last) if last.hole == hole => last.len += len,
        _ => extents.push(Extent { len, hole }),
    }
}
