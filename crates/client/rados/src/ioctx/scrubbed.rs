//! Findings of scrubs.

use bytes::Bytes;
use loligo_wire::message::osd::{
    DamagedObject, DamagedSnaps, MOSDOp, ObjectLocator, OpCode, OsdFlags, OsdOp, ScrubLs, ScrubLsResult,
    ScrubbedId,
};
use loligo_wire::{Decode, Encode as _, Epoch};
use smallvec::smallvec;

use super::{ALWAYS, IoCtx};
use crate::Error;

/// Entries requested at a time.
const BATCH: u64 = 256;

/// Findings of scrubs in a placement group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged<T> {
    /// The epoch since which the same OSDs serve the group.
    pub interval: Epoch,
    /// The damaged items.
    pub found: Vec<T>,
}

impl IoCtx {
    /// Returns the objects of one of the pool's placement groups that scrubs have found damaged.
    ///
    /// # Errors
    /// ENOENT if the group was not scrubbed since its OSD started; EAGAIN if the group moves to other
    /// OSDs during the call.
    pub async fn inconsistent_objects(&self, seed: u32) -> Result<Damaged<DamagedObject>, Error> {
        self.damaged(seed, false, |object: &DamagedObject| object.object.clone()).await
    }

    /// Returns the objects of one of the pool's placement groups whose snapshots scrubs have found damaged.
    ///
    /// # Errors
    /// As [`inconsistent_objects`](Self::inconsistent_objects).
    pub async fn inconsistent_snapsets(&self, seed: u32) -> Result<Damaged<DamagedSnaps>, Error> {
        self.damaged(seed, true, |snaps: &DamagedSnaps| snaps.object.clone()).await
    }

    async fn damaged<T: Decode>(
        &self,
        seed: u32,
        snapsets: bool,
        id: impl Fn(&T) -> ScrubbedId,
    ) -> Result<Damaged<T>, Error> {
        let mut all = Damaged { interval: Epoch(0), found: Vec::new() };
        loop {
            let after = all.found.last().map(&id).unwrap_or_default();
            let ask = ScrubLs { interval: all.interval, snapsets, after, max: BATCH };
            let page = self.scrubls(seed, &ask).await?;
            all.interval = page.interval;
            let count = page.found.len() as u64;
            for entry in &page.found {
                all.found.push(T::from_bytes(entry).map_err(undecodable)?);
            }
            if count < BATCH {
                return Ok(all);
            }
        }
    }

    async fn scrubls(&self, seed: u32, ask: &ScrubLs) -> Result<ScrubLsResult, Error> {
        let locator = ObjectLocator { hash: seed.into(), key: Vec::new(), ..self.locator.clone() };
        let op = OsdOp::new(OpCode::SCRUBLS).with_data(ask.to_bytes());
        let flags = ALWAYS | OsdFlags::READ | OsdFlags::PGOP | OsdFlags::IGNORE_OVERLAY;
        let request = MOSDOp::new(locator, Vec::new(), smallvec![op], flags);
        let reply = super::succeeded(self.reply_to(request).await?)?;
        let out: Bytes = reply.outs.into_iter().next().unwrap_or_default().data;
        ScrubLsResult::from_bytes(&out).map_err(undecodable)
    }
}

fn undecodable(source: loligo_wire::DecodeError) -> Error {
    Error::Decode { what: "scrub_ls_result_t", source }
}
