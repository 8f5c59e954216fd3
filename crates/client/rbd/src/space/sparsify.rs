//! Releases the space of zeros.
//!
//! The OSD searches for them, in one request for each object (`librbd/operation/SparsifyRequest.cc`).

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use loligo_rados::Errno;

use crate::Error;
use crate::call::telling;
use crate::image::resize::REMOVALS;
use crate::image::{Image, Inner};
use crate::lock::messages::Wanted;
use crate::progress::report;

/// The smallest block size, as in librbd.
const BLOCK_BYTES_MIN: u64 = 4096;

impl Image {
    /// Releases the space of blocks of `block_bytes` that are all zeros. `progress` gets the number of
    /// objects done, and of all objects. Data may be changed meanwhile. Data of snapshots is not
    /// released.
    ///
    /// # Errors
    /// [`Error::Block`] unless `block_bytes` is a power of two from 4096 to the object size;
    /// [`Error::ReadOnly`]; EOPNOTSUPP for an erasure-coded pool. After a failure it can be repeated.
    pub async fn sparsify(&self, block_bytes: u64, mut progress: impl FnMut(u64, u64)) -> Result<(), Error> {
        let inner = &self.inner;
        let object_bytes = inner.fixed.layout.object_size();
        if !block_bytes.is_power_of_two() || !(BLOCK_BYTES_MIN..=object_bytes).contains(&block_bytes) {
            return Err(Error::Block { block_bytes, object_bytes });
        }
        if self.has_owner_do(Wanted::Sparsify { block_bytes }, &mut progress).await? {
            return Ok(());
        }
        drop(inner.enter().await?);
        inner.write_back().await?;
        let all = inner.fixed.layout.object_count(inner.size());
        let thinned = stream::iter(0..all).map(|number| async move {
            let _place = inner.enter().await?;
            inner.thin_out(number, block_bytes).await
        });
        let mut thinned = thinned.buffer_unordered(REMOVALS);
        let mut done = 0;
        while thinned.try_next().await?.is_some() {
            done += 1;
            report(&mut progress, done, all).await;
        }
        Ok(())
    }
}

impl Inner {
    async fn thin_out(&self, number: u64, block_bytes: u64) -> Result<(), Error> {
        let (io, oid) = (self.writer()?, self.fixed.object(number));
        // An object that hides data of the parent must stay, even if it is empty.
        let may_go = self.covered(number) == 0;
        let thin = async {
            let op = telling(self.if_settled().await?, "sparsify", |w| {
                w.u64(block_bytes);
                w.bool(may_go);
            });
            match io.operate(&*oid, op).await {
                // The object does not exist, or is still to be copied from the source; that copy leaves
                // zeros out.
                Err(e) if [Errno::ENOENT, Errno::ERANGE].contains(&e.errno()) => Ok(()),
                done => Ok(done?),
            }
        };
        if self.map.is_missing(number) {
            return Ok(());
        }
        if !may_go || !self.map.is_open() {
            let _held = self.map.holding(number).await;
            return thin.await;
        }
        let thin = async {
            thin.await?;
            match io.stat(&*oid).await {
                Err(e) if e.errno() == Errno::ENOENT => Ok(false),
                found => Ok(found.map(|_| true)?),
            }
        };
        self.map.thinning(number, thin).await
    }
}
