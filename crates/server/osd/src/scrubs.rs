//! What scrubs are asked for, and what they have found. What was found stays until a scrub finds it in order,
//! also over a restart ([`record`]).

pub(crate) mod record;

use std::collections::BTreeMap;

use loligo_lockstat::{Class, Mutex};
use loligo_maps::stable_mod;
use loligo_store::ObjectName;
use loligo_wire::message::osd::ScrubbedId;
use loligo_wire::{Eversion, PgId, PoolId, UTime};
use tokio::sync::Notify;

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
    pub(crate) table: Mutex<Table>,
    pub(crate) asked: Notify,
}

/// What is known of scrubs.
#[derive(Default)]
pub(crate) struct Table {
    /// In the order in which they were asked for.
    pub(crate) asked: Vec<(PgId, ScrubKind)>,
    pub(crate) running: Option<(PgId, ScrubKind)>,
    pub(crate) groups: BTreeMap<PgId, Scrubbed>,
    pub(crate) found: BTreeMap<PoolId, BTreeMap<ObjectName, Damage>>,
    /// Whether something has changed that is not in `Osd::changed_scrub_records` yet.
    pub(crate) changed: bool,
}

impl Default for Scrubs {
    fn default() -> Self {
        Self { table: Mutex::new(&SCRUBS, Table::default()), asked: Notify::new() }
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

#[cfg(test)]
mod tests;
