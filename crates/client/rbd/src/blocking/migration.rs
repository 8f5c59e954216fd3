//! Migration of images, as a blocking API.

use loligo_rados::blocking::IoCtx;
use loligo_wire::Name;

use crate::migration::Status;
use crate::{Ancestry, Error, NewCopy};

/// As [`crate::migration::prepare`].
pub fn prepare(
    io: &IoCtx,
    name: impl Into<Name>,
    to: &IoCtx,
    to_name: impl Into<Name>,
    new: NewCopy,
    ancestry: Ancestry,
) -> Result<(), Error> {
    let (from, to) = (io.asynchronous(), to.asynchronous());
    io.runtime().block_on(crate::migration::prepare(from, name, to, to_name, new, ancestry))
}

/// As [`crate::migration::execute`].
pub fn execute(io: &IoCtx, name: impl Into<Name>, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    io.runtime().block_on(crate::migration::execute(io.asynchronous(), name, progress))
}

/// As [`crate::migration::commit`].
pub fn commit(io: &IoCtx, name: impl Into<Name>, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    io.runtime().block_on(crate::migration::commit(io.asynchronous(), name, progress))
}

/// As [`crate::migration::abort`].
pub fn abort(io: &IoCtx, name: impl Into<Name>, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    io.runtime().block_on(crate::migration::abort(io.asynchronous(), name, progress))
}

/// As [`crate::migration::status`].
pub fn status(io: &IoCtx, name: impl Into<Name>) -> Result<Option<Status>, Error> {
    io.runtime().block_on(crate::migration::status(io.asynchronous(), name))
}
