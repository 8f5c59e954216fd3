//! Whether a pool can have images: snapshots of objects, and objects that are overwritten. What was found is
//! noted in the pool, so that one look is enough for all clients, librbd too.

use loligo_rados::{Errno, IoCtx, WriteOp};

use crate::{Error, names};

/// What [`names::INFO`] holds, first and then, where librbd need not look any more.
const VALIDATING: &[u8] = b"validate";
const VALIDATED: &[u8] = b"overwrite validated";

/// Looks whether a pool can have images. Nobody looks any more then.
///
/// # Errors
/// [`Error::UnfitPool`] if it cannot: it has snapshots of its own, or coded chunks that are not overwritten.
pub async fn validate(io: &IoCtx) -> Result<(), Error> {
    let io = io.with_namespace("");
    match io.read(names::INFO, 0, 0).await {
        Ok(found) if found == VALIDATED => return Ok(()),
        // Its objects have snapshots, as somebody has found who went no further.
        Ok(found) if found == VALIDATING => {}
        Err(e) if e.errno() != Errno::ENOENT => return Err(e.into()),
        _ => begin(&io).await?,
    }
    overwritten(io.operate(names::INFO, WriteOp::new().write(0, VALIDATED.into())).await)
}

/// Has the pool take snapshots of objects, and writes what is to be overwritten.
async fn begin(io: &IoCtx) -> Result<(), Error> {
    let snap = match io.create_managed_snapshot().await {
        Err(e) if e.errno() == Errno::EINVAL => {
            return Err(Error::UnfitPool("it has snapshots of its own (ceph osd pool mksnap)"));
        }
        snap => snap?,
    };
    let first = WriteOp::new().create(true).write(0, VALIDATING.into());
    let written = match io.operate(names::INFO, first).await {
        // Of another client, or the settings that are kept with the pool.
        Err(e) if e.errno() == Errno::EEXIST => Ok(()),
        written => overwritten(written),
    };
    // One that is left behind costs nothing.
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
