//! Recognises writes that come again.

use std::collections::VecDeque;

use loligo_store::OpRecord;
use loligo_wire::{Incarnation, Tid};

/// Writes remembered for each placement group; a stock OSD keeps 3,000 (`osd_pg_log_dups_tracked`). A client resends only
/// what it had in flight, at most 1,024 operations over all placement groups by default.
const RECORDS_MAX: usize = 3000;

/// The results of a placement group's newest writes.
///
/// A search goes through all of it, but only a request that says it is a repetition is searched for; what every write pays
/// is one entry in a ring.
#[derive(Debug, Default)]
pub(crate) struct Dups {
    newest_last: VecDeque<OpRecord>,
}

impl Dups {
    /// What a store has kept from before a restart.
    pub(crate) fn new(records: Vec<OpRecord>) -> Self {
        Self { newest_last: records.into() }
    }

    /// Remembers a write's result.
    pub(crate) fn record(&mut self, record: OpRecord) {
        if self.newest_last.len() >= RECORDS_MAX {
            self.newest_last.pop_front();
        }
        self.newest_last.push_back(record);
    }

    /// The result of an earlier attempt.
    pub(crate) fn find(&self, client: u64, incarnation: Incarnation, tid: Tid) -> Option<OpRecord> {
        let same = |r: &&OpRecord| r.tid == tid && r.client == client && r.incarnation == incarnation;
        self.newest_last.iter().rev().find(same).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(tid: u64) -> OpRecord {
        OpRecord { client: 7, tid: Tid(tid), ..OpRecord::default() }
    }

    #[test]
    fn a_repetition_is_found_and_only_it() {
        let mut dups = Dups::new(vec![record(1)]);
        dups.record(record(2));
        let find = |client, inc, tid| dups.find(client, Incarnation(inc), Tid(tid));
        assert_eq!(find(7, 0, 1), Some(record(1)));
        assert_eq!(find(7, 0, 2), Some(record(2)));
        assert_eq!(find(7, 0, 3), None);
        assert_eq!(find(8, 0, 1), None);
        assert_eq!(find(7, 1, 1), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut dups = Dups::default();
        (0..=RECORDS_MAX as u64).for_each(|tid| dups.record(record(tid)));
        assert_eq!(dups.find(7, Incarnation(0), Tid(0)), None);
        assert_eq!(dups.find(7, Incarnation(0), Tid(1)), Some(record(1)));
    }
}
