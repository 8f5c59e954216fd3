//! Reconstructs the lost row of a collection from other data.
//!
//! | lost value | source |
//! |---|---|
//! | placement group | an unreadable row's key, if only one collection lacks a row; else the journal |
//! | number | the rows of its objects and operation records, which begin with it |
//! | version | the newest version of an operation record or an object |
//! | number of operation records | the newest row of them |
//! | newest record in the map | the journal: later versions are not in the map; if it has none, all are |
//! | sums | counted again |
//!
//! The versions of a collection increase with its records, and a checkpoint includes all records of a
//! collection up to one. A record of a later version than the map's is therefore not in the map, unless it
//! left neither an operation record nor an object there. In that case the newest record in the map is
//! unknown, and nothing is changed.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use loligo_store::{CollectionStats, ObjectName};
use loligo_wire::{Eversion, PgId};

use super::super::config::OpenError;
use super::super::journal::Journal;
use super::super::keys;
use super::super::record::{self, What};
use super::super::rows::{self, CollectionRow, StoreRow};
use super::{Check, PAGE, Wrong};

/// The row of a collection that cannot be read.
pub(super) struct Unreadable {
    pub(super) pg: PgId,
    pub(super) row: Bytes,
}

/// The journal's data of a placement group whose collection has no row.
#[derive(Default)]
struct Logged {
    /// In order.
    records: Vec<Entry>,
    names: BTreeSet<ObjectName>,
    removed: bool,
}

struct Entry {
    seq: u64,
    version: Eversion,
    /// Whether the map, if it had the record, would have an operation record of it.
    leaves_trace: bool,
}

/// The map's data of a collection without a row.
struct Left {
    version: Eversion,
    records: u64,
}

impl Check<'_> {
    /// Finds collections without rows, and reconstructs their rows if possible.
    pub(super) fn lost_collections(
        &mut self,
        unreadable: Vec<Unreadable>,
        store: &StoreRow,
        journal: Journal,
    ) -> Result<(), OpenError> {
        let numbers = self.numbers_without_row()?;
        if numbers.is_empty() && unreadable.is_empty() {
            return Ok(());
        }
        let logged = self.logged(journal)?;
        let only = if let ([only], [_]) = (&unreadable[..], &numbers[..]) { Some(only) } else { None };
        for number in &numbers {
            match self.found(*number, only, &logged, store) {
                Ok((pg, row)) => {
                    self.error(format!(
                        "the row of the collection {pg} is lost; it is number {number}, by its objects"
                    ));
                    self.wrong.push(Wrong::Collection(pg));
                    self.applied.insert(pg, row.applied_seq);
                    self.collections.insert(*number, (pg, row, CollectionStats::default()));
                }
                // Operation records without objects that belong to no collection are removed like other rows.
                Err(_) if !self.has_objects(*number) => {}
                Err(why) => {
                    self.hopeless(format!("the row of the collection number {number} is not there: {why}"));
                }
            }
        }
        for Unreadable { pg, .. } in unreadable {
            if self.applied.contains_key(&pg) {
                continue;
            }
            self.hopeless(format!(
                "the row of the collection {pg} cannot be read, and nothing says which objects are its own"
            ));
        }
        Ok(())
    }

    /// Returns the numbers that objects or operation records have but no collection has.
    fn numbers_without_row(&mut self) -> Result<Vec<u32>, OpenError> {
        let mut found = BTreeSet::new();
        for kind in [b"O", b"D"] {
            let (mut next, end) = (Some(0), [kind[0] + 1]);
            while let Some(number) = next {
                let from = [&kind[..], &u32::to_be_bytes(number)].concat();
                // Rows that cannot be read are reported when the rows themselves are checked.
                let Ok(rows) = self.disk.range(&from, &end, 1) else { break };
                let key = rows.first().and_then(|(key, _)| key.get(1..5)?.try_into().ok());
                let Some(number) = key.map(u32::from_be_bytes) else { break };
                found.insert(number);
                next = number.checked_add(1);
            }
        }
        Ok(found.into_iter().filter(|number| !self.collections.contains_key(number)).collect())
    }

    fn has_objects(&self, number: u32) -> bool {
        let rows = self.disk.range(&keys::objects(number), &after(number), 1);
        rows.is_ok_and(|rows| !rows.is_empty())
    }

    fn logged(&mut self, mut journal: Journal) -> Result<BTreeMap<PgId, Logged>, OpenError> {
        let mut all: BTreeMap<PgId, Logged> = BTreeMap::new();
        while let Some(records) = journal.read()? {
            for record in records.iter().filter_map(|bytes| record::decode(bytes).ok()) {
                if self.applied.contains_key(&record.pg) {
                    continue;
                }
                let logged = all.entry(record.pg).or_default();
                match record.what {
                    What::Remove => logged.removed = true,
                    What::Transaction(body) => {
                        let (version, leaves_trace) = (body.version, body.op.is_some());
                        logged.records.push(Entry { seq: record.seq, version, leaves_trace });
                        logged.names.extend(body.objects.iter().filter_map(|o| ObjectName::new(o.oid).ok()));
                    }
                }
            }
        }
        Ok(all)
    }

    /// Returns the former row of a collection, or why it is unknown.
    fn found(
        &self,
        number: u32,
        only: Option<&Unreadable>,
        logged: &BTreeMap<PgId, Logged>,
        store: &StoreRow,
    ) -> Result<(PgId, CollectionRow), String> {
        let has =
            |name: &ObjectName| matches!(self.disk.get(&keys::object(number, name.as_ref())), Ok(Some(_)));
        let mut pgs: BTreeSet<PgId> =
            logged.iter().filter(|(_, logged)| logged.names.iter().any(has)).map(|(pg, _)| *pg).collect();
        if let Some(Unreadable { pg, row }) = only {
            // The readable part of the row must not contradict it.
            let says = row.first_chunk::<4>().map_or(number, |bytes| u32::from_le_bytes(*bytes));
            if says != number {
                return Err(format!("what is left of the row of {pg} says number {says}"));
            }
            pgs.insert(*pg);
        }
        let (Some(pg), 1) = (pgs.first().copied(), pgs.len()) else {
            return Err("nothing says of which placement group it is".to_owned());
        };
        if self.applied.contains_key(&pg) {
            return Err(format!("its objects seem to be of {pg}, which is there"));
        }
        let left = self.left(number)?;
        let row = CollectionRow {
            number,
            applied_seq: applied(&left, logged.get(&pg), store)?,
            version: left.version,
            records: left.records,
            stats: CollectionStats::default(),
            object_rows: None,
        };
        Ok((pg, row))
    }

    /// Returns what the rows of a collection contain.
    fn left(&self, number: u32) -> Result<Left, String> {
        let mut left = Left { version: Eversion::default(), records: 0 };
        self.rows_of(keys::records(number, 0), keys::records(number, u64::MAX), |key, value| {
            let group = key.last_chunk::<8>().map_or(0, |group| u64::from_be_bytes(*group));
            let ops = rows::decode_ops(value).map_err(|e| format!("its operation records: {e}"))?;
            left.records = group.saturating_mul(keys::RECORDS_PER_ROW).saturating_add(ops.len() as u64);
            left.version = ops.iter().map(|op| op.version).fold(left.version, Eversion::max);
            Ok(())
        })?;
        self.rows_of(keys::objects(number), after(number), |_, value| {
            let (onode, ..) =
                rows::decode_object(value).map_err(|e| format!("the row of an object of it: {e}"))?;
            left.version = left.version.max(onode.info.version);
            Ok(())
        })?;
        Ok(left)
    }

    fn rows_of(
        &self,
        mut from: Bytes,
        until: Bytes,
        mut act: impl FnMut(&[u8], &[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        loop {
            let rows = self.disk.range(&from, &until, PAGE).map_err(|e| format!("its rows: {e}"))?;
            rows.iter().try_for_each(|(key, value)| act(key, value))?;
            match rows.last() {
                Some((key, _)) if rows.len() == PAGE => from = [&key[..], &[0]].concat().into(),
                _ => return Ok(()),
            }
        }
    }
}

/// The key after all objects of a collection.
fn after(number: u32) -> Bytes {
    number.checked_add(1).map_or_else(|| Bytes::from_static(b"P"), keys::objects)
}

/// Returns the newest record up to which the map has all.
fn applied(left: &Left, logged: Option<&Logged>, store: &StoreRow) -> Result<u64, String> {
    let Some(logged) = logged else { return Ok(store.next_seq.saturating_sub(1)) };
    if logged.removed {
        return Err("the journal says that it was removed".to_owned());
    }
    let taken = logged.records.partition_point(|record| record.version <= left.version);
    match logged.records.get(taken) {
        Some(next) if next.leaves_trace => Ok(next.seq.saturating_sub(1)),
        Some(next) => Err(format!("nothing says whether the map has the record {} of the journal", next.seq)),
        None => Ok(logged.records.last().map_or(0, |last| last.seq)),
    }
}

#[cfg(test)]
mod tests {
    use loligo_wire::Epoch;

    use super::*;

    #[test]
    fn what_the_map_has_is_known_from_versions_or_not_at_all() {
        let version = |version| Eversion { epoch: Epoch(1), version };
        let logged = |traces: [bool; 3]| {
            let entry = |(i, leaves_trace): (u64, bool)| Entry {
                seq: 20 + 2 * i,
                version: version(5 + i),
                leaves_trace,
            };
            Logged { records: (0..).zip(traces).map(entry).collect(), ..Logged::default() }
        };
        let fsid = loligo_wire::Uuid([1; 16]);
        let store = StoreRow { next_seq: 40, ..StoreRow::empty(fsid) };
        let of = |newest, logged: Option<&Logged>| {
            applied(&Left { version: version(newest), records: 0 }, logged, &store).ok()
        };
        let all = logged([true; 3]);
        assert_eq!([3, 4, 5, 6, 7, 8].map(|v| of(v, Some(&all))), [19, 19, 21, 23, 24, 24].map(Some));
        let some = logged([true, false, true]);
        assert_eq!([4, 5, 6, 7].map(|v| of(v, Some(&some))), [Some(19), None, Some(23), Some(24)]);
        assert_eq!(of(4, None), Some(39));
        assert_eq!(of(4, Some(&Logged { removed: true, ..logged([true; 3]) })), None);
    }
}
