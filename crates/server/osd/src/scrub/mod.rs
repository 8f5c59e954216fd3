//! Scrubs: placement groups are read object by object, so that what is damaged is found before a client reads
//! it.
//!
//! A shallow scrub reads what the store says of each object; a deep one reads the data and the omap too, from
//! the medium and not from a cache, and compares checksums ([`walk`]). One placement group is scrubbed at a
//! time. No lock is held while the store reads, requests do not wait for a scrub, and a step is bounded: one
//! page of names, one part of an object.
//!
//! [`Scrubs`] keeps what is asked for, what is due ([`due`]) and what was found. What was found stays until a
//! scrub finds it in order, also over a restart ([`record`]).

mod due;
mod record;
mod walk;

use std::collections::BTreeMap;

use loligo_lockstat::{Class, Mutex};
use loligo_maps::stable_mod;
use loligo_store::{ObjectName, StoreError};
use loligo_wire::message::osd::ScrubbedId;
use loligo_wire::{Eversion, PgId, PoolId, UTime};
use tokio::sync::Notify;

pub use due::ScrubPolicy;

use crate::Osd;
use walk::Pace;

/// Held to look up or change what is to be scrubbed, and what was found.
static SCRUBS: Class = Class::new("osd.scrubs");

/// Objects of which is remembered that they are damaged. More are counted in the placement group's report
/// only.
const FOUND_MAX: usize = 10_000;

/// How thorough a scrub is, and what it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScrubKind {
    /// Reads what the store says of each object.
    Shallow,
    /// Reads data and omap too.
    Deep,
    /// Deep. Everything is kept once here, so that there is no other copy to repair an object from.
    Repair,
}

impl ScrubKind {
    /// Whether data and omap are read.
    pub fn is_deep(self) -> bool {
        self != Self::Shallow
    }

    /// Its name in commands and in the log.
    pub fn word(self) -> &'static str {
        match self {
            Self::Shallow => "scrub",
            Self::Deep => "deep-scrub",
            Self::Repair => "repair",
        }
    }
}

/// What about an object is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// What the store says of the object cannot be read.
    Record,
    /// Data cannot be read, or is not what was written.
    Data,
    /// The data does not have the checksum that the object's writer gave.
    Digest,
    /// The omap cannot be read.
    Omap,
}

/// A damaged object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// What about it.
    pub fault: Fault,
    /// What was found, for people.
    pub what: String,
}

impl Damage {
    /// Whether only deep scrubs find it.
    pub fn is_deep(&self) -> bool {
        self.fault != Fault::Record
    }
}

/// What is known of a placement group's scrubs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PgScrub {
    /// The one in progress.
    pub running: Option<ScrubKind>,
    /// Damaged objects that shallow scrubs find.
    pub shallow_errors: u64,
    /// Damaged objects that only deep ones find.
    pub deep_errors: u64,
    /// When they ended, as far as there were any.
    pub last: Scrubbed,
}

/// When a placement group was scrubbed, and which change was its newest then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// The end of the newest scrub of any kind; zero if there was none.
    pub at: UTime,
    /// The newest change then.
    pub version: Eversion,
    /// The end of the newest deep one.
    pub deep_at: UTime,
    /// The newest change then.
    pub deep_version: Eversion,
    /// The end of the newest one that found all in order.
    pub clean_at: UTime,
}

/// What a scrub has come to.
#[derive(Clone, Debug)]
pub struct ScrubReport {
    /// Which placement group.
    pub pg: PgId,
    /// Which kind.
    pub kind: ScrubKind,
    /// What it found, in order.
    pub found: Vec<(ObjectName, Damage)>,
}

/// A scrub to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubJob {
    /// Which placement group.
    pub pg: PgId,
    /// Which kind.
    pub kind: ScrubKind,
    /// Whether somebody asked for it; else it is due, and takes its time.
    pub asked: bool,
}

/// What is asked for, and what was found.
pub(crate) struct Scrubs {
    table: Mutex<Table>,
    asked: Notify,
}

#[derive(Default)]
struct Table {
    /// In the order in which they were asked for.
    asked: Vec<(PgId, ScrubKind)>,
    running: Option<(PgId, ScrubKind)>,
    groups: BTreeMap<PgId, Scrubbed>,
    found: BTreeMap<PoolId, BTreeMap<ObjectName, Damage>>,
    /// Whether something has changed that is not in [`Osd::changed_scrub_records`] yet.
    changed: bool,
}

impl Default for Scrubs {
    fn default() -> Self {
        Self { table: Mutex::new(&SCRUBS, Table::default()), asked: Notify::new() }
    }
}

impl Osd {
    /// Has placement groups scrubbed, one after the other. One that waits already is scrubbed once, in the
    /// more thorough way.
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

    /// Waits until a scrub is asked for.
    pub async fn scrub_asked(&self) {
        self.scrubs.asked.notified().await;
    }

    /// The next scrub to do: the oldest that was asked for, else the one that is longest overdue.
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

    /// Does a scrub. `None`: the store has stopped, or the pool is gone.
    pub async fn scrub(&self, job: ScrubJob, policy: &ScrubPolicy) -> Option<ScrubReport> {
        let ScrubJob { pg, kind, asked } = job;
        let pool = self.places.load().pool(pg.pool).cloned()?;
        let version = self.pg_stats().into_iter().find(|stats| stats.pg == pg)?.version;
        self.scrubs.table.lock().running = Some((pg, kind));
        let _running = Running(&self.scrubs);
        let pace = if asked { Pace::asked(policy.pause) } else { Pace::in_background(policy.pause) };
        let found = walk::walk(&pool, pg, kind, pace).await.ok()?;
        let report = ScrubReport { pg, kind, found };
        self.scrubs.table.lock().ended(&report, pool.pool.pg_num(), version, UTime::now());
        Some(report)
    }

    /// What is known of the scrubs of all placement groups, as far as anything is.
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

    /// What is known of scrubs, to be kept over a restart, if it has changed since the last call.
    pub fn changed_scrub_records(&self) -> Option<Vec<u8>> {
        let mut table = self.scrubs.table.lock();
        std::mem::take(&mut table.changed).then(|| record::encode(&table.groups, &table.found))
    }

    /// Takes what the last run kept. What cannot be read is an error, and nothing is taken.
    ///
    /// # Errors
    /// It is not what [`changed_scrub_records`](Self::changed_scrub_records) gave.
    pub fn restore_scrub_records(&self, records: &[u8]) -> Result<(), loligo_wire::DecodeError> {
        let (groups, found) = record::decode(records)?;
        let mut table = self.scrubs.table.lock();
        (table.groups, table.found) = (groups, found);
        Ok(())
    }
}

impl Scrubs {
    /// Whether a placement group was scrubbed at all.
    pub(crate) fn has_scrubbed(&self, pg: PgId) -> bool {
        self.table.lock().groups.contains_key(&pg)
    }

    /// Damaged objects of a placement group behind one of them, in the order of their namespaces and names.
    /// That one is named without what is hashed, so that it may be in order by now, and the next is found all
    /// the same.
    pub(crate) fn damaged_behind(
        &self,
        pg: PgId,
        pg_num: u32,
        after: &ScrubbedId,
        max: usize,
    ) -> Vec<(ObjectName, Damage)> {
        let place = |name: &ObjectName| {
            let oid = name.as_ref();
            (oid.nspace.to_vec(), oid.name.to_vec(), oid.snap)
        };
        let begin =
            (!after.name.is_empty()).then(|| (after.nspace.to_vec(), after.name.to_vec(), after.snap));
        let table = self.table.lock();
        let found = table.found.get(&pg.pool).into_iter().flatten();
        let here = found.filter(|(name, _)| stable_mod(name.as_ref().hash, pg_num) == pg.seed);
        let mut behind: Vec<_> = here
            .map(|(name, damage)| (place(name), name, damage))
            .filter(|(place, ..)| begin.as_ref().is_none_or(|begin| place > begin))
            .collect();
        behind.sort_unstable_by(|(a, ..), (b, ..)| a.cmp(b));
        behind.into_iter().take(max).map(|(_, name, damage)| (name.clone(), damage.clone())).collect()
    }
}

/// Says, when it is dropped, that no scrub is in progress.
struct Running<'a>(&'a Scrubs);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.table.lock().running = None;
    }
}

impl Table {
    fn forget_pools(&mut self, is_there: impl Fn(PoolId) -> bool) {
        let before = (self.groups.len(), self.found.len());
        self.groups.retain(|pg, _| is_there(pg.pool));
        self.found.retain(|id, _| is_there(*id));
        self.changed |= before != (self.groups.len(), self.found.len());
    }

    fn ended(&mut self, report: &ScrubReport, pg_num: u32, version: Eversion, now: UTime) {
        let ScrubReport { pg, kind, found } = report;
        let objects = self.found.entry(pg.pool).or_default();
        // A shallow scrub cannot say that what deep ones have found is in order now.
        let outdated = |damage: &Damage| kind.is_deep() || !damage.is_deep();
        let here = |name: &ObjectName| stable_mod(name.as_ref().hash, pg_num) == pg.seed;
        objects.retain(|name, damage| !(here(name) && outdated(damage)));
        let room = FOUND_MAX.saturating_sub(objects.len());
        objects.extend(found.iter().take(room).cloned());
        let clean = !objects.keys().any(here);
        if objects.is_empty() {
            self.found.remove(&pg.pool);
        }
        let last = self.groups.entry(*pg).or_default();
        (last.at, last.version) = (now, version);
        if kind.is_deep() {
            (last.deep_at, last.deep_version) = (now, version);
        }
        if clean {
            last.clean_at = now;
        }
        self.changed = true;
    }
}

/// Waits for an answer of the store.
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

#[cfg(test)]
mod tests;
