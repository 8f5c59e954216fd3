//! The stand-in for the key-value map of a closed store.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::{Batch, Kv, Snapshot};

/// The map of a closed store: remaining references to parts of the store keep no file open.
#[derive(Debug)]
pub(crate) struct Closed;

fn closed() -> io::Error {
    io::Error::other("the store was closed")
}

impl Kv for Closed {
    fn commit(&self, _: Batch) -> io::Result<()> {
        Err(closed())
    }

    fn snapshot(&self) -> Arc<dyn Snapshot> {
        Arc::new(Self)
    }
}

impl Snapshot for Closed {
    fn get(&self, _: &[u8]) -> io::Result<Option<Bytes>> {
        Err(closed())
    }

    fn range(&self, _: &[u8], _: &[u8], _: usize) -> io::Result<Vec<(Bytes, Bytes)>> {
        Err(closed())
    }
}
