//! The back ends of devices.

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

/// The storage behind a device. All calls return at once: an operation that must wait is
/// [`Started::Later`].
///
/// Ranges lie within the size reported before; after a device has been shrunk they may exceed it.
pub trait Backend: Send + Sync + 'static {
    /// The kind of back end, for people, as in the specification of an export.
    fn kind(&self) -> &'static str;

    /// The current size in bytes.
    fn size(&self) -> u64;

    /// Queries the size again, if other clients can change it. Called before a new client is told the
    /// size.
    fn refresh(&self) -> Work {
        Box::pin(std::future::ready(Ok(())))
    }

    /// The abilities beside reading.
    fn can(&self) -> Can;

    /// Whether it can be used now.
    fn state(&self) -> BackendState {
        BackendState::Open
    }

    /// Starts an I/O. I/Os in [`Started::Later`] may run concurrently; a caller that needs an order
    /// waits for the first one to complete.
    fn start(&self, io: Io) -> Started;

    /// Appends the range to `out` if that needs no waiting; otherwise returns `false` and leaves `out`
    /// unchanged.
    fn read_now(&self, _offset: u64, _len: u32, _out: &mut BytesMut) -> bool {
        false
    }

    /// Sets the size. No I/O is in flight meanwhile.
    fn resize(&self, size: u64) -> Work;

    /// Makes all data durable and releases the resources. No call follows.
    fn close(&self) -> Work;
}

/// Whether a back end can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendState {
    /// It can be used.
    Open,
    /// Its client of the cluster is blocklisted, and requests wait until it is opened again. Holds the
    /// reason why it is not open yet.
    Renewing(String),
    /// Requests fail for good. Holds the reason.
    Lost(String),
}

/// A started I/O.
pub enum Started {
    /// It is already complete.
    Now(Result<Done, Fault>),
    /// It will complete. If the future is dropped, the I/O is abandoned and its outcome unknown.
    Later(Later),
}

/// An I/O in flight.
pub type Later = Pin<Box<dyn Future<Output = Result<Done, Fault>> + Send>>;

/// A change of a back end in progress.
pub type Work = Pin<Box<dyn Future<Output = Result<(), BackendError>> + Send>>;

/// The result of an I/O.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// Complete, without data.
    Nothing,
    /// The data read, of the requested length.
    Data(Vec<Piece>),
    /// Which parts are holes: at least one extent.
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

/// Appends an extent; merges it with the last one if both are holes or both are data.
pub(crate) fn add_extent(extents: &mut Vec<Extent>, len: u64, hole: bool) {
    match extents.last_mut() {
        _ if len == 0 => {}
        Some(last) if last.hole == hole => last.len += len,
        _ => extents.push(Extent { len, hole }),
    }
}
