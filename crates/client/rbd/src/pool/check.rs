//! Checks whether a pool supports images: self-managed snapshots, and overwrites of objects. The result
//! is stored in the pool, so that one check suffices for all clients, including librbd.

use loligo_rados::{Errno, IoCtx, WriteOp};

use crate::{Error, names};

/// The contents of [`names::INFO`] during and after the check; librbd skips the check after it.
const VALIDATING: &[u8] = b"validate";
const VALIDATED: &[u8] = b"overwrite validated";

/// Checks whether a pool supports images, and stores the result.
///
/// # Errors
/// [`Error::UnfitPool`] if it does not: it has pool snapshots, or is erasure-coded without overwrites.
pub async fn validate(io: &IoCtx) -> Result<(), Error> {
    let io = io.with_namespace("");
    match io.read(names::INFO, 0, 0).await {
        Ok(found) if found == VALIDATED => return Ok(()),
        // Another client has checked the snapshots, and has not finished.
        Ok(found) if found == VALIDATING => {}
        Err(e) if e.errno() != Errno::ENOENT => return Err(e.into()),
        _ => begin(&io).await?,
    }
    overwritten(io.operate(names::INFO, WriteOp::new().write(0, VALIDATED.into())).await)
}

/// Creates a self-managed snapshot, and writes the object to be overwritten.
async fn begin(io: &IoCtx) -> Result<(), Error> {
    let snap = match io.create_managed_snapshot().await {
        Err(e) if e.errno() == Errno::EINVAL => {
            return Err(Error::UnfitPool("it has snapshots of its own (ceph osd pool mksnap)"));
        }
        snap => snap?,
    };
    let first = WriteOp::new().create(true).write(0, VALIDATING.into());
    let written = match io.operate(names::INFO, first).await {
        // Created by another client, or to store the pool's settings.
        Err(e) if e.errno() == Errno::EEXIST => Ok(()),
        written => overwritten(written),
    };
    // A snapshot left behind does no harm.
    let _ = io.remove_managed_snapshot(snap).await;
    written
}

fn overwritten(written: Result<(), loligo_rados::Error>) -> Result<(), Error> {
    match written {
        Err(e) if e.errno() == Errno::EOPNOTSUPP => Err(Error::UnfitPool(
            "its objects cannot be overwritten (ceph osd pool set POOL allow_ec_overwrites)",
        )),
        written => Ok(written?),
    }
}
