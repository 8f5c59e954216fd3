//! Scrubs: placement groups are read object by object, so that damage is found before a client reads it.
//!
//! A shallow scrub reads the store's metadata of each object. A deep scrub also reads data and omap,
//! from the medium and not from a cache, and compares checksums ([`walk`]). One placement group is
//! scrubbed at a time. No lock is held while the store reads, requests do not wait for a scrub, and each
//! step is bounded: one page of names, or one part of an object.
//!
//! [`Scrubs`] keeps the requested scrubs and the findings; [`due`] selects periodic scrubs.

mod due;
mod walk;

use std::collections::BTreeMap;
use std::sync::Arc;

use loligo_maps::stable_mod;
use loligo_store::{ObjectName, StoreError};
use loligo_wire::{PgId, UTime};

pub use due::ScrubPolicy;

use crate::osd::Osd;
use crate::scrubs::{Damage, PgScrub, ScrubJob, ScrubKind, ScrubReport, Scrubs, record};
use walk::Pace;

impl Osd {
    /// Requests scrubs of placement groups, to run one after the other. A group already queued is
    /// scrubbed once, with the more thorough kind.
    pub fn ask_scrub(&self, pgs: impl IntoIterator<Item = PgId>, kind: ScrubKind) {
        let mut table = self.scrubs.table.lock();
        for pg in pgs {
            match table.asked.iter_mut().find(|(asked, _)| *asked == pg) {
                Some((_, asked)) => *asked = kind.max(*asked),
                None => table.asked.push((pg, kind)),
            }
        }
        drop(table);
        self.scrubs.asked.notify_one();
    }

    /// Waits until a scrub is requested.
    pub async fn scrub_asked(&self) {
        self.scrubs.asked.notified().await;
    }

    /// Takes the next scrub to run: the oldest requested one, otherwise the one that is longest overdue.
    pub fn next_scrub(&self, policy: &ScrubPolicy, now: UTime) -> Option<ScrubJob> {
        let places = self.places.load();
        let mut table = self.scrubs.table.lock();
        table.forget_pools(|id| places.pool(id).is_some());
        while !table.asked.is_empty() {
            let (pg, kind) = table.asked.remove(0);
            if places.pool(pg.pool).is_some_and(|pool| pg.seed < pool.pool.pg_num()) {
                return Some(ScrubJob { pg, kind, asked: true });
            }
        }
        due::longest(&places, &table.groups, policy, now)
    }

    /// Runs a scrub. Returns `None` if the store has stopped or was replaced, or the pool is
    /// deleted.
    pub async fn scrub(&self, job: ScrubJob, policy: &ScrubPolicy) -> Option<ScrubReport> {
        let ScrubJob { pg, kind, asked } = job;
        let (pool, store) = (self.places.load().pool(pg.pool).cloned()?, self.store());
        let version = self.pg_stats().into_iter().find(|stats| stats.pg == pg)?.version;
        self.scrubs.table.lock().running = Some((pg, kind));
        let _running = Running(&self.scrubs);
        let pace = if asked { Pace::asked(policy.pause) } else { Pace::in_background(policy.pause) };
        let found = walk::walk(&pool, pg, kind, pace).await.ok()?;
        if !Arc::ptr_eq(&store, &self.store()) {
            return None; // what was found was of objects that others have replaced
        }
        let report = ScrubReport { pg, kind, found };
        self.scrubs.table.lock().ended(&report, pool.pool.pg_num(), version, UTime::now());
        Some(report)
    }

    /// The scrub state of all placement groups that have any.
    pub fn pg_scrubs(&self) -> BTreeMap<PgId, PgScrub> {
        let places = self.places.load();
        let table = self.scrubs.table.lock();
        let mut all: BTreeMap<PgId, PgScrub> = table
            .groups
            .iter()
            .map(|(pg, last)| (*pg, PgScrub { last: *last, ..PgScrub::default() }))
            .collect();
        for (id, objects) in &table.found {
            let Some(pool) = places.pool(*id) else { continue };
            for (name, damage) in objects {
                let seed = stable_mod(name.as_ref().hash, pool.pool.pg_num());
                let scrub = all.entry(PgId { pool: *id, seed }).or_default();
                let errors =
                    if damage.is_deep() { &mut scrub.deep_errors } else { &mut scrub.shallow_errors };
                *errors += 1;
            }
        }
        if let Some((pg, kind)) = table.running {
            all.entry(pg).or_default().running = Some(kind);
        }
        all
    }

    /// The damaged objects of a placement group, in order.
    pub fn damaged(&self, pg: PgId) -> Vec<(ObjectName, Damage)> {
        let places = self.places.load();
        let Some(pool) = places.pool(pg.pool) else { return Vec::new() };
        let here = |name: &ObjectName| stable_mod(name.as_ref().hash, pool.pool.pg_num()) == pg.seed;
        let table = self.scrubs.table.lock();
        let found = table.found.get(&pg.pool).into_iter().flatten();
        found.filter(|(name, _)| here(name)).map(|(name, damage)| (name.clone(), damage.clone())).collect()
    }

    /// Returns the encoded scrub state, to be kept across a restart, if it has changed since the last
    /// call.
    pub fn changed_scrub_records(&self) -> Option<Vec<u8>> {
        let mut table = self.scrubs.table.lock();
        std::mem::take(&mut table.changed).then(|| record::encode(&table.groups, &table.found))
    }

    /// Restores the scrub state of the last run. If the records cannot be decoded, nothing is changed.
    ///
    /// # Errors
    /// The records are not output of [`changed_scrub_records`](Self::changed_scrub_records).
    pub fn restore_scrub_records(&self, records: &[u8]) -> Result<(), loligo_wire::DecodeError> {
        let (groups, found) = record::decode(records)?;
        let mut table = self.scrubs.table.lock();
        (table.groups, table.found) = (groups, found);
        Ok(())
    }
}

/// Clears the running scrub when dropped.
struct Running<'a>(&'a Scrubs);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.table.lock().running = None;
    }
}

/// Awaits the result of a read of the store.
async fn got<T: Send + 'static>(fetch: loligo_store::Fetch<T>) -> Result<T, StoreError> {
    match fetch {
        loligo_store::Fetch::Now(value) => Ok(value),
        loligo_store::Fetch::Later(later) => {
            let (tell, told) = tokio::sync::oneshot::channel();
            later.then(move |answer| {
                let _ = tell.send(answer); // the scrub may have ended
            });
            told.await.unwrap_or(Err(StoreError::Stopped))
        }
    }
}
