//! Copies changes of the destination back to the source when a migration is aborted.
//!
//! An object that the destination's users have written after it was copied is compared with the source,
//! and differences are written to the source. All other objects equal the source's, or are incomplete
//! copies of them.

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use loligo_rados::SnapId;
use loligo_stripe::{ObjectExtent, ObjectNo};
use loligo_wire::rbd::Migration;

use crate::copy::AT_ONCE;
use crate::image::Image;
use crate::progress::report;
use crate::{Error, Shrink};

/// The bytes of one comparison.
const BLOCK: usize = 4096;

/// Writes the destination's changes to the source. `progress` gets the number of objects done, and of
/// all objects.
pub(super) async fn revert(
    source: &Image,
    destination: &Image,
    spec: &Migration,
    progress: &mut impl FnMut(u64, u64),
) -> Result<(), Error> {
    let size = destination.size();
    if source.size() != size {
        source.resize(size, Shrink::Allowed).await?;
    }
    let newest = spec.snap_seqs.values().copied().max().unwrap_or(0);
    let all = destination.layout().object_count(size);
    let reverted = stream::iter(0..all).map(|number| async move {
        if is_own(destination, number, newest).await? {
            revert_object(source, destination, number).await
        } else {
            Ok(())
        }
    });
    let mut reverted = reverted.buffer_unordered(AT_ONCE);
    let mut done = 0;
    while reverted.try_next().await?.is_some() {
        done += 1;
        report(progress, done, all).await;
    }
    drop(reverted);
    source.flush().await
}

/// Whether an object may have data that the source lacks: it was written with all snapshots taken over
/// in the snapshot context. Its head may be removed.
async fn is_own(destination: &Image, number: u64, newest: u64) -> Result<bool, Error> {
    let history = destination.inner.history(ObjectNo(number)).await?;
    Ok(!history.is_empty() && history.0.seq.0 >= newest)
}

async fn revert_object(source: &Image, destination: &Image, number: u64) -> Result<(), Error> {
    let inner = &destination.inner;
    let object = ObjectNo(number);
    let len = inner.fixed.layout.object_len(object, destination.size());
    let head = inner.data.clone();
    let has_head = inner.history(object).await?.at(SnapId::HEAD).is_some();
    for (at, object_offset, len) in inner.pieces(ObjectExtent { object, offset: 0, len }) {
        let extent = ObjectExtent { object, offset: object_offset, len };
        let mut now = match has_head {
            true => inner.read_own(&head, extent).await?.to_vec(),
            false => Vec::new(),
        };
        now.resize(len as usize, 0);
        let before = source.read(at, len).await?;
        let mut offset = 0;
        for (new, old) in now.chunks(BLOCK).zip(before.chunks(BLOCK)) {
            if new != old {
                source.write(at + offset, new.to_vec().into()).await?;
            }
            offset += new.len() as u64;
        }
    }
    Ok(())
}
