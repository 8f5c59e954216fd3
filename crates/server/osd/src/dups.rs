//! Detects resent writes.

use std::collections::VecDeque;

use bytes::Bytes;
use loligo_store::OpRecord;
use loligo_wire::{Incarnation, Tid};

/// Writes remembered for each placement group; a stock OSD keeps 3,000 (`osd_pg_log_dups_tracked`). A
/// client resends only what it had in flight, by default at most 1,024 operations over all placement
/// groups.
const RECORDS_MAX: usize = 3000;

/// Bytes of outputs remembered for each placement group. A stock OSD bounds only each single output
/// (`osd_max_write_op_reply_len`). Few clients ask for outputs; a resent write whose outputs are
/// forgotten still gets its result.
const OUTPUT_BYTES_MAX: usize = 256 << 10;

/// The memory cost of one remembered operation result beside its output.
const OUTPUT_COST: usize = size_of::<OpOutput>();

/// The result and output of one operation of a write.
type OpOutput = (i32, Bytes);

/// The results of a placement group's newest writes.
///
/// A search is linear, but only requests flagged as a resend are searched for; a write costs one entry
/// in a ring.
#[derive(Debug, Default)]
pub(crate) struct Dups {
    newest_last: VecDeque<OpRecord>,
    /// Writes recorded so far, which is the number of the next one.
    recorded: u64,
    /// By write number; few writes have outputs.
    outputs: VecDeque<(u64, Box<[OpOutput]>)>,
    output_bytes: usize,
}

impl Dups {
    /// Restores the records that a store has kept from before a restart.
    pub(crate) fn new(records: Vec<OpRecord>) -> Self {
        Self { recorded: records.len() as u64, newest_last: records.into(), ..Self::default() }
    }

    /// The number of remembered writes.
    pub(crate) fn len(&self) -> usize {
        self.newest_last.len()
    }

    /// Remembers a write's result, and its operations' outputs if the client asked for them.
    pub(crate) fn record(&mut self, record: OpRecord, outputs: &[OpOutput]) {
        if self.newest_last.len() >= RECORDS_MAX {
            self.newest_last.pop_front();
        }
        self.newest_last.push_back(record);
        if !outputs.is_empty() {
            self.output_bytes += bytes_of(outputs);
            // Copied: an output may be a slice of a large buffer.
            let copy = outputs.iter().map(|(rval, data)| (*rval, Bytes::copy_from_slice(data))).collect();
            self.outputs.push_back((self.recorded, copy));
        }
        self.recorded += 1;
        let oldest = self.recorded - self.newest_last.len() as u64;
        while let Some((number, outputs)) = self.outputs.front()
            && (*number < oldest || self.output_bytes > OUTPUT_BYTES_MAX)
        {
            self.output_bytes -= bytes_of(outputs);
            self.outputs.pop_front();
        }
    }

    /// Returns the result of an earlier attempt, and its operations' results and outputs as far as they
    /// are remembered.
    pub(crate) fn find(
        &self,
        client: u64,
        incarnation: Incarnation,
        tid: Tid,
    ) -> Option<(OpRecord, &[OpOutput])> {
        let same = |r: &OpRecord| r.tid == tid && r.client == client && r.incarnation == incarnation;
        let at = self.newest_last.iter().rposition(same)?;
        let number = self.recorded - (self.newest_last.len() - at) as u64;
        let outputs = self.outputs.binary_search_by_key(&number, |(number, _)| *number);
        Some((self.newest_last[at], outputs.map_or(&[], |i| &self.outputs[i].1)))
    }
}

fn bytes_of(outputs: &[OpOutput]) -> usize {
    outputs.iter().map(|(_, data)| data.len() + OUTPUT_COST).sum()
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
        dups.record(record(2), &[]);
        let find = |client, inc, tid| dups.find(client, Incarnation(inc), Tid(tid));
        assert_eq!(find(7, 0, 1), Some((record(1), &[][..])));
        assert_eq!(find(7, 0, 2), Some((record(2), &[][..])));
        assert_eq!(find(7, 0, 3), None);
        assert_eq!(find(8, 0, 1), None);
        assert_eq!(find(7, 1, 1), None);
    }

    #[test]
    fn outputs_are_those_of_the_write() {
        let mut dups = Dups::new(vec![record(1)]);
        let outputs = [(1, Bytes::from_static(b"x"))];
        (2..5000).for_each(|tid| dups.record(record(tid), if tid % 3 == 0 { &outputs } else { &[] }));
        for tid in 2000..5000 {
            let (found, found_outputs) = dups.find(7, Incarnation(0), Tid(tid)).expect("among the newest");
            assert_eq!((found.tid, found_outputs.len()), (Tid(tid), usize::from(tid % 3 == 0)));
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut dups = Dups::default();
        (0..=RECORDS_MAX as u64).for_each(|tid| dups.record(record(tid), &[]));
        assert_eq!(dups.find(7, Incarnation(0), Tid(0)), None);
        assert!(dups.find(7, Incarnation(0), Tid(1)).is_some());
        let large = [(0, Bytes::from(vec![0; OUTPUT_BYTES_MAX / 2]))];
        (0..9).for_each(|tid| dups.record(record(tid), &large));
        assert!(dups.output_bytes <= OUTPUT_BYTES_MAX);
        assert_eq!(dups.outputs.len(), 1);
        (0..=RECORDS_MAX as u64).for_each(|tid| dups.record(record(tid), &[]));
        assert_eq!((dups.outputs.len(), dups.output_bytes), (0, 0));
    }
}
