//! Requested scrubs and their findings. A finding stays until a scrub finds the object in order, also
//! across a restart ([`record`]).

pub(crate) mod record;

use std::collections::BTreeMap;

use loligo_lockstat::{Class, Mutex};
use loligo_maps::stable_mod;
use loligo_store::ObjectName;
use loligo_wire::message::osd::ScrubbedId;
use loligo_wire::{Eversion, PgId, PoolId, UTime};
use tokio::sync::Notify;

/// Held to look up or change the requested scrubs and the findings.
static SCRUBS: Class = Class::new("osd.scrubs");

/// Damaged objects remembered for each pool. Further ones are only counted in the placement group's
/// report.
const FOUND_MAX: usize = 10_000;

/// How thorough a scrub is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScrubKind {
    /// Reads the store's metadata of each object.
    Shallow,
    /// Also reads data and omap.
    Deep,
    /// As deep. Each object is stored once here, so there is no other copy to repair it from.
    Repair,
}

impl ScrubKind {
    /// Whether data and omap are read.
    pub fn is_deep(self) -> bool {
        self != Self::Shallow
    }

    /// The name in commands and in the log.
    pub fn word(self) -> &'static str {
        match self {
            Self::Shallow => "scrub",
            Self::Deep => "deep-scrub",
            Self::Repair => "repair",
        }
    }
}

/// The damaged part of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The store's metadata of the object cannot be read.
    Record,
    /// Data cannot be read, or differs from the data written.
    Data,
    /// The data does not match the checksum given by the object's writer.
    Digest,
    /// The omap cannot be read.
    Omap,
}

/// A damaged object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The damaged part.
    pub fault: Fault,
    /// A description for administrators.
    pub what: String,
}

impl Damage {
    /// Whether only deep scrubs find it.
    pub fn is_deep(&self) -> bool {
        self.fault != Fault::Record
    }
}

/// The scrub state of a placement group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PgScrub {
    /// The scrub in progress.
    pub running: Option<ScrubKind>,
    /// Damaged objects that shallow scrubs find.
    pub shallow_errors: u64,
    /// Damaged objects that only deep scrubs find.
    pub deep_errors: u64,
    /// When the last scrubs ended, as far as there were any.
    pub last: Scrubbed,
}

/// When a placement group was scrubbed, and which change was its newest then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// The end of the newest scrub of any kind; zero if there was none.
    pub at: UTime,
    /// The newest change at that time.
    pub version: Eversion,
    /// The end of the newest deep scrub.
    pub deep_at: UTime,
    /// The newest change at that time.
    pub deep_version: Eversion,
    /// The end of the newest scrub that found no damage.
    pub clean_at: UTime,
}

/// The result of a scrub.
#[derive(Clone, Debug)]
pub struct ScrubReport {
    /// The placement group.
    pub pg: PgId,
    /// The kind of scrub.
    pub kind: ScrubKind,
    /// The damaged objects, in order.
    pub found: Vec<(ObjectName, Damage)>,
}

/// A scrub to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubJob {
    /// The placement group.
    pub pg: PgId,
    /// The kind of scrub.
    pub kind: ScrubKind,
    /// Whether it was requested; otherwise it is a periodic scrub, and runs slowly.
    pub asked: bool,
}

/// Requested scrubs and findings.
pub(crate) struct Scrubs {
    pub(crate) table: Mutex<Table>,
    pub(crate) asked: Notify,
}

impl Scrubs {
    /// Forgets the findings, because other objects have replaced all, and requests.
    pub(crate) fn forget_found(&self) {
        let mut table = self.table.lock();
        table.changed |= !table.found.is_empty();
        table.found.clear();
        table.asked.clear();
    }
}

/// The state of scrubs.
#[derive(Default)]
pub(crate) struct Table {
    /// In the order of the requests.
    pub(crate) asked: Vec<(PgId, ScrubKind)>,
    pub(crate) running: Option<(PgId, ScrubKind)>,
    pub(crate) groups: BTreeMap<PgId, Scrubbed>,
    pub(crate) found: BTreeMap<PoolId, BTreeMap<ObjectName, Damage>>,
    /// Whether the state has changed since the last `Osd::changed_scrub_records`.
    pub(crate) changed: bool,
}

impl Default for Scrubs {
    fn default() -> Self {
        Self { table: Mutex::new(&SCRUBS, Table::default()), asked: Notify::new() }
    }
}

impl Scrubs {
    /// Whether a placement group was ever scrubbed.
    pub(crate) fn has_scrubbed(&self, pg: PgId) -> bool {
        self.table.lock().groups.contains_key(&pg)
    }

    /// Returns damaged objects of a placement group after `after`, in the order of their namespaces and
    /// names. `after` lacks the parts needed for the hash, so it is compared by namespace, name and
    /// snapshot; the listing continues correctly even if that object is in order by now.
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

impl Table {
    pub(crate) fn forget_pools(&mut self, is_there: impl Fn(PoolId) -> bool) {
        let before = (self.groups.len(), self.found.len());
        self.groups.retain(|pg, _| is_there(pg.pool));
        self.found.retain(|id, _| is_there(*id));
        self.changed |= before != (self.groups.len(), self.found.len());
    }

    pub(crate) fn ended(&mut self, report: &ScrubReport, pg_num: u32, version: Eversion, now: UTime) {
        let ScrubReport { pg, kind, found } = report;
        let objects = self.found.entry(pg.pool).or_default();
        // A shallow scrub cannot tell whether damage found by deep scrubs is gone.
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

#[cfg(test)]
mod tests;
